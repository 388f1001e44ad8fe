"""`stop --tree` of a session that has ended: what its launch left behind ends if that is proved, or is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agentctl.kernel import processes
from tests.support.children import until
from tests.support.launch_home import Home
from tests.support.launch_world import end_by_key, gone

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentctl.model import ProcessKey

pytestmark = pytest.mark.linux
LEAVES = "[[bash:setsid sh -c 'echo $$ > left.new; mv left.new left; exec sleep 777' >/dev/null 2>&1 &]]"
UNTIL_TOLD = "touch {0}/hook-runs; while [ ! -e {0}/go ]; do sleep 0.02; done; touch {0}/hook-done"


class Place(Home):
    """A home that ends what its launches left behind."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.left: list[ProcessKey] = []


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Place]:
    home = Place(tmp_path)
    try:
        yield home
    finally:
        (tmp_path / "go").touch()
        for key in home.left:
            end_by_key(key)
        home.end_all()


def launched(home: Place, *words: str) -> tuple[str, ProcessKey]:
    """Return a session that is over, and the process that its launch left behind."""
    id = home.launch(LEAVES, *words, "--", "--yes")
    until(lambda: (home.work / "left").exists())
    process = processes.snapshot().get(int((home.work / "left").read_text()))
    assert process is not None
    home.left.append(process.key)
    until(lambda: gone(home.launch_of(id).child))
    return id, process.key


def stopped(home: Place, *words: str) -> list[dict[str, Any]]:
    done = home.agentctl("stop", *words, "--json")
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["stopped"]
    return found


@pytest.mark.parametrize("by", ["session", "launch"])
def test_it_ends_while_the_runner_proves_it(home: Place, by: str) -> None:
    id, left = launched(home, "--on-complete", UNTIL_TOLD.format(home.folder))
    until(lambda: (home.folder / "hook-runs").exists())
    launch = home.launch_of(id)
    assert not any(one["ended"] for one in stopped(home, id))
    assert not gone(left)  # nobody asked for it
    found = stopped(home, "--tree", id if by == "session" else launch.id)
    assert [one["pid"] for outcome in found for one in outcome["ended"]] == [left.pid]
    assert gone(left)
    assert not gone(launch.runner)  # the hook is no tool of the agent
    (home.folder / "go").touch()
    until(lambda: (home.folder / "hook-done").exists())


@pytest.mark.parametrize("by", ["session", "launch"])
def test_it_is_named_and_left_once_the_runner_is_gone(home: Place, by: str) -> None:
    id, left = launched(home)
    launch = home.launch_of(id)
    until(lambda: gone(launch.runner))
    found = stopped(home, "--tree", id if by == "session" else launch.id)
    named = [one for outcome in found for one in outcome["left"]]
    assert [(one["pid"], "not ended" in one["what"]) for one in named] == [(left.pid, True)]
    assert not gone(left)
    assert not any(one["left"] for one in stopped(home, id))  # without --tree nobody asked


def test_a_launch_that_is_on_another_session_now(home: Place) -> None:
    """The first session of a launch has ended, and the launch goes on: --tree is not asked of that."""
    first = home.launch("[[text:one]]", "--wait")
    home.wait_until_quiet()
    second = home.launch("[[sleep:300]]", cwd=home.folder_named("other"))
    path = Path(home.launch_of(second).path or "")
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "session_id": first}))  # as of a screen that went on to another session
    stopped(home, "--tree", first)
    assert home.session(second)["status"] == "running"
