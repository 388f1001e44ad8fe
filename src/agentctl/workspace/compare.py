"""The launches of a group side by side: what each of them is doing, what it cost, and what came of it.

Nothing is ranked: which is best is for people to say."""

from __future__ import annotations

import os
import time

from agentctl.errors import NotFound
from agentctl.kernel.stall_guard import Errand, in_parallel
from agentctl.launches import groups, records
from agentctl.model import ALIVE, GONE, UNKNOWN, Value
from agentctl.query import attribution
from agentctl.query.resolve import launches_of
from agentctl.query.sessions import Scope, open_store_of, settled_look
from agentctl.workspace import clean, diff, git, inspect, worktree
from agentctl.workspace.commits import HEADS
from agentctl.workspace.diff import Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from agentctl.model import Exit, Launch, Message, Problem, Session
    from agentctl.query.sessions import Look
    from agentctl.workspace.diff import Difference
    from agentctl.workspace.inspect import Progress

MESSAGES = 20  # that are looked through for the last words of an agent
TEXT_LIMIT = 10_000
NO_SESSION = "no session"


class Slot(Value):
    """One slot of the group. None in a field: it is not known."""

    name: str
    launch: Launch  # the newest
    given: Launch  # the one that says where its work is
    session: Session | None
    status: str
    inferred: bool
    reason: str | None
    seconds: float | None  # from its start to its end, or until now
    place: Place | None
    difference: Difference | None
    last_message: str | None
    said: str | None  # why something of it is not there


class Comparison(Value):
    group: str
    slots: tuple[Slot, ...]
    problems: tuple[Problem, ...]


def compare(group: str, env: Mapping[str, str], progress: Progress | None = None) -> Comparison:
    """Return the slots of a group. Raises NotFound."""
    mine = groups.slots(members(group, env))
    look, sessions = look_at([one.launch for one in mine], env)
    rows = without_repetitions([(one, sessions.get(one.launch.id)) for one in mine])
    messages = last_messages([session for _, session in rows if session is not None])
    now = time.time()

    def slot_of(row: tuple[groups.Slot, Session | None]) -> Slot:
        slot, session = row
        launch = slot.launch
        place, difference, said = work_of(slot.given, env)
        status, inferred, reason = status_of(launch, session, look, env)
        return Slot(
            name=slot.name,
            launch=launch,
            given=slot.given,
            session=session,
            status=status,
            inferred=inferred,
            reason=reason,
            seconds=duration(launch, session, now),
            place=place,
            difference=difference,
            last_message=messages.get((session.agent, session.id)) if session is not None else None,
            said=said,
        )

    slots = inspect.in_threads(slot_of, rows, progress)
    return Comparison(group, tuple(sorted(slots, key=lambda one: (one.name, one.launch.id))), look.answer.problems)


def members(group: str, env: Mapping[str, str], here: str | None = None) -> list[Launch]:
    """Return the launches of a group, oldest first. Raises NotFound and TruthUnavailable."""
    return launches_of(group, *records.read_all(env), here)


def find_slot(group: str, slot: str, env: Mapping[str, str], here: str | None = None) -> groups.Slot:
    """Return one slot. `here`: the directory in which it is asked for. Raises NotFound."""
    mine = members(group, env, here)
    if (found := groups.slot_named(slot, mine)) is None:
        known = ", ".join(sorted({*map(groups.name_of, mine)}))
        raise NotFound(f"no slot {slot!r} in group {group}; it has {known}")
    return found


def place_of(group: str, slot: str, env: Mapping[str, str], here: str | None = None) -> Place:
    """Return where the work of one slot is. Raises NotFound."""
    place, why = find_place(find_slot(group, slot, env, here).given, env)
    if place is None:
        raise NotFound(f"{slot}: {why}")
    return place


def without_repetitions(
    rows: Sequence[tuple[groups.Slot, Session | None]],
) -> list[tuple[groups.Slot, Session | None]]:
    """Return the slots, without launches that have no slot and went on with the session of another one."""
    kept: list[tuple[groups.Slot, Session | None]] = []
    begun: set[tuple[str, str]] = set()
    for slot, session in rows:
        if slot.launch.slot is None and session is not None and (session.agent, session.id) in begun:
            continue
        if session is not None:
            begun.add((session.agent, session.id))
        kept.append((slot, session))
    return kept


# Its session


def look_at(mine: Sequence[Launch], env: Mapping[str, str]) -> tuple[Look, dict[str, Session]]:
    """Return the sessions of these launches, from one look, with their tokens."""
    ids = {one.id: one.session_id or attribution.printed_in(os.path.dirname(one.path or ""), one.agent) for one in mine}
    if missing := [one for one in mine if ids[one.id] is None]:
        since = min(one.created_at for one in missing)
        for session in settled_look(Scope(since=since), env).answer.sessions:
            if session.launch_id in ids:
                ids[session.launch_id] = session.id
    wanted = tuple(id for id in dict.fromkeys(ids.values()) if id is not None)
    look = settled_look(Scope(ids=wanted, tokens=True), env)
    found = {}
    for launch in mine:
        for session in look.answer.sessions:
            if session.agent == launch.agent and session.id == ids[launch.id]:
                found[launch.id] = session
    return look, found


def status_of(
    launch: Launch, session: Session | None, look: Look, env: Mapping[str, str]
) -> tuple[str, bool, str | None]:
    """Return the status, whether it is inferred, and why. A launch without a session has the status that its runner
    recorded."""
    if session is not None:
        return session.status, session.inferred, session.reason
    if attribution.child_of(launch, look.world.processes) is not None:
        return ALIVE, False, "no session yet"
    if (unread := look.world.why_unread(launch.agent)) is not None:
        return UNKNOWN, False, f"its session cannot be looked for: {unread}"
    if (why := attribution.why_unseen(launch, look.world.processes)) is not None:
        return UNKNOWN, False, why
    ends = records.exits(launch.id, env, launch.pid_namespace)
    end = next((one for one in ends if one.key == launch.child), None)
    return how_it_ended(end)


def how_it_ended(end: Exit | None) -> tuple[str, bool, str | None]:
    if end is None:
        return UNKNOWN, False, f"{NO_SESSION}, and its exit status was not recorded"
    if end.signal is not None:
        return "stopped", False, f"{NO_SESSION}; ended by {end.signal}"
    return ("failed" if end.exit_code else UNKNOWN), False, f"{NO_SESSION}; exit code {end.exit_code}"


def duration(launch: Launch, session: Session | None, now: float) -> float | None:
    if session is None:
        return None
    if session.process == GONE:
        return None if session.ended_at is None else max(0.0, session.ended_at - launch.created_at)
    return max(0.0, now - launch.created_at) if session.process == ALIVE else None


def last_messages(sessions: Sequence[Session]) -> dict[tuple[str, str], str]:
    """Return the last message of each session, by agent and id. A store that does not answer has none."""
    found: dict[tuple[str, str], str] = {}

    def read(session: Session) -> Callable[[], None]:
        def run() -> None:
            text = last_words(open_store_of(session).messages(session.id, MESSAGES).messages)
            if text is not None:
                found[session.agent, session.id] = text

        return run

    in_parallel([(Errand(), read(session)) for session in sessions])
    return dict(found)


def last_words(messages: Sequence[Message]) -> str | None:
    """Return what the agent said last; if it said nothing, the last message."""
    said = [one for one in messages if one.text.strip()]
    own = [one for one in said if one.role == "assistant"]
    return (own or said)[-1].text.strip()[:TEXT_LIMIT] if said else None


# Its work


def work_of(launch: Launch, env: Mapping[str, str]) -> tuple[Place | None, Difference | None, str | None]:
    try:
        place, said = find_place(launch, env)
        return (place, None, said) if place is None else (place, diff.measure(place, env), said)
    except git.GitFailed as error:
        return None, None, str(error)


def find_place(launch: Launch, env: Mapping[str, str]) -> tuple[Place | None, str | None]:
    """Return where the work is, and what to say about it. Raises GitFailed if git must not run there."""
    if launch.worktree is None or launch.base is None or launch.repository is None:
        return None, "it was launched without a worktree of its own"
    if not os.path.isdir(launch.repository):
        return None, f"{launch.repository}: the repository is gone"
    there = os.path.isdir(launch.worktree) and clean.given_to(launch, env)
    if there:
        if (why := worktree.why_foreign(launch.repository, launch.worktree)) is not None:
            raise git.GitFailed(why)
        return Place(launch.repository, launch.base, launch.worktree, launch.branch), None
    words = ("rev-parse", "--verify", "--quiet", f"{HEADS}{launch.branch}^{{commit}}")
    if launch.branch is not None and git.question(launch.repository, git.HERE, *words, env=env):
        return (
            Place(launch.repository, launch.base, None, launch.branch),
            f"its worktree is gone; what was committed is on {launch.branch}",
        )
    return None, f"its worktree and its branch {launch.branch} are gone"
