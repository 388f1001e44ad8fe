"""A home of its own for demo agents: real processes, ended by the handles they were started with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import agentctl
from agentctl.agents.demo import adapter

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentctl import model
    from agentctl.agents.base import Store

TIMEOUT = 60.0  # seconds: a bound for a condition that always comes, on a busy machine too
SOURCES = str(Path(agentctl.__file__).parents[1])
COMMAND = [sys.executable, "-m", "agentctl.demo_agent"]


def wait_until(condition: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + TIMEOUT
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {TIMEOUT} s for {what}"
        time.sleep(0.02)
    return found


class Home:
    """A temporary home, and the agents that were started in it."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "data" / "agentctl-demo"
        self.env = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": SOURCES,
            "HOME": str(folder),
            "XDG_DATA_HOME": str(folder / "data"),
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "TMUX_TMPDIR": str(folder),  # no server of a person is asked
            "AGENTCTL_HOME": str(folder / "agentctl"),
        }
        self._folder = folder
        self._started: list[subprocess.Popen[str]] = []

    def run(self, *arguments: str, input: str | None = None) -> subprocess.CompletedProcess[str]:
        given: dict[str, Any] = {"stdin": subprocess.DEVNULL} if input is None else {"input": input}
        return subprocess.run(
            [*COMMAND, *arguments],
            **given,
            env=self.env,
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )

    def start(self, *arguments: str, stdin: int = subprocess.DEVNULL) -> tuple[str, subprocess.Popen[str]]:
        """Start an agent under a new id. Return once it waits for a prompt, or its prompt is in the store: an agent
        that is killed before that never began a turn."""
        id = str(uuid.uuid4())
        child = self._popen("--session-id", id, *arguments, stdin=stdin)
        wait_until(lambda: self.has_begun(id), "its prompt")
        return id, child

    def resume(self, id: str, *arguments: str) -> subprocess.Popen[str]:
        """Start an agent that goes on with a session."""
        return self._popen("--resume", id, *arguments, stdin=subprocess.DEVNULL)

    def _popen(self, *arguments: str, stdin: int) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [*COMMAND, *arguments],
            stdin=stdin,
            stdout=subprocess.DEVNULL,
            env=self.env,
            cwd=self._folder,
            text=True,
        )
        self._started.append(child)
        return child

    def has_begun(self, id: str) -> bool:
        file, events = self.process_file(id), kinds(self.events(id))
        return file is not None and ("prompt" in events or (file["status"] == "idle" and "session" in events))

    def folder(self, id: str) -> Path:
        return self.root / "sessions" / id

    def events(self, id: str) -> list[dict[str, Any]]:
        path = self.folder(id) / "events.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def process_file(self, id: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads((self.folder(id) / "process.json").read_text())
        except FileNotFoundError:
            return None
        return found

    def wait_for_status(self, id: str, status: str) -> dict[str, Any]:
        def reached() -> dict[str, Any] | None:
            file = self.process_file(id)
            return file if file and file["status"] == status else None

        found: dict[str, Any] = wait_until(reached, f"status {status}")
        return found

    def wait_for_event(self, id: str, event: str) -> None:
        wait_until(lambda: event in kinds(self.events(id)), f"event {event}")

    def store(self) -> Store:
        return adapter.ADAPTER.open_store(str(self.root))

    def record(self, id: str, *, tokens: bool = False) -> model.Record:
        record = self.store().record(id, tokens=tokens)
        assert record is not None
        return record

    def end_all(self) -> None:
        for child in self._started:
            child.terminate()
        for child in self._started:
            try:
                child.wait(5)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait(5)
            if child.stdin:
                child.stdin.close()


def session_of(result: subprocess.CompletedProcess[str]) -> str:
    label, id = result.stdout.splitlines()[0].split(": ")
    assert label == "session"
    return id


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["event"] for event in events]
