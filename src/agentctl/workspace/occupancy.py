"""Who is in a directory, and does that keep another agent out? Derived from a judgement each time, stored nowhere.

In the same directory: a session that works or waits blocks, and so does whatever we launched and still lives. A session
in mid-turn that one of several live processes may be on blocks, too. A foreign one at rest, or one that may be alive,
warns. In a directory above or below: what works warns. A manual lock holds below its directory, too. Our own ancestor
is told apart: an agent that starts a helper is not in its way by accident.

A directory is its device and inode, never its path (kernel/places.py). If it cannot be told in which directory a live
agent works, that counts as this one.
"""

from __future__ import annotations

from types import MappingProxyType

from agentctl.kernel import places
from agentctl.kernel.places import ABOVE, BELOW, SAME, Place
from agentctl.kernel.procfs import mounts_of
from agentctl.model import AGENT, ALIVE, DAEMON, UNKNOWN, WAITING, WORKING, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence

    from agentctl.kernel.processes import Processes
    from agentctl.model import Answer, Claim, Launch, ProcessKey, Session, Unattached

BLOCKS, WARNS, ANCESTOR = "blocks", "warns", "ancestor"
# The rules of the judge by which a session is unknown although somebody may be on it at this moment.
STRANGER = "stranger"  # a program that no agent recognises may be on it
PERHAPS = ("candidate", "newer", "supervised", STRANGER)
# Those of them by which a live process of its agent is in mid-turn, on this session or on one like it.
AT_WORK = ("candidate", "newer")
# Those by which a session in mid-turn is unknown because its process, if it lives, cannot be seen from here.
OUT_OF_SIGHT = ("elsewhere", "unseen")


class Lock(Value):
    """A directory that a person wants to keep agents out of."""

    directory: str  # its real path
    by: str
    reason: str | None
    created_at: float
    expires_at: float | None
    path: str = ""
    identity: tuple[int, int] | None = None  # device and inode when it was locked: it may have another path now
    born: int | None = None  # when the directory was made; None: its file system does not tell

    def expired(self, now: float) -> bool:
        return self.expires_at is not None and self.expires_at <= now


class Conflict(Value):
    kind: str  # blocks | warns | ancestor
    who: str  # a session id, a launch id, a pid where there is neither, or the name in a manual lock
    why: str


class Holder(Value):
    """Whoever is in a directory."""

    directory: str | None  # as it is recorded
    who: str
    agent: str
    why: str
    blocks: bool  # in this very directory
    works: bool  # also of interest above and below it
    since: float | None = None
    launch_id: str | None = None
    keys: tuple[str, ...] = ()  # of its processes
    pid: int | None = None  # where no key is known
    sure: bool = True  # False: if it lives, its process cannot be seen from here
    pids: tuple[int, ...] = ()  # of the processes whose own directory is where it works, unless they are daemons


class Where:
    """Finds the directories of holders and locks, by what they are."""

    def __init__(
        self,
        processes: Processes | None = None,
        claims: Iterable[Claim] = (),
        lately: Mapping[tuple[str, str], Sequence[str]] = MappingProxyType({}),
    ) -> None:
        """`lately`: of live sessions, by agent and id, the directories that their records name."""
        self._processes = processes
        self._lately = lately
        self._daemons = {claim.key.pid for claim in claims if claim.role == DAEMON}  # they work in any directory
        self._ours = mounts_of("self")

    def of(self, holder: Holder) -> list[Place]:
        """Return the directories that a holder works in: those of its processes, and the recorded ones, which may have
        been renamed since. Empty if none of them is there; a place without an identity cannot be told."""
        found: list[Place | None] = []
        elsewhere = False
        for pid in holder.pids:
            theirs = mounts_of(pid)
            if theirs is not None and theirs != self._ours:
                elsewhere = True
                found.append(self._seen_by(pid, holder.directory))
            process = self._processes.get(pid) if self._processes is not None and pid not in self._daemons else None
            if process is not None and self._processes is not None:
                found.append(self._processes.place(process))
        if not elsewhere:  # else those paths are of its own mounts
            lately = self._lately.get((holder.agent, holder.who), ())
            recorded = (*(() if holder.directory is None else (holder.directory,)), *lately)
            found += map(self.named, dict.fromkeys(recorded))
        return [place for place in found if place is not None]

    def lost(self, holder: Holder, theirs: Collection[Place]) -> bool:
        """Return whether this holder lives and keeps others out, and nothing tells from which directory."""
        told = any(place.at is not None for place in theirs)
        return holder.sure and holder.blocks and not told and not all(map(self._has_ended, holder.pids))

    def _has_ended(self, pid: int) -> bool:
        """Return whether a process that is in the table has given up its directory since: it has ended, or is ending,
        and works nowhere."""
        process = self._processes.get(pid) if self._processes is not None else None
        return process is not None and self._processes is not None and self._processes.place(process) is None

    def named(self, path: str) -> Place | None:
        return places.of_path(path)

    def of_lock(self, lock: Lock, near: str) -> list[Place]:
        """Return the directory that has the path of a lock now, and the one that had it when it was locked, unless the
        directory with its inode, at the path `near` or above it, is another one: it was made at another time."""
        now = self.named(lock.directory)
        found = [now] if now is not None else []
        moved = lock.identity is not None and (now is None or now.at != lock.identity)
        if moved and not is_a_stranger(lock, near):
            found.append(Place(lock.directory, lock.identity))
        return found

    def _seen_by(self, pid: int, path: str | None) -> Place | None:
        """Return the directory that a process with other mounts than ours means by a path."""
        return places.of_path(f"/proc/{pid}/root{path}") if path is not None and path.startswith("/") else None


def conflicts(
    here: Place,
    answer: Answer,
    manual: Iterable[Lock] = (),
    launches_alive: Iterable[Launch] = (),
    ancestors: Collection[ProcessKey] = (),
    where: Where | None = None,
) -> list[Conflict]:
    """What stands against another agent in this directory; what blocks comes first."""
    where = where or Where()
    found = []
    for lock in manual:
        if (related := nearest(where.of_lock(lock, here.name), here)) is not None:
            reason = f": {lock.reason}" if lock.reason else ""
            kind = WARNS if related[0] == BELOW else BLOCKS  # a lock holds for everything in its directory
            found.append(Conflict(kind, lock.by, f"locked by {lock.by}{in_words(*related, here)}{reason}"))
    keys, pids = {str(key) for key in ancestors}, {key.pid for key in ancestors}
    for holder in holders(answer, launches_alive):
        theirs = where.of(holder)
        related = nearest(theirs, here)
        lost = related is None and where.lost(holder, theirs)
        if not lost and (related is None or (related[0] != SAME and not holder.works)):
            continue
        told = ", and it cannot be told in which directory" if related is None else in_words(*related, here)
        why = f"{holder.agent} {holder.who} {holder.why}{told}"
        if related is not None and related[0] != SAME:
            found.append(Conflict(WARNS, holder.who, why))
        elif keys.intersection(holder.keys) or pids.intersection((holder.pid, *(() if holder.keys else holder.pids))):
            why = f"{holder.agent} {holder.who} is what started this command; give its helper a --worktree"
            found.append(Conflict(ANCESTOR, holder.who, why))
        else:
            found.append(Conflict(BLOCKS if holder.blocks else WARNS, holder.who, why))
    return sorted(found, key=lambda one: (BLOCKS, ANCESTOR, WARNS).index(one.kind))


def is_a_stranger(lock: Lock, near: str) -> bool:
    """Return whether the directory with the inode of a lock is another one than the locked one, which was removed."""
    if lock.born is None:
        return False
    theirs = places.birth(near, lock.identity)
    return theirs is not None and theirs != lock.born


def nearest(theirs: Iterable[Place], here: Place) -> tuple[str, Place] | None:
    """Return how one of these directories is related to this one, and which: the same before above before below."""
    found = [(related, place) for place in theirs if (related := places.relation(place, here)) is not None]
    return min(found, key=lambda one: (SAME, ABOVE, BELOW).index(one[0]), default=None)


def in_words(related: str, theirs: Place, here: Place) -> str:
    if related == SAME:
        return "" if theirs.name == here.name else f" in {theirs.name}, which is the same directory"
    return f" in {theirs.name}, {related} it"


def holders(answer: Answer, launches_alive: Iterable[Launch] = ()) -> Iterator[Holder]:
    """Each process or launch once: as its session, else as what no session explains, else by its launch record."""
    seen: set[str | None] = set()
    launches_alive = tuple(launches_alive)
    alive = {launch.id: launch for launch in launches_alive}
    for session in answer.sessions:
        if (holder := of_session(session, alive)) is not None:
            seen.add(session.launch_id)
            yield holder
    for one in answer.unattached:
        seen.add(one.launch_id)
        yield of_unattached(one, alive.get(one.launch_id or ""))
    for launch in launches_alive:
        if launch.id not in seen:
            yield of_launch(launch)


def of_launch(launch: Launch) -> Holder:
    why = "was launched, and is not at its session yet"
    if launch.child.namespace is not None:
        why = f"was launched in another PID namespace ({launch.child.namespace}), and may be alive there"
    return Holder(
        directory=launch.cwd,
        who=launch.id,
        agent=launch.agent,
        why=why,
        blocks=True,
        works=True,
        since=launch.created_at,
        launch_id=launch.id,
        keys=(str(launch.child),),
        sure=launch.child.namespace is None,
        pids=(launch.child.pid,) if launch.child.namespace is None else (),
    )


def of_session(session: Session, alive: Container[str | None] = ()) -> Holder | None:
    """Return what a session holds. `alive`: the launches whose own process lives. A session that was launched once, and
    that a person has resumed by hand, is no longer called launched."""
    if session.parent is not None:
        return of_sub_agent(session)
    perhaps = session.process == UNKNOWN and session.rule in PERHAPS
    unseen = session.process == UNKNOWN and session.rule in OUT_OF_SIGHT and session.turn in (WORKING, WAITING)
    if not (session.process == ALIVE or perhaps or unseen):
        return None
    at_work = perhaps and session.rule in AT_WORK and session.turn in (WORKING, WAITING)
    works = session.process == ALIVE and session.turn in (WORKING, WAITING)
    ours = session.process == ALIVE and session.launch_id is not None
    keys = (session.process_key, *(entry.get("key") for entry in session.processes))
    return Holder(
        directory=session.cwd,
        who=session.id,
        agent=session.agent,
        why=why_it_holds(session, ours=ours and session.launch_id in alive),
        blocks=works or ours or unseen or at_work,
        works=works,
        since=session.started_at,
        launch_id=session.launch_id,
        keys=tuple(key for key in keys if isinstance(key, str)),
        sure=not unseen and session.rule != STRANGER,
        pids=pids_of(session),
    )


def of_sub_agent(session: Session) -> Holder | None:
    """Return what a sub-agent in mid-turn holds: only the directory that its own record names. Its process, which is
    that of its parent, may be in another one."""
    if session.turn not in (WORKING, WAITING) or session.process not in (ALIVE, UNKNOWN) or session.cwd is None:
        return None
    return Holder(
        directory=session.cwd,
        who=session.id,
        agent=session.agent,
        why=f"is {session.status}, a sub-agent of {session.parent}",
        blocks=True,
        works=True,
        since=session.started_at,
        launch_id=session.launch_id,
        keys=tuple(key for key in (session.process_key,) if key is not None),
        sure=session.process == ALIVE,
    )


def pids_of(session: Session) -> tuple[int, ...]:
    """Return the processes that are on a session, or may be; without their wrappers."""
    if session.process != ALIVE:
        return session.may_be_open_in
    pids = [entry.get("pid") for entry in session.processes if entry.get("role") == AGENT] or [session.pid]
    return tuple(pid for pid in pids if isinstance(pid, int))


def why_it_holds(session: Session, *, ours: bool) -> str:
    if session.process == UNKNOWN:
        sure = session.rule in PERHAPS and session.rule != STRANGER
        return "may be alive" if sure else f"may be alive ({session.reason})"
    return f"is {session.status}" + (", launched by agentctl" if ours else "")


def of_unattached(one: Unattached, launch: Launch | None = None) -> Holder:
    """Return what a live process without a session holds. `launch`: the one that it is of, if that lives."""
    ours = one.launch_id is not None
    return Holder(
        directory=one.cwd or (launch.cwd if launch is not None else None),
        who=one.launch_id or f"pid {one.pid}",
        agent=one.agent,
        why=f"lives (pid {one.pid}), on a session that is not known",
        blocks=ours or one.lost,
        works=ours or one.lost,
        launch_id=one.launch_id,
        pid=one.pid,
        pids=(one.pid,) if one.pid is not None else (),
    )


def launches_that_live(launches: Iterable[Launch], processes: Processes) -> list[Launch]:
    """Return the launches whose own process lives, with the key that it has here, and those whose process was recorded
    in another PID namespace and may live there. What else descends from one is found as a session, or unattached."""
    here = (launch._replace(child=processes.own(launch.child)) for launch in launches)
    return [launch for launch in here if processes.alive(launch.child) is not None or is_elsewhere(launch, processes)]


def is_elsewhere(launch: Launch, processes: Processes) -> bool:
    return launch.child.namespace is not None and not processes.gone(launch.child)
