"""When agentctl looks again, and what it keeps of the look before."""

from __future__ import annotations

import pytest

from agentctl.agents import load
from agentctl.kernel.processes import Processes
from agentctl.model import Answer, Record
from agentctl.query import sessions
from agentctl.query.reading import Reading, Unopened
from agentctl.query.sessions import Look, Scope
from agentctl.query.world import World

AT_ALL = sessions.LOOKS


def looks(monkeypatch: pytest.MonkeyPatch, reading: Reading, **more: bool) -> int:
    """How often it looks, if each look is like this."""
    taken = []

    def look(*_: object) -> Look:
        taken.append(1)
        doubtful, moving = more.get("doubtful", False), more.get("moving", False)
        world = World(Processes("boot", []))
        return Look(Answer((), (), (), ()), world, doubtful, moving, stamps={}, stalled={}, readings=(reading,))

    monkeypatch.setattr(sessions, "look", look)
    monkeypatch.setattr(sessions, "SECOND_LOOK", 0.0)
    sessions.settle([], Scope(), {}, None)
    return len(taken)


READ = Reading(load("demo"), Unopened("/r"), records={"a": Record("demo", "a", "/r", "done")})


def test_it_looks_again_while_something_moves_and_once_in_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    assert looks(monkeypatch, READ) == 1
    assert looks(monkeypatch, READ, doubtful=True) == 2
    assert looks(monkeypatch, READ, moving=True) == AT_ALL


@pytest.mark.parametrize("why", ["doubtful", "moving"])
def test_what_a_store_said_before_it_was_left_behind_is_kept(monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    left = READ._replace(stalled=True, unread="it did not answer")
    assert looks(monkeypatch, left, **{why: True}) == 1
    assert looks(monkeypatch, left._replace(records={}), **{why: True}) > 1
