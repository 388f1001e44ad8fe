"""How the lab compares what was held with what was told: pure."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lab.events import SHORT, TURNS, cells, why_wrong
from tests.lab.recipes import RECIPES


def told(*words: str, inferred: bool = False) -> list[dict[str, Any]]:
    """Events of these statuses, each held; `~` before a word: it was left at once; `>`: a new process brought it."""
    found: list[dict[str, Any]] = []
    before, now = None, 0.0
    for word in words:
        status = word.strip("~>")
        kind = "session.resumed" if ">" in word else f"session.{status}" if found else "session.started"
        session = {"inferred": inferred}
        found.append({"type": kind, "from": before, "to": status, "seen": now, "session": session})
        before, now = status, now + (SHORT / 2 if "~" in word else SHORT * 2)
    return found


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        (told("running", "waiting", "running", "idle", "done"), ["running", "waiting", "running", "idle", "done"]),
        (told("~unknown", "running", "~idle", "done"), ["running", "done"]),
        (told("alive", "running", "done"), ["running", "done"]),  # it took its time to start
        (told("idle", "running", "done"), ["running", "done"]),  # it had its session before it took its prompt
        (told("running", "waiting", "waiting", "done"), ["running", "waiting", "done"]),  # another question
        (told("running", "done", ">running", "done"), ["running", "done", "resumed", "running", "done"]),
        (told("~waiting", "running", "done", inferred=True), ["running", "done"]),
    ],
)
def test_what_was_held_was_told(events: list[dict[str, Any]], expected: list[str]) -> None:
    assert why_wrong(events, expected) is None


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([], ["running"]),
        (told("running", "done"), ["running", "waiting", "done"]),  # a question was not told
        (told("running", "waiting", "done"), ["running", "done"]),  # nobody was asked
        (told("running", "~done", "running", "done"), ["running", "done"]),  # an end that was none
        (told("running", "~waiting", "running", "done"), ["running", "done"]),
        (told("running", "done", ">running", "done"), ["running", "done"]),
        (told("running", "idle", "running", "done"), ["running", "done"]),
        (told("running", "done")[1:], ["done"]),  # no session.started
        ([*told("running"), *told("running")], ["running"]),  # the chain is broken
    ],
)
def test_what_differs_is_found(events: list[dict[str, Any]], expected: list[str]) -> None:
    assert why_wrong(events, expected) is not None


def test_every_agent_has_turns_in_each_of_its_modes() -> None:
    for agent, recipe in RECIPES.items():
        played = {cell.state for cell in cells(agent, "1") if cell.played}
        assert {state.partition("-")[0] for state in played} == {*recipe.MODES}
        assert {state.partition("-")[2] for state in played} == {*TURNS}
