"""Processes that may be on a session without a proof of it: what they forbid the judge to say."""

from __future__ import annotations

import pytest

from agentctl.kernel.processes import Processes
from agentctl.model import (
    AGENT,
    CLIENT,
    DAEMON,
    DONE,
    IDLE,
    SPARE,
    STRANGER,
    WORKING,
    Claim,
    Link,
    Process,
    ProcessKey,
    Record,
    StoreView,
)
from agentctl.query.judge import sole_links
from agentctl.query.world import World
from tests.support.facts import judged

STORE = "/store"
HERS, OTHER = ProcessKey("boot", 10, 1), ProcessKey("boot", 20, 1)


def world(*claims: Claim, turn: str = WORKING, links: tuple[Link, ...] = ()) -> World:
    """Two live processes, and the sessions a (of which we ask) and b."""
    rows = [Process(key, 1, "agent", "S") for key in (HERS, OTHER)]
    records = tuple(Record("x", id, STORE, turn, "because", path=f"/{id}", cwd="/w") for id in "ab")
    return World(Processes("boot", rows), (StoreView("x", STORE),), records, links, claims)


def claim(key: ProcessKey, role: str, candidates: tuple[str, ...] | None, *, sole: bool = False) -> Claim:
    return Claim("x", key, role, STORE, candidates, sole, many=True)


def verdict(given: World) -> tuple[str, str, bool]:
    (session,) = [one for one in judged(given).sessions if one.id == "a"]
    return session.status, session.rule, session.inferred


B = Link("x", "b", STORE, HERS, "proved")


@pytest.mark.parametrize(
    ("claims", "links", "expected"),
    [
        ((), (), ("stopped", "exhausted", False)),
        ((claim(HERS, DAEMON, ()),), (), ("stopped", "exhausted", False)),
        ((claim(HERS, DAEMON, ("a",)),), (), ("unknown", "candidate", False)),
        ((claim(HERS, DAEMON, None),), (), ("unknown", "candidate", False)),
        ((claim(HERS, DAEMON, ("b",)),), (), ("stopped", "exhausted", False)),
        ((claim(HERS, CLIENT, ("a",)),), (), ("stopped", "exhausted", False)),
        ((claim(HERS, SPARE, ("a",)),), (), ("stopped", "exhausted", False)),
        # It is proved to be on b: on a it may be only if its agent says that one process can be on several.
        ((claim(HERS, AGENT, ()),), (B,), ("stopped", "exhausted", False)),
        ((claim(HERS, AGENT, ("a",)),), (B,), ("unknown", "candidate", False)),
        ((claim(HERS, DAEMON, ("a",)),), (B,), ("unknown", "candidate", False)),
        # The only one that can be, and one that has a rival in a daemon, or in a process that has another session.
        ((claim(HERS, AGENT, ("a",), sole=True),), (), ("running", "alive", True)),
        ((claim(HERS, DAEMON, ("a",), sole=True),), (), ("unknown", "candidate", False)),
        ((claim(OTHER, AGENT, ("a",), sole=True), claim(HERS, DAEMON, ("a",))), (), ("unknown", "candidate", False)),
        ((claim(OTHER, AGENT, ("a",), sole=True), claim(HERS, AGENT, ("a",))), (B,), ("unknown", "candidate", False)),
    ],
)
def test_an_open_turn(claims: tuple[Claim, ...], links: tuple[Link, ...], expected: tuple[str, str, bool]) -> None:
    assert verdict(world(*claims, links=links)) == expected


def test_a_closed_turn_keeps_its_word_and_says_who_may_be_there() -> None:
    assert verdict(world(claim(HERS, DAEMON, ("a",)), turn=DONE)) == ("done", "closed", True)
    assert verdict(world(claim(HERS, DAEMON, ()), turn=DONE)) == ("done", "closed", False)


@pytest.mark.parametrize(
    ("proof", "named", "inferred"), [(False, False, False), (True, False, True), (False, True, True)]
)
def test_a_stranger_that_shows_what_it_is_makes_a_closed_turn_doubtful(
    proof: bool, named: bool, inferred: bool
) -> None:
    stranger = Claim("x", HERS, STRANGER, STORE, ("a",), proof=proof, says_so=named, why="it has a file open")
    given = world(turn=DONE)._replace(strangers=(stranger,))
    assert verdict(given) == ("done", "closed", inferred)


def test_a_session_in_which_nothing_was_begun_may_be_about_to_begin() -> None:
    assert verdict(world(claim(HERS, AGENT, ("a", "b")), turn=IDLE)) == ("unknown", "candidate", False)
    assert verdict(world(turn=IDLE)) == ("done", "closed", False)


def test_a_daemon_is_never_unattached() -> None:
    given = world(claim(HERS, DAEMON, ("a",)), claim(OTHER, AGENT, ("a", "b")))
    assert [one.pid for one in judged(given).unattached] == [OTHER.pid]


def test_links_that_were_inferred_before_are_not_inferred_again() -> None:
    """So that a store can look at them in between."""
    given = world(claim(HERS, AGENT, ("a",), sole=True))
    (link,) = sole_links(given)
    seen = given._replace(links=(link._replace(turn=IDLE, reason="as the store sees it"),))
    assert sole_links(seen) == []
    (session,) = [one for one in judged(seen).sessions if one.id == "a"]
    assert (session.status, session.reason, session.inferred, session.link) == (
        "idle",
        "as the store sees it",
        True,
        "sole",
    )
    assert judged(seen).unattached == ()


@pytest.mark.parametrize(
    ("turn", "status", "rule"), [(WORKING, "stopped", "exhausted"), (DONE, "done", "closed"), (IDLE, "done", "closed")]
)
@pytest.mark.parametrize("role", [AGENT, CLIENT, DAEMON])
def test_what_a_screen_may_show_has_not_firmly_ended(turn: str, status: str, rule: str, role: str) -> None:
    """Whatever the process is: it has a screen. It works on no turn of the session, so the turn keeps its word."""
    screen = claim(HERS, role, ())._replace(shows=frozenset("a"))
    given = world(screen, turn=turn)
    assert verdict(given) == (status, rule, True)
    by_id = {session.id: session for session in judged(given).sessions}
    assert (by_id["a"].may_be_open_in, by_id["b"].may_be_open_in) == ((10,), ())
    assert "pid 10 may have it open on its screen" in (by_id["a"].reason or "")
    assert not by_id["b"].inferred


def test_a_screen_of_another_store_or_one_that_is_gone_shows_nothing() -> None:
    elsewhere = claim(HERS, AGENT, ())._replace(shows=frozenset("a"), store="/elsewhere")
    assert verdict(world(elsewhere, turn=DONE)) == ("done", "closed", False)
    gone = claim(ProcessKey("boot", 30, 1), AGENT, ())._replace(shows=frozenset("a"))
    assert verdict(world(gone, turn=DONE)) == ("done", "closed", False)


def test_a_session_that_a_process_is_on_is_not_in_doubt_because_of_a_screen() -> None:
    screen = claim(OTHER, AGENT, ())._replace(shows=frozenset("ab"))
    given = world(screen, turn=DONE, links=(Link("x", "a", STORE, HERS, "proved"),))
    (session,) = [one for one in judged(given).sessions if one.id == "a"]
    assert (session.status, session.inferred, session.may_be_open_in) == ("idle", False, ())
