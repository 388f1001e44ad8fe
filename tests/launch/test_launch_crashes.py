"""kill -9 of the command, the runner or the agent, at every boundary of `agentctl launch` and `resume`.

A driver (tests/support/killed_commands.py) runs the real command with one function that kills, before or after the
step that it stands for; the shipped command has no such switch. What must hold after each: either no agent runs and
none is listed, or it runs, is listed as it is, and ends with its exit code; no directory stays busy; and the next
launch works.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.children import until
from tests.support.killed_commands import kill_at
from tests.support.launch_home import LONG, UNTIL_TOLD, Home
from tests.support.launch_world import end_by_key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.linux, pytest.mark.stress]

# The steps of a launch as the command takes them, one inside or after the other.
STEPS = (
    "agentctl.launch.start.task_of",
    "agentctl.workspace.locks.gate",
    "agentctl.launch.start.check_directory",
    "agentctl.launches.records.reserve",
    "agentctl.launch.spawn.runner_order",
    "os.posix_spawn",
    "agentctl.launch.spawn.listen",
    "agentctl.launch.spawn.outcome",
    "agentctl.launch.group.await_sessions",
    "agentctl.launch.await_session.id_in",
    "agentctl.launches.hooks.run",
)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    try:
        yield home
    finally:
        home.end_all()


def settled(home: Home) -> bool:
    """Is nobody on the way any more? The runner starts the agent by itself once it was spawned."""
    seen = home.listed("-a")
    if seen["sessions"]:
        return bool(seen["sessions"][0]["launch_id"])
    return not home.living()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_the_command_is_killed(home: Home, step: str, when: str) -> None:
    kill_at(home, step, when, "launch", "demo", "-p", UNTIL_TOLD, "--on-create", "true", "--group", "g")
    until(lambda: settled(home))
    sessions = home.listed("-a")["sessions"]
    if not sessions:
        assert home.launches() == []
        assert not home.living()
        id = home.launch("again")
        assert home.until_ended(id, "done")["exit_code"] == 0
        return
    (row,) = sessions
    assert (row["status"], row["group"]) == ("running", "g")
    (launch,) = home.launches()
    assert (row["launch_id"], row["process_key"]) == (launch.id, str(launch.child))
    refused = home.agentctl("launch", "demo", "-p", "second")
    assert refused.returncode == 4
    assert row["id"][:8] in refused.stderr
    home.go()
    home.wait_until_quiet()
    ended = home.session(row["id"])
    assert (ended["status"], ended["exit_code"]) == ("done", 0)
    home.until_status(home.launch("again"), "done")


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "step", ["agentctl.launch.start.check_directory", "os.posix_spawn", "agentctl.launch.await_session.id_in"]
)
def test_a_resume_is_killed(home: Home, step: str, when: str) -> None:
    id = home.launch("one")
    home.until_status(id, "done")
    home.wait_until_quiet()
    kill_at(home, step, when, "resume", id, f"two{UNTIL_TOLD}")
    home.go()
    home.wait_until_quiet()
    found = home.session(id)
    assert (found["status"], found["exit_code"]) == ("done", 0)
    prompts = [event["text"] for event in home.events(id) if event["event"] == "prompt"]
    assert prompts == (["one", f"two{UNTIL_TOLD}"] if len(home.launches()) == 2 else ["one"])
    home.agentctl("resume", id, "three")
    until(lambda: home.events(id)[-1]["event"] == "turn_end" and len(home.events(id)) > len(prompts))


def test_the_runner_is_killed(home: Home) -> None:
    """The agent lives on and is judged as before; what is lost is said."""
    id = home.launch(UNTIL_TOLD, "--on-complete", "touch completed")
    launch = home.launch_of(id)
    end_by_key(launch.runner)
    until(lambda: launch.runner not in home.living())
    assert home.session(id)["status"] == "running"
    home.go()
    found = home.until_status(id, "done")
    assert (found["exit_code"], found["signal"]) == (None, None)
    assert any("seen by nobody" in fact["fact"] for fact in found["evidence"])
    assert not (home.work / "completed").exists()


def test_the_agent_is_killed_in_a_tool(home: Home) -> None:
    id = home.launch("[[bash:sleep 60]]", "--on-complete", "echo $AGENTCTL_STATUS > completed")
    until(lambda: any(event["event"] == "tool" for event in home.events(id)))
    end_by_key(home.launch_of(id).child)
    assert home.until_ended(id, "stopped")["signal"] == "SIGKILL"
    until(lambda: (home.work / "completed").exists() and (home.work / "completed").read_text() == "stopped\n")


def test_both_are_killed(home: Home) -> None:
    id = home.launch(LONG)
    launch = home.launch_of(id)
    end_by_key(launch.runner)
    end_by_key(launch.child)
    found = home.until_status(id, "stopped")
    assert (found["process"], found["exit_code"]) == ("gone", None)
    home.until_status(home.launch("again"), "done")
