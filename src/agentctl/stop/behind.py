"""What the launches of a session that has ended left behind: `stop --tree` ends it, as far as that is proved.

It is theirs if it is a child of their runner, which adopts what its agent leaves. Once the runner is gone, too, only a
variable says so, which whoever was started from there has, such as a person's shell in a tmux server that the agent
began: then it is named, and nothing is signalled.
"""

from __future__ import annotations

from agentctl.launches.records import MARKER
from agentctl.model import Launch
from agentctl.query.attribution import may_live, why_unseen
from agentctl.stop.plan import ADOPTED, left_as

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from agentctl.model import ProcessKey, Session
    from agentctl.query.world import Launched, World
    from agentctl.stop.plan import Left
    from agentctl.stop.stop import Outcome

UNPROVED = "perhaps left behind by this launch: only its environment says so, and the runner is gone; it is not ended"


def end_behind(
    session: Session,
    of: Launch | ProcessKey | None,
    world: World,
    end: Callable[[Launched, World], list[Outcome]],
) -> list[Outcome]:
    """Let `end` end what the launches of an ended session left behind. Return what came of it, if there was any."""
    found = [one for this in launches_over(session, of, world) for one in end(this, world)]
    return [one for one in found if one.ended or one.left or one.living]


def launches_over(session: Session, of: Launch | ProcessKey | None, world: World) -> list[Launched]:
    """Return the launches of an ended session of which nothing lives that may be an agent. An agent of a launch may be
    on another session now: that one was not asked for. `of`: the launch that was asked for, if it was one."""
    name = (session.agent, session.id)
    mine = [one for one in world.launches if (one.launch.agent, one.session_id) == name]
    mine += [one for one in world.launches if one.launch.id == session.launch_id and one not in mine]
    return [
        one
        for one in mine
        if (not isinstance(of, Launch) or of.id == one.launch.id)
        and why_unseen(one.launch, world.processes) is None
        and not may_live(world, one.launch.agent, one.launch.child, one.launch.runner)
    ]


def orphans_of(launch: Launch, world: World) -> list[Left]:
    """Return the processes that carry the marker of a launch whose runner is gone."""
    processes = world.processes
    if processes.alive(processes.own(launch.runner)) is not None:
        return []
    found = []
    for process in processes.living():
        details = processes.details(process)
        if details is not None and details.env and details.env.get(MARKER) == launch.id:
            found.append(left_as(process, ADOPTED, f"{UNPROVED}: kill {process.pid}, if it is yours"))
    return found
