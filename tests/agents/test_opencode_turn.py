"""How a turn of OpenCode stands, and what its arguments mean."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.agents.opencode.arguments import read_arguments
from agentctl.agents.opencode.turn import Message, Part, StoredMessage, Turn, decoded, prompt_of, read_turn, title_of
from agentctl.files.bounded import moment
from agentctl.model import DONE, FAILED, IDLE, INTERRUPTED, UNKNOWN, WORKING
from tests.support.opencode_home import STEP_START, tool
from tests.support.worlds import FIXTURES

SECRETS = {"account", "control_account", "credential", "session_share"}
FORK = FIXTURES / "opencode" / "subagent_and_fork" / "xdg_data" / "opencode" / "opencode.db"
LEGACY = FIXTURES / "opencode" / "legacy_1.0.185_storage" / "xdg_data" / "opencode"


# How a turn stands


def turn_of(*messages: tuple[dict[str, Any] | None, list[dict[str, Any]]]) -> Turn:
    """The oldest first."""
    stored = [Message(str(index), float(index), float(index), data) for index, (data, _) in enumerate(messages)]
    parts = {str(index): [Part(index, index, part) for part in given] for index, (_, given) in enumerate(messages)}
    return read_turn(stored[::-1], lambda id: parts[id])


PROMPT: tuple[dict[str, Any], list[dict[str, Any]]] = ({"role": "user"}, [{"type": "text", "text": "hi"}])


def step(*parts: dict[str, Any], ended: bool = True, **data: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    return {"role": "assistant", "time": {"created": 1, **({"completed": 2} if ended else {})}, **data}, list(parts)


REFUSED = tool("error", error="The user rejected permission to use this specific tool call.")
CORRECTED = tool(
    "error", error="The user rejected permission to use this specific tool call with the following feedback: no"
)
DISMISSED = tool("error", error="The user dismissed this question")


@pytest.mark.parametrize(
    ("newest", "turn", "inferred"),
    [
        (step(STEP_START, ended=False), WORKING, False),
        (step(STEP_START, tool(), ended=False), WORKING, False),
        (step(STEP_START, finish="stop"), DONE, False),
        (step(STEP_START, finish="length"), DONE, False),
        (step(STEP_START, tool("completed"), finish="tool-calls"), WORKING, True),
        (step(STEP_START, tool("error", error="no such file"), finish="tool-calls"), WORKING, True),
        (step(STEP_START, CORRECTED, finish="tool-calls"), WORKING, True),
        (step(STEP_START, REFUSED, finish="tool-calls"), DONE, False),
        (step(STEP_START, DISMISSED, finish="tool-calls"), DONE, False),
        (step(STEP_START, finish="unknown"), WORKING, True),
        (step(STEP_START, tool("completed"), finish="stop"), WORKING, True),  # the next step is due whatever it says
        (step(STEP_START, {**tool("completed"), "metadata": {"providerExecuted": True}}, finish="stop"), DONE, False),
        (step(error={"name": "APIError", "data": {"message": "no"}}), FAILED, False),
        (step(STEP_START, error={"name": "MessageAbortedError", "data": {}}), INTERRUPTED, False),
        (step(), INTERRUPTED, False),  # aborted while it retried: neither an end nor an error is stored
        (step(tool("completed")), DONE, False),  # typed by the person behind "!"
        (step(tool(), ended=False), WORKING, False),
        (PROMPT, WORKING, False),
        ((None, []), UNKNOWN, False),
        (({"role": "somebody"}, []), UNKNOWN, False),
    ],
)
def test_how_the_newest_message_leaves_the_turn(
    newest: tuple[dict[str, Any] | None, list[dict[str, Any]]], turn: str, inferred: bool
) -> None:
    found = turn_of(PROMPT, newest)
    assert (found.turn, found.inferred) == (turn, inferred)
    assert found.reason


def test_a_session_without_a_message_has_no_turn() -> None:
    assert turn_of().turn == IDLE


def test_what_was_refused_and_what_failed_is_said() -> None:
    assert "1 tool call was refused" in turn_of(PROMPT, step(STEP_START, REFUSED, finish="tool-calls")).reason
    assert (
        "2 tool calls were refused" in turn_of(PROMPT, step(STEP_START, REFUSED, REFUSED, finish="tool-calls")).reason
    )
    failed = turn_of(PROMPT, step(error={"name": "APIError", "data": {"message": "no money"}}))
    assert failed.error == "APIError: no money"


def test_only_a_call_of_a_model_that_has_reported_nothing_may_wait_for_a_person() -> None:
    waits = turn_of(PROMPT, step(STEP_START, tool(), ended=False)).tools
    assert [(one.quiet, one.what) for one in waits] == [(True, "sleep 9")]
    runs = turn_of(PROMPT, step(STEP_START, tool(metadata={"output": ""}), ended=False)).tools
    typed = turn_of(PROMPT, step(tool(), ended=False)).tools
    written = turn_of(PROMPT, step(STEP_START, tool("pending"), ended=False)).tools
    assert [one.quiet for one in (*runs, *typed, *written)] == [False, False, False]


def test_a_prompt_typed_meanwhile_does_not_hide_the_step_that_runs() -> None:
    found = turn_of(PROMPT, step(STEP_START, tool(), ended=False), PROMPT)
    assert (found.turn, [one.quiet for one in found.tools], found.prompted) == (WORKING, [True], 0.0)


def test_an_unfinished_step_of_long_ago_is_not_the_turn() -> None:
    assert turn_of(PROMPT, step(STEP_START, ended=False), PROMPT, step(STEP_START, finish="stop")).turn == DONE


@pytest.mark.parametrize(
    ("stored", "text"),
    [
        ('"say \\"hi\\" now"', 'say "hi" now'),
        ("[[text:x]]", "[[text:x]]"),
        ('"a b" c "d e"', '"a b" c "d e"'),
        ('"', '"'),
        ('he said "no"', 'he said "no"'),
    ],
)
def test_the_quotes_that_run_adds_are_not_the_persons(stored: str, text: str) -> None:
    assert prompt_of([Part(0, 0, {"type": "text", "text": stored})]) == text


def test_what_a_person_did_not_write_is_no_prompt_and_no_title() -> None:
    assert prompt_of([Part(0, 0, {"type": "text", "text": "The following", "synthetic": True})]) is None
    assert title_of("New session - 2026-11-15T21:22:40.624Z") is None
    assert title_of("Fix the build") == "Fix the build"


def test_arguments() -> None:
    run = read_arguments(["opencode", "run", "-m", "a/b", "fix it", "now"])
    assert (run.command, run.prompt, run.one_shot, run.resumes) == ("run", '"fix it" now', True, False)
    assert read_arguments(["opencode", "run", "--session=ses_1", "x"]).session == "ses_1"
    assert not read_arguments(["opencode", "run", "-i", "x"]).one_shot
    assert read_arguments(["opencode", "run", "--", "-c"]).resumes is False
    assert read_arguments(["opencode", "run", "-f", "a.txt", "x"]).prompt is None  # how far -f reaches is not ours


# A message that is taken apart where it is looked at


COLUMN = st.one_of(
    st.none(), st.integers(-1, 10**14), st.floats(), st.text(max_size=5), st.binary(max_size=5), st.booleans()
)
DATA = st.one_of(COLUMN, st.dictionaries(st.sampled_from(["role", "time"]), st.text(max_size=3)).map(json.dumps))


@given(COLUMN, COLUMN, DATA, st.permutations(["created", "written", "data"] * 2))
def test_a_message_as_its_row_has_it_says_the_same(
    created: object, written: object, data: object, looks: list[str]
) -> None:
    plain = Message("id", moment(created) or 0.0, moment(written) or 0.0, decoded(data))
    stored = StoredMessage("id", created, written, data)
    for name in looks:
        assert getattr(stored, name) == getattr(plain, name)


PUT_IN: tuple[dict[str, Any], list[dict[str, Any]]] = (
    {"role": "user"},
    [{"type": "text", "text": "context", "synthetic": True}],
)
ENDED = step(STEP_START, finish="stop")


@pytest.mark.parametrize(
    ("messages", "turn", "inferred"),
    [
        ((PROMPT, ENDED, PUT_IN), DONE, True),
        ((PROMPT, ENDED, PUT_IN, PUT_IN), WORKING, False),
        ((PROMPT, step(STEP_START, error={"name": "MessageAbortedError", "data": {}}), PUT_IN), INTERRUPTED, True),
        ((PROMPT, ENDED, PROMPT), WORKING, False),
        ((PROMPT, ENDED, ({"role": "user"}, [*PUT_IN[1], *PROMPT[1]])), WORKING, False),
        ((PROMPT, ENDED, ({"role": "user"}, [])), WORKING, False),
        ((PROMPT, step(STEP_START, ended=False), PUT_IN), WORKING, False),
        ((PROMPT, step(STEP_START, tool("completed"), finish="tool-calls"), PUT_IN), WORKING, False),
        ((PUT_IN,), WORKING, False),
    ],
)
def test_a_message_that_a_program_put_in_need_not_begin_a_turn(
    messages: tuple[tuple[dict[str, Any], list[dict[str, Any]]], ...], turn: str, inferred: bool
) -> None:
    found = turn_of(*messages)
    assert (found.turn, found.inferred) == (turn, inferred)
