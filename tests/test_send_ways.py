"""The agents' own ways to be spoken to and shown: Codex's daemon, OpenCode's interface, Claude's dialogs and jobs."""

from __future__ import annotations

import json
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest

from agentctl.agents import TABLE, load_control
from agentctl.agents.claude_code import control as claude_code_control
from agentctl.agents.codex import control as codex_control
from agentctl.agents.opencode import control as opencode_control
from agentctl.errors import AgentctlError, Refused, TruthUnavailable
from tests.support.agent_servers import ID, SECONDS, Daemon, Server, held

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from agentctl.agents.control_base import Control
    from agentctl.agents.recipes import Held

SHORT = 0.5
TEXT = "/not a command\n--at all 🦊"
AT_REST = [{"id": "t1", "status": "completed"}]


def deliver(control: Control, holder: Held, text: str = TEXT, seconds: float = SECONDS) -> None:
    way = control.way_to_send(holder)
    assert way is not None
    way.deliver(text, seconds)


@pytest.mark.parametrize("agent", [agent for agent in TABLE if agent != "claude-code"])
def test_a_process_of_one_session_is_spoken_to_by_its_terminal(agent: str, tmp_path: Path) -> None:
    holder = held(agent, agent, tmp_path)
    assert load_control(agent).way_to_send(holder) is None
    assert load_control(agent).own_screen(holder) is None


# Codex


@pytest.mark.parametrize("text", [TEXT, "x" * 70_000])
def test_the_daemon_is_given_the_text_as_it_is(tmp_path: Path, text: str) -> None:
    daemon = Daemon(tmp_path, AT_REST)
    deliver(codex_control.CONTROL, held("codex", "codex app-server", tmp_path), text)
    told = [params for method, params in daemon.called if method == "turn/start"]
    assert told == [{"threadId": ID, "input": [{"type": "text", "text": text}]}]


def test_a_thread_in_mid_turn_is_not_spoken_to(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, [{"id": "t1", "status": "inProgress"}])
    with pytest.raises(Refused, match="is active; nothing was sent"):
        deliver(codex_control.CONTROL, held("codex", "codex app-server", tmp_path))
    assert "turn/start" not in daemon.methods


def test_a_stranger_who_listens_is_told_nothing(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, AT_REST)
    holder = held("codex", "codex app-server", tmp_path)
    key = type(holder.process.key)(holder.process.key.boot, os.getpid() + 1, 1)
    with pytest.raises(Refused, match="nothing was sent"):
        deliver(codex_control.CONTROL, holder._replace(process=holder.process._replace(key=key)))
    assert daemon.called == []


def test_what_it_does_not_take_was_not_sent(tmp_path: Path) -> None:
    Daemon(tmp_path, AT_REST)
    with pytest.raises(AgentctlError, match=r"bad input.*nothing was sent"):
        deliver(codex_control.CONTROL, held("codex", "codex app-server", tmp_path), "bad")


@pytest.mark.parametrize(("method", "error"), [("turn/start", TruthUnavailable), ("thread/read", AgentctlError)])
def test_only_after_it_was_told_is_it_not_known(tmp_path: Path, method: str, error: type[Exception]) -> None:
    Daemon(tmp_path, AT_REST).silent_about = (method,)
    with pytest.raises(AgentctlError) as told:
        deliver(codex_control.CONTROL, held("codex", "codex app-server", tmp_path), seconds=SHORT)
    assert type(told.value) is error


def test_another_screen_on_the_daemon(tmp_path: Path) -> None:
    here = held("codex", "codex app-server", tmp_path, env={"CODEX_HOME": str(tmp_path)})
    assert codex_control.CONTROL.own_screen(here) == ("codex", "resume", ID)
    assert codex_control.CONTROL.own_screen(here._replace(env={"HOME": "/elsewhere"})) == (
        "env",
        f"CODEX_HOME={tmp_path}",
        "codex",
        "resume",
        ID,
    )


# OpenCode


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(busy=0) as one:
        threading.Thread(target=one.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield one
        one.silent.set()
        one.shutdown()


def test_its_interface_is_given_the_text_as_it_is(tmp_path: Path, server: Server) -> None:
    deliver(opencode_control.CONTROL, held("opencode", "opencode --port 1", tmp_path))
    assert server.asked[-1] == f"POST /session/{ID}/prompt_async?directory=/work%20dir"
    assert server.bodies == [{"parts": [{"type": "text", "text": TEXT}]}]


def test_one_that_works_or_asks_is_not_spoken_to(tmp_path: Path, server: Server) -> None:
    server.busy = 1
    with pytest.raises(Refused, match="at work; nothing was sent"):
        deliver(opencode_control.CONTROL, held("opencode", "opencode", tmp_path))
    server.waiting = [{"sessionID": ID, "permission": "bash", "metadata": {"command": "rm"}}]
    with pytest.raises(Refused, match="permission: bash: rm"):
        deliver(opencode_control.CONTROL, held("opencode", "opencode", tmp_path))
    assert server.bodies == []


def test_one_that_does_not_answer_may_have_taken_it(tmp_path: Path, server: Server) -> None:
    server.silent.clear()
    with pytest.raises(TruthUnavailable, match="has not said whether"):
        deliver(opencode_control.CONTROL, held("opencode", "opencode", tmp_path), seconds=SHORT)


def test_one_that_wants_a_password_is_given_the_persons_own(tmp_path: Path, server: Server) -> None:
    server.login = "opencode:pass"
    with pytest.raises(AgentctlError, match=r"401.*nothing was sent"):
        deliver(opencode_control.CONTROL, held("opencode", "opencode", tmp_path))
    deliver(opencode_control.CONTROL, held("opencode", "opencode", tmp_path, env={"OPENCODE_SERVER_PASSWORD": "pass"}))
    assert len(server.bodies) == 1


def test_another_screen_on_a_server(tmp_path: Path, server: Server) -> None:
    port = server.server_address[1]
    assert opencode_control.CONTROL.own_screen(held("opencode", "opencode serve", tmp_path)) == (
        *("opencode", "attach", f"http://127.0.0.1:{port}"),
        *("--session", ID, "--dir", "/work dir"),
    )
    assert opencode_control.CONTROL.own_screen(held("opencode", "opencode --port 1", tmp_path)) is None


# Claude Code


def registered(store: Path, **facts: Any) -> Held:
    holder = held("claude-code", "claude", store)
    (store / "sessions").mkdir(exist_ok=True)
    file = {"procStart": str(holder.process.key.start), "sessionId": ID, **facts}
    (store / "sessions" / f"{holder.process.pid}.json").write_text(json.dumps(file))
    return holder


@pytest.mark.parametrize("status", ["idle", "shell"])
def test_at_its_prompt_it_is_spoken_to_by_its_terminal(tmp_path: Path, status: str) -> None:
    held = registered(tmp_path, status=status, kind="interactive")
    claude_code_control.CONTROL.way_to_send(held)  # or it is refused, as below
    assert claude_code_control.CONTROL.own_screen(held) is None


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({"status": "waiting", "waitingFor": "dialog open"}, "dialog open"),
        ({"status": "busy"}, "busy"),
        ({}, "not say"),
    ],
)
def test_a_dialog_takes_the_keys(tmp_path: Path, facts: dict[str, Any], says: str) -> None:
    with pytest.raises(Refused, match=says):
        claude_code_control.CONTROL.way_to_send(registered(tmp_path, **facts))
    with pytest.raises(Refused, match="not say"):
        claude_code_control.CONTROL.way_to_send(held("claude-code", "claude", tmp_path / "none"))


def test_a_background_session_is_shown_by_its_own_command(tmp_path: Path) -> None:
    found = claude_code_control.CONTROL.own_screen(registered(tmp_path, kind="bg", jobId="7b17ca15"))
    assert found is not None
    assert found[-2:] == ("attach", "7b17ca15")
    assert claude_code_control.CONTROL.own_screen(registered(tmp_path, kind="interactive")) is None
