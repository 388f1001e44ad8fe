"""agentctl stop of what agentctl launched: by its session, by its launch, by its group; and what a runner adopted."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from agentctl.agents.demo import control
from agentctl.launches import records
from tests.support.children import until
from tests.support.launch_world import gone
from tests.support.stop_world import StopWorld, living

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.linux

# As a tmux server does it: from a tool, away from everybody, with the whole environment, and the marker in it.
LEAVE = "tool('sh', '-c', 'setsid sleep 300 & echo $! > {file}.new; mv {file}.new {file}').wait()\n"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[StopWorld]:
    world = StopWorld(tmp_path)
    try:
        yield world
    finally:
        world.end_all()


def test_by_its_session(world: StopWorld) -> None:
    id, started = world.launch_demo("[[bash:sleep 300]]")
    found = world.stop(id)
    assert (found["id"], found["launch_id"], found["outcome"]) == (id, started.launch_id, "stopped")
    until(lambda: gone(started.runner))
    assert [exit.key for exit in records.exits(started.launch_id, world.env) if exit.direct] == [started.child]
    assert world.status(id) == "stopped"


def test_by_its_launch(world: StopWorld) -> None:
    id, started = world.launch_demo("[[sleep:300]]")
    assert world.stop(started.launch_id)["id"] == id
    assert living(started.child) == [False]


def test_a_launch_without_a_session(world: StopWorld) -> None:
    """Not even an agent by its arguments: but it is the very process that was launched."""
    started = world.launch("/bin/sh", "-c", "sleep 300 & setsid sleep 301 & wait")
    until(lambda: len(below(world, started.child.pid)) == 2)
    tools = [world.keep(pid) for pid in below(world, started.child.pid)]
    found = world.stop(started.launch_id)
    assert (found["id"], found["agent"], found["launch_id"]) == (None, "demo", started.launch_id)
    assert living(started.child, *tools) == [False, False, False]
    again = world.stop(started.launch_id)
    assert again["outcome"] == "gone" and "SIGTERM" in again["said"]


def below(world: StopWorld, pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]


def test_a_wrapper_around_an_agent(world: StopWorld) -> None:
    """A shell that is no agent by its arguments runs one that is: that one is told to end, and then the shell ends."""
    id = "11111111-2222-4333-8444-555555555555"
    script = 'trap : TERM; "$@"; while :; do sleep 0.1; done'
    started = world.launch("/bin/sh", "-c", script, "sh", *world.words(id, "tool()"))
    agent, tool = world.keep(int(world.noted(id, "ready"))), world.tool_of(id)
    (world.folder(id) / "process.json").unlink()  # it has not registered yet
    found = world.stop(started.launch_id)
    parts = {one["pid"]: (one["part"], one["how"]) for one in found["ended"]}
    expected = {
        agent.pid: ("agent", "SIGTERM"),
        tool.pid: ("tool", "SIGTERM"),
        started.child.pid: ("wrapper", "SIGKILL"),
    }
    assert {pid: parts.get(pid) for pid in expected} == expected  # and perhaps a `sleep` of the shell
    assert living(started.child, agent, tool) == [False, False, False]


def test_a_wrapper_that_was_killed(world: StopWorld) -> None:
    """Its agent is the runner's child now. By its session it is stopped; by its launch nobody can tell what it is."""
    id = "11111111-2222-4333-8444-555555555555"
    started = world.launch("/bin/sh", "-c", '"$@"; true', "sh", *world.words(id))
    agent = world.keep(int(world.noted(id, "ready")))
    world.end(started.child)
    said = world.refused(started.launch_id)
    assert f"pid {agent.pid} (demo)" in said and "--tree" in said
    assert living(agent) == [True]
    assert world.stop(id)["outcome"] == "stopped"
    assert living(agent) == [False]


def test_a_wrapper_that_was_killed_before_its_agent_registered(world: StopWorld) -> None:
    id = "11111111-2222-4333-8444-555555555555"
    started = world.launch("/bin/sh", "-c", '"$@"; true', "sh", *world.words(id, "tool()"))
    agent, tool = world.keep(int(world.noted(id, "ready"))), world.tool_of(id)
    (world.folder(id) / "process.json").unlink()
    world.end(started.child)
    assert f"pid {agent.pid} (demo)" in world.refused(started.launch_id)
    found = world.stop(started.launch_id, "--tree")
    assert found["outcome"] == "stopped"
    assert living(agent, tool) == [False, False]


@pytest.mark.parametrize("tree", [False, True])
def test_what_was_left_behind_before(world: StopWorld, tree: bool) -> None:
    """It carries the marker of the launch, which proves nothing: it is named and left, unless --tree."""
    file = world.base / "left"
    id = "11111111-2222-4333-8444-555555555555"
    started = world.launch(*world.words(id, LEAVE.format(file=file)))
    world.noted(id, "ready")
    server = world.keep(int(file.read_text()))
    done = world.ctl("stop", id, "--json", *(["--tree"] if tree else []))
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["stopped"]
    assert living(started.child, server) == [False, not tree]
    assert [one["pid"] for one in found["left"]] == ([] if tree else [server.pid])
    assert [one["pid"] for one in found["ended"] if one["part"] == "tool"] == ([server.pid] if tree else [])


@pytest.mark.parametrize("tree", [False, True])
def test_a_launch_inside_of_a_launch(world: StopWorld, tree: bool) -> None:
    """Its runner detaches and becomes a child of the outer one: it is no tool of anybody."""
    inner = "22222222-2222-4333-8444-555555555555"
    order = f"""
import os
from agentctl.launches import records as launches
from agentctl.launch import spawn as launching
argv = {world.words(inner, "tool()")!r}
order = launching.Order(agent="demo", argv=tuple(argv), cwd={str(world.base)!r}, env=dict(os.environ))
started = launching.start(launches.reserve(os.environ), order)
print(started.launch_id, flush=True)
"""
    code = f"note('launched', subprocess.check_output([sys.executable, '-c', {order!r}], text=True).strip())"
    id = "11111111-2222-4333-8444-555555555555"
    outer = world.launch(*world.words(id, code))
    world.noted(id, "ready")
    within = world.launch_of(world.noted(id, "launched"))
    agent, tool = world.keep(int(world.noted(inner, "ready"))), world.tool_of(inner)
    done = world.ctl("stop", id, "--json", *(["--tree"] if tree else []))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["stopped"]
    assert [(one["pid"], one["id"]) for one in found[0]["left"]] == [(within.runner.pid, within.id)]
    assert [one["id"] for one in found] == [id, inner] if tree else [id]
    assert living(outer.child, agent, tool) == [False, not tree, not tree]
    if not tree:
        assert living(within.runner) == [True]


def test_by_its_group(world: StopWorld) -> None:
    one, first = world.launch_demo("[[sleep:300]]", group="night")
    starting = world.launch("/bin/sh", "-c", "exec sleep 300", group="night")
    _, other = world.launch_demo("[[sleep:300]]", group="day")
    _, ended = world.launch_demo("[[text:done]]", group="night")
    until(lambda: gone(ended.child))
    done = world.ctl("stop", "--group", "night", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["stopped"]
    assert {(one["id"], one["launch_id"]) for one in found} == {(one, first.launch_id), (None, starting.launch_id)}
    assert living(first.child, starting.child, other.child) == [False, False, True]
    again = world.ctl("stop", "--group", "night")
    assert (again.returncode, again.stdout) == (0, "") and "no session of group 'night' is alive" in again.stderr


def test_the_runner_stops_it_at_the_time_limit(world: StopWorld) -> None:
    """The command is the runner's own child: not a tool, not left behind."""
    id = "11111111-2222-4333-8444-555555555555"
    words = (sys.executable, "-m", "agentctl", "stop", id)
    started = world.launch(*world.words(id, "tool()"), time_limit=1.0, stop=words)
    tool = world.tool_of(id)
    until(lambda: gone(started.child) and gone(tool) and gone(started.runner))
    log = world.base / "agentctl" / "launches" / started.launch_id / records.COMMANDS
    assert f"{id} stopped: pid {started.child.pid} ended by SIGTERM" in log.read_text()
    assert "left" not in log.read_text()


def test_a_record_that_cannot_be_read(world: StopWorld) -> None:
    started = world.launch("/bin/sh", "-c", "exec sleep 300")
    path = world.base / "agentctl" / "launches" / started.launch_id / records.LAUNCH
    path.write_text("{")
    assert str(path) in world.refused(started.launch_id)
    assert living(started.child) == [True]


def test_a_store_that_cannot_be_read_is_not_an_empty_one(world: StopWorld) -> None:
    id, started = world.launch_demo("[[sleep:300]]")
    sessions = world.folder(id).parent
    sessions.rename(sessions.with_name("away"))
    sessions.symlink_to(sessions)  # a link to itself
    found = world.stop(started.launch_id)
    assert (found["id"], found["outcome"]) == (id, "stopped")
    assert found["said"].startswith("its process has ended; its last turn is not known: Too many levels")
    assert "kept nothing" not in found["said"]
    assert living(started.child) == [False]


def test_a_launch_whose_session_another_launch_went_on_with(world: StopWorld) -> None:
    """`status` shows the session as it is now; `stop` must not say that it is over."""
    id, first = world.launch_demo("[[text:done]]")
    until(lambda: gone(first.child) and gone(first.runner))
    argv = (*control.PROGRAM, "--resume", id, "-p", "[[sleep:300]]")
    second = world.launch(*argv, session_id=id, one_shot=True)
    until(lambda: world.status(first.launch_id) == "running")
    shown = json.loads(world.ctl("status", first.launch_id, "--json").stdout)["session"]
    assert (shown["id"], shown["launch_id"]) == (id, second.launch_id)
    found = world.stop(first.launch_id)
    assert found["said"] == f"its session {id} goes on in launch {second.launch_id}: agentctl stop {id}"
    assert living(second.child) == [True]
    assert world.stop(second.launch_id)["outcome"] == "stopped"
    assert world.stop(first.launch_id)["said"] == "it ended with 0"


def test_a_session_inside_is_meant_by_what_it_is_not_by_its_text(world: StopWorld) -> None:
    """Its id is a launch id, too: the launch is not what was left."""
    other = world.launch("/bin/sh", "-c", "exec sleep 300")
    id, inner = "11111111-2222-4333-8444-555555555555", other.launch_id
    _, outer = world.standin(f"tool(*{world.words(inner)!r})", id=id)
    below = world.keep(int(world.noted(inner, "ready")))
    done = world.ctl("stop", id, "--tree", "--json")
    assert done.returncode == 0, done.stderr
    assert [(one["id"], one["outcome"]) for one in json.loads(done.stdout)["stopped"]] == [
        (id, "stopped"),
        (inner, "stopped"),
    ]
    assert living(outer, below, other.child) == [False, False, True]


HELPER = "44444444-2222-4333-8444-555555555555"


@pytest.mark.parametrize("how", ["launch", "group"])
def test_a_person_who_went_on_with_the_session_of_a_launch(world: StopWorld, how: str) -> None:
    """The launched agent has ended and left another one behind, so its runner lives."""
    id = "11111111-2222-4333-8444-555555555555"
    code = f"tool(*{world.words(HELPER)!r})\nregister(id)\nnote('ready', os.getpid())\nsys.exit()"
    started = world.launch(*world.words(id, code), session_id=id, group="night")
    helper = world.keep(int(world.noted(HELPER, "ready")))
    until(lambda: gone(started.child))
    (world.folder(id) / "ready").unlink()
    _, person = world.standin(id=id)
    words = (started.launch_id,) if how == "launch" else ("--group", "night")
    done = world.ctl("stop", *words, "--json")
    said = json.loads(done.stdout)["stopped"][0]["said"]
    assert said == f"its session {id} goes on in a process that it did not start: agentctl stop {id}"
    assert living(person, helper, started.runner) == [True, True, True]
    assert world.stop(id)["outcome"] == "stopped" and living(person) == [False]


def test_a_tool_with_the_arguments_of_a_runner(world: StopWorld) -> None:
    """It does not make the launch that it names a part of the session."""
    other_id, other = world.launch_demo("[[sleep:300]]")
    program = world.base / "x" / "agentctl" / "launch" / "runner.py"
    program.parent.mkdir(parents=True)
    program.write_text("import time; time.sleep(300)")
    id, outer = world.standin(f"tool(sys.executable, '-I', '-S', {str(program)!r}, {other.launch_id!r})")
    tool = world.tool_of(id)
    done = world.ctl("stop", id, "--tree", "--json")
    (found,) = json.loads(done.stdout)["stopped"]
    assert [(one["pid"], one["id"], one["why"]) for one in found["left"]] == [(tool.pid, None, "ours")]
    assert living(outer, tool, other.child) == [False, True, True] and world.status(other_id) == "running"
