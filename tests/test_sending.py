"""send: what is refused and why, and that what is sent arrives, once, or is said not to be known to."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from agentctl.errors import UsageError
from agentctl.model import Session
from agentctl.sending import checked, is_among, is_shown, why_no_keys, why_not
from tests.launch_home import LONG
from tests.screen_home import ScreenHome

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="launching needs Linux")
WORDS = {"id": "abc", "agent": "x", "status": "idle", "process": "alive", "turn": "idle", "link": "exact"}
IDLE: dict[str, Any] = {**WORDS, "pid": 7}


def session(**more: Any) -> Session:
    return Session(**IDLE | more)


# The text


@pytest.mark.parametrize("text", ["hello", "two\nlines", "\ta tab", "--flag", "é 🦊", "/x", "  kept"])
def test_a_text_is_sent_as_it_is(text: str) -> None:
    assert checked(text) == text
    assert checked(text.replace("\n", "\r\n") + "\n\n") == text


@pytest.mark.parametrize("text", ["", " \n", "a\x1b[201~b", "a\0", "a\rb", "\x7f", "\x9b", "\udcff", "x" * 100_001])
def test_a_text_that_cannot_be_sent(text: str) -> None:
    with pytest.raises(UsageError):
        checked(text)


# Whether


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({}, None),
        ({"inferred": True}, None),
        ({"turn": "working"}, "wait --until idle abc"),
        ({"turn": "waiting", "waiting_for": "permission: rm"}, "permission: rm"),
        ({"turn": "unknown", "reason": "no transcript yet"}, "no transcript yet"),
        ({"process": "gone", "turn": "done", "status": "done"}, "agentctl resume abc"),
        ({"process": "unknown", "reason": "elsewhere"}, "elsewhere"),
        ({"parent": "top"}, "top"),
        ({"suspended": True}, "suspended"),
    ],
)
def test_only_a_session_at_its_prompt_is_spoken_to(more: dict[str, Any], says: str | None) -> None:
    found = why_not(session(**more))
    assert (found is None) if says is None else (says in str(found))


@pytest.mark.parametrize(
    ("more", "says"), [({}, None), ({"inferred": True}, "idle is inferred"), ({"link": "sole"}, "pid 7 shows it")]
)
def test_only_what_is_proved_is_typed_to(more: dict[str, Any], says: str | None) -> None:
    found = why_no_keys(session(**more))
    assert (found is None) if says is None else (says in str(found))


# Proof


@pytest.mark.parametrize(
    ("text", "before", "after", "shown"),
    [
        ("hello you", "> ", "> hello you", True),
        ("hello you", "hello you", "hello you\n> ", False),  # it stood there before
        ("hello you", "hello you", "hello you\n> hello you", True),
        ("a\nlast line", "", "│ a      │\n│ last   │\n│ line   │", True),
        ("many\n" * 50 + "end", "", "[Pasted text #1 +50 lines]", True),
        ("x", "Pasted", "Pasted", False),
        ("?!", "> ", "> ?!", True),
        ("?!", "> ", "> ", False),
        ("hello", "1. one\n2. two", "1. one\n2. two", False),  # a dialog takes no text
    ],
)
def test_what_a_screen_shows(text: str, before: str, after: str, shown: bool) -> None:
    assert is_shown(text, before, after) is shown


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ([], None),
        (["other"], None),
        (["two\n lines"], False),
        (["a draft two lines"], True),
        (["x two lines", "two lines"], False),
    ],
)
def test_what_a_store_has(said: list[str], found: bool | None) -> None:
    assert is_among("two\nlines", said) is found


# All of it


@pytest.fixture
def home(tmp_path: Path) -> Iterator[ScreenHome]:
    home = ScreenHome(tmp_path)
    try:
        yield home
    finally:
        home.end_all()


@linux_only
@pytest.mark.parametrize("text", ["the second [[text:ok]]", "--two\n\nlines; 'it' $HOME #{pane_id}", "Enter"])
def test_it_arrives_exactly_once(home: ScreenHome, text: str) -> None:
    id = home.open("-p", "hello")
    found = home.send(id[:8], "-", input=text)
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith(f"{id} has it, through tmux pane %0")
    home.until_status(id, "idle")
    assert home.prompts(id) == ["hello", text]


@linux_only
def test_by_its_launch_and_as_json(home: ScreenHome) -> None:
    id = home.open()
    launch = home.session(id)["launch_id"]
    answer = json.loads(home.send(launch, "[[sleep:300]]", "--json").stdout)
    assert answer["sent"] == {"id": id, "by": "tmux", "through": answer["sent"]["through"], "joined": False}
    assert answer["session"]["status"] == "running"


@linux_only
@pytest.mark.parametrize(("prompt", "says"), [(LONG, "is working"), ("[[ask:ls]]", "permission to run: ls")])
def test_one_that_works_or_asks_is_not_typed_to(home: ScreenHome, prompt: str, says: str) -> None:
    id = home.agentctl("launch", "--interactive", "demo", "-p", prompt).stdout.strip()
    home.until_status(id, "running", "waiting")
    found = home.send(id, "y")
    assert (found.returncode, found.stdout) == (4, "")
    assert says in found.stderr
    assert not [call for call in home.calls() if "paste-buffer" in call or "send-keys" in call]


@linux_only
def test_a_headless_one_has_no_terminal(home: ScreenHome) -> None:
    id = home.launch("[[idle]]")
    home.until_status(id, "idle")
    found = home.send(id, "more")
    assert found.returncode == 4
    assert f"agentctl resume {id} TEXT" in found.stderr


@linux_only
def test_a_command_to_the_screen_is_sent_on_purpose_only(home: ScreenHome) -> None:
    id = home.open()
    assert home.send(id, "/clear").returncode == 4
    assert home.prompts(id) == []
    assert home.send(id, "/clear", "--raw").returncode == 0
    assert home.prompts(id) == ["/clear"]


@linux_only
def test_enter_is_not_pressed_on_what_the_screen_does_not_show(home: ScreenHome) -> None:
    id = home.open()
    home.set("deaf")
    found = home.send(id, "into a dialog")
    assert found.returncode == 5
    assert "Enter was not pressed" in found.stderr
    assert not [call for call in home.calls() if "send-keys" in call]


@linux_only
def test_what_did_not_arrive_in_time_is_not_known_to_have(home: ScreenHome) -> None:
    id = home.open()
    home.set("no-enter")
    found = home.agentctl("send", id, "hello", "--timeout", "1s")
    assert (found.returncode, found.stdout) == (5, "")
    assert "whether it arrived is not known" in found.stderr


@linux_only
def test_together_with_a_draft_it_is_said(home: ScreenHome) -> None:
    id = home.open()
    with (home.tmux / "keys").open("wb") as file:
        file.write(b"a draft, ")
    found = home.send(id, "and more")
    assert found.returncode == 0, found.stderr
    assert "something that stood in the input before" in found.stderr
    assert home.prompts(id) == ["a draft, and more"]


@linux_only
def test_a_pane_in_another_mode_is_left_alone(home: ScreenHome) -> None:
    id = home.open()
    home.set("mode")
    found = home.send(id, "hello")
    assert found.returncode == 4
    assert "leave that (q)" in found.stderr
    assert home.prompts(id) == []


@linux_only
def test_one_that_ended_is_gone_on_with(home: ScreenHome) -> None:
    id = home.launch("hello")
    home.until_status(id, "done")
    assert f"agentctl resume {id}" in home.send(id, "more").stderr
