"""What is in Codex's store, read without agentctl."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def ids(root: Path) -> set[str]:
    locks = {path.stem for path in root.glob("thread-writer-locks/[0-9a-f]*.lock")}
    return locks | {path.stem[-36:] for path in root.glob("sessions/**/rollout-*.jsonl")}
