"""`worktree clean` of a worktree in which an agent, or agentctl itself, keeps what it stores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.worktree_home import Worktrees, worktrees_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.linux


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Worktrees]:
    with worktrees_in(tmp_path) as home:
        (home.repository / ".git" / "info" / "exclude").write_text(".data\n")
        home.ended("[[text:x]]")
        yield home


def test_the_store_of_an_agent(home: Worktrees) -> None:
    data = home.path() / ".data"
    data.mkdir()
    (home.folder / "link").symlink_to(data)  # it is the place that counts
    (data / "agentctl-demo").mkdir()
    id = home.launch("hi", "--cwd", str(home.path()), "--env", f"XDG_DATA_HOME={home.folder / 'link'}", "--wait", "-q")
    home.wait_until_quiet()
    for words in (("g",), ("g", "--dry-run"), ("--merged",), (str(home.path()),)):
        done = home.clean(*words)
        assert f"demo keeps its sessions in it ({home.folder / 'link' / 'agentctl-demo'})" in done.stderr
        assert "removed" not in done.stdout
    assert home.agentctl("status", id).returncode == 0
    assert home.clean("g", "--force").returncode == 0
    after = home.agentctl("list", "-a", "--strict")
    assert (after.returncode, "it is gone" in after.stderr) == (0, False), after.stderr


def test_the_state_of_agentctl(home: Worktrees) -> None:
    state = home.path() / ".data"
    state.mkdir(mode=0o700)
    (state / "roots").mkdir()
    env = {**home.env, "AGENTCTL_HOME": str(state)}
    for force in ((), ("--force",)):
        done = home.clean(str(home.path()), *force, env=env)
        assert done.returncode == 4, done.stdout
        assert "agentctl keeps its own state in it" in done.stderr
    (state / "roots").rmdir()
    assert home.clean("g").returncode == 0
