"""What `list --strict` reads: however long ago a session was written, it may be alive where we cannot look."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

import pytest

from agentctl.kernel.processes import Processes
from agentctl.query.sessions import Scope, query

if TYPE_CHECKING:
    from pathlib import Path

ID = "00000000-0000-4000-8000-000000000003"
MONTH = 30 * 24 * 60 * 60


@pytest.mark.parametrize("ago", [None, 60.0])
def test_an_old_open_turn_where_the_process_table_is_not_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ago: float | None
) -> None:
    env = {"HOME": str(tmp_path), "AGENTCTL_HOME": str(tmp_path / "agentctl")}
    events = tmp_path / ".local/share/agentctl-demo/sessions" / ID / "events.jsonl"
    events.parent.mkdir(parents=True)
    lines = [{"event": "session", "cwd": "/work"}, {"event": "prompt", "text": "x"}]
    then = {"at": "2026-10-01T00:00:00.000Z"}
    events.write_text("".join(json.dumps({**then, **line}) + "\n" for line in lines))
    os.utime(events, (time.time() - MONTH, time.time() - MONTH))
    scope = Scope(agents=("demo",), since=None if ago is None else time.time() - ago)
    assert query(scope._replace(strict=True), env).sessions == ()  # it has ended: it is not asked for
    monkeypatch.setattr(Processes, "incomplete_for", lambda *given: "its store is shared")
    assert query(scope, env).sessions == ()
    (found,) = query(scope._replace(strict=True), env).sessions
    assert (found.id, found.status) == (ID, "unknown")
