"""Worktrees that are made in bad company, and taken back: never with somebody's work."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from agentctl.workspace import git, worktree
from agentctl.workspace.worktree import Plan, make, undo
from tests.support.children import until
from tests.support.git_world import made, planned, taken_back
from tests.support.git_world import world as world

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.git_world import Git


# Hooks


def test_a_hook_that_fails(world: Git) -> None:
    repository = world.repository()
    world.hook(repository, "post-checkout", "echo no >&2; exit 1")
    with pytest.raises(git.GitFailed, match="could not make this worktree"):
        make(plan := planned(world, repository), world.env)
    assert taken_back(world, repository, plan)


def test_a_hook_that_writes_and_fails(world: Git) -> None:
    """What it wrote may be wanted; what git is told to ignore is not."""
    repository = world.repository()
    world.hook(repository, "post-checkout", "echo x > made; exit 1")
    with pytest.raises(git.GitFailed, match=r"left there: .*has changes \(made\)"):
        make(plan := planned(world, repository), world.env)
    assert os.path.exists(f"{plan.path}/made")
    (repository / ".gitignore").write_text("made\n")
    world.commit(repository)
    with pytest.raises(git.GitFailed):
        make(plan := planned(world, repository, "second"), world.env)
    assert taken_back(world, repository, plan)


def test_a_hook_that_hangs(world: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = world.repository()
    monkeypatch.setattr(git, "CHECKOUT_PATIENCE", 2.0)
    world.hook(repository, "post-checkout", f"echo $$ > {world.folder}/pid; exec sleep 300")
    with pytest.raises(git.GitFailed, match="not answered in 2 s"):
        make(plan := planned(world, repository), world.env)
    assert taken_back(world, repository, plan)
    if (world.folder / "pid").exists():
        pid = int((world.folder / "pid").read_text())
        until(lambda: not os.path.exists(f"/proc/{pid}/cwd") or is_dead(pid))


def is_dead(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_killed_in_the_middle(world: Git) -> None:
    """git is killed -9 while it writes the tree: what is left is listed by git, and is taken back."""
    repository = world.repository()
    (repository / ".gitattributes").write_text("a filter=slow\n")
    world.commit(repository)
    world(repository, "config", "filter.slow.smudge", f"touch {world.folder}/begun; sleep 300 && cat")
    words = ["git", "worktree", "add", "-q", "-b", "g-a", f"{repository}-g-a"]
    child = subprocess.Popen(words, cwd=repository, env=world.env, start_new_session=True)
    until((world.folder / "begun").exists)
    os.killpg(child.pid, 9)
    child.wait()
    (one,) = [one for one in worktree.listing(str(repository), world.env) if one.path.endswith("g-a")]
    assert one.locked == worktree.UNFINISHED
    world(repository, "config", "--unset", "filter.slow.smudge")
    plan = Plan(str(repository / ".git"), f"{repository}-g-a", "g-a", world.head(repository), new_branch=True)
    why = undo(plan, world.env)
    assert why is None or "changes" in why  # of a tree that is half there, files are missing
    if why is None:
        assert taken_back(world, repository, plan)
    for lock in world.locks():
        os.unlink(lock)  # git's own, which was killed -9; not ours


# Taking back


def edit(world: Git, plan: Plan) -> None:
    with open(f"{plan.path}/a", "w") as file:
        file.write("work\n")


def untracked(world: Git, plan: Plan) -> None:
    with open(f"{plan.path}/new", "w") as file:
        file.write("work\n")


def deleted(world: Git, plan: Plan) -> None:
    os.unlink(f"{plan.path}/a")


def renamed(world: Git, plan: Plan) -> None:
    world(plan.path, "mv", "a", "c")


def staged(world: Git, plan: Plan) -> None:
    edit(world, plan)
    world(plan.path, "add", "a")
    with open(f"{plan.path}/a", "w") as file:
        file.write("one\n")  # the file is as it was; the index is not


def committed(world: Git, plan: Plan) -> None:
    world(plan.path, "commit", "-q", "--allow-empty", "-m", "work")


def committed_and_left(world: Git, plan: Plan) -> None:
    committed(world, plan)
    world(plan.path, "checkout", "-q", "--detach", plan.base)


def committed_detached(world: Git, plan: Plan) -> None:
    world(plan.path, "checkout", "-q", "--detach")
    committed(world, plan)


def another_branch(world: Git, plan: Plan) -> None:
    world(plan.path, "checkout", "-q", "-b", "other")


def in_a_rebase(world: Git, plan: Plan) -> None:
    world.env["GIT_SEQUENCE_EDITOR"] = "sed -i 1ibreak"
    world(plan.path, "rebase", "-q", "-i", "--root")
    del world.env["GIT_SEQUENCE_EDITOR"]


def in_a_bisect(world: Git, plan: Plan) -> None:
    world(plan.path, "bisect", "start")


def not_a_tree(world: Git, plan: Plan) -> None:
    """Whatever it is now: git cannot say."""
    admin = worktree.admin_folder(plan.repository, plan.path)
    assert admin is not None
    os.rename(f"{admin}/index", f"{admin}/kept")
    os.mkdir(f"{admin}/index")


@pytest.mark.parametrize(
    "work",
    [edit, untracked, deleted, renamed, staged, committed, committed_and_left, committed_detached, another_branch,
     in_a_rebase, in_a_bisect, not_a_tree],
)  # fmt: skip
def test_work_is_never_taken(world: Git, work: Callable[[Git, Plan], None]) -> None:
    repository = world.repository()
    plan = made(world, repository)
    work(world, plan)
    why = undo(plan, world.env)
    assert why is not None
    assert plan.path in world.worktrees(repository)
    assert plan.branch in world.branches(repository)
    assert os.path.isdir(plan.path)


def write(path: str) -> None:
    with open(path, "w") as file:
        file.write("work\n")


def commit_in(world: Git, deps: str) -> None:
    world(deps, "commit", "-q", "--allow-empty", "-m", "work")


def commit_aside(world: Git, deps: str) -> None:
    world(deps, "checkout", "-q", "-b", "aside")
    commit_in(world, deps)
    world(deps, "checkout", "-q", "--detach", "origin/main")


def stash_in(world: Git, deps: str) -> None:
    write(f"{deps}/a")
    world(deps, "stash")


IN_SUBMODULES: list[Callable[[Git, str], None]] = [
    lambda _, deps: write(f"{deps}/a"),
    lambda _, deps: write(f"{deps}/new"),
    commit_in,
    commit_aside,
    stash_in,
]


def test_the_work_in_a_submodule_is_not_taken(world: Git) -> None:
    inner, outer = world.repository("inner"), world.repository("outer")
    world(outer, "submodule", "add", "-q", str(inner), "deps")
    world.commit(outer)
    for number, work in enumerate(IN_SUBMODULES):
        plan = made(world, outer, f"n{number}")
        world(plan.path, "submodule", "update", "-q", "--init")
        work(world, f"{plan.path}/deps")
        why = undo(plan, world.env)
        assert why is not None, number
        assert os.path.isdir(f"{plan.path}/deps"), number
    plan = made(world, outer, "same")
    world(plan.path, "submodule", "update", "-q", "--init")
    assert undo(plan, world.env) is None
    assert taken_back(world, outer, plan)


def test_what_is_nobodys_work_is_taken(world: Git) -> None:
    repository = world.repository()
    (repository / ".gitignore").write_text("built/\n")
    world.commit(repository)
    plan = made(world, repository)
    os.mkdir(f"{plan.path}/built")
    edit(world, plan)
    world(plan.path, "stash")  # is the repository's
    assert undo(plan, world.env) is None
    assert taken_back(world, repository, plan)
    assert "WIP on g-a" in world(repository, "stash", "list")
    plan = made(world, repository)
    subprocess.run(["rm", "-r", plan.path], check=True)  # gone already
    assert undo(plan, world.env) is None
    assert taken_back(world, repository, plan)
    assert undo(plan, world.env) is None


def test_an_existing_branch_stays(world: Git) -> None:
    repository = world.repository()
    world(repository, "branch", "mine")
    plan = made(world, repository, branch="mine")
    assert undo(plan, world.env) is None
    assert world.branches(repository) == ["main", "mine"]
    assert not os.path.exists(plan.path)


def test_a_branch_that_is_elsewhere_now_stays(world: Git) -> None:
    repository = world.repository()
    plan = made(world, repository)
    world(plan.path, "checkout", "-q", "--detach")
    world(repository, "checkout", "-q", "g-a")
    assert undo(plan, world.env) is None
    assert "g-a" in world.branches(repository)
