"""The first run of an agent on a machine: it makes its own store, and may have ended before anybody looks."""

from __future__ import annotations

import json
import subprocess
import uuid
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from agentctl.launch import await_session, spawn, start
from agentctl.model import Session
from agentctl.query import remembered
from agentctl.query.sessions import settled_look
from tests.support.children import until
from tests.support.demo_home import COMMAND
from tests.support.launch_home import Home
from tests.support.launch_world import World, gone

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from agentctl.launch.spawn import Order

pytestmark = pytest.mark.linux


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    try:
        yield home
    finally:
        home.end_all()


def test_a_look_that_opened_the_stores_before_the_agent_made_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    id = str(uuid.uuid4())
    argv = (*COMMAND, "--session-id", id, "-p", "[[text:done]]")
    order = world.order(agent="demo", argv=argv, session_id=id, one_shot=True)
    started = spawn.start(world.reserve(), order)
    until(lambda: gone(started.child))
    real = settled_look
    early = [{**world.env, "XDG_DATA_HOME": str(tmp_path / "not made")} for _ in range(2)]

    def look(scope: Any, env: Any) -> Any:
        """Look twice as if there were no store yet: these looks see only that the agent has ended."""
        return real(scope, early.pop() if early else env)

    monkeypatch.setattr(await_session, "settled_look", look)
    ((_, found),) = await_session.await_sessions([started], world.env, print)
    assert isinstance(found, Session), found
    assert (found.id, found.status) == (id, "done")
    world.close()


def test_a_store_that_only_the_launch_names_and_the_run_makes(home: Home) -> None:
    elsewhere = home.folder / "elsewhere"
    words = ("--env", f"XDG_DATA_HOME={elsewhere}")
    done = home.agentctl("launch", "demo", "-p", "[[text:done]]", *words)
    assert done.returncode == 0, done.stderr
    home.wait_until_quiet()
    assert home.session(done.stdout.strip())["status"] == "done"
    root = str(elsewhere / "agentctl-demo")
    assert remembered.recall(home.env).roots == {"demo": [root]}  # it was made: from now on it must be there


def test_the_command_that_launched_it_was_killed_before_it_looked(home: Home) -> None:
    root = str(home.folder / "elsewhere" / "agentctl-demo")
    assert remembered.expect({"demo": [root]}, home.env) == ()  # as launch does before it starts the agent
    id = str(uuid.uuid4())
    own = {**home.env, "XDG_DATA_HOME": str(home.folder / "elsewhere")}
    assert home.agentctl("list", "--strict").returncode == 0  # nothing is there yet, and that is no problem
    subprocess.run([*COMMAND, "--session-id", id, "-p", "[[text:done]]"], env=own, cwd=home.work, check=True)
    assert home.session(id)["status"] == "done"


def test_a_store_that_is_never_made_is_no_problem(home: Home) -> None:
    words = ("--env", f"XDG_DATA_HOME={home.folder / 'elsewhere'}")
    failed = home.agentctl("launch", "demo", "-p", "x", *words, "--", "--no-such-flag")
    assert failed.returncode == 1
    home.wait_until_quiet()
    assert home.agentctl("list", "-a", "--strict").returncode == 0
    assert json.loads(home.agentctl("list", "--json").stdout)["problems"] == []


def test_launch_notes_the_store_before_the_agent_makes_it(home: Home) -> None:
    """The command may be killed as soon as the agent has started: then nobody else knows its store."""
    elsewhere = {**home.env, "XDG_DATA_HOME": str(home.folder / "elsewhere")}
    order = SimpleNamespace(agent="demo", cwd=str(home.work), env=elsewhere)
    start.note_store(cast("Order", order), home.env, pytest.fail)
    id = str(uuid.uuid4())
    subprocess.run([*COMMAND, "--session-id", id, "-p", "[[text:done]]"], env=elsewhere, cwd=home.work, check=True)
    assert home.session(id)["status"] == "done"
