"""The verbs that take a group agree on who is in it: its repository, its slots, and what was resumed."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.launch_home import LONG
from tests.support.worktree_home import Worktrees, worktrees_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.linux

WORK = "[[bash:echo $PWD > new; git add new; git commit -qm work]]"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Worktrees]:
    with worktrees_in(tmp_path) as home:
        yield home


def launch(home: Worktrees, where: Path, prompt: str, *words: str) -> None:
    slots = ("--agent", "demo", "--agent", "demo")
    done = home.agentctl("launch", *slots, "--group", "g", "-p", prompt, *words, "--", "--yes", cwd=where)
    assert done.returncode == 0, done.stderr


def slots_in(home: Worktrees, where: Path) -> list[dict[str, Any]]:
    done = home.agentctl("compare", "g", "--json", cwd=where)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["slots"]
    return found


@pytest.fixture
def other(home: Worktrees) -> Path:
    """Another repository, with a group of the same name."""
    other = home.git.repository("other")
    for where in (home.repository, other):
        launch(home, where, WORK, "--wait")
    home.wait_until_quiet()
    return other


def test_a_name_in_two_repositories_is_two_groups(home: Worktrees, other: Path) -> None:
    assert [one["worktree"] for one in slots_in(home, home.repository)] == [
        str(home.folder / f"repo-g-{slot}") for slot in ("demo", "demo-2")
    ]
    assert home.agentctl("accept", "g", "demo", "--clean", cwd=other).returncode == 0
    assert (other / "new").exists() and not (home.repository / "new").exists()
    assert len(home.linked()) == 2, "worktrees of another repository"
    assert home.agentctl("accept", "g", "demo").returncode == 0
    assert (home.repository / "new").exists()
    done = home.agentctl("worktree", "clean", "g", "--delete-branch", "--force", cwd=other)
    assert done.returncode == 0 and "try/g/demo" in done.stdout, done.stderr
    assert home.git.branches(other) == ["main"]
    assert len(home.linked()) == 2 and "try/g/demo-2" in home.git.branches(home.repository)


VERBS = (
    ("compare", "g"),
    ("compare", "g", "--diff", "demo"),
    ("wait", "--group", "g"),
    ("stop", "--group", "g"),
    ("list", "--group", "g"),
    ("worktree", "clean", "g"),
    ("worktree", "clean", "g", "--delete-branch"),
)


def test_outside_of_both_every_verb_names_the_choices(home: Worktrees, other: Path) -> None:
    for verb in VERBS:
        done = home.agentctl(*verb, cwd=home.folder)
        assert done.returncode == 3, (verb, done.stdout, done.stderr)
        assert f"in 2 places; run this in one of them:\n  {other}\n  {home.repository}\n" in done.stderr, verb
    for verb in VERBS[:5]:  # the remedy that the message names
        assert home.agentctl(*verb, cwd=other / "sub").returncode == 0, verb
    assert len(home.linked()) == 2


def test_stop_ends_only_the_agents_of_this_repository(home: Worktrees) -> None:
    other = home.git.repository("other")
    for where in (home.repository, other):
        launch(home, where, LONG)
    assert len(home.listed("--group", "g")["sessions"]) == 2
    assert home.agentctl("stop", "--group", "g", cwd=other).returncode == 0
    assert home.listed()["sessions"] == home.listed("--group", "g")["sessions"]
    assert len(home.listed()["sessions"]) == 2


def test_wait_takes_the_newest_launch_of_each_slot(home: Worktrees) -> None:
    launch(home, home.repository, "[[sleep:2]] [[fail:overloaded]]")
    assert home.agentctl("wait", "--group", "g", "--until", "ended").returncode == 6
    assert home.clean("g", "--delete-branch").returncode == 0
    launch(home, home.repository, "hi")
    done = home.agentctl("wait", "--group", "g", "--until", "ended", "--json")
    assert done.returncode == 0, done.stdout
    last = json.loads(done.stdout.splitlines()[-1])
    assert len(last["sessions"]) == 2
    assert {one["status"] for one in slots_in(home, home.repository)} == {"done"}


HOOK = 'echo "${AGENTCTL_WORKTREE-unset} ${AGENTCTL_BRANCH-unset}" > told'


def test_a_resumed_slot_keeps_its_place(home: Worktrees) -> None:
    id = home.ended(WORK, "a")
    (before,) = slots_in(home, home.repository)
    for _ in range(2):  # also if what is resumed was resumed
        done = home.agentctl("resume", id, "hi", "--wait", "--on-complete", HOOK)
        assert done.returncode == 0, done.stderr
        home.wait_until_quiet()
        assert (home.path("a") / "told").read_text() == f"{home.path('a')} try/g/a\n"
        (home.path("a") / "told").unlink()
    (after,) = slots_in(home, home.repository)
    kept = ("worktree", "worktree_there", "branch", "base", "head", "commits", "files", "added", "said")
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    assert home.trees()["repo-g-a"]["slot"] == "a"


def test_a_worktree_that_a_person_made_at_its_path_is_not_the_slots(home: Worktrees) -> None:
    id = home.ended("hi", "a")
    assert home.clean("g").returncode == 0
    home.git(home.repository, "worktree", "add", "-q", "-b", "mine", str(home.path("a")))
    later = home.launch_in("a").created_at + 60  # than the clocks may differ
    os.utime(home.repository / ".git" / "worktrees" / "repo-g-a" / "commondir", (later, later))
    done = home.agentctl("resume", id, "hi", "--wait", "--on-complete", HOOK)
    assert done.returncode == 0, done.stderr
    home.wait_until_quiet()
    assert (home.path("a") / "told").read_text() == "unset unset\n"
