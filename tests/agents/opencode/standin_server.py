"""A stand-in for `opencode serve`, or a screen with a port: it answers for the sessions that it runs itself."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from tests.agents.opencode.standin import OpenCode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class OpenCodeServer(OpenCode):
    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        self.statuses: dict[str, dict[str, Any]] = {}
        self.asking: list[dict[str, Any]] = []
        self.manner = "honest"
        self.asked_about: set[str] = set()

    def do_serve(self) -> dict[str, int]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.answer(self)

            def log_message(self, *words: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return {"port": server.server_address[1]}

    def do_say(self, id: str, status: dict[str, Any] | None) -> None:
        """busy, or retry; None = it is not busy with it."""
        self.statuses.pop(id, None)
        if status is not None:
            self.statuses[id] = status

    def do_ask_person(self, id: str, command: str) -> None:
        request = {"id": "per_1", "sessionID": id, "permission": "bash", "patterns": [command]}
        self.asking.append({**request, "metadata": {"command": command}})

    def do_behave(self, manner: str) -> None:
        """honest, silent, password, or odd."""
        self.manner = manner

    def do_asked(self) -> dict[str, list[str]]:
        """The directories that it was asked about: it would have opened each of them."""
        return {"directories": sorted(self.asked_about)}

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        if self.manner == "silent":
            time.sleep(600)
        parts = urlsplit(request.path)
        directory = parse_qs(parts.query).get("directory", [self.cwd])[0]
        self.asked_about.add(directory)
        mine = {id for id, one in self.sessions.items() if one.directory == directory}
        found: Any = [one for one in self.asking if one["sessionID"] in mine] if parts.path == "/permission" else []
        if parts.path == "/session/status":
            found = {id: status for id, status in self.statuses.items() if id in mine}
        if self.manner == "odd":
            found = {"a": 7, "b": [], "c": {"type": ["busy"]}} if isinstance(found, dict) else [None, 7, {"id": []}]
        body = json.dumps(found).encode()
        request.send_response(401 if self.manner == "password" else 200)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)
