"""What the lab saw real agents write, and the rules once got wrong. Long texts in the files are cut."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from agentctl.agents import claude_code, claude_transcript, codex, codex_rollout
from agentctl.model import DONE, UNKNOWN, WAITING, WORKING, Details, Link, Process, ProcessKey, Record
from agentctl.processes import Processes
from agentctl.stores import Opened
from tests.worlds import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path

EVIDENCE = FIXTURES / "lab-evidence"


def tail_of(module: Any, name: str) -> Any:
    with Opened(str(EVIDENCE / name)) as file:
        return module.read_tail(file)


def test_an_answer_that_stands_before_its_prompt_ends_the_turn() -> None:
    """Claude Code 2.1.197, first turn of an interactive session, a fast answer: the prompt is written last."""
    tail = tail_of(claude_transcript, "claude-2.1.197-answer-before-its-prompt.jsonl")
    assert (tail.turn, tail.model) == (DONE, "claude-opus-4-8")


def test_a_question_that_stands_before_its_prompt_is_pending() -> None:
    tail = tail_of(claude_transcript, "claude-2.1.197-question-before-its-prompt.jsonl")
    assert (tail.turn, tail.pending) == (WORKING, "AskUserQuestion: Which colour?")


@pytest.mark.parametrize(
    ("tool", "turn", "waiting_for"),
    [("AskUserQuestion", WAITING, "question (inferred): AskUserQuestion: Which colour?"), ("WebFetch", UNKNOWN, None)],
)
def test_claude_asks_the_program_that_runs_it(tool: str, turn: str, waiting_for: str | None) -> None:
    """2.1.197 with stream-json input writes no status; AskUserQuestion does nothing but wait for an answer."""
    key = ProcessKey("boot", 5, 1217182)
    argv = tuple("claude -p --input-format stream-json --permission-prompt-tool stdio".split())
    table = Processes(
        "boot", [Process(key, 1, "claude", "S")], boot_time=0.0, read_details=lambda process: Details(argv=argv)
    )
    record = Record("claude-code", "s", "/r", WORKING, pending=f"{tool}: Which colour?", pending_tool=tool, path="/r/s")
    store = claude_code.open_store("/r")
    seen = store.observe(Link("claude-code", "s", "/r", key, "its own file"), record, table)
    assert (seen.turn, seen.waiting_for, seen.inferred) == (turn, waiting_for, turn == WAITING)


@pytest.mark.parametrize("version", ["2.1.197", "2.1.325"])
def test_claude_refused_a_command(version: str) -> None:
    tail = tail_of(claude_transcript, f"claude-{version}-refused.jsonl")
    assert (tail.turn, tail.refused) == (DONE, 1)


def test_codex_refused_a_command() -> None:
    tail = tail_of(codex_rollout, "codex-0.166.0-refused.jsonl")
    assert (tail.turn, tail.reason) == (DONE, "its last turn is complete; 1 tool call was refused")


def test_codex_asks_the_person(tmp_path: Path) -> None:
    """Plan mode in a process of its own: no daemon to ask, and a tool that does nothing but wait for an answer."""
    id = "01a1e126-3bd7-7800-a13e-7256ccb8747a"
    folder = tmp_path / "sessions" / "2026" / "11" / "15"
    folder.mkdir(parents=True)
    path = folder / f"rollout-2026-11-15T21-42-54-{id}.jsonl"
    shutil.copy(EVIDENCE / "codex-0.166.0-refused.jsonl", path)
    question = {"questions": [{"id": "choice", "header": "Choice", "question": "Which colour?", "options": []}]}
    call = {"type": "function_call", "name": "request_user_input", "call_id": "c", "arguments": json.dumps(question)}
    with path.open("a") as file:
        for kind, payload in (("event_msg", {"type": "task_started", "turn_id": "T"}), ("response_item", call)):
            file.write(json.dumps({"timestamp": "2026-11-15T21:42:55Z", "type": kind, "payload": payload}) + "\n")
    store = codex.open_store(str(tmp_path))
    record = store.record(id)
    key = ProcessKey("boot", 16, 467532)
    table = Processes("boot", [Process(key, 1, "codex", "S")], boot_time=0.0, read_details=lambda process: None)
    seen = store.observe(Link("codex", id, str(tmp_path), key, "lock"), record, table)
    assert (seen.turn, seen.waiting_for, seen.inferred) == (WAITING, "input: Which colour?", False)


def test_a_codex_daemon_that_is_starting_is_no_problem(tmp_path: Path) -> None:
    """It makes its daemon.pid first and fills it later."""
    (tmp_path / "app-server-daemon").mkdir()
    pid_file = tmp_path / "app-server-daemon" / "daemon.pid"
    pid_file.touch()
    store = codex.open_store(str(tmp_path))
    store.survey()
    assert store.problems == []
    pid_file.write_text("{ half")
    store.survey()
    assert [problem.path for problem in store.problems] == [str(pid_file)]
