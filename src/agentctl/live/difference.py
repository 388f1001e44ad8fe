"""Turns two judgements into events. Pure: nothing here looks, and no clock is read.

    events = difference(before, after)      # what changed
    before = carried(before, after)         # what the next look is compared with

| type | when |
|---|---|
| checkpoint | what a stream begins with: all sessions and problems of its first look |
| session.started | the stream has not shown this session before; `to` is its status |
| session.resumed | its process was gone and one is on it again, or another process has taken it over |
| session.running, .waiting, .idle, .alive, .unknown, .done, .failed, .stopped | its status is another one now; |
| | session.waiting also if it asks something else now |
| session.removed | no store has it any more |
| agent.problem, agent.recovered | something of an agent cannot be read; it can be read again |

What could not be read ends nothing. A session that is absent while a problem may hide it stays as it was, and so does
one whose store was not read to its end and that seems to have ended: the look after the problem tells. One that has
ended does not become unknown meanwhile, so its end is told once.
"""

from __future__ import annotations

from agentctl.model import ALIVE, GONE, UNKNOWN, WAITING, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agentctl.model import Problem, Question, Session

    Name = tuple[str, str]  # agent, id
    Place = tuple[str, str | None]  # agent, path

CHECKPOINT = "checkpoint"
STARTED, RESUMED, REMOVED = "session.started", "session.resumed", "session.removed"
PROBLEM, RECOVERED = "agent.problem", "agent.recovered"
STATUS_TYPES = {
    word: f"session.{word}" for word in ("running", "waiting", "idle", "alive", "unknown", "done", "failed", "stopped")
}
TYPES = (CHECKPOINT, STARTED, *STATUS_TYPES.values(), RESUMED, REMOVED, PROBLEM, RECOVERED)
ENDS = ("done", "failed", "stopped")
NOT_AN_AGENT = ("agentctl", "configuration")  # in a problem: what cannot be read may name any store
NO_RECORD = "no store that agentctl reads has it any more"
# Of the events of one look: first why something is not seen, then what ended, then what goes on or begins.
ORDER = (RECOVERED, PROBLEM, REMOVED, *(STATUS_TYPES[word] for word in ENDS))


class Seen(Value):
    """What one look says, as far as events are made of it."""

    sessions: Mapping[Name, Session] = {}
    problems: Mapping[Place, Problem] = {}
    unread: frozenset[Name] = frozenset()  # the stores (agent, root) that were not read, or not to the end
    at: float = 0.0
    hints: Mapping[Place, Problem] = {}  # problems of the engine itself: they hide no session


class Event(Value):
    """One difference between two looks. `before` and `after` are statuses; None: there is none."""

    type: str
    at: float
    agent: str
    id: str | None = None
    before: str | None = None
    after: str | None = None
    reason: str | None = None
    session: Session | None = None  # as it is after the change; of one that was removed, as it was
    problem: Problem | None = None
    question: Question | None = None  # what it asks, if it waits: the first that it did not ask before


def difference(before: Seen, after: Seen) -> tuple[Event, ...]:
    """Return what changed between two looks, each difference once."""
    found = [*problem_events(before, after)]
    for name in {**before.sessions, **after.sessions}:
        event = session_event(before.sessions.get(name), after.sessions.get(name), after)
        if event is not None:
            found.append(event)
    return tuple(sorted(found, key=place_of))


def place_of(event: Event) -> tuple[int, str, str]:
    rank = ORDER.index(event.type) if event.type in ORDER else len(ORDER)
    return (rank, event.agent, event.id or "")


def carried(before: Seen, after: Seen) -> Seen:
    """Return what the next look is to be compared with: this look, and what it could not see as it was."""
    kept = dict(after.sessions)
    for name, session in before.sessions.items():
        if is_held(session, after.sessions.get(name), after):
            kept[name] = session
    return after._replace(sessions=kept)


def session_event(before: Session | None, after: Session | None, look: Seen) -> Event | None:
    """Return what happened to one session, if something did."""
    if before is None:
        return event_of(STARTED, None, after, look) if after is not None else None
    if is_held(before, after, look):
        return None
    if after is None:
        return Event(REMOVED, look.at, before.agent, before.id, before.status, None, NO_RECORD, before)
    if before.process == GONE and after.process == ALIVE:
        return event_of(RESUMED, before, after, look)
    if (run := new_run(before, after)) is not None:
        event = event_of(RESUMED, before, after, look)
        return event._replace(reason=f"{run}; {event.reason}" if event.reason else run)
    if before.status != after.status or asks_anew(before, after):
        return event_of(STATUS_TYPES[after.status], before, after, look)
    return None


def event_of(type: str, before: Session | None, after: Session, look: Seen) -> Event:
    status = before.status if before is not None else None
    asks = question_of(before, after)
    return Event(type, look.at, after.agent, after.id, status, after.status, words_of(after), after, question=asks)


def question_of(before: Session | None, after: Session) -> Question | None:
    """Return the first question that is new; if none is, the first that is left."""
    known = ids_of(before) if before is not None else frozenset()
    new = (question for question in after.questions if question.id not in known)
    return next(new, None) or next(iter(after.questions), None)


def ids_of(session: Session) -> frozenset[str]:
    return frozenset(question.id for question in session.questions)


def words_of(session: Session) -> str | None:
    """Return what a person wants to know first of a status: what it asks, what went wrong, or why it is so."""
    return session.waiting_for or session.error or session.reason


def asks_anew(before: Session, after: Session) -> bool:
    """Return whether a session that waits asks something else than before. The same words may be another question, and
    another process that asks the same is one: an answer must name the question that is asked now."""
    asked, asks = ((session.waiting_for, ids_of(session)) for session in (before, after))
    return before.status == after.status == WAITING and asked != asks


def new_run(before: Session, after: Session) -> str | None:
    """Return that another process is on a session whose process is not on it any more; None if that is not so."""
    if not (before.process == after.process == ALIVE) or before.process_key is None or after.process_key is None:
        return None
    if before.process_key in {after.process_key, *(entry.get("key") for entry in after.processes)}:
        return None
    return f"a new run: pid {after.pid}, before it was pid {before.pid}"


def is_held(before: Session, after: Session | None, look: Seen) -> bool:
    """Return whether a look cannot tell what became of a session, because of what could not be read."""
    if after is None or (before.status in ENDS and after.status == UNKNOWN):
        return any(agent in (before.agent, *NOT_AN_AGENT) for agent, _ in (*look.problems, *look.unread))
    ends = after.status in ENDS and before.status not in ENDS
    return ends and (after.agent, after.store) in look.unread


def problem_events(before: Seen, after: Seen) -> Iterable[Event]:
    """Yield what cannot be read any more, and what can be read again. A problem is known by its agent and its path: its
    words may count something, and change with every look."""
    old, new = {**before.problems, **before.hints}, {**after.problems, **after.hints}
    for place, problem in old.items():
        if place not in new:
            yield Event(RECOVERED, after.at, problem.agent, reason=problem.problem, problem=problem)
    for place, problem in new.items():
        if place not in old:
            yield Event(PROBLEM, after.at, problem.agent, reason=problem.problem, problem=problem)


# From events to statuses


def fold(events: Iterable[Event], start: Mapping[Name, str] = {}) -> dict[Name, str]:
    """Return the status of every session after these events. `start`: those of the checkpoint."""
    statuses = dict(start)
    for event in events:
        if event.id is None:
            continue
        name = (event.agent, event.id)
        if event.after is None:
            statuses.pop(name, None)
        else:
            statuses[name] = event.after
    return statuses


def statuses_of(seen: Seen) -> dict[Name, str]:
    return {name: session.status for name, session in seen.sessions.items()}


def matches(event: Event, types: frozenset[str]) -> bool:
    """Return whether an event is of one of these types. One that starts or resumes a session is also of the type of the
    status that it leads to, so that whoever asks for session.waiting misses no question."""
    led_to = STATUS_TYPES.get(event.after or "") if event.type in (STARTED, RESUMED) else None
    return event.type in types or led_to in types
