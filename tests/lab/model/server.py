"""The HTTP side: one server on 127.0.0.1 for all wires, and its log, an independent witness of what an agent does."""

from __future__ import annotations

import json
import select
import socket
import threading
import time
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import IO, TYPE_CHECKING, Any, Protocol, cast

from tests.lab.model import anthropic, chat, gemini, responses
from tests.lab.model.script import Ask, Reply, plan, reply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType
    from typing import Self

HANG_LIMIT = 600.0
NAMING_HEADERS = ("session", "conversation", "thread")


class Wire(Protocol):
    NAME: str

    def matches(self, path: str) -> bool: ...
    def small_talk(self, path: str) -> dict[str, Any] | None: ...
    def read(self, path: str, body: dict[str, Any]) -> Ask: ...
    def error(self, code: int) -> dict[str, Any]: ...
    def whole(self, ask: Ask, reply: Reply, id: str) -> dict[str, Any]: ...
    def events(self, ask: Ask, reply: Reply, id: str) -> Iterator[bytes]: ...


WIRES = cast("tuple[Wire, ...]", (anthropic, responses, chat, gemini))


@dataclass(frozen=True)
class Entry:
    """One line of the log. `event`: request, then answered, cut or gone (the client left before the end)."""

    number: int
    at: float  # seconds, time.monotonic: comparable with every other process of this machine
    event: str
    wire: str
    path: str
    directive: str = ""
    turn: int = 0
    side: bool = False
    model: str = ""
    agent: str = ""  # the client's own words: user-agent
    ids: tuple[tuple[str, str], ...] = ()  # headers that name a session
    pid: int | None = None  # the process that asked, where `identify` can tell

    @property
    def session(self) -> str | None:
        """The id that the client itself gives its conversation."""
        own = {name: value for name, value in self.ids if "parent" not in name and "root" not in name}
        return own.get("thread-id") or next(iter(own.values()), None)


class ClientGone(Exception):
    """The client closed its connection while it was being answered."""


class ModelServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(
        self,
        port: int = 0,
        *,
        log: IO[str] | None = None,
        side_calls: bool = True,
        identify: Callable[[int], int | None] = lambda port: None,
    ) -> None:
        """`identify` may tell the pid behind a local port, while its connection is open."""
        super().__init__(("127.0.0.1", port), Handler)
        self.side_calls = side_calls
        self.identify = identify
        self.entries: list[Entry] = []
        self.unknown: list[str] = []  # requests that no wire knows
        self.asked: dict[int, Ask] = {}  # by the number of their entries: what the model was asked, whole
        self.closing = threading.Event()
        self.sent: dict[int, float] = {}  # number -> when the first byte of its answer was about to be sent
        self._let_go: set[int] = set()
        self._file = log
        self._changed = threading.Condition()
        self._count = 0

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self.shutdown()
        self.server_close()

    def next_number(self) -> int:
        with self._changed:
            self._count += 1
            return self._count

    def let_go(self, number: int) -> None:
        """Answer a request that a [[hold]] keeps waiting; of any other it changes nothing."""
        self._let_go.add(number)

    def is_let_go(self, number: int) -> bool:
        return number in self._let_go

    def note(self, entry: Entry) -> None:
        with self._changed:
            self.entries.append(entry)
            if self._file is not None:
                self._file.write(json.dumps(asdict(entry)) + "\n")
                self._file.flush()
            self._changed.notify_all()

    def wait_for(self, condition: Callable[[list[Entry]], bool], seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: condition(self.entries), seconds)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that vanished is part of the game; it was noted where it matters."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ModelServer

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        if self.path.split("?")[0].endswith("/models"):
            models = [{"id": "fake-model", "object": "model", "owned_by": "lab"}]
            self.send_json(200, {"object": "list", "data": models})
        else:
            self.refuse()

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        path = self.path.split("?")[0]
        wire = next((wire for wire in WIRES if wire.matches(path)), None)
        try:
            body = json.loads(raw or b"{}")
        except ValueError:
            body = None
        if wire is None or not isinstance(body, dict):
            self.refuse()
        elif (said := wire.small_talk(path)) is not None:
            self.send_json(200, said)
        else:
            self.answer(wire, path, body)

    def refuse(self) -> None:
        self.server.unknown.append(f"{self.command} {self.path}")
        self.send_json(404, {"error": {"type": "not_found_error", "message": "the lab's model does not speak this"}})

    def answer(self, wire: Wire, path: str, body: dict[str, Any]) -> None:
        ask = wire.read(path, body)
        due = plan(ask, side_calls=self.server.side_calls)
        number = self.server.next_number()
        self.server.asked[number] = ask
        ids = tuple(
            (name.lower(), value)
            for name, value in self.headers.items()
            if any(word in name.lower() for word in NAMING_HEADERS)
        )
        agent = str(self.headers.get("user-agent") or "")
        pid = self.server.identify(int(self.client_address[1]))

        def note(event: str) -> None:
            self.server.note(
                Entry(
                    number,
                    time.monotonic(),
                    event,
                    wire.NAME,
                    path,
                    str(due.directive) if not due.side else "",
                    due.turn,
                    due.side,
                    ask.model,
                    agent,
                    ids,
                    pid,
                )
            )

        note("request")
        try:
            chosen = reply(due.directive, ask)
            self.send_reply(wire, ask, chosen, number)
            note("cut" if chosen.cut else "answered")
        except (ClientGone, BrokenPipeError, ConnectionResetError):
            self.close_connection = True
            note("gone")

    def send_reply(self, wire: Wire, ask: Ask, chosen: Reply, number: int) -> None:
        id = f"lab{number:06d}"
        if chosen.hang or chosen.held:
            self.pause(HANG_LIMIT, number)
            if not self.server.is_let_go(number):
                raise ClientGone
        self.pause(chosen.wait_before)
        self.server.sent[number] = time.monotonic()
        if chosen.error is not None:
            retry = {"retry-after": chosen.retry_after} if chosen.retry_after else {}
            self.send_json(chosen.error, wire.error(chosen.error), retry)
        elif not ask.stream:
            self.pause(chosen.wait_between * len(chosen.words))
            if chosen.cut:
                raise ClientGone
            self.send_json(200, wire.whole(ask, chosen, id))
        else:
            self.send_stream(wire, ask, chosen, id)

    def send_stream(self, wire: Wire, ask: Ask, chosen: Reply, id: str) -> None:
        self.close_connection = True  # the end of the stream is the end of the connection
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        events = list(wire.events(ask, chosen, id))
        for data in events[: len(events) // 2] if chosen.cut else events:
            self.wfile.write(data)
            self.wfile.flush()
            self.pause(chosen.wait_between)

    def pause(self, seconds: float, number: int = 0) -> None:
        """Wait, but not longer than there is someone to answer; of a request that is held, until it is let go."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0 and not self.server.is_let_go(number):
            if self.server.closing.is_set() or self.client_left():
                raise ClientGone
            time.sleep(min(0.05, left))

    def client_left(self) -> bool:
        readable, _, _ = select.select([self.connection], [], [], 0)
        return bool(readable) and self.connection.recv(1, socket.MSG_PEEK) == b""

    def send_json(self, code: int, value: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        data = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        for name, text in (headers or {}).items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(data)
