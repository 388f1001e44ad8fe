"""agentctl wait as a script uses it: the real program, its words, its exit codes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.test_cli import SESSION_FIELDS
from tests.support.demo_home import TIMEOUT, Home, session_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    found = Home(tmp_path)
    yield found
    found.end_all()


class Program:
    """A wait that has said for whom it waits."""

    def __init__(self, home: Home, *words: str) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-m", "agentctl", "wait", *words],
            env=home.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._child.stderr is not None
        self.first = self._child.stderr.readline()

    def line(self) -> str:
        assert self._child.stdout is not None
        return self._child.stdout.readline().rstrip("\n")

    def interrupt(self) -> None:
        self._child.send_signal(signal.SIGINT)

    def end(self) -> tuple[int, list[str], str]:
        try:
            out, err = self._child.communicate(timeout=TIMEOUT)
        finally:
            self._child.kill()
        assert "Traceback" not in err
        return self._child.returncode, out.splitlines(), err


def test_each_transition_is_a_line_as_it_happens(home: Home) -> None:
    id, _ = home.start("[[ask:make tea]] [[fail:no tea]]")
    home.wait_for_status(id, "waiting")
    wait = Program(home, id[:12], "--until", "ended", "--timeout", "1m")
    assert wait.first == f"waiting for {id}: waiting\n"
    (home.folder(id) / "answer").write_text("y")
    code, lines, errors = wait.end()
    assert code == 6
    assert lines[-2].endswith("-> failed: no tea")
    assert all(line.startswith(f"{id} ") and " -> " in line for line in lines[:-1])
    assert lines[-1] == f"{id} failed: no tea"
    assert errors == ""


def test_a_line_comes_at_once(home: Home) -> None:
    """Also into a pipe, while it goes on."""
    id, child = home.start("[[bash:while [ ! -e go ]; do sleep 0.02; done]] [[ask:true]] [[sleep:300]]")
    wait = Program(home, id, "--until", "idle")
    (home.root.parents[1] / "go").touch()
    assert wait.line() == f"{id} running -> waiting: permission to run: true"
    (home.folder(id) / "answer").write_text("y")
    assert wait.line() == f"{id} waiting -> running"
    child.kill()
    assert wait.end()[0] == 7


def test_json_is_an_object_a_line(home: Home) -> None:
    id, child = home.start("[[sleep:300]]")
    wait = Program(home, id, "--json")
    pid = child.pid
    child.kill()
    code, lines, _ = wait.end()
    change, final = (json.loads(line) for line in lines)
    at = change.pop("at")
    assert at.endswith("Z")
    assert change == {
        "schema": 1,
        "event": "transition",
        "id": id,
        "launch_id": None,
        "agent": "demo",
        "from": "running",
        "to": "stopped",
        "reason": f"its process (pid {pid}) is gone, in mid-turn",
        "pid": None,
    }
    assert code == 7
    assert list(final) == ["schema", "sessions", "launches", "exit_code", "not_kept"]
    assert (final["schema"], final["launches"], final["exit_code"]) == (1, [], 7)
    assert set(final["sessions"][0]) == set(SESSION_FIELDS.split())


def test_the_time_is_over(home: Home) -> None:
    id, _ = home.start("[[sleep:300]]")
    wait = Program(home, id, "--timeout", "0.1s")
    code, lines, errors = wait.end()
    assert (code, lines) == (124, [f"{id} running"])
    assert (wait.first + errors).endswith("agentctl: timed out after 0.1s\n")


def test_ctrl_c_ends_it_in_silence(home: Home) -> None:
    id, child = home.start("[[sleep:300]]")
    wait = Program(home, id)
    wait.interrupt()
    assert wait.end() == (130, [], "")
    assert child.poll() is None


def test_twenty_waits_at_once(home: Home) -> None:
    id, child = home.start("[[sleep:300]]")
    waits = [Program(home, id, "--json") for _ in range(20)]
    child.kill()
    ends = [wait.end() for wait in waits]
    assert {code for code, _, _ in ends} == {7}
    assert {json.loads(lines[-1])["sessions"][0]["status"] for _, lines, _ in ends} == {"stopped"}


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "which session?"),
        (("nobody",), 3, "no session 'nobody'"),
        (("--group", "nobody"), 3, "no group 'nobody'"),
        (("x", "--timeout", "soon"), 2, "'soon'"),
        (("x", "--until", "bored"), 2, "invalid choice"),
    ],
)
def test_what_cannot_be_waited_for(home: Home, words: tuple[str, ...], code: int, said: str) -> None:
    done: Any = subprocess.run(
        [sys.executable, "-m", "agentctl", "wait", *words],
        env=home.env,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr


def test_the_first_of_two(home: Home) -> None:
    done = session_of(home.run("-p", "x"))
    id, _ = home.start("[[sleep:300]]")
    code, lines, _ = Program(home, id, done, "--any").end()
    assert code == 0
    assert lines[0] == f"{id} running"
    assert lines[1].startswith(f"{done} done")
