"""kill -9 of the command, the runner or the agent at every boundary of a launch, and disks that are full.

The launch is the list runner.STEPS; a driver takes the steps one by one, and kills where it is told to. What must hold
after each: either no agent ran and no launch is counted, or launch.json names the very process that runs or ran; nobody
is left; and the next launch works.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from agentctl.errors import NotFound
from agentctl.kernel import processes
from agentctl.launch import runner
from agentctl.launches import records, retention
from agentctl.launches.records import MARKER, Reserved
from tests.support.children import PATIENCE, true_key, until
from tests.support.launch_world import RAN, WAIT, World, document, gone, run_python, wait_until_gone, written

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.linux, pytest.mark.stress]

STEPS = [step.__name__ for step in runner.STEPS]
# Takes the steps of a launch, and kills somebody after one of them: itself, or the agent's process.
DRIVER = """
import os, signal, sys
from agentctl.launch import runner
path, last, whom = sys.argv[1:]
state = {"order": runner.read_order([path])}
for step in runner.STEPS:
    runner.take(step, state)
    if step.__name__ == last:
        os.kill(os.getpid() if whom == "runner" else state["child"], signal.SIGKILL)
runner.report(state, {"report": "started", "runner": state["runner"], "child": state["child_key"]})
runner.supervise(runner.to_supervise(state))
"""
# A launcher that is killed when the runner is spawned, before it has heard anything.
KILLED_LAUNCHER = """
import os, signal, sys
from agentctl.launches import records as launches
from agentctl.launch import spawn as launching
launching.listen = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
order = launching.Order(agent="test", argv=("/bin/sh", "-c", sys.argv[1]), cwd=sys.argv[2], env=os.environ)
launching.start(launches.reserve(os.environ), order)
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    try:
        yield world
    finally:
        world.close()


def drive(world: World, reserved: Reserved, last: str, whom: str) -> dict[str, Any]:
    """When the report's pipe ends, whoever had it is on the way out of the process table, or has become the agent:
    then nobody can start anything any more."""
    path = written(world.folder / "order.json", document(world, reserved, f"{RAN}; {WAIT}"))
    heard = run_python(DRIVER, str(path), last, whom, env=world.env).stderr
    said: dict[str, Any] = json.loads(heard.splitlines()[-1]) if heard else {}
    return said


def retry_works(world: World) -> None:
    (world.cwd / "ran").unlink(missing_ok=True)
    world.end_agent()
    started = world.start(f"{RAN}; exit 3")
    (exit,) = world.exits(started.launch_id)
    assert exit.exit_code == 3 and world.ran()
    wait_until_gone([started.runner])


@pytest.mark.parametrize("last", STEPS)
def test_the_runner_is_killed(world: World, last: str) -> None:
    reserved = world.reserve()
    assert drive(world, reserved, last, "runner") == {}
    found = records.read_all(world.env)[0]
    if STEPS.index(last) < STEPS.index("write_launch"):
        assert found == []
        assert not world.ran()
    elif last == "write_launch":
        (launch,) = found
        wait_until_gone([launch.child, launch.runner])
        assert not world.ran()
    else:
        (launch,) = found
        until(world.ran)
        assert true_key(launch.child.pid) == launch.child and not gone(launch.child)
        wait_until_gone([launch.runner])
        world.end_agent()
        wait_until_gone([launch.child])
    until(lambda: not world.living())
    retry_works(world)


@pytest.mark.parametrize("last", STEPS[STEPS.index("fork_held") :])
def test_the_agents_process_is_killed(world: World, last: str) -> None:
    reserved = world.reserve()
    said = drive(world, reserved, last, "agent")
    assert said["report"] == "started"
    launch = world.launch(reserved.id)
    (exit,) = world.exits(reserved.id)
    assert (exit.signal, exit.key, str(exit.key)) == ("SIGKILL", launch.child, said["child"])
    if STEPS.index(last) < STEPS.index("let_go"):
        assert not world.ran()
    wait_until_gone([launch.runner])
    until(lambda: not world.living())
    retry_works(world)


def test_the_launcher_is_killed_when_it_has_spawned(world: World) -> None:
    """Nobody listens any more: the launch goes on, and its record is whole."""
    result = run_python(KILLED_LAUNCHER, f"{RAN}; {WAIT}; exit 4", str(world.cwd), env=world.env)
    assert result.returncode == -9, result.stderr
    until(world.ran)
    (launch,) = world.launches()
    assert true_key(launch.child.pid) == launch.child
    world.end_agent()
    (exit,) = world.exits(launch.id)
    assert exit.exit_code == 4
    wait_until_gone([launch.runner])
    retry_works(world)


def test_the_launcher_is_killed_before_it_spawns(world: World) -> None:
    """Only its empty folder is left: no launch, and gone with a later sweep."""
    reserved = world.reserve()
    assert world.launches() == []
    with pytest.raises(NotFound):
        records.read(reserved.id, world.env)
    retry_works(world)
    now = os.stat(reserved.folder).st_mtime + retention.HALF_MADE + 1
    swept = retention.sweep(world.env, processes.snapshot({MARKER}), now)
    assert swept.removed == (reserved.id,)


# Disks


def run_runner(world: World, reserved: Reserved, script: str, **options: Any) -> dict[str, Any]:
    path = written(world.folder / "order.json", document(world, reserved, script))
    with open(path, "rb") as order:
        result = subprocess.run(
            [sys.executable, "-I", "-S", runner.__file__, reserved.id],
            stdin=order,
            stderr=subprocess.PIPE,
            timeout=PATIENCE,
            check=False,
            **options,
        )
    said: dict[str, Any] = json.loads(result.stderr.splitlines()[-1])
    return said


def test_no_room_for_the_record_no_agent(world: World) -> None:
    reserved = world.reserve()

    def no_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    said = run_runner(world, reserved, RAN, preexec_fn=no_room)
    assert (said["report"], said["step"], said["errno"]) == ("failed", "write_launch", errno.EFBIG)
    assert not world.ran()
    assert world.folders() == []
    retry_works(world)


def test_no_room_for_an_exit_harms_nobody(world: World) -> None:
    started = world.start(f"mkdir {world.state}/launches/$AGENTCTL_LAUNCH/exits.jsonl; {RAN}")
    wait_until_gone([started.runner, started.child])
    assert world.ran()
    assert records.exits(started.launch_id, world.env) == []


TORN_LINE = """
import resource, sys
from agentctl.launch import runner
state = {"order": {"folder": sys.argv[1]}}
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
for limit, word in [(hard, b"first"), (10, b"second"), (10, b"third"), (hard, b"fourth"), (hard, b"fifth")]:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    runner.append(state, word + b"\\n")
"""


def test_a_line_that_did_not_fit_does_not_spoil_the_next(world: World) -> None:
    result = run_python(TORN_LINE, str(world.cwd), env=world.env)
    assert result.returncode == 0, result.stderr
    assert (world.cwd / records.EXITS).read_text().splitlines() == ["first", "seco", "fourth", "fifth"]


FULL_DISK = """
import os, sys
from agentctl import errors
from agentctl.launches import records as launches
from agentctl.launch import spawn as launching
env = dict(os.environ)
reserved = launches.reserve(env)
with open(os.path.join(env["AGENTCTL_HOME"], "filler"), "wb", buffering=0) as file:
    try:
        while True:
            file.write(b"x" * 512)
    except OSError:
        pass
order = launching.Order("test", ("/bin/sh", "-c", sys.argv[1]), sys.argv[2], env, prompt="p" * 9000)
try:
    launching.start(reserved, order)
except errors.LaunchFailed as failed:
    print(failed.step, failed.errno, os.listdir(os.path.dirname(reserved.folder)), failed)
os.unlink(os.path.join(env["AGENTCTL_HOME"], "filler"))
print(launching.start(launches.reserve(env), launching.Order("test", ("/bin/true",), "/", env)).launch_id)
"""


def test_a_full_disk(world: World) -> None:
    namespace = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    world.state.mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", str(world.state)]
    if subprocess.run([*namespace, *mount], capture_output=True, check=False).returncode != 0:
        pytest.skip("no mount namespace here")
    python = [sys.executable, "-c", FULL_DISK, RAN, str(world.cwd)]
    result = subprocess.run(
        [*namespace, "sh", "-c", f'{" ".join(mount)} && exec "$@"', "sh", *python],
        env=world.env,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    failed, retried = result.stdout.splitlines()
    assert failed.startswith(f"write_launch {errno.ENOSPC} [] "), result
    assert records.is_id(retried)
    assert not world.ran()
