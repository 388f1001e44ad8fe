"""Several processes on one session: which of them are proved to be on it by something that no other process can write.

A file of a store names a process, and every program of the same user can write that file. If one process is named so,
the file is all that there is. If two are said to be on one session, one of the files may be forged, to have a process
ended that is on another session. The arguments of a process are its own, and so are the files that it has open for
writing; our record of a launch is written before its agent runs.
"""

from __future__ import annotations

from agentctl.errors import Refused
from agentctl.model import ALIVE, WRAPPER, terminal_of
from agentctl.query.link_check import is_beside
from agentctl.stop.plan import keys_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from agentctl.model import Process, ProcessKey, Session
    from agentctl.query.world import World


def refuse_if_only_files_name(session: Session, only: Collection[ProcessKey], world: World) -> None:
    """Raise Refused if several processes are meant, and nothing but a file says of one that it is on the session."""
    keys = [key for key in keys_of(session) if key in only and session.process == ALIVE]
    doubtful = [key for key in keys if is_only_noted(key, session, world)] if len(keys) > 1 else []
    if not doubtful:
        return
    pids = ", ".join(str(key.pid) for key in doubtful)
    one, id = doubtful[0], session.id
    raise Refused(
        f"session {session.id}: {len(keys)} processes are said to be on it: "
        f"{', '.join(described(key, world) for key in keys)}; of pid {pids} only a file says so, which other programs "
        f"can write; to end one of them: agentctl stop {id} --pid {one.pid}; to end all: agentctl stop {id} --force"
    )


def described(key: ProcessKey, world: World) -> str:
    """Return what tells a process from the others, for people."""
    row = world.processes.alive(key)
    details = world.processes.details(row) if row is not None else None
    where = (terminal_of(row.tty) or {}).get("tty") if row is not None else None
    facts = filter(None, (row.comm if row is not None else "gone", where, details.cwd if details is not None else None))
    return f"pid {key.pid} ({', '.join(facts)})"


def is_only_noted(key: ProcessKey, session: Session, world: World) -> bool:
    """Return whether files of the store are all that links this process to the session."""
    links = [link for link in world.links if (link.key, link.agent, link.id) == (key, session.agent, session.id)]
    if not links or not all(link.noted for link in links):
        return False  # the kernel, a launch, or the judge says so, too
    row = world.processes.alive(key)
    if row is None:
        return True
    details = world.processes.details(row)
    if details is not None and names(details.argv or (), session.id):
        return False
    if any(one.session_id == session.id and key in one.agents for one in world.launches):
        return False
    return not writes_beside([link.path for link in links if link.path], row, world)


def names(argv: Iterable[str], id: str) -> bool:
    """Return whether a word of these arguments is this session id, or an option with it."""
    return any(word == id or word.endswith(f"={id}") for word in argv)


def writes_beside(paths: Iterable[str], row: Process, world: World) -> bool:
    """Return whether the process has a file open for writing in the folder of its session."""
    written = [path for path, _ in world.processes.written_files(row) or ()]
    return any(is_beside(path, written) for path in paths)


def narrowed(pid: int | None, session: Session, only: frozenset[ProcessKey], world: World) -> frozenset[ProcessKey]:
    """Return the process of this pid among those that are meant, with the wrappers around it; all, if no pid was named,
    or the session has ended. Raises Refused."""
    if pid is None or session.process != ALIVE:
        return only
    key = next((key for key in keys_of(session) if key.pid == pid and key in only), None)
    if key is None:
        known = ", ".join(str(key.pid) for key in keys_of(session)) or "none"
        raise Refused(f"session {session.id}: pid {pid} is not on it; the processes on it: {known}")
    around = world.processes.ancestors(pid)
    return frozenset((key, *(one for one in keys_of(session, WRAPPER) if one in around)))
