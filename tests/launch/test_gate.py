"""One launch at a time looks at a directory and starts there."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from agentctl.workspace import locks
from tests.support.launch_home import LONG, TIMEOUT, Home

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.linux
LONGER_THAN_A_LAUNCH = 4.0  # seconds: so long it is seen to wait


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    try:
        yield home
    finally:
        home.end_all()


def test_a_launch_waits_for_another_that_is_at_the_gate_of_its_directory(home: Home) -> None:
    with locks.gate(home.env, str(home.work)):
        child = home.start("launch", "demo", "-p", LONG)
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(LONGER_THAN_A_LAUNCH)
        assert home.launches() == []
    assert child.wait(TIMEOUT) == 0
    assert len(home.launches()) == 1


def test_of_two_that_resume_one_session_only_one_starts(home: Home) -> None:
    """Both judged it before they waited at the gate; the first has not said in its store that it is on it."""
    id = home.launch("one")
    home.until_status(id, "done")
    with locks.gate(home.env, str(home.work)):
        both = [home.start("resume", id, LONG), home.start("resume", id, LONG)]
        with pytest.raises(subprocess.TimeoutExpired):
            both[0].wait(LONGER_THAN_A_LAUNCH)
    assert sorted(one.wait(TIMEOUT) for one in both) == [0, 4]
    assert len(home.launches()) == 2
    assert len(home.prompts_of(id)) == 2
