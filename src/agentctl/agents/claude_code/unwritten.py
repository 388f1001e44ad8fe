"""The record of a session of Claude Code that has no transcript: it is new, or runs without persistence."""

from __future__ import annotations

from agentctl.agents.claude_code.adapter import NAME
from agentctl.files.bounded import moment, text_or_none
from agentctl.model import IDLE, WORKING, Evidence, Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def record_of(id: str, file: dict[str, Any], root: str, path: str) -> Record:
    """Return what the file of its process says about it. `path`: of that file."""
    return Record(
        NAME,
        id,
        root,
        IDLE if file.get("status") in ("idle", "shell") else WORKING,
        reason="no transcript was written",
        ending="it ended before its first record",
        cwd=text_or_none(file.get("cwd")),
        title=text_or_none(file.get("name") if file.get("nameSource") != "derived" else None),
        version=text_or_none(file.get("version")),
        started_at=moment(file.get("startedAt")),
        updated_at=moment(file.get("updatedAt")) or moment(file.get("startedAt")),
        evidence=(Evidence("store", "no transcript of this session", path),),
    )
