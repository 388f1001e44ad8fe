"""`worktree clean`: nothing that lives there is disturbed, and nothing is lost, by the real command."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from agentctl.workspace import clean, locks
from agentctl.workspace.clean import Objection, objections
from agentctl.workspace.commits import Keepers
from agentctl.workspace.inspect import Tree, mounts_in
from tests.support.children import until
from tests.support.launch_home import LONG
from tests.support.worktree_home import Worktrees, worktrees_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.linux


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Worktrees]:
    with worktrees_in(tmp_path) as home:
        yield home


def refused(home: Worktrees, word: str, *words: str, code: int = 4, **more: Any) -> None:
    """In one line, which says why; and everything is as it was."""
    before, branches = home.linked(), home.git.branches(home.repository)
    done = home.clean(*words, **more)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert word in done.stderr
    assert done.stderr.count("\n") == 1
    assert (home.linked(), home.git.branches(home.repository)) == (before, branches)


# Pure

CLEAN = Tree("/r/.git", "/r-a", branch="try/g/a", head="c" * 40, changes=(), own=0, submodules=())


def whys(tree: Tree, *present: Objection, cwd: str = "/r", delete_branch: bool = False) -> list[tuple[str, bool]]:
    return [(one.why, one.firm) for one in objections(tree, present, cwd, delete_branch=delete_branch)]


def test_nothing_against_it() -> None:
    assert whys(CLEAN) == []
    assert whys(CLEAN, delete_branch=True) == []
    assert whys(CLEAN._replace(own=3)) == []  # its branch stays, and has them
    assert whys(CLEAN._replace(there=False, changes=None)) == []
    assert whys(CLEAN._replace(ignored=("built/",))) == []


@pytest.mark.parametrize(
    ("change", "why", "firm"),
    [
        ({"main": True}, "never removed", True),
        ({"path": "/r"}, "you are in it", True),
        ({"locked": "on a stick"}, "git has it locked: on a stick", True),
        ({"locked": ""}, "git has it locked", True),
        ({"link": True}, "a link", True),
        ({"mounts": ("/r-a/data",)}, "mounted in it (/r-a/data)", True),
        ({"changes": ("x",)}, "1 change (x)", False),
        ({"changes": tuple("abcd")}, "4 changes (a, b, c and 1 more)", False),
        ({"changes": None}, "git cannot say whether it has changes", False),
        ({"operation": "a rebase"}, "in the middle of a rebase", False),
        ({"repositories": ("x/",)}, "repositories of their own", False),
        ({"in_submodules": ("submodule x has a stash",)}, "submodule x has a stash", False),
        ({"branch": None, "own": 1}, "1 commit of its detached HEAD", False),
        ({"branch": None, "own": None}, "git cannot say whether anything else has the commits", False),
        ({"branch": None, "own": 2, "there": False}, "2 commits of its detached HEAD", False),
    ],
)
def test_what_stands_against_it(change: dict[str, Any], why: str, firm: bool) -> None:
    ((said, is_firm),) = whys(CLEAN._replace(**change))
    assert why in said
    assert is_firm == firm


@pytest.mark.parametrize(
    ("change", "why", "firm"),
    [
        ({"own": 2}, "2 commits of try/g/a", False),
        ({"own": None}, "cannot say whether anything else has the commits of try/g/a", False),
        ({"default": True}, "the repository's own branch", True),
        ({"shared": True}, "checked out elsewhere", True),
    ],
)
def test_what_stands_against_deleting_its_branch(change: dict[str, Any], why: str, firm: bool) -> None:
    assert whys(CLEAN._replace(**change)) == []
    ((said, is_firm),) = whys(CLEAN._replace(**change), delete_branch=True)
    assert why in said
    assert is_firm == firm


ANY_TREE = some.builds(
    Tree,
    some.just("/r/.git"),
    some.sampled_from(["/r-a", "/r"]),
    main=some.booleans(),
    branch=some.sampled_from([None, "b"]),
    head=some.sampled_from([None, "c" * 40]),
    locked=some.sampled_from([None, "", "why"]),
    there=some.booleans(),
    link=some.booleans(),
    operation=some.sampled_from([None, "a merge"]),
    changes=some.sampled_from([None, (), ("x",)]),
    ignored=some.sampled_from([(), ("x",)]),
    in_submodules=some.sampled_from([(), ("x",)]),
    repositories=some.sampled_from([(), ("x/",)]),
    own=some.sampled_from([None, 0, 1]),
    shared=some.booleans(),
    default=some.booleans(),
    in_own_folder=some.sampled_from([(), ("x",)]),
    staged=some.sampled_from([None, (), ("x",)]),
    keepers=some.just(Keepers()),
)


@given(ANY_TREE, some.booleans(), some.booleans())
def test_what_is_removed_without_force_loses_nothing(tree: Tree, lives: bool, delete_branch: bool) -> None:
    present = [Objection("lives", "stop it")] if lives else []
    found = objections(tree, present, "/r", delete_branch=delete_branch)
    firm = [one for one in found if one.firm]
    assert found[: len(firm)] == firm
    if not firm:
        assert not (tree.main or lives or tree.link or tree.path == "/r")
        assert tree.locked is None
    if not found:
        assert not tree.there or (tree.changes == () and tree.operation is None)
        assert not tree.there or not (tree.in_submodules or tree.repositories)
        assert tree.there or tree.staged == ()
        assert not tree.in_own_folder and tree.operation is None
        assert tree.head is None or tree.own == 0 or (tree.branch is not None and not delete_branch)


def test_what_is_mounted_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentctl.kernel.mounts.PROC", str(tmp_path))
    assert mounts_in("/r-a") == []
    table = tmp_path / "self" / "mountinfo"
    table.parent.mkdir()
    rows = ("/", "/r-a", "/r-a/sub\\040dir", "/r-a-not", "/r")
    table.write_text("".join(f"1 2 0:1 / {point} rw - tmpfs x rw\n" for point in rows))
    assert mounts_in("/r-a") == ["/r-a", "/r-a/sub dir"]


# By the real command


def test_one_that_is_done_with(home: Worktrees) -> None:
    home.ended("[[text:x]]")
    done = home.clean("g")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "~/repo-g-a: removed; branch try/g/a stays\n"
    assert home.linked() == []
    assert not home.path().exists()
    assert home.git.branches(home.repository) == ["main", "try/g/a"]


def test_by_path_branch_and_group(home: Worktrees) -> None:
    for number, word in enumerate(("../repo-g-s0", "try/g/s1", "h2", "./../repo/../repo-g-s3/.", "link")):
        home.ended("[[text:x]]", f"s{number}", "h2" if word == "h2" else "g")
        if word == "link":
            (home.repository / "link").symlink_to(home.path("s4"))
        done = home.clean(word, "--delete-branch")
        assert done.returncode == 0, done.stderr
        assert home.linked() == []
        assert home.git.branches(home.repository) == ["main"]


def test_from_anywhere(home: Worktrees) -> None:
    home.ended("[[text:x]]", "a")
    home.ended("[[text:x]]", "b")
    elsewhere = home.folder_named("elsewhere")
    assert home.clean(str(home.path("a")), cwd=elsewhere).returncode == 0
    assert home.clean("g", cwd=elsewhere).returncode == 0
    assert home.linked() == []


def test_what_is_no_worktree(home: Worktrees) -> None:
    home.ended("[[text:x]]")
    (home.folder / "plain").mkdir()
    (home.folder / "file").touch()
    for word in ("../plain", "../file", "../repo-g-a/sub", "sub", "/", str(home.folder)):
        refused(home, "git lists no worktree there", word)
    for word in ("nothing", "main/x", "", "-"):
        refused(home, "worktree", word, code=4 if word == "" else 3)
    refused(home, "never removed", "../repo", cwd=home.folder_named("elsewhere"))
    refused(home, "never removed", str(home.repository), cwd=home.folder_named("elsewhere"))
    refused(home, "never removed", "main", "--force")
    refused(home, "you are in it", ".", cwd=home.path())
    refused(home, "you are in it", "g", "--force", cwd=home.path() / "sub")
    assert home.clean().returncode == 2
    assert home.clean("g", "--merged").returncode == 2
    assert home.clean("--merged", "--force").returncode == 2


def test_a_name_that_may_be_several(home: Worktrees) -> None:
    home.ended("[[text:x]]")
    home.git(home.repository, "worktree", "add", "-q", "-b", "g", str(home.folder / "other"))
    refused(home, "may be any of", "g", code=3)


def test_a_name_that_plays_tricks(home: Worktrees) -> None:
    """What is said of it is shown, not sent."""
    path = home.folder / "\x1b[31m\nred"
    home.git(home.repository, "worktree", "add", "-q", "-b", "odd", str(path))
    (path / "\x1b[32m").touch()
    done = home.clean("odd")
    assert (done.returncode, "\x1b" in done.stderr) == (4, False)
    assert "\\x1b[32m" in done.stderr
    assert "\x1b" not in home.agentctl("worktree", "list").stdout
    assert "\x1b" not in home.clean("odd", "--force").stdout
    assert home.linked() == []


# Who lives there


def test_a_live_session_is_never_disturbed(home: Worktrees) -> None:
    id = home.slot(LONG)
    for words in (("g",), ("g", "--force"), ("try/g/a", "--force", "--delete-branch"), ("../repo-g-a", "--dry-run")):
        refused(home, f"agentctl stop {id}", *words)
    assert home.session(id)["status"] == "running"
    assert home.agentctl("stop", id).returncode == 0
    home.wait_until_quiet()
    assert home.clean("g").returncode == 0


def test_a_session_in_a_folder_of_it(home: Worktrees) -> None:
    home.ended("[[text:x]]")
    id = home.launch(LONG, "--cwd", str(home.path() / "sub"))
    refused(home, id, "g", "--force")


def test_a_tool_of_a_session_that_is_elsewhere(home: Worktrees) -> None:
    """The agent works in the main worktree, what it runs in this one: no session has it as its directory."""
    home.ended("[[text:x]]")
    id = home.launch(f"[[bash:cd {home.path()} && touch ../begun && sleep 300]]")
    until((home.folder / "begun").exists)
    refused(home, "of a live session", "g", "--force")
    assert home.session(id)["status"] == "running"


@pytest.mark.parametrize("how", ["open", "program", "map"])
def test_somebodys_process_that_stands_elsewhere(home: Worktrees, how: str) -> None:
    """What it writes from then on would be lost."""
    home.ended("[[text:x]]")
    tool = home.path() / "sub" / "tool"
    if how == "program":
        shutil.copy("/bin/sleep", tool)
        home.git(home.path(), "add", "sub/tool")
        home.git(home.path(), "commit", "-qm", "tool")
    held = "sub/tool" if how == "program" else "sub/b"
    code = f"import mmap, sys, time; file = open({str(home.path() / 'sub' / 'b')!r}, 'r+b'); "
    code += "all = mmap.mmap(file.fileno(), 0); file.close(); " if how == "map" else ""
    argv = (
        [str(tool), "300"]
        if how == "program"
        else [sys.executable, "-c", f"{code}print(1, flush=True); time.sleep(300)"]
    )
    child = subprocess.Popen(argv, cwd="/", stdout=subprocess.PIPE)
    try:
        assert how == "program" or (child.stdout is not None and child.stdout.readline() == b"1\n")
        refused(home, f"pid {child.pid} (", "g")
        assert f"uses {held} in it; end it first, or --force" in home.clean("g").stderr
        assert home.clean("g", "--force").returncode == 0
    finally:
        child.kill()
        child.wait()


def test_somebodys_process(home: Worktrees) -> None:
    home.ended("[[text:x]]")
    child = subprocess.Popen(["sleep", "300"], cwd=home.path() / "sub")
    try:
        refused(home, f"pid {child.pid} (sleep) is in it; end it first, or --force", "g")
        assert home.clean("g", "--force").returncode == 0
        assert child.poll() is None
    finally:
        child.kill()
        child.wait()


def test_manual_locks(home: Worktrees) -> None:
    home.ended("[[text:x]]")
    for folder in (home.path(), home.path() / "sub"):
        lock = locks.acquire(home.env, str(folder), by="me", reason="mine")
        refused(home, f"locked by me: mine; agentctl unlock {folder}", "g", "--force")
        locks.release(home.env, str(folder), by="me")
    torn = locks.lock_path(home.env, str(home.path()))
    with open(torn, "w") as file:
        file.write("{")
    refused(home, "agentctl unlock --force", "g", "--force")
    os.unlink(torn)
    assert lock.by == "me"
    above = locks.acquire(home.env, str(home.folder), by="me")
    assert above.directory == str(home.folder)
    refused(home, f"locked by me in {home.folder}, above it; agentctl unlock {home.folder}", "g", "--force")
    locks.release(home.env, str(home.folder), by="me")
    assert home.clean("g").returncode == 0


def test_a_lock_of_git(home: Worktrees) -> None:
    home.ended("[[text:x]]")
    home.git(home.repository, "worktree", "lock", "--reason", "on a stick", str(home.path()))
    refused(home, f"git has it locked: on a stick; git worktree unlock {home.path()}", "g", "--force")


def test_a_store_that_cannot_be_read(home: Worktrees) -> None:
    """Who lives there cannot be told then."""
    home.ended("[[text:x]]")
    root = home.folder / ".claude"
    root.write_text("not a folder")
    refused(home, "who is there cannot be told", "g")
    assert home.clean("g", "--force").returncode == 0


# What would be lost


def changed(home: Worktrees) -> None:
    (home.path() / "a").write_text("work\n")


def untracked(home: Worktrees) -> None:
    (home.path() / "new").write_text("work\n")


def merging(home: Worktrees) -> None:
    home.git(home.path(), "checkout", "-q", "-b", "other")
    home.git(home.path(), "commit", "-q", "--allow-empty", "-m", "x")
    home.git(home.path(), "checkout", "-q", "try/g/a")
    home.git(home.path(), "commit", "-q", "--allow-empty", "-m", "y")
    home.git(home.path(), "merge", "-q", "--no-commit", "other")


def detached(home: Worktrees) -> None:
    home.git(home.path(), "checkout", "-q", "--detach")
    home.git(home.path(), "commit", "-q", "--allow-empty", "-m", "work")


def embedded(home: Worktrees) -> None:
    home.git(home.path(), "init", "-q", "built")
    (home.repository / ".git" / "info" / "exclude").write_text("built\n")


@pytest.mark.parametrize(
    ("work", "why"),
    [
        (changed, "1 change (a)"),
        (untracked, "1 change (new)"),
        (merging, "in the middle of a merge"),
        (detached, "1 commit of its detached HEAD"),
        (embedded, "repositories of their own are in it (built)"),
    ],
)
def test_work_is_never_lost(home: Worktrees, work: Callable[[Worktrees], None], why: str) -> None:
    home.ended("[[text:x]]")
    work(home)
    refused(home, why, "../repo-g-a")
    refused(home, why, "../repo-g-a", "--dry-run")
    assert home.clean("../repo-g-a", "--force").returncode == 0
    assert home.linked() == []


def test_a_branch_goes_only_if_another_has_it(home: Worktrees) -> None:
    home.ended("[[bash:git commit -q --allow-empty -m work]]")
    refused(home, "1 commit of try/g/a", "g", "--delete-branch")
    home.git(home.repository, "tag", "kept", "try/g/a")
    head = home.git.head(home.path())
    done = home.clean("g", "--delete-branch")
    assert f"branch try/g/a deleted (was {head[:12]})" in done.stdout
    assert home.git.branches(home.repository) == ["main"]


def test_of_two_with_the_same_commits_one_keeps_them(home: Worktrees) -> None:
    """Each is merged into the other: the second is refused once the first is gone."""
    home.ended("[[bash:git commit -q --allow-empty -m work]]", "a")
    home.ended("[[bash:git merge -q try/g/a]]", "b")
    done = home.clean("g", "--delete-branch")
    assert done.returncode == 4
    assert "nowhere else" in done.stderr
    assert home.linked() == ["repo-g-b"]
    assert home.git.branches(home.repository) == ["main", "try/g/b"]


def test_a_branch_that_moves_meanwhile_stays(home: Worktrees, monkeypatch: pytest.MonkeyPatch) -> None:
    home.ended("[[text:x]]")
    real = clean.remove

    def remove(*given: Any) -> None:
        real(*given)
        tree = home.git(home.repository, "commit-tree", "-m", "work", "-p", "try/g/a", "main^{tree}")
        home.git(home.repository, "update-ref", "refs/heads/try/g/a", tree)

    monkeypatch.setattr(clean, "remove", remove)
    common, path = str(home.repository / ".git"), str(home.path())
    found = clean.clean(common, path, clean.Options(delete_branch=True), "/", home.env)
    assert (found.outcome, found.branch_deleted, found.exit_code) == ("removed", False, 4)
    assert "stays" in (found.why or "")
    assert "try/g/a" in home.git.branches(home.repository)


def test_ignored_files_are_named(home: Worktrees) -> None:
    (home.repository / ".git" / "info" / "exclude").write_text("built\n*.o\n")
    home.ended("[[bash:mkdir built; touch built/1 built/2 x.o]]")
    done = home.clean("g", "--json")
    (one,) = json.loads(done.stdout)["worktrees"]
    assert (one["outcome"], one["ignored"]) == ("removed", 2)
    assert "2 ignored entries with it (built/, x.o)" in one["said"]


def test_one_whose_folder_is_gone(home: Worktrees) -> None:
    """Its entry alone goes; that of another whose folder is gone, too, stays."""
    home.ended("[[text:x]]", "a")
    home.ended("[[text:x]]", "b")
    for slot in "ab":
        os.rename(home.path(slot), home.folder / f"away-{slot}")
    assert home.trees()["repo-g-a"]["there"] is False
    done = home.clean("../repo-g-a")
    assert done.stdout == "~/repo-g-a: pruned; branch try/g/a stays\n", done.stderr
    assert home.linked() == ["repo-g-b"]
    assert (home.folder / "away-a" / "a").exists()


def test_something_else_is_at_its_path_now(home: Worktrees) -> None:
    home.ended("[[text:x]]")
    os.rename(home.path(), home.folder / "away")
    home.path().mkdir()
    (home.path() / "precious").touch()
    for words in (("try/g/a",), ("try/g/a", "--force")):
        assert home.clean(*words).returncode == 4
    (home.path() / "precious").unlink()
    home.path().rmdir()
    home.path().symlink_to(home.folder / "away")
    assert home.clean("try/g/a", "--force").returncode == 4
    assert (home.folder / "away" / "a").exists()


def test_submodules_are_looked_into(home: Worktrees) -> None:
    inner = home.git.repository("inner")
    home.git(home.repository, "submodule", "add", "-q", str(inner), "deps")
    home.git.commit(home.repository)
    for slot in "ab":
        home.ended("[[text:x]]", slot)
        home.git(home.path(slot), "submodule", "update", "-q", "--init")
    assert home.clean("../repo-g-a").returncode == 0
    home.git(home.path("b") / "deps", "checkout", "-q", "-b", "aside")
    home.git(home.path("b") / "deps", "commit", "-q", "--allow-empty", "-m", "work")
    home.git(home.path("b") / "deps", "checkout", "-q", "--detach", "origin/main")
    refused(home, "submodule deps has 1 commit that no remote has", "../repo-g-b")


# All that are done with


def test_all_that_are_merged(home: Worktrees) -> None:
    for slot, prompt in (
        ("clean", "[[text:x]]"),
        ("merged", "[[bash:git commit -q --allow-empty -m work]]"),
        ("own", "[[bash:git commit -q --allow-empty -m work2]]"),
        ("dirty", "[[bash:touch new]]"),
    ):
        home.ended(prompt, slot)
    home.slot(LONG, "live")
    home.git(home.repository, "merge", "-q", "--no-ff", "-m", "m", "try/g/merged")
    home.git(home.repository, "worktree", "add", "-q", "-b", "mine", str(home.folder / "mine"))
    before = home.linked()
    dry = home.clean("--merged", "--delete-branch", "--dry-run")
    assert (dry.returncode, home.linked()) == (0, before)
    done = home.clean("--merged", "--delete-branch")
    assert done.returncode == 0, done.stderr
    assert dry.stdout == done.stdout.replace("removed", "would be removed").replace("deleted", "would be deleted")
    assert sorted(home.linked()) == ["mine", "repo-g-dirty", "repo-g-live", "repo-g-own"]
    assert home.git.branches(home.repository) == ["main", "mine", "try/g/dirty", "try/g/live", "try/g/own"]
    assert "repo-g-dirty: 1 change (new)" in done.stderr
    assert "agentctl stop" in done.stderr
    assert "repo-g-own" not in done.stderr
