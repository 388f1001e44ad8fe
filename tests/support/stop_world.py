"""A home with agents that are to be stopped: demo agents, and stand-ins for it that behave badly in their own way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from typing import TYPE_CHECKING, Any

from agentctl.agents.demo import control
from agentctl.kernel import processes
from agentctl.launch import spawn
from agentctl.launch.spawn import Order, Started
from agentctl.launches import records
from agentctl.model import Launch
from tests.support.children import PATIENCE, true_key, until
from tests.support.demo_home import Home
from tests.support.launch_world import end_by_key, gone

if TYPE_CHECKING:
    from pathlib import Path

    from agentctl.model import Process, ProcessKey

# By its arguments it is the demo agent, and it registers as one; then it does what the test says. `tool` starts a
# process in a session of its own, `ready` is called once it behaves.
MOMENTS = 50
STANDIN = """
import json, os, signal, subprocess, sys, time
root, id, code = sys.argv[1:]
folder = f"{root}/sessions/{id}"
os.makedirs(folder, exist_ok=True)
fields = open("/proc/self/stat").read().rpartition(")")[2].split()
boot = open("/proc/sys/kernel/random/boot_id").read().strip()
me = {"pid": os.getpid(), "start_ticks": int(fields[19]), "boot_id": boot, "status": "busy"}


kept = []


def register(id):
    folder = f"{root}/sessions/{id}"
    os.makedirs(folder, exist_ok=True)
    file = open(f"{folder}/events.jsonl", "a")
    file.write(json.dumps({"at": "2026-01-01T00:00:00Z", "event": "prompt", "text": "go"}) + "\\n")
    file.flush()
    kept.append(file)  # as the real one: what it has open says which sessions it is on
    with open(f"{folder}/new", "w") as file:
        json.dump(me, file)
    os.rename(f"{folder}/new", f"{folder}/process.json")


def note(name, value):
    with open(f"{folder}/{name}.new", "w") as file:
        file.write(str(value))
    os.rename(f"{folder}/{name}.new", f"{folder}/{name}")


def tool(*argv, **options):
    child = subprocess.Popen(argv or ("sleep", "300"), start_new_session=True, stdin=subprocess.DEVNULL, **options)
    note("tool", child.pid)
    return child


exec(code)
register(id)
note("ready", os.getpid())
while True:
    time.sleep(600)
"""


class StopWorld(Home):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.base = folder
        self.keys: list[ProcessKey] = []
        self._children: list[subprocess.Popen[Any]] = []
        self.program = folder / "bin" / "agentctl-demo"
        self.program.parent.mkdir()
        self.program.write_text(STANDIN)

    # Building

    def standin(self, code: str = "", *, id: str | None = None, **options: Any) -> tuple[str, ProcessKey]:
        id = id or str(uuid.uuid4())
        env = {**self.env, **options.pop("env", {})}
        child = subprocess.Popen(self.words(id, code), env=env, cwd=self.base, start_new_session=True, **options)
        self._children.append(child)
        self.noted(id, "ready")
        return id, self.keep(child.pid)

    def wrapped(self, id: str, *, then: str) -> ProcessKey:
        """A shell around a stand-in, and what it does once that has ended."""
        words = ["sh", "-c", f'"$@"; {then}', "sh", *self.words(id)]
        child = subprocess.Popen(words, env=self.env, cwd=self.base, start_new_session=True)
        self._children.append(child)
        return self.keep(child.pid)

    def words(self, id: str, code: str = "") -> list[str]:
        return [sys.executable, str(self.program), str(self.root), id, code]

    def noted(self, id: str, name: str) -> str:
        path = self.folder(id) / name
        until(path.exists)
        return path.read_text()

    def tool_of(self, id: str, name: str = "tool") -> ProcessKey:
        return self.keep(int(self.noted(id, name)))

    def demo(self, prompt: str) -> tuple[str, ProcessKey]:
        id, child = self.start("-p", prompt)
        self.wait_for_event(id, "prompt")
        return id, self.keep(child.pid)

    def stranger(self) -> ProcessKey:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        self._children.append(child)
        return self.keep(child.pid)

    def keep(self, pid: int) -> ProcessKey:
        key = true_key(pid)
        self.keys.append(key)
        return key

    def forge(self, id: str, key: ProcessKey) -> None:
        """A process file of this session that names somebody else."""
        file = {"pid": key.pid, "start_ticks": key.start, "boot_id": key.boot, "status": "busy"}
        (self.folder(id) / "process.json").write_text(json.dumps(file))

    def launch(self, *argv: str, **fields: Any) -> Started:
        env = fields.pop("env", self.env)
        order = Order(agent="demo", argv=argv, cwd=str(self.base), env=env, commands_env=self.env, **fields)
        started = spawn.start(records.reserve(self.env), order)
        self.keys += [started.runner, started.child]
        return started

    def launch_demo(self, prompt: str, **fields: Any) -> tuple[str, Started]:
        id = str(uuid.uuid4())
        argv = (*control.PROGRAM, "--session-id", id, "-p", prompt)
        started = self.launch(*argv, session_id=id, one_shot=True, **fields)
        self.wait_for_event(id, "prompt")
        return id, started

    def launch_of(self, id: str) -> Launch:
        found = records.read(id, self.env)
        assert isinstance(found, Launch)
        self.keys += [found.runner, found.child]
        return found

    def end(self, key: ProcessKey) -> None:
        end_by_key(key)
        until(lambda: gone(key))

    # Asking

    def ctl(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "agentctl", *words],
            env=self.env,
            cwd=self.base,
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE,
            check=False,
        )

    def popen(self, *words: str) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [sys.executable, *words],
            env=self.env,
            cwd=self.base,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._children.append(child)
        return child

    def stop(self, *words: str) -> dict[str, Any]:
        """What came of one that could be stopped."""
        done = self.ctl("stop", *words, "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        (found,) = json.loads(done.stdout)["stopped"]
        assert found["living"] == []
        return dict(found)

    def refused(self, *words: str, code: int = 4) -> str:
        done = self.ctl("stop", *words)
        assert (done.returncode, done.stdout) == (code, ""), done.stdout + done.stderr
        return done.stderr

    def status(self, id: str) -> str:
        """Other tests start programs all the time: one whose arguments cannot be read yet may be on what was in
        mid-turn, which is said for that moment."""
        for _ in range(MOMENTS):
            found = json.loads(self.ctl("status", id, "--json").stdout)["session"]
            if found["status"] != "unknown" or "may be on it" not in str(found["reason"]):
                break
            time.sleep(0.1)
        return str(found["status"])

    def end_all(self) -> None:
        super().end_all()
        for key in self.keys:
            end_by_key(key)
        for child in self._children:
            child.kill()
            child.communicate()
        for key in self.keys:
            until(lambda key=key: gone(key))  # type: ignore[misc]
        until(lambda: not self.left_behind())

    def left_behind(self) -> list[Process]:
        """Whoever still has this home: no test leaves a process."""
        table = processes.snapshot({"HOME"})
        rows = [(row, table.details(row)) for row in table.living() if row.pid != os.getpid()]
        return [row for row, details in rows if details and (details.env or {}).get("HOME") == str(self.base)]


def living(*keys: ProcessKey) -> list[bool]:
    return [not gone(key) for key in keys]
