"""schemathesis asks the daemon what its OpenAPI document allows, and what it does not, and compares the answers."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING, Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.support.daemon_home import DaemonHome, daemon_home
from tests.support.demo_home import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from schemathesis import Case

pytestmark = [pytest.mark.linux, pytest.mark.stress]
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
# Not the stream, which does not end, and not what would launch agents in any directory of this machine.
LEFT_OUT = ("events", "launch")


class OnLoopback:
    """Hands bytes between a port of the loopback and the daemon's socket: schemathesis knows no Unix sockets."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            far.connect(self._path)
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._hand_on, args=(one, other), daemon=True).start()

    @staticmethod
    def _hand_on(one: socket.socket, other: socket.socket) -> None:
        try:
            while data := one.recv(65536):
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self) -> None:
        self._listening.close()


@pytest.fixture(scope="module")
def home() -> Iterator[DaemonHome]:
    with daemon_home() as found:
        found.start_daemon()
        found.start("[[sleep:300]]")
        yield found


@pytest.fixture(scope="module")
def schema(home: DaemonHome) -> Iterator[schemathesis.BaseSchema]:
    bridge = OnLoopback(home.socket)
    yield schemathesis.openapi.from_url(f"{bridge.url}/v1/openapi.json")
    bridge.close()


def test_the_answers_are_as_the_document_says(home: DaemonHome, schema: schemathesis.BaseSchema) -> None:
    asked = []
    for result in schema.get_all_operations():
        assert isinstance(result, Ok)
        operation = result.ok()
        if operation.definition.raw["operationId"] in LEFT_OUT:
            continue

        @settings(
            max_examples=12,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=[*HealthCheck],
        )
        @given(operation.as_strategy())
        def run(case: Case[Any]) -> None:
            if isinstance(case.body, dict) and "timeout" in case.body:
                case.body["timeout"] = "0s"  # nobody waits for long here
            asked.append(case.call_and_validate(checks=CHECKS, timeout=TIMEOUT).status_code)

        run()
    assert 200 in asked and 400 in asked and 404 in asked
    assert "a bug of ours" not in home.ctl("daemon", "logs").stdout
