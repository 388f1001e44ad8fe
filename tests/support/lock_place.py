"""A state folder and a directory to lock, with processes that race for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from agentctl.workspace import locks
from tests.support.launch_world import SOURCES


class Place:
    def __init__(self, folder: Path) -> None:
        self.state = folder / "state"
        self.env = {"AGENTCTL_HOME": str(self.state), "HOME": str(folder)}
        self.work = folder / "work"
        self.work.mkdir()
        self.children: list[subprocess.Popen[str]] = []

    def files(self) -> list[str]:
        folder = self.state / "locks"
        return sorted(os.listdir(folder)) if folder.exists() else []

    def write(self, content: object, directory: Path | None = None) -> Path:
        """A lock file of somebody else's making."""
        (self.state / "locks").mkdir(0o700, parents=True, exist_ok=True)
        self.state.chmod(0o700)
        path = Path(locks.lock_path(self.env, str(directory or self.work)))
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    def facts(self, **more: Any) -> dict[str, Any]:
        at = "2026-01-01T00:00:00Z"
        return {
            "directory": str(self.work),
            "by": "ann@host",
            "reason": None,
            "created_at": at,
            "expires_at": None,
            **more,
        }

    def start(self, code: str, **options: Any) -> subprocess.Popen[str]:
        """A process that has imported everything, and waits for a line."""
        code = f"import os, sys, time\nfrom agentctl.workspace import locks\nfrom agentctl.errors import *\n{code}"
        child = subprocess.Popen(
            [sys.executable, "-B", "-c", code, str(self.work)],
            env={**os.environ, **self.env, "PYTHONPATH": SOURCES},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            **options,
        )
        self.children.append(child)
        return child


def line_of(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def said_by_all(children: list[subprocess.Popen[str]]) -> list[str]:
    for child in children:
        assert line_of(child) == "ready"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    return [line_of(child) for child in children]
