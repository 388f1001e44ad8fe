"""send: what is refused and why, and that what is sent arrives, once, or is said not to be known to."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

import pytest

from agentctl.errors import UsageError
from agentctl.model import Session
from agentctl.send import checked, in_two, is_among, why_no_keys, why_not
from tests.support.children import until
from tests.support.launch_home import LONG
from tests.support.screen_home import ScreenHome

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

linux_only = pytest.mark.linux
WORDS = {"id": "abc", "agent": "x", "status": "idle", "process": "alive", "turn": "idle", "link": "exact"}
IDLE: dict[str, Any] = {**WORDS, "pid": 7}


def session(**more: Any) -> Session:
    return Session(**IDLE | more)


# The text


@pytest.mark.parametrize("text", ["hello", "two\nlines", "\ta tab", "--flag", "é 🦊", "/x", "  kept"])
def test_a_text_is_sent_as_it_is(text: str) -> None:
    assert checked(text) == text
    assert checked(text.replace("\n", "\r\n") + "\n\n") == text
    assert checked(" \n\n" + text) == text


@pytest.mark.parametrize("text", ["", " \n", "a\x1b[201~b", "a\0", "a\rb", "\x7f", "\x9b", "\udcff", "x" * 100_001])
def test_a_text_that_cannot_be_sent(text: str) -> None:
    with pytest.raises(UsageError):
        checked(text)


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        ("one line", "one line"),
        ("two\nlines", "tw"),
        ("to do:\n- a\n- b", "to d"),
        ("  é\nx", "  é"),
        ("- -\n\nlines", "- -"),
    ],
)
def test_the_beginning_of_several_lines_is_pasted_first(text: str, begins: str) -> None:
    assert in_two(text) == (begins, text[len(begins) :])


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
        ({"suspended": True}, "kill -CONT 7"),
        ({"suspended": True, "terminal": {"tty": "/dev/pts/2"}}, "type `fg` in its terminal (/dev/pts/2"),
    ],
)
def test_only_a_session_at_its_prompt_is_spoken_to(more: dict[str, Any], says: str | None) -> None:
    found = why_not(session(**more))
    assert (found is None) if says is None else (says in str(found))


@pytest.mark.parametrize("turn", ["working", "waiting"])
def test_nobody_is_told_to_wait_for_a_session_that_never_takes_a_text(turn: str) -> None:
    found = str(why_not(session(turn=turn), reachable=False))
    assert "agentctl send" not in found
    assert "attach" not in found
    assert ("agentctl stop abc && agentctl resume --interactive abc" in found) is (turn == "waiting")
    assert ("agentctl resume abc TEXT" in found) is (turn == "working")


@pytest.mark.parametrize(
    ("more", "says"), [({}, None), ({"inferred": True}, "idle is inferred"), ({"link": "sole"}, "pid 7 shows it")]
)
def test_only_what_is_proved_is_typed_to(more: dict[str, Any], says: str | None) -> None:
    found = why_no_keys(session(**more))
    assert (found is None) if says is None else (says in str(found))


# Proof


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
    assert found.stdout.startswith(f"{id} got it through tmux pane %0")
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
@pytest.mark.parametrize(
    ("prompt", "status", "says"),
    [(LONG, "running", "is working"), ("[[ask:ls]]", "waiting", "permission to run: ls")],
)
def test_one_that_works_or_asks_is_not_typed_to(home: ScreenHome, prompt: str, status: str, says: str) -> None:
    id = home.agentctl("launch", "--interactive", "demo", "-p", prompt).stdout.strip()
    home.until_status(id, status)
    found = home.send(id, "y")
    assert (found.returncode, found.stdout) == (4, "")
    assert says in found.stderr
    assert not [call for call in home.calls() if "paste-buffer" in call or "send-keys" in call]


@linux_only
def test_a_headless_one_has_no_terminal(home: ScreenHome) -> None:
    """Nor has it a mailbox, if it is of an older version."""
    id = home.launch("[[idle]]")
    home.until_status(id, "idle")
    path = home.folder / "data" / "agentctl-demo" / "sessions" / id / "process.json"
    path.write_text(
        json.dumps({name: value for name, value in json.loads(path.read_text()).items() if name != "mailbox"})
    )
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
    assert "cannot tell whether it arrived" in found.stderr


@linux_only
def test_a_draft_of_a_person_is_left_alone(home: ScreenHome) -> None:
    id = home.open()
    with (home.tmux / "keys").open("wb") as file:
        file.write(b"a draft, ")
    until(lambda: "a draft" in (home.tmux / "screen").read_text())
    found = home.send(id, "and more")
    assert found.returncode == 4
    assert "a draft is in its input line" in found.stderr
    assert not [call for call in home.calls() if "paste-buffer" in call or "send-keys" in call]
    assert home.prompts(id) == []


@linux_only
def test_enter_is_not_pressed_on_the_keys_of_somebody_else(home: ScreenHome) -> None:
    """A person types in the instant between the look at the empty input line and the paste."""
    id = home.open()
    home.set("meanwhile", "my own ")
    found = home.send(id, "and more")
    assert found.returncode == 5
    assert "shows more than it" in found.stderr
    assert "Enter was not pressed" in found.stderr
    assert not [call for call in home.calls() if "send-keys" in call]
    assert home.prompts(id) == []


@linux_only
def test_several_lines_arrive_although_the_terminal_marks_no_pastes(home: ScreenHome) -> None:
    """Any program that had the terminal may have told it so; each line break would be an Enter."""
    id = home.open()
    home.set("no-marks")
    text = "[[ask:true]]\ny\nthird line"
    found = home.send(id, text)
    assert found.returncode == 0, found.stderr
    assert home.prompts(id) == [text]


@linux_only
def test_no_line_break_is_sent_to_a_program_that_does_not_know_pastes(home: ScreenHome) -> None:
    id = home.open()
    home.set("plain")
    found = home.send(id, "first line\ny\nthird")
    assert found.returncode == 5
    assert "the beginning of its first line" in found.stderr
    assert "Enter was not pressed" in found.stderr
    assert home.prompts(id) == []
    assert home.session(id)["status"] == "idle"


@linux_only
def test_ctrl_c_after_the_paste_says_where_the_text_stands(home: ScreenHome) -> None:
    id = home.open()
    home.set("meanwhile", "mine ")  # so the look after the paste takes some seconds
    sending = home.start("send", id, "and more")
    until(lambda: "and more" in (home.tmux / "screen").read_text())
    sending.send_signal(signal.SIGINT)
    said = sending.communicate()[1]
    assert sending.returncode == 130
    assert "Enter was not pressed" in said
    assert f"agentctl attach {id}" in said


@linux_only
def test_a_pane_in_another_mode_is_left_alone(home: ScreenHome) -> None:
    id = home.open()
    home.set("mode")
    found = home.send(id, "hello")
    assert found.returncode == 4
    assert "leave that mode (press q)" in found.stderr
    assert home.prompts(id) == []


@linux_only
def test_a_question_that_nobody_can_answer_has_a_way_out_that_works(home: ScreenHome) -> None:
    id = home.launch("[[ask:ls]]")
    home.until_status(id, "waiting")
    way_out = f"agentctl stop {id} && agentctl resume --interactive {id}"
    for words in (("send", id, "y"), ("attach", "--print", id), ("status", id)):
        found = home.agentctl(*words)
        assert way_out in found.stdout + found.stderr
    assert home.agentctl("stop", id).returncode == 0
    found = home.agentctl("resume", "--interactive", id)
    assert found.returncode == 0, found.stderr
    home.until_status(id, "idle")


@linux_only
def test_one_that_ended_is_gone_on_with(home: ScreenHome) -> None:
    id = home.launch("hello")
    home.until_status(id, "done")
    assert f"agentctl resume {id}" in home.send(id, "more").stderr


# Through a mailbox


@linux_only
def test_an_idle_session_without_a_terminal_gets_it_through_its_mailbox(home: ScreenHome) -> None:
    id = home.launch("[[idle]]")
    assert home.agentctl("wait", "--until", "idle", id).returncode == 0
    done = home.agentctl("send", id, "[[text:heard]] [[idle]]")
    assert done.returncode == 0, done.stderr
    assert "through its mailbox" in done.stdout + done.stderr
    assert "heard" in home.agentctl("peek", id).stdout


@linux_only
def test_nothing_is_put_into_the_mailbox_of_one_that_works(home: ScreenHome) -> None:
    id = home.launch(LONG)
    done = home.agentctl("send", id, "more")
    assert done.returncode == 4
    assert not list(home.folder.rglob("prompt"))
