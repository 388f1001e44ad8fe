"""The errors of agentctl, each with its exit code.

AgentctlError            1  something failed
├── LaunchFailed         1  an agent could not be started
├── AgentFault           1  the module of an agent failed: nothing is known about its sessions
├── MissingProgram       1  an agent, or a program that agentctl needs, is not installed
├── UsageError           2  the command line or the configuration is wrong
├── NotFound             3  no such session, and everything could be read
│   └── Ambiguous        3  several sessions match
├── TimedOut           124  it did not happen in time
├── Refused              4  a lock forbids it, or an identity could not be proved
├── TruthUnavailable     5  agentctl cannot know (--strict, wait on an unknown, a text that may have arrived, something
│                           that was not found while not everything could be read)
├── Interrupted        130  the user pressed Ctrl-C
└── NoSessionYet         0  the agent waits for a person before it begins a session; it is left running

A message is one line: it names the path or the pid, says what is wrong, and ends with what to do next.
"""

from __future__ import annotations

import os

SHOWN = 20


def show_traceback(error: BaseException) -> None:
    """With AGENTCTL_DEBUG=1, print where an error comes from on stderr. The answer stays the same."""
    if os.environ.get("AGENTCTL_DEBUG"):
        import traceback

        traceback.print_exception(error)


class AgentctlError(Exception):
    exit_code = 1


class LaunchFailed(AgentctlError):
    """`errno` and `step` come from the runner. No agent runs, unless `perhaps`: the runner did not answer."""

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


class AgentFault(AgentctlError):
    """`part` of an agent's package failed; `why` says so without the agent's name."""

    def __init__(self, agent: str, part: str, error: Exception) -> None:
        self.agent = agent
        self.why = f"its {part} failed: {type(error).__name__}: {error}"
        super().__init__(f"{agent}: {self.why}")


class MissingProgram(AgentctlError):
    pass


class UsageError(AgentctlError):
    exit_code = 2


class NotFound(AgentctlError):
    exit_code = 3


class Ambiguous(NotFound):
    def __init__(self, prefix: str, candidates: list[str], *, what: str = "") -> None:
        self.candidates = candidates
        shown = "\n".join(f"  {candidate}" for candidate in candidates[:SHOWN])
        if len(candidates) > SHOWN:
            shown += f"\n  and {len(candidates) - SHOWN} more"
        if what:
            super().__init__(f"{what} {prefix!r} is on {len(candidates)} sessions; give one of these ids:\n{shown}")
        else:
            super().__init__(f"{len(candidates)} session ids begin with {prefix!r}; give more of the id:\n{shown}")


class SeveralGroups(NotFound):
    def __init__(self, group: str, repositories: list[str]) -> None:
        self.repositories = repositories
        shown = "\n".join(f"  {one}" for one in repositories[:SHOWN])
        super().__init__(f"group {group!r} is in {len(repositories)} places; run this in one of them:\n{shown}")


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


def shown_command(*words: str) -> str:
    """Return a command for a person to copy: whatever the names in it are, a shell takes it for this one command."""
    import shlex

    return shlex.join(words)


def remedy(error: OSError) -> str:
    """Return what a person can do about a file that cannot be written."""
    import errno

    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "make room there"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "make it writable for you"
    return "look at what is there"
