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
from agentctl.kernel import processes
from agentctl.launches import records
from agentctl.launches.records import MARKER
from tests.support.children import until
from tests.support.launch_world import end_by_key, gone

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
        """Launch a demo agent and return its session id, once its prompt is in the store: an agent that is killed
        before that never began a turn."""
        found = self.agentctl("launch", "demo", "-p", prompt, *words, **more)
        assert found.returncode == 0, found.stderr
        id = found.stdout.partition("\n")[0]
        if self.events_file(id).parent.exists():  # else its store is elsewhere
            until(lambda: bool(self.prompts_of(id)) or gone(self.launch_of(id).child))
        return id

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
        found, problems = records.read_all(self.env)
        assert problems == []
        return found

    def launch_of(self, id: str) -> Launch:
        (found,) = [one for one in self.launches() if one.session_id == id]
        return found

    def events_file(self, id: str) -> Path:
        return self.folder / "data" / "agentctl-demo" / "sessions" / id / "events.jsonl"

    def events(self, id: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.events_file(id).read_text().splitlines()]

    def prompts_of(self, id: str) -> list[str]:
        """Return the prompts that the agent has stored so far."""
        written = self.events(id) if self.events_file(id).exists() else []
        return [event["text"] for event in written if event["event"] == "prompt"]

    def prompt_of(self, id: str) -> str:
        """Return the only prompt of a session, once the agent has stored it."""
        until(lambda: bool(self.prompts_of(id)))
        (prompt,) = self.prompts_of(id)
        return prompt

    def end_all(self) -> None:
        for key in self.living():
            end_by_key(key)
        until(lambda: not self.living())

    def living(self) -> list[ProcessKey]:
        """What descends from a launch of this home: nobody else's marker has one of these ids."""
        ids = set(os.listdir(self.state / "launches")) if (self.state / "launches").is_dir() else set()
        table = processes.snapshot({MARKER, "AGENTCTL_HOME"})
        found = {key for launch in records.read_all(self.env)[0] for key in (launch.runner, launch.child)}
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
