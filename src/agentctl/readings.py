"""Reading the stores, each in a thread of its own: none of them may hold up the others.

A store on a dead mount blocks whoever touches it, also by asking for its real path. So nothing here, in the agents or
in roots.py touches a path below a store outside of these threads.
"""

from __future__ import annotations

import os
import time
from _thread import allocate_lock, get_ident, start_new_thread  # threading takes 4 ms to import

from agentctl import roots
from agentctl.model import Problem, Value
from agentctl.stores import is_session_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from agentctl.agents import Agent, Candidates, Store
    from agentctl.model import Claim, Details, Link, Process, ProcessKey, Record, Supervisor
    from agentctl.processes import Processes

STALL = 1.4  # a store that makes no progress for this long is a problem, not an absence
GLANCE = 0.1
WORK = 0.005  # seconds of CPU that count as progress; one that only polls does not come to that
MOST_WORK = 10.0  # seconds of CPU after which only what was done counts: no step of ours takes that long
HEAD_START = 0.05
MANY = 50  # records: fewer are read themselves at once
RECENT = 7 * 24 * 60 * 60
CLOCK_GRAIN = 0.02  # file times are taken from the kernel's coarse clock, up to a tick behind

Stamp = tuple[int, int]  # (when it was written in ns, size) of a record


class Scope(Value):
    """What is asked for. It chooses what is shown and read, never what is true."""

    agents: tuple[str, ...] | None = None
    since: float | None = None  # None: only what is alive or unknown
    prefix: str | None = None
    ids: tuple[str, ...] | None = None  # these very sessions, and no other
    children: bool = False
    tokens: bool = False
    brief: bool = False  # of stored sessions only what the row of a table shows
    every_launch: bool = True  # also those of nothing that is asked for: whoever acts looks through them


class Errand:
    """Something that is done in a thread of its own, and may not come back."""

    def __init__(self) -> None:
        self.progress = 0
        self.stalled = False
        self.unread: str | None = None  # why there is no answer
        self.clock: int | None = None  # of the CPU time of its thread

    def pace(self) -> int:
        """Grows while it gets on: with what it has done, and with the time that its thread was given. On a machine that
        is too busy even a single step takes long; a thread that waits for a dead mount is given none."""
        return self.progress + self.worked()

    def worked(self) -> int:
        try:
            worked = time.clock_gettime(self.clock) if self.clock is not None else 0.0
        except OSError:
            worked = 0.0  # the thread has ended
        return int(min(worked, MOST_WORK) / WORK)


class Reading(Errand):
    """One store of one agent, as far as it was read."""

    def __init__(self, agent: Agent, store: Store) -> None:
        super().__init__()
        self.agent = agent
        self.store = store
        self.absent = False
        self.identity: tuple[int, int] | None = None  # of its folder: two paths may lead to one store
        self.incomplete: str | None = None
        self.links: list[Link] = []
        self.supervisors: list[Supervisor] = []
        self.options: dict[ProcessKey, tuple[str, Candidates]] = {}  # of live processes: role, and what each can be on
        self.has = False  # the very session that is asked for, by its whole id
        self.records: dict[str, Record] = {}
        self.asked: set[str] = set()  # the sessions whose record was asked for
        self.stamps: dict[str, Stamp] = {}

    @property
    def usable(self) -> bool:
        return not self.absent and self.unread is None


def survey(
    agents: list[Agent], known: Mapping[str, list[str]], stalled: Mapping[tuple[str, str], str]
) -> list[Reading]:
    """Open every store and read what names processes. `stalled`: those that did not answer a moment ago."""
    found = [Reading(agent, agent.open_store(root)) for agent in agents for root in known.get(agent.NAME, ())]
    for reading in found:
        reading.unread = stalled.get((reading.agent.NAME, reading.store.root))
        reading.stalled = reading.unread is not None
    in_parallel([(reading, survey_one(reading)) for reading in found if reading.usable])
    return found


def survey_one(reading: Reading) -> Callable[[], None]:
    def run() -> None:
        try:
            reading.identity = roots.identity(reading.store.root)
            reading.store.survey()
        except FileNotFoundError:
            reading.absent = True  # the agent was never used here

    return run


def without_copies(found: list[Reading]) -> list[Reading]:
    """Two paths may lead to one store: it is read once."""
    seen: set[tuple[str, tuple[int, int]]] = set()
    kept = []
    for reading in found:
        if reading.identity is None or (reading.agent.NAME, reading.identity) not in seen:
            kept.append(reading)
        if reading.identity is not None:
            seen.add((reading.agent.NAME, reading.identity))
    return kept


def link_all(reading: Reading, live: list[tuple[Process, Details, str]], processes: Processes) -> Callable[[], None]:
    """Which process is on which session, and what the others of `live` (process, details, role) can be on."""

    def run() -> None:
        reading.incomplete = processes.incomplete_for(reading.store.root)
        reading.links = [link for link in reading.store.links(processes) if usable_id(reading, link.id)]
        reading.supervisors = [one for one in reading.store.supervisors(processes) if usable_id(reading, one.id)]
        linked = {link.key for link in reading.links}
        for process, details, claimed in live:
            if process.key not in linked or reading.agent.RUNS_MANY:
                role = reading.store.role(process, details, claimed, processes)
                started = processes.started_at(process.key)
                options = reading.store.candidates(process, details, started)
                if options.ids is not None:
                    options.ids = tuple(id for id in options.ids if usable_id(reading, id))
                reading.options[process.key] = role, options
            reading.progress += 1

    return run


def look_for(reading: Reading, id: str) -> Callable[[], None]:
    def run() -> None:
        reading.has = is_session_id(id) and reading.store.has(id)

    return run


def read_records(
    reading: Reading,
    scope: Scope,
    claims: tuple[Claim, ...],
    processes: Processes,
    stamps: Mapping[str, Stamp],
    cache: str | None = None,
    *,
    whole_id: bool = False,
) -> Callable[[], None]:
    """The records that matter to this question. `cache`: a folder for what can be derived from stored ones.
    `whole_id`: a store has the very session that is asked for, so it is no matter which others begin like it."""
    matches: set[str] = set()

    def read_one(id: str) -> None:
        if not usable_id(reading, id):
            return
        reading.asked.add(id)
        if id not in reading.records:
            meant = matches == {id} or id in (scope.ids or ())
            record = reading.store.record(id, tokens=scope.tokens and meant)
            if record is not None:
                reading.records[id] = with_freshness(record, reading, processes.taken_at, stamps)
        reading.progress += 1

    def run() -> None:
        if scope.prefix is not None and whole_id:
            matches.update([scope.prefix] if reading.has else [])
        elif scope.prefix is not None:
            matches.update(reading.store.find(scope.prefix))
        matches.update(scope.ids or ())
        # What a process is on, or may be on. One that is surely gone has ended: read only if ended ones are asked for.
        unsettled = [link for link in reading.links if not surely_gone(link, reading, processes)]
        wanted = dict.fromkeys(link.id for link in unsettled)
        wanted.update(dict.fromkeys(one.id for one in reading.supervisors if processes.alive(one.key)))
        mine = [
            claim for claim in claims if claim.agent == reading.agent.NAME and claim.store in (None, reading.store.root)
        ]
        wanted.update(dict.fromkeys(id for claim in mine for id in claim.candidates or ()))
        unsure = reading.incomplete is not None or any(claim.candidates is None for claim in mine)
        for id in wanted:  # what may be alive is read itself, whatever is known of it
            read_one(id)
        stored: dict[str, None] = {}
        if scope.since is not None or unsure:
            since = time.time() - RECENT if scope.since is None else scope.since
            for id in reading.store.recent(since):
                stored[id] = None
                reading.progress += 1
        if cache is not None and len(stored) >= MANY:
            from agentctl.derived import Derived

            derived = Derived(cache, reading.agent.NAME, reading.store.root, brief=scope.brief)
            reading.store.derived = derived if derived.load(len(stored)) else None
        for id in (*stored, *sorted(matches)):
            read_one(id)
        if reading.store.derived is not None:
            reading.store.derived.save(whole=scope.since == 0.0)
            reading.store.derived = None
        below = [id for id in reading.records if scope.prefix is None or id.startswith(scope.prefix)]
        walked = set(below)
        for id in below if scope.children else ():  # grows: sub-agents have sub-agents
            for child in reading.store.children(id):
                read_one(child)
                if child not in walked:
                    walked.add(child)
                    below.append(child)
        above = list(reading.records)
        for id in above:  # grows up to the top
            parent = reading.records[id].parent if id in reading.records else None
            if parent is not None and parent not in reading.asked:
                read_one(parent)
                above.append(parent)

    return run


def read_copies(
    reading: Reading, found: list[Reading], processes: Processes, stamps: Mapping[str, Stamp]
) -> Callable[[], None]:
    """What another store of the agent has of a session is read here, too: every question is judged from all of it."""

    def run() -> None:
        others = [one for one in found if one.agent is reading.agent]
        wanted = {id for one in others for id in list(one.asked)}
        for id in sorted(wanted - reading.asked):
            record = reading.store.record(id)
            if record is not None:
                reading.records[id] = with_freshness(record, reading, processes.taken_at, stamps)
            reading.progress += 1
        reading.links = [
            reading.store.observe(link, reading.records.get(link.id), processes) if processes.alive(link.key) else link
            for link in reading.links
            if link.id in wanted
        ]

    return run


def usable_id(reading: Reading, id: str) -> bool:
    """What a store calls a session, and cannot be one: told, and not followed."""
    if is_session_id(id):
        return True
    reading.store.problems.append(
        Problem(reading.agent.NAME, f"no name for a session: {id[:80]!r}", reading.store.root)
    )
    return False


def surely_gone(link: Link, reading: Reading, processes: Processes) -> bool:
    return reading.incomplete is None and link.here is not False and processes.gone(link.key)


def with_freshness(record: Record, reading: Reading, taken_at: float, stamps: Mapping[str, Stamp]) -> Record:
    """Mark a record that was written after the process table was read, by its time or by an earlier look."""
    if record.path is None:
        return record
    if record.stamp is not None:
        name, written, stamp = record.path, record.stamp[0] / 1e9, record.stamp
    elif record.written_at is not None:
        name, written, stamp = f"{record.path}#{record.id}", record.written_at, (int(record.written_at * 1e9), 0)
    else:
        try:
            found = os.stat(record.path)  # after the reading: what was read is not newer than this
        except OSError:
            return record
        name, written, stamp = record.path, found.st_mtime, (found.st_mtime_ns, found.st_size)
    reading.stamps[name] = stamp
    fresh = written >= taken_at - CLOCK_GRAIN and stamps.get(name) != stamp
    return record._replace(fresh=True) if fresh else record


class Done:
    """The end of an errand, for one to wait for."""

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._lock.acquire()

    def set(self) -> None:
        """Once."""
        self._lock.release()

    def is_set(self) -> bool:
        return not self._lock.locked()

    def wait(self, seconds: float) -> bool:
        """Is it set, by then?"""
        if over := self._lock.acquire(timeout=seconds):
            self._lock.release()
        return over


def in_parallel(jobs: Sequence[tuple[Errand, Callable[[], None]]]) -> None:
    """Run each job in a thread of its own: one that makes no progress for a while is left behind and named.

    Each has a moment for itself before the next one starts, and as long as it works and does not wait. So stores that
    answer at once are read one after the other, which costs less than threads that take the interpreter from each other
    with every system call.
    """
    running: dict[Errand, tuple[Done, int, float]] = {}  # its end, its pace at that moment
    waiting = list(reversed(jobs))
    while running or waiting:
        if waiting:
            errand, run = waiting.pop()
            done = Done()
            errand.clock = None  # that of its last thread has ended
            running[errand] = done, errand.pace(), time.monotonic()
            start_new_thread(guarded, (errand, run, done))
            wait_while_it_works(errand, done)
        else:
            next(iter(running.values()))[0].wait(GLANCE)
        for errand, (done, pace, since) in list(running.items()):
            now = time.monotonic()
            if done.is_set():
                del running[errand]
            elif errand.pace() != pace:
                running[errand] = done, errand.pace(), now
            elif now - since >= STALL:
                errand.stalled, errand.unread = True, f"its store did not answer within {STALL:g} s"
                del running[errand]


def wait_while_it_works(errand: Errand, done: Done) -> None:
    before = 0
    while not done.wait(HEAD_START) and (worked := errand.worked()) != before:
        before = worked


def guarded(errand: Errand, run: Callable[[], None], done: Done) -> None:
    if hasattr(time, "pthread_getcpuclockid"):  # not on macOS
        errand.clock = time.pthread_getcpuclockid(get_ident())
    try:
        run()
    except OSError as error:
        errand.unread = error.strerror or str(error)
    except Exception as error:  # the edge of a thread: a fault in one agent's module is a problem, never an absence
        if os.environ.get("AGENTCTL_DEBUG"):
            raise
        errand.unread = f"{type(error).__name__}: {error}"
    finally:
        done.set()
