"""Processes that may be on a session without a proof of it: what they forbid the judge to say."""

from __future__ import annotations

import pytest

from agentctl.judge import judge, sole_links
from agentctl.model import (
    AGENT,
    CLIENT,
    DAEMON,
    DONE,
    IDLE,
    SPARE,
    WORKING,
    Claim,
    Link,
    Process,
    ProcessKey,
    Record,
    StoreView,
)
from agentctl.processes import Processes
from agentctl.world import World

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
    (session,) = [one for one in judge(given).sessions if one.id == "a"]
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


def test_a_session_in_which_nothing_was_begun_may_be_about_to_begin() -> None:
    assert verdict(world(claim(HERS, AGENT, ("a", "b")), turn=IDLE)) == ("unknown", "candidate", False)
    assert verdict(world(turn=IDLE)) == ("done", "closed", False)


def test_a_daemon_is_never_unattached() -> None:
    given = world(claim(HERS, DAEMON, ("a",)), claim(OTHER, AGENT, ("a", "b")))
    assert [one.pid for one in judge(given).unattached] == [OTHER.pid]


def test_links_that_were_inferred_before_are_not_inferred_again() -> None:
    """So that a store can look at them in between."""
    given = world(claim(HERS, AGENT, ("a",), sole=True))
    (link,) = sole_links(given)
    seen = given._replace(links=(link._replace(turn=IDLE, reason="as the store sees it"),))
    assert sole_links(seen) == []
    (session,) = [one for one in judge(seen).sessions if one.id == "a"]
    assert (session.status, session.reason, session.inferred, session.link) == (
        "idle",
        "as the store sees it",
        True,
        "sole",
    )
    assert judge(seen).unattached == ()
