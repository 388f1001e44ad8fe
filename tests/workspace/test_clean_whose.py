"""`worktree clean --merged` and GROUP: only worktrees that a launch made."""

from __future__ import annotations

import shutil
import time
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
        yield home


def test_worktrees_that_a_person_made_are_for_people(home: Worktrees) -> None:
    """One at a path that a launch once had, and one on a branch with a name as launches have."""
    home.ended("[[text:x]]")
    assert home.clean("g", "--delete-branch").returncode == 0
    commondir_is_newer_than_the_launch = 1.2
    time.sleep(commondir_is_newer_than_the_launch)
    home.git(home.repository, "worktree", "add", "-q", "-b", "mine", str(home.path()))
    home.git(home.repository, "worktree", "add", "-q", "-b", "try/exp", str(home.folder / "exp"))
    done = home.clean("--merged", "--delete-branch")
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
    again = home.clean("g", "--delete-branch")
    assert again.returncode == 3 and "none of its worktrees is there any more" in again.stderr
    assert home.agentctl("accept", "g", "a").returncode == 3
    assert sorted(home.linked()) == ["exp", "repo-g-a"]
    assert home.git.branches(home.repository) == ["main", "mine", "try/exp"]


def expire(home: Worktrees) -> None:
    """The records of all launches are gone, as after their retention."""
    for folder in (home.state / "launches").iterdir():
        shutil.rmtree(folder)


def test_a_worktree_of_a_launch_whose_record_has_expired(home: Worktrees) -> None:
    home.ended("[[text:x]]", "a")
    expire(home)
    done = home.clean("--merged")
    assert done.returncode == 0 and home.linked() == [], done.stdout + done.stderr


@pytest.mark.parametrize("person", ["moves it", "makes another one", "takes another branch"])
def test_one_that_a_person_has_made_their_own(home: Worktrees, person: str) -> None:
    home.ended("[[text:x]]", "a")
    path = home.path("a")
    expire(home)
    if person == "moves it":
        home.git(home.repository, "worktree", "move", str(path), str(path.with_name("mine")))
    elif person == "makes another one":
        path.rename(path.with_name("old"))
        shutil.copytree(path.with_name("old"), path)
    else:
        home.git(path, "switch", "-q", "-c", "mine")
    done = home.clean("--merged")
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
    assert len(home.linked()) == 1
