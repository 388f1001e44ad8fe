"""Codex: a line break of a rollout is lost."""

from __future__ import annotations

import json

import pytest

from agentctl.agents.codex import rollout

OTHER = {"type": "event_msg", "payload": {"type": "agent_message", "message": "hello"}}
BEGUN = {"type": "event_msg", "payload": {"type": "task_started", "turn_id": "t"}}


def line_of(record: object) -> bytes:
    stamped = {"timestamp": "2026-11-15T18:00:00.000Z", **record} if isinstance(record, dict) else record
    return json.dumps(stamped, separators=(",", ":")).encode()


@pytest.mark.parametrize("ended", [True, False])
def test_a_line_with_two_records_is_never_passed_over(ended: bool) -> None:
    single, glued = line_of(OTHER), line_of(OTHER) + line_of(BEGUN)
    assert rollout.passable(single, 0, len(single), ended) is not None
    assert rollout.passable(glued, 0, len(glued), ended) is None
    quoted = line_of({**OTHER, "payload": {**OTHER["payload"], "message": glued.decode()}})  # type: ignore[dict-item]
    assert rollout.passable(quoted, 0, len(quoted), ended) is not None
