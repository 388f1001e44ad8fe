"""Which launches are above this command: who launched it, who launched that one, and so on.

A launched agent is no descendant of the one that launched it: its runner leaves that process tree. So each record names
its launcher, and the marker in our environment names the launch that we descend from. What outlives its launch may have
inherited the marker; here that only leads to more caution.
"""

from __future__ import annotations

import os

from agentctl.launches import records
from agentctl.launches.records import MARKER
from agentctl.model import ALIVE, Launch, Launcher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from agentctl.model import ProcessKey, Session

MOST = 64  # launches above each other


def launch_around(env: Mapping[str, str]) -> Launch | None:
    """Return the launch that we descend from, by the marker in this environment; None if there is no record of it."""
    return recorded(env.get(MARKER), env)


def recorded(id: str | None, env: Mapping[str, str]) -> Launch | None:
    if id is None or not records.is_id(id):
        return None
    found = records.read_folder(id, os.path.join(records.launches_folder(env), id))
    return found if isinstance(found, Launch) else None


def above(env: Mapping[str, str]) -> tuple[Launch, ...]:
    """Return the launches that this command is in, the innermost first."""
    found: dict[str, Launch] = {}
    launch = launch_around(env)
    while launch is not None and launch.id not in found and len(found) < MOST:
        found[launch.id] = launch
        launch = recorded(launch.launcher.launch if launch.launcher is not None else None, env)
    return tuple(found.values())


def launcher_of(ancestors: Sequence[ProcessKey], sessions: Iterable[Session], env: Mapping[str, str]) -> Launcher:
    """Return who launches now: the session above this command, if there is one. `ancestors`: this command and what is
    above it, the nearest first. `sessions`: those that live."""
    of_keys = {
        str(entry["key"]): session
        for session in sessions
        if session.process == ALIVE and session.parent is None
        for entry in session.processes
    }
    key = next((key for key in ancestors if str(key) in of_keys), None)
    session = of_keys[str(key)] if key is not None else None
    around = launch_around(env) or recorded(session.launch_id if session is not None else None, env)
    depth = (around.launcher.depth if around is not None and around.launcher is not None else 0) + 1
    return Launcher(
        process=key or next(iter(ancestors[1:]), None),
        agent=session.agent if session is not None else None,
        session=session.id if session is not None else None,
        launch=around.id if around is not None else None,
        depth=depth if session is not None or around is not None else 0,
    )


def as_facts(launcher: Launcher, namespace: str | None) -> dict[str, object]:
    """Return a launcher as launch.json has it. `namespace`: the PID namespace in which its process key counts."""
    process = str(launcher.process) if launcher.process is not None else None
    return {**launcher._asdict(), "process": process, "pid_namespace": namespace}
