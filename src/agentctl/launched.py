"""The launches of ours, seen from the sessions: what each of them is of, and which live process it started.

The marker in the environment is not asked: it proves descent, and nested agents, daemons and tmux servers carry it on.
"""

from __future__ import annotations

import os

from agentctl import launches, stores
from agentctl.agents import TABLE, load_control
from agentctl.model import AGENT, DAEMON, SPARE, Evidence, Link
from agentctl.world import Launched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentctl.claims import Claimed
    from agentctl.model import Launch, Problem, Process, ProcessKey, Written
    from agentctl.processes import Processes
    from agentctl.readings import Reading
    from agentctl.world import World

OUTPUT_READ = 256 * 1024  # from its beginning: the id is in the first lines
FIRST_LINES = 4 * 1024


def read(env: Mapping[str, str], located: list[Claimed], processes: Processes) -> tuple[list[Launched], list[Problem]]:
    """Every launch that is kept. After the process table: a launch that it does not have yet is of nothing that lives.
    How their processes ended comes later, of those that concern a session (`with_exits`)."""
    kept, problems = launches.read_records(env)
    claimed = {one.process.key: one for one in located}
    found = []
    for launch in kept:
        folder = os.path.dirname(launch.path)
        found.append(
            Launched(
                launch,
                launch.session_id or (printed_in(folder, launch.agent) if launch.one_shot else None),
                tuple(agents_of(launch, claimed, processes)),
            )
        )
    return found, problems


def with_exits(found: list[Launched], readings: list[Reading]) -> list[Launched]:
    """How the processes of a launch ended, where a session that is judged is its own."""
    judged = {(reading.agent.NAME, id) for reading in readings for id in list(reading.records)}
    judged |= {(link.agent, link.id) for reading in readings for link in list(reading.links)}
    return [
        one._replace(exits=tuple(launches.exits_in(os.path.dirname(one.record.path or ""))))
        if one.agents or (one.record.agent, one.session_id) in judged
        else one
        for one in found
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


def add_links(found: list[Launched], readings: list[Reading], located: list[Claimed]) -> None:
    """Before an agent has written who it is: a one-shot run of ours is on the session that was chosen for it, or that
    it printed first. Where its own store says which, that is believed alone."""
    linked = {link.key for reading in readings for link in list(reading.links)}
    by_key = {one.process.key: one for one in located}
    for one in found:
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
