"""`worktree clean` and the undo of a launch, while somebody is there whom one does not see at once."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from agentctl.errors import AgentctlError
from agentctl.launch import start
from agentctl.launches import hooks
from agentctl.workspace import worktree as worktrees
from tests.support.children import until
from tests.support.launch_home import COMMAND, LONG
from tests.support.worktree_home import Worktrees, worktrees_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.linux


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Worktrees]:
    with worktrees_in(tmp_path) as home:
        yield home


def test_a_worktree_that_is_away_under_a_live_agent(home: Worktrees) -> None:
    id = home.slot(LONG, "a")
    away = home.path("a").with_name("away")
    home.path("a").rename(away)
    try:
        done = home.clean("g")
        assert done.returncode == 4 and id in done.stderr, done.stderr
        assert home.linked() == ["repo-g-a"]
    finally:
        away.rename(home.path("a"))


def made(home: Worktrees) -> worktrees.Plan:
    found = worktrees.repository_at(str(home.repository), home.env)
    plan = worktrees.plan(found, str(home.repository), "x", home.env)
    worktrees.make(plan, home.env)
    return plan


def give_back(home: Worktrees, plan: worktrees.Plan) -> list[str]:
    said: list[str] = []
    start.give_back(cast("Any", SimpleNamespace(worktree=plan)), AgentctlError("it failed"), home.env, said.append)
    return said


def test_undo_leaves_a_worktree_with_a_process_in_it(home: Worktrees) -> None:
    plan = made(home)
    with subprocess.Popen(["sleep", "60"], cwd=plan.path, env={}) as process:
        try:
            (said,) = give_back(home, plan)
            assert f"pid {process.pid} (sleep) is in it" in said and os.path.isdir(plan.path)
        finally:
            process.kill()
    assert give_back(home, plan) == [] and not os.path.exists(plan.path)


def test_undo_leaves_a_worktree_with_a_repository_in_it(home: Worktrees) -> None:
    (home.repository / "src").mkdir()
    (home.repository / "src" / "code").write_text("code\n")
    home.git(home.repository, "add", "src")
    home.git(home.repository, "commit", "-qm", "src")
    plan = made(home)
    home.git(os.path.join(plan.path, "src"), "init", "-q")
    (said,) = give_back(home, plan)
    assert "repositories of their own are in it (src)" in said and os.path.isdir(plan.path)


def test_not_before_the_hook_has_run(home: Worktrees) -> None:
    done = home.agentctl(
        "launch", "demo", "--worktree", "--group", "n", "--on-complete", "echo saved > saved", "-p", "[[sleep:1]]"
    )
    assert done.returncode == 0, done.stderr
    (launch,) = home.launches()
    os.kill(launch.runner.pid, signal.SIGSTOP)
    try:
        deadline = time.monotonic() + 30
        while "has not run its on-complete yet" not in (found := home.clean("n", "--dry-run")).stderr:
            assert found.returncode == 4 and time.monotonic() < deadline, found
            time.sleep(0.2)
        assert found.returncode == 4 and os.path.isdir(launch.worktree or "")
    finally:
        os.kill(launch.runner.pid, signal.SIGCONT)
    home.wait_until_quiet()
    assert os.path.isfile(os.path.join(launch.worktree or "", "saved"))


def test_a_fifo_in_the_place_of_rules(home: Worktrees) -> None:
    home.ended("[[bash:mkdir src; mkfifo src/.gitignore]]", "a")
    began = time.monotonic()
    assert home.agentctl("worktree", "list").returncode == 0
    assert home.agentctl("compare", "g").returncode in (0, 5)
    done = home.clean("g")
    assert done.returncode == 4 and "src/.gitignore is no file" in done.stderr, done.stderr
    refused = home.agentctl("accept", "g", "a", "-m", "all")
    assert refused.returncode == 4, refused.stderr
    assert time.monotonic() - began < 25


@pytest.mark.parametrize("verb", ["accept n demo --clean", "worktree clean n"])
def test_the_hook_that_asks_is_not_in_its_own_way(home: Worktrees, verb: str) -> None:
    hook = f"cd {home.repository} && {shlex.join(COMMAND)} {verb} && echo cleaned > said"
    work = "[[bash:echo x > new; git add new; git commit -qm new]]"
    words = ("--worktree", "--group", "n", "--on-complete", hook, "-p", work, "--", "--yes")
    done = home.agentctl("launch", "demo", *words)
    assert done.returncode == 0, done.stderr
    home.wait_until_quiet()
    (launch,) = home.launches()
    assert (home.repository / "said").exists(), hooks.results(os.path.dirname(launch.path or ""))
    assert not os.path.lexists(launch.worktree or "") and home.linked() == []


def test_another_command_waits_for_a_hook_that_runs(home: Worktrees) -> None:
    """It has begun, and this command is not of it."""
    hook = f"cd {home.repository}; while [ ! -e go ]; do sleep 0.05; done"
    done = home.agentctl("launch", "demo", "--worktree", "--group", "n", "--on-complete", hook, "-p", "hi")
    assert done.returncode == 0, done.stderr
    (launch,) = home.launches()
    mark = os.path.join(os.path.dirname(launch.path or ""), hooks.COMPLETED)
    until(lambda: os.path.exists(mark))
    found = home.clean("n")
    (home.repository / "go").touch()
    assert found.returncode == 4 and "has not run its on-complete yet" in found.stderr, found
    home.wait_until_quiet()
    assert home.clean("n").returncode == 0
