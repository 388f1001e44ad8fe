"""The live processes that the agents recognise: where each of them works, and what it can be on."""

from __future__ import annotations

import os

from agentctl import roots
from agentctl.agents import home
from agentctl.model import AGENT, CLIENT, DAEMON, HELPER, Claim, Details, Value
from agentctl.readings import Errand, in_parallel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from agentctl.agents import Agent
    from agentctl.model import Process
    from agentctl.processes import Processes
    from agentctl.readings import Reading


class Claimed(Value):
    """A live process of an agent. `root` and `ours` are None where they cannot be told."""

    agent: Agent
    process: Process
    details: Details
    role: str
    root: str | None = None  # the store it works in: one of ours, or another path
    ours: bool | None = None  # does it live in our HOME?
    vague: bool = False  # in the middle of exec or of its end: its arguments cannot be read at this moment


def claim_all(agents: list[Agent], processes: Processes) -> list[Claimed]:
    """The live processes that the agents recognise, each once; one that cannot be read now, for each it may be of."""
    found: list[Claimed] = []
    for process in processes.named(lambda name: any(agent.looks_like(name) for agent in agents)):
        likely = [agent for agent in agents if agent.looks_like(process.comm)]
        if is_of_others(process, likely, processes):
            continue
        details = processes.details(process)
        if details is None or details.argv is None:
            uid = details.uid if details else None
            if uid is None or uid == os.getuid():
                # Shown once, though it may be of any of them.
                ours = [None, *[False] * (len(likely) - 1)]
                both = zip(likely, ours, strict=True)
                found += [Claimed(agent, process, Details(), AGENT, ours=shown, vague=True) for agent, shown in both]
            continue
        for agent in likely:
            role = agent.claims(process, details)
            if role is not None:
                forked = is_fork(process, details, processes)
                found.append(Claimed(agent, process, details, HELPER if forked else role))
                break
    return found


def is_of_others(process: Process, likely: list[Agent], processes: Processes) -> bool:
    """By what it runs alone: most processes of a common name are. Then nothing more is read of it."""
    program = processes.program(process)
    if program is None or program.argv is None:
        return False
    return all(agent.claims(process, program) is None for agent in likely) and processes.still(process)


def is_fork(process: Process, details: Details, processes: Processes) -> bool:
    """Between fork and exec a child still has the arguments of the agent that is about to run a tool in it."""
    parent = processes.get(process.parent)
    above = processes.details(parent) if parent is not None and parent.comm == process.comm else None
    return above is not None and (above.argv, above.exe) == (details.argv, details.exe)


def locate(claimed: list[Claimed], found: list[Reading], env: Mapping[str, str]) -> list[Claimed]:
    """Where each process works. By its paths where it sees the same mounts as we do; else by what its paths lead to,
    in a thread, for that may be a dead mount."""
    here = roots.mount_namespace("self")
    placed: dict[int, Claimed] = {}
    slow = []
    for one in claimed:
        stores = [reading.store.root for reading in found if reading.agent is one.agent]
        if one.details.env is None:
            placed[one.process.pid] = one
        elif roots.mount_namespace(one.process.pid) == here and (place := by_path(one, stores, env)):
            placed[one.process.pid] = place
        else:
            slow.append(one)

    def run() -> None:
        for one in slow:
            theirs = [reading for reading in found if reading.agent is one.agent]
            placed[one.process.pid] = by_identity(one, theirs, env)
            errand.progress += 1

    errand = Errand()
    if slow:
        in_parallel([(errand, run)])
    return [one if one.vague else placed.get(one.process.pid, one) for one in claimed]


def root_of(one: Claimed) -> str:
    """The path of its store as the process means it: a relative one from where it stands."""
    return os.path.normpath(os.path.join(one.details.cwd or "/", one.agent.roots(one.details.env or {})[0]))


def by_path(one: Claimed, stores: list[str], env: Mapping[str, str]) -> Claimed | None:
    theirs = one.details.env or {}
    root = root_of(one)
    ours = os.path.abspath(home(theirs)) == os.path.abspath(home(env))
    return one._replace(root=root, ours=True) if root in stores and ours else None


def by_identity(one: Claimed, readings: list[Reading], env: Mapping[str, str]) -> Claimed:
    theirs = one.details.env or {}
    path = root_of(one)
    identity = roots.identity_for(one.process, path)
    same = (reading.store.root for reading in readings if identity is not None and reading.identity == identity)
    their_home, our_home = home(theirs), home(env)
    seen, our_seen = roots.identity_for(one.process, their_home), roots.identity(our_home)
    ours = seen == our_seen if seen and our_seen else os.path.abspath(their_home) == os.path.abspath(our_home)
    return one._replace(root=next(same, path), ours=ours)


def unknown_roots(located: list[Claimed], found: list[Reading]) -> dict[str, list[str]]:
    """Stores that a live agent of this HOME keeps elsewhere."""
    known = {(reading.agent.NAME, reading.store.root) for reading in found}
    fresh: dict[str, list[str]] = {}
    for one in located:
        if one.ours and one.root is not None and (one.agent.NAME, one.root) not in known:
            fresh.setdefault(one.agent.NAME, []).append(one.root)
    return fresh


def of_store(located: list[Claimed], reading: Reading) -> list[tuple[Process, Details, str]]:
    """The live processes that may work in this store and can be on a session, for its store to say on which."""
    return [
        (one.process, one.details, one.role)
        for one in located
        if one.agent is reading.agent
        and one.root in (None, reading.store.root)
        and one.role not in (CLIENT, HELPER)
        and not one.vague
    ]


def place(located: list[Claimed], found: list[Reading]) -> Iterator[Claim]:
    """Each claimed process with its store, and the sessions it can be on if no link says."""
    linked = {link.key for reading in found for link in list(reading.links)}
    for one in located:
        key = one.process.key
        if one.vague:
            why = "it is starting or ending: its arguments cannot be read at this moment"
            yield Claim(one.agent.NAME, key, AGENT, None, candidates=None, shown=one.ours is None, why=why)
            continue
        if one.ours is None and one.details.uid != os.getuid() and key not in linked:
            continue  # another user's, and nothing of ours names it
        mine = [r for r in found if r.agent is one.agent and one.root in (None, r.store.root) and not r.absent]
        usable = [reading for reading in mine if reading.usable]
        roles = [reading.options[key][0] for reading in usable if key in reading.options]
        role = next((role for role in roles if role != one.role), one.role)
        many, shown = one.agent.RUNS_MANY, one.ours is not False
        claim = Claim(one.agent.NAME, key, role, one.root, many=many, shown=shown, cwd=one.details.cwd)
        if role not in (CLIENT, HELPER) and (one.agent.RUNS_MANY or key not in linked):
            claim = with_candidates(claim, mine, usable)
        yield claim


def with_candidates(claim: Claim, mine: list[Reading], usable: list[Reading]) -> Claim:
    may_run = claim.role == AGENT or (claim.role == DAEMON and any(reading.agent.RUNS_MANY for reading in mine))
    if not may_run:
        return claim._replace(why=f"a {claim.role} process: ready, on no session")
    if len(usable) < len(mine):
        return claim._replace(candidates=None, why="its store could not be read")
    options = [reading.options[claim.key][1] for reading in usable if claim.key in reading.options]
    if not options:
        return claim._replace(why="it has not written its store yet")
    if any(option.ids is None for option in options):
        return claim._replace(candidates=None, why=options[0].why)
    ids = tuple(dict.fromkeys(id for option in options for id in option.ids or ()))
    return claim._replace(candidates=ids, sole=all(option.sole for option in options), why=options[0].why)
