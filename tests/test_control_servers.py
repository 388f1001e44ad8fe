"""Ending a turn in a server that is not to be ended: over Codex's socket, and over OpenCode's HTTP interface.

The servers here are scripts of what the real ones answered in the lab; one that misbehaves costs the time it was given.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import socket
import struct
import subprocess
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from agentctl.agents import codex_control, opencode_control
from agentctl.errors import AgentctlError, Refused
from agentctl.model import Details, Session
from agentctl.processes import snapshot
from agentctl.recipes import Held

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ID = "01a1e19c-52b2-7742-964b-4bb740f84d37"
SECONDS = 20.0
SHORT = 0.5
MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def held(agent: str, argv: str, store: Path, **more: Any) -> Held:
    """Held by this very process: it is the one that listens."""
    own = snapshot().get(os.getpid())
    assert own is not None
    one = Session(ID, agent, "running", "alive", "working", store=str(store), cwd="/work dir")
    return Held(one, own, Details(tuple(argv.split())), **{"env": {}, **more})


# Codex


class Daemon:
    """Answers JSON-RPC over a websocket; `turns` are those of its one loaded thread."""

    def __init__(self, root: Path, turns: list[dict[str, str]], *, deaf: bool = False) -> None:
        self.turns, self.deaf = turns, deaf
        self.called: list[tuple[str, dict[str, Any]]] = []
        folder = root / "app-server-control"
        folder.mkdir()
        self.place = tempfile.TemporaryDirectory(prefix="agentctl-")  # its name is a link there: such paths are short
        (folder / "app-server-control.sock").symlink_to(f"{self.place.name}/socket")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(f"{self.place.name}/socket")
        self.listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def methods(self) -> list[str]:
        return [method for method, _ in self.called]

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            with client, client.makefile("rb") as stream:
                self._talk(client, stream)

    def _talk(self, client: socket.socket, stream: Any) -> None:
        key = b""
        while (line := stream.readline().strip()) != b"":
            if line.lower().startswith(b"sec-websocket-key:"):
                key = line.split(b":", 1)[1].strip()
        accept = base64.b64encode(hashlib.sha1(key + MAGIC, usedforsecurity=False).digest())
        upgrade = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        client.sendall(upgrade + b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n")
        while len(head := stream.read(2)) == 2:
            size = head[1] & 127
            size = struct.unpack(">H", stream.read(2))[0] if size == 126 else size
            mask = stream.read(4)
            message = json.loads(bytes(byte ^ mask[at % 4] for at, byte in enumerate(stream.read(size))))
            answer = self._answer(message["method"], message.get("params") or {})
            if answer is not None and "id" in message:
                data = json.dumps({"id": message["id"], **answer}).encode()
                client.sendall(b"\x81" + bytes([126]) + struct.pack(">H", len(data)) + data)

    def _answer(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        """None: it never answers, as the real one about a turn that has ended."""
        self.called.append((method, params))
        active = [turn for turn in self.turns if turn["status"] == "inProgress"]
        if method == "thread/loaded/list":
            return {"result": {"data": [ID]}}
        if method == "thread/read":
            status = {"type": "active", "activeFlags": []} if active else {"type": "idle"}
            return {"result": {"thread": {"id": params["threadId"], "status": status}}}
        if method == "thread/turns/list":
            return {"result": {"data": self.turns}}
        if method == "turn/interrupt":
            for turn in active:
                if turn["id"] == params["turnId"] and not self.deaf:
                    turn["status"] = "interrupted"
            return None
        if method == "thread/backgroundTerminals/clean":
            return {"error": {"code": -32600, "message": "unknown"}}
        return {"result": {}}


@pytest.fixture
def turns() -> list[dict[str, str]]:
    return [{"id": "t2", "status": "inProgress"}, {"id": "t1", "status": "completed"}]


def interrupt(holder: Held, seconds: float = SECONDS) -> None:
    way = codex_control.way_to_stop(holder)
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


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, *, busy: int) -> None:
        """`busy`: how many questions it answers so."""
        super().__init__(("127.0.0.1", 0), Handler)
        self.busy = busy
        self.login: str | None = None
        self.silent = threading.Event()  # it does not answer the abort until this is set, as the real one in mid-tool
        self.silent.set()
        self.asked: list[str] = []

    def handle_error(self, request: object, client_address: object) -> None:
        """Nobody waits for the answer of an abort."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_POST(self) -> None:
        self.server.asked.append(f"{self.command} {self.path}")
        self.server.silent.wait(SECONDS)
        self._answer(True)

    def do_GET(self) -> None:
        self.server.asked.append(f"{self.command} {self.path}")
        if "/session/status" not in self.path:
            self._answer([])
        else:
            self.server.busy -= 1
            self._answer({ID: {"type": "busy"}} if self.server.busy >= 0 else {"ses_other": {"type": "busy"}})

    def _answer(self, value: object) -> None:
        wanted = self.server.login and "Basic " + base64.b64encode(self.server.login.encode()).decode()
        data = json.dumps(value).encode()
        self.send_response(200 if not wanted or self.headers.get("authorization") == wanted else 401)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(busy=2) as one:
        threading.Thread(target=one.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield one
        one.silent.set()
        one.shutdown()


def abort(holder: Held, seconds: float = SECONDS) -> None:
    way = opencode_control.way_to_stop(holder)
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
