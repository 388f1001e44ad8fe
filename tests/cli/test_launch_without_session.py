"""A launch that has no session: `list` shows it, `peek` shows what it printed, and nobody is sent in a circle."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from agentctl.cli import completion
from tests.support.children import until
from tests.support.screen_home import ScreenHome

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ASKS = "#!/bin/sh\necho 'Do you trust the files in this folder?'\nsleep 300\n"  # no adapter knows such a wrapper
KEY = "sk-ant-api03-" + "Ab3" * 12


@pytest.fixture
def home(tmp_path: Path) -> Iterator[ScreenHome]:
    found = ScreenHome(tmp_path)
    yield found
    found.end_all()


def launched(home: ScreenHome, text: str = ASKS, *words: str) -> str:
    """Return the id of a headless launch whose agent names no session."""
    home.program("claude", text)
    done = home.agentctl("launch", "claude", "-p", "x", "--id-timeout", "1s", *words)
    assert done.returncode == 124, done.stderr
    (launch,) = home.launches()
    assert f"agentctl peek {launch.id}" in done.stderr
    return launch.id


def test_list_shows_a_launch_that_no_agent_claims(home: ScreenHome) -> None:
    id = launched(home)
    (entry,) = home.listed()["unattached"]
    assert (entry["agent"], entry["launch_id"], entry["pid"]) == ("claude-code", id, home.launches()[0].child.pid)
    assert "is on no session now" in entry["why"]
    shown = home.agentctl("list").stdout
    assert f"(launch {id})" in shown
    assert home.listed("--agent", "claude")["unattached"] == [entry]
    assert home.listed("--agent", "demo")["unattached"] == []


def test_completion_offers_it(home: ScreenHome, monkeypatch: pytest.MonkeyPatch) -> None:
    id = launched(home)
    for name, value in home.env.items():
        monkeypatch.setenv(name, value)
    assert completion.live_ids() == completion.live_ids(id[:5]) == [id]
    assert completion.live_ids("zz") == []


def test_list_shows_no_launch_twice_and_none_that_is_over(home: ScreenHome) -> None:
    id = home.launch("[[sleep:300]]")
    assert home.listed()["unattached"] == []
    home.agentctl("stop", id)
    assert home.listed("-a")["unattached"] == []


def test_peek_shows_what_a_launch_printed(home: ScreenHome) -> None:
    id = launched(home, f"#!/bin/sh\necho first\necho 'key {KEY}'\necho\necho 'Do you trust it?'\nsleep 300\n")
    done = home.agentctl("peek", id)
    assert done.returncode == 0
    assert done.stdout.splitlines()[::2] == ["first", "Do you trust it?"]
    assert KEY not in done.stdout
    assert f"launch {id} is on no session now" in done.stderr
    answer = json.loads(home.agentctl("peek", id, "--json", "-n", "1").stdout)
    assert answer == {"schema": 1, "session": None, "launch_id": id, "messages": [], "printed": ["Do you trust it?"]}


def test_peek_of_a_launch_that_printed_nothing_or_is_over(home: ScreenHome) -> None:
    id = launched(home, "#!/bin/sh\nsleep 300\n")
    done = home.agentctl("peek", id)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == f"agentctl: launch {id} has no session yet, and has printed nothing\n"
    home.agentctl("stop", id)
    done = home.agentctl("peek", "-f", id)
    assert done.returncode == 3
    assert "is over" in done.stderr


def test_peek_shows_the_screen_of_a_launch(home: ScreenHome) -> None:
    home.program("opencode", "#!/bin/sh\nexec sleep 300\n")
    id = home.agentctl("launch", "--interactive", "opencode").stdout.strip()
    home.set("screen", "Welcome.\n\n  Log in?\n")
    assert home.agentctl("peek", id).stdout == "Welcome.\n  Log in?\n"


def test_peek_of_a_session_without_messages_shows_what_its_launch_printed(home: ScreenHome) -> None:
    id = home.launch("[[sleep:300]]")
    launch = home.launch_of(id)
    assert home.agentctl("peek", id).stdout  # its prompt is a message: what it printed is not shown
    home.events_file(id).write_text("")
    (home.state / "launches" / launch.id / "output.log").write_text("loading\n")
    done = home.agentctl("peek", id)
    assert done.stdout == "loading\n"
    assert f"no messages of {id[:8]}, which printed this:" in done.stderr


def test_follow_goes_on_to_the_session_once_there_is_one(home: ScreenHome) -> None:
    home.program("opencode", "#!/bin/sh\nexec sleep 300\n")
    id = home.agentctl("launch", "--interactive", "opencode").stdout.strip()
    following = home.start("peek", "-f", id)
    assert following.stderr is not None
    assert following.stderr.readline() == f"launch {id} has no session yet; waiting for it\n"
    home.agentctl("stop", id)
    assert following.wait(30) == 3
    following.communicate()


@pytest.mark.parametrize("words", [("attach",), ("send", "text"), ("status",), ("why",)])
def test_a_headless_launch_without_a_session_names_a_way_that_leads_somewhere(
    home: ScreenHome, words: tuple[str, ...]
) -> None:
    id = launched(home)
    until(lambda: home.agentctl("peek", id).returncode == 0)
    verb, *more = words
    done = home.agentctl(verb, id, *more)
    assert done.returncode in (3, 4)
    assert f"agentctl peek {id}" in done.stderr
    assert "attach" not in done.stderr
