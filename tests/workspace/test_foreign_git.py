"""An agent has put a repository of its own in the place of its worktree's .git: git would run what that one's
configuration names, as the person."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from agentctl.workspace import worktree
from tests.support.worktree_home import Worktrees, worktrees_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.linux

COMMANDS = (
    "compare g",
    "compare g --diff a",
    "compare g --stat a",
    "worktree list",
    "worktree clean g --dry-run",
    "worktree clean g --force --dry-run",
    "worktree clean --merged --dry-run",
    "accept g a",
    "accept g a -m x",
    "worktree clean g",
    "worktree clean {path}",
)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Worktrees]:
    with worktrees_in(tmp_path) as home:
        yield home


@pytest.mark.parametrize("as_file", [False, True])
def test_no_command_runs_what_it_names(home: Worktrees, as_file: bool) -> None:
    home.ended("[[bash:echo changed >> a]]")
    path, ran = home.path(), home.folder / "ran"
    (path / ".git").unlink()
    evil = home.folder / "evil" if as_file else path / ".git"
    shutil.copytree(home.repository / ".git", evil, ignore=shutil.ignore_patterns("worktrees"))
    if as_file:
        (path / ".git").write_text(f"gitdir: {evil}\n")
    home.git(path, "config", "filter.x.clean", f"sh -c 'touch {ran}; cat'")
    home.git(path, "config", "core.fsmonitor", f"touch {ran}")
    (evil / "info").mkdir(exist_ok=True)
    (evil / "info" / "attributes").write_text("* filter=x\n")
    for command in COMMANDS:
        done = home.agentctl(*command.format(path=path).split())
        assert not ran.exists(), command
        if command != "worktree list" and "--force" not in command and "--merged" not in command:
            assert "not the one that git wrote" in done.stderr + done.stdout, command
    assert path.exists()
    shutil.rmtree(evil, ignore_errors=True)


def test_the_git_file_that_git_wrote_is_none(home: Worktrees) -> None:
    home.ended("[[text:nothing]]")
    common = str(home.repository / ".git")
    assert worktree.why_foreign(common, str(home.path())) is None
    assert worktree.why_foreign(common, str(home.repository)) is None
    (home.path() / ".git").rename(home.path() / "git")
    (home.path() / ".git").symlink_to("git")
    assert worktree.why_foreign(common, str(home.path())) is not None
    (home.path() / ".git").unlink()
    (home.path() / "git").rename(home.path() / ".git")
