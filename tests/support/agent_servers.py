"""The servers of agents, as scripts of what the real ones answered in the lab."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import socket
import struct
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from agentctl.agents.recipes import Held
from agentctl.kernel.processes import snapshot
from agentctl.model import Details, Session

if TYPE_CHECKING:
    from pathlib import Path

ID = "01a1e19c-52b2-7742-964b-4bb740f84d37"
SECONDS = 20.0
MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def held(agent: str, argv: str, store: Path, **more: Any) -> Held:
    """Held by this very process: it is the one that listens."""
    own = snapshot().get(os.getpid())
    assert own is not None
    one = Session(ID, agent, "running", "alive", "working", store=str(store), cwd="/work dir")
    return Held(one, own, Details(tuple(argv.split())), **{"env": {}, **more})


class Daemon:
    """Answers JSON-RPC over a websocket; `turns` are those of its one loaded thread."""

    def __init__(self, root: Path, turns: list[dict[str, str]], *, deaf: bool = False) -> None:
        self.turns, self.deaf = turns, deaf
        self.silent_about: tuple[str, ...] = ()
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
            if size > 125:
                size = struct.unpack(*((">H", stream.read(2)) if size == 126 else (">Q", stream.read(8))))[0]
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
        if method in self.silent_about:
            return None
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
        if method == "turn/start" and params["input"][0]["text"] == "bad":
            return {"error": {"code": -32600, "message": "bad input"}}
        if method == "thread/backgroundTerminals/clean":
            return {"error": {"code": -32600, "message": "unknown"}}
        return {"result": {}}


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
        self.logins: list[str] = []  # what it was given, asked for or not
        self.bodies: list[Any] = []
        self.waiting: list[dict[str, Any]] = []  # the permissions that are asked for

    def handle_error(self, request: object, client_address: object) -> None:
        """Nobody waits for the answer of an abort."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_POST(self) -> None:
        self.server.asked.append(f"{self.command} {self.path}")
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.bodies.append(json.loads(body) if body else None)
        self.server.silent.wait(SECONDS)
        if "prompt_async" in self.path and self._let_in():
            self.send_response(204)
            self.end_headers()
        else:
            self._answer(True)

    def do_GET(self) -> None:
        self.server.asked.append(f"{self.command} {self.path}")
        if "/session/status" not in self.path:
            self._answer(self.server.waiting if "/permission" in self.path else [])
        else:
            self.server.busy -= 1
            self._answer({ID: {"type": "busy"}} if self.server.busy >= 0 else {"ses_other": {"type": "busy"}})

    def _let_in(self) -> bool:
        self.server.logins += [self.headers["authorization"]] if self.headers["authorization"] else []
        wanted = self.server.login and "Basic " + base64.b64encode(self.server.login.encode()).decode()
        return not wanted or self.headers.get("authorization") == wanted

    def _answer(self, value: object) -> None:
        data = json.dumps(value).encode()
        self.send_response(200 if self._let_in() else 401)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
