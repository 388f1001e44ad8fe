"""What is of a launch, or of a process: its descendants, and nobody else who is on the same session.

A session is a name that others can take up: a person in another terminal, another launch, a tool. Whoever asks to end a
launch, or what runs inside of a session, means processes.
"""

from __future__ import annotations

from agentctl.model import ALIVE, DAEMON, WRAPPER, Launch
from agentctl.query.attribution import child_of, may_live
from agentctl.query.elsewhere import id_of
from agentctl.stop.plan import keys_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from agentctl.model import ProcessKey, Session
    from agentctl.query.sessions import Look
    from agentctl.query.world import World
    from agentctl.stop.plan import Name


def processes_of(of: Launch | ProcessKey, world: World) -> frozenset[ProcessKey]:
    """Return the live processes of a launch: what it started, what its runner adopted, and all below; or a process and
    all below. An agent's daemon counts while the launch's own process lives: it is never signalled."""
    if not isinstance(of, Launch):
        return frozenset((of, *below(of, world)))
    runner, first = world.processes.own(of.runner), child_of(of, world.processes)
    found = below(runner, world)
    if first is not None:
        found |= {first.key, *below(first.key, world)}
        found |= {claim.key for claim in world.claims if claim.role == DAEMON and claim.agent == of.agent}
    return frozenset(found)


def below(key: ProcessKey, world: World) -> set[ProcessKey]:
    if world.processes.alive(key) is None:
        return set()
    return {row.key for row in world.processes.descendants(key.pid) if row.key.start >= key.start}


def is_on(session: Session, keys: Collection[ProcessKey]) -> bool:
    """Return whether one of these processes is on a live session."""
    return session.process == ALIVE and any(key in keys for key in keys_of(session))


def meant_by(of: Launch | ProcessKey | None, session: Session, world: World) -> frozenset[ProcessKey]:
    """Return the processes that may be meant: those of a launch or below a process; else all on the session."""
    if of is not None:
        return processes_of(of, world)
    return frozenset((*keys_of(session), *keys_of(session, WRAPPER)))


def who_else(session: Session, of: Launch | ProcessKey | None, only: Collection[ProcessKey]) -> str | None:
    """Return who is on a live session, if it is nobody of these; None if it is one of them, or cannot be named."""
    if session.process != ALIVE or not keys_of(session) or is_on(session, only):
        return None
    if isinstance(of, Launch):
        return f"its session {session.id} goes on in a process that it did not start: agentctl stop {session.id}"
    return f"it goes on in pid {session.pid}, which is not inside of what was stopped: agentctl stop {session.id}"


def goes_on_elsewhere(launch: Launch, look: Look) -> str | None:
    """Return where the session of a launch goes on although nothing of the launch is on it; None if it does not."""
    live = [one for one in look.answer.sessions if one.agent == launch.agent and one.process == ALIVE]
    first = id_of(launch)
    found = [one for one in live if one.parent is None and (one.launch_id == launch.id or one.id == first)]
    if may_live(look.world, launch.agent, launch.child, launch.runner):
        own = processes_of(launch, look.world)
        if child_of(launch, look.world.processes) is not None or any(
            is_on(one, own) or not keys_of(one) for one in found
        ):
            return None
    if not found:
        return None
    another = found[0].launch_id not in (None, launch.id)
    if another:
        return f"its session {found[0].id} goes on in launch {found[0].launch_id}: agentctl stop {found[0].id}"
    return who_else(found[0], launch, ())


def sessions_of(launch: Launch, look: Look) -> list[Name]:
    """Return the sessions to stop for a launch: those that its processes are on; once its process has ended, all that
    are known and have ended."""
    own = processes_of(launch, look.world)
    mine = [one for one in look.answer.sessions if one.launch_id == launch.id and one.parent is None]
    alive = [one for one in mine if one.process == ALIVE and (is_on(one, own) or not keys_of(one))]
    if not alive and child_of(launch, look.world.processes) is not None:
        return []
    return [(one.agent, one.id) for one in alive or [one for one in mine if one.process != ALIVE]]
