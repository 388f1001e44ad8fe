"""What a launch promised and cannot keep, because its runner is gone: the kernel or a reboot may have ended it.

The runner keeps the time limit of a launch and runs its on-complete. Nobody else does, so a promise that is open when
the runner is gone is lost. It is named, with the command that a person can run instead.
"""

from __future__ import annotations

import os

from agentctl.durations import span
from agentctl.launches import hooks, records
from agentctl.model import Launch, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agentctl.kernel.processes import Processes

LIMIT = "time-limit"


class Lost(Value):
    """A promise that nobody keeps any more."""

    launch_id: str
    what: str  # on-complete, or time-limit
    said: str
    command: str | None  # what a person can run instead


def lost(launch: Launch, processes: Processes) -> list[Lost]:
    """Return what this launch promised and nobody keeps. The process table must be older than this call: a runner may
    run the hook and end a moment later."""
    has_hook = any(name == hooks.ON_COMPLETE for name, _ in launch.hooks)
    if not (has_hook or launch.time_limit is not None) or not processes.gone(launch.runner):
        return []
    over = processes.gone(launch.child)
    found = [hook_of(launch, over=over)] if has_hook else []
    found += [limit_of(launch)] if not over else []
    return [one for one in found if one is not None]


def hook_of(launch: Launch, *, over: bool) -> Lost | None:
    folder = os.path.dirname(launch.path or "")
    gone = f"the runner of launch {launch.id} is gone"
    command = f"agentctl _over {launch.id}"
    if not hooks.completed(folder):
        words = "was not run" if over else "will not be run"
        when = "run it yourself" if over else "run it yourself once its session has ended"
        said = f"{hooks.ON_COMPLETE} {words}: {gone}; {when}: {command}"
        return Lost(launch.id, hooks.ON_COMPLETE, said, command)
    if any(ran.name == hooks.ON_COMPLETE for ran in hooks.results(folder)):
        return None
    log = os.path.join(folder, records.COMMANDS)
    said = f"{hooks.ON_COMPLETE} was begun, and how it ended is not known: {gone}; {log} has what it printed"
    return Lost(launch.id, hooks.ON_COMPLETE, said, None)


def limit_of(launch: Launch) -> Lost | None:
    if launch.time_limit is None:
        return None
    command = f"agentctl stop {launch.id}"
    gone = f"the runner of launch {launch.id} is gone"
    said = f"its time limit of {span(launch.time_limit)} is not kept: {gone}; to end it: {command}"
    return Lost(launch.id, LIMIT, said, command)


def lost_of(ids: Iterable[str], env: Mapping[str, str]) -> list[Lost]:
    """Return what the launches of these ids promised and nobody keeps. It looks at the processes only if one of them
    has promised something."""
    from agentctl.kernel import processes

    found = [records.read_folder(id, os.path.join(records.launches_folder(env), id)) for id in dict.fromkeys(ids)]
    launches = [one for one in found if isinstance(one, Launch) and (one.hooks or one.time_limit is not None)]
    if not launches:
        return []
    table = processes.snapshot()
    return [one for launch in launches for one in lost(launch, table)]
