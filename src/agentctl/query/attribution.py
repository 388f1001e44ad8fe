"""Tells which session each of our launches is of, and which live process it started.

The marker in the environment does not count: it proves descent, and nested agents, daemons and tmux servers inherit it.
"""

from __future__ import annotations

import os

from agentctl.agents import TABLE, load_control
from agentctl.errors import AgentFault
from agentctl.files import bounded
from agentctl.launches import records
from agentctl.launches.index import WORTH_IT, Index
from agentctl.launches.written import Written
from agentctl.model import AGENT, DAEMON, SPARE, Evidence, Link, Problem, Value
from agentctl.query.locating import root_of
from agentctl.query.world import Launched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agentctl.kernel.processes import Processes
    from agentctl.launches.index import Row
    from agentctl.model import Launch, Process, ProcessKey
    from agentctl.query.candidates import Claimed
    from agentctl.query.reading import Readings
    from agentctl.query.world import Name, World

OUTPUT_READ = 256 * 1024  # from its beginning: the id is in the first lines
FIRST_LINES = 4 * 1024
BECOMES_AGENT = 5.0  # seconds for what a wrapper left behind to execute the agent, before nobody waits for it


class Launches(Value):
    """The launches on disk. Most are of no live process and no judged session: it is enough to know their rows."""

    folder: str
    rows: Mapping[str, Row] = {}  # by id, oldest first: agent, process and session of every launch
    read: Mapping[str, Launched] = {}  # by id: those that were read from their own files
    problems: tuple[Problem, ...] = ()

    def in_order(self) -> list[Launched]:
        """Return those that were read, oldest first."""
        return [self.read[id] for id in self.rows if id in self.read]


def read(
    env: Mapping[str, str], located: Iterable[Claimed], processes: Processes, cache: str | None = None
) -> Launches:
    """Read the launches, after the process table: so a launch that is not there yet has no process in the table. How
    their processes ended comes later, for those that concern a session (`with_ends`). `cache`: a folder for the rows,
    so that only launches with a live process are read; None: every launch is read."""
    names, problems = records.names(env)
    launches = Launches(records.launches_folder(env), problems=tuple(problems))
    claimed = {claim.process.key: claim for claim in located}
    at = folder_opened(launches.folder) if cache is not None and len(names) >= WORTH_IT else None
    if cache is None or at is None:
        return with_read(launches, names, claimed, processes)
    try:
        index = Index(cache, launches.folder, at)
        launches = with_read(launches, names, claimed, processes, index)
        index.save()
    finally:
        os.close(at)
    living = [id for id, row in launches.rows.items() if may_be_here(row, processes)]
    return with_unread(launches, living, claimed, processes)


def may_be_here(row: Row, processes: Processes) -> bool:
    """Return whether the process of a launch lives, or may live where we cannot look: then its own files are read."""
    _, child, _, namespace = row
    if child.namespace is not None:
        return not processes.gone(child)
    if not processes.may_find(child.pid, child.start):
        return False
    return find_child(child, namespace, processes) is not None


def folder_opened(path: str) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None


def with_unread(
    launches: Launches, ids: Iterable[str], claimed: Mapping[ProcessKey, Claimed], processes: Processes
) -> Launches:
    """Return the launches with those of these read that are only known by their row."""
    unread = [(id, False) for id in ids if id not in launches.read]
    return with_read(launches, unread, claimed, processes) if unread else launches


def with_read(
    launches: Launches,
    names: list[tuple[str, bool]],
    claimed: Mapping[ProcessKey, Claimed],
    processes: Processes,
    index: Index | None = None,
) -> Launches:
    """Return the launches with these (id, whether it is a link) read. If the index knows one, its row is enough."""
    rows, new, problems = dict(launches.rows), dict(launches.read), list(launches.problems)
    for id, is_link in names:
        if index is not None and not is_link and (row := index.find(id)):
            rows[id] = row
            continue
        before = index.stamps(id) if index is not None else None
        launched, source, faults = read_launch(id, launches.folder, claimed, processes, is_link=is_link)
        problems += faults
        if launched is None:
            continue  # no launch, or it was removed since it was listed
        record = launched.record
        rows[id], new[id] = (record.agent, record.child, launched.session_id, record.pid_namespace), launched
        if index is not None and before is not None and source is not None and not may_be_handed_on(launched):
            index.keep(id, rows[id], source, before)
    return launches._replace(rows=rows, read=new, problems=tuple(problems))


def read_launch(
    id: str, launches_folder: str, claimed: Mapping[ProcessKey, Claimed], processes: Processes, *, is_link: bool
) -> tuple[Launched | None, str | None, list[Problem]]:
    """Return the launch of this id, the file that its session was looked for in last, and what could not be read. There
    is no such file if there are two, or if only a version that knows its agent can tell."""
    folder = f"{launches_folder}/{id}"
    record = records.read_record(id, folder, is_link=is_link)
    if not isinstance(record, Written):
        return None, None, [record] if record is not None else []
    problems: list[Problem] = []
    session, source = record.session_id, record.session_file
    if session is None and record.one_shot:
        session = printed_in(folder, record.agent, problems)
        source = records.OUTPUT if source == records.LAUNCH and record.agent in TABLE else ""
    agents = agents_of(record, claimed, processes)
    return Launched(record, session, tuple(agents)), source or None, problems


def judged_names(readings: Readings) -> set[Name]:
    """Return the sessions that will be judged: those with a record or a link."""
    names = {(reading.agent.NAME, id) for reading in readings for id in reading.records}
    return names | {(link.agent, link.id) for reading in readings for link in reading.links}


def with_ends(launches: Launches, judged: set[Name], located: Iterable[Claimed], processes: Processes) -> Launches:
    """Return the launches with those read that are of a judged session. These, and those that live, say how their
    processes ended."""
    ids = [id for id, (agent, _, session, _) in launches.rows.items() if (agent, session) in judged]
    launches = with_unread(launches, ids, {claim.process.key: claim for claim in located}, processes)
    return launches._replace(
        read={
            id: with_end(ours, processes) if ours.agents or (ours.record.agent, ours.session_id) in judged else ours
            for id, ours in launches.read.items()
        }
    )


def with_end(launched: Launched, processes: Processes) -> Launched:
    """Return the launch with how its processes ended, and whether all of them have."""
    launch = launched.launch
    exits = tuple(records.exits_in(os.path.dirname(launch.path or ""), launch.pid_namespace))
    ended = processes.gone(launch.child) and processes.gone(launch.runner)
    launched = launched._replace(exits=exits, ended=ended, unseen=why_elsewhere(launch, processes))
    return with_wrapper(launched, processes) if may_be_handed_on(launched) else launched


def may_be_handed_on(launched: Launched) -> bool:
    """Return whether the agent of a launch may run where we cannot look: its program is not the agent, and no process
    of the agent is below that program, nor was when `launch` looked."""
    record = launched.record
    if record.wrapper is None or launched.agents:
        return False
    return not records.has_seen_agent(os.path.dirname(record.path or ""))


def handed_on(launches: Launches) -> tuple[Name, ...]:
    """Return the sessions whose agents may run where we cannot look."""
    found = [(ours.record.agent, ours.session_id) for ours in launches.read.values() if may_be_handed_on(ours)]
    return tuple((agent, id) for agent, id in found if id is not None)


def with_wrapper(launched: Launched, processes: Processes) -> Launched:
    """Return a launch whose agent may run where we cannot look, with the reason."""
    launch = launched.launch
    child = child_of(launch, processes)
    state = f"which lives (pid {child.pid})" if child is not None else "which has ended"
    why = (
        f"agentctl launched {launch.wrapper}, {state} and is not the agent itself, and no process of the agent was "
        "seen below it: it may run on another machine, or in a container that our process table does not show"
    )
    return launched._replace(handed=why, wrapped_by=child.key if child is not None else None)


def printed_in(folder: str, agent: str, problems: list[Problem] | None = None) -> str | None:
    """Return the id that a one-shot run printed first. If the module of its agent fails, append that to `problems`."""
    if agent not in TABLE:
        return None  # written by another version of ours
    try:
        control = load_control(agent)
    except AgentFault as fault:
        if problems is not None:
            problems.append(Problem(agent, fault.why))
        return None
    for limit in (FIRST_LINES, OUTPUT_READ):
        try:
            output = bounded.read_bytes(os.path.join(folder, records.OUTPUT), limit)
        except FileNotFoundError:
            return None
        except OSError as error:
            if problems is not None:
                path = os.path.join(folder, records.OUTPUT)
                problems.append(Problem(records.OWNER, error.strerror or str(error), path))
            return None
        whole = len(output) < limit
        if (id := control.printed_id(output) if output else None) is not None or whole:
            return id
    return None


def agents_of(
    launch: Launch | Written, claimed: Mapping[ProcessKey, Claimed], processes: Processes
) -> list[ProcessKey]:
    """Return the process that the launch started, if it is an agent; else the agents that it runs as their wrapper. An
    agent below an agent does not count: it is a tool of it."""
    first = child_of(launch, processes)
    front = [first] if first is not None else []
    agents = []
    seen: set[int] = set()
    while front:
        process = front.pop()
        if process.pid in seen:
            continue
        seen.add(process.pid)
        claim = claimed.get(process.key)
        if claim is not None and claim.role in (AGENT, SPARE, DAEMON):
            agents += [process.key] if launch.agent == claim.agent.NAME else []
        else:
            front += processes.children(process.pid)
    return agents


def child_of(launch: Launch | Written, processes: Processes) -> Process | None:
    """Return the live process that the launch started. In a PID namespace below ours it has another pid."""
    return find_child(launch.child, launch.pid_namespace, processes)


def find_child(child: ProcessKey, namespace: str | None, processes: Processes) -> Process | None:
    """Return the live process of a launch by the key and the PID namespace that its record names. A record of ours
    before there were namespaces in them may be of an inner one: then only pid and start are known."""
    if (found := processes.alive(child) or processes.alive(processes.own(child))) is not None:
        return found
    return processes.find(child.pid, child.start) if namespace is None and child.boot == processes.boot else None


def why_elsewhere(launch: Launch, processes: Processes) -> str | None:
    """Return why it cannot be told from here whether a process lives that was recorded in another PID namespace; None
    if it was not, or if we see that namespace."""
    child = launch.child
    if child.namespace is None or child_of(launch, processes) is not None or processes.gone(child):
        return None
    return processes.blind or f"it was launched in another PID namespace ({child.namespace}), where we cannot look"


def why_unseen(launch: Launch, processes: Processes) -> str | None:
    """Return why it cannot be told from here whether the process of a launch lives; None if it can."""
    if processes.blind is not None and not processes.gone(launch.child):
        return processes.blind
    return why_elsewhere(launch, processes)


def may_live(world: World, agent: str, child: ProcessKey, runner: ProcessKey) -> bool:
    """Return whether something of a launch lives that may be its agent, or may live where we cannot look. A wrapper may
    end before what it wrapped, which is the runner's child from then on."""
    if not world.processes.gone(child):
        return True
    runner = world.processes.own(runner)
    if world.processes.alive(runner) is None:
        return False
    left = {process.key for process in world.processes.descendants(runner.pid) if process.pid != os.getpid()}
    if world.why_unread(agent) is not None:
        return bool(left)  # nobody can tell which of them is the agent
    return any(claim.agent == agent and claim.role == AGENT and claim.key in left for claim in world.claims)


def left_behind(world: World, launch_id: str, child: ProcessKey, runner: ProcessKey) -> list[Process]:
    """Return what lives below the runner of a launch after its first process has ended, and may become its agent within
    a moment: a wrapper may end before what it forked executes the agent. What the runner asks agentctl does not
    count, nor what that runs."""
    processes, runner = world.processes, world.processes.own(runner)
    if not processes.gone(child) or processes.alive(runner) is None:
        return []
    left: dict[int, Process] = {}
    front = processes.children(runner.pid)
    while front:
        process = front.pop()
        details = processes.details(process)
        argv = details.argv if details is not None else None
        if process.pid not in left and not (argv and len(argv) > 2 and argv[-1] == launch_id):
            left[process.pid] = process
            front += processes.children(process.pid)
    return list(left.values())


def with_launch_links(readings: Readings, launches: Launches, located: Iterable[Claimed]) -> Readings:
    """Return the readings with the links that our launches prove, before an agent has written who it is: a one-shot run
    is on the session that we chose for it, or that it printed first. If its own store says which, only that counts."""
    linked = {link.key for reading in readings for link in reading.links}
    by_key = {claim.process.key: claim for claim in located}
    added: dict[tuple[str, str], list[Link]] = {}
    for launched in launches.in_order():
        for key in launched.agents:
            if key not in linked and (link := link_of(launched, by_key[key])) is not None:
                added.setdefault((link.agent, link.store), []).append(link)
    return tuple(
        reading._replace(links=(*reading.links, *added[reading.name])) if reading.name in added else reading
        for reading in readings
    )


def link_of(launched: Launched, claimed: Claimed) -> Link | None:
    """Return the link that a launch proves for this process of it; None if it proves none."""
    launch, id, key = launched.launch, launched.session_id, claimed.process.key
    root = claimed.root
    if root is None and claimed.details.env is not None:
        root = root_of(claimed)  # it has not made its store yet
    if id is None or root is None or not (launch.headless and launch.one_shot):
        return None
    if launch.session_id is None:
        how = "launched by us, and printed this id"
    elif id in (claimed.details.argv or ()):
        how = "launched by us with this id, which is in its arguments"
    else:
        return None
    fact = Evidence("launch", f"pid {key.pid}: {how}", launch.path, key.pid)
    return Link(claimed.agent.NAME, id, root, key, how, path=launch.path, evidence=(fact,))
