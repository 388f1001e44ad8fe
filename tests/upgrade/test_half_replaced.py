"""An installer takes a second: what a runner has to do meanwhile is done when the new version is there, not never."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.support.children import until
from tests.support.launch_home import LONG, UNTIL_TOLD, Home
from tests.support.launch_world import gone
from tests.support.upgrade_home import NEW, install

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.linux
REPLACING = 1.0  # seconds


@pytest.fixture
def half(tmp_path: Path) -> Path:
    """A package of which the installer has written the first file."""
    folder = tmp_path / "half"
    folder.mkdir()
    (folder / "__init__.py").touch()
    return folder


def test_on_complete_of_a_session_that_ended_meanwhile(home: Home, half: Path) -> None:
    install(home, NEW)
    id = home.launch(UNTIL_TOLD, "--on-complete", 'touch "$HOME/ran"')
    launch = home.launch_of(id)
    install(home, half)
    home.go()
    until(lambda: gone(launch.child))
    time.sleep(REPLACING)
    install(home, NEW)
    until((home.folder / "ran").exists)


def test_the_time_limit_of_a_session_that_was_reached_meanwhile(home: Home, half: Path) -> None:
    install(home, NEW)
    id = home.launch(LONG, "--timeout", "2s")
    launch = home.launch_of(id)
    install(home, half)
    time.sleep(2.0 + REPLACING)
    install(home, NEW)
    until(lambda: gone(launch.child))
