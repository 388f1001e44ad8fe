"""`worktree list`: what git says of each worktree, and who works or worked there."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

import pytest

from agentctl.cli import compare, completion, worktree
from agentctl.cli.worktree import commits_cell
from agentctl.workspace.inspect import Tree
from tests.support.launch_home import LONG
from tests.support.worktree_home import Worktrees, worktrees_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.linux


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Worktrees]:
    with worktrees_in(tmp_path) as home:
        yield home


def test_everything_that_is_known(home: Worktrees) -> None:
    ended = home.ended("[[bash:git commit -q --allow-empty -m one; echo > new; echo >> a]]", "a")
    live = home.slot(LONG, "b")
    home.git(home.repository, "worktree", "lock", "--reason", "why", str(home.path("b")))
    home.git(home.repository, "worktree", "add", "-q", "--detach", str(home.folder / "mine"))
    found = home.trees()
    base = home.git.head(home.repository)
    assert next(iter(found)) == "repo"
    assert found["repo"]["main"] is True
    assert [one["main"] for one in found.values()].count(True) == 1
    a, b, mine = found["repo-g-a"], found["repo-g-b"], found["mine"]
    assert (a["branch"], a["base"], a["head"]) == ("try/g/a", base, home.git.head(home.path("a")))
    assert (a["commits"], a["own_commits"], a["merged"], a["changes"]) == (1, 1, False, 2)
    assert (a["group"], a["slot"], a["launch_id"]) == ("g", "a", home.launch_in("a").id)
    assert [(one["id"], one["status"], one["process"]) for one in a["sessions"]] == [(ended, "done", "gone")]
    assert [(one["id"], one["status"]) for one in b["sessions"]] == [(live, "running")]
    assert (b["commits"], b["merged"], b["changes"], b["locked"]) == (0, True, 0, "why")
    assert (mine["branch"], mine["base"], mine["commits"], mine["sessions"]) == (None, None, None, [])
    assert a["made_at"].endswith("Z")
    home.git(home.repository, "merge", "-q", "try/g/a")
    assert home.trees()["repo-g-a"]["merged"] is True


def test_who_lives_comes_first(home: Worktrees) -> None:
    first = home.ended("[[text:x]]")
    second = home.launch(LONG, "--cwd", str(home.path() / "sub"))
    assert [one["id"] for one in home.trees()["repo-g-a"]["sessions"]] == [second, first]
    table = home.agentctl("worktree", "list", cwd=home.path()).stdout.splitlines()
    assert table[0].split() == ["WORKTREE", "BRANCH", "COMMITS", "CHANGES", "AGE", "SESSION", "NOTE"]
    assert f"running demo {second[:8]} +1" in table[2]
    assert table[2].endswith("g/a")


def test_where(home: Worktrees) -> None:
    home.ended("[[text:x]]")
    elsewhere = home.folder_named("elsewhere")
    for words in ((str(home.repository / "sub"),), ("--cwd", str(home.path())), ("../repo",)):
        done = home.agentctl("worktree", "list", "--json", *words, cwd=elsewhere)
        assert done.returncode == 0, done.stderr
        assert "repo-g-a" in done.stdout
    done = home.agentctl("worktree", "list", cwd=elsewhere)
    assert (done.returncode, done.stdout) == (2, "")
    assert "not a git repository" in done.stderr
    assert home.agentctl("worktree", "list", "..", "--cwd", "..").returncode == 2
    assert home.agentctl("worktree").returncode == 2


def test_a_repository_without_a_commit_and_a_bare_one(home: Worktrees) -> None:
    home.git(home.folder, "init", "-q", "empty")
    (one,) = home.trees(str(home.folder / "empty")).values()
    assert (one["main"], one["head"], one["commits"], one["merged"]) == (True, None, None, None)
    home.git(home.folder, "clone", "-q", "--bare", str(home.repository), "bare.git")
    (one,) = home.trees(str(home.folder / "bare.git")).values()
    assert (one["main"], one["changes"]) == (True, None)
    assert "(bare)" in home.agentctl("worktree", "list", str(home.folder / "bare.git")).stdout


def test_looking_changes_nothing(home: Worktrees) -> None:
    home.ended("[[bash:echo >> a]]")
    before = {path: os.stat(path).st_mtime_ns for path in files(home.repository)}
    home.trees()
    home.agentctl("worktree", "list")
    assert {path: os.stat(path).st_mtime_ns for path in files(home.repository)} == before


def files(top: Path) -> list[str]:
    return [os.path.join(folder, name) for folder, _, names in os.walk(top) for name in names]


@pytest.mark.parametrize(
    ("own", "commits", "text"),
    [
        (None, None, "-"),
        (0, None, "merged"),
        (0, 0, "0"),
        (0, 3, "3 merged"),
        (3, 3, "3 own"),
        (2, None, "2 own"),
        (1, 3, "3, 1 own"),
    ],
)
def test_the_cell_for_commits(own: int | None, commits: int | None, text: str) -> None:
    assert commits_cell(Tree("/r/.git", "/r-a", own=own), commits) == text


def completers(parser: argparse.ArgumentParser) -> Iterator[tuple[str, object]]:
    for action in parser._actions:
        if hasattr(action, "completer"):
            yield action.dest, action.completer
        for inner in action.choices.values() if isinstance(action.choices, dict) else ():
            yield from completers(inner)


def test_completion(home: Worktrees, monkeypatch: pytest.MonkeyPatch) -> None:
    home.ended("[[text:x]]")
    for name, value in home.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(home.repository)
    parser = argparse.ArgumentParser()
    verbs = parser.add_subparsers()
    for verb in (compare, worktree):
        verb.add_arguments(verbs.add_parser(verb.__name__))
    completion.add_completers(parser)
    found = dict(completers(parser))
    assert found == {
        "group": completion.groups,
        "diff": completion.slots,
        "stat": completion.slots,
        "target": completion.worktree_targets,
    }
    assert completion.groups() == ["g"]
    assert completion.slots(argparse.Namespace(group="g")) == ["a"]
    assert completion.slots(argparse.Namespace(group="other")) == []
    assert completion.worktree_targets() == ["g", "try/g/a"]
    monkeypatch.chdir(home.folder)
    assert completion.worktree_targets() == ["g"]
