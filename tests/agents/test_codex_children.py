"""Codex: which rollouts are opened to find the sub-agents of a thread."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest

from agentctl.agents.codex import rollout
from agentctl.agents.codex import store as codex_store
from agentctl.files import bounded
from agentctl.files.bounded import EARLIEST

if TYPE_CHECKING:
    from pathlib import Path

BEGAN = 1_790_000_000.0
LATE = rollout.AFTER_ITS_END + 60


def id_at(seconds: float, number: int = 0) -> str:
    digits = f"{int((BEGAN + seconds) * 1000):012x}"
    return f"{digits[:8]}-{digits[8:]}-7000-8000-{number:012d}"


def put(root: Path, id: str, written: float, parent: str | None = None) -> Path:
    day = root / "sessions" / rollout.days_of(id)[0]
    day.mkdir(parents=True, exist_ok=True)
    kind = {"parent_thread_id": parent, "thread_source": "subagent"} if parent else {"thread_source": "user"}
    payload = {"id": id, **kind, "base_instructions": {"text": "x" * 20_000}}
    path = day / f"rollout-2026-09-21T00-00-00-{id}.jsonl"
    path.write_text(json.dumps({"type": "session_meta", "payload": payload}, separators=(",", ":")) + "\n")
    os.utime(path, (written, written))
    return path


def test_only_what_began_in_the_life_of_a_thread_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parent, child, other = id_at(0), id_at(50, 1), id_at(60, 2)
    put(tmp_path, parent, BEGAN + 100)
    put(tmp_path, child, BEGAN + 90, parent)
    put(tmp_path, other, BEGAN + 90)
    for number in range(10):
        put(tmp_path, id_at(100 + LATE + number, number), BEGAN + 100 + LATE)
    opened = Mock(wraps=rollout.parent_in)
    monkeypatch.setattr(codex_store, "parent_in", opened)
    assert codex_store.Store(str(tmp_path)).children(parent) == [child]
    assert opened.call_count == 2


@pytest.mark.parametrize("written", [0.0, EARLIEST - 1])
def test_a_time_of_no_agent_is_no_end(tmp_path: Path, written: float) -> None:
    parent, child = id_at(0), id_at(LATE + 100, 1)
    put(tmp_path, parent, written)
    put(tmp_path, child, BEGAN, parent)
    assert codex_store.Store(str(tmp_path)).children(parent) == [child]


def test_the_end_is_what_the_rollout_says_if_that_is_later(tmp_path: Path) -> None:
    path = put(tmp_path, id_at(0), BEGAN)
    assert rollout.ended_at(str(path), BEGAN + 500) == BEGAN + 500 + rollout.AFTER_ITS_END
    assert rollout.ended_at(str(path), None) == BEGAN + rollout.AFTER_ITS_END
    assert rollout.ended_at(str(tmp_path / "nothing"), BEGAN) == float("inf")
    assert rollout.ended_at(None, None) == float("inf")


def test_a_thread_of_a_person_is_known_by_its_first_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path, id_at(0), BEGAN)
    read = Mock(wraps=bounded.read_bytes)
    monkeypatch.setattr(rollout, "read_bytes", read)
    assert rollout.parent_in(str(path)) is None
    assert [given.args[1] for given in read.call_args_list] == [rollout.FIRST_WORDS]
    said = json.dumps({"type": "session_meta", "payload": {"cwd": '"thread_source":"user"', "parent_thread_id": "p"}})
    path.write_text(said.replace(": ", ":").replace(", ", ",") + "\n")
    assert rollout.parent_in(str(path)) == "p"
