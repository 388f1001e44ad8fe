"""What would be lost with a worktree, in the corners that `git status` does not show: real git, no agent."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from agentctl.model import Launch, ProcessKey
from agentctl.workspace import compare, diff, git, inspect
from agentctl.workspace.clean import objections
from agentctl.workspace.diff import Place
from tests.support.git_world import Git, made, world

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from agentctl.workspace.worktree import Plan

__all__ = ["world"]
KEY = ProcessKey("boot", 2, 1)


@pytest.fixture
def plan(world: Git) -> Plan:
    """A worktree in which `ignored/` is ignored."""
    repository = world.repository()
    (repository / ".git" / "info" / "exclude").write_text("ignored\n")
    return made(world, repository)


def whys(world: Git, plan: Plan) -> list[str]:
    """Return why the worktree must not be removed without --force."""
    tree = inspect.one_tree(plan.repository, plan.path, world.env)
    assert tree is not None
    found = objections(tree, (), str(world.folder), delete_branch=False)
    assert not any(objection.firm for objection in found)
    return [objection.why for objection in found]


def folder(plan: Plan, *names: str) -> str:
    path = os.path.join(plan.path, *names)
    os.makedirs(path, exist_ok=True)
    return path


def write(plan: Plan, name: str, text: str) -> None:
    with open(os.path.join(plan.path, name), "w") as file:
        file.write(text)


def test_nothing_is_lost_with_a_fresh_one(world: Git, plan: Plan) -> None:
    folder(plan, "ignored", "deep", "down")
    assert whys(world, plan) == []


# Repositories inside


def repository_deep_down(world: Git, plan: Plan) -> None:
    world(folder(plan, "ignored", "x", "y"), "init", "-q", "repo")


def bare_repository(world: Git, plan: Plan) -> None:
    world(folder(plan, "ignored", "x", "y"), "init", "-q", "--bare", "repo")


def linked_worktree(world: Git, plan: Plan) -> None:
    folder(plan, "ignored", "x", "y")
    world(plan.path, "worktree", "add", "-q", "--detach", "ignored/x/y/repo")


def worktree_of_another(world: Git, plan: Plan) -> None:
    other = world.repository("other")
    world(other, "worktree", "add", "-q", "--detach", os.path.join(folder(plan, "ignored", "x", "y"), "repo"))


@pytest.mark.parametrize("make", [repository_deep_down, bare_repository, linked_worktree, worktree_of_another])
def test_repositories_deep_in_ignored_folders(world: Git, plan: Plan, make: Callable[[Git, Plan], None]) -> None:
    make(world, plan)
    assert whys(world, plan) == ["repositories of their own are in it (ignored/x/y/repo)"]


def test_a_repository_in_an_ignored_folder_of_a_submodule(world: Git, plan: Plan) -> None:
    with_submodule(world, plan)
    with open(os.path.join(git_folder(world, plan, "module"), "info", "exclude"), "w") as file:
        file.write("ignored\n")
    world(folder(plan, "module", "ignored"), "init", "-q", "repo")
    assert whys(world, plan) == ["repositories of their own are in it (module/ignored/repo)"]


def test_a_folder_that_cannot_be_looked_into(world: Git, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """As root, no folder is closed to us: so the listing of one fails here by order."""
    closed = folder(plan, "ignored", "closed")
    listing = os.scandir

    def scandir(path: str) -> object:
        if path == closed:
            raise PermissionError(13, "Permission denied", path)
        return listing(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert whys(world, plan) == ["what is in ignored/closed cannot be told (Permission denied)"]


# Changes that git was told not to see


@pytest.mark.parametrize("flag", ["--skip-worktree", "--assume-unchanged"])
def test_changed_files_that_git_was_told_not_to_look_at(world: Git, plan: Plan, flag: str) -> None:
    world(plan.path, "update-index", flag, "a", "sub/b")
    assert whys(world, plan) == []
    write(plan, "a", "work\n")
    assert world(plan.path, "status", "--porcelain") == ""
    assert whys(world, plan) == ["1 change (a)"]


def test_a_file_outside_of_a_sparse_checkout(world: Git, plan: Plan) -> None:
    world(plan.path, "sparse-checkout", "set", "--no-cone", "/a")
    assert whys(world, plan) == []  # `sub/b` is not there, as it was asked for
    folder(plan, "sub")
    write(plan, "sub/b", "two\n")
    assert whys(world, plan) == []  # as it was committed
    write(plan, "sub/b", "work\n")
    assert whys(world, plan) == ["1 change (sub/b)"]


def test_an_index_is_not_touched(world: Git, plan: Plan) -> None:
    world(plan.path, "update-index", "--skip-worktree", "a")
    write(plan, "a", "work\n")
    before = world(plan.path, "ls-files", "-v", "--stage")
    whys(world, plan)
    assert world(plan.path, "ls-files", "-v", "--stage") == before
    assert world.locks() == []


def test_hidden_changes_of_a_submodule(world: Git, plan: Plan) -> None:
    with_submodule(world, plan)
    world(os.path.join(plan.path, "module"), "update-index", "--skip-worktree", "a")
    assert whys(world, plan) == []
    write(plan, "module/a", "work\n")
    assert whys(world, plan) == ["submodule module has 1 change (a)"]


# Commits that only refs of this worktree have


@pytest.mark.parametrize("ref", ["refs/worktree/mine", "refs/bisect/bad", "refs/rewritten/x"])
def test_commits_that_only_its_own_refs_have(world: Git, plan: Plan, ref: str) -> None:
    world(plan.path, "update-ref", ref, "HEAD")
    assert whys(world, plan) == []
    commit = world(plan.path, "commit-tree", "-p", "HEAD", "-m", "work", "HEAD^{tree}")
    world(plan.path, "update-ref", ref, commit)
    assert whys(world, plan) == ["1 commit of refs that only this worktree has nowhere else"]
    world(plan.repository, "branch", "kept", commit)
    assert whys(world, plan) == []


def test_a_ref_of_its_own_that_is_no_commit(world: Git, plan: Plan) -> None:
    blob = subprocess.run(
        ["git", "hash-object", "-w", "--stdin"],
        input=b"work", cwd=plan.path, env=world.env, capture_output=True, check=True,
    ).stdout.decode().strip()  # fmt: skip
    world(plan.path, "update-ref", "refs/worktree/notes", blob)
    assert whys(world, plan) == ["git cannot say whether anything else has what refs/worktree/notes points to"]


# Submodules


def with_submodule(world: Git, plan: Plan) -> Path:
    other = world.repository("other")
    world(plan.path, "submodule", "--quiet", "add", str(other), "module")
    world(plan.path, "commit", "-q", "-m", "a submodule")
    return other


def git_folder(world: Git, plan: Plan, name: str) -> str:
    return world(os.path.join(plan.path, name), "rev-parse", "--absolute-git-dir")


def test_a_submodule_that_its_remote_has(world: Git, plan: Plan) -> None:
    with_submodule(world, plan)
    assert whys(world, plan) == []


@pytest.mark.parametrize("ref", ["refs/notes/commits", "refs/custom/x", "refs/heads/other"])
def test_other_refs_of_a_submodule(world: Git, plan: Plan, ref: str) -> None:
    with_submodule(world, plan)
    inner = os.path.join(plan.path, "module")
    world(inner, "update-ref", ref, world(inner, "commit-tree", "-p", "HEAD", "-m", "work", "HEAD^{tree}"))
    assert whys(world, plan) == ["submodule module has 1 commit that no remote has"]


def test_a_submodule_that_is_no_longer_checked_out(world: Git, plan: Plan) -> None:
    with_submodule(world, plan)
    inner = os.path.join(plan.path, "module")
    world(inner, "commit", "-q", "--allow-empty", "-m", "work")
    world(inner, "branch", "work")
    world(plan.path, "submodule", "--quiet", "update", "--force")
    world(plan.path, "submodule", "--quiet", "deinit", "--force", "module")
    assert whys(world, plan) == ["submodule module has 1 commit that no remote has"]
    world(plan.path, "rm", "-q", "module")
    world(plan.path, "commit", "-q", "-m", "without it")
    assert whys(world, plan) == ["submodule module has 1 commit that no remote has"]


def test_a_worktree_elsewhere_of_a_submodule(world: Git, plan: Plan) -> None:
    """Its git folder goes with this worktree, so the other one would be left without a repository."""
    with_submodule(world, plan)
    world(os.path.join(plan.path, "module"), "worktree", "add", "-q", "--detach", str(world.folder / "elsewhere"))
    assert whys(world, plan) == [f"submodule module has a worktree elsewhere ({world.folder / 'elsewhere'})"]


# What git cannot answer is not an answer


def test_a_git_that_fails_has_not_said_no(world: Git, plan: Plan) -> None:
    world.env["PATH"] = broken_git(world)
    with pytest.raises(git.GitFailed):
        git.question(plan.repository, git.HERE, "rev-parse", "--verify", "--quiet", "refs/heads/main", env=world.env)


def test_git_says_no(world: Git, plan: Plan) -> None:
    words = ("rev-parse", "--verify", "--quiet", "refs/heads/none")
    assert git.question(plan.repository, git.HERE, *words, env=world.env) is None


def test_new_files_of_a_sparse_checkout_are_compared(world: Git, plan: Plan) -> None:
    world(plan.path, "sparse-checkout", "set", "--no-cone", "/a")
    folder(plan, "new")
    write(plan, "new/file", "work\n")
    write(plan, "a", "work\n")
    measured = diff.measure(Place(plan.repository, plan.base, plan.path, plan.branch), world.env)
    assert (measured.files, measured.added, measured.untracked) == (2, 2, 1)


def test_an_index_that_cannot_be_read(world: Git, plan: Plan) -> None:
    with open(git_path(world, plan, "index"), "wb") as file:
        file.write(b"torn")
    changes, ignored = whys(world, plan)
    assert changes == "git cannot say whether it has changes"
    assert "git ls-files" in ignored


def git_path(world: Git, plan: Plan, name: str) -> str:
    return world(plan.path, "rev-parse", "--path-format=absolute", "--git-path", name)


def test_the_place_of_a_launch_if_git_fails(world: Git, plan: Plan) -> None:
    """`compare` says what failed, not that the worktree is gone."""
    launch = Launch(
        "id", "demo", (), (), plan.path, KEY, KEY, 0.0, True, True,
        worktree=plan.path, repository=plan.repository, branch=plan.branch, base=plan.base,
    )  # fmt: skip
    assert compare.find_place(launch, world.env)[0] is not None
    world.env["PATH"] = broken_git(world)
    with pytest.raises(git.GitFailed, match="no memory"):
        compare.find_place(launch, world.env)


def broken_git(world: Git) -> str:
    path = world.folder / "bin" / "git"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\necho 'fatal: no memory' >&2\nexit 128\n")
    path.chmod(0o755)
    return f"{path.parent}:{os.environ['PATH']}"
