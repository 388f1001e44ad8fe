"""Words that people read: each says what is true, in one way everywhere."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import time
from argparse import ArgumentParser
from typing import TYPE_CHECKING

import pytest

from agentctl.cli import attach, completion, output, peek, status
from agentctl.errors import remedy
from agentctl.model import ALIVE, Message, Session
from agentctl.terminal import tmux
from agentctl.terminal.locate import Seat
from agentctl.usage.report import usd
from agentctl.workspace.occupancy import of_session
from tests.support.children import until
from tests.support.demo_home import TIMEOUT, Home
from tests.support.facts import row

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    found = Home(tmp_path)
    yield found
    found.end_all()


@pytest.mark.parametrize(
    ("cost", "shown"),
    [
        (0, "$0.00"),
        (0.00001, "<$0.0001"),
        (0.0012, "$0.0012"),
        (0.5, "$0.5000"),
        (1.5, "$1.50"),
        (12345.6, "$12,345.60"),
    ],
)
def test_what_costs_little_does_not_cost_nothing(cost: float, shown: str) -> None:
    assert usd(cost) == shown


def test_room_is_asked_for_only_if_there_is_none() -> None:
    assert remedy(OSError(errno.ENOSPC, "")) == "make room there"
    for number in (errno.EACCES, errno.EPERM, errno.EROFS):
        assert remedy(OSError(number, "")) == "make it writable for you"
    assert "room" not in remedy(OSError(errno.EIO, ""))


def test_status_and_peek_tell_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        at = 1_800_000_000.0
        session = Session("s", "demo", "idle", ALIVE, "idle", started_at=at)
        assert "2027-01-15 17:00:00" in status.work(session)["started"]
        assert peek.line_of(Message("user", "hello", at)).startswith("17:00:00")
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_window_is_called_after_its_agent_and_place() -> None:
    assert tmux.window_name("demo", "/home/a/project/") == "demo project"
    assert tmux.window_name("demo", None) == "demo"
    assert "#" not in tmux.window_name("demo", "/x/#(touch y)")
    assert len(tmux.window_name("demo", "x" * 500)) <= 40


@pytest.mark.stress  # `make test` needs no tmux
@pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")
@pytest.mark.parametrize(
    ("name", "shown_as"),
    [
        ("#(touch ran)", "demo --touch-ran-"),
        ("#{pid}", "demo --pid-"),
        ("##[x]", "demo ---x-"),
        ("a;b;", "demo a-b-"),
        ("%H", "demo -H"),
    ],
)
def test_tmux_shows_that_name_and_runs_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, shown_as: str
) -> None:
    """tmux runs the command in a start directory such as `#(command)`, in the directory of its server."""
    folder, elsewhere = tmp_path / name, tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    env = {"PATH": os.environ["PATH"], "TMUX_TMPDIR": str(tmp_path), "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    pane = tmux.open_session("s", tmux.window_name("demo", str(folder)), str(folder), ["sleep", "300"], env)
    words = ["display-message", "-p", "-t", pane.id, "#{window_name}|#{pane_current_path}"]
    try:
        until(lambda: not tmux.ask(pane.socket, words, env).strip().endswith("|"))  # it has forked, and is starting
        shown = tmux.ask(pane.socket, words, env)
        time.sleep(0.3)  # a command would run in the background
    finally:
        tmux.close_session(pane, env)
    assert shown.strip() == f"{shown_as}|{folder}"
    assert [*folder.iterdir(), *elsewhere.iterdir()] == []


def test_attach_says_that_tmux_is_missing(tmp_path: Path) -> None:
    target = attach.Target("s", row(7, tty=136 << 8), None)  # type: ignore[arg-type]
    there = attach.why_not(target, Seat("/dev/pts/0"), {"PATH": str(tmp_path)})
    assert "tmux is not installed" in there
    program = tmp_path / "tmux"
    program.touch(0o755)
    assert "tmux is not installed" not in attach.why_not(target, Seat("/dev/pts/0"), {"PATH": str(tmp_path)})


def test_a_session_that_a_person_resumed_is_not_called_launched() -> None:
    session = Session("s", "demo", "idle", ALIVE, "idle", cwd="/w", launch_id="l")
    by_hand, launched = of_session(session, ()), of_session(session, {"l"})
    assert by_hand is not None and launched is not None
    assert (by_hand.why, launched.why) == ("is idle", "is idle, launched by agentctl")


def test_completion_offers_live_sessions_to_what_ends_or_shows_them(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    live, _ = home.start("-p", "[[sleep:300]]")
    home.run("-p", "[[text:hello]]")
    for name, value in home.env.items():
        monkeypatch.setenv(name, value)
    assert completion.live_ids() == [live]
    assert completion.live_ids(live[:4]) == [live]
    assert completion.live_ids("zz") == []
    assert len(completion.session_ids()) == 2
    for verb, completer in (("stop", completion.live_ids), ("status", completion.session_ids)):
        parser = ArgumentParser()
        action = parser.add_argument("id")
        completion.add_completers(parser, verb)
        assert action.completer is completer  # type: ignore[attr-defined]


def test_prune_is_brief(home: Home) -> None:
    command = [sys.executable, "-m", "agentctl"]
    for _ in range(3):
        subprocess.run(
            [*command, "launch", "demo", "-p", "[[text:x]]", "--wait"],
            env=home.env,
            capture_output=True,
            timeout=TIMEOUT,
        )
    done = subprocess.run([*command, "prune"], env=home.env, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.stdout == "3 launches kept; --dry-run says why\n"


def test_a_moment_that_nobody_has_is_empty() -> None:
    assert output.local(None) == output.local(-1.0) == output.local(1e30) == ""
