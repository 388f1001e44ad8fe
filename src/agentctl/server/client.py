"""Asks the daemon: HTTP on its Unix socket, by the standard library alone."""

from __future__ import annotations

import http.client
import json
import socket

from agentctl.errors import AgentctlError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

PATIENCE = 10.0  # seconds for a short answer
SILENCE = 60.0  # seconds without a word of a stream: the daemon says something every 15


class OnSocket(http.client.HTTPConnection):
    """A connection to a Unix socket."""

    def __init__(self, path: str, timeout: float | None = PATIENCE) -> None:
        super().__init__("agentctl", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        try:
            self.sock.connect(self._path)
        except BaseException:
            self.sock.close()
            raise


def get(path: str, target: str, patience: float = PATIENCE) -> dict[str, Any]:
    """Return the JSON of an answer. Raises OSError and http.client.HTTPException if there is none, and AgentctlError
    with the daemon's own words if it is an error."""
    connection = OnSocket(path, patience)
    try:
        connection.request("GET", target)
        answer = connection.getresponse()
        found = json.loads(answer.read())
    except ValueError as error:
        raise http.client.HTTPException(f"no JSON: {error}") from error
    finally:
        connection.close()
    if not isinstance(found, dict):
        raise http.client.HTTPException("no JSON object")
    raise_error(found)
    return found


def raise_error(found: Mapping[str, Any]) -> None:
    if isinstance(error := found.get("error"), dict):
        failure = AgentctlError(str(error.get("message")))
        failure.exit_code = int(error.get("exit_code", 1))
        raise failure


class Stream:
    """A stream of events: yields (id, data); (None, None) while nothing is told. Ends when the daemon closes it. Raises
    OSError and HTTPException."""

    def __init__(self, path: str, target: str, last_id: str | None = None) -> None:
        self._connection = OnSocket(path, SILENCE)
        headers = {"accept": "text/event-stream", **({"last-event-id": last_id} if last_id else {})}
        try:
            self._connection.request("GET", target, headers=headers)
            self._answer = self._connection.getresponse()
            if self._answer.status != 200:
                try:
                    raise_error(json.loads(self._answer.read()))
                except ValueError:
                    pass
                raise http.client.HTTPException(f"status {self._answer.status}")
        except BaseException:
            self.close()
            raise

    def __iter__(self) -> Iterator[tuple[str | None, dict[str, Any] | None]]:
        id, data = None, ""
        while line := self._answer.readline():
            name, _, value = line.decode().rstrip("\r\n").partition(": ")
            if line.startswith(b":"):
                yield None, None
            elif name == "id":
                id = value
            elif name == "data":
                data += value
            elif not name and data:
                yield id, json.loads(data)
                id, data = None, ""

    def close(self) -> None:
        self._connection.close()
