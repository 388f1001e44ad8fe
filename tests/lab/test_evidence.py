"""What the lab saw real agents write, and the rules once got wrong. Long texts in the files are cut."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from agentctl.agents.claude_code import adapter, transcript
from agentctl.agents.codex import adapter as codex
from agentctl.agents.codex import rollout
from agentctl.files.bounded import Opened
from agentctl.kernel.processes import Processes
from agentctl.model import DONE, FAILED, UNKNOWN, WAITING, WORKING, Details, Link, Process, ProcessKey, Record
from tests.support.table import source
from tests.support.worlds import FIXTURES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

THREAD = "CODEX_THREAD_ID"
EVIDENCE = FIXTURES / "lab-evidence"


def tail_of(module: Any, name: str) -> Any:
    with Opened(str(EVIDENCE / name)) as file:
        return module.read_tail(file)


def test_an_answer_that_stands_before_its_prompt_ends_the_turn() -> None:
    """Claude Code 2.1.197, first turn of an interactive session, a fast answer: the prompt is written last."""
    tail = tail_of(transcript, "claude-2.1.197-answer-before-its-prompt.jsonl")
    assert (tail.turn, tail.model) == (DONE, "claude-opus-4-8")


def test_a_question_that_stands_before_its_prompt_is_pending() -> None:
    tail = tail_of(transcript, "claude-2.1.197-question-before-its-prompt.jsonl")
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
        "boot", [Process(key, 1, "claude", "S")], source(details=lambda process: Details(argv=argv)), boot_time=0.0
    )
    record = Record("claude-code", "s", "/r", WORKING, pending=f"{tool}: Which colour?", pending_tool=tool, path="/r/s")
    store = adapter.ADAPTER.open_store("/r")
    seen = store.observe(Link("claude-code", "s", "/r", key, "its own file"), record, table)
    assert (seen.turn, seen.waiting_for, seen.inferred) == (turn, waiting_for, turn == WAITING)


@pytest.mark.parametrize("version", ["2.1.197", "2.1.325"])
def test_claude_refused_a_command(version: str) -> None:
    tail = tail_of(transcript, f"claude-{version}-refused.jsonl")
    assert (tail.turn, tail.refused) == (DONE, 1)


def test_codex_refused_a_command() -> None:
    tail = tail_of(rollout, "codex-0.166.0-refused.jsonl")
    assert (tail.turn, tail.reason) == (DONE, "its last turn is complete; 1 tool call was refused")


@pytest.mark.parametrize("name", ["failed", "failed-after-a-command"])
def test_codex_closed_a_turn_that_failed_as_one_that_is_complete(name: str) -> None:
    """0.140.0 writes no error: the model was to answer a prompt or an output, and the turn ended without an answer."""
    tail = tail_of(rollout, f"codex-0.140.0-{name}.jsonl")
    assert (tail.turn, tail.inferred, tail.error) == (FAILED, True, None)


@pytest.mark.parametrize("name", ["shell-mode", "compacted"])
def test_a_turn_of_codex_in_which_nothing_was_to_be_answered_is_done(name: str) -> None:
    """The last message is missing there, too: a command that the person typed behind `!`, and /compact."""
    tail = tail_of(rollout, f"codex-0.140.0-{name}.jsonl")
    assert (tail.turn, tail.inferred) == (DONE, False)


def test_what_stands_behind_the_end_of_a_turn_is_not_of_that_turn(tmp_path: Path) -> None:
    path = tmp_path / "rollout.jsonl"
    shutil.copy(EVIDENCE / "codex-0.140.0-failed.jsonl", path)
    late = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "late"}]}
    with path.open("a") as file:
        file.write(json.dumps({"timestamp": "2026-11-18T01:00:00Z", "type": "response_item", "payload": late}) + "\n")
    with Opened(str(path)) as opened:
        assert rollout.read_tail(opened).turn == FAILED


def seen_of_codex(home: Path, name: str, change: Callable[[dict[str, Any]], None] = lambda entry: None) -> Link:
    """What is seen of a thread whose rollout and process table were kept; `change` changes its processes first."""
    world = json.loads((EVIDENCE / f"codex-0.140.0-{name}.json").read_text())
    id = next(entry["env"][THREAD] for entry in world["processes"] if THREAD in entry["env"])
    folder = home / "sessions" / "2026" / "11" / "18"
    folder.mkdir(parents=True)
    shutil.copy(EVIDENCE / f"codex-0.140.0-{name}.jsonl", folder / f"rollout-2026-11-18T00-00-00-{id}.jsonl")
    rows, details = [], {}
    for entry in world["processes"]:
        change(entry)
        rows.append(Process(ProcessKey("boot", entry["pid"], entry["start"]), entry["ppid"], entry["comm"], "S"))
        details[entry["pid"]] = Details(argv=tuple(entry["argv"]), env=entry["env"])
    table = Processes(
        "boot",
        rows,
        source(details=lambda process: details[process.pid]),
        boot_time=world["boot_time"],
        ticks_per_second=100,
    )
    store = codex.ADAPTER.open_store(str(home))
    agent = next(row.key for row in rows if row.pid == world["agent"])
    return store.observe(Link("codex", id, str(home), agent, "open rollout"), store.record(id), table)


def test_a_sandboxed_command_of_codex_runs(tmp_path: Path) -> None:
    """0.140.0: codex, codex-linux-sandbox, bwrap twice, the command. None of them names its call, each its thread."""
    seen = seen_of_codex(tmp_path, "running")
    assert (seen.turn, seen.inferred) == (WORKING, True)


def test_codex_waits_beside_a_command_that_it_left_running(tmp_path: Path) -> None:
    """That command began before its own output, and the pending one was asked for after that."""
    seen = seen_of_codex(tmp_path, "asking")
    assert (seen.turn, seen.waiting_for, seen.inferred) == (WAITING, "approval: sleep 78", True)


def test_a_command_of_another_thread_in_the_same_process_is_not_the_pending_one(tmp_path: Path) -> None:
    assert seen_of_codex(tmp_path, "running", in_another_thread).turn == WAITING


def in_another_thread(entry: dict[str, Any]) -> None:
    if entry["comm"] not in ("codex", "sleep"):
        entry["env"][THREAD] = "another"
    if entry["comm"] == "sleep":
        entry["env"] = {}


def test_a_process_that_we_may_not_look_into_may_run_the_pending_command(tmp_path: Path) -> None:
    def close(entry: dict[str, Any]) -> None:
        if entry["comm"] == "codex":
            return
        entry["env"] = None

    def close_but_one(entry: dict[str, Any]) -> None:
        if entry["comm"] == "codex-linux-san":
            entry["env"] = None

    assert seen_of_codex(tmp_path / "one", "running", close_but_one).turn == WORKING
    seen = seen_of_codex(tmp_path / "all", "running", close)
    assert (seen.turn, seen.waiting_for) == (UNKNOWN, None)


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
    store = codex.ADAPTER.open_store(str(tmp_path))
    record = store.record(id)
    key = ProcessKey("boot", 16, 467532)
    table = Processes("boot", [Process(key, 1, "codex", "S")], source(details=lambda process: None), boot_time=0.0)
    seen = store.observe(Link("codex", id, str(tmp_path), key, "lock"), record, table)
    assert (seen.turn, seen.waiting_for, seen.inferred) == (WAITING, "input: Which colour?", False)


def test_a_codex_daemon_that_is_starting_is_no_problem(tmp_path: Path) -> None:
    """It makes its daemon.pid first and fills it later."""
    (tmp_path / "app-server-daemon").mkdir()
    pid_file = tmp_path / "app-server-daemon" / "daemon.pid"
    pid_file.touch()
    store = codex.ADAPTER.open_store(str(tmp_path))
    store.survey()
    assert list(store.told()) == []
    pid_file.write_text("{ half")
    store.survey()
    assert [problem.path for problem in store.told()] == [str(pid_file)]
