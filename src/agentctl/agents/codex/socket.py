"""Speaks with Codex's own daemon about the threads it has loaded: JSON-RPC over a websocket over its Unix socket.

`ask` is read only: `thread/loaded/list`, `thread/read`, and `mcpServerStatus/list` of the server that a screen runs for
its threads (the daemon answers from its memory, and does not ask the screen). The daemon is right about the threads it
has loaded and wrong about all others (it calls a turn that another process runs `interrupted`), so nothing else is
asked or believed.
`interrupt` is for those who stop a session, `start_turn` for those who speak to it.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import socket
import struct
import time

from agentctl.files.bounded import decode, text_or_none
from agentctl.model import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

AT_REST = ("idle", "systemError")  # the latter: its last turn has failed
MESSAGE_LIMIT = 8 * 1024 * 1024
PROBE = 0.05  # seconds between two looks at whether a turn has ended
CLIENT = {"clientInfo": {"name": "agentctl", "title": "agentctl", "version": "1"}, "capabilities": {}}


SCREEN_SERVER = "codex_tui"  # each screen runs it, and the daemon notes its address with each thread that it loads
LOOPBACK = "http://127.0.0.1:"


class Told(Value):
    """What the daemon says of a thread that it has loaded."""

    status: dict[str, Any] = {}  # noqa: RUF012
    cwd: str | None = None
    parent: str | None = None  # it is a sub-agent of this thread
    port: int | None = None  # of the screen that loaded it; None: it does not say, or none did


class Unanswered(Exception):
    """The daemon did not answer, or not in a way we understand."""


class Busy(Exception):
    """The thread is not at rest."""


class Unsure(Exception):
    """The request was sent, and no answer came."""


class Stranger(Exception):
    """The process that listens is not the one that should."""


def ask(
    path: str, ids: Iterable[str], seconds: float = 1.0, *, screens: bool = False
) -> tuple[int | None, dict[str, Told]]:
    """Return the pid that answered, and what the daemon says of each of these threads that it has loaded. `screens`:
    also which screen loaded it."""
    try:
        with Connection(os.path.realpath(path), time.monotonic() + seconds) as connection:
            connection.call("initialize", CLIENT)
            connection.notify("initialized")
            loaded = connection.call("thread/loaded/list", {}).get("data")
            found = {}
            for id in sorted(id for id in set(ids) if isinstance(loaded, list) and id in loaded):
                if (told := connection.told(id)).status:
                    found[id] = told
            return connection.peer, connection.with_ports(found) if screens else found
    except (OSError, ValueError, RecursionError, struct.error) as error:
        raise Unanswered(str(error) or type(error).__name__) from error


def interrupt(path: str, id: str, pid: int, seconds: float) -> None:
    """End the active turn of a thread, and the commands that it leaves running, in the daemon that is this process."""
    try:
        with Connection(os.path.realpath(path), time.monotonic() + seconds) as connection:
            if connection.peer != pid:
                raise Stranger(f"{path} is answered by pid {connection.peer}, not by pid {pid} that runs it")
            connection.call("initialize", {**CLIENT, "capabilities": {"experimentalApi": True}})
            connection.notify("initialized")
            if id not in (connection.call("thread/loaded/list", {}).get("data") or ()):
                raise ValueError("it has not loaded this thread")
            interrupted = set()
            while connection.status(id).get("type") == "active":
                for turn in connection.call("thread/turns/list", {"threadId": id, "limit": 4}).get("data") or ():
                    if turn.get("status") == "inProgress" and turn["id"] not in interrupted:
                        interrupted.add(turn["id"])
                        # Not waited for: about a turn that ends by itself at this moment there is never an answer.
                        connection.post("turn/interrupt", {"threadId": id, "turnId": turn["id"]})
                time.sleep(PROBE)
            with contextlib.suppress(Failed):  # an older daemon, without experiments
                connection.call("thread/backgroundTerminals/clean", {"threadId": id})
    except (OSError, ValueError, RecursionError, TypeError, KeyError, AttributeError, struct.error) as error:
        raise Unanswered(str(error) or type(error).__name__) from error


def start_turn(path: str, id: str, pid: int, text: str, seconds: float) -> None:
    """Send the next prompt of a thread that is at rest to the daemon that is this process."""
    sent = False
    try:
        with Connection(os.path.realpath(path), time.monotonic() + seconds) as connection:
            if connection.peer != pid:
                raise Stranger(f"{path} is answered by pid {connection.peer}, not by pid {pid} that runs it")
            connection.call("initialize", CLIENT)
            connection.notify("initialized")
            if id not in (connection.call("thread/loaded/list", {}).get("data") or ()):
                raise ValueError("it has not loaded this thread")
            state = connection.status(id).get("type")
            if state not in AT_REST:
                raise Busy(f"its daemon says that {id} is {state}")
            sent = True
            connection.call("turn/start", {"threadId": id, "input": [{"type": "text", "text": text}]})
    except Failed as error:
        raise Unanswered(str(error)) from error
    except (OSError, ValueError, TypeError, KeyError, AttributeError, struct.error) as error:
        raise (Unsure if sent else Unanswered)(str(error) or type(error).__name__) from error


class Failed(ValueError):
    """The daemon answered with an error."""


class Connection:
    def __init__(self, path: str, deadline: float) -> None:
        self._deadline = deadline
        self._buffer = b""
        self._count = 0
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._limit_time()
        self._socket.connect(path)
        self.peer = self._peer_pid()
        key = base64.b64encode(os.urandom(16)).decode()
        self._socket.sendall(
            b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: " + key.encode() + b"\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        while b"\r\n\r\n" not in self._buffer:
            self._receive()
        answer, self._buffer = self._buffer.split(b"\r\n\r\n", 1)
        if b" 101 " not in answer.split(b"\r\n", 1)[0] + b" ":
            raise ValueError("no websocket")

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def _limit_time(self) -> None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("no answer in time")
        self._socket.settimeout(left)

    def _peer_pid(self) -> int | None:
        """Return the pid that listens, as the kernel knows it: another process may have taken the path."""
        if not hasattr(socket, "SO_PEERCRED"):
            return None
        size = struct.calcsize("3i")
        pid: int = struct.unpack("3i", self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))[0]
        return pid

    def call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.post(method, params)
        while True:
            answer = self._message()
            if answer.get("id") == self._count and "method" not in answer:
                result = answer.get("result")
                if not isinstance(result, dict):
                    raise Failed(f"{method}: {answer.get('error')}")
                return result

    def post(self, method: str, params: dict[str, Any]) -> None:
        """Send a call whose answer is not read."""
        self._count += 1
        self._send({"id": self._count, "method": method, "params": params})

    def status(self, id: str) -> dict[str, Any]:
        return self.told(id).status

    def told(self, id: str) -> Told:
        thread = self.call("thread/read", {"threadId": id}).get("thread")
        if not isinstance(thread, dict) or not isinstance(status := thread.get("status"), dict):
            return Told()
        return Told(status, text_or_none(thread.get("cwd")), text_or_none(thread.get("parentThreadId")))

    def with_ports(self, told: dict[str, Told]) -> dict[str, Told]:
        """Return what was told of each thread, with the screen that loaded it. What was told stays, whatever is
        answered here: a thread whose servers are starting is answered late."""
        found = {**told}
        with contextlib.suppress(OSError, ValueError, RecursionError, struct.error):
            for id in told:
                found[id] = told[id]._replace(port=self.port_of_screen(id))
        return found

    def port_of_screen(self, id: str) -> int | None:
        """Return the port of the screen that loaded a thread."""
        asked = {"threadId": id, "serverName": SCREEN_SERVER, "detail": "toolsAndAuthOnly"}
        try:
            servers = self.call("mcpServerStatus/list", asked).get("data")
        except Failed:
            return None  # an older daemon
        named = [one for one in servers if isinstance(one, dict)] if isinstance(servers, list) else []
        origins = [one.get("httpOrigin") for one in named if one.get("name") == SCREEN_SERVER]
        digits = str(origins[0]).removeprefix(LOOPBACK) if len(origins) == 1 else ""
        return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 6 else None

    def notify(self, method: str) -> None:
        self._send({"method": method})

    def _send(self, value: dict[str, Any]) -> None:
        data = json.dumps(value).encode()
        size = len(data)
        if size < 126:
            length = bytes([0x80 | size])
        elif size < 1 << 16:
            length = bytes([0x80 | 126]) + struct.pack(">H", size)
        else:
            length = bytes([0x80 | 127]) + struct.pack(">Q", size)
        mask = os.urandom(4)
        self._limit_time()
        self._socket.sendall(b"\x81" + length + mask + bytes(byte ^ mask[index % 4] for index, byte in enumerate(data)))

    def _receive(self) -> None:
        self._limit_time()
        part = self._socket.recv(65536)
        if not part:
            raise ValueError("it closed the connection")
        self._buffer += part
        if len(self._buffer) > MESSAGE_LIMIT:
            raise ValueError("its answer is too long")

    def _take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._receive()
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken

    def _message(self) -> dict[str, Any]:
        data = b""
        while True:
            first, second = self._take(2)
            size = second & 127
            if size == 126:
                size = struct.unpack(">H", self._take(2))[0]
            elif size == 127:
                size = struct.unpack(">Q", self._take(8))[0]
            part = self._take(size)
            opcode = first & 15
            if opcode == 8:
                raise ValueError("it closed the connection")
            if opcode in (9, 10):
                continue
            data += part
            if len(data) > MESSAGE_LIMIT:
                raise ValueError("its answer is too long")
            if first & 128:
                return decode(data) or {}
