"""The launches of ours, seen from the sessions: what each of them is of, and which live process it started.

The marker in the environment is not asked: it proves descent, and nested agents, daemons and tmux servers carry it on.
"""

from __future__ import annotations

import os

from agentctl import agents as modules
from agentctl import launch_index, launches, stores
from agentctl.agents import TABLE, load_control
from agentctl.launch_index import WORTH_IT, Index, code_of
from agentctl.model import AGENT, DAEMON, SPARE, Evidence, Link, Written
from agentctl.world import Launched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentctl.claims import Claimed
    from agentctl.launch_index import Row
    from agentctl.model import Launch, Problem, Process, ProcessKey
    from agentctl.processes import Processes
    from agentctl.readings import Reading
    from agentctl.world import World

OUTPUT_READ = 256 * 1024  # from its beginning: the id is in the first lines
FIRST_LINES = 4 * 1024


class Kept:
    """The launches that are kept. Most are of nothing that lives and nothing that is asked for, and of those it is
    enough to know that: `rows`. The others are read from their own files."""

    def __init__(self, folder: str, located: list[Claimed], processes: Processes) -> None:
        self.rows: dict[str, Row] = {}
        self.problems: list[Problem] = []
        self._folder = folder
        self._claimed = {one.process.key: one for one in located}
        self._processes = processes
        self._made: dict[str, Launched] = {}

    def add(self, id: str, *, is_link: bool = False) -> str | None:
        """Read a launch. The file that its session was looked for in last; None: it is no launch, or two files."""
        folder = f"{self._folder}/{id}"
        record = launches.read_record(id, folder, is_link=is_link)
        if not isinstance(record, Written):
            self.problems += [] if record is None else [record]
            return None
        session, told_by = record.session_id, record.told_by
        if session is None and record.one_shot:
            session = printed_in(folder, record.agent)
            told_by = launches.OUTPUT if told_by == launches.LAUNCH else ""
        agents = agents_of(record, self._claimed, self._processes)
        self.rows[id] = record.agent, record.child, session
        self._made[id] = Launched(record, session, tuple(agents))
        return told_by or None

    def living(self) -> list[Launched]:
        """Those whose first process may live."""
        find = self._processes.find
        return self._of([id for id, (_, (_, pid, start), _) in self.rows.items() if find(pid, start)])

    def judged(self, names: set[tuple[str, str]]) -> list[Launched]:
        """Those that are of these sessions, or have an agent that lives, or were read anyway."""
        return self._of([id for id, row in self.rows.items() if id in self._made or (row[0], row[2]) in names])

    def _of(self, ids: list[str]) -> list[Launched]:
        for id in ids:
            if id not in self._made:
                self.add(id)
        return [self._made[id] for id in ids if id in self._made]  # or it was removed since then


def read(env: Mapping[str, str], located: list[Claimed], processes: Processes, cache: str | None = None) -> Kept:
    """After the process table: a launch that it does not have yet is of nothing that lives. How their processes ended
    comes later, of those that concern a session (`with_exits`). `cache`: a folder for what they are of; None: every
    launch is wanted, and is read."""
    names, problems = launches.names(env)
    folder = launches.launches_folder(env)
    kept = Kept(folder, located, processes)
    kept.problems += problems
    if cache is not None and len(names) >= WORTH_IT:
        try:
            at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            pass
        else:
            try:
                read_through(Index(cache, folder, at, code()), names, kept)
            finally:
                os.close(at)
            return kept
    for name, is_link in names:
        kept.add(name, is_link=is_link)
    return kept


def read_through(index: Index, names: list[tuple[str, bool]], kept: Kept) -> None:
    """What is known of a launch is taken for it."""
    for name, is_link in names:
        if not is_link and (row := index.find(name)):
            kept.rows[name] = row
            continue
        before = index.stamps(name)
        if told_by := kept.add(name, is_link=is_link):
            index.keep(name, kept.rows[name], told_by, before)
    index.save()


def code() -> str:
    """All that says of what a launch is."""
    of_agents = os.path.dirname(modules.__file__)
    return code_of(of_agents, __file__, launch_index.__file__, launches.__file__, stores.__file__)


def with_exits(kept: Kept, readings: list[Reading]) -> list[Launched]:
    """The launches of the sessions that are judged, with how their processes ended."""
    judged = {(reading.agent.NAME, id) for reading in readings for id in list(reading.records)}
    judged |= {(link.agent, link.id) for reading in readings for link in list(reading.links)}
    return [
        one._replace(exits=tuple(launches.exits_in(os.path.dirname(one.record.path or ""))))
        if one.agents or (one.record.agent, one.session_id) in judged
        else one
        for one in kept.judged(judged)
    ]


def printed_in(folder: str, agent: str) -> str | None:
    """The id that a one-shot run printed first."""
    if agent not in TABLE:
        return None  # written by another version of ours
    control = load_control(agent)
    for limit in (FIRST_LINES, OUTPUT_READ):
        try:
            output = stores.read_bytes(os.path.join(folder, launches.OUTPUT), limit)
        except OSError:
            return None
        whole = len(output) < limit
        if (found := control.printed_id(output) if output else None) is not None or whole:
            return found
    return None


def agents_of(
    launch: Launch | Written, claimed: Mapping[ProcessKey, Claimed], processes: Processes
) -> list[ProcessKey]:
    """The process that was started, if it is an agent; else the agents that it runs as its wrapper. What an agent runs
    is not looked at: an agent below an agent is a tool of it."""
    first = child_of(launch, processes)
    front = [first] if first is not None else []
    found = []
    seen: set[int] = set()
    while front:
        process = front.pop()
        if process.pid in seen:
            continue
        seen.add(process.pid)
        one = claimed.get(process.key)
        if one is not None and one.role in (AGENT, SPARE, DAEMON):
            found += [process.key] if launch.agent == one.agent.NAME else []
        else:
            front += processes.children(process.pid)
    return found


def child_of(launch: Launch | Written, processes: Processes) -> Process | None:
    """In another PID namespace it has another number there, and the same start."""
    if launch.child.boot != processes.boot:
        return None
    return processes.alive(launch.child) or processes.find(launch.child.pid, launch.child.start)


def may_live(world: World, agent: str, child: ProcessKey, runner: ProcessKey) -> bool:
    """Does anything of a launch live that may still be its agent? A wrapper may end before what it wrapped, which then
    is the runner's child."""
    if not world.processes.gone(child):
        return True
    if world.processes.alive(runner) is None:
        return False
    left = {process.key for process in world.processes.descendants(runner.pid)}
    return any(claim.agent == agent and claim.role == AGENT and claim.key in left for claim in world.claims)


def add_links(kept: Kept, readings: list[Reading], located: list[Claimed]) -> None:
    """Before an agent has written who it is: a one-shot run of ours is on the session that was chosen for it, or that
    it printed first. Where its own store says which, that is believed alone."""
    linked = {link.key for reading in readings for link in list(reading.links)}
    by_key = {one.process.key: one for one in located}
    for one in kept.living():
        if one.session_id is None or not one.agents:
            continue
        launch = one.launch
        for key in one.agents if launch.headless and launch.one_shot else ():
            claimed = by_key[key]
            chosen = launch.session_id is not None
            if key in linked or (chosen and one.session_id not in (claimed.details.argv or ())):
                continue
            for reading in readings:
                if reading.agent is claimed.agent and claimed.root == reading.store.root:
                    reading.links.append(link_of(one, key, reading, chosen=chosen))
                    break


def link_of(one: Launched, key: ProcessKey, reading: Reading, *, chosen: bool) -> Link:
    how = "launched by us with this id, which is in its arguments" if chosen else "launched by us, and printed this id"
    fact = Evidence("launch", f"pid {key.pid}: {how}", one.launch.path, key.pid)
    return Link(
        reading.agent.NAME,
        one.session_id or "",
        reading.store.root,
        key,
        how,
        path=one.launch.path,
        evidence=(fact,),
    )
