"""A stand-in for Codex's app-server daemon: it owns threads and answers for them on a websocket over a Unix socket."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import socket
import struct
import threading
import time

from tests.agents.codex.standin import Codex
from tests.torture.standins import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class CodexDaemon(Codex):
    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        self.statuses: dict[str, dict[str, Any]] = {}
        self.manner = "honest"
        self.ports: dict[str, int] = {}
        self.directories: dict[str, str] = {}

    def do_serve(self, socket_path: str) -> None:
        """daemon.pid, and the control socket, which is a symbolic link to a short path."""
        identity = {"bootId": files.boot_id(), "startTicks": files.start_ticks()}
        os.makedirs(f"{self.home}/app-server-daemon", exist_ok=True)
        with open(f"{self.home}/app-server-daemon/daemon.pid", "wb") as file:
            file.write(files.compact({"pid": os.getpid(), "processIdentity": identity}))
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(socket_path)
        listener.listen(16)
        os.makedirs(f"{self.home}/app-server-control", exist_ok=True)
        os.symlink(socket_path, f"{self.home}/app-server-control/app-server-control.sock")
        threading.Thread(target=self.accept, args=(listener,), daemon=True).start()

    def do_say(self, status: dict[str, Any], id: str) -> None:
        """What the daemon answers for this thread from now on."""
        self.statuses[id] = status

    def do_origin(self, source: str) -> None:
        """Where the threads come from that are prompted from now on."""
        self.source = source

    def do_forget(self, id: str) -> None:
        del self.statuses[id]

    def do_loaded_by(self, id: str, port: int, directory: str) -> None:
        """The screen that listens on this port has loaded the thread, for this directory."""
        self.ports[id], self.directories[id] = port, directory

    def do_behave(self, manner: str) -> None:
        """honest, silent (takes the call and never answers), deaf (to an interrupt), or the nonsense to answer."""
        self.manner = manner

    def interrupt(self, id: str, turn: str) -> dict[str, Any]:
        """It ends the turn and its tools, says so in the rollout, and keeps the thread."""
        if self.threads[id].turn == turn and self.manner != "deaf":
            self.do_abort(id)
            self.end_tools()
            self.statuses[id] = {"type": "idle"}
        return {}

    def accept(self, listener: socket.socket) -> None:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection: socket.socket) -> None:
        try:
            with connection, connection.makefile("rb") as stream:
                if self.manner == "silent":
                    time.sleep(600)
                self.shake_hands(connection, stream)
                while (request := read_frame(stream)) is not None:
                    if "id" in request:
                        answer = {"id": request["id"], "result": self.answer(request)}
                        connection.sendall(frame(json.dumps(answer).encode()))
        except OSError:
            pass  # the client went away

    def shake_hands(self, connection: socket.socket, stream: Any) -> None:
        key = b""
        while line := stream.readline().strip():
            if line.lower().startswith(b"sec-websocket-key:"):
                key = line.split(b":", 1)[1].strip()
        accept = base64.b64encode(hashlib.sha1(key + GUID).digest())
        connection.sendall(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"
        )

    def answer(self, request: dict[str, Any]) -> object:
        method, params = request.get("method"), request.get("params") or {}
        if method == "initialize":
            return {"userAgent": "codex-tui/0.166.0", "codexHome": self.home}
        if method == "thread/loaded/list":
            if self.manner == "odd list":
                return {"data": [{"not": "an id"}, None, 7, *self.statuses], "nextCursor": None}
            return {"data": list(self.statuses), "nextCursor": None}
        id = str(params.get("threadId"))
        if method == "thread/turns/list":
            active = self.statuses.get(id, {}).get("type") == "active"
            return {"data": [{"id": self.threads[id].turn, "status": "inProgress"}] if active else []}
        if method == "turn/interrupt":
            return self.interrupt(id, str(params.get("turnId")))
        if method == "thread/backgroundTerminals/clean":
            return {}
        if method == "mcpServerStatus/list":
            return {"data": self.servers(id), "nextCursor": None}
        if self.manner == "odd status":
            return {"thread": {"id": id, "status": {"type": ["active"], "activeFlags": 7}}}
        # Of a thread that another process runs the daemon speaks wrongly.
        status = self.statuses.get(id, {"type": "notLoaded"})
        turns = [] if id in self.statuses else [{"id": "t", "status": "interrupted", "completedAt": None}]
        return {"thread": {"id": id, "status": status, "turns": turns, "cwd": self.directories.get(id)}}

    def servers(self, id: str) -> list[object]:
        """The server of the screen that loaded a thread, as the daemon lists it."""
        if self.manner == "odd list":
            return [None, 7, {"name": "codex_tui", "httpOrigin": ["http://127.0.0.1:1"]}, {"name": 3}]
        origin = f"http://127.0.0.1:{self.ports[id]}" if id in self.ports else None
        return [{"name": "codex_tui", "httpOrigin": origin, "runtimeStatus": "connected"}] if origin else []


def read_frame(stream: Any) -> dict[str, Any] | None:
    head = stream.read(2)
    if len(head) < 2 or head[0] & 15 == 8:
        return None
    size = head[1] & 127
    if size == 126:
        size = struct.unpack(">H", stream.read(2))[0]
    mask = stream.read(4)
    data = bytes(byte ^ mask[index % 4] for index, byte in enumerate(stream.read(size)))
    value = json.loads(data)
    return value if isinstance(value, dict) else None


def frame(data: bytes) -> bytes:
    size = len(data)
    return b"\x81" + (bytes([size]) if size < 126 else bytes([126]) + struct.pack(">H", size)) + data
