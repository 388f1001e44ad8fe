"""A home in which the real command launches demo agents, and the proof that none outlives its test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import agentctl
from agentctl import launches, processes
from agentctl.launches import MARKER
from tests.children import until
from tests.launch_world import end_by_key

if TYPE_CHECKING:
    from agentctl.model import Launch, ProcessKey

SOURCES = str(Path(agentctl.__file__).parents[1])
COMMAND = [sys.executable, "-m", "agentctl"]
TIMEOUT = 60.0
LONG = "[[sleep:300]]"
UNTIL_TOLD = "[[bash:while [ ! -e go ]; do sleep 0.02; done]]"  # a tool that ends when the test says so


class Home:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work = folder / "work"
        self.work.mkdir()
        self.state = folder / "state"
        self.env = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": SOURCES,
            "HOME": str(folder),
            "XDG_DATA_HOME": str(folder / "data"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "TMUX_TMPDIR": str(folder),  # no server of a person is asked
            "AGENTCTL_HOME": str(self.state),
        }

    def agentctl(self, *words: str, input: str | None = None, **more: Any) -> subprocess.CompletedProcess[str]:
        given: dict[str, Any] = {"stdin": subprocess.DEVNULL} if input is None else {"input": input}
        return subprocess.run(
            [*COMMAND, *words],
            **{**given, "env": self.env, "cwd": self.work, **more},
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )

    def start(self, *words: str, **more: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*COMMAND, *words],
            **{"env": self.env, "cwd": self.work, "stdin": subprocess.DEVNULL, **more},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def launch(self, prompt: str, *words: str, **more: Any) -> str:
        """The id of a new session of the demo agent."""
        found = self.agentctl("launch", "demo", "-p", prompt, *words, **more)
        assert found.returncode == 0, found.stderr
        return found.stdout.strip()

    def go(self) -> None:
        (self.work / "go").touch()

    def folder_named(self, name: str) -> str:
        path = self.folder / name
        path.mkdir(exist_ok=True)
        return str(path)

    def session(self, id: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.agentctl("status", id, "--json").stdout)["session"]
        return found

    def listed(self, *words: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.agentctl("list", "--json", *words).stdout)
        return found

    def until_status(self, id: str, *words: str) -> dict[str, Any]:
        until(lambda: self.session(id)["status"] in words)
        return self.session(id)

    def until_ended(self, id: str, word: str) -> dict[str, Any]:
        """With how it ended: its runner notes that a moment after the process table has it."""
        until(lambda: (end := self.session(id))["status"] == word and (end["exit_code"], end["signal"]) != (None, None))
        return self.session(id)

    def launches(self) -> list[Launch]:
        found, problems = launches.read_all(self.env)
        assert problems == []
        return found

    def launch_of(self, id: str) -> Launch:
        (found,) = [one for one in self.launches() if one.session_id == id]
        return found

    def events(self, id: str) -> list[dict[str, Any]]:
        path = self.folder / "data" / "agentctl-demo" / "sessions" / id / "events.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()]

    def prompt_of(self, id: str) -> str:
        (prompt,) = [event["text"] for event in self.events(id) if event["event"] == "prompt"]
        return str(prompt)

    def end_all(self) -> None:
        for key in self.living():
            end_by_key(key)
        until(lambda: not self.living())

    def living(self) -> list[ProcessKey]:
        """What descends from a launch of this home: nobody else's marker has one of these ids."""
        ids = set(os.listdir(self.state / "launches")) if (self.state / "launches").is_dir() else set()
        table = processes.snapshot({MARKER, "AGENTCTL_HOME"})
        found = {key for launch in launches.read_all(self.env)[0] for key in (launch.runner, launch.child)}
        found = {key for key in found if table.alive(key)}
        for process in table.living():
            details = table.details(process)
            env = (details.env if details else None) or {}
            if env.get(MARKER) in ids or env.get("AGENTCTL_HOME") == str(self.state):
                found.add(process.key)
        return sorted(found)

    def wait_until_quiet(self) -> None:
        """Several looks: in the moment of an exec a process has no environment to be known by."""
        deadline = time.monotonic() + TIMEOUT
        quiet = 0
        while quiet < 5:
            quiet = 0 if self.living() else quiet + 1
            assert time.monotonic() < deadline, f"still there: {self.living()}"
            time.sleep(0.02)
