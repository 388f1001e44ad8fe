"""A state folder of its own, the agents that were launched in it, and the proof that none outlives its test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import agentctl
from agentctl.kernel import processes
from agentctl.launch import spawn
from agentctl.launch.spawn import Order, Started
from agentctl.launches import records
from agentctl.launches.records import MARKER
from agentctl.model import Exit, Launch, ProcessKey
from tests.support.children import PATIENCE, until

if TYPE_CHECKING:
    from collections.abc import Iterable

SOURCES = str(Path(agentctl.__file__).parents[1])
SHELL = "/bin/sh"
# The first thing an agent of a test does: it notes its own key, by which it is known that it ran, and which it was.
RAN = "read -r stat < /proc/self/stat; echo $stat > ran"
WAIT = "while [ ! -e end ]; do sleep 0.02; done"


class World:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cwd = folder / "work"
        self.cwd.mkdir()
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "PYTHONPATH": SOURCES,
            "AGENTCTL_HOME": str(folder / "state"),
        }
        self.state = folder / "state"
        self._ids: list[str] = []

    def order(self, script: str = "exit 0", **fields: Any) -> Order:
        given: dict[str, Any] = {
            "agent": "test",
            "argv": (SHELL, "-c", script),
            "cwd": str(self.cwd),
            "env": self.env,
            "commands_env": self.env,
        }
        return Order(**{**given, **fields})

    def reserve(self) -> records.Reserved:
        reserved = records.reserve(self.env)
        self._ids.append(reserved.id)
        return reserved

    def start(self, script: str = "exit 0", **fields: Any) -> Started:
        return spawn.start(self.reserve(), self.order(script, **fields))

    def launch(self, id: str) -> Launch:
        found = records.read(id, self.env)
        assert isinstance(found, Launch), found
        return found

    def launches(self) -> list[Launch]:
        found, problems = records.read_all(self.env)
        assert problems == []
        return found

    def exits(self, id: str, count: int = 1) -> list[Exit]:
        until(lambda: len(records.exits(id, self.env)) >= count)
        found = records.exits(id, self.env)
        assert len(found) == count
        return found

    def output(self, id: str) -> str:
        return (self.state / "launches" / id / records.OUTPUT).read_text()

    def commands(self, id: str) -> list[str]:
        path = self.state / "launches" / id / records.COMMANDS
        return path.read_text().splitlines() if path.exists() else []

    def ran(self) -> bool:
        return (self.cwd / "ran").exists()

    def end_agent(self) -> None:
        (self.cwd / "end").touch()

    def folders(self) -> list[str]:
        path = self.state / "launches"
        return sorted(os.listdir(path)) if path.exists() else []

    def close(self) -> None:
        """Nobody outlives a test. What is told to end is given the time for it first."""
        self.end_agent()
        deadline = time.monotonic() + PATIENCE / 3
        while self.living() and time.monotonic() < deadline:
            time.sleep(0.02)
        for key in self.living():
            end_by_key(key)
        until(lambda: not self.living())

    def living(self) -> list[ProcessKey]:
        """The processes of the launches of this test, by their records and by their marker."""
        table = processes.snapshot({MARKER})
        keys: set[ProcessKey] = set()
        for launch in records.read_all(self.env)[0]:
            keys |= {launch.runner, launch.child}
        found = [key for key in keys if table.alive(key)]
        for process in table.living():
            details = table.details(process)
            if details is not None and details.env and details.env.get(MARKER) in self._ids:
                found.append(process.key)
        return list(dict.fromkeys(found))


def end_by_key(key: ProcessKey) -> None:
    """Open, prove, signal: never somebody who has the pid now."""
    try:
        fd = os.pidfd_open(key.pid)
    except ProcessLookupError:
        return
    try:
        row = processes.snapshot().alive(key)
        if row is not None:
            signal.pidfd_send_signal(fd, signal.SIGKILL)
    except ProcessLookupError:
        pass
    finally:
        os.close(fd)


def gone(key: ProcessKey) -> bool:
    return processes.snapshot().gone(key)


def wait_until_gone(keys: Iterable[ProcessKey]) -> None:
    for key in keys:
        until(lambda key=key: gone(key))  # type: ignore[misc]


def run_python(code: str, *words: str, env: dict[str, str], **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        env=env,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        **options,
    )


def document(world: World, reserved: records.Reserved, script: str, **fields: Any) -> dict[str, Any]:
    return {**spawn.runner_order(reserved, world.order(script), headless=True), **fields}


def written(path: Path, content: dict[str, Any]) -> Path:
    path.write_text(json.dumps(content))
    return path
