"""Ending a turn in a server that is not to be ended: over Codex's socket, and over OpenCode's HTTP interface.

The servers here are scripts of what the real ones answered in the lab; one that misbehaves costs the time it was given.
"""

from __future__ import annotations

import os
import subprocess
import threading
from typing import TYPE_CHECKING

import pytest

from agentctl.agents.codex import control
from agentctl.agents.opencode import control as opencode_control
from agentctl.errors import AgentctlError, Refused
from agentctl.kernel import confinement
from agentctl.kernel.processes import snapshot
from tests.support.agent_servers import ID, SECONDS, Daemon, Server, held

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from agentctl.agents.recipes import Held

SHORT = 0.5


# Codex


@pytest.fixture
def turns() -> list[dict[str, str]]:
    return [{"id": "t2", "status": "inProgress"}, {"id": "t1", "status": "completed"}]


def interrupt(holder: Held, seconds: float = SECONDS) -> None:
    way = control.CONTROL.way_to_stop(holder)
    assert way.interrupt is not None
    way.interrupt(seconds)


def test_the_active_turn_is_interrupted_and_its_commands_are_ended(tmp_path: Path, turns: list[dict[str, str]]) -> None:
    daemon = Daemon(tmp_path, turns)
    interrupt(held("codex", "codex app-server --listen unix://", tmp_path))
    told = [params for method, params in daemon.called if method == "turn/interrupt"]
    assert told == [{"threadId": ID, "turnId": "t2"}]
    assert daemon.methods[-1] == "thread/backgroundTerminals/clean"
    assert turns[0]["status"] == "interrupted"


def test_a_thread_at_rest_is_not_interrupted(tmp_path: Path, turns: list[dict[str, str]]) -> None:
    turns[0]["status"] = "completed"
    daemon = Daemon(tmp_path, turns)
    interrupt(held("codex", "codex app-server", tmp_path))
    assert "turn/interrupt" not in daemon.methods


def test_whoever_else_listens_is_told_nothing(tmp_path: Path, turns: list[dict[str, str]]) -> None:
    daemon = Daemon(tmp_path, turns)
    holder = held("codex", "codex app-server", tmp_path)
    other = os.getpid() + 1
    key = type(holder.process.key)(holder.process.key.boot, other, 1)
    with pytest.raises(Refused, match=f"answered by pid {os.getpid()}, not by pid {other}"):
        interrupt(holder._replace(process=holder.process._replace(key=key)))
    assert daemon.called == []


def test_a_turn_that_goes_on_is_a_failure(tmp_path: Path, turns: list[dict[str, str]]) -> None:
    daemon = Daemon(tmp_path, turns, deaf=True)
    with pytest.raises(AgentctlError, match="did not interrupt"):
        interrupt(held("codex", "codex app-server", tmp_path), SHORT)
    assert daemon.methods.count("turn/interrupt") == 1


def test_a_thread_that_it_has_not_loaded_is_a_failure(tmp_path: Path, turns: list[dict[str, str]]) -> None:
    Daemon(tmp_path, turns)
    holder = held("codex", "codex app-server", tmp_path)
    with pytest.raises(AgentctlError, match="not loaded"):
        interrupt(holder._replace(session=holder.session._replace(id="another")))


def test_an_editors_own_server_cannot_be_reached(tmp_path: Path) -> None:
    with pytest.raises(AgentctlError, match="where it is shown"):
        interrupt(held("codex", "codex app-server", tmp_path))


# OpenCode


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(busy=2) as one:
        threading.Thread(target=one.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield one
        one.silent.set()
        one.shutdown()


def abort(holder: Held, seconds: float = SECONDS) -> None:
    way = opencode_control.CONTROL.way_to_stop(holder)
    assert way.interrupt is not None
    way.interrupt(seconds)


def test_the_turn_is_aborted_in_its_directory_and_seen_to_end(tmp_path: Path, server: Server) -> None:
    server.silent.clear()
    abort(held("opencode", "opencode serve", tmp_path))
    told = [one for one in server.asked if "question" not in one and "permission" not in one]
    asked = "GET /session/status?directory=/work%20dir"
    assert sorted(told) == [asked, asked, asked, f"POST /session/{ID}/abort?directory=/work%20dir"]


def test_where_no_turn_is_seen_the_answer_is_waited_for(tmp_path: Path, server: Server) -> None:
    server.busy = 0
    abort(held("opencode", "opencode serve", tmp_path))
    server.silent.clear()
    with pytest.raises(AgentctlError, match="did not abort"):
        abort(held("opencode", "opencode serve", tmp_path), SHORT)


def test_a_turn_that_is_not_aborted_is_a_failure(tmp_path: Path, server: Server) -> None:
    server.busy = 1_000_000
    with pytest.raises(AgentctlError, match="did not abort"):
        abort(held("opencode", "opencode serve", tmp_path), SHORT)


def test_a_server_that_asks_for_no_password_is_given_none(tmp_path: Path, server: Server) -> None:
    """The one that the person has set may be that of another server."""
    abort(held("opencode", "opencode serve", tmp_path, env={"OPENCODE_SERVER_PASSWORD": "pass"}))
    assert server.logins == []


def test_a_server_in_a_sandbox_is_not_given_the_password(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.login = "opencode:pass"
    monkeypatch.setattr(confinement, "why_confined", lambda pid: "it is in another mount namespace")
    with pytest.raises(AgentctlError, match="not given yours"):
        abort(held("opencode", "opencode serve", tmp_path, env={"OPENCODE_SERVER_PASSWORD": "pass"}))
    assert server.logins == []


def test_a_server_with_a_password_is_given_the_persons_own(tmp_path: Path, server: Server) -> None:
    server.login = "opencode:pass"
    with pytest.raises(AgentctlError, match="401"):
        abort(held("opencode", "opencode serve", tmp_path))
    abort(held("opencode", "opencode serve", tmp_path, env={"OPENCODE_SERVER_PASSWORD": "pass"}))
    server.login, server.busy = "me:pass", 0
    env = {"OPENCODE_SERVER_PASSWORD": "pass", "OPENCODE_SERVER_USERNAME": "me"}
    abort(held("opencode", "opencode serve", tmp_path, env=env))


def test_a_server_that_listens_nowhere_cannot_be_told(tmp_path: Path) -> None:
    with pytest.raises(AgentctlError, match="no port"):
        abort(held("opencode", "opencode acp", tmp_path))


def test_a_port_of_another_process_is_not_asked(tmp_path: Path, server: Server) -> None:
    holder = held("opencode", "opencode serve", tmp_path)
    with subprocess.Popen(["sleep", "60"]) as another:
        try:
            process = snapshot().get(another.pid)
            assert process is not None
            with pytest.raises(AgentctlError, match="no port"):
                abort(holder._replace(process=process))
        finally:
            another.kill()
    assert server.asked == []
