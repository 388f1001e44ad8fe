"""The last turn of a rollout of Codex, if turns stand inside turns or end late."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from agentctl.agents.codex.rollout import Tail, read_tail
from agentctl.files.bounded import Opened

if TYPE_CHECKING:
    from pathlib import Path

META = {"type": "session_meta", "payload": {"id": "x"}}


def event(kind: str, turn: str | None, **more: Any) -> dict[str, Any]:
    return {"type": "event_msg", "payload": {"type": kind, **({"turn_id": turn} if turn else {}), **more}}


def began(turn: str) -> dict[str, Any]:
    return event("task_started", turn)


def ended(turn: str | None) -> dict[str, Any]:
    return event("task_complete", turn, last_agent_message="ok")


def aborted(turn: str, reason: str) -> dict[str, Any]:
    return event("turn_aborted", turn, reason=reason)


def call(id: str) -> dict[str, Any]:
    payload = {"type": "function_call", "name": "exec_command", "arguments": json.dumps({"cmd": id}), "call_id": id}
    return {"type": "response_item", "payload": payload}


OUTPUT = {"type": "response_item", "payload": {"type": "function_call_output", "call_id": "c", "output": "ok"}}

ROWS: dict[str, tuple[list[dict[str, Any]], str]] = {
    "complete": ([began("a"), ended("a")], "done"),
    "open": ([began("a"), ended("a"), began("b")], "working"),
    "a review, complete": ([began("a"), began("r"), ended("a")], "done ?"),
    "a review, complete, in which a command ran": (
        [began("a"), began("r"), call("c"), OUTPUT, ended("a")],
        "done ?",
    ),
    "two begins inside": ([began("a"), began("r"), began("q"), ended("a")], "done ?"),
    "a review, interrupted": ([began("a"), began("r"), aborted("a", "interrupted")], "interrupted ?"),
    "a review at work": ([began("a"), began("r")], "working"),
    "a review, and the next turn": ([began("a"), began("r"), ended("a"), began("b")], "working"),
    "a review, and the next turn is complete": ([began("a"), began("r"), ended("a"), began("b"), ended("b")], "done"),
    "killed, and the next turn is open": ([began("a"), began("b")], "working"),
    "its place was taken, which was written late": ([began("a"), began("b"), aborted("a", "replaced")], "working"),
    "the end of a turn that began nowhere": ([began("b"), ended("z")], "working ?"),
    "an end without a turn": ([began("b"), ended(None)], "working ?"),
}


def tail_of(folder: Path, records: list[dict[str, Any]]) -> Tail:
    path = folder / "rollout.jsonl"
    lines = [{"timestamp": f"2026-11-18T08:00:{number:02}.000Z", **one} for number, one in enumerate((META, *records))]
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    with Opened(str(path)) as file:
        return read_tail(file)


@pytest.mark.parametrize("name", ROWS)
def test_how_the_last_turn_stands(name: str, tmp_path: Path) -> None:
    records, expected = ROWS[name]
    tail = tail_of(tmp_path, records)
    assert f"{tail.turn}{' ?' if tail.inferred else ''}" == expected


def test_a_review_began_with_the_outer_turn(tmp_path: Path) -> None:
    tail = tail_of(tmp_path, [began("a"), began("r"), ended("a")])
    assert tail.begun_at is not None
    assert tail.ended_at == tail.begun_at + 2
