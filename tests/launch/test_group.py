"""Many at once, with the real command: slots, their worktrees and branches, their sessions, and what goes wrong."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from agentctl.cli import launch_report
from agentctl.errors import LaunchFailed, TimedOut
from agentctl.launch.group import Crew, Outcome
from agentctl.launch.spawn import Order
from agentctl.model import Session
from tests.support.children import until
from tests.support.git_home import GitHome, git_home_in
from tests.support.launch_home import LONG

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import CodeType

pytestmark = pytest.mark.linux
SILENT = "exec sleep 300"  # an agent that writes nothing


@pytest.fixture
def home(tmp_path: Path) -> Iterator[GitHome]:
    with git_home_in(tmp_path) as home:
        yield home


def test_three_slots(home: GitHome) -> None:
    done = home.agentctl(
        *("launch", "--agent", "demo", "--model", "big", "--agent", "demo", "--model", "small", "--agent", "demo"),
        *("-p", f"[[bash:pwd > where]]{LONG}"),
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert [slot for slot, _ in lines] == ["demo-big", "demo-small", "demo"]
    rows = {row["id"]: row for row in home.listed()["sessions"]}
    assert rows.keys() == {id for _, id in lines}
    (group,) = {row["group"] for row in rows.values()}
    for slot, id in lines:
        path = home.folder / f"work-{group}-{slot}"
        row = rows[id]
        assert (row["status"], row["slot"], row["cwd"]) == ("running", slot, str(path))
        until(lambda path=path: (path / "where").exists() and (path / "where").read_text() == f"{path}\n")  # type: ignore[misc]
        assert home.git("symbolic-ref", "--short", "HEAD", cwd=path) == f"try/{group}/{slot}"
        launch = home.launch_of(id)
        assert (launch.group, launch.slot, launch.worktree, launch.branch) == (
            *(group, slot, str(path)),
            f"try/{group}/{slot}",
        )
        assert launch.base == home.head()
    assert [home.session(id)["model"] for _, id in lines] == ["big", "small", "demo-1"]
    assert done.stderr == (
        f"agentctl: group {group}: 3 of 3 slots were launched; next: "
        f"`agentctl wait --group {group}`, `agentctl compare {group}`\n"
    )
    table = home.agentctl("list").stdout
    assert "GROUP" in table
    assert f" {group}/demo-small " in table
    assert "GROUP" not in home.agentctl("list", "--cwd", str(home.work)).stdout
    status = home.agentctl("status", lines[1][1]).stdout
    assert [line.split() for line in status.splitlines() if "group" in line or "slot" in line] == [
        ["group", group],
        ["slot", "demo-small"],
    ]


def test_json(home: GitHome) -> None:
    found = home.slots("--agent", "demo", "--agent", "demo", "--group", "pair", "-p", "hi", "--model", "of-the-last")
    assert list(found) == ["demo", "demo-of-the-last"]
    for slot, one in found.items():
        assert one["group"] == one["session"]["group"] == "pair"
        assert one["agent"] == "demo"
        assert one["worktree"] == str(home.folder / f"work-pair-{slot}")
        assert (one["branch"], one["base"]) == (f"try/pair/{slot}", home.head())
        assert one["session"]["slot"] == slot
        assert one["session"]["launch_id"] == one["launch_id"]
        assert one["error"] is None
    assert [one["model"] for one in found.values()] == [None, "of-the-last"]


def test_a_model_for_all(home: GitHome) -> None:
    words = ("--model", "all", "--agent", "demo", "--agent", "demo", "--model", "mine", "--agent", "demo")
    found = home.slots(*words, "-p", "hi")
    assert [(slot, one["model"]) for slot, one in found.items()] == [
        ("demo-all", "all"),
        ("demo-mine", "mine"),
        ("demo-all-2", "all"),
    ]


MATRIX = """\
prompt: of the file
cwd: ../work
matrix:
  - agent: demo
    model: [a, b]
    env: {MINE: "1"}
  - agent: demo
    prompt: of its own
    permissions: bypass
"""


@pytest.mark.parametrize("given", [None, "of the command"])
def test_a_matrix(home: GitHome, given: str | None) -> None:
    path = home.folder / "there" / "m.yaml"
    path.parent.mkdir()
    path.write_text(MATRIX)
    found = home.slots("--matrix", str(path), *(("-p", given) if given else ()), cwd=home.folder)
    assert list(found) == ["demo-a", "demo-b", "demo"]
    prompts = [one["session"]["prompt"] for one in found.values()]
    assert prompts == [given or "of the file", given or "of the file", "of its own"]
    launches = {launch.slot: launch for launch in home.launches()}
    assert ["MINE" in launches[slot].env_names for slot in found] == [True, True, False]
    assert ["--yes" in launches[slot].argv for slot in found] == [False, False, True]


def test_what_goes_with_every_prompt(home: GitHome) -> None:
    (home.folder / "spec.md").write_text("be brief\n")
    found = home.slots(
        *("--agent", "demo", "--agent", "demo", "--prompt-file", "-", "--spec", "../spec.md"), input="go\n"
    )
    for one in found.values():
        prompt = home.prompt_of(one["session"]["id"])
        assert "be brief" in prompt
        assert prompt.endswith("\ngo\n")


WRONG: dict[str, tuple[tuple[str, ...], int, str]] = {
    "both": (("demo", "--agent", "demo"), 2, "demo and --agent: AGENT is for a single launch"),
    "matrix and agent": (("--agent", "demo", "--matrix", "m.yaml"), 2, "both list the slots"),
    "matrix and AGENT": (("demo", "--matrix", "m.yaml"), 2, "demo and --matrix: AGENT is for a single launch"),
    "a branch for two": (("--agent", "demo", "--agent", "demo", "--branch", "x"), 2, "--branch is for a single"),
    "a branch without": (("demo", "--branch", "x"), 2, "add --worktree"),
    "a base without": (("demo", "--base-branch", "x"), 2, "add --worktree"),
    "two models": (("--agent", "demo", "--model", "a", "--model", "b"), 2, "two models for --agent demo"),
    "an unknown agent": (("--agent", "demo", "--agent", "nobody"), 2, "unknown agent 'nobody'"),
    "a mode": (("--agent", "demo", "--permissions", "plan"), 2, "demo: the demo agent has no mode 'plan'"),
    "a program": (("--agent", "demo", "--agent", "codex"), 1, "codex: codex: not found in PATH"),
    "a flag": (
        ("--agent", "demo", "--agent", "opencode", "--", "--dir", "x"),
        2,
        "opencode: --dir cannot be handed on",
    ),
    "a group": (("--agent", "demo", "--group", "a/b"), 2, "--group 'a/b': use letters"),
    "a group of one": (("demo", "--group", "a b"), 2, "--group 'a b': use letters"),
    "a base": (
        ("--agent", "demo", "--base-branch", "nobody"),
        2,
        "demo: --base-branch nobody: there is no such branch",
    ),
    "too many": (("--agent", "demo") * 65, 2, "65 slots are too many"),
    "a branch name": (("demo", "--worktree", "--branch", "a..b"), 2, "'a..b' cannot be the name of a branch"),
    "checked out": (("demo", "--worktree", "--branch", "main"), 4, "main is checked out in"),
    "no file": (("--matrix", "none.yaml"), 2, "none.yaml: no such file"),
}


@pytest.mark.parametrize("case", WRONG)
def test_nothing_is_made_of_what_is_wrong(home: GitHome, case: str) -> None:
    words, code, why = WRONG[case]
    home.program("opencode", "exit 1")
    cut = words.index("--") if "--" in words else len(words)
    done = home.agentctl("launch", "-p", "hi", *words[:cut], *words[cut:])
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert why in done.stderr
    assert home.launches() == []
    assert home.untouched()


def test_errors_of_a_matrix_name_its_line(home: GitHome) -> None:
    path = home.work / "m.yaml"
    for text, code, why in (
        ("matrix:\n- agent: demo\n", 2, "m.yaml:2: no prompt"),
        ("prompt: ''\nmatrix:\n- agent: demo\n", 2, "the prompt is empty"),
        (
            "prompt: x\nmatrix:\n- agent: demo\n- agent: demo\n  permissions: plan\n",
            2,
            "m.yaml:4: the demo agent has no",
        ),
        ("prompt: x\ncwd: ./none\nmatrix:\n- agent: demo\n", 2, "none: not a directory"),
        (
            "prompt: x\nmatrix:\n- agent: demo\n\n- {agent: demo, base_branch: none}\n",
            2,
            "m.yaml:5: --base-branch none:",
        ),
    ):
        path.write_text(text)
        done = home.agentctl("launch", "--matrix", "m.yaml")
        assert (done.returncode, done.stdout) == (code, ""), done.stderr
        assert why in done.stderr
    assert home.untouched()


# One fails, the others go on


def failed_one(home: GitHome, *words: str, code: int = 1) -> dict[str, dict[str, Any]]:
    return home.slots("--agent", "demo", "--agent", "codex", "--agent", "demo", *words, "-p", LONG, code=code)


def others_run(home: GitHome, found: dict[str, dict[str, Any]]) -> None:
    assert list(found) == ["demo", "codex", "demo-2"]
    assert [found[slot]["session"]["status"] for slot in ("demo", "demo-2")] == ["running", "running"]
    assert sorted(row["slot"] for row in home.listed()["sessions"]) == ["demo", "demo-2"]
    assert "2 of 3 slots were launched" in found["demo"]["said"]


def test_an_agent_that_dies_at_once_is_taken_back(home: GitHome) -> None:
    home.program("codex", "echo 'not logged in' >&2; exit 3")
    found = failed_one(home, "--group", "g")
    others_run(home, found)
    codex = found["codex"]
    assert (codex["session"], codex["worktree"], codex["branch"], codex["base"]) == (None, None, None, None)
    assert "exit code 3" in codex["error"]
    assert "not logged in" in codex["error"]
    assert "agentctl: codex: codex ended before its session was known (exit code 3)" in codex["said"]
    assert home.beside() == ["work-g-demo", "work-g-demo-2"]
    assert home.branches() == ["main", "try/g/demo", "try/g/demo-2"]


def test_its_lines_are_in_order_without_it(home: GitHome) -> None:
    home.program("codex", "exit 3")
    done = home.agentctl("launch", "--agent", "codex", "--agent", "demo", "--agent", "demo", "-p", "hi")
    assert done.returncode == 1
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["demo", "demo-2"]


@pytest.mark.parametrize("work", ["echo x > new", "echo x >> file", "git commit -q --allow-empty -m work"])
def test_what_it_wrote_is_kept(home: GitHome, work: str) -> None:
    home.program("codex", f"{work}; exit 3")
    codex = failed_one(home, "--group", "g")["codex"]
    assert codex["worktree"] == str(home.folder / "work-g-codex")
    assert codex["branch"] == "try/g/codex"
    assert "codex: the worktree is left: " in codex["said"]
    assert home.beside() == ["work-g-codex", "work-g-demo", "work-g-demo-2"]


def test_what_it_left_running_keeps_its_worktree(home: GitHome) -> None:
    """What is at work there may be about to write."""
    home.program("codex", "sleep 300 & exit 3")
    codex = failed_one(home, "--group", "g")["codex"]
    assert os.path.isdir(codex["worktree"])
    assert "may be at work there" in codex["said"]


def test_what_on_complete_writes_is_kept(home: GitHome) -> None:
    home.program("codex", "exit 3")
    codex = failed_one(home, "--group", "g", "--on-complete", "sleep 0.3; echo x > result")["codex"]
    assert (home.folder / "work-g-codex" / "result").read_text() == "x\n"
    assert "the worktree is left: " in codex["said"]


def test_git_fails_for_one(home: GitHome) -> None:
    home.program("codex", "exit 3")
    git = home.git("--exec-path") + "/git"
    home.program(
        "git", f'case "$*" in *"worktree add"*-codex*) echo "fatal: no luck" >&2; exit 128;; esac; exec {git} "$@"'
    )
    found = failed_one(home, "--group", "g")
    others_run(home, found)
    assert "work-g-codex: git could not make this worktree: no luck" in found["codex"]["error"]
    assert found["codex"]["launch_id"] is None
    assert home.beside() == ["work-g-demo", "work-g-demo-2"]
    assert home.branches() == ["main", "try/g/demo", "try/g/demo-2"]


def test_one_does_not_name_its_session_in_time(home: GitHome) -> None:
    home.program("claude", SILENT)
    words = ("--agent", "claude", "--agent", "demo", "-p", LONG, "--id-timeout", "1s", "--group", "g")
    found = home.slots(*words, code=124)
    late = found["claude"]
    assert (late["session"], late["worktree"]) == (None, str(home.folder / "work-g-claude"))
    assert "has not named its session within 1 s" in late["error"]
    # It has no session, and is of the group all the same.
    listed = home.listed("--group", "g")
    assert [row["slot"] for row in listed["sessions"]] == ["demo"]
    assert [one["launch_id"] for one in listed["unattached"]] == [late["launch_id"]]
    home.launch(LONG, "--group", "other", "--cwd", home.folder_named("elsewhere"))
    other = home.listed("--group", "other")
    assert (len(other["sessions"]), other["unattached"]) == (1, [])
    done = home.agentctl("wait", "--group", "g", "--timeout", "1s")
    assert (done.returncode, late["launch_id"] in done.stdout) == (124, True)
    done = home.agentctl("stop", "--group", "g", "--json")
    assert done.returncode == 0, done.stderr
    assert {one["launch_id"]: one["outcome"] for one in json.loads(done.stdout)["stopped"]} == {
        late["launch_id"]: "stopped",
        found["demo"]["launch_id"]: "stopped",
    }
    assert home.agentctl("wait", "--group", "g", "--timeout", "20s").returncode == 7
    done = home.agentctl("list", "--group", "g")
    assert (done.returncode, done.stdout) == (0, "")
    assert "no sessions" in done.stderr


@pytest.mark.parametrize("verb", ["list", "wait", "stop"])
def test_an_unknown_group(home: GitHome, verb: str) -> None:
    done = home.agentctl(verb, "--group", "g")
    assert (done.returncode, done.stdout) == (3, "")
    assert "no group 'g'; nothing was launched with --group lately" in done.stderr
    home.launch("hi", "--group", "first")
    home.wait_until_quiet()
    home.launch("hi", "--group", "second")
    done = home.agentctl(verb, "--group", "g")
    assert (done.returncode, done.stdout) == (3, "")
    assert "known: second, first" in done.stderr


def test_all_of_them_are_waited_for(home: GitHome) -> None:
    path = home.work / "m.yaml"
    path.write_text("matrix:\n- agent: demo\n  prompt: ['[[sleep:0.3]]', '[[sleep:0.2]][[fail:no]]']\n")
    done = home.agentctl("launch", "--matrix", "m.yaml", "--wait")
    assert done.returncode == 6, done.stderr
    ids = [line.split("\t")[1] for line in done.stdout.splitlines()[:2]]
    assert [home.session(id)["status"] for id in ids] == ["done", "failed"]
    done = home.agentctl("launch", "--matrix", "m.yaml", "--wait", "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [slot["slot"] for slot in lines[0]["slots"]] == ["demo", "demo-2"]
    assert lines[-1]["exit_code"] == done.returncode == 6
    assert len(lines[-1]["sessions"]) == 2


def test_one_that_could_not_be_launched_counts_in_a_wait(home: GitHome) -> None:
    home.program("codex", "exit 3")
    done = home.agentctl("launch", "--agent", "codex", "--agent", "demo", "-p", "hi", "--wait")
    assert done.returncode == 1
    assert " done" in done.stdout


def test_the_exit_code() -> None:
    order = Order(agent="demo", argv=("demo",), cwd="/", env={}, slot="s")
    alive = Session("1", "demo", "running", "alive", "working")
    well = Outcome(order, "l1", alive)
    at_once = Outcome(order, "l1", Session("1", "demo", "failed", "gone", "failed", exit_code=1, error="no model"))
    failed = Outcome(order, error=LaunchFailed("no", "l1"))
    late = Outcome(order, "l1", error=TimedOut("late"))
    assert [
        launch_report.code_of(list(some)) for some in ((well, well), (well, at_once), (failed,), (failed, late))
    ] == [
        *(0, 1, 1),
        124,
    ]
    assert launch_report.code_of([well, at_once], waits=True) == 0
    assert launch_report.code_of([well, failed], waits=True) == 1
    said = launch_report.why_failed(at_once) or ""
    assert said.startswith("demo ended at once with exit code 1; 1 is failed: no model")
    assert launch_report.why_failed(well) is None


def is_in(code: CodeType, thread: int) -> bool:
    """Return whether this thread runs this code now."""
    frame = sys._current_frames().get(thread)
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None


def test_who_waits_for_a_crew_is_interrupted_and_waits_again() -> None:
    """The first Ctrl-C leaves the others at work: the second wait is for them all."""
    held, done, main = threading.Event(), threading.Event(), threading.get_ident()

    def work() -> None:
        held.wait()
        time.sleep(0.3)
        done.set()

    def interrupt() -> None:
        until(lambda: is_in(Crew.wait.__code__, main))
        signal.pthread_kill(main, signal.SIGINT)

    crew = Crew([work])
    with pytest.raises(KeyboardInterrupt):
        threading.Thread(target=interrupt, daemon=True).start()
        crew.wait()
    held.set()
    crew.wait()
    assert done.is_set()
