"""The beginning of an id: `stop` acts by it only if it can stand for no other session."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from tests.support.stop_world import StopWorld, living

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.linux


@pytest.fixture
def world(tmp_path: Path) -> Iterator[StopWorld]:
    world = StopWorld(tmp_path)
    try:
        yield world
    finally:
        world.end_all()


def two_ids() -> tuple[str, str, str]:
    """Two ids that begin alike, and how they begin."""
    first, second = str(uuid.uuid4()), str(uuid.uuid4())
    return first, first[:8] + second[8:], first[:8]


def test_another_session_is_launched_and_not_written_yet(world: StopWorld) -> None:
    ended, begun, short = two_ids()
    world.standin(id=ended)
    world.end(world.keys[-1])
    started = world.launch("sleep", "300", session_id=begun)  # a program that will execute the agent
    said = world.refused(short, code=3)
    assert ended in said and begun in said
    assert world.stop(ended)["outcome"] == "gone"
    assert living(started.child) == [True]


def test_another_session_may_be_where_we_cannot_look(world: StopWorld) -> None:
    ended, _, short = two_ids()
    world.standin(id=ended)
    world.end(world.keys[-1])
    codex = world.base / ".codex"
    codex.mkdir()
    (codex / "sessions").symlink_to("/nowhere/at/all")
    said = world.refused(short, code=5)
    assert str(codex / "sessions") in said and "give the whole id" in said
    assert world.stop(ended)["outcome"] == "gone"
