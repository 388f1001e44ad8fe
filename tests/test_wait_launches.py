"""wait, on launches of ours: by session, by launch id, by group. An end is told when its exit code is known."""

from __future__ import annotations

import os
import signal
import sys
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from agentctl import wait as waiting
from agentctl.kernel import watch
from agentctl.launch import spawn
from agentctl.launches import records
from agentctl.live import pace
from agentctl.model import GONE
from tests.support.children import PATIENCE, until
from tests.support.demo_home import COMMAND, SOURCES, TIMEOUT
from tests.support.launch_world import WAIT, World, end_by_key
from tests.test_wait import Looks, Waiting

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from agentctl.launch.spawn import Started
    from agentctl.model import ProcessKey

pytestmark = pytest.mark.linux


@pytest.fixture(autouse=True)
def only_events_wake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "PAUSES", (10 * PATIENCE, 10 * PATIENCE))
    monkeypatch.setattr(pace, "BLIND_PAUSE", 10 * PATIENCE)
    monkeypatch.setattr(waiting, "UNSURE", 10 * PATIENCE)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    found = Looks()
    monkeypatch.setattr(waiting, "settled_look", found)
    return found


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    yield found
    found.close()


def start_demo(world: World, prompt: str, **fields: Any) -> tuple[str, Started]:
    """Launch a demo agent. Return once its prompt is in the store: killed before that, it never began a turn."""
    id = str(uuid.uuid4())
    argv = (*COMMAND, "--session-id", id, "-p", prompt)
    order = world.order(agent="demo", argv=argv, session_id=id, one_shot=True, **fields)
    started = spawn.start(world.reserve(), order)
    events = world.folder / ".local/share/agentctl-demo/sessions" / id / "events.jsonl"
    until(lambda: events.exists() and b'"prompt"' in events.read_bytes())
    return id, started


def send(key: ProcessKey, number: signal.Signals) -> None:
    """To a process of ours, by its proved identity."""
    fd = watch.open_process(key)
    assert fd is not None
    assert fd >= 0
    signal.pidfd_send_signal(fd, number)
    os.close(fd)


def test_the_end_of_a_runners_child_is_told_with_its_exit_code(world: World, looks: Looks) -> None:
    id, started = start_demo(world, "[[sleep:300]]")
    wait = Waiting(world, id)
    send(started.runner, signal.SIGSTOP)
    try:
        end_by_key(started.child)
        until(lambda: any(one.process == GONE for one in looks.made[-1]))
        assert wait.told == []  # it has ended, and the runner has not said how
        assert wait.result is None
    finally:
        send(started.runner, signal.SIGCONT)
    result = wait.end()
    session = result.waited[0].session
    assert session is not None
    assert (result.exit_code, session.status, session.signal) == (7, "stopped", "SIGKILL")
    assert session.launch_id == started.launch_id
    assert wait.words() == ["running -> stopped"]


def test_a_runner_that_is_gone_tells_nothing_more(world: World, looks: Looks) -> None:
    id, started = start_demo(world, "[[sleep:300]]")
    wait = Waiting(world, id)
    send(started.runner, signal.SIGSTOP)
    end_by_key(started.child)
    until(lambda: any(one.process == GONE for one in looks.made[-1]))
    assert wait.result is None
    end_by_key(started.runner)
    session = wait.end().waited[0].session
    assert session is not None
    assert (session.status, session.exit_code, session.signal) == ("stopped", None, None)


def test_an_exit_that_is_never_written_is_not_waited_for_forever(
    world: World, looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its disk was full, and the runner has another child to wait for."""
    monkeypatch.setattr(waiting, "UNSURE", 0.2)
    monkeypatch.setattr(records, "exits", lambda id, env, namespace: [])
    id, started = start_demo(world, "[[bash:(sleep 300 &) ; sleep 300]]")
    wait = Waiting(world, id)
    end_by_key(started.child)
    assert wait.end().exit_code == 7


@pytest.mark.parametrize(
    ("script", "code", "status"),
    [(WAIT, 0, "done"), (f"{WAIT}; exit 3", 6, "failed"), (f"{WAIT}; kill -9 $$", 7, "stopped")],
)
def test_a_launch_that_never_has_a_session(world: World, script: str, code: int, status: str) -> None:
    started = world.start(script)
    wait = Waiting(world, started.launch_id)
    world.end_agent()
    result = wait.end()
    assert (result.exit_code, result.waited[0].status) == (code, status)
    assert wait.words() == [f"alive -> {status}"]
    again = Waiting(world, started.launch_id).end()
    assert again == result


def test_a_launch_whose_runner_was_killed_first(world: World) -> None:
    started = world.start(WAIT)
    wait = Waiting(world, started.launch_id)
    end_by_key(started.runner)
    world.end_agent()
    result = wait.end()
    assert (result.exit_code, result.waited[0].status) == (5, "unknown")


def test_a_launch_becomes_its_session(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    (world.cwd / "held.py").write_text(
        "import os, sys, time\n"
        "while not os.path.exists('begin'): time.sleep(0.02)\n"
        f"os.execv(sys.executable, {COMMAND!r} + sys.argv[1:])\n"
    )
    id = str(uuid.uuid4())
    argv = (sys.executable, "held.py", "--session-id", id, "-p", "[[fail:no]]")
    order = world.order(agent="demo", argv=argv, session_id=id, env={**world.env, "PYTHONPATH": SOURCES})
    started = spawn.start(world.reserve(), order)
    wait = Waiting(world, started.launch_id, until="ended")
    (world.cwd / "begin").touch()
    result = wait.end()
    session = result.waited[0].session
    assert session is not None
    assert (result.exit_code, session.id, session.status, session.exit_code) == (6, id, "failed", 1)
    assert wait.words()[-1].endswith("-> failed")


def test_a_group_is_its_sessions_and_its_launches(world: World) -> None:
    id, started = start_demo(world, "[[sleep:300]]", group="nightly")
    other = world.start(f"{WAIT}; exit 3", group="nightly")
    world.start(WAIT, group="another")
    wait = Waiting(world, group="nightly", until="ended")
    end_by_key(started.child)
    until(lambda: len(wait.told) == 1)
    world.end_agent()
    result = wait.end()
    assert result.exit_code == 6
    found = [(one.id, one.launch_id, one.exit_code) for one in result.waited]
    assert found == [(id, started.launch_id, 7), (None, other.launch_id, 6)]


def test_an_end_that_is_noted_after_the_notes_were_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Child and runner are both gone in the look, and the line was written since the notes were read for it."""
    started = world.start("exit 3")
    until(lambda: not world.living())
    late = [[], records.exits(started.launch_id, world.env)]
    monkeypatch.setattr(records, "exits", lambda *_: late.pop(0) if len(late) > 1 else late[0])
    result = waiting.wait([started.launch_id], None, TIMEOUT, env=world.env)
    assert (result.exit_code, result.waited[0].status) == (6, "failed")
