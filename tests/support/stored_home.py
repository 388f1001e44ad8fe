"""A home with many stored sessions and no process: copies of what real agents wrote."""

from __future__ import annotations

import os
import random
import shutil
import time
from typing import TYPE_CHECKING, Any

from agentctl.agents.claude_code import transcript
from agentctl.agents.codex import rollout
from agentctl.query import store_reader
from agentctl.query.sessions import Scope, query
from tests.support.transcripts import CLAUDE, CODEX

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    from agentctl.files.bounded import Opened
    from agentctl.model import Answer

COUNT = 60
AGED = 1000.0  # seconds: settled


class Home:
    """A home with many stored sessions and no process."""

    def __init__(self, folder: Path, seed: int = 0) -> None:
        self.folder = folder
        self.random = random.Random(seed)
        self.cache = folder / "cache" / "agentctl"
        self.env = {
            "HOME": str(folder),
            "AGENTCTL_HOME": str(folder / "agentctl"),
            **{f"XDG_{name}_HOME": str(folder / name.lower()) for name in ("DATA", "STATE", "CACHE", "CONFIG")},
        }
        for number in range(COUNT):
            self.add(CLAUDE, folder / ".claude/projects/-work" / f"00000000-0000-4000-8000-{number:012}.jsonl")
            name = f"rollout-2026-01-01T00-00-00-019b7000-0000-7000-8000-{number:012}.jsonl"
            self.add(CODEX, folder / ".codex/sessions/2026/01/01" / name)

    def add(self, samples: list[Path], path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.random.choice(samples), path)
        settle(path)

    def transcripts(self) -> list[Path]:
        return sorted(self.folder.glob(".c*/**/*.jsonl"))

    def files(self) -> list[Path]:
        return sorted(self.cache.glob("records-*"))

    def ask(self, since: float = 0.0) -> Answer:
        return query(Scope(since=since), self.env)

    def without_cache(self, monkeypatch: pytest.MonkeyPatch) -> Answer:
        with monkeypatch.context() as patch:
            patch.setattr(store_reader, "MANY", 10**9)
            return self.ask()


def settle(path: Path) -> None:
    when = time.time() - AGED
    os.utime(path, (when, when))


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The transcripts that are opened from now on."""
    seen: list[str] = []
    for module in (transcript, rollout):
        real: Callable[..., Any] = module.Backward

        def counting(file: Opened, *rest: Any, real: Callable[..., Any] = real, **named: Any) -> Any:
            seen.append(file.path)
            return real(file, *rest, **named)

        monkeypatch.setattr(module, "Backward", counting)
    return seen
