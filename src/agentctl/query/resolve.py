"""Finds what a person means: by a session id or the beginning of one, a launch id, or the name of a group.

Every command that takes one asks here, so that all of them understand the same words.
"""

from __future__ import annotations

import os

from agentctl.errors import Ambiguous, NotFound, Refused, SeveralGroups, TruthUnavailable
from agentctl.files.private import not_ours
from agentctl.launches import groups, records
from agentctl.model import ALIVE, HOLDERS, SESSIONS, Launch, Problem, Session, Value
from agentctl.query.attribution import child_of, why_unseen
from agentctl.query.elsewhere import id_of, why_apart
from agentctl.query.sessions import Look, Scope, examine, settled_look, unread_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from agentctl.errors import AgentctlError


class Named(Value):
    """The session that was meant, as it was just judged; or a launch that has no session yet."""

    look: Look
    session: Session | None
    launch: Launch | None = None  # if a launch id was typed


class Group(Value):
    """The launches of a group, oldest first, and its sessions in the scope of the look."""

    launches: tuple[Launch, ...]
    sessions: tuple[Session, ...]

    def without_session(self) -> list[Launch]:
        """Return the launches that have none of these sessions."""
        held = {session.launch_id for session in self.sessions}
        return [launch for launch in self.launches if launch.id not in held]

    def of_now(self) -> Group:
        """Return the group without what earlier launches of the same slots began: each slot is its newest launch."""
        launches = tuple(slot.launch for slot in groups.slots(self.launches))
        ids = {launch.id for launch in launches}
        return Group(launches, tuple(session for session in self.sessions if session.launch_id in ids))


def resolve(text: str, env: Mapping[str, str], *, tokens: bool = False, related_launches_only: bool = False) -> Named:
    """Return what was meant. Raises NotFound, Ambiguous, TruthUnavailable if it was not found and not everything could
    be read, and Refused for a launch whose record cannot be believed."""
    launch = launch_named(text, env)
    if launch is None:
        look = examine(text, env, tokens=tokens, related_launches_only=related_launches_only)
        return Named(look, look.answer.sessions[0])
    look = settled_look(Scope(), env)
    live = live_sessions_of(launch, look)
    if len(live) > 1:
        raise Ambiguous(text, [f"{session.id}  {session.agent}  {session.status}" for session in live], what="launch")
    if not live and child_of(launch, look.world.processes) is not None:
        return Named(look, None, launch)  # it is not on a session yet, whichever it will be on
    id = live[0].id if live else id_of(launch)
    if id is None:
        return Named(look, None, launch)
    # By its whole id and its agent: what a launch printed may be the beginning of somebody else's id.
    scope = Scope(agents=(launch.agent,), ids=(id,), tokens=tokens, related_launches_only=related_launches_only)
    look = settled_look(scope, env)
    return Named(look, next(iter(look.answer.sessions), None), launch)


def resolve_session(
    text: str, env: Mapping[str, str], *, tokens: bool = False, related_launches_only: bool = False
) -> Look:
    """Return a look at the one session that was meant. Raises as `resolve`, and NotFound for a launch without one."""
    named = resolve(text, env, tokens=tokens, related_launches_only=related_launches_only)
    if named.session is None and named.launch is not None:
        raise no_session(named.launch, named.look)
    return named.look


def no_session(launch: Launch, look: Look, *, printed: bool | None = None) -> AgentctlError:
    """Return why a launch stands for no session. `printed`: whether it was just shown what the launch printed; None:
    nobody looked."""
    more = f"; `agentctl peek {launch.id}` shows what it printed" if printed is None and launch.headless else ""
    more = ", and has printed nothing" if printed is False else more
    if child_of(launch, look.world.processes) is not None:
        screen = "" if launch.headless else f"; `agentctl attach {launch.id}` opens its screen"
        return NotFound(f"launch {launch.id} has no session yet{screen or more}")
    if (unseen := why_unseen(launch, look.world.processes)) is not None:
        why = f"has no session that is known, and whether it lives cannot be told: {unseen}"
        return TruthUnavailable(f"launch {launch.id} {why}")
    if unread := unread_words(look.answer.problems):
        return TruthUnavailable(f"launch {launch.id} is over, and its session cannot be looked for{unread}")
    if (apart := why_apart(launch, look)) is not None:
        return TruthUnavailable(f"launch {launch.id} is over, and its session cannot be looked for: {apart}")
    if id_of(launch) is None:
        return NotFound(f"launch {launch.id} ended before it had a session{more}")
    where = f"is not in the store of {launch.agent}"
    return NotFound(f"launch {launch.id} is over, and its session {id_of(launch)} {where}{more}")


def launch_named(text: str, env: Mapping[str, str]) -> Launch | None:
    """Return the launch of this id; None if it is no launch id, or no launch has it. Raises Refused if its record is
    damaged, or others could have written it: then nobody can tell what was launched."""
    if not records.is_id(text):
        return None
    folder = records.launches_folder(env)
    launch = records.read_folder(text, os.path.join(folder, text))
    if launch is not None and (why := not_ours(folder) or not_ours(records.state_folder(env))):
        raise Refused(f"{folder}: {why}; its launches are not believed: make it yours alone")
    if launch is None or isinstance(launch, Launch):
        return launch
    raise Refused(f"{launch.path}: {launch.problem}; without it nobody can tell what was launched")


def live_sessions_of(launch: Launch, look: Look) -> list[Session]:
    """Return the live sessions of a launch, without their sub-agents."""
    mine = [session for session in look.answer.sessions if session.launch_id == launch.id]
    return [session for session in mine if session.process == ALIVE and session.parent is None]


def refuse_if_short_for_another(text: str, look: Look) -> None:
    """Raise an error if the beginning of an id may stand for another session than the one that a look has found: for
    one that a launch of ours is about to begin, or for one in what could not be read. A whole id stands for itself."""
    (found,) = look.answer.sessions
    if text == found.id:
        return
    live = [one for one in look.world.launches if one.unseen or child_of(one.launch, look.world.processes) is not None]
    begun = [one for one in live if (one.session_id or "").startswith(text) and one.session_id != found.id]
    if begun:
        shown = [f"{found.id}  {found.agent}  {found.status}"]
        raise Ambiguous(text, [*shown, *(f"{one.session_id}  {one.launch.agent}  launched" for one in begun)])
    hidden = [Problem(one.agent.NAME, one.unread, one.store.root) for one in look.readings if one.unread]
    gaps = [gap for one in look.readings for gap in one.gaps if gap.hides in (SESSIONS, HOLDERS)]
    hidden += [gap.problem for gap in gaps if gap.session is None]
    if hidden:
        raise TruthUnavailable(
            f"{text!r} may be the beginning of another session than {found.id}{unread_words(hidden)}; give the whole id"
        )


def group_in(group: str, look: Look) -> Group:
    """Return a group as a look shows it, which must have read every launch. Raises as `launches_of`, which it asks for
    the group of the repository that this command is in."""
    launches = launches_of(group, [launched.launch for launched in look.world.launches], unread_launches(look))
    ids = {launch.id for launch in launches}
    return Group(tuple(launches), tuple(session for session in look.answer.sessions if session.launch_id in ids))


def launches_of(
    group: str, launches: Sequence[Launch], unread: Iterable[Problem], here: str | None = None
) -> list[Launch]:
    """Return the launches of a group, oldest first. `here`: the directory in which it is asked for; None: that of this
    command. Raises NotFound, with the known groups; SeveralGroups; TruthUnavailable if some launches could not be read:
    each may be of this group."""
    try:
        return groups.of_group(group, launches, here if here is not None else groups.here())
    except SeveralGroups:
        raise
    except NotFound as error:
        if words := unread_words(unread):
            raise TruthUnavailable(f"{error}{words}") from None
        raise


def unread_launches(look: Look) -> list[Problem]:
    """Return the launches that could not be read: each may be one of the group that is asked for."""
    return [problem for problem in look.answer.problems if problem.agent == records.OWNER]
