"""`stop` of a session whose tool reads or feeds another session through a pipe."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from agentctl.stop.plan import Left
from agentctl.stop.terminate import as_they_are
from tests.support.children import true_key
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


@pytest.mark.parametrize("feeds", [True, False])
def test_a_tool_beside_another_session(world: StopWorld, feeds: bool) -> None:
    reader, writer = os.pipe()
    theirs, ours = (reader, writer) if feeds else (writer, reader)
    try:
        _, other = world.standin(stdin=theirs) if feeds else world.standin(stdout=theirs)
        id, agent = world.standin(f"tool(pass_fds=({ours},))", pass_fds=(ours,))
    finally:
        os.close(reader)
        os.close(writer)
    tool = world.tool_of(id)
    found = world.stop(id)
    assert living(agent, other, tool) == [False, True, True]
    (left,) = found["left"]
    assert left["pid"] == tool.pid and f"pid {other.pid}" in left["what"] and "through a pipe" in left["what"]


def test_the_same_end_of_a_pipe_holds_nobody(world: StopWorld) -> None:
    """Both write to one logger: that is no reason to leave a tool."""
    reader, writer = os.pipe()
    try:
        _, other = world.standin(stdout=writer)
        id, _ = world.standin(f"tool(pass_fds=({writer},))", pass_fds=(writer,))
        tool = world.tool_of(id)
        assert world.stop(id)["left"] == []
        assert living(other, tool) == [True, False]
    finally:
        os.close(reader)
        os.close(writer)


def test_what_has_ended_by_the_time_of_the_answer_is_said_so() -> None:
    with subprocess.Popen(["sleep", "600"]) as child:
        key = true_key(child.pid)
        left = (Left(key, "sleep", "session", "a session"),)
        assert as_they_are(left) == left
        child.kill()
    (now,) = as_they_are(left)
    assert now.what == "a session; it has ended meanwhile"
    assert as_they_are((now,)) == (now,)
