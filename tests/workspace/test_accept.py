"""`accept`: the work of one slot is merged, and nothing is lost if it cannot be. By the real command and real git."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from agentctl.workspace import branches as branches_module
from agentctl.workspace.git import GitFailed
from tests.support.launch_home import LONG
from tests.support.worktree_home import Worktrees, worktrees_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.linux

COMMITTED = "[[bash:echo mine > a; git commit -qam work]]"
LEFT = "[[bash:echo mine > a; echo new > b]]"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Worktrees]:
    with worktrees_in(tmp_path) as home:
        yield home


def branches(home: Worktrees) -> list[str]:
    return home.git(home.repository, "for-each-ref", "--format=%(refname:short)", "refs/heads").split()


def test_committed_work_is_merged_and_everything_else_stays(home: Worktrees) -> None:
    home.ended(COMMITTED, "a")
    home.ended("[[bash:echo other > a; git commit -qam other]]", "b")
    done = home.agentctl("accept", "g", "a")
    assert (done.returncode, home.git.head(home.repository)) == (0, home.git.head(home.path("a")))
    assert done.stdout.startswith("try/g/a is merged into main, which is at ")
    assert "agentctl worktree clean g" in done.stderr
    assert (home.repository / "a").read_text() == "mine\n"
    assert home.linked() == ["repo-g-a", "repo-g-b"]
    again = home.agentctl("accept", "g", "a")
    assert (again.returncode, again.stdout) == (0, "main has everything of try/g/a already\n")


def test_what_is_not_committed_needs_a_message(home: Worktrees) -> None:
    home.ended(LEFT, "a")
    before = home.git.head(home.repository)
    refused = home.agentctl("accept", "g", "a")
    assert (refused.returncode, refused.stdout) == (4, "")
    assert "has not committed a, b" in refused.stderr and "-m MESSAGE" in refused.stderr
    assert home.git.head(home.repository) == before
    assert home.git(home.path("a"), "status", "--porcelain").split() == ["M", "a", "??", "b"]
    done = home.agentctl("accept", "g", "a", "-m", "What it did")
    assert done.returncode == 0, done.stderr
    assert home.git(home.repository, "log", "-1", "--format=%s").strip() == "What it did"
    assert (home.repository / "b").read_text() == "new\n"


def test_a_conflict_is_taken_back(home: Worktrees) -> None:
    home.ended(COMMITTED, "a")
    (home.repository / "a").write_text("another\n")
    home.git(home.repository, "commit", "-qam", "another")
    before = home.git.head(home.repository)
    done = home.agentctl("accept", "g", "a")
    assert (done.returncode, done.stdout) == (4, "")
    assert "conflicts in a; merge it by hand: git -C " in done.stderr and "; nothing was changed" in done.stderr
    assert home.git.head(home.repository) == before
    assert home.git(home.repository, "status", "--porcelain") == ""
    assert not (home.repository / ".git" / "MERGE_HEAD").exists()


def test_changes_of_the_person_are_not_overwritten(home: Worktrees) -> None:
    home.ended(COMMITTED, "a")
    (home.repository / "a").write_text("half a thought\n")
    done = home.agentctl("accept", "g", "a")
    assert done.returncode == 4
    said = f"{home.repository} has uncommitted changes in a; commit or stash them, and try again; nothing was changed"
    assert said in done.stderr
    assert (home.repository / "a").read_text() == "half a thought\n"
    home.git(home.repository, "stash", "-q")
    assert home.agentctl("accept", "g", "a").returncode == 0


def test_a_merge_of_the_person_is_left_alone(home: Worktrees) -> None:
    home.ended(COMMITTED, "a")
    home.git(home.repository, "switch", "-qc", "side")
    (home.repository / "a").write_text("side\n")
    home.git(home.repository, "commit", "-qam", "side")
    home.git(home.repository, "switch", "-q", "main")
    (home.repository / "a").write_text("main\n")
    home.git(home.repository, "commit", "-qam", "main")
    subprocess.run(["git", "merge", "-q", "side"], cwd=home.repository, env=home.env, capture_output=True, check=False)
    assert (home.repository / ".git" / "MERGE_HEAD").exists()
    done = home.agentctl("accept", "g", "a")
    assert done.returncode == 4 and "in the middle of" in done.stderr
    assert (home.repository / ".git" / "MERGE_HEAD").exists()


def test_not_while_it_works(home: Worktrees) -> None:
    id = home.slot(f"{COMMITTED}{LONG}", "a")
    done = home.agentctl("accept", "g", "a")
    assert done.returncode == 4 and f"{id} is running" in done.stderr
    assert home.agentctl("stop", id).returncode == 0
    assert home.agentctl("accept", "g", "a").returncode == 0


def test_not_while_another_works_where_it_goes(home: Worktrees) -> None:
    home.ended(COMMITTED, "a")
    id = home.agentctl("launch", "demo", "-p", LONG).stdout.strip()
    done = home.agentctl("accept", "g", "a")
    assert done.returncode == 4 and id in done.stderr
    assert (home.repository / "a").read_text() != "mine\n"


def test_not_while_anybody_else_works_in_the_slot(home: Worktrees) -> None:
    """Half of what another agent does would be committed."""
    home.ended(LEFT, "a")
    id = home.agentctl("launch", "demo", "-p", LONG, "--cwd", str(home.path("a"))).stdout.strip()
    done = home.agentctl("accept", "g", "a", "-m", "all")
    assert done.returncode == 4 and id in done.stderr, done.stderr
    assert home.git(home.path("a"), "status", "--porcelain").split() == ["M", "a", "??", "b"]


@pytest.mark.parametrize("option", ["--no-commit", "--squash"])
def test_settings_of_the_person_do_not_make_it_half_a_merge(home: Worktrees, option: str) -> None:
    home.ended(COMMITTED, "a")
    home.git(home.repository, "commit", "-q", "--allow-empty", "-m", "mine")  # so that it is no fast-forward
    home.git(home.repository, "config", "branch.main.mergeoptions", option)
    done = home.agentctl("accept", "g", "a")
    assert done.returncode == 0, done.stderr
    assert home.git(home.repository, "rev-list", "--count", "main..try/g/a").strip() == "0"


def test_changes_of_the_person_are_not_stashed(home: Worktrees) -> None:
    home.ended(COMMITTED, "a")
    home.git(home.repository, "config", "merge.autoStash", "true")
    (home.repository / "a").write_text("half a thought\n")
    assert home.agentctl("accept", "g", "a").returncode == 4
    assert (home.repository / "a").read_text() == "half a thought\n"


def test_two_dots_behind_a_link_mean_what_the_kernel_says(home: Worktrees) -> None:
    """clean and accept go where `cd` would go, and not to another worktree of that name."""
    home.ended(COMMITTED, "a")
    other = home.folder / "deep" / "folder"
    other.mkdir(parents=True)
    link = home.path("a").parent / "link"
    link.symlink_to(other)
    cleaned = home.clean(f"{link}/../{home.path('a').name}")
    assert cleaned.returncode == 3 and home.path("a").exists(), cleaned.stderr
    accepted = home.agentctl("accept", "g", "a", "--cwd", f"{link}/../{home.repository.name}")
    assert accepted.returncode != 0 and home.git.head(home.repository) != home.git.head(home.path("a"))


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (("g", "z"), 3, "no slot 'z' in group g; it has a"),
        (("h", "a"), 3, "h"),
        (("g", "a", "--cwd", "/"), 2, "not a git repository"),
    ],
)
def test_wrong_words(home: Worktrees, words: tuple[str, ...], code: int, why: str) -> None:
    home.ended(COMMITTED, "a")
    done = home.agentctl("accept", *words)
    assert (done.returncode, done.stdout) == (code, "") and why in done.stderr


def test_wrong_places(home: Worktrees) -> None:
    home.ended(COMMITTED, "a")
    own = home.agentctl("accept", "g", "a", cwd=home.path("a"))
    assert own.returncode == 2 and "is the worktree of a itself" in own.stderr
    home.git(home.repository, "checkout", "-q", "--detach")
    detached = home.agentctl("accept", "g", "a")
    assert detached.returncode == 2 and "no branch is checked out" in detached.stderr
    home.git(home.repository, "switch", "-q", "main")
    home.git(home.path("a"), "switch", "-qc", "elsewhere")
    moved = home.agentctl("accept", "g", "a")
    assert moved.returncode == 4 and "it is on elsewhere, not on try/g/a" in moved.stderr


def test_print_does_nothing_and_its_commands_work(home: Worktrees) -> None:
    home.ended(LEFT, "a")
    before = home.git.head(home.repository)
    done = home.agentctl("accept", "g", "a", "--print", "-m", "It's done")
    assert (done.returncode, home.git.head(home.repository)) == (0, before)
    commands = done.stdout.splitlines()
    assert all(command.startswith("git -C ") for command in commands)  # nobody asked for --clean
    shown = home.agentctl("accept", "g", "a", "--print", "--clean", "-m", "It's done").stdout.splitlines()
    assert shown == [*commands, "agentctl worktree clean g"]
    for command in commands:
        subprocess.run(command, shell=True, check=True, env=home.env, capture_output=True)
    assert home.git(home.repository, "log", "-1", "--format=%s").strip() == "It's done"
    again = home.agentctl("accept", "g", "a", "--print")
    assert (again.returncode, again.stdout) == (0, "")


def test_print_refuses_what_accept_would_refuse(home: Worktrees) -> None:
    home.ended(LEFT, "a")
    without = home.agentctl("accept", "g", "a", "--print")
    assert (without.returncode, without.stdout) == (4, "") and "-m MESSAGE" in without.stderr
    (home.repository / "a").write_text("half a thought\n")
    dirty = home.agentctl("accept", "g", "a", "--print", "-m", "all")
    assert (dirty.returncode, dirty.stdout) == (4, "") and "uncommitted changes in a" in dirty.stderr


def test_clean_and_json(home: Worktrees) -> None:
    home.ended(COMMITTED, "a")
    home.ended(LEFT, "b")
    done = home.agentctl("accept", "g", "a", "--clean", "--json")
    found = json.loads(done.stdout)
    assert (found["branch"], found["into"], found["commits"]) == ("try/g/a", "main", 1)
    assert found["head"] == home.git.head(home.repository)
    assert {one["path"]: one["outcome"] for one in found["worktrees"]} == {
        str(home.path("a")): "removed",
        str(home.path("b")): "kept",
    }
    assert done.returncode == 4  # one stays, because its work would be lost
    assert (home.path("b") / "b").read_text() == "new\n"


# Branches that are left


def test_a_left_branch_is_removed_by_its_group(home: Worktrees) -> None:
    home.ended(COMMITTED, "a")
    home.ended("[[bash:echo other > a; git commit -qam other]]", "b")
    assert home.agentctl("accept", "g", "a", "--clean").returncode == 0
    assert branches(home) == ["main", "try/g/a", "try/g/b"]
    assert "--delete-branch" in home.clean("g").stderr
    done = home.clean("g", "--delete-branch")
    assert done.returncode == 4 and "try/g/b: 1 commits that exist nowhere else" in done.stderr
    assert branches(home) == ["main", "try/g/b"]
    shown = home.clean("try/g/b", "--delete-branch", "--force", "--dry-run")
    assert (shown.returncode, branches(home)) == (0, ["main", "try/g/b"])
    assert home.clean("try/g/b", "--delete-branch", "--force").returncode == 0
    assert branches(home) == ["main"]
    assert home.clean("g", "--delete-branch").returncode == 3


def test_a_branch_of_the_person_is_no_left_branch(home: Worktrees) -> None:
    home.git(home.repository, "branch", "mine")
    assert home.clean("mine", "--delete-branch", "--force").returncode == 3
    assert branches(home) == ["main", "mine"]


def test_a_git_that_fails_does_not_mean_that_no_branch_is_left(home: Worktrees) -> None:
    home.ended(COMMITTED, "a")
    common = str(home.repository / ".git")
    assert [one.branch for one in branches_module.in_repository(common, "h", home.env)] == []
    (home.repository / ".git" / "HEAD").rename(home.folder / "HEAD")
    try:
        with pytest.raises(GitFailed):
            branches_module.in_repository(common, "g", home.env)
    finally:
        (home.folder / "HEAD").rename(home.repository / ".git" / "HEAD")
    assert branches_module.in_repository(str(home.folder / "gone"), "g", home.env) == []
