"""Many slots under bad conditions: thirty of them, Ctrl-C in the middle, and kill -9 at every step.

What must hold after a kill: what was begun is found, with its group; what stands in the way of a second try is shown by
git, by name; no lock is left.
"""

from __future__ import annotations

import json
import os
import select
import signal
from typing import TYPE_CHECKING

import pytest

from agentctl.workspace import worktree
from tests.support.children import until
from tests.support.git_home import GitHome, git_home_in
from tests.support.killed_commands import kill_at
from tests.support.launch_home import LONG, TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.linux, pytest.mark.stress]
MANY = 30
TWO = ("launch", "--agent", "demo", "--agent", "demo", "-p", LONG, "--group", "g")
STEPS = (
    "agentctl.workspace.worktree.repository_at",
    "agentctl.workspace.worktree.plan",
    "agentctl.launch.start.prepare",
    "agentctl.workspace.worktree.make",
    "agentctl.workspace.worktree.keep_in_place",
    "agentctl.workspace.git.run:branch",
    "agentctl.workspace.git.run:add",
    "agentctl.launch.start.start",
    "agentctl.launches.records.reserve",
    "os.posix_spawn",
    "agentctl.launch.spawn.outcome",
    "agentctl.launch.group.await_sessions",
    "agentctl.launch.await_session.id_in",
)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[GitHome]:
    with git_home_in(tmp_path) as home:
        yield home


def test_thirty_slots(home: GitHome) -> None:
    path = home.work / "m.yaml"
    models = ", ".join(f"m{number}" for number in range(MANY))
    path.write_text(f"matrix:\n- agent: demo\n  model: [{models}]\n  prompt: '[[bash:pwd > where]]'\n")
    found = home.slots("--matrix", "m.yaml", "--group", "g", preexec_fn=lambda: limit_descriptors(200))
    assert list(found) == [f"demo-m{number}" for number in range(MANY)]
    assert len({one["session"]["id"] for one in found.values()}) == MANY
    home.wait_until_quiet()
    for slot, one in found.items():
        assert one["model"] == slot.removeprefix("demo-")
        there = home.folder / f"work-g-{slot}"
        assert one["worktree"] == str(there)
        assert (there / "where").read_text() == f"{there}\n"
    rows = home.listed("-a", "--group", "g")["sessions"]
    assert {row["slot"]: row["status"] for row in rows} == dict.fromkeys(found, "done")
    assert {row["slot"]: row["model"] for row in rows} == {slot: one["model"] for slot, one in found.items()}
    assert len(home.worktrees()) == MANY


def limit_descriptors(count: int) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))


# Ctrl-C


def test_ctrl_c_before_all_have_begun(home: GitHome) -> None:
    """One is at its checkout, two have not begun, the others run."""
    git = home.git("--exec-path") + "/git"
    slow = f'while [ ! -e {home.folder}/on ]; do touch {home.folder}/held; sleep 0.02; done; exec {git} "$@"'
    home.program("git", f'case "$*" in *"worktree add"*-m[3456]) {slow};; esac; exec {git} "$@"')
    words = [word for number in range(9) for word in ("--agent", "demo", "--model", f"m{number}")]
    child = home.start("launch", *words, "-p", LONG, "--group", "g", "--json")
    until(lambda: (home.folder / "held").exists() and len(home.listed()["sessions"]) == 3)
    child.send_signal(signal.SIGINT)
    assert child.stdout is not None
    assert child.stderr is not None
    assert any("interrupted: what has begun goes on" in line for line in child.stderr)  # up to that line
    (home.folder / "on").touch()
    err, out = child.stderr.read(), child.stdout.read()
    assert child.wait(TIMEOUT) == 130, err
    slots = json.loads(out)["slots"]
    assert [slot["worktree"] is not None for slot in slots] == [True] * 3 + [False] * 6, err
    for slot in slots[:3]:
        assert f"it runs (pid {home_pid(home, slot['launch_id'])})" in slot["error"]
    for slot in slots[3:]:
        assert slot["error"].startswith("interrupted before it was ")
        assert slot["launch_id"] is None
    rows = home.listed("--group", "g")["sessions"]
    assert {row["launch_id"] for row in rows} == {slot["launch_id"] for slot in slots[:3]}
    assert home.beside() == ["work-g-demo-m0", "work-g-demo-m1", "work-g-demo-m2"]
    assert home.branches() == ["main", *(f"try/g/demo-m{number}" for number in range(3))]


def test_ctrl_c_of_one_that_waits_for_git_is_answered_at_once(home: GitHome) -> None:
    """Whoever sees no answer presses Ctrl-C again, and that leaves the worktree behind."""
    git = home.git("--exec-path") + "/git"
    slow = f'while [ ! -e {home.folder}/on ]; do touch {home.folder}/held; sleep 0.02; done; exec {git} "$@"'
    home.program("git", f'case "$*" in *"worktree add"*) {slow};; esac; exec {git} "$@"')
    child = home.start("launch", "demo", "--worktree", "-p", LONG, "--group", "g")
    until((home.folder / "held").exists)
    child.send_signal(signal.SIGINT)
    assert child.stderr is not None
    answered = select.select([child.stderr], [], [], 3.0)[0]
    (home.folder / "on").touch()
    _, err = child.communicate(timeout=TIMEOUT)
    assert (child.returncode, home.beside()) == (130, []), err
    assert answered, "nothing was said until git had ended"


def home_pid(home: GitHome, launch_id: str) -> int:
    (launch,) = [one for one in home.launches() if one.id == launch_id]
    return launch.child.pid


def test_ctrl_c_while_sessions_are_awaited(home: GitHome) -> None:
    home.program("codex", "exec sleep 300")
    child = home.start("launch", "--agent", "demo", "--agent", "codex", "-p", LONG, "--group", "g")
    assert child.stdout is not None
    first = child.stdout.readline()
    assert first.startswith("demo\t")
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=TIMEOUT)
    assert (child.returncode, out) == (130, "")
    assert "agentctl: codex: interrupted; it runs (pid " in err
    assert home.beside() == ["work-g-codex", "work-g-demo"]
    assert home.agentctl("stop", "--group", "g").returncode == 0


# kill -9


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_the_command_is_killed(home: GitHome, step: str, when: str) -> None:
    kill_at(home, step, when, *TWO)
    settle(home)
    begun = {launch.slot for launch in home.launches()}
    rows = home.listed()["sessions"]
    assert {(row["slot"], row["group"], row["status"]) for row in rows} == {(slot, "g", "running") for slot in begun}
    # What there is, git shows: worktrees in its list, branches among its branches.
    listed = {os.path.basename(path) for path in home.worktrees()}
    assert set(home.beside()) == listed
    assert {f"work-g-{slot}" for slot in begun} <= listed
    assert set(home.branches()) <= {"main", "try/g/demo", "try/g/demo-2"}
    for path in home.worktrees():
        assert home.git("status", "--short", cwd=home.folder / os.path.basename(path)) == ""
    # And a second try works: under another name at once, under the same one it says what stands in its way.
    done = home.agentctl("launch", "--agent", "demo", "--agent", "demo", "-p", "hi", "--group", "again", "--wait")
    assert done.returncode == 0, done.stderr
    done = home.agentctl(*TWO)
    if done.returncode != 0:
        assert done.returncode == 4
        assert "try/g/demo" in done.stderr or "work-g-demo" in done.stderr


def settle(home: GitHome) -> None:
    """Git and runners that outlive the command do what they were told; then nobody is on the way any more."""

    def quiet() -> bool:
        rows = home.listed()["sessions"]
        launches = home.launches()
        ours = {key for launch in launches for key in (launch.runner, launch.child)}
        return (
            len(rows) == len(launches)
            and all(row["status"] == "running" for row in rows)
            and not (set(home.living()) - ours)
        )

    until(quiet)
    until(quiet)


def test_worktrees_are_made_and_taken_back_side_by_side(home: GitHome) -> None:
    """Git itself dies of an entry that another git is just writing."""
    from concurrent.futures import ThreadPoolExecutor

    repository = worktree.repository_at(str(home.work), home.env)
    plans = [worktree.plan(repository, str(home.work), f"p{number}", home.env, f"p/{number}") for number in range(60)]

    def there_and_back(plan: worktree.Plan) -> str | None:
        worktree.make(plan, home.env)
        return worktree.undo(plan, home.env)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda plan: worktree.make(plan, home.env), plans[:20]))
        assert sorted(home.worktrees()) == sorted(plan.path for plan in plans[:20])
        back = pool.map(lambda plan: worktree.undo(plan, home.env), plans[:20])
        assert [*back, *pool.map(there_and_back, plans[20:])] == [None] * len(plans)
    assert home.untouched()
    assert home.branches() == ["main"]
