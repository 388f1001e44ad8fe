"""Worktrees of launches wherever a person may stand in git, single launches in one, names that are taken, and hooks."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from agentctl.errors import Refused
from agentctl.launch import group as groups
from agentctl.workspace import git, worktree
from agentctl.workspace.git import GitFailed
from tests.support.children import until
from tests.support.git_home import GitHome, git_home_in
from tests.support.launch_home import LONG

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.linux, pytest.mark.stress]
TWO = ("--agent", "demo", "--agent", "demo", "-p", "hi", "--group", "g")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[GitHome]:
    with git_home_in(tmp_path) as home:
        yield home


def bases(found: dict[str, dict[str, Any]]) -> set[str]:
    return {one["base"] for one in found.values()}


# Where a person stands


def test_from_a_subfolder(home: GitHome) -> None:
    home.commit("a/b/file", "deep\n")
    found = home.slots(*TWO, cwd=home.work / "a" / "b")
    assert [one["session"]["cwd"] for one in found.values()] == [
        str(home.folder / name / "a" / "b") for name in ("work-g-demo", "work-g-demo-2")
    ]
    (home.work / "new").mkdir()
    done = home.agentctl("launch", *TWO[:-1], "h", cwd=home.work / "new")
    assert done.returncode == 2
    assert "new: this folder is not in" in done.stderr


def test_from_a_linked_worktree(home: GitHome) -> None:
    """They lie beside the main one, and begin where the person is."""
    linked = home.folder / "linked"
    home.git("worktree", "add", "-q", "-b", "other", str(linked))
    there = home.commit("more", "x\n", cwd=linked)
    found = home.slots(*TWO, cwd=linked)
    assert bases(found) == {there}
    assert home.beside() == ["work-g-demo", "work-g-demo-2"]


def test_a_detached_head(home: GitHome) -> None:
    first = home.head()
    home.commit("second", "x\n")
    home.git("checkout", "-q", "--detach", first)
    assert bases(home.slots(*TWO)) == {first}


@pytest.mark.parametrize("name", ["repo.git", "proj/.bare"])
def test_a_bare_repository(home: GitHome, name: str) -> None:
    bare = home.folder / name
    bare.parent.mkdir(exist_ok=True)
    home.git("clone", "-q", "--bare", str(home.work), str(bare))
    found = home.slots(*TWO, cwd=bare)
    beside = {"repo.git": "repo-g-", "proj/.bare": "proj/proj-g-"}[name]
    assert [one["worktree"] for one in found.values()] == [
        str(home.folder / f"{beside}{slot}") for slot in ("demo", "demo-2")
    ]
    assert all(one["session"]["status"] for one in found.values())


@pytest.mark.parametrize("branch", ["größe/文字", "a/b/c", "x-", "$(id);x", "HEAD-2"])
def test_odd_branches(home: GitHome, branch: str) -> None:
    home.git("checkout", "-q", "-b", branch)
    there = home.commit("on it", "x\n")
    home.git("checkout", "-q", "main")
    assert bases(home.slots(*TWO, "--base-branch", branch)) == {there}
    done = home.agentctl("launch", "demo", "-p", "hi", "--worktree", "--branch", branch, "--group", "own")
    assert done.returncode == 0, done.stderr
    assert home.git("symbolic-ref", "HEAD", cwd=home.folder / "work-own-demo") == f"refs/heads/{branch}"


def test_a_branch_called_try(home: GitHome) -> None:
    home.git("branch", "try")
    done = home.agentctl("launch", *TWO)
    assert done.returncode == 4
    assert "there is a branch try, so none can be called try/g/demo" in done.stderr
    assert home.beside() == []


def test_inside_a_git_hook(home: GitHome, tmp_path: Path) -> None:
    """The repository that a hook speaks of is not that of the agents, nor is its index."""
    index = tmp_path / "index-of-the-hook"
    env = {
        **home.env,
        "GIT_DIR": str(home.work / ".git"),
        "GIT_INDEX_FILE": str(index),
        "GIT_WORK_TREE": str(home.work),
    }
    tool = "[[bash:git rev-parse --show-toplevel > top; git status --short > changes]]"
    hook = "git rev-parse --show-toplevel > created"
    words = ("--agent", "demo", "-p", tool, "--group", "g", "--on-create", hook, "--wait")
    done = home.agentctl("launch", *words, env=env)
    assert done.returncode == 0, done.stderr
    there = home.folder / "work-g-demo"
    assert (there / "top").read_text() == f"{there}\n"
    assert (there / "created").read_text() == f"{there}\n"
    assert not index.exists()
    assert home.git("status", "--short") == ""


def test_a_commit_hook_that_launches(home: GitHome) -> None:
    hook = home.work / ".git" / "hooks" / "post-commit"
    hook.parent.mkdir(exist_ok=True)
    command = f"{sys.executable} -m agentctl launch --agent demo -p hi --group g --wait"
    hook.write_text(f"#!/bin/sh\nexec {command} > ../said 2>&1\n")
    hook.chmod(0o755)
    there = home.commit("second", "x\n")
    said = (home.folder / "said").read_text()
    assert "demo\t" in said
    assert "1 of 1 slots were launched" in said
    assert home.git("rev-parse", "try/g/demo") == there
    assert home.git("status", "--short") == ""


def test_what_is_not_in_the_worktrees_is_said(home: GitHome) -> None:
    (home.work / "file").write_text("changed\n")
    inner = home.folder / "inner"
    inner.mkdir()
    home.git("init", "-q", ".", cwd=inner)
    home.commit("x", "x", cwd=inner)
    home.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "sub")
    home.git("commit", "-q", "-m", "sub", "--", ".gitmodules", "sub")
    found = home.slots(*TWO)
    said = found["demo"]["said"].splitlines()
    assert "agentctl: the worktrees will not have the uncommitted changes of ~/work" in said
    expected = "agentctl: 1 submodule is not checked out in the worktrees; run `git submodule update --init` there"
    assert expected in said
    assert (home.folder / "work-g-demo" / "file").read_text() == "one\n"
    assert (home.work / "file").read_text() == "changed\n"


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (None, "not a git repository"),
        ("git init -q .", "the repository has no commit yet"),
    ],
)
def test_where_there_is_nothing_to_begin_with(home: GitHome, make: str | None, why: str) -> None:
    folder = home.folder_named("empty")
    if make:
        os.system(f"cd {folder} && {make}")
    done = home.agentctl("launch", *TWO, "--cwd", folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr
    assert home.beside("empty-") == []


# Names that are taken


def test_a_branch_that_was_left_is_not_in_the_way(home: GitHome) -> None:
    home.git("branch", "try/g/demo-2")
    left = home.git("rev-parse", "try/g/demo-2")
    done = home.agentctl("launch", *TWO)
    assert done.returncode == 0, done.stderr
    assert home.branches() == ["main", "try/g/demo", "try/g/demo-2", "try/g/demo-2+2"]
    assert home.git("rev-parse", "try/g/demo-2") == left


@pytest.mark.parametrize("what", ["file", "folder", "link"])
def test_a_group_whose_path_is_there(home: GitHome, what: str) -> None:
    path = home.folder / "work-g-demo-2"
    if what == "file":
        path.touch()
    elif what == "folder":
        path.mkdir()
    else:
        path.symlink_to("nowhere")
    done = home.agentctl("launch", *TWO)
    assert (done.returncode, done.stdout) == (4, "")
    assert f"demo-2: {path}: there is something already" in done.stderr
    assert (home.beside(), home.branches()) == (["work-g-demo-2"], ["main"])


def test_a_worktree_whose_folder_was_removed(home: GitHome) -> None:
    home.git("worktree", "add", "-q", "--detach", "../work-g-demo-2")
    (home.folder / "work-g-demo-2").rename(home.folder / "moved")
    done = home.agentctl("launch", *TWO)
    assert (done.returncode, done.stdout) == (4, "")
    assert "work-g-demo-2: git has a worktree there whose folder is gone; `git worktree prune` first" in done.stderr
    assert (home.beside(), home.branches()) == ([], ["main"])


def test_a_group_is_added_to(home: GitHome) -> None:
    home.launch("hi", "--group", "g")
    found = home.slots(*TWO)
    assert "agentctl: group g has 1 earlier launch; these are added to it" in found["demo"]["said"].splitlines()
    assert len(home.listed("-a", "--group", "g")["sessions"]) == 3


def test_generated_names_do_not_collide(home: GitHome, monkeypatch: pytest.MonkeyPatch) -> None:
    home.git("branch", "try/g-aaaa/claude")
    home.git("branch", "try/g-bbbb")
    (home.folder / "work-g-cccc-demo").mkdir()
    home.launch("hi", "--group", "g-dddd")
    repository = worktree.repository_at(str(home.work), home.env)
    names = ["g-aaaa", "g-bbbb", "g-cccc", "g-dddd", "g-eeee"]
    drawn = iter(names)
    monkeypatch.setattr(groups, "new_group", lambda length: next(drawn))
    assert groups.choose_group(["demo"], repository, home.env) == "g-eeee"
    lengths: list[int] = []

    def always_taken(length: int) -> str:
        lengths.append(length)
        return "g-aaaa"

    monkeypatch.setattr(groups, "new_group", always_taken)
    with pytest.raises(Refused, match="give one with --group"):
        groups.choose_group(["demo"], repository, home.env)
    assert (len(lengths), set(lengths)) == (groups.TRIES, set(groups.LETTERS_OF_AN_ID))


def test_generated_names_are_good() -> None:
    from agentctl.launch import slots

    for _ in range(200):
        name = groups.new_group(4)
        assert slots.check_group(name) == name
        assert len(name) == len("g-") + 4


def planned(home: GitHome, name: str, branch: str) -> worktree.Plan:
    repository = worktree.repository_at(str(home.work), home.env)
    return worktree.plan(repository, str(home.work), name, home.env, branch)


def test_who_comes_second_takes_nothing_from_the_first(home: GitHome) -> None:
    """Two commands with the same names, both checked before either made anything."""
    first, same_place, same_branch = (
        planned(home, name, branch) for name, branch in (("g", "x"), ("g", "y"), ("h", "x"))
    )
    worktree.make(first, home.env)
    with pytest.raises(Refused, match="another process just created it"):
        worktree.make(same_place, home.env)
    with pytest.raises(GitFailed, match="x"):
        worktree.make(same_branch, home.env)
    assert home.worktrees() == [first.path]
    assert home.git("symbolic-ref", "--short", "HEAD", cwd=home.folder / "work-g") == "x"
    assert home.git("rev-parse", "HEAD", cwd=home.folder / "work-g") == first.base
    assert (home.beside(), home.branches()) == (["work-g"], ["main", "x"])


def test_two_commands_race_for_one_group(home: GitHome) -> None:
    racing = [home.start("launch", *TWO, "--json") for _ in range(3)]
    answers = [(child.communicate(timeout=60), child.returncode) for child in racing]
    won = [slot for (out, _), _ in answers if out for slot in json.loads(out)["slots"] if slot["session"] is not None]
    assert sorted(slot["slot"] for slot in won) == ["demo", "demo-2"], answers
    assert sorted(code for _, code in answers) in ([0, 1, 1], [0, 1, 4], [0, 4, 4], [1, 1, 1], [1, 1, 4]), answers
    assert home.beside() == ["work-g-demo", "work-g-demo-2"]
    for slot in won:
        assert home.git("rev-parse", "HEAD", cwd=home.folder / f"work-g-{slot['slot']}") == home.head()


# One, in a worktree


def test_one_in_a_worktree(home: GitHome) -> None:
    id = home.launch(LONG, "--worktree")
    (row,) = home.listed()["sessions"]
    assert (row["id"], row["slot"]) == (id, "demo")
    group = row["group"]
    assert row["cwd"] == str(home.folder / f"work-{group}-demo")
    assert home.branches() == ["main", f"try/{group}/demo"]
    assert home.listed("--group", group)["sessions"][0]["id"] == id
    other = home.launch(LONG)  # the directory itself is free
    assert home.session(other)["cwd"] == str(home.work)


def test_one_on_a_new_branch_from_another(home: GitHome) -> None:
    base = home.head()
    home.git("branch", "old")
    home.commit("second", "x\n")
    found = json.loads(
        home.agentctl(
            *("launch", "demo", "-p", "hi", "--json", "--worktree", "--group", "mine"),
            *("--branch", "fix/42", "--base-branch", "old"),
        ).stdout
    )
    assert (found["session"]["group"], found["session"]["slot"]) == ("mine", "demo")
    assert home.git("rev-parse", "fix/42") == base
    assert home.worktrees() == [str(home.folder / "work-mine-demo")]


def test_one_on_a_branch_that_is_there(home: GitHome) -> None:
    """It goes on with it; and a failure does not take it."""
    home.git("branch", "mine")
    home.program("codex", "exit 3")
    done = home.agentctl("launch", "codex", "-p", "hi", "--worktree", "--branch", "mine")
    assert (done.returncode, done.stdout) == (1, "")
    assert (home.beside(), home.branches()) == ([], ["main", "mine"])
    home.launch("[[bash:git commit -q --allow-empty -m done]]", "--worktree", "--branch", "mine", "--wait")
    assert home.git("log", "--format=%s", "main..mine") == "done"


def test_one_that_dies_is_taken_back(home: GitHome) -> None:
    home.program("codex", "echo 'not logged in'; exit 3")
    done = home.agentctl("launch", "codex", "-p", "hi", "--worktree")
    assert (done.returncode, done.stdout) == (1, "")
    assert "not logged in" in done.stderr
    assert home.untouched()


def test_resume_keeps_the_slot(home: GitHome) -> None:
    id = home.launch("hi", "--worktree", "--group", "g")
    home.wait_until_quiet()
    done = home.agentctl("resume", id, "more", "--wait")
    assert done.returncode == 0, done.stderr
    row = home.session(id)
    assert (row["group"], row["slot"]) == ("g", "demo")


# Hooks


def test_hooks_are_told_the_slot(home: GitHome) -> None:
    tell = "echo $AGENTCTL_GROUP $AGENTCTL_SLOT $AGENTCTL_WORKTREE $AGENTCTL_BRANCH $PWD >"
    words = ("--on-create", f"{tell} created", "--on-complete", f"{tell} completed")
    done = home.agentctl("launch", *TWO, *words)
    assert done.returncode == 0, done.stderr
    home.wait_until_quiet()
    for slot in ("demo", "demo-2"):
        path = home.folder / f"work-g-{slot}"
        for name in ("created", "completed"):
            assert (path / name).read_text() == f"g {slot} {path} try/g/{slot} {path}\n"


def test_a_hook_that_fails_names_its_slot(home: GitHome) -> None:
    done = home.agentctl("launch", *TWO, "--on-create", "echo broken; exit 3")
    assert done.returncode == 0
    for slot in ("demo", "demo-2"):
        assert f"agentctl: {slot}: on-create failed (exit code 3): broken; the session is not affected" in done.stderr


def test_slow_hooks_run_side_by_side(home: GitHome) -> None:
    """Each waits for the other's beginning."""
    meet = "touch ../$AGENTCTL_SLOT.here; while [ ! -e ../demo.here ] || [ ! -e ../demo-2.here ]; do sleep 0.02; done"
    done = home.agentctl("launch", *TWO, "--on-create", meet)
    assert done.returncode == 0
    assert "on-create" not in done.stderr
    until(lambda: (home.folder / "demo-2.here").exists())


# Git, twice at one moment


@pytest.mark.parametrize("file", ["commondir: Success", "locked': No such file or directory"])
def test_an_entry_that_another_git_is_writing_is_waited_for(home: GitHome, file: str) -> None:
    count = home.folder / "count"
    fail = (
        f'echo x >> {count}; if [ $(wc -l < {count}) -lt 4 ]; then echo "fatal: failed to read worktrees/x/{file}" >&2'
    )
    home.program("git", f"{fail}; exit 128; fi; echo done")
    assert git.answer(str(home.work), "worktree", "list", env=home.env) == "done"
    assert count.read_text() == "x\n" * 4


def test_other_errors_are_not_tried_again(home: GitHome) -> None:
    count = home.folder / "count"
    home.program("git", f"echo x >> {count}; echo 'fatal: no' >&2; exit 128")
    with pytest.raises(GitFailed, match="git worktree: no"):
        git.answer(str(home.work), "worktree", "list", env=home.env)
    assert count.read_text() == "x\n"


def test_what_cannot_be_listed_is_not_taken_back(home: GitHome) -> None:
    plan = planned(home, "g", "x")
    worktree.make(plan, home.env)
    home.program("git", "echo 'fatal: broken' >&2; exit 128")
    assert "broken" in (worktree.undo(plan, home.env) or "")
    home.env["PATH"] = os.environ["PATH"]
    assert (home.beside(), home.branches()) == (["work-g"], ["main", "x"])
    assert worktree.undo(plan, home.env) is None
    assert home.untouched()
