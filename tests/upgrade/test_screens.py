"""An agent in a terminal that the version before the rooms opened: the version at hand finds its screen, types into it,
waits for it and ends it. In the stand-in for tmux, and in a real one where the long tests run."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.support.children import until
from tests.support.launch_world import gone
from tests.support.screen_home import ScreenHome
from tests.support.upgrade_home import IN_PLACE, NEW, agrees, install, launched, upgrade

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.launch_home import Home

pytestmark = pytest.mark.linux

HOOK = 'echo $AGENTCTL_LAUNCH $AGENTCTL_STATUS $(readlink "$PYTHONPATH/agentctl") >> "$HOME/ran"'


@pytest.fixture
def screen_home(tmp_path: Path, old: Path) -> Iterator[ScreenHome]:
    home = ScreenHome(tmp_path)
    install(home, old)
    try:
        yield home
    finally:
        home.end_all()


def prompts(home: Home, id: str) -> list[str]:
    return [event["text"] for event in home.events(id) if event["event"] == "prompt"]


def check(home: Home, old: Path, way: str) -> None:
    found = home.agentctl("launch", "--interactive", "demo", "-p", "one", "--on-complete", HOOK)
    assert found.returncode == 0, found.stderr
    id = found.stdout.strip()
    home.until_status(id, "idle")
    launch = launched(home, id)
    assert not launch.headless
    before = home.session(id)
    upgrade(home, way)

    assert agrees(before, home.session(id))
    assert (before["status"], before["link"], before["launch_id"]) == ("idle", "exact", launch.id)
    assert before["terminal"]["tmux_session"] == f"agentctl-{launch.id}"
    (row,) = home.listed()["sessions"]
    assert (row["id"], row["status"], row["pid"]) == (id, "idle", launch.child.pid)
    sent = home.agentctl("send", "--timeout", "40s", id, "two")
    assert sent.returncode == 0, sent.stderr
    until(lambda: prompts(home, id) == ["one", "two"])
    assert home.agentctl("wait", id, "--until", "idle").returncode == 0
    waiting = home.start("wait", id, "--until", "ended")
    stopped = home.agentctl("stop", launch.id)
    assert stopped.returncode == 0, stopped.stderr
    said, complained = waiting.communicate(timeout=30)
    until(lambda: gone(launch.runner))
    assert gone(launch.child)
    until(lambda: (home.folder / "ran").exists())
    ended = home.session(id)
    assert ended["process"] == "gone"
    assert waiting.returncode == {"done": 0, "stopped": 7}[ended["status"]], (said, complained)
    package = NEW if way == IN_PLACE else old
    assert (home.folder / "ran").read_text() == f"{launch.id} {ended['status']} {package}\n"


def test_in_a_terminal(screen_home: ScreenHome, old: Path, way: str) -> None:
    check(screen_home, old, way)
    screen_home.wait_until_quiet()


@pytest.mark.stress
def test_in_tmux(home: Home, old: Path, way: str) -> None:
    assert shutil.which("tmux") is not None, "tmux is not installed: this cannot be tried"
    check(home, old, way)
