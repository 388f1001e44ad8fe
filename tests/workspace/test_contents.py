"""Files that would be lost with a worktree though `git status` shows no change: real git, no agent."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from agentctl.workspace import clean, inspect
from tests.support.git_world import Git, made, world

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentctl.workspace.worktree import Plan

__all__ = ["world"]


@pytest.fixture
def plan(world: Git) -> Plan:
    return made(world, world.repository())


def whys(world: Git, plan: Plan) -> list[str]:
    """Return why the worktree must not be removed without --force."""
    tree = inspect.one_tree(plan.repository, plan.path, world.env)
    assert tree is not None
    found = clean.objections(tree, (), str(world.folder), delete_branch=False)
    assert not any(objection.firm for objection in found)
    return [objection.why for objection in found]


def write(plan: Plan, name: str, text: str) -> None:
    path = os.path.join(plan.path, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", newline="") as file:
        file.write(text)


def shown(world: Git, path: str) -> str:
    return world(path, "status", "--porcelain", "--untracked-files=all")


def change_in_secret(path: str) -> None:
    """Change a file in place, with its old size and times."""
    before = os.stat(path)
    with open(path, "r+") as file:
        file.write("ONE")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert os.stat(path).st_size == before.st_size


def trust_times(world: Git, repository: str, path: str) -> None:
    """Let git believe size and time of modification alone, and let its index be younger than the files."""
    world(repository, "config", "core.trustctime", "false")
    world(repository, "config", "core.checkStat", "minimal")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    world(os.path.dirname(path), "update-index", "-q", "--refresh")


# Contents


def test_a_change_with_the_same_size_and_time(world: Git, plan: Plan) -> None:
    path = os.path.join(plan.path, "a")
    trust_times(world, plan.repository, path)
    assert whys(world, plan) == []
    change_in_secret(path)
    assert shown(world, plan.path) == ""
    assert whys(world, plan) == ["1 change (a)"]


def test_the_same_in_a_submodule(world: Git, plan: Plan) -> None:
    other = world.repository("other")
    world(plan.path, "submodule", "--quiet", "add", str(other), "module")
    world(plan.path, "commit", "-q", "-m", "a submodule")
    path = os.path.join(plan.path, "module", "a")
    trust_times(world, os.path.join(plan.path, "module"), path)
    assert whys(world, plan) == []
    change_in_secret(path)
    assert shown(world, plan.path) == ""
    assert whys(world, plan) == ["submodule module has 1 change (a)"]


def test_a_new_file_whose_name_differs_in_case_alone(world: Git, plan: Plan) -> None:
    world(plan.repository, "config", "core.ignoreCase", "true")
    write(plan, "A", "work\n")
    if len(os.listdir(plan.path)) == 3:
        pytest.skip("this file system does not tell them apart")
    assert shown(world, plan.path) == ""
    assert whys(world, plan) == ["1 change (A)"]


def test_a_worktree_that_looks_elsewhere(world: Git, plan: Plan) -> None:
    """Its own configuration says that its files are in another folder, which has no changes."""
    world(plan.repository, "config", "extensions.worktreeConfig", "true")
    clean_one = made(world, world.folder / "repo", "g-b")
    world(plan.path, "config", "--worktree", "core.worktree", clean_one.path)
    assert whys(world, plan) == []
    write(plan, "new", "work\n")
    assert shown(world, plan.path) == ""
    assert whys(world, plan) == ["1 change (new)"]


def test_files_that_only_its_own_settings_ignore(world: Git, plan: Plan) -> None:
    """Such settings go with the worktree: nobody else has said that these files do not matter."""
    world(plan.repository, "config", "extensions.worktreeConfig", "true")
    (world.folder / "excludes").write_text("secret\n")
    (world.folder / "personal").write_text("built\n")
    world(plan.path, "config", "--global", "core.excludesFile", str(world.folder / "personal"))
    world(plan.path, "config", "--worktree", "core.excludesFile", str(world.folder / "excludes"))
    write(plan, "built", "by a tool\n")
    assert whys(world, plan) == []
    write(plan, "secret", "work\n")
    assert shown(world, plan.path) == "?? built"
    assert whys(world, plan) == ["1 change (secret)"]


@pytest.mark.parametrize("folder", ["", "sub/"], ids=["top", "beside tracked files"])
def test_files_that_only_a_new_gitignore_ignores(world: Git, plan: Plan, folder: str) -> None:
    """The rule goes with the worktree, and was never committed."""
    write(plan, f"{folder}.gitignore", "*\n")
    write(plan, f"{folder}work.py", "work\n")
    assert shown(world, plan.path) == ""
    assert whys(world, plan) == [f"2 changes ({folder}.gitignore, {folder}work.py)"]


def test_a_new_gitignore_that_somebodys_rule_ignores(world: Git, plan: Plan) -> None:
    write(plan, "../repo/.git/info/exclude", ".gitignore\n")
    write(plan, ".gitignore", "work.py\n")
    assert whys(world, plan) == []
    write(plan, "work.py", "work\n")
    assert shown(world, plan.path) == ""
    assert whys(world, plan) == ["1 change (work.py)"]


def test_what_tools_make_stays_ignored(world: Git, plan: Plan) -> None:
    """A virtual environment and a cache ignore themselves; tracked rules and those of the person stay."""
    write(plan, "../repo/.git/info/exclude", "node_modules\n")
    write(plan, ".gitignore", "*.o\nbuilt/\n")
    world(plan.path, "add", ".gitignore")
    world(plan.path, "commit", "-q", "-m", "rules")
    for name in (".venv/.gitignore", "sub/.pytest_cache/.gitignore", "node_modules/x/.gitignore"):
        write(plan, name, "*\n")
    for name in (".venv/lib/x.py", "sub/.pytest_cache/v/x", "node_modules/x/y.js", "built/out", "sub/x.o"):
        write(plan, name, "by a tool\n")
    assert whys(world, plan) == []


def test_a_mode_that_only_its_own_settings_hide(world: Git, plan: Plan) -> None:
    world(plan.repository, "config", "extensions.worktreeConfig", "true")
    world(plan.path, "config", "--worktree", "core.fileMode", "false")
    assert whys(world, plan) == []
    os.chmod(os.path.join(plan.path, "a"), 0o755)
    assert shown(world, plan.path) == ""
    assert whys(world, plan) == ["1 change (a)"]
    world(plan.repository, "config", "core.fileMode", "false")  # a file system without modes
    assert whys(world, plan) == []


def test_line_ends_that_were_committed_against_the_rules(world: Git, plan: Plan) -> None:
    """What git would commit now differs from what it has, though nobody changed the file."""
    write(plan, "crlf", "one\r\ntwo\r\n")
    world(plan.path, "add", "crlf")
    world(plan.path, "commit", "-q", "-m", "before the rule")
    trust_times(world, plan.repository, os.path.join(plan.path, "crlf"))
    write(plan, ".gitattributes", "crlf text eol=crlf\n")
    world(plan.path, "add", ".gitattributes")
    world(plan.path, "commit", "-q", "-m", "the rule")
    assert shown(world, plan.path) == ""
    assert whys(world, plan) == []
    write(plan, "crlf", "one\r\nTWO\r\n")
    assert whys(world, plan) == ["1 change (crlf)"]


def intent_to_add(world: Git, plan: Plan) -> None:
    write(plan, "a", "one\n")
    write(plan, "new", "")
    world(plan.path, "add", "--intent-to-add", "new")


def staged_and_removed(world: Git, plan: Plan) -> None:
    write(plan, "new", "work\n")
    world(plan.path, "add", "new")
    os.unlink(os.path.join(plan.path, "new"))


def staged_and_changed_back(world: Git, plan: Plan) -> None:
    write(plan, "a", "work\n")
    world(plan.path, "add", "a")
    write(plan, "a", "one\n")


def outside_of_a_sparse_index(world: Git, plan: Plan) -> None:
    world(plan.path, "sparse-checkout", "set", "--cone", "--sparse-index", "nothing")
    write(plan, "sub/b", "TWO\n")


def a_link_in_place_of_a_file(world: Git, plan: Plan) -> None:
    os.unlink(os.path.join(plan.path, "a"))
    os.symlink("one\n", os.path.join(plan.path, "a"))


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (intent_to_add, "new"),
        (staged_and_removed, "new"),
        (staged_and_changed_back, "a"),
        (outside_of_a_sparse_index, "sub/b"),
        (a_link_in_place_of_a_file, "a"),
    ],
)
def test_changes_of_many_kinds(world: Git, plan: Plan, change: Callable[[Git, Plan], None], name: str) -> None:
    change(world, plan)
    assert whys(world, plan) == [f"1 change ({name})"]


def test_a_sparse_index_without_changes(world: Git, plan: Plan) -> None:
    world(plan.path, "sparse-checkout", "set", "--cone", "--sparse-index", "nothing")
    assert not os.path.exists(os.path.join(plan.path, "sub"))
    assert whys(world, plan) == []


def test_no_hook_runs_because_of_a_look(world: Git, plan: Plan) -> None:
    ran = world.folder / "ran"
    for name in ("post-index-change", "post-checkout", "reference-transaction"):
        world.hook(world.folder / "repo", name, f"echo {name} >> {ran}")
    change_in_secret(os.path.join(plan.path, "a"))
    assert whys(world, plan) == ["1 change (a)"]
    assert not ran.exists()


# What somebody is in the middle of


def merge_with_autostash(world: Git, plan: Plan) -> None:
    """It was killed before it began: only MERGE_AUTOSTASH has what git put away for it."""
    write(plan, "sub/b", "work\n")
    stash = world(plan.path, "stash", "create")
    world(plan.path, "reset", "-q", "--hard")
    world(plan.path, "update-ref", "MERGE_AUTOSTASH", stash)


def merge_of_notes(world: Git, plan: Plan) -> None:
    for ref, text in (("one", "x"), ("two", "y")):
        world(plan.path, "notes", "--ref", ref, "add", "-m", text, "HEAD")
    world.env["GIT_NOTES_REF"] = "refs/notes/one"
    with pytest.raises(AssertionError):
        world(plan.path, "notes", "merge", "two")
    del world.env["GIT_NOTES_REF"]


@pytest.mark.parametrize(("begin", "what"), [(merge_with_autostash, "a merge"), (merge_of_notes, "a merge of notes")])
def test_operations(world: Git, plan: Plan, begin: Callable[[Git, Plan], None], what: str) -> None:
    begin(world, plan)
    assert whys(world, plan) == [f"it is in the middle of {what}"]


# A worktree whose folder is gone: git still has its index and what it was in the middle of


def test_what_was_staged_in_a_worktree_that_is_gone(world: Git, plan: Plan) -> None:
    write(plan, "new", "work\n")
    world(plan.path, "add", "new")
    shutil.rmtree(plan.path)
    assert whys(world, plan) == ["only git's index of it has what was staged (new)"]


def test_what_was_staged_before_the_first_commit(world: Git, plan: Plan) -> None:
    world(plan.path, "checkout", "-q", "--orphan", "new")
    shutil.rmtree(plan.path)
    assert whys(world, plan) == ["only git's index of it has what was staged (a, sub/b)"]


def test_a_rebase_in_a_worktree_that_is_gone(world: Git, plan: Plan) -> None:
    """Its autostash is in a file of that folder alone."""
    own = world(plan.path, "rev-parse", "--absolute-git-dir")
    shutil.rmtree(plan.path)
    assert whys(world, plan) == []
    os.mkdir(os.path.join(own, "rebase-merge"))
    assert whys(world, plan) == ["it is in the middle of a rebase"]


def test_a_worktree_that_is_gone_with_everything_committed(world: Git, plan: Plan) -> None:
    world(plan.path, "rm", "-q", "--cached", "a")
    shutil.rmtree(plan.path)
    assert whys(world, plan) == []  # that something was to be deleted is no work


def test_an_index_that_cannot_be_read_of_one_that_is_gone(world: Git, plan: Plan) -> None:
    index = world(plan.path, "rev-parse", "--path-format=absolute", "--git-path", "index")
    shutil.rmtree(plan.path)
    with open(index, "wb") as file:
        file.write(b"torn")
    assert whys(world, plan) == ["git cannot say whether anything was staged in it"]
