"""Who is in a directory, and does that keep another agent out? Derived from a judgement each time, stored nowhere.

In the same directory: a session that works or waits blocks, and so does whatever we launched and still lives. A
foreign one at rest, or one that may be alive, warns. In a directory above or below: what works warns. Our own ancestor
is told apart: an agent that starts a helper is not in its way by accident.
"""

from __future__ import annotations

from agentctl.model import ALIVE, UNKNOWN, WAITING, WORKING, Value
from agentctl.stores import real_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from agentctl.model import Answer, Launch, ProcessKey, Session, Unattached
    from agentctl.processes import Processes

BLOCKS, WARNS, ANCESTOR = "blocks", "warns", "ancestor"
# The rules of the judge by which a session is unknown although somebody may be on it at this moment.
PERHAPS = ("candidate", "newer", "supervised")


class Lock(Value):
    """A directory that a person wants to keep agents out of."""

    directory: str  # its real path
    by: str
    reason: str | None
    created_at: float
    expires_at: float | None
    path: str = ""

    def expired(self, now: float) -> bool:
        return self.expires_at is not None and self.expires_at <= now


class Conflict(Value):
    kind: str  # blocks | warns | ancestor
    who: str  # a session id, a launch id, a pid where there is neither, or the name in a manual lock
    why: str


class Holder(Value):
    """Whoever is in a directory."""

    directory: str  # as it is recorded
    who: str
    agent: str
    why: str
    blocks: bool  # in this very directory
    works: bool  # also of interest above and below it
    since: float | None = None
    launch_id: str | None = None
    keys: tuple[str, ...] = ()  # of its processes
    pid: int | None = None  # where no key is known


def conflicts(
    directory: str,
    answer: Answer,
    manual: Iterable[Lock] = (),
    launches_alive: Iterable[Launch] = (),
    ancestors: Collection[ProcessKey] = (),
    real: Callable[[str], str] = real_path,
) -> list[Conflict]:
    """What stands against another agent in this directory, which is a real path; what blocks comes first."""
    found = []
    for lock in manual:
        if (where := relation(lock.directory, directory)) is not None:
            reason = f": {lock.reason}" if lock.reason else ""
            found.append(Conflict(WARNS if where else BLOCKS, lock.by, f"locked by {lock.by}{where}{reason}"))
    keys, pids = {str(key) for key in ancestors}, {key.pid for key in ancestors}
    for holder in holders(answer, launches_alive):
        where = relation(real(holder.directory), directory)
        if where is None or (where and not holder.works):
            continue
        why = f"{holder.agent} {holder.who} {holder.why}{where}"
        if where:
            found.append(Conflict(WARNS, holder.who, why))
        elif keys.intersection(holder.keys) or holder.pid in pids:
            why = f"{holder.agent} {holder.who} is what started this command; give its helper a --worktree"
            found.append(Conflict(ANCESTOR, holder.who, why))
        else:
            found.append(Conflict(BLOCKS if holder.blocks else WARNS, holder.who, why))
    return sorted(found, key=lambda one: (BLOCKS, ANCESTOR, WARNS).index(one.kind))


def relation(theirs: str, ours: str) -> str | None:
    """Empty: the same directory. None: neither is in the other."""
    if theirs == ours:
        return ""
    if ours.startswith(theirs.rstrip("/") + "/"):
        return f" in {theirs}, above it"
    if theirs.startswith(ours.rstrip("/") + "/"):
        return f" in {theirs}, below it"
    return None


def holders(answer: Answer, launches_alive: Iterable[Launch] = ()) -> Iterator[Holder]:
    """Each process or launch once: as its session, else as what no session explains, else by its launch record."""
    seen: set[str | None] = set()
    for session in answer.sessions:
        if (holder := of_session(session)) is not None:
            seen.add(session.launch_id)
            yield holder
    for one in answer.unattached:
        if one.cwd is not None:
            seen.add(one.launch_id)
            yield of_unattached(one, one.cwd)
    for launch in launches_alive:
        if launch.id not in seen:
            why = "was launched, and is not at its session yet"
            yield Holder(
                launch.cwd, launch.id, launch.agent, why, True, True, launch.created_at, launch.id, (str(launch.child),)
            )


def of_session(session: Session) -> Holder | None:
    perhaps = session.process == UNKNOWN and session.rule in PERHAPS
    if session.cwd is None or not (session.process == ALIVE or perhaps):
        return None
    works = session.process == ALIVE and session.turn in (WORKING, WAITING)
    ours = session.process == ALIVE and session.launch_id is not None
    keys = (session.process_key, *(entry.get("key") for entry in session.processes))
    return Holder(
        directory=session.cwd,
        who=session.id,
        agent=session.agent,
        why="may be alive" if perhaps else f"is {session.status}" + (", launched by agentctl" if ours else ""),
        blocks=works or ours,
        works=works,
        since=session.started_at,
        launch_id=session.launch_id,
        keys=tuple(key for key in keys if isinstance(key, str)),
    )


def of_unattached(one: Unattached, cwd: str) -> Holder:
    ours = one.launch_id is not None
    return Holder(
        directory=cwd,
        who=one.launch_id or f"pid {one.pid}",
        agent=one.agent,
        why=f"lives (pid {one.pid}), on a session that is not known",
        blocks=ours,
        works=ours,
        launch_id=one.launch_id,
        pid=one.pid,
    )


def launches_that_live(launches: Iterable[Launch], processes: Processes) -> list[Launch]:
    """Those whose own process lives; what else descends from one is found as a session, or unattached."""
    return [launch for launch in launches if processes.alive(launch.child) is not None]


def ancestors_of(pid: int, processes: Processes) -> tuple[ProcessKey, ...]:
    """The processes that this one comes from, itself included."""
    found: dict[int, ProcessKey] = {}
    while (row := processes.get(pid)) is not None and pid not in found:
        found[pid] = row.key
        pid = row.parent
    return tuple(found.values())
