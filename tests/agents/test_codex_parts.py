"""A thread of Codex that goes on in another file: one session, read from the newest."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from agentctl.agents import load
from agentctl.agents.codex.rollout import thread_of

if TYPE_CHECKING:
    from pathlib import Path

THREAD = "01a1edcb-c3a1-7659-9b40-0a11fa4db5a0"  # of 2026-11-18
OTHER = "01a1edd4-eb62-7d4a-9781-28c62f461692"
BASE, PART = f"rollout-2026-11-18T08-00-00-{THREAD}.jsonl", f"rollout-2026-11-18T09-00-00-{THREAD}_{OTHER}.jsonl"
LATER = f"rollout-2026-12-24T09-00-00-{THREAD}_{OTHER}.jsonl"

NAMES = {
    BASE: THREAD,
    PART: THREAD,
    f"rollout-2026-11-18T08-00-00-{THREAD}.json": None,
    f"other-{THREAD}.jsonl": None,
    "rollout-_" + OTHER + ".jsonl": None,
    f"rollout-2026-11-18T08-00-00-x_{OTHER}.jsonl": None,
}


@pytest.mark.parametrize("name", NAMES)
def test_whose_a_rollout_is(name: str) -> None:
    assert thread_of(name) == NAMES[name]


def rollout(root: Path, day: str, name: str, prompt: str, *, ended: bool) -> Path:
    path = root / "sessions" / day / name
    path.parent.mkdir(parents=True, exist_ok=True)
    message = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": prompt}]}
    records = [
        ("session_meta", {"id": THREAD, "cwd": "/work"}),
        ("event_msg", {"type": "task_started", "turn_id": "t"}),
        ("response_item", message),
        *([("event_msg", {"type": "task_complete", "turn_id": "t", "last_agent_message": "ok"})] if ended else []),
    ]
    path.write_text(
        "".join(
            json.dumps({"timestamp": "2026-11-18T08:00:00.000Z", "type": kind, "payload": payload}) + "\n"
            for kind, payload in records
        )
    )
    return path


@pytest.mark.parametrize(("day", "name"), [("2026/11/18", PART), ("2026/12/24", LATER)])
@pytest.mark.parametrize("listed", ["recent", "find", "neither"])
def test_the_newest_part_counts(tmp_path: Path, day: str, name: str, listed: str) -> None:
    rollout(tmp_path, "2026/11/18", BASE, "make it blue", ended=True)
    part = rollout(tmp_path, day, name, "make it red instead", ended=False)
    store = load("codex").open_store(str(tmp_path))
    store.survey()
    if listed == "recent":
        assert {*store.recent(0.0)} == {THREAD}
    elif listed == "find":
        assert {*store.find("01a1")} == {THREAD}
    record = store.record(THREAD)
    assert record is not None
    assert (record.path, record.turn, record.prompt) == (str(part), "working", "make it red instead")
    assert store.record(OTHER) is None
    assert store.has(THREAD)
    assert not store.has(OTHER)


def test_a_copy_in_another_folder_is_no_newer_part(tmp_path: Path) -> None:
    rollout(tmp_path, "2026/11/18", BASE, "make it blue", ended=True)
    part = rollout(tmp_path, "2026/11/18", PART, "make it red instead", ended=False)
    copy = rollout(tmp_path, "2026/11/19", BASE, "make it blue", ended=True)
    os.utime(part, (1.0, 1.0))
    for listed in (True, False):
        store = load("codex").open_store(str(tmp_path))
        store.survey()
        if listed:
            assert {*store.find("01a1")} == {THREAD}
        record = store.record(THREAD)
        assert record is not None
        assert record.path == str(part) != str(copy)
