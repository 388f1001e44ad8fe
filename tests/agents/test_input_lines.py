"""What stands in an agent's input line, by screens as the real agents draw them (in tmux, with colours)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.agents import load_control
from agentctl.agents.screen import PROMPT, SHELL, UNCLEAR, Input, holds_exactly, screen_of

RULE = "\x1b[38;5;244m" + "─" * 60
BELOW = "\x1b[39m  \x1b[38;5;220m⏵⏵ auto mode on\x1b[38;5;246m (shift+tab to cycle)\x1b[39m"
STATUS = "  \x1b[38;5;223mfake-model default\x1b[39m · \x1b[38;5;151m~/work\x1b[39m"
HINTS = "\x1b[39m  \x1b[1m?\x1b[0m\x1b[39m\x1b[49m for shortcuts"
GHOST = "\x1b[1m›\x1b[0m\x1b[39m\x1b[49m \x1b[2mAsk Codex to do anything\x1b[0m\x1b[39m\x1b[49m"
EMPTY = (PROMPT, "")


def on_claude(*lines: str, cursor: tuple[int, int], rule: str = RULE) -> tuple[str, str]:
    """The input line of Claude Code; the cursor counts from the first of these lines."""
    text = "\n".join(["❯ an earlier prompt", "● its answer", rule, *lines, RULE, BELOW])
    found = load_control("claude-code").input_on(screen_of(text, (cursor[0], cursor[1] + 3), visible=False))
    return found.mode, found.text


def on_codex(*lines: str, cursor: tuple[int, int], visible: bool = True) -> tuple[str, str]:
    text = "\n".join(["› an earlier prompt", "", "• its answer", "", *lines, "", STATUS, HINTS])
    found = load_control("codex").input_on(screen_of(text, (cursor[0], cursor[1] + 4), visible=visible))
    return found.mode, found.text


@pytest.mark.parametrize(
    ("lines", "cursor", "found"),
    [
        (["\x1b[39m❯\xa0\x1b[7m"], (2, 0), EMPTY),
        (["\x1b[39m❯\xa0\x1b[7m \x1b[0m\x1b[39m\x1b[49m"], (2, 0), EMPTY),
        (['\x1b[39m❯\xa0\x1b[7mT\x1b[0m\x1b[2mry \x1b[2m"fix lint errors"\x1b[0m'], (2, 0), EMPTY),
        (["\x1b[39m❯\xa0\x1b[7mT\x1b[0m\x1b[38;5;246mry it\x1b[39m"], (2, 0), EMPTY),
        (["\x1b[39m❯\xa0\x1b[7mT\x1b[0m\x1b[38;2;153;153;153mry it\x1b[39m"], (2, 0), EMPTY),
        (["\x1b[39m❯\xa0hello draft\x1b[7m"], (13, 0), (PROMPT, "hello draft")),
        (["\x1b[39m❯\xa0\x1b[7mh\x1b[0m\x1b[39m\x1b[49mello draft"], (2, 0), (PROMPT, "hello draft")),
        (["\x1b[39m❯\xa0\x1b[7mh\x1b[0m\x1b[39m\x1b[49m"], (2, 0), (PROMPT, "h")),
        (["\x1b[39m❯\xa0 \x1b[7m"], (3, 0), (PROMPT, " ")),  # one blank
        (["\x1b[39m❯\xa0line one", "  \x1b[7m \x1b[0m"], (2, 1), (PROMPT, "line one")),
        (["\x1b[39m❯\xa0", "  two\x1b[7m"], (5, 1), (PROMPT, "\ntwo")),
        (["\x1b[39m❯\xa0\x1b[7m", "", "  three"], (2, 0), (PROMPT, "three")),
        (["\x1b[39m❯\xa0[Pasted text #1 +29 lines]\x1b[7m"], (28, 0), (PROMPT, "[Pasted text #1 +29 lines]")),
        (["\x1b[39m❯\xa0\x1b[38;5;153m/model\x1b[7m\x1b[39m"], (8, 0), (PROMPT, "/model")),
        (["!\xa0\x1b[7m\x1b[39m"], (2, 0), (SHELL, "")),
        (["!\xa0\x1b[39mls -l\x1b[7m"], (7, 0), (SHELL, "ls -l")),
        (["  Search prompts · everywhere"], (6, 0), (UNCLEAR, "")),
        (["   \x1b[38;5;153m❯\x1b[39m 1. Default"], (3, 0), (UNCLEAR, "")),
        (["\x1b[39m❯\xa0\x1b[7m"], (2, 2), (UNCLEAR, "")),  # the cursor is elsewhere
    ],
)
def test_claude_code(lines: list[str], cursor: tuple[int, int], found: tuple[str, str]) -> None:
    assert on_claude(*lines, cursor=cursor) == found


def test_a_rule_may_have_a_title() -> None:
    title = "\x1b[38;5;244m───\x1b[39m \x1b[2mHistory 2/2\x1b[0m \x1b[38;5;244m" + "─" * 40
    assert on_claude("\x1b[39m❯\xa0/model\x1b[7m", cursor=(8, 0), rule=title) == (PROMPT, "/model")


@pytest.mark.parametrize(
    ("lines", "cursor", "found"),
    [
        ([GHOST], (2, 0), EMPTY),
        (["\x1b[1m›\x1b[0m\x1b[39m\x1b[49m hello draft"], (13, 0), (PROMPT, "hello draft")),
        (["\x1b[1m›\x1b[0m\x1b[39m\x1b[49m hello draft"], (2, 0), (PROMPT, "hello draft")),
        (["\x1b[1m›\x1b[0m\x1b[39m\x1b[49m a draft that", "  is long"], (2, 0), (PROMPT, "a draft that\nis long")),
        (["\x1b[1m›\x1b[0m\x1b[39m\x1b[49m"], (3, 0), (PROMPT, " ")),  # one blank: the ghost is gone
        (["\x1b[1m›\x1b[0m\x1b[39m\x1b[49m"], (2, 0), (PROMPT, " ")),  # an empty line with more below
        (["\x1b[1m›\x1b[0m\x1b[39m\x1b[49m", "", "  three"], (2, 2), (PROMPT, "\n\nthree")),
        (["\x1b[1m›\x1b[0m\x1b[39m\x1b[49m line one", "  line two"], (10, 1), (PROMPT, "line one\nline two")),
        (["\x1b[1m›\x1b[0m\x1b[39m\x1b[49m \x1b[38;5;6m[Pasted Content 3000 chars]"], (29, 0),
         (PROMPT, "[Pasted Content 3000 chars]")),
        (["\x1b[1m\x1b[38;5;9m!\x1b[0m\x1b[39m\x1b[49m"], (2, 0), (SHELL, "")),
        (["\x1b[1m\x1b[38;5;9m!\x1b[0m\x1b[39m\x1b[49m ls -l"], (7, 0), (SHELL, "ls -l")),
        ([GHOST], (20, 3), (UNCLEAR, "")),  # a search: the cursor is in the last line
        (["  2. GPT"], (2, 0), (UNCLEAR, "")),
    ],
)  # fmt: skip
def test_codex(lines: list[str], cursor: tuple[int, int], found: tuple[str, str]) -> None:
    assert on_codex(*lines, cursor=cursor) == found


def test_a_hidden_cursor_of_codex_is_in_no_input_line() -> None:
    assert on_codex(GHOST, cursor=(2, 0), visible=False) == (UNCLEAR, "")


@pytest.mark.parametrize("agent", ["claude-code", "codex", "demo", "opencode"])
@pytest.mark.parametrize("cursor", [None, (0, 0), (2, 0), (0, 99)])
def test_of_another_screen_nothing_is_known(agent: str, cursor: tuple[int, int] | None) -> None:
    for text in ("", "$ ", "# ls\na b", "❯ \n", "root@host:~# "):
        assert load_control(agent).input_on(screen_of(text, cursor)).mode == UNCLEAR


@given(st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=40), st.booleans())
def test_a_draft_is_never_taken_for_an_empty_prompt(draft: str, at_home: bool) -> None:
    column = 2 if at_home else 2 + len(draft)
    first, rest = (f"\x1b[7m{draft[0]}\x1b[0m\x1b[39m\x1b[49m", draft[1:]) if at_home else ("", f"{draft}\x1b[7m")
    assert on_claude(f"\x1b[39m❯\xa0{first}{rest}", cursor=(column, 0)) != EMPTY
    assert on_codex(f"\x1b[1m›\x1b[0m\x1b[39m\x1b[49m {draft}", cursor=(column, 0)) != EMPTY


@pytest.mark.parametrize(
    ("found", "text", "command", "stands"),
    [
        (Input(PROMPT, "hello you"), "hello you", False, True),
        (Input(PROMPT, "hello\nyou"), "hello you", False, True),  # the screen broke the line
        (Input(PROMPT, "my hello you"), "hello you", False, False),
        (Input(PROMPT, "hello you."), "hello you", False, False),
        (Input(PROMPT, "hello"), "hello you", False, False),  # half of it
        (Input(PROMPT, ""), "hello you", False, False),
        (Input(PROMPT, "[Pasted text #1 +50 lines]"), "many\n" * 50 + "end", False, True),
        (Input(PROMPT, "mine [Pasted text #1 +50 lines]"), "many\n" * 50 + "end", False, False),
        (Input(PROMPT, "many [...Truncated text #1 +48 lines...] end"), "many\n" * 50 + "end", False, True),
        (Input(PROMPT, "51 +51\n" + "\n".join(map(str, range(52, 80)))), "\n".join(map(str, range(80))), False, True),
        (Input(PROMPT, "x0\n" + "\n".join(map(str, range(1, 30)))), "\n".join(map(str, range(30))), False, False),
        (Input(PROMPT, "51\n" + "\n".join(map(str, range(52, 79)))), "\n".join(map(str, range(80))), False, False),
        (Input(SHELL, "ls"), "ls", False, False),
        (Input(SHELL, "ls"), "!ls", False, False),
        (Input(SHELL, "ls"), "!ls", True, True),
        (Input(UNCLEAR, "hello"), "hello", False, False),
    ],
)
def test_enter_is_pressed_on_the_text_alone(found: Input, text: str, command: bool, stands: bool) -> None:
    assert holds_exactly(found, text, command=command) is stands


def test_colours_behind_each_other_are_all_read() -> None:
    screen = screen_of("a\x1b[0;2mb\x1b[22;39mc\x1b[48;5;240md\x1b[38:5:244me\n\x1b[90mf\x1b[97mg\x1b]8;;x\x1b\\h")
    assert screen.lines == ("abcde", "fgh")
    assert screen.typed == ("a cd ", " gh")
