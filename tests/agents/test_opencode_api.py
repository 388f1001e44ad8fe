"""OpenCode's HTTP interface: three questions, and what is not understood is no answer."""

from __future__ import annotations

import json
import socket
import threading

import pytest

from agentctl.agents.opencode import api
from agentctl.agents.opencode.api import Unanswered


class Server:
    """Answers each request with what it is given, and keeps what it was asked."""

    def __init__(self, answers: dict[str, bytes]) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                request = connection.recv(65536).decode().splitlines()[0]
                self.asked.append(request)
                body = self.answers.get(request.split()[1].split("?")[0], b"")
                connection.sendall(body)

    def close(self) -> None:
        self._socket.close()


def ok(value: object) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + json.dumps(value).encode()


def test_three_questions_about_one_directory() -> None:
    permission = {"sessionID": "ses_a", "permission": "bash", "patterns": ["ls *"], "metadata": {"command": "ls x"}}
    question = {"sessionID": "ses_b", "questions": [{"question": "Which?"}]}
    retry = {"type": "retry", "attempt": 2, "message": "overloaded"}
    server = Server(
        {
            "/session/status": ok({"ses_a": {"type": "busy"}, "ses_b": {"type": "busy"}, "ses_c": retry}),
            "/permission": ok([permission]),
            "/question": ok([question]),
        }
    )
    answer = api.ask(server.port, "/some dir/ä?")
    server.close()
    assert answer.active == {"ses_a": None, "ses_b": None, "ses_c": "overloaded"}
    assert answer.waiting == {"ses_a": "permission: bash: ls x", "ses_b": "question: Which?"}
    target = "?directory=/some%20dir/%C3%A4%3F HTTP/1.0"
    assert sorted(server.asked) == [f"GET /{name}{target}" for name in ("permission", "question", "session/status")]


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 401 Unauthorized\r\n\r\n",
        ok([]),
        b"HTTP/1.1 200 OK\r\n\r\n<html>",
        b"",
        ok({})[:9],
    ],
)
def test_an_answer_of_another_kind_is_none(answer: bytes) -> None:
    server = Server(dict.fromkeys(("/session/status", "/permission", "/question"), answer))
    with pytest.raises(Unanswered):
        api.ask(server.port, "/x")
    server.close()


@pytest.mark.parametrize(
    ("path", "odd"),
    [
        ("/session/status", {"ses_a": 7}),
        ("/session/status", {"ses_a": {"type": ["busy"]}}),
        ("/session/status", {"ses_a": {"type": "thinking"}}),
        ("/permission", [7]),
        ("/question", [{"id": "que_1"}]),
    ],
)
def test_what_is_not_understood_is_not_taken_for_rest(path: str, odd: object) -> None:
    empty: dict[str, object] = {"/session/status": {}, "/permission": [], "/question": []}
    server = Server({name: ok(value) for name, value in {**empty, path: odd}.items()})
    with pytest.raises(Unanswered):
        api.ask(server.port, "/x")
    server.close()


def test_a_server_that_does_not_answer_costs_little() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(Unanswered):
        api.ask(silent.getsockname()[1], "/x", seconds=0.05)
