"""What is in Claude Code's store, read without agentctl."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def ids(root: Path) -> set[str]:
    found = {path.stem for path in root.glob("projects/*/*.jsonl")}
    return found | {id for path in root.glob("sessions/*.json") if (id := session_id_in(path))}


def session_id_in(path: Path) -> str | None:
    try:
        return str(json.loads(path.read_text())["sessionId"])
    except (OSError, ValueError, KeyError):
        return None  # being written
