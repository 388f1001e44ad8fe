"""How a launch ends, as people see it: its time limit, and its answer with --wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agentctl.model import Exit
from agentctl.query.present import was_timed_out
from tests.support.launch_home import LONG, Home
from tests.support.launch_world import end_by_key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.linux


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    try:
        yield home
    finally:
        home.end_all()


def test_the_time_limit(home: Home) -> None:
    id = home.launch(LONG, "--timeout", "1s")
    found = home.until_status(id, "stopped")
    assert found["process"] == "gone"
    home.wait_until_quiet()
    found = home.session(id)
    assert found["timed_out"] and found["reason"].startswith("its time limit of 1 s was over; ")
    waited = home.agentctl("wait", id)
    assert (waited.returncode, waited.stderr) == (124, "")  # it is not the wait that gave up
    assert "its time limit of 1 s was over" in waited.stdout


def test_a_time_limit_that_was_not_reached_is_no_reason(home: Home) -> None:
    id = home.launch(LONG, "--timeout", "10m")
    end_by_key(home.launch_of(id).child)
    found = home.until_status(id, "stopped")
    home.wait_until_quiet()
    assert not found["timed_out"] and "time limit" not in found["reason"]
    assert home.agentctl("wait", id).returncode == 7


def test_wait_prints_the_answer(home: Home) -> None:
    words = ("-p", "[[text:first]][[sleep:0.2]][[text:It is\nmended.]]", "--wait")
    found = home.agentctl("launch", "demo", *words)
    assert found.returncode == 0
    lines = found.stdout.splitlines()
    assert lines[0] == home.launches()[0].session_id
    assert found.stdout.endswith("\nIt is\nmended.\n") and "first" not in found.stdout
    quiet = home.agentctl("launch", "demo", *words, "--quiet")
    assert quiet.returncode == 0 and "mended" not in quiet.stdout


def test_wait_prints_no_answer_of_a_run_that_gave_none(home: Home) -> None:
    found = home.agentctl("launch", "demo", "-p", "[[fail:no such model]]", "--wait")
    assert found.returncode == 6
    assert len(found.stdout.splitlines()) == len(home.agentctl("wait", home.launches()[0].id).stdout.splitlines()) + 1


@pytest.mark.parametrize(
    ("code", "signal", "limit", "turn", "stopped"),
    [
        (143, None, 5.0, "done", True),
        (None, "SIGKILL", 5.0, "done", True),
        (0, None, 5.0, "done", False),
        (1, None, 5.0, "failed", False),
        (0, None, 5.0, "interrupted", True),
        (143, None, None, "done", False),
    ],
)
def test_a_time_limit_that_ended_it_at_its_prompt(
    code: int | None, signal: str | None, limit: float | None, turn: str, stopped: bool
) -> None:
    end = Exit(None, None, code, signal, None, direct=True, time_limit=limit)
    assert was_timed_out(end, turn) is stopped
