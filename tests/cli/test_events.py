"""agentctl events: a checkpoint, then each change at once; quiet when its reader goes away."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.demo_home import TIMEOUT, Home, wait_until
from tests.support.pty_command import OnTerminal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.linux
FIELDS = ["schema", "type", "at", "agent", "id", "from", "to", "reason", "session", "problem", "question"]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    found = Home(tmp_path)
    yield found
    found.end_all()


def ctl(home: Home, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "agentctl", *arguments],
        env=home.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
    return done


class Stream:
    """`agentctl events -f` in a pipe, and the lines that have come so far."""

    def __init__(self, home: Home, *arguments: str) -> None:
        self.child = subprocess.Popen(
            [sys.executable, "-m", "agentctl", "events", "-f", *arguments],
            env=home.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            self.lines.append(line)

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in [*self.lines]]

    def comes(self, **fields: object) -> dict[str, Any]:
        def found() -> dict[str, Any] | None:
            return next((e for e in self.events() if all(e.get(key) == fields[key] for key in fields)), None)

        event: dict[str, Any] = wait_until(found, f"an event {fields}")
        return event

    @contextmanager
    def suspended(self) -> Iterator[None]:
        self.child.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.child.send_signal(signal.SIGCONT)

    def end(self, number: int = signal.SIGINT) -> tuple[int, str]:
        self.child.send_signal(number)
        code = self.child.wait(TIMEOUT)
        self._thread.join(TIMEOUT)
        assert self.child.stderr is not None and self.child.stdout is not None
        said = self.child.stderr.read()
        self.child.stderr.close()
        self.child.stdout.close()
        return code, said


@pytest.fixture
def streams() -> Iterator[list[Stream]]:
    found: list[Stream] = []
    yield found
    for stream in found:
        if stream.child.poll() is None:
            stream.end(signal.SIGKILL)


def test_without_f_it_prints_one_checkpoint_that_agrees_with_list(home: Home) -> None:
    id, _ = home.start("[[sleep:300]]")
    home.run("-p", "ended")
    found = json.loads(ctl(home, "events").stdout)
    assert list(found) == ["schema", "type", "at", "sessions", "problems"]
    assert (found["schema"], found["type"], found["problems"]) == (1, "checkpoint", [])
    listed = json.loads(ctl(home, "list", "--json").stdout)
    assert [session["id"] for session in found["sessions"]] == [id]
    assert found["sessions"] == listed["sessions"]


def test_each_change_comes_at_once_as_one_line(home: Home, streams: list[Stream]) -> None:
    streams.append(stream := Stream(home))
    stream.comes(type="checkpoint")
    id, child = home.start("[[ask:make tea]] [[idle]]")
    event = stream.comes(id=id, to="waiting")
    assert list(event) == FIELDS
    assert event["reason"] == event["session"]["waiting_for"] == "permission to run: make tea"
    assert event["question"] == event["session"]["questions"][0]
    assert event["question"]["detail"] == {"command": "make tea"}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", event["at"])
    (home.folder(id) / "answer").write_text("n")
    stream.comes(id=id, to="idle")
    child.kill()
    child.wait()
    event = stream.comes(id=id, to="done")
    assert (event["type"], event["from"], event["session"]["process"]) == ("session.done", "idle", "gone")
    assert stream.end() == (130, "")  # Ctrl-C is quiet


def test_filters(home: Home, streams: list[Stream]) -> None:
    streams.append(everything := Stream(home))
    streams.append(questions := Stream(home, "--type", "session.waiting"))
    streams.append(other_group := Stream(home, "--group", "nobody"))
    streams.append(demo := Stream(home, "--agent", "demo", "--type", "session.idle", "--type", "session.removed"))
    for stream in (everything, other_group):
        stream.comes(type="checkpoint")
    id, _ = home.start("[[ask:make tea]] [[idle]]")
    assert questions.comes(id=id)["to"] == "waiting"
    everything.comes(id=id, to="waiting")
    (home.folder(id) / "answer").write_text("n")
    assert demo.comes(id=id)["to"] == "idle"
    everything.comes(id=id, to="idle")
    assert {event["to"] for event in questions.events()} == {"waiting"}
    assert {event["to"] for event in demo.events()} == {"idle"}
    assert [event["type"] for event in other_group.events()] == ["checkpoint"]


def test_a_group(home: Home, streams: list[Stream], tmp_path: Path) -> None:
    streams.append(stream := Stream(home, "--group", "night"))
    stream.comes(type="checkpoint")
    launched = ctl(home, "launch", "demo", "-p", "[[text:x]]", "--group", "night", "--cwd", str(tmp_path), "--json")
    id = json.loads(launched.stdout)["session"]["id"]
    wait_until(lambda: ctl(home, "wait", id).returncode == 0, "its end")
    home.run("-p", "of no group")
    events = stream.events()
    assert {event["session"]["group"] for event in events if event.get("session")} <= {"night"}


@pytest.mark.parametrize("arguments", [("events",), ("events", "-f")])
def test_replay_needs_the_daemon(home: Home, arguments: tuple[str, ...]) -> None:
    done = ctl(home, *arguments, "--since", "2h", code=3)
    assert done.stderr == "agentctl: the daemon is not running; `agentctl daemon start` starts it\n"
    assert done.stdout == ""
    assert "--since 'nonsense'" in ctl(home, *arguments, "--since", "nonsense", code=2).stderr


def test_wrong_words(home: Home) -> None:
    assert "unknown agent 'nobody'" in ctl(home, "events", "--agent", "nobody", code=2).stderr
    assert "session.waiting" in ctl(home, "events", "--type", "waiting", code=2).stderr
    assert "not both" in ctl(home, "events", "--json", "--text", code=2).stderr


def test_a_reader_that_goes_away_ends_it_without_another_event(home: Home) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "agentctl", "events", "-f"], env=home.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdout is not None and child.stderr is not None
    assert b"checkpoint" in child.stdout.readline()
    child.stdout.close()
    assert child.wait(TIMEOUT) == 0
    assert child.stderr.read() == b""
    child.stderr.close()


def test_text_is_for_people_and_an_agent_cannot_draw(home: Home) -> None:
    id, _ = home.start("-p", "[[ask:printf '\x1b[2J\x07']]")
    home.wait_for_status(id, "waiting")
    line = ctl(home, "events", "--text").stdout
    assert re.fullmatch(
        rf"\d\d:\d\d:\d\d  {id[:8]}  demo  ~  waiting  permission to run: printf '\\x1b\[2J\\x07'\n", line
    )


def test_on_a_terminal_it_is_text(home: Home) -> None:
    screen = OnTerminal({**home.env, "NO_COLOR": "1"}, "events", "-f")
    try:
        wait_until(lambda: "no sessions now" in screen.read(), "the checkpoint")
        id, child = home.start("[[ask:make tea]] [[idle]]")
        wait_until(lambda: "-> waiting  permission to run: make tea" in screen.read(), "the question")
        child.kill()
        child.wait()
        wait_until(lambda: re.search(rf"{id[:8]}  demo  ~  waiting -> stopped", screen.read()), "the end")
        screen.press("\x03")
        assert screen.ends() == 130
        assert "{" not in screen.output
    finally:
        screen.close()


def test_what_cannot_be_read_is_told(home: Home, streams: list[Stream]) -> None:
    id, _ = home.start("[[sleep:300]]")
    streams.append(stream := Stream(home))
    stream.comes(type="checkpoint")
    folder = home.root / "sessions"
    with stream.suspended():  # for it, the folder is never absent
        folder.rename(home.root / "away")
        folder.write_text("not a folder")
    event = stream.comes(type="agent.problem")
    assert (event["agent"], event["id"], event["session"]) == ("demo", None, None)
    assert event["problem"]["path"].startswith(str(folder))
    with stream.suspended():
        folder.unlink()
        (home.root / "away").rename(folder)
    stream.comes(type="agent.recovered", problem=event["problem"])
    assert not {event["to"] for event in stream.events() if event.get("id") == id} & {"done", "stopped", None}


def test_a_problem_as_text(home: Home) -> None:
    from agentctl.cli.events import line_of
    from agentctl.live.difference import PROBLEM, RECOVERED, Event
    from agentctl.model import Problem

    problem = Problem("demo", "no \x1b answer", "/a/b")
    assert line_of(Event(PROBLEM, -1.0, "demo", problem=problem)).endswith(
        "demo: problem: demo could not be read: /a/b: no \\x1b answer"
    )
    assert "demo: no problem any more: " in line_of(Event(RECOVERED, -1.0, "demo", problem=problem))
