"""Finds the live processes of the agents: where each works, and which sessions it can be on."""

from __future__ import annotations

import os

from agentctl.model import AGENT, CLIENT, DAEMON, HELPER, Claim, Details, Problem, Value
from agentctl.query.locating import root_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from agentctl.agents.base import Agent
    from agentctl.kernel.processes import Processes
    from agentctl.model import Process
    from agentctl.query.reading import Options, Reading, Readings


CLOSED = "its environment cannot be read"


class Claimed(Value):
    """A live process of an agent. `root` and `ours` are None if they are not known."""

    agent: Agent
    process: Process
    details: Details
    role: str
    root: str | None = None  # the store it works in: one of ours, or another path
    ours: bool | None = None  # does it live in our HOME?
    lost: str | None = None  # why it has a store that cannot be found; then `root` is None
    vague: bool = False  # it is starting (exec) or ending: its arguments cannot be read at this moment


def claim_all(agents: list[Agent], processes: Processes) -> list[Claimed]:
    """Return the live processes that the agents recognise, each once. One that cannot be read at this moment is there
    for each agent that it may be of."""
    claimed: list[Claimed] = []
    for process in processes.running(lambda name: any(agent.looks_like(name) for agent in agents)):
        names = processes.names_of(process)
        likely = [agent for agent in agents if any(agent.looks_like(name) for name in names)]
        if is_of_others(process, likely, processes):
            continue
        details = processes.details(process)
        if details is None or details.argv is None:
            claimed += vaguely_claimed(process, details, likely)
        else:
            claimed += claimed_by_first(process, details, likely, processes)
    return claimed


def vaguely_claimed(process: Process, details: Details | None, likely: list[Agent]) -> Iterator[Claimed]:
    """Yield a process whose arguments cannot be read, once for each agent; only the first of them is shown."""
    uid = details.uid if details else None
    if uid is None or uid == os.getuid():
        for place, agent in enumerate(likely):
            yield Claimed(agent, process, Details(), AGENT, ours=None if place == 0 else False, vague=True)


def claimed_by_first(
    process: Process, details: Details, likely: list[Agent], processes: Processes
) -> Iterator[Claimed]:
    for agent in likely:
        role = agent.claims(process, details)
        if role is not None:
            yield Claimed(agent, process, details, HELPER if is_fork(process, details, processes) else role)
            return


def is_of_others(process: Process, likely: list[Agent], processes: Processes) -> bool:
    """Return whether its program shows that it is not an agent, like most processes with a common name. Then nothing
    more about it is read."""
    program = processes.program(process)
    if program is None or program.argv is None:
        return False
    return all(agent.claims(process, program) is None for agent in likely) and processes.still(process)


def is_fork(process: Process, details: Details, processes: Processes) -> bool:
    """Return whether it is still a copy of its parent: between fork and exec, the child that an agent is about to run a
    tool in has the arguments of the agent."""
    parent = processes.get(process.parent)
    above = processes.details(parent) if parent is not None and parent.comm == process.comm else None
    return above is not None and (above.argv, above.exe) == (details.argv, details.exe)


def unknown_roots(located: Iterable[Claimed], readings: Readings) -> dict[str, list[str]]:
    """Return the stores that live agents of this HOME keep elsewhere, by agent."""
    known = {reading.name for reading in readings}
    fresh: dict[str, list[str]] = {}
    for claim in located:
        if claim.ours and claim.root is not None and (claim.agent.NAME, claim.root) not in known:
            fresh.setdefault(claim.agent.NAME, []).append(claim.root)
    return fresh


def unmade_roots(located: Iterable[Claimed], readings: Readings) -> dict[str, list[str]]:
    """Return the stores that live agents of this HOME name, and that are not there, by agent."""
    known = {reading.name for reading in readings}
    unmade: dict[str, list[str]] = {}
    for claim in located:
        named = root_of(claim) if claim.ours and claim.root is None and claim.details.env is not None else None
        if named is not None and (claim.agent.NAME, named) not in known:
            unmade.setdefault(claim.agent.NAME, []).append(named)
    return unmade


def processes_of(reading: Reading, located: Iterable[Claimed]) -> list[tuple[Process, Details, str]]:
    """Return the live processes that may work in this store and can be on a session or show one, each with its
    role."""
    return [
        (claim.process, claim.details, claim.role)
        for claim in located
        if may_work_in(claim, reading) and claim.role != HELPER and not claim.vague
    ]


def may_work_in(claim: Claimed, reading: Reading) -> bool:
    return claim.agent is reading.agent and claim.root in (None, reading.store.root)


def place(located: Iterable[Claimed], readings: Readings) -> Iterator[Claim]:
    """Yield each claimed process with its store, and the sessions that it can be on if no link says."""
    linked = {link.key for reading in readings for link in reading.links if link.left is None}
    for claimed in located:
        if claimed.vague:
            yield vague_claim(claimed)
        elif is_foreign(claimed) and claimed.process.key not in linked:
            continue  # nothing of ours names it: it only stands against a firm end, see strangers.py
        else:
            theirs = [reading for reading in readings if may_work_in(claimed, reading) and not reading.absent]
            yield claim_of(claimed, theirs, linked=claimed.process.key in linked)


def is_foreign(claimed: Claimed) -> bool:
    """Return whether this is a process of another user, whose store cannot be told."""
    return claimed.ours is None and not claimed.vague and claimed.details.uid != os.getuid()


def is_of_another(claimed: Claimed) -> bool:
    """Return whether a process works for another HOME, or for another user whose HOME we cannot read."""
    if claimed.vague:
        return False
    return claimed.ours is False or (claimed.ours is None and claimed.details.uid != os.getuid())


def unplaced(located: Iterable[Claimed], readings: Readings) -> Iterator[Problem]:
    """Yield a problem for each agent of ours that may work in a store that nobody knows of: its environment cannot be
    read, or what it names is not its store."""
    linked = {link.key for reading in readings for link in reading.links if link.left is None}
    for claimed in located:
        if claimed.lost is not None and (claimed.agent.KEEPS_OPEN or claimed.process.key not in linked):
            yield Problem(claimed.agent.NAME, claimed.lost, root_of(claimed))
        known = claimed.vague or claimed.details.env is not None or claimed.process.key in linked
        if not known and not is_foreign(claimed) and claimed.role in (AGENT, DAEMON):
            pid = claimed.process.pid
            why = f"pid {pid} may work in another store: {CLOSED}"
            yield Problem(claimed.agent.NAME, why, f"/proc/{pid}/environ")


def vague_claim(claimed: Claimed) -> Claim:
    why = "it is starting or ending: its arguments cannot be read at this moment"
    shown = claimed.ours is None
    return Claim(claimed.agent.NAME, claimed.process.key, AGENT, None, candidates=None, shown=shown, why=why)


def claim_of(claimed: Claimed, readings: list[Reading], *, linked: bool) -> Claim:
    """`readings`: the stores that it may work in. `linked`: a link says which session it is on."""
    agent, key = claimed.agent, claimed.process.key
    said = [reading.options[key] for reading in readings if reading.usable and key in reading.options]
    role = next((options.role for options in said if options.role != claimed.role), claimed.role)
    many, shown = agent.RUNS_MANY, claimed.ours is not False
    claim = Claim(agent.NAME, key, role, claimed.root, many=many, shown=shown, cwd=claimed.details.cwd)
    if any(options.shows for options in said):
        claim = claim._replace(shows=frozenset(id for options in said for id in options.shows))
    if role in (CLIENT, HELPER) or (linked and not many):
        return claim
    if role not in (AGENT, DAEMON) or (role == DAEMON and not (many and readings)):
        return claim._replace(why=f"a {role} process: ready, on no session")
    if not all(reading.usable for reading in readings):
        return claim._replace(candidates=None, why="its store could not be read")
    return with_candidates(claim, said, claimed)


def with_candidates(claim: Claim, said: list[Options], claimed: Claimed) -> Claim:
    """Return the claim with the sessions that its process can be on, by what its stores said. One whose store cannot be
    found may be on any of them, and on one that nobody knows of: none is taken for its session."""
    if claimed.lost is not None:
        claim = claim._replace(lost=True)
        said = [options._replace(why=claimed.lost) for options in said]
    if not said and claim.store is None and claimed.details.env is None:
        return claim._replace(candidates=None, why=f"{CLOSED}, so nobody knows which store it works in")
    if not said:
        return claim._replace(why=claimed.lost or "it has not written its store yet")
    if any(options.ids is None for options in said):
        return claim._replace(candidates=None, why=said[0].why)
    ids = tuple(dict.fromkeys(id for options in said for id in options.ids or ()))
    is_placed = claim.store is not None or claimed.details.env is None
    sole = is_placed and all(options.sole for options in said)
    unlikely = frozenset(id for options in said for id in options.unlikely).difference(ids)
    return claim._replace(candidates=ids, sole=sole, why=said[0].why, unlikely=unlikely)
