"""What an error advises, done as it says: it helps."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import pytest

from agentctl.terminal import tmux
from agentctl.workspace import git, worktree
from tests.support.worktree_home import Worktrees, worktrees_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.linux

LAUNCH = ("launch", "demo", "--worktree", "--group", "g", "-p", "hi")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Worktrees]:
    with worktrees_in(tmp_path) as home:
        yield home


def test_a_branch_that_takes_the_place_of_all_of_ours(home: Worktrees) -> None:
    home.git(home.repository, "branch", "try")
    done = home.agentctl(*LAUNCH)
    assert done.returncode == 4 and "another name" not in done.stderr
    (command,) = re.findall(r"rename it \((git branch -m try )NAME\)", done.stderr)
    home.git(home.repository, *command.split()[1:], "attempt")
    assert home.agentctl(*LAUNCH).returncode == 0


def test_a_branch_that_takes_the_place_of_this_group(home: Worktrees) -> None:
    home.git(home.repository, "branch", "try/g")
    done = home.agentctl(*LAUNCH)
    assert done.returncode == 4 and done.stderr.rstrip().endswith("or give another name")
    assert home.agentctl(*LAUNCH[:4], "other", *LAUNCH[5:]).returncode == 0


@pytest.mark.parametrize("own_folder", [True, False])
def test_a_hook_of_git_that_fails(home: Worktrees, own_folder: bool) -> None:
    home.git.hook(home.repository, "post-checkout", "exit 1")
    hook = home.repository / ".git" / "hooks" / "post-checkout"
    if own_folder:
        (home.folder / "hooks").mkdir()
        hook = hook.rename(home.folder / "hooks" / "post-checkout")
        home.git(home.repository, "config", "core.hooksPath", str(home.folder / "hooks"))
    done = home.agentctl(*LAUNCH)
    assert done.returncode == 1 and f"the hook {hook} failed; mend it, or move it away" in done.stderr, done.stderr
    assert home.linked() == []
    hook.rename(hook.with_name("away"))
    assert home.agentctl(*LAUNCH).returncode == 0


def test_a_disk_that_is_full(home: Worktrees, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hook stands for a checkout that git could not write: it is not executable any more when it is looked for."""
    home.git.hook(home.repository, "post-checkout", 'chmod -x "$0"; echo "error: unable to write file big" >&2; exit 1')
    found = worktree.repository_at(str(home.repository), home.env)
    plan = worktree.plan(found, str(home.repository), "g-a", home.env)
    full = os.statvfs_result((4096, 4096, 100, 2, 2, 10, 10, 10, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: full)
    with pytest.raises(git.GitFailed, match=rf"unable to write file big; {home.folder} has room for 8 kB; make"):
        worktree.make(plan, home.env)
    assert home.linked() == []


def test_a_message_without_text(home: Worktrees) -> None:
    home.ended("[[bash:echo x > new]]", "a")
    head = home.git.head(home.repository)
    for words in (("-m", ""), ("-m", " \n"), ("-m", "", "--print")):
        done = home.agentctl("accept", "g", "a", *words)
        assert done.returncode == 2 and "give -m TEXT" in done.stderr, done
    assert home.git.head(home.repository) == head
    assert home.agentctl("accept", "g", "a", "-m", "TEXT").returncode == 0


def test_a_server_of_tmux_whose_folder_is_gone(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "TMUX_TMPDIR": str(tmp_path), "HOME": str(tmp_path)}
    with pytest.raises(tmux.Failed, match="which is not there; unset TMUX, and try again"):
        tmux.prove_own({**env, "TMUX": f"{tmp_path}/gone/default,1,0"})
    tmux.prove_own(env)
    (tmp_path / "gone").mkdir()
    tmux.prove_own({**env, "TMUX": f"{tmp_path}/gone/default,1,0"})
