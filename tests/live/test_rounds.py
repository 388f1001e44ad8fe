"""The one loop of looks, driven step by step: what is watched, when it rests, and until when."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from agentctl.agents import load
from agentctl.kernel import watch as watching
from agentctl.kernel.watch import CHANGED, DUE, ENDED
from agentctl.live import pace, rounds
from agentctl.live.looking import paths_in_stores
from agentctl.live.rounds import BREATH, LOOKS_IN_A_ROW, NEW, Interest, Rounds
from agentctl.query.reading import Reading
from tests.support.children import PATIENCE, true_key

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.children import Spawn

pytestmark = pytest.mark.linux


class Noted(watching.Watch):
    """Notes until when it was to sleep, and says that this moment has come."""

    def __init__(self) -> None:
        super().__init__()
        self.until: list[float] = []

    def sleep(self, until: float) -> str:
        self.until.append(until)
        return DUE


def with_noted() -> tuple[Rounds, Noted]:
    found, watch = Rounds(), Noted()
    found._open = watch
    return found, watch


def test_what_is_new_is_looked_at_before_the_sleep(tmp_path: Path, spawn: Spawn) -> None:
    child, path = spawn(), tmp_path / "file"
    path.touch()
    interest = Interest(frozenset((true_key(child.pid),)), frozenset((str(path),)), due=time.monotonic() + PATIENCE)
    with Rounds() as found:
        assert found.rest(interest) == NEW
        path.write_text("x")
        assert found.rest(interest) == CHANGED
        child.kill()
        assert found.rest(interest) == ENDED


def test_however_much_is_new_there_is_a_rest(tmp_path: Path) -> None:
    found, watch = with_noted()
    with found:
        whys = [found.rest(Interest(paths=frozenset((str(tmp_path / str(number)),)))) for number in range(5)]
    assert whys == [NEW] * (LOOKS_IN_A_ROW - 1) + [DUE] * 3
    assert all(moment <= time.monotonic() + BREATH for moment in watch.until)


def test_a_look_is_due_when_the_interest_says_so_and_after_the_pause_at_the_latest() -> None:
    found, watch = with_noted()
    now = time.monotonic()
    with found:
        found.rest(Interest(due=now + 0.3))
        found.rest(Interest())
        found.sleep(now + 0.2)
        found.rest(Interest(unsettled=False))
    first, second, third, fourth = watch.until
    assert (first, third) == (now + 0.3, now + 0.2)
    assert pace.PAUSES[0] <= second - now < pace.PAUSES[1] <= fourth - now


def test_what_cannot_be_watched_is_looked_at_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "PAUSES", (100.0, 100.0))
    found, watch = with_noted()
    now = time.monotonic()
    with found:
        found.rest(Interest(complete=False))
        assert watch.until[0] < now + 100.0
        found.rest(Interest())
    assert watch.until[1] >= now + 100.0


def test_a_store_that_is_not_there_is_watched_for_its_return(tmp_path: Path) -> None:
    root = str(tmp_path / "store")
    agent = load("demo")
    reading = Reading(agent, agent.open_store(root), absent=True)
    assert paths_in_stores([(reading, ("s",))]) == ({root}, True)


def test_nothing_is_opened_before_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait for a session that has ended, or an engine that nobody asks, needs no watches."""
    monkeypatch.setattr(rounds, "Watch", None)
    with Rounds() as found:
        assert not found.full
