"""Who is whose at one moment: what a plan needs to know, read from the kernel and the stores. See plan.py."""

from __future__ import annotations

import os
import time

from agentctl.agents import TABLE, load
from agentctl.model import AGENT, DAEMON, HELPER, SPARE
from agentctl.query import attribution
from agentctl.query.candidates import claim_all
from agentctl.query.sessions import Scope, settled_look, snapshot
from agentctl.stop.containers import housemates
from agentctl.stop.plan import Ground

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from agentctl.kernel.processes import Processes
    from agentctl.model import Details, Launch, ProcessKey
    from agentctl.query.candidates import Claimed
    from agentctl.query.sessions import Look
    from agentctl.query.world import World
    from agentctl.stop.terminate import Around

GLANCE = 0.1  # seconds between two looks


def look_past_a_wrapper(launch: Launch, env: Mapping[str, str], tell: Callable[[str], None]) -> Look:
    """Look at everything that lives. If the first process of a launch has ended and left others behind, look again for
    a moment: one of them may be about to execute the agent."""
    until = time.monotonic() + attribution.BECOMES_AGENT
    told = False
    while True:
        look = settled_look(Scope(), env)
        place = (launch.child, launch.runner)
        known = any(session.launch_id == launch.id for session in look.answer.sessions)
        if known or attribution.may_live(look.world, launch.agent, *place) or time.monotonic() >= until:
            return look
        left = attribution.left_behind(look.world, launch.id, *place)
        if not left:
            return look
        if not told:
            told = True
            tell(f"launch {launch.id}: its first process has ended and left pid {left[0].pid}; is that its agent?")
        time.sleep(GLANCE)


def around(world: World, env: Mapping[str, str]) -> Around:
    """Return a function that looks at who is whose now: cheaper than a judgement, and with what was started since."""
    agents = [load(name) for name in TABLE]  # all of them: what is not recognised would be ended as a tool
    known = [world]

    def look(roots: Collection[ProcessKey]) -> Ground:
        processes = snapshot(agents)
        if has_new_below(roots, processes, known[-1].processes):
            known.append(settled_look(Scope(), env).world)  # who started since may be on a session
        claimed = claim_all(agents, processes)
        ground = ground_of(known[-1]._replace(processes=processes), roots)
        return ground._replace(
            roles={one.process.key: (one.agent.NAME, one.role) for one in claimed if not one.vague},
            unclear=frozenset(one.process.key for one in claimed if one.vague or is_copy(one)),
        )

    return look


def has_new_below(roots: Collection[ProcessKey], now: Processes, before: Processes) -> bool:
    """Return whether a process descends from these that an earlier table does not have."""
    return any(before.alive(row.key) is None for root in roots for row in now.descendants(root.pid))


def is_copy(claimed: Claimed) -> bool:
    """Return whether a process looks like the agent above it. Between fork and exec it is none, for some milliseconds;
    if it stays so, it may be an agent that was started in the same way."""
    own = claimed.agent.claims(claimed.process, claimed.details)
    return claimed.role == HELPER and own in (AGENT, SPARE, DAEMON)


def details_below(roots: Collection[ProcessKey], processes: Processes) -> dict[ProcessKey, Details]:
    """Read the details of these processes, and of all that descends from them."""
    known: dict[ProcessKey, Details] = {}
    for root in roots:
        top = processes.alive(root)
        for row in (top, *processes.descendants(root.pid)) if top is not None else ():
            if row.key not in known and (details := processes.details(row)) is not None:
                known[row.key] = details
    return known


def ground_of(world: World, roots: Collection[ProcessKey]) -> Ground:
    """Return who is whose, with the details of these processes and of all below them."""
    on: dict[ProcessKey, tuple[str, ...]] = {}
    of_agents: dict[ProcessKey, str] = {}
    for link in world.links:
        if world.processes.alive(link.key) is not None and link.id not in on.get(link.key, ()):
            on[link.key] = (*on.get(link.key, ()), link.id)
            of_agents.setdefault(link.key, link.agent)
    roles = {claim.key: (claim.agent, claim.role) for claim in world.claims}
    return Ground(
        world.processes,
        details_below(roots, world.processes),
        roles=roles,
        on=on,
        runners={world.processes.own(one.launch.runner): one.launch.id for one in world.launches},
        ourselves=frozenset(world.processes.ancestors(os.getpid())),
        uid=os.getuid(),
        of_agents=of_agents,
        housemates=housemates(roots, on, roles, world.processes),
    )
