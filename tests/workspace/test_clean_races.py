"""A launch and a clean at the same moment, each held at its most dangerous step while the other comes along."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from agentctl.errors import Refused
from agentctl.launch import spawn, start
from agentctl.workspace import clean as cleaning
from agentctl.workspace import worktree
from tests.support.children import until
from tests.support.launch_home import LONG, TIMEOUT
from tests.support.worktree_home import LAUNCH, Worktrees

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.linux, pytest.mark.stress]

# Runs the command, and waits before this step of it until it is told to go on.
HALTED = """
import importlib, os, sys, time
module, step, folder, *words = sys.argv[1:]
owner = importlib.import_module(module)
real = getattr(owner, step)

def halted(*given, **named):
    open(f"{folder}/halted", "w").close()
    deadline = time.monotonic() + 30
    while not os.path.exists(f"{folder}/go") and time.monotonic() < deadline:
        time.sleep(0.01)
    return real(*given, **named)

setattr(owner, step, halted)
"""
COMMAND_OF = "from agentctl.cli import run\nsys.exit(run(words))\n"
SOON = 3.0  # for one who is not kept out to come to an end


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Worktrees]:
    home = Worktrees(tmp_path)
    try:
        yield home
        assert home.git.locks() == []
    finally:
        (tmp_path / "go").touch()
        home.end_all()


def halted(home: Worktrees, step: Callable[..., Any], then: str, *words: str) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", HALTED + then, step.__module__, step.__name__, str(home.folder), *words],
        cwd=home.repository, env=home.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    until(lambda: (home.folder / "halted").exists() or child.poll() is not None)
    assert child.poll() is None, child.communicate()
    return child


def let_go(home: Worktrees, first: subprocess.Popen[str], second: subprocess.Popen[str]) -> list[tuple[int, str, str]]:
    """The second had its time to do harm. How both ended."""
    try:
        second.wait(SOON)
    except subprocess.TimeoutExpired:
        pass  # it is kept out
    (home.folder / "go").touch()
    found = []
    for child in (first, second):
        out, err = child.communicate(timeout=TIMEOUT)
        found.append((child.returncode, out, err))
    return found


@pytest.mark.parametrize("where", [".", "sub"])
def test_a_launch_into_it_that_nobody_can_see_yet(home: Worktrees, where: str) -> None:
    home.ended("[[text:x]]")
    words = ("launch", "demo", "-p", LONG, "--cwd", str(home.path() / where))
    launch = halted(home, spawn.start, COMMAND_OF, *words)
    clean = home.start("worktree", "clean", "g", "--force")
    (launched, id, _), (cleaned, _, said) = let_go(home, launch, clean)
    assert (launched, cleaned) == (0, 4), said
    assert id.strip() in said or "pid" in said
    assert (home.path() / "a").exists()
    assert home.session(id.strip())["status"] == "running"


def test_a_new_worktree_whose_agent_is_not_there_yet(home: Worktrees) -> None:
    """Clean, at its base, and nobody in it: whoever names it would remove it."""
    then = f"sys.argv[1:] = words\nexec({LAUNCH!r})\n"
    launch = halted(home, start.start, then, str(home.repository), "g", "a", LONG)
    assert home.path().is_dir()
    clean = home.start("worktree", "clean", str(home.path()), "--delete-branch")
    (launched, id, err), (cleaned, out, said) = let_go(home, launch, clean)
    assert (launched, cleaned, out) == (0, 4, ""), err
    assert "agentctl stop" in said
    assert home.session(id.strip())["status"] == "running"


@pytest.mark.parametrize("where", [".", "sub"])
def test_a_launch_that_comes_after_the_last_look(home: Worktrees, where: str) -> None:
    home.ended("[[text:x]]")
    clean = halted(home, cleaning.remove, COMMAND_OF, "worktree", "clean", "g")
    launch = home.start("launch", "demo", "-p", LONG, "--cwd", str(home.path() / where))
    (cleaned, _, said), (launched, out, _) = let_go(home, clean, launch)
    assert cleaned == 0, said
    assert launched != 0
    assert out == ""
    assert not home.path().exists()
    assert len(home.launches()) == 1  # the first one
    assert home.listed()["unattached"] == []


def test_work_that_comes_after_the_last_look(home: Worktrees) -> None:
    """Somebody writes a file by hand: git looks itself."""
    home.ended("[[text:x]]")
    clean = halted(home, cleaning.remove, COMMAND_OF, "worktree", "clean", "g", "--delete-branch")
    (home.path() / "new").write_text("work\n")
    (home.folder / "go").touch()
    _, said = clean.communicate(timeout=TIMEOUT)
    assert clean.returncode == 4
    assert "git could not remove it" in said
    assert (home.path() / "new").read_text() == "work\n"
    assert "try/g/a" in home.git.branches(home.repository)


def test_two_who_remove(home: Worktrees) -> None:
    """Each of the two has what the other has: one of them stays, whoever removes them."""
    home.ended("[[bash:git commit -q --allow-empty -m work]]", "a")
    home.ended("[[bash:git merge -q try/g/a]]", "b")
    first = halted(home, cleaning.remove, COMMAND_OF, "worktree", "clean", "try/g/a", "--delete-branch")
    second = home.start("worktree", "clean", "try/g/b", "--delete-branch")
    codes = [code for code, _, _ in let_go(home, first, second)]
    assert codes == [0, 4]
    assert home.git.branches(home.repository) == ["main", "try/g/b"]


def test_it_gives_up_in_the_end(home: Worktrees, monkeypatch: pytest.MonkeyPatch) -> None:
    home.ended("[[text:x]]")
    monkeypatch.setattr(worktree, "PATIENCE", 0.1)
    (hold,) = worktree.keep_in_place(str(home.path() / "sub"))
    options = cleaning.Options(force=True)
    with hold, pytest.raises(Refused, match="another agentctl makes or removes"):
        cleaning.clean(str(home.repository / ".git"), str(home.path()), options, "/", home.env)
    assert home.path().is_dir()
