"""Worktrees for launches: planned with everything checked, made whole or not at all, taken back without taking work."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from functools import partial
from typing import TYPE_CHECKING

import pytest

from agentctl.errors import AgentctlError, Refused, UsageError
from agentctl.workspace import git, worktree
from agentctl.workspace.worktree import (
    Plan,
    keep_in_place,
    make,
    parse_listing,
    repositories_around,
    repository_at,
    undo,
)
from tests.support.git_world import made, planned, taken_back
from tests.support.git_world import world as world

if TYPE_CHECKING:
    from tests.support.git_world import Git


# Where


def test_beside_the_repository(world: Git) -> None:
    repository = world.repository()
    found = repository_at(str(repository), world.env)
    assert found.common == str(repository / ".git")
    assert (found.inside, found.bare, found.changed, found.submodules) == ("", False, False, 0)
    assert made(world, repository).path == str(repository) + "-g-a"


def test_as_deep_as_the_person_is(world: Git) -> None:
    repository = world.repository()
    link = world.folder / "link"
    link.symlink_to(repository / "sub")
    for number, cwd in enumerate((repository / "sub", link, repository / "sub" / ".." / "sub")):
        plan = made(world, cwd, f"n{number}")
        assert (plan.inside, plan.cwd) == ("sub", f"{repository}-n{number}/sub")
        assert os.path.isfile(f"{plan.cwd}/b")
    (repository / "new").mkdir()
    with pytest.raises(UsageError, match="this folder is not in"):
        planned(world, repository / "new", "n9")


def test_from_a_linked_worktree_it_lies_beside_the_main_one(world: Git) -> None:
    repository = world.repository()
    first = made(world, repository)
    assert made(world, f"{first.path}/sub", "second").path == f"{repository}-second"


@pytest.mark.parametrize("name", [".bare", ".git"])
def test_a_bare_repository_with_its_worktrees_around_it(world: Git, name: str) -> None:
    """The same place from the bare one, from where its worktrees are, and from one of them."""
    source = world.repository("source")
    project = world.folder / "project"
    project.mkdir()
    world(project, "clone", "-q", "--bare", str(source), name)
    world(project / name, "worktree", "add", "-q", str(project / "main"), "main")
    if name != ".git":
        (project / ".git").write_text(f"gitdir: ./{name}\n")
    for number, cwd in enumerate((project / name, project, project / "main", project / "main" / "sub")):
        plan = made(world, cwd, f"n{number}")
        assert plan.path == str(project / f"project-n{number}")
        assert undo(plan, world.env) is None


def test_a_bare_repository_alone(world: Git) -> None:
    source = world.repository("source")
    world(world.folder, "clone", "-q", "--bare", str(source), "repo.git")
    plan = made(world, world.folder / "repo.git")
    assert plan.path == str(world.folder / "repo-g-a")


def test_a_submodule_is_put_beside_the_outermost(world: Git) -> None:
    inner, outer = world.repository("inner"), world.repository("outer")
    world(outer, "submodule", "add", "-q", str(inner), "deps/inner")
    world.commit(outer)
    assert repository_at(str(outer), world.env).submodules == 1
    plan = made(world, outer / "deps" / "inner")
    assert plan.path == str(world.folder / "outer-inner-g-a")
    assert planned(world, plan.path, "second").path == str(world.folder / "outer-inner-second")  # from a linked one


def test_submodules_are_not_checked_out(world: Git) -> None:
    inner, outer = world.repository("inner"), world.repository("outer")
    world(outer, "submodule", "add", "-q", "--name", "deps", str(inner), "line\nend")
    world.commit(outer)
    assert repository_at(str(outer), world.env).submodules == 1
    plan = made(world, outer)
    assert os.listdir(os.path.join(plan.path, "line\nend")) == []
    assert undo(plan, world.env) is None
    assert taken_back(world, outer, plan)


def test_a_git_folder_elsewhere(world: Git) -> None:
    repository = world.repository("repo", "--separate-git-dir", str(world.folder / "elsewhere"))
    plan = made(world, repository)
    assert plan.path == f"{repository}-g-a"
    assert plan.repository == str(world.folder / "elsewhere")
    assert undo(plan, world.env) is None


@pytest.mark.parametrize("name", ["with space", "line\nend", "ends\n", "-dash", "ünï✓", "$(touch x)", ";rm"])
def test_any_path(world: Git, name: str) -> None:
    repository = world.repository(name)
    plan = made(world, repository)
    assert plan.path == f"{repository}-g-a"
    assert undo(plan, world.env) is None
    assert taken_back(world, repository, plan)


def test_bytes_that_are_no_unicode(world: Git) -> None:
    path = os.fsdecode(os.path.join(os.fsencode(world.folder), b"caf\xe9"))
    world(world.folder, "init", "-q", "-b", "main", path)
    world(path, "commit", "-q", "--allow-empty", "-m", "x")
    world(path, "branch", b"na\xefve")
    plan = made(world, path)
    assert undo(plan, world.env) is None
    plan = made(world, path, branch=os.fsdecode(b"na\xefve"))
    assert (plan.new_branch, plan.branch) == (False, os.fsdecode(b"na\xefve"))


@pytest.mark.parametrize("name", ["ünï/✓", "$(touch${IFS}x)", ";rm", "a&b", "quote'", "refs/heads/x", "x" * 200])
def test_odd_branches(world: Git, name: str) -> None:
    repository = world.repository()
    plan = made(world, repository, branch=name)
    assert plan.branch == name
    assert world.branches(repository) == sorted(
        ["main", world(repository, "rev-parse", "--abbrev-ref", f"heads/{name}")]
    )
    assert undo(plan, world.env) is None
    assert taken_back(world, repository, plan)


@pytest.mark.parametrize(
    "name", ["-x", "--force", "a..b", "a b", "a\nb", "@{-1}", "HEAD", "a.lock", "/a", "a~1", "", "a:b"]
)
def test_no_branches(world: Git, name: str) -> None:
    repository = world.repository()
    with pytest.raises(UsageError, match=r"cannot be the name of a branch|cannot be in the name"):
        planned(world, repository, "" if name == "" else "ok", branch=name)


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "-x", "a..b", "x" * 101, "a b", "x.lock", "a\0"])
def test_no_names(world: Git, name: str) -> None:
    repository = world.repository()
    with pytest.raises(UsageError, match="cannot be in the name of a worktree"):
        planned(world, repository, name)


def test_another_hash(world: Git) -> None:
    repository = world.repository("repo", "--object-format=sha256")
    plan = made(world, repository)
    assert len(plan.base) == 64
    assert undo(plan, world.env) is None
    assert taken_back(world, repository, plan)


def test_a_shallow_clone(world: Git) -> None:
    source = world.repository("source")
    world.commit(source)
    world(world.folder, "clone", "-q", "--depth=1", f"file://{source}", "repo")
    plan = made(world, world.folder / "repo")
    assert world(plan.path, "rev-list", "--count", "HEAD") == "1"


@pytest.mark.skipif(
    tuple(int(part) for part in subprocess.check_output(["git", "version"], text=True).split()[2].split(".")[:2])
    < (2, 36),
    reason="earlier versions of git write everything",
)
def test_a_sparse_checkout_makes_sparse_worktrees(world: Git) -> None:
    repository = world.repository()
    (repository / "other").mkdir()
    (repository / "other" / "c").write_text("three\n")
    world.commit(repository)
    world(repository, "sparse-checkout", "set", "--cone", "sub")
    plan = made(world, repository)
    assert sorted(os.listdir(plan.path)) == [".git", "a", "sub"]


# What it begins with


def test_detached_and_dirty(world: Git) -> None:
    """The commit counts, not what was changed since."""
    repository = world.repository()
    world(repository, "checkout", "-q", "--detach")
    (repository / "a").write_text("changed\n")
    assert repository_at(str(repository), world.env).changed
    plan = made(world, repository)
    with open(f"{plan.path}/a") as file:
        assert file.read() == "one\n"
    assert (repository / "a").read_text() == "changed\n"


def test_no_commit_yet(world: Git) -> None:
    world(world.folder, "init", "-q", "repo")
    with pytest.raises(UsageError, match="no commit yet"):
        repository_at(str(world.folder / "repo"), world.env)


def test_no_repository(world: Git) -> None:
    with pytest.raises(UsageError, match=r"not a git repository.*`git init` makes one"):
        repository_at(str(world.folder), world.env)
    with pytest.raises(UsageError, match="no such directory"):
        repository_at(str(world.folder / "none"), world.env)


def test_a_repository_of_somebody_else(world: Git) -> None:
    repository = world.repository()
    with pytest.raises(UsageError, match=r"dubious ownership.*safe\.directory"):
        repository_at(str(repository), {**world.env, "GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"})


def test_the_base(world: Git) -> None:
    source = world.repository("source")
    first = world.head(source)
    world(source, "branch", "far")
    world(world.folder, "clone", "-q", str(source), "repo")
    repository = world.folder / "repo"
    second = world.commit(repository)
    assert planned(world, repository).base == second
    assert planned(world, repository, base_branch="far").base == first  # as it was fetched
    assert planned(world, repository, base_branch=first[:10]).base == first
    for word in ("none", "-x", "--all", "main:a"):
        with pytest.raises(UsageError, match="no such branch or commit"):
            planned(world, repository, base_branch=word)
    made(world, repository, base_branch="far")
    tracked = git.question(str(repository), "config", "--get-regexp", r"^branch\.g-a\.", env=world.env)
    assert tracked is None


def test_in_a_hook(world: Git) -> None:
    one, two = world.repository("one"), world.repository("two")
    world.env["GIT_DIR"] = str(one / ".git")
    world.env["GIT_INDEX_FILE"] = str(one / ".git" / "index")
    plan = planned(world, two)
    make(plan, world.env)
    for name in ("GIT_DIR", "GIT_INDEX_FILE"):
        del world.env[name]
    assert plan.path == f"{two}-g-a"
    assert world(one, "status", "--porcelain") == ""
    assert (world.worktrees(one), world.worktrees(two)) == ([str(one)], [str(two), plan.path])


def test_where_bare_repositories_are_not_trusted(world: Git) -> None:
    repository = world.repository()
    world(repository, "config", "--global", "safe.bareRepository", "explicit")
    plan = made(world, repository)
    assert undo(plan, world.env) is None
    assert taken_back(world, repository, plan)


# What is there already


def test_what_is_in_the_way(world: Git) -> None:
    repository = world.repository()
    taken = world.folder / "repo-g-a"
    for number in range(3):
        (taken.mkdir, taken.touch, partial(taken.symlink_to, "nowhere"))[number]()
        with pytest.raises(Refused, match="there is something already"):
            planned(world, repository)
        (taken.rmdir, taken.unlink, taken.unlink)[number]()
    world(repository, "branch", "g-a")
    with pytest.raises(Refused, match="there is a branch g-a already"):
        planned(world, repository)
    assert not planned(world, repository, branch="g-a").new_branch
    with pytest.raises(UsageError, match="--base-branch would have no effect"):
        planned(world, repository, branch="g-a", base_branch="main")
    with pytest.raises(Refused, match="main is checked out in"):
        planned(world, repository, branch="main")
    with pytest.raises(Refused, match="a branch main, so none can be called main/x"):
        planned(world, repository, branch="main/x/y")
    world(repository, "branch", "deep/er")
    with pytest.raises(Refused, match="a branch deep/er, so none can be called deep"):
        planned(world, repository, branch="deep")
    assert world.worktrees(repository) == [str(repository)]


def test_a_folder_that_cannot_be_written_to(world: Git) -> None:
    repository = world.repository()
    plan = planned(world, repository)._replace(path="/proc/none-g-a")
    with pytest.raises(git.GitFailed, match="/proc/none-g-a: git could not make this worktree"):
        make(plan, world.env)
    assert world.branches(repository) == ["main"]
    if os.geteuid() != 0:  # root writes everywhere
        world.folder.chmod(0o555)
        try:
            with pytest.raises(Refused, match="not writable"):
                planned(world, repository)
        finally:
            world.folder.chmod(0o755)


def test_two_who_planned_the_same(world: Git) -> None:
    """The second takes nothing of the first: its worktree is whole, clean, and as new as its own would be."""
    repository = world.repository()
    first = planned(world, repository)
    second = planned(world, repository)
    make(first, world.env)
    with pytest.raises(Refused, match="another process just created it"):
        make(second, world.env)
    with pytest.raises(git.GitFailed, match="already exists"):
        make(second._replace(path=f"{second.path}-2"), world.env)
    assert world.head(first.path) == first.base
    world(repository, "branch", "again")
    first, second = (planned(world, repository, "n", branch="again") for _ in "ab")
    make(first, world.env)
    with pytest.raises(Refused, match="again is checked out in"):
        make(second._replace(path=f"{second.path}-2"), world.env)
    assert world.head(first.path) == first.base


def test_a_path_that_was_taken_meanwhile(world: Git) -> None:
    repository = world.repository()
    for options in (("--detach",), ("-b", "mine")):
        plan = planned(world, repository, f"n{len(options)}")
        world(repository, "worktree", "add", "-q", *options, plan.path)
        with pytest.raises(Refused, match="another process just created it"):
            make(plan, world.env)
        assert plan.path in world.worktrees(repository)
    plan = planned(world, repository, "file")
    (world.folder / "repo-file").write_text("mine")
    with pytest.raises(Refused, match="another process just created it"):
        make(plan, world.env)
    assert (world.folder / "repo-file").read_text() == "mine"
    assert world.branches(repository) == ["main", "mine"]


def test_many_at_once(world: Git) -> None:
    repository = world.repository()
    plans = [planned(world, repository, f"n{number}") for number in range(8)]
    errors: list[AgentctlError] = []

    def run(plan: Plan) -> None:
        try:
            make(plan, world.env)
        except AgentctlError as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(plan,)) for plan in plans]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert {plan.path for plan in plans} < set(world.worktrees(repository))


# Looking


def test_the_listing(world: Git) -> None:
    repository = world.repository()
    plan = made(world, repository, "line", branch="try/one")
    world(repository, "worktree", "lock", "--reason", "on a\nstick", plan.path)
    world(repository, "worktree", "add", "-q", "--detach", str(world.folder / "de\ntached"))
    gone = made(world, repository, "gone")
    os.rename(gone.path, world.folder / "away")
    found = worktree.listing(str(repository), world.env)
    head = world.head(repository)
    assert [(one.path, one.head, one.branch) for one in found] == [
        (str(repository), head, "main"),
        (str(world.folder / "de\ntached"), head, None),
        (gone.path, head, "gone"),
        (plan.path, head, "try/one"),
    ]
    assert [one.locked for one in found] == [None, None, None, "on a\nstick"]
    assert [bool(one.prunable) for one in found] == [False, False, True, False]


def test_the_listing_of_an_older_git(world: Git) -> None:
    """Before 2.36 there was no -z."""
    repository = world.repository()
    plan = made(world, repository)
    world(repository, "worktree", "lock", plan.path)
    expected = worktree.listing(str(repository), world.env)
    real = shutil.which("git")
    folder = world.folder / "bin"
    folder.mkdir()
    (folder / "git").write_text(
        '#!/bin/sh\nfor word; do case "$word" in -z) echo "error: unknown switch" >&2; exit 129;; esac; done\n'
        f'exec {real} "$@"\n'
    )
    (folder / "git").chmod(0o755)
    env = {**world.env, "PATH": f"{folder}:{world.env['PATH']}"}
    assert worktree.listing(str(repository), env) == expected
    assert [one.locked for one in expected] == [None, ""]


def test_a_listing_that_cannot_be_had_is_not_empty(world: Git) -> None:
    with pytest.raises(git.GitFailed, match="not a git repository"):
        worktree.listing(str(world.folder), world.env)


def test_what_is_no_listing() -> None:
    assert parse_listing("") == []
    assert parse_listing("HEAD x\0\0") == []


def test_the_repositories_around(world: Git) -> None:
    inner, outer = world.repository("inner"), world.repository("outer")
    world(outer, "submodule", "add", "-q", str(inner), "deps")
    world.commit(outer)
    plan = made(world, outer)
    world(plan.path, "submodule", "update", "-q", "--init")
    within = f"{plan.path}/deps/sub"
    own = f"{outer}/.git/worktrees/outer-g-a/modules/deps"
    assert list(repositories_around(within)) == [own, f"{outer}/.git"]
    assert list(repositories_around(plan.path)) == [f"{outer}/.git"]
    assert list(repositories_around(f"{outer}/.git")) == [f"{outer}/.git", f"{outer}/.git"]
    assert list(repositories_around(str(world.folder / "nowhere"))) == []
    (world.folder / ".git").write_bytes(b"\xff\0 nonsense")
    assert list(repositories_around(str(world.folder))) == []


def test_who_makes_keeps_out_who_removes(world: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = world.repository()
    monkeypatch.setattr(worktree, "PATIENCE", 0.1)
    (first,), (second,) = keep_in_place(str(repository)), keep_in_place(str(repository / "sub"))
    remover = worktree.keep_others_out(str(repository / ".git"))
    with first, second, pytest.raises(Refused, match="another agentctl makes or removes"), remover:  # many may make
        pass
    with worktree.keep_others_out(str(repository / ".git")):
        (again,) = keep_in_place(str(repository))
        with pytest.raises(Refused, match="try again"), again:
            pass
