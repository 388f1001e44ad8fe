"""The first records of a transcript of Claude Code may stand in another order than they happened in."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from agentctl.agents.claude_code.transcript import read_tail
from agentctl.files.bounded import Opened

FOLDER = Path(__file__).parent.parent / "fixtures" / "claude" / "waiting_permission"
(TRANSCRIPT,) = FOLDER.glob(".claude/projects/*/*.jsonl")
LINES = TRANSCRIPT.read_bytes().splitlines()
STEPS = [line for line in LINES if "uuid" in json.loads(line)]
PROMPT, BETWEEN, ANSWER = STEPS[0], STEPS[1:3], STEPS[3:]


def test_what_the_fixture_has() -> None:
    assert [json.loads(line)["type"] for line in STEPS] == ["user", *["attachment"] * 2, *["assistant"] * 2]


@pytest.mark.parametrize("between", list(itertools.permutations(range(3))))
def test_a_prompt_that_stands_behind_its_answer(tmp_path: Path, between: tuple[int, ...]) -> None:
    """The answer descends from the prompt by what is between them, wherever that stands."""
    parts = [BETWEEN[:1], BETWEEN[1:], ANSWER]
    lines = [*LINES[: -len(STEPS)], *(line for part in between for line in parts[part]), PROMPT]
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n")
    with Opened(str(path)) as file, Opened(str(TRANSCRIPT)) as whole:
        found, expected = read_tail(file), read_tail(whole)
    assert expected.pending is not None
    assert (found.turn, found.pending, found.pending_id) == (expected.turn, expected.pending, expected.pending_id)
