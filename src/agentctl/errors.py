"""Everything agentctl can fail with, one exit code each.

AgentctlError            1  something failed
├── LaunchFailed         1  an agent could not be started
├── UsageError           2  the command was not understood
├── NotFound             3  no such session
│   └── Ambiguous        3  several sessions begin like this
├── TimedOut           124  it did not happen in time
├── Refused              4  a lock, or an identity that could not be proved
├── TruthUnavailable     5  the answer cannot be known (--strict, wait on an unknown, a text that may have arrived)
├── Interrupted        130  somebody pressed Ctrl-C before it was done
└── NoSessionYet         0  an agent waits for a person before it begins a session; it is left running

A message names the path or the pid and ends with what to do next.
"""

from __future__ import annotations

SHOWN = 20


class AgentctlError(Exception):
    exit_code = 1


class LaunchFailed(AgentctlError):
    """`errno` and `step` as the runner told them. No agent runs, unless `perhaps`: nobody could be asked any more."""

    def __init__(
        self,
        why: str,
        launch_id: str,
        *,
        errno: int | None = None,
        step: str | None = None,
        perhaps: bool = False,
    ) -> None:
        self.launch_id = launch_id
        self.errno = errno
        self.step = step
        self.perhaps = perhaps
        super().__init__(why)


class UsageError(AgentctlError):
    exit_code = 2


class NotFound(AgentctlError):
    exit_code = 3


class Ambiguous(NotFound):
    def __init__(self, prefix: str, candidates: list[str]) -> None:
        self.candidates = candidates
        shown = "\n".join(f"  {candidate}" for candidate in candidates[:SHOWN])
        if len(candidates) > SHOWN:
            shown += f"\n  and {len(candidates) - SHOWN} more"
        super().__init__(f"{prefix!r} is the beginning of {len(candidates)} session ids; use more of it:\n{shown}")


class Refused(AgentctlError):
    exit_code = 4


class TimedOut(AgentctlError):
    exit_code = 124


class Interrupted(AgentctlError):
    exit_code = 130


class TruthUnavailable(AgentctlError):
    exit_code = 5


class NoSessionYet(AgentctlError):
    exit_code = 0

    def __init__(self, why: str, launch_id: str) -> None:
        self.launch_id = launch_id
        super().__init__(why)
