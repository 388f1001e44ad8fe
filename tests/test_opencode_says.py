"""What OpenCode says besides its sessions: its log, its HTTP interface, the conversation; and what asking costs."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from agentctl.agents import opencode, opencode_api
from agentctl.agents.opencode_api import Unanswered
from agentctl.agents.opencode_log import Tail, read_lines, read_trail
from tests.opencode_home import Home, line, tool
from tests.worlds import BOOT_TIME, FIXTURES

if TYPE_CHECKING:
    from pathlib import Path

    from agentctl.model import Page


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


# The log


def test_a_log_that_was_cut_or_written_over_proves_nothing(home: Home) -> None:
    home.process(10, 10)
    home.logs(10, line(20, "aa", "loop session.id=ses_a step=0"))
    for position in (5, 10_000):
        home._positions[10] = [position]
        processes = home.world().processes
        (process,) = processes.living()
        assert read_trail(process, str(home.log), processes) is None


def test_a_process_that_logs_errors_only_says_nothing_by_its_silence() -> None:
    data = line(20, "aa", "process error=x", "ERROR").encode()
    assert read_lines("log", "aa", data, whole=True, started=0.0) is None


def test_a_trail_has_the_lines_of_its_own_run() -> None:
    data = "".join(
        [
            line(20, "aa", "created id=ses_1 slug=x title=y"),
            line(21, "bb", "loop session.id=ses_2 step=0"),
            line(22, "aa", "loop session.id=ses_1 step=0"),
            line(23, "aa", 'evaluated permission=bash pattern=" run=aa message=loop session.id=ses_3 "'),
            line(24, "aa", "asking id=que_1 questions=1"),
            "a value with a line break run=aa message=loop session.id=ses_4\n",
        ]
    ).encode()
    trail = read_lines("log", "aa", data, whole=True, started=0.0)
    assert trail is not None
    assert (list(trail.sessions), sorted(trail.created), len(trail.asked)) == (["ses_1"], ["ses_1"], 1)


def test_lines_of_two_processes_are_out_of_order(tmp_path: Path) -> None:
    path = tmp_path / "opencode.log"
    path.write_text(line(30, "aa", "loop session.id=ses_1 step=0") + line(29, "bb", "loop session.id=ses_1 step=0"))
    log = Tail(str(path))
    assert log.runs_since("ses_1", BOOT_TIME + 29.5) == {"aa"}
    assert log.runs_since("ses_1", BOOT_TIME + 28) == {"aa", "bb"}
    assert log.runs_since("ses_1", BOOT_TIME + 31) == set()
    assert Tail(str(tmp_path / "none")).runs_since("ses_1", 0.0) == set()


# Its HTTP interface


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
    answer = opencode_api.ask(server.port, "/some dir/ä?")
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
        opencode_api.ask(server.port, "/x")
    server.close()


def test_a_server_that_does_not_answer_costs_little() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(Unanswered):
        opencode_api.ask(silent.getsockname()[1], "/x", seconds=0.05)


# The conversation


def brief(page: Page) -> list[tuple[str, str, bool]]:
    return [(message.role, message.text[:40], message.failed) for message in page.messages]


def store_of(root: Path) -> opencode.Store:
    store = opencode.open_store(str(root))
    store.survey()
    return store


@pytest.mark.parametrize(
    ("state", "id", "expected"),
    [
        (
            "finished_ok",
            "ses_e1f7a9cf4ffevwnWjBSFgoMUTq",
            [
                ("user", "please [[bash:echo hi]]", False),
                ("tool", "bash: echo hi", False),
                ("result", "hi", False),
                ("assistant", "all done (step 1)", False),
            ],
        ),
        (
            "api_error",
            "ses_e1f79eff8ffeCKg1CSLZLT7ion",
            [("user", "[[err:401]]", False), ("note", "APIError: fake error 401", True)],
        ),
        (
            "rejected_permission",
            "ses_e1f79815bffegBwrJhH5oTAC5d",
            [
                ("user", "[[bash:echo hi]]", False),
                ("tool", "bash: echo hi", False),
                ("result", "The user rejected permission to use this", True),
            ],
        ),
        (
            "legacy_1.0.185_storage",
            "ses_e1f7cc1a2ffeJ6DVYCJuINozY2",
            [
                ("user", "[[bash:sleep 3; echo x]]", False),
                ("tool", "bash: sleep 3; echo x", False),
                ("result", "x", False),
                ("assistant", "all done (step 1)", False),
            ],
        ),
    ],
)
def test_the_conversation_of_real_sessions(state: str, id: str, expected: list[tuple[str, str, bool]]) -> None:
    store = store_of(FIXTURES / "opencode" / state / "xdg_data" / "opencode")
    page = store.messages(id, 20)
    assert brief(page) == expected
    assert brief(store.messages(id, 1)) == expected[-1:]
    assert brief(store.messages(id, 0)) == []
    assert store.messages_after(id, page.cursor).messages == ()
    assert brief(store.messages_after(id, None)) == expected


def test_what_is_filled_in_later_is_shown_once(home: Home) -> None:
    home.session("ses_a", 10)
    home.prompt("ses_a", 11, "go")
    home.step("ses_a", 12, tool(), {"type": "text", "text": ""})
    store = store_of(home.data)
    page = store.messages("ses_a", 20)
    assert brief(page) == [("user", "go", False), ("tool", "bash: sleep 9", False)]
    assert store.messages_after("ses_a", page.cursor).messages == ()
    home._do("update part set data = ? where data like '%callID%'", json.dumps(tool("completed", output="slept")))
    page = store.messages_after("ses_a", page.cursor)
    assert brief(page) == [("result", "slept", False)]
    home._do("""update part set data = '{"type": "text", "text": "Done."}' where data like '%"text": ""%'""")
    home.prompt("ses_a", 13, "more")
    page = store.messages_after("ses_a", page.cursor)
    assert brief(page) == [("assistant", "Done.", False), ("user", "more", False)]
    home.step("ses_a", 14, {"type": "text", "text": "Well."}, end=15, finish="stop")
    home.prompt("ses_a", 16, "and more")
    page = store.messages_after("ses_a", page.cursor)
    assert brief(page) == [("assistant", "Well.", False), ("user", "and more", False)]
    assert store.messages_after("ses_a", page.cursor).messages == ()


def test_the_conversation_of_no_session_is_empty(home: Home) -> None:
    assert store_of(home.data).messages("ses_none", 5).messages == ()


# What it costs


def test_a_store_that_nobody_works_in_is_not_even_opened(home: Home) -> None:
    home.session("ses_a", 10)
    code = (
        "import sys; from agentctl import sessions; answer = sessions.query(sessions.Scope());"
        "print(answer.problems, 'sqlite3' in sys.modules, 'http.client' in sys.modules)"
    )
    env = {**os.environ, **home.env}
    found = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "() False False"
