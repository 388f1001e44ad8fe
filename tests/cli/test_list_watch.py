"""list --watch, on a real terminal: it redraws, fits, and gives the terminal back."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from agentctl.cli import list_watch, output
from agentctl.cli.list_watch import ENTER, LEAVE, drawn
from agentctl.model import Session
from tests.support.demo_home import TIMEOUT, Home, wait_until
from tests.support.pty_command import OnTerminal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.linux
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    found = Home(tmp_path)
    yield found
    found.end_all()


@pytest.fixture
def screens() -> Iterator[list[OnTerminal]]:
    found: list[OnTerminal] = []
    yield found
    for screen in found:
        screen.close()


def test_it_redraws_on_changes_and_gives_the_terminal_back(home: Home, screens: list[OnTerminal]) -> None:
    screen = OnTerminal(home.env, "list", "--watch")
    screens.append(screen)
    screen.shows(lambda text: "0 sessions" in text and "no sessions" in text, "an empty table")
    id, _ = home.start("[[ask:make tea]] [[idle]]")
    screen.shows(lambda text: "1 session: " in text and "1 waiting" in text and id[:8] in text, "the question")
    assert "permission to run: make tea" in screen.frame
    (home.folder(id) / "answer").write_text("n")
    screen.shows(lambda text: "1 idle" in text, "the idle session")
    screen.press("\x03")
    assert screen.ends() == 130
    assert screen.output.count(ENTER) == screen.output.count(LEAVE) == 1
    assert ESCAPES.sub("", screen.output.rpartition(LEAVE)[2]).strip() in ("", "^C")


def test_a_smaller_terminal_gets_a_smaller_table(home: Home, screens: list[OnTerminal]) -> None:
    for _ in range(3):
        home.start("[[sleep:300]]")
    screen = OnTerminal(home.env, "list", "--watch")
    screens.append(screen)
    screen.shows(lambda text: "MODEL" in text and "3 running" in text, "a wide table")
    screen.resize(40, 5)
    screen.shows(lambda text: "MODEL" not in text and "more line" in text, "a small table")
    lines = ESCAPES.sub("", screen.frame).replace("\r", "").split("\n")
    assert len(lines) == 5
    assert max(map(len, lines)) <= 40
    screen.press("\x03")
    assert screen.ends() == 130


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_gives_the_terminal_back(home: Home, screens: list[OnTerminal], number: int) -> None:
    screen = OnTerminal(home.env, "list", "--watch")
    screens.append(screen)
    screen.shows(lambda text: "0 sessions" in text, "a table")
    screen.child.send_signal(number)
    assert screen.ends() == 128 + number
    assert screen.output.endswith(LEAVE)


def test_ctrl_z_gives_the_terminal_back_for_a_while(home: Home, screens: list[OnTerminal]) -> None:
    screen = OnTerminal(home.env, "list", "--watch")
    screens.append(screen)
    screen.shows(lambda text: "0 sessions" in text, "a table")
    screen.child.send_signal(signal.SIGTSTP)
    wait_until(lambda: screen.read().endswith(LEAVE), "the terminal")
    wait_until(lambda: is_stopped(screen.child.pid), "its stop")
    screen.child.send_signal(signal.SIGCONT)
    wait_until(lambda: screen.read().count(ENTER) == 2 and "0 sessions" in screen.frame, "the table again")
    screen.press("\x03")
    assert screen.ends() == 130


def is_stopped(pid: int) -> bool:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] == "T"


@pytest.mark.parametrize(("arguments", "why"), [((), "stdout is none"), (("--json",), "with --json there is none")])
def test_elsewhere_it_is_refused(home: Home, arguments: tuple[str, ...], why: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "agentctl", "list", "--watch", *arguments],
        env=home.env,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 2
    assert why in done.stderr and "agentctl events -f" in done.stderr
    assert done.stdout == ""


def test_a_dumb_terminal_is_not_redrawn(home: Home, screens: list[OnTerminal]) -> None:
    screen = OnTerminal({**home.env, "TERM": "dumb"}, "list", "--watch")
    screens.append(screen)
    assert screen.ends() == 2
    assert "TERM=dumb" in screen.output and "\x1b[?1049h" not in screen.output


def test_a_group_that_is_not_there_is_an_error_as_in_list(home: Home, screens: list[OnTerminal]) -> None:
    screen = OnTerminal(home.env, "list", "--watch", "--group", "nobody")
    screens.append(screen)
    assert screen.ends() == 3
    assert "no group 'nobody'" in screen.output.rpartition(LEAVE)[2]


def test_what_is_drawn_fits() -> None:
    lines = [f"line {number} " + "x" * 50 for number in range(9)]
    text = drawn(lines, 20, 4)
    shown = ESCAPES.sub("", text).split("\r\n")
    assert shown[:3] == [f"line {number} {'x' * 12}…" for number in range(3)]
    assert shown[3].startswith("6 more lines")
    assert ESCAPES.sub("", drawn(["a", "b"], 20, 2)).split("\r\n") == ["a", "b"]


def test_an_agent_cannot_draw(home: Home, screens: list[OnTerminal]) -> None:
    home.start("-p", "\x1b]0;title\x07 \x1b[2J [[sleep:300]]")
    screen = OnTerminal(home.env, "list", "--watch")
    screens.append(screen)
    screen.shows(lambda text: "1 running" in text, "the session")
    assert "\x1b]0" not in screen.output and "\x07" not in screen.output and "\x1b[2J" not in screen.output


def test_the_counts_fit_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "colourful", lambda: True)
    rows = [Session(word, "demo", word, "alive", "idle") for word in ("idle", "running", "waiting")]
    monkeypatch.setattr(list_watch, "width", lambda: 80)
    assert "\x1b[" in list_watch.counts(rows, 0.0)
    monkeypatch.setattr(list_watch, "width", lambda: 30)
    assert "\x1b[" not in list_watch.counts(rows, 0.0)
