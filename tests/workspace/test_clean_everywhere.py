"""`worktree clean` looks everywhere: tracked folders, submodules at every depth, all of git's own folder."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from agentctl.workspace import branches, inspect
from agentctl.workspace.clean import objections
from tests.support.git_world import Git, made, world

if TYPE_CHECKING:
    from agentctl.workspace.worktree import Plan

__all__ = ["world"]
pytestmark = pytest.mark.linux


@pytest.fixture
def plan(world: Git) -> Plan:
    return made(world, world.repository())


def whys(world: Git, plan: Plan) -> list[str]:
    """Return why the worktree must not be removed without --force."""
    tree = inspect.one_tree(plan.repository, plan.path, world.env)
    assert tree is not None
    return [objection.why for objection in objections(tree, (), str(world.folder), delete_branch=False)]


def with_submodule(world: Git, plan: Plan) -> str:
    world(plan.path, "submodule", "--quiet", "add", str(world.repository("other")), "module")
    world(plan.path, "commit", "-q", "-m", "a submodule")
    assert whys(world, plan) == []
    return os.path.join(plan.path, "module")


def write(folder: str, name: str, text: str) -> None:
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "w") as file:
        file.write(text)


def test_a_repository_in_a_tracked_folder(world: Git, plan: Plan) -> None:
    inner = os.path.join(plan.path, "src", "deep")
    write(inner, "code", "code\n")
    world(plan.path, "add", "src")
    world(plan.path, "commit", "-q", "-m", "code")
    assert whys(world, plan) == []
    world(inner, "init", "-q")
    assert world(plan.path, "status", "--porcelain") == ""
    assert whys(world, plan) == ["repositories of their own are in it (src/deep)"]


def test_a_bare_repository_in_a_tracked_folder_of_a_submodule(world: Git, plan: Plan) -> None:
    module = with_submodule(world, plan)
    write(os.path.join(world.folder, ".config", "git"), "ignore", "bare\n")
    world(module, "init", "-q", "--bare", os.path.join(module, "x", "bare"))
    assert "repositories of their own are in it (module/x/bare)" in whys(world, plan)


def test_new_files_in_a_submodule_that_hides_them(world: Git, plan: Plan) -> None:
    module = with_submodule(world, plan)
    world(module, "config", "status.showUntrackedFiles", "no")
    write(module, "new", "precious\n")
    assert "submodule module has 1 change (new)" in whys(world, plan)


def test_changes_in_a_submodule_of_a_submodule_that_is_ignored(world: Git, plan: Plan) -> None:
    deep, lib = world.repository("deep"), world.repository("lib")
    world(lib, "submodule", "--quiet", "add", str(deep), "deep")
    world(lib, "config", "--file", ".gitmodules", "submodule.deep.ignore", "all")
    world(lib, "commit", "-qam", "deep")
    world(plan.path, "submodule", "--quiet", "add", str(lib), "lib")
    world(plan.path, "submodule", "--quiet", "update", "--init", "--recursive")
    world(plan.path, "commit", "-q", "-m", "a submodule")
    assert whys(world, plan) == []
    write(os.path.join(plan.path, "lib", "deep"), "a", "precious\n")
    assert "submodule lib/deep has 1 change (a)" in whys(world, plan)


def test_a_rebase_in_a_submodule(world: Git, plan: Plan) -> None:
    module = with_submodule(world, plan)
    own = world(module, "rev-parse", "--absolute-git-dir").strip()
    write(os.path.join(own, "rebase-merge"), "autostash", "1a932603dd0436297f58a07f12185f3f324243ad\n")
    assert "submodule module is in the middle of a rebase" in whys(world, plan)


def test_a_file_in_gits_folder_that_nobody_knows(world: Git, plan: Plan) -> None:
    own = world(plan.path, "rev-parse", "--absolute-git-dir").strip()
    assert whys(world, plan) == []
    write(own, "NEXT_YEARS_AUTOSTASH", "1a932603dd0436297f58a07f12185f3f324243ad\n")
    (why,) = whys(world, plan)
    assert why.startswith("git's own folder of it has NEXT_YEARS_AUTOSTASH, and it cannot be told")


def test_what_git_leaves_after_common_work_is_harmless(world: Git, plan: Plan) -> None:
    for name in ("one", "two"):
        write(plan.path, name, name)
        world(plan.path, "add", name)
        world(plan.path, "commit", "-q", "-m", name)
    world(plan.path, "switch", "-qc", "side", "HEAD~1")
    world(plan.path, "commit", "-q", "--allow-empty", "-m", "side")
    world(plan.path, "rebase", "-q", plan.branch)
    world(plan.path, "commit", "-q", "--amend", "--no-edit", "--allow-empty")
    world(plan.path, "switch", "-q", plan.branch)
    world(plan.path, "merge", "-q", "--no-ff", "--no-edit", "side")
    world(plan.path, "reset", "-q", "--hard", "HEAD~1")
    world(plan.path, "merge", "-q", "--squash", "side")
    assert whys(world, plan) == []


@pytest.mark.parametrize("doing", ["rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START"])
def test_a_branch_that_a_rebase_or_a_bisect_will_return_to(world: Git, plan: Plan, doing: str) -> None:
    world(plan.path, "switch", "-qc", "try/n/demo")
    world(plan.path, "checkout", "-q", "--detach")
    found = branches.in_repository(plan.repository, "n", world.env)
    assert [one.branch for one in found] == ["try/n/demo"]
    own = world(plan.path, "rev-parse", "--absolute-git-dir").strip()
    text = "try/n/demo\n" if doing == "BISECT_START" else "refs/heads/try/n/demo\n"
    write(os.path.join(own, os.path.dirname(doing)), os.path.basename(doing), text)
    assert branches.in_repository(plan.repository, "n", world.env) == []


def test_a_branch_of_a_launch_whose_worktree_is_there(world: Git, plan: Plan) -> None:
    world(plan.path, "switch", "-qc", "try/n/demo")
    world(plan.path, "checkout", "-q", "--detach")
    made_for = {os.path.realpath(plan.path): "try/n/demo"}
    assert branches.in_repository(plan.repository, "n", world.env, made_for) == []
    elsewhere = {os.path.realpath(str(world.folder / "gone")): "try/n/demo"}
    assert len(branches.in_repository(plan.repository, "n", world.env, elsewhere)) == 1
