"""Which commits would be lost with a worktree or a branch: real git, no agent."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from agentctl.errors import Refused
from agentctl.workspace import branches, clean, git, inspect
from agentctl.workspace.commits import left_behind
from tests.support.git_world import Git, made, world

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from agentctl.workspace.worktree import Plan

__all__ = ["world"]
NOWHERE = "1 commit of {} ({}) nowhere else"


@pytest.fixture
def repository(world: Git) -> Path:
    return world.repository()


@pytest.fixture
def plan(world: Git, repository: Path) -> Plan:
    return made(world, repository)


def whys(world: Git, path: Path | str, *, delete_branch: bool = False) -> list[str]:
    """Return why the worktree must not be removed without --force."""
    common = str(world.folder / "repo" / ".git")
    tree = inspect.one_tree(common, str(path), world.env)
    assert tree is not None
    found = clean.objections(tree, (), str(world.folder), delete_branch=delete_branch)
    assert not any(objection.firm for objection in found)
    return [objection.why for objection in found]


def work(world: Git, path: Path | str) -> str:
    world(path, "commit", "-q", "--allow-empty", "-m", "work")
    return world.head(path)


def detached(world: Git, name: str, start: str = "main") -> Path:
    path = world.folder / name
    world(world.folder / "repo", "worktree", "add", "-q", "--detach", str(path), start)
    return path


# Which refs keep commits


@pytest.mark.parametrize("alias", ["refs/heads/alias", "refs/tags/alias", "refs/remotes/origin/HEAD"])
def test_a_symbolic_ref_keeps_nothing(world: Git, plan: Plan, alias: str) -> None:
    commit = work(world, plan.path)
    world(plan.repository, "symbolic-ref", alias, f"refs/heads/{plan.branch}")
    assert whys(world, plan.path, delete_branch=True) == [NOWHERE.format(plan.branch, commit[:12])]


def test_a_symbolic_ref_to_a_symbolic_ref(world: Git, plan: Plan) -> None:
    commit = work(world, plan.path)
    world(plan.repository, "symbolic-ref", "refs/heads/one", f"refs/heads/{plan.branch}")
    world(plan.repository, "symbolic-ref", "refs/heads/two", "refs/heads/one")
    assert whys(world, plan.path, delete_branch=True) == [NOWHERE.format(plan.branch, commit[:12])]


@pytest.mark.parametrize("ref", ["refs/heads/other", "refs/tags/other", "refs/remotes/origin/other"])
def test_another_ref_keeps_them(world: Git, plan: Plan, ref: str) -> None:
    world(plan.repository, "update-ref", ref, work(world, plan.path))
    world(plan.repository, "symbolic-ref", "refs/heads/alias", ref)
    assert whys(world, plan.path, delete_branch=True) == []


def test_an_annotated_tag_and_a_tag_of_a_file(world: Git, plan: Plan) -> None:
    world(plan.repository, "tag", "of-a-file", "main:a")
    world(plan.repository, "tag", "-a", "-m", "it", "of-a-commit", work(world, plan.path))
    assert whys(world, plan.path, delete_branch=True) == []


@pytest.mark.parametrize("name", ["ORIG_HEAD", "FETCH_HEAD", "refs/stash", "refs/notes/x", "refs/bisect/bad"])
def test_other_names_keep_nothing(world: Git, plan: Plan, name: str) -> None:
    """Git gives some of them up at any time, and people drop the others without a look."""
    commit = work(world, plan.path)
    if name == "FETCH_HEAD":
        world(plan.repository, "fetch", "-q", plan.repository, plan.branch)
    else:
        world(plan.repository, "update-ref", name, commit)
    assert whys(world, plan.path, delete_branch=True) == [NOWHERE.format(plan.branch, commit[:12])]


def test_a_replaced_commit_keeps_nothing(world: Git, plan: Plan) -> None:
    """By the replacement, main would have the branch: what is stored, and what gc follows, has not."""
    commit = work(world, plan.path)
    main = world(plan.repository, "rev-parse", "main")
    other = world(plan.repository, "commit-tree", "-p", commit, "-m", "other", "main^{tree}")
    world(plan.repository, "replace", main, other)
    assert whys(world, plan.path, delete_branch=True) == [NOWHERE.format(plan.branch, commit[:12])]


def test_a_graft_keeps_nothing(world: Git, plan: Plan) -> None:
    commit = work(world, plan.path)
    main = world(plan.repository, "rev-parse", "main")
    with open(os.path.join(plan.repository, "info", "grafts"), "w") as file:
        file.write(f"{main} {commit}\n")
    assert whys(world, plan.path, delete_branch=True) == [NOWHERE.format(plan.branch, commit[:12])]


def test_a_graft_that_hides_parents(world: Git, plan: Plan, repository: Path) -> None:
    """gc follows it: main no longer keeps what is before it."""
    commit = work(world, plan.path)
    world(repository, "merge", "-q", "--ff-only", commit)
    tip = world.commit(repository, "after it")
    assert whys(world, plan.path, delete_branch=True) == []
    with open(os.path.join(plan.repository, "info", "grafts"), "w") as file:
        file.write(f"{tip}\n")
    assert len(whys(world, plan.path, delete_branch=True)) == 1


def test_a_shallow_clone(world: Git, repository: Path) -> None:
    world.commit(repository, "second")
    world(world.folder, "clone", "-q", "--depth=1", f"file://{repository}", "shallow")
    os.rename(repository, world.folder / "origin")
    os.rename(world.folder / "shallow", repository)
    plan = made(world, repository)
    assert whys(world, plan.path, delete_branch=True) == []
    commit = work(world, plan.path)
    assert whys(world, plan.path, delete_branch=True) == [NOWHERE.format(plan.branch, commit[:12])]


def test_a_head_that_names_another_ref(world: Git, plan: Plan) -> None:
    """Such a worktree is on no branch: its commits need another one."""
    commit = work(world, plan.path)
    world(plan.path, "update-ref", "refs/custom/x", commit)
    world(plan.path, "symbolic-ref", "HEAD", "refs/custom/x")
    world(plan.repository, "update-ref", "-d", f"refs/heads/{plan.branch}")
    assert whys(world, plan.path) == [NOWHERE.format("its detached HEAD", commit[:12])]


# Branches that a group left


def test_a_leftover_branch_with_a_symbolic_ref(world: Git, repository: Path) -> None:
    commit = world(repository, "commit-tree", "-p", "main", "-m", "work", "main^{tree}")
    world(repository, "branch", "try/g/a", commit)
    world(repository, "symbolic-ref", "refs/heads/alias", "refs/heads/try/g/a")
    (left,) = branches.in_repository(str(repository / ".git"), "g", world.env)
    with pytest.raises(Refused, match="1 commits that exist nowhere else"):
        branches.remove(left, clean.Options(), world.env)
    world(repository, "branch", "kept", commit)
    (left,) = branches.in_repository(str(repository / ".git"), "g", world.env)
    assert branches.remove(left, clean.Options(), world.env).branch_deleted


# Other worktrees


def test_a_prunable_worktree_keeps_nothing(world: Git, repository: Path) -> None:
    path, other = detached(world, "one"), world.folder / "two"
    commit = work(world, path)
    detached(world, "two", commit)
    assert whys(world, path) == []
    shutil.rmtree(other)
    assert whys(world, path) == [NOWHERE.format("its detached HEAD", commit[:12])]
    world(repository, "worktree", "lock", str(other))  # on a stick, perhaps: git forgets it never
    assert whys(world, path) == []


def test_a_worktree_without_its_git_file_keeps_nothing(world: Git, repository: Path) -> None:
    path = detached(world, "one")
    commit = work(world, path)
    (detached(world, "two", commit) / ".git").unlink()
    assert whys(world, path) == [NOWHERE.format("its detached HEAD", commit[:12])]


def test_a_worktree_that_was_moved_by_hand(world: Git, repository: Path) -> None:
    """Git would forget it, so it keeps nothing for others."""
    path = detached(world, "one")
    commit = work(world, path)
    detached(world, "two", commit).rename(world.folder / "moved")
    assert whys(world, path) == [NOWHERE.format("its detached HEAD", commit[:12])]


# The reflog of its HEAD


def by_checkout(world: Git, path: Path) -> None:
    world(path, "checkout", "-q", "--detach", "main")


def by_reset(world: Git, path: Path) -> None:
    world(path, "reset", "-q", "--hard", "main")


def to_a_branch(world: Git, path: Path) -> None:
    world(path, "switch", "-q", "-c", "another", "main")


def to_an_orphan(world: Git, path: Path) -> None:
    world(path, "checkout", "-q", "--orphan", "another")
    world(path, "rm", "-q", "-r", "-f", ".")


def to_the_commit_of_an_orphan(world: Git, path: Path) -> None:
    to_an_orphan(world, path)
    work(world, path)


def by_a_plain_update(world: Git, path: Path) -> None:
    world(path, "update-ref", "--no-deref", "HEAD", "main")


LEAVING = [by_checkout, by_reset, to_a_branch, to_an_orphan, to_the_commit_of_an_orphan, by_a_plain_update]


@pytest.mark.parametrize("leave", LEAVING)
def test_commits_that_its_head_left_behind(world: Git, repository: Path, leave: Callable[[Git, Path], None]) -> None:
    path = detached(world, "one")
    commit = work(world, path)
    leave(world, path)
    (why,) = whys(world, path)
    assert why == f"1 commit that its HEAD left behind ({commit[:12]}) only in its reflog"
    world(repository, "branch", "kept", commit)
    assert whys(world, path) == []


def test_a_detached_head_is_judged_once(world: Git, repository: Path) -> None:
    path = detached(world, "one")
    work(world, path)
    commit = work(world, path)
    assert whys(world, path) == [f"2 commits of its detached HEAD ({commit[:12]}) nowhere else"]


def test_commits_that_were_replaced_are_not_left_behind(world: Git, repository: Path) -> None:
    path = detached(world, "one")
    work(world, path)
    world(path, "commit", "-q", "--amend", "--allow-empty", "-m", "better")
    world(path, "branch", "kept")
    assert whys(world, path) == []


def test_what_a_branch_left_is_in_the_reflog_of_the_branch(world: Git, plan: Plan) -> None:
    work(world, plan.path)
    world(plan.path, "reset", "-q", "--hard", "main")
    world(plan.path, "checkout", "-q", "--detach")
    assert whys(world, plan.path) == []


def test_commits_that_git_has_removed_since(world: Git, repository: Path) -> None:
    path = detached(world, "one")
    commit = work(world, path)
    by_checkout(world, path)
    os.unlink(repository / ".git" / "objects" / commit[:2] / commit[2:])
    assert whys(world, path) == []


def test_a_reflog_that_cannot_be_read(world: Git, repository: Path) -> None:
    path = detached(world, "one")
    os.makedirs(repository / ".git" / "worktrees" / "one" / "reftable")
    (why,) = whys(world, path)
    assert "its reflog is in a reftable" in why


def test_left_behind_in_a_submodule(world: Git, plan: Plan) -> None:
    """The usual case: HEAD of a submodule is detached, and `submodule update` moves it."""
    other = world.repository("other")
    world(plan.path, "submodule", "--quiet", "add", str(other), "module")
    world(plan.path, "commit", "-q", "-m", "a submodule")
    world(plan.path, "submodule", "--quiet", "update", "--checkout", "--force")
    inner = os.path.join(plan.path, "module")
    world(inner, "checkout", "-q", "--detach")
    work(world, inner)
    world(plan.path, "submodule", "--quiet", "update", "--checkout", "--force")
    assert whys(world, plan.path) == ["submodule module has 1 commit that no remote has"]


A, B, C, ZERO = "a" * 40, "b" * 40, "c" * 40, "0" * 40


def entry(old: str, new: str, what: str = "") -> str:
    return f"{old} {new} A <a@example.com> 1794962035 +0000\t{what}\n"


@pytest.mark.parametrize(
    ("log", "detached_now", "left"),
    [
        ("", True, []),
        (entry(ZERO, A), True, []),
        (entry(ZERO, A) + entry(A, B, "commit: x"), True, [A]),
        (entry(ZERO, A) + entry(A, B, "commit: x"), False, []),
        (entry(A, B, f"checkout: moving from {A} to main"), False, [A]),
        (entry(A, B, "checkout: moving from topic to main"), False, []),
        (entry(A, B, "reset: moving to B") + entry(B, C, "checkout: moving from topic to C"), True, []),
        (entry(A, B, "reset: moving to B") + entry(B, C, f"checkout: moving from {B} to x"), False, [A, B]),
        (entry(A, B, "commit (amend): x"), True, []),
        (entry(A, B, "rebase (start): checkout main"), True, []),
        (entry(A, B, "commit: x") + entry(ZERO, C, "commit (initial): y"), False, [B]),
    ],
)
def test_what_a_reflog_says(log: str, detached_now: bool, left: list[str]) -> None:
    assert left_behind(log, detached=detached_now) == left


@pytest.mark.parametrize("torn", ["main", f"{A} ", f"{A} {B[1:]} x", "\0" * 90])
def test_a_damaged_reflog(world: Git, repository: Path, torn: str) -> None:
    path = detached(world, "one")
    with open(repository / ".git" / "worktrees" / "one" / "logs" / "HEAD", "a") as file:
        file.write(torn)
    (why,) = whys(world, path)
    assert "its reflog has a line that cannot be read" in why


# What git cannot read


def test_refs_in_a_format_that_git_does_not_know(world: Git, plan: Plan) -> None:
    world(plan.repository, "config", "core.repositoryFormatVersion", "1")
    world(plan.repository, "config", "extensions.refStorage", "nonesuch")
    with pytest.raises(git.GitFailed, match="git worktree list: "):
        inspect.one_tree(plan.repository, plan.path, world.env)
