"""Differences between looks: each once, in order, and none made of what could not be read."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentctl import config
from agentctl.launches import records
from agentctl.live import difference as differences
from agentctl.live.difference import (
    ENDS,
    PROBLEM,
    RECOVERED,
    REMOVED,
    RESUMED,
    STARTED,
    STATUS_TYPES,
    TYPES,
    Event,
    Seen,
    carried,
    difference,
    fold,
    matches,
    statuses_of,
)
from agentctl.model import (
    ALIVE,
    GONE,
    PROCESS_WORDS,
    STATUS_WORDS,
    TURN_WORDS,
    UNKNOWN,
    WAITING,
    Problem,
    Question,
    Session,
    status_word,
)
from tests.support.facts import judged
from tests.support.random_worlds import make

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentctl.live.difference import Place

AGENTS, ROOTS = ("amber", "birch"), ("/one", "/two")
NOT_AGENTS = ("agentctl", "configuration")
KEYS = ("boot:10:1", "boot:11:2", "boot:12:3")


def session(id: str = "s", process: str = ALIVE, turn: str = "working", **more: object) -> Session:
    given: dict[str, object] = {"agent": "amber", "store": "/one", **more}
    found = Session(id, str(given.pop("agent")), status_word(process, turn), process, turn)
    return found._replace(**given)


def seen(*sessions: Session, problems: Sequence[Problem] = (), unread: Sequence[tuple[str, str]] = ()) -> Seen:
    return Seen(
        {(one.agent, one.id): one for one in sessions},
        {(problem.agent, problem.path): problem for problem in problems},
        frozenset(unread),
        7.0,
    )


def types(before: Seen, after: Seen) -> list[str]:
    return [event.type for event in difference(before, after)]


WORDS = {status_word(process, turn): (process, turn) for process in PROCESS_WORDS for turn in TURN_WORDS}


def test_every_status_has_a_type() -> None:
    assert set(STATUS_TYPES) == set(STATUS_WORDS) == set(WORDS)
    assert len(set(TYPES)) == len(TYPES)


def test_what_is_no_agent_is_called_as_elsewhere() -> None:
    assert set(differences.NOT_AN_AGENT) == {records.OWNER, config.OWNER}


@pytest.mark.parametrize("after", WORDS)
@pytest.mark.parametrize("before", WORDS)
def test_each_change_of_status_is_one_event(before: str, after: str) -> None:
    old, new = session("s", *WORDS[before]), session("s", *WORDS[after], reason="why")
    events = difference(seen(old), seen(new))
    if before == after:
        assert events == ()
        return
    resumed = old.process == GONE and new.process == ALIVE
    expected = RESUMED if resumed else STATUS_TYPES[after]
    assert events == (Event(expected, 7.0, "amber", "s", before, after, "why", new),)


def test_a_new_session_is_started_whatever_it_does() -> None:
    for word, (process, turn) in WORDS.items():
        (event,) = difference(seen(), seen(session("s", process, turn)))
        assert (event.type, event.before, event.after) == (STARTED, None, word)


def test_an_event_says_what_it_asks_before_what_went_wrong_before_why() -> None:
    asks = session("s", ALIVE, WAITING, waiting_for="may I?", error="bad", reason="why")
    for one, words in ((asks, "may I?"), (asks._replace(waiting_for=None), "bad"), (session("s", reason="why"), "why")):
        (event,) = difference(seen(), seen(one))
        assert event.reason == words


def test_another_question_is_an_event_of_its_own() -> None:
    first, second = (session("s", ALIVE, WAITING, waiting_for=text) for text in ("first?", "second?"))
    (event,) = difference(seen(first), seen(second))
    assert (event.type, event.before, event.after, event.reason) == ("session.waiting", WAITING, WAITING, "second?")
    assert types(seen(second), seen(second)) == []
    idle = [session("s", ALIVE, "idle", waiting_for=text) for text in ("first?", "second?")]
    assert types(seen(idle[0]), seen(idle[1])) == []


def test_a_question_is_known_by_its_id_not_by_its_words() -> None:
    one, two, three = (Question("permission", "Bash", "make", id=id) for id in ("1", "2", "3"))

    def asks(*questions: Question) -> Session:
        return session("s", ALIVE, WAITING, waiting_for="make", questions=questions)

    (event,) = difference(seen(asks(one)), seen(asks(two)))
    assert (event.type, event.before, event.after, event.question) == ("session.waiting", WAITING, WAITING, two)
    (event,) = difference(seen(asks(one)), seen(asks(one, two)))
    assert event.question == two  # the one that is new
    (event,) = difference(seen(asks(one, two, three)), seen(asks(three, one)))
    assert event.question == three  # one was answered: the first that is left
    assert types(seen(asks(one, two)), seen(asks(two, one))) == []
    (event,) = difference(seen(session("s")), seen(asks(one)))
    assert (event.type, event.question) == ("session.waiting", one)
    (event,) = difference(seen(), seen(asks(one)))
    assert (event.type, event.question) == (STARTED, one)
    (event,) = difference(seen(asks(one)), seen(session("s")))
    assert event.question is None


def test_another_process_on_it_has_resumed_it_only_if_the_first_is_not_on_it_any_more() -> None:
    first, second = (session("s", process_key=key, pid=int(key.split(":")[1])) for key in KEYS[:2])
    (event,) = difference(seen(first), seen(second))
    assert (event.type, event.before, event.after) == (RESUMED, "running", "running")
    assert event.reason == "a new run: pid 11, before it was pid 10"
    both = second._replace(processes=({"key": KEYS[0]}, {"key": KEYS[1]}))
    assert types(seen(first), seen(both)) == []  # two are on it: which one comes first may change with each look
    assert types(seen(first), seen(second._replace(process_key=None))) == []


def test_an_absent_session_was_removed() -> None:
    old = session("s", GONE, "done")
    (event,) = difference(seen(old), seen())
    assert (event.type, event.before, event.after, event.session) == (REMOVED, "done", None, old)


@pytest.mark.parametrize("agent", ["amber", *NOT_AGENTS])
def test_an_absent_session_is_not_removed_if_a_problem_may_hide_it(agent: str) -> None:
    old = session()
    gap = seen(problems=[Problem(agent, "not read", "/one")])
    assert types(seen(old), gap) == [PROBLEM]
    held = carried(seen(old), gap)
    assert held.sessions == {("amber", "s"): old}
    assert types(held, gap) == []
    assert types(held, seen(old)) == [RECOVERED]
    assert types(held, seen()) == [RECOVERED, REMOVED]


def test_a_problem_of_another_agent_or_of_the_engine_hides_no_session() -> None:
    assert types(seen(session()), seen(problems=[Problem("birch", "x", "/b")])) == [PROBLEM, REMOVED]
    hint = seen()._replace(hints={("agentctl", None): Problem("agentctl", "no room")})
    assert types(seen(session()), hint) == [PROBLEM, REMOVED]
    assert types(hint, seen()) == [RECOVERED]


@pytest.mark.parametrize("turn", ["done", "failed", "interrupted"])
def test_a_store_that_was_not_read_to_its_end_ends_nothing(turn: str) -> None:
    old, ended = session(), session("s", GONE, turn)
    gap = seen(ended, unread=[("amber", "/one")])
    assert types(seen(old), gap) == []
    assert carried(seen(old), gap).sessions == {("amber", "s"): old}
    assert types(carried(seen(old), gap), seen(ended)) == [STATUS_TYPES[ended.status]]
    elsewhere = seen(ended, unread=[("amber", "/two")])  # another store of the same agent: this end is proved
    assert types(seen(old), elsewhere) == [STATUS_TYPES[ended.status]]


def test_the_end_of_a_session_is_told_once_whatever_cannot_be_read_later() -> None:
    ended, unknown = session("s", GONE, "done"), session("s", GONE, UNKNOWN)
    gap = seen(unknown, problems=[Problem("amber", "not read", "/one")])
    assert types(seen(ended), gap) == [PROBLEM]
    assert types(carried(seen(ended), gap), seen(ended)) == [RECOVERED]
    assert types(seen(ended), seen(unknown)) == ["session.unknown"]  # nothing hides it: that is news
    assert types(seen(session()), gap) == [PROBLEM, "session.unknown"]


def test_a_problem_is_known_by_its_place_not_by_its_words() -> None:
    first, second = (seen(problems=[Problem("amber", f"{count} of 9 were read", "/one")]) for count in (3, 4))
    assert types(seen(), first) == [PROBLEM]
    assert types(first, second) == []
    assert types(second, seen()) == [RECOVERED]


def test_problems_come_first_then_ends_then_the_rest() -> None:
    before = seen(session("a"), session("b"), session("d"))
    after = seen(
        session("a", ALIVE, "idle"), session("b", GONE, "done"), session("c"), problems=[Problem("birch", "x", "/b")]
    )
    assert types(before, after) == [PROBLEM, REMOVED, "session.done", "session.idle", STARTED]


def test_whoever_asks_for_questions_misses_none() -> None:
    asks = session("s", ALIVE, WAITING)
    for before in (seen(), seen(session("s", GONE, "done")), seen(session())):
        (event,) = difference(before, seen(asks))
        assert matches(event, frozenset({"session.waiting"}))
        assert matches(event, frozenset({event.type}))
        assert not matches(event, frozenset({"session.idle"}))


# Random worlds that change step by step


@st.composite
def looks(draw: st.DrawFn) -> list[Seen]:
    """A few looks at a world that changes: sessions come, change and go, and stores cannot be read for a while."""
    found: list[Seen] = []
    world: dict[tuple[str, str], Session] = {}
    for number in range(draw(st.integers(1, 8))):
        for _ in range(draw(st.integers(0, 4))):
            name = (draw(st.sampled_from(AGENTS)), draw(st.sampled_from("abc")))
            if draw(st.booleans()) and name in world:
                del world[name]
                continue
            process, turn = draw(st.sampled_from(PROCESS_WORDS)), draw(st.sampled_from(TURN_WORDS))
            world[name] = session(
                name[1],
                process,
                turn,
                agent=name[0],
                store=draw(st.sampled_from(ROOTS)),
                process_key=draw(st.sampled_from(KEYS)) if process == ALIVE else None,
                waiting_for=draw(st.sampled_from(("x?", "y?"))) if turn == WAITING else None,
            )
        unread = draw(st.sets(st.sampled_from([(agent, root) for agent in AGENTS for root in ROOTS]), max_size=2))
        whole = draw(st.booleans())  # nothing of an unread store is seen, or what it had said before
        shown = {
            name: one for name, one in world.items() if not (whole and (one.agent, one.store or "") in unread)
        }  # fmt: skip
        problems: dict[Place, Problem] = {}
        problems.update({place: Problem(place[0], f"look {number}", place[1]) for place in unread})
        if draw(st.integers(0, 9)) == 9:
            owner = draw(st.sampled_from(NOT_AGENTS))
            problems[(owner, "/ours")] = Problem(owner, "x", "/ours")
        found.append(Seen(shown, problems, frozenset(unread), float(number)))
    return found


@settings(max_examples=400, deadline=None)
@given(looks())
def test_events_of_a_random_life(life: list[Seen]) -> None:
    check_life(life)


def check_life(life: list[Seen]) -> list[Event]:
    events: list[Event] = []
    before = Seen()
    for look in life:
        step = difference(before, look)
        events += step
        check_gaps(step, look)
        before = carried(before, look)
        assert difference(before, look) == ()  # each difference appears once
        folded = fold(events)
        assert folded == statuses_of(before)
        check_fold(folded, look)
    check_order(events)
    return events


def check_gaps(step: Sequence[Event], look: Seen) -> None:
    """A look with gaps ends nothing that the gap may hide."""
    troubled = {agent for agent, _ in (*look.problems, *look.unread)}
    for event in step:
        if event.session is not None and (event.agent, event.session.store) in look.unread:
            assert event.after not in ENDS or event.type == STARTED or event.before in ENDS
        if event.type == REMOVED:
            assert not troubled & {event.agent, *NOT_AGENTS}


def check_fold(folded: dict[tuple[str, str], str], look: Seen) -> None:
    """The fold equals the last judgement, for stores without a problem."""
    troubled = {agent for agent, _ in (*look.problems, *look.unread)}
    if troubled & set(NOT_AGENTS):
        return
    for agent in set(AGENTS) - troubled:
        mine = {name: word for name, word in folded.items() if name[0] == agent}
        assert mine == {name: word for name, word in statuses_of(look).items() if name[0] == agent}


def check_order(events: list[Event]) -> None:
    """The events of a session follow from each other: each begins where the one before it ended."""
    last: dict[tuple[str, str], str | None] = {}
    for event in events:
        if event.id is None:
            continue
        name = (event.agent, event.id)
        assert event.before == last.get(name)
        assert (event.type == STARTED) == (last.get(name) is None)
        assert event.type != RESUMED or event.after not in (*ENDS, None)
        last[name] = event.after
    times = [event.at for event in events]
    assert times == sorted(times)


@pytest.mark.parametrize("seed", range(60))
def test_events_of_random_judgements(seed: int) -> None:
    """The same with what the judge makes of random worlds: they share names, so one follows from another."""
    rng = random.Random(seed)
    life = []
    for number in range(6):
        world = make(rng).world
        sessions = {(one.agent, one.id): one for one in judged(world).sessions}
        stores = {(store.agent, store.root): store.unread for store in world.stores if store.unread}
        problems: dict[Place, Problem] = {}
        problems.update({place: Problem(place[0], why, place[1]) for place, why in stores.items()})
        life.append(Seen(sessions, problems, frozenset(stores), float(number)))
    assert check_life(life)
