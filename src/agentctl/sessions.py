"""The one query path. list, status, why and the Python API all come through here, so they cannot disagree.

The order of reading matters (docs/architecture.md): the small files that name processes, then the process table,
then the records. So how a session ended is judged only from bytes read after its process was seen to be gone.
"""

from __future__ import annotations

import os
import threading
import time

from agentctl import processes as process_table
from agentctl import roots
from agentctl.agents import TABLE, load_all, resolve
from agentctl.errors import Ambiguous, NotFound, UsageError
from agentctl.judge import World, judge, sole_links
from agentctl.model import (
    AGENT,
    ALIVE,
    CLIENT,
    DAEMON,
    HELPER,
    UNKNOWN,
    Answer,
    Claim,
    Details,
    Link,
    Problem,
    Process,
    Record,
    Session,
    StoreView,
    Supervisor,
    Value,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from agentctl.agents import Agent, Store
    from agentctl.processes import Processes

STALL = 1.4  # a store that makes no progress for this long is a problem, not an absence
SECOND_LOOK = 0.15
LOOKS = 3
CLOCK_GRAIN = 0.02  # file times are taken from the kernel's coarse clock, up to a tick behind
RECENT = 7 * 24 * 60 * 60
CORE_ENV = ("HOME", "TMUX", "TMUX_PANE", "AGENTCTL_LAUNCH")


Stamp = tuple[int, int]  # (when it was written in ns, size) of a record


class Scope(Value):
    """What is asked for. It chooses what is shown and read, never what is true."""

    agents: tuple[str, ...] | None = None
    since: float | None = None  # None: only what is alive or unknown
    prefix: str | None = None
    children: bool = False
    tokens: bool = False


def query(scope: Scope, env: Mapping[str, str] | None = None) -> Answer:
    environment = dict(os.environ if env is None else env)
    agents = load_all(chosen(scope.agents))
    stamps: dict[str, Stamp] = {}
    for attempt in range(LOOKS):
        found = look(agents, scope, environment, stamps)
        # Look again at two states that look alike for a moment (once), and at what was written while we looked.
        if not (found.moving or (found.doubtful and attempt == 0)):
            break
        stamps = found.stamps
        time.sleep(SECOND_LOOK)
    return found.answer


def one(prefix: str, env: Mapping[str, str] | None = None) -> Answer:
    """The session that this is the id, or the beginning of the id, of. Sub-agents are found, too."""
    if not prefix:
        raise UsageError("an empty session id; `agentctl list -a` shows the ids")
    answer = query(Scope(prefix=prefix, children=True, tokens=True), env)
    exact = [session for session in answer.sessions if session.id == prefix]
    found = exact or [session for session in answer.sessions if session.id.startswith(prefix)]
    if not found:
        unread = "".join(f"; not read: {one.path or one.agent} ({one.problem})" for one in answer.problems)
        raise NotFound(f"no session {prefix!r}{unread}; `agentctl list -a --since all` shows the ids")
    if len(found) > 1:
        raise Ambiguous(prefix, [f"{session.id}  {session.agent}  {session.status}" for session in found])
    return answer._replace(sessions=(found[0],))


def chosen(names: Iterable[str] | None) -> tuple[str, ...] | None:
    if names is None:
        return None
    found = []
    for name in names:
        agent = resolve(name)
        if agent is None:
            raise UsageError(f"unknown agent {name!r}; known: {', '.join(TABLE)}")
        found.append(agent)
    return tuple(dict.fromkeys(found))


class Look(Value):
    answer: Answer
    doubtful: bool  # two states look alike at this moment
    moving: bool  # a session was written after the process table was read
    stamps: dict[str, Stamp]  # of the records, as they were when this look read them


class Reading:
    """One store of one agent, as far as it was read."""

    def __init__(self, agent: Agent, store: Store) -> None:
        self.agent = agent
        self.store = store
        self.absent = False
        self.unread: str | None = None
        self.incomplete: str | None = None
        self.links: list[Link] = []
        self.supervisors: list[Supervisor] = []
        self.records: dict[str, Record] = {}
        self.stamps: dict[str, Stamp] = {}
        self.progress = 0

    @property
    def usable(self) -> bool:
        return not self.absent and self.unread is None


def look(agents: list[Agent], scope: Scope, env: Mapping[str, str], stamps: Mapping[str, Stamp]) -> Look:
    """Read everything once. `stamps`: the records as an earlier look saw them; one that is still the same was not
    written after this look's process table."""
    known = roots.known(agents, env)
    found = survey(agents, known)
    processes = snapshot(agents)
    claimed = claim_all(agents, processes)
    if fresh := unknown_roots(claimed, known, env):
        # A live agent of this HOME keeps its store elsewhere: read that too, and then look at the processes again.
        roots.remember(fresh, env)
        known = {name: list(dict.fromkeys([*paths, *fresh.get(name, [])])) for name, paths in known.items()}
        found = survey(agents, known)
        processes = snapshot(agents)
        claimed = claim_all(agents, processes)

    in_parallel([(reading, link_all(reading, processes)) for reading in found if reading.usable])
    claims = tuple(place(claimed, found, processes, env))
    in_parallel(
        [(reading, read_records(reading, scope, claims, processes, stamps)) for reading in found if reading.usable]
    )
    world = World(
        processes,
        tuple(StoreView(one.agent.NAME, one.store.root, one.incomplete, one.unread) for one in found if not one.absent),
        # Copies: a store that was given up on may still be filling its own in its thread.
        tuple(record for reading in found for record in list(reading.records.values())),
        tuple(link for reading in found for link in reading.links),
        claims,
        tuple(supervisor for reading in found for supervisor in reading.supervisors),
    )
    world = world._replace(links=(*world.links, *observed_sole_links(world, found)))
    judged = judge(world)
    shown = tuple(with_host(session, processes) for session in judged.sessions if in_scope(session, scope))
    problems = [Problem(one.agent.NAME, one.unread, one.store.root) for one in found if one.unread]
    problems += [problem for reading in found for problem in list(reading.store.problems)]
    answer = Answer(shown, judged.unattached, tuple(dict.fromkeys(problems)), tuple(sources(found, processes)))
    ids = {session.id for session in shown}
    newer = {record.id for record in world.records if record.fresh}
    return Look(
        answer,
        doubtful=any(link.doubt and link.id in ids for link in world.links),
        moving=any(session.process == UNKNOWN and session.id in newer for session in shown),
        stamps={path: stamp for reading in found for path, stamp in list(reading.stamps.items())},
    )


# Reading the stores, none of which may hold up the others


def survey(agents: list[Agent], known: Mapping[str, list[str]]) -> list[Reading]:
    found = [Reading(agent, agent.open_store(root)) for agent in agents for root in known[agent.NAME]]
    in_parallel([(reading, survey_one(reading)) for reading in found])
    return found


def survey_one(reading: Reading) -> Callable[[], None]:
    def run() -> None:
        try:
            reading.store.survey()
        except FileNotFoundError:
            reading.absent = True  # the agent was never used here

    return run


def link_all(reading: Reading, processes: Processes) -> Callable[[], None]:
    def run() -> None:
        reading.incomplete = processes.incomplete_for(reading.store.root)
        reading.links = reading.store.links(processes)
        reading.supervisors = reading.store.supervisors(processes)

    return run


def read_records(
    reading: Reading,
    scope: Scope,
    claims: tuple[Claim, ...],
    processes: Processes,
    stamps: Mapping[str, Stamp],
) -> Callable[[], None]:
    matches: set[str] = set()

    def read_one(id: str) -> None:
        if id not in reading.records:
            record = reading.store.record(id, tokens=scope.tokens and matches == {id})
            if record is not None:
                reading.records[id] = with_freshness(record, reading, processes.taken_at, stamps)
        reading.progress += 1

    def run() -> None:
        if scope.prefix is not None:
            matches.update(reading.store.find(scope.prefix))
        # What a process is on, or may be on. One that is surely gone has ended: read only if ended ones are asked for.
        unsettled = [link for link in reading.links if not surely_gone(link, reading, processes)]
        wanted = dict.fromkeys(link.id for link in unsettled)
        wanted.update(dict.fromkeys(one.id for one in reading.supervisors if processes.alive(one.key)))
        mine = [
            claim for claim in claims if claim.agent == reading.agent.NAME and claim.store in (None, reading.store.root)
        ]
        wanted.update(dict.fromkeys(id for claim in mine for id in claim.candidates or ()))
        unsure = reading.incomplete is not None or any(claim.candidates is None for claim in mine)
        if scope.since is not None or unsure:
            since = time.time() - RECENT if scope.since is None else scope.since
            wanted.update(dict.fromkeys(reading.store.recent(since)))
        wanted.update(dict.fromkeys(sorted(matches)))
        for id in wanted:
            read_one(id)
        for id in [record.parent for record in reading.records.values() if record.parent is not None]:
            read_one(id)
        if scope.children:
            for id in list(reading.records):
                if scope.prefix is None or id.startswith(scope.prefix):
                    for child in reading.store.children(id):
                        read_one(child)
        reading.links = [
            reading.store.observe(link, reading.records.get(link.id), processes) if processes.alive(link.key) else link
            for link in reading.links
            if link in unsettled or link.id in reading.records
        ]

    return run


def observed_sole_links(world: World, found: list[Reading]) -> list[Link]:
    """The links that are inferred from all claims together, with what their stores see of process and record."""
    inferred = sole_links(world)
    seen: dict[Link, Link] = {}

    def observe(reading: Reading, links: list[Link]) -> Callable[[], None]:
        def run() -> None:
            for link in links:
                seen[link] = reading.store.observe(link, reading.records.get(link.id), world.processes)
                reading.progress += 1

        return run

    jobs = []
    for reading in found:
        mine = [one for one in inferred if (one.agent, one.store) == (reading.agent.NAME, reading.store.root)]
        if mine and reading.usable:
            jobs.append((reading, observe(reading, mine)))
    in_parallel(jobs)
    return [seen.get(link, link) for link in inferred]


def surely_gone(link: Link, reading: Reading, processes: Processes) -> bool:
    return reading.incomplete is None and link.here is not False and processes.gone(link.key)


def with_freshness(record: Record, reading: Reading, taken_at: float, stamps: Mapping[str, Stamp]) -> Record:
    """Mark a record that was written after the process table was read, by its time or by an earlier look."""
    if record.path is None:
        return record
    if record.written_at is not None:
        name, written, stamp = f"{record.path}#{record.id}", record.written_at, (int(record.written_at * 1e9), 0)
    else:
        try:
            found = os.stat(record.path)  # after the reading: what was read is not newer than this
        except OSError:
            return record
        name, written, stamp = record.path, found.st_mtime, (found.st_mtime_ns, found.st_size)
    reading.stamps[name] = stamp
    return record._replace(fresh=written >= taken_at - CLOCK_GRAIN and stamps.get(name) != stamp)


def in_parallel(jobs: list[tuple[Reading, Callable[[], None]]]) -> None:
    """Run one job per store, each in a thread of its own: a store that blocks is left behind and named."""
    running = []
    for reading, run in jobs:
        done = threading.Event()
        threading.Thread(target=guarded, args=(reading, run, done), daemon=True).start()
        running.append((reading, done))
    deadline = time.monotonic() + STALL
    for reading, done in running:
        progress = reading.progress
        while not done.wait(max(0.0, deadline - time.monotonic())):
            if reading.progress == progress:
                reading.unread = f"its store did not answer within {STALL:g} s"
                break
            progress, deadline = reading.progress, time.monotonic() + STALL


def guarded(reading: Reading, run: Callable[[], None], done: threading.Event) -> None:
    try:
        run()
    except OSError as error:
        reading.unread = error.strerror or str(error)
    finally:
        done.set()


# The processes


def snapshot(agents: list[Agent]) -> Processes:
    return process_table.snapshot({*CORE_ENV, *(name for agent in agents for name in agent.ENV)})


def claim_all(agents: list[Agent], processes: Processes) -> list[tuple[Agent, Process, Details, str]]:
    """The live processes that the agents recognise, each once."""
    found = []
    for process in processes.living():
        for agent in agents:
            if agent.looks_like(process.comm) and (details := processes.details(process)):
                role = agent.claims(process, details)
                if role is not None:
                    found.append((agent, process, details, HELPER if is_fork(process, details, processes) else role))
                    break
    return found


def is_fork(process: Process, details: Details, processes: Processes) -> bool:
    """Between fork and exec a child still has the arguments of the agent that is about to run a tool in it."""
    parent = processes.get(process.parent)
    above = processes.details(parent) if parent is not None and parent.comm == process.comm else None
    return above is not None and (above.argv, above.exe) == (details.argv, details.exe)


def unknown_roots(
    claimed: list[tuple[Agent, Process, Details, str]], known: Mapping[str, list[str]], env: Mapping[str, str]
) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for agent, process, details, _ in claimed:
        root = roots.root_of(agent, process, details, known[agent.NAME])
        if root is not None and root not in known[agent.NAME] and roots.is_ours(process, details, env):
            found.setdefault(agent.NAME, []).append(root)
    return found


def place(
    claimed: list[tuple[Agent, Process, Details, str]],
    found: list[Reading],
    processes: Processes,
    env: Mapping[str, str],
) -> Iterable[Claim]:
    """Each claimed process with its store, and the sessions it can be on if no link says."""
    linked = {link.key for reading in found for link in reading.links}
    for agent, process, details, role in claimed:
        readings = [reading for reading in found if reading.agent is agent]
        root = roots.root_of(agent, process, details, [reading.store.root for reading in readings])
        ours = roots.is_ours(process, details, env)
        if ours is None and details.uid != os.getuid() and process.key not in linked:
            continue  # another user's, and nothing of ours names it
        mine = [reading for reading in readings if root is None or reading.store.root == root]
        usable = [reading for reading in mine if reading.usable]
        for reading in usable:
            role = reading.store.role(process, details, role, processes)
        claim = Claim(agent.NAME, process.key, role, root, cwd=details.cwd, shown=ours is not False)
        if role not in (CLIENT, HELPER) and (agent.RUNS_MANY or process.key not in linked):
            claim = with_candidates(claim, process, details, mine, usable, processes)
        yield claim


def with_candidates(
    claim: Claim,
    process: Process,
    details: Details,
    mine: list[Reading],
    usable: list[Reading],
    processes: Processes,
) -> Claim:
    may_run = claim.role == AGENT or (claim.role == DAEMON and any(reading.agent.RUNS_MANY for reading in mine))
    if not may_run:
        return claim._replace(why=f"a {claim.role} process: ready, on no session")
    if len(usable) < len([reading for reading in mine if not reading.absent]):
        return claim._replace(candidates=None, why="its store could not be read")
    if not usable:
        return claim._replace(why="it has not written its store yet")
    started = processes.started_at(process.key)
    options = [reading.store.candidates(process, details, started) for reading in usable]
    if any(option.ids is None for option in options):
        return claim._replace(candidates=None, why=options[0].why)
    ids = tuple(dict.fromkeys(id for option in options for id in option.ids or ()))
    return claim._replace(candidates=ids, sole=all(option.sole for option in options), why=options[0].why)


# What is shown


def in_scope(session: Session, scope: Scope) -> bool:
    if scope.prefix is not None:
        return session.id.startswith(scope.prefix)
    if session.parent is not None and not scope.children:
        return False
    if session.process == ALIVE or session.status == UNKNOWN:
        return True
    return scope.since is not None and (session.updated_at or 0.0) >= scope.since


def with_host(session: Session, processes: Processes) -> Session:
    """Where it runs: this machine, and its tmux pane if it has one."""
    session = session._replace(host=os.uname().nodename)
    process = processes.get(session.pid) if session.pid is not None else None
    details = processes.details(process) if process is not None else None
    pane = details.env.get("TMUX_PANE") if details and details.env else None
    if pane:
        return session._replace(terminal={"tty": (session.terminal or {}).get("tty"), "tmux": pane})
    return session


def sources(found: list[Reading], processes: Processes) -> Iterable[str]:
    seen = f"the kernel's process table: {len(processes.by_pid)} processes"
    yield f"{seen}, not complete: {processes.hidden}" if processes.hidden else seen
    for reading in found:
        state = "not there" if reading.absent else reading.unread or reading.incomplete or "read"
        yield f"{reading.agent.NAME}: {reading.store.root}: {state}"


def count_stored(agents: list[Agent], known: Mapping[str, list[str]]) -> dict[str, list[dict[str, object]]]:
    """For `agents`: every store, its state, and how many sessions it has."""
    found = survey(agents, known)
    counts: dict[str, int] = {}

    def count(reading: Reading) -> Callable[[], None]:
        def run() -> None:
            ids = set()
            for id in reading.store.recent(0.0):
                ids.add(id)
                reading.progress += 1
            counts[reading.store.root] = len(ids)

        return run

    in_parallel([(reading, count(reading)) for reading in found if reading.usable])
    table: dict[str, list[dict[str, object]]] = {agent.NAME: [] for agent in agents}
    for reading in found:
        state = "not there" if reading.absent else reading.unread or "readable"
        entry: dict[str, object] = {
            "root": reading.store.root,
            "state": state,
            "sessions": counts.get(reading.store.root),
        }
        table[reading.agent.NAME].append(entry)
    return table
