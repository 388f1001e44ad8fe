"""A seeded home for benchmarks: stored sessions, live stand-in agents and other processes. Ends all it started."""

from __future__ import annotations

import fcntl
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

FIXTURES = Path(__file__).parent.parent / "tests" / "fixtures"
CLAUDE_SAMPLES = ("claude/finished_ok_headless", "claude-2.1.325/finished_ok_headless", "claude/killed9_mid_tool")
CODEX_SAMPLE = FIXTURES / "codex" / "finished_ok" / "codex_home"
DAY = 86400


class Home:
    """`with Home(stored=1000, live=20, processes=300) as home:` then run agentctl with `home.env`."""

    def __init__(self, stored: int, live: int, processes: int, seed: int = 1) -> None:
        self.stored, self.live, self.others = stored, live, processes
        self.random = random.Random(seed)
        self.folder = Path(tempfile.mkdtemp(prefix="agentctl-bench-"))
        self.children: list[subprocess.Popen[bytes]] = []
        self.env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.folder),
            "AGENTCTL_HOME": str(self.folder / "agentctl"),
            **{f"XDG_{name}_HOME": str(self.folder / name.lower()) for name in ("DATA", "STATE", "CACHE", "CONFIG")},
        }

    def __enter__(self) -> Home:
        try:
            self.build()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def build(self) -> None:
        for index in range(self.stored):
            self.store_codex(index) if index % 5 == 0 else self.store_claude(index)
        program = self.folder / "bin" / "claude"
        program.parent.mkdir()
        shutil.copy(shutil.which("sleep") or "/bin/sleep", program)
        for index in range(self.live):
            self.start_codex() if index % 4 == 0 else self.start_claude(program, index)
        for _ in range(self.others):
            self.children.append(subprocess.Popen(["sleep", "600"], env=self.env))
        time.sleep(0.5)

    def end(self) -> None:
        for child in self.children:
            child.kill()
        for child in self.children:
            child.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    # Stored sessions

    def cwd(self, index: int) -> Path:
        folder = self.folder / "work" / f"project-{index % 40}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def age(self, path: Path) -> None:
        when = time.time() - self.random.random() * 60 * DAY - 60
        os.utime(path, (when, when))

    def store_claude(self, index: int) -> None:
        id = str(uuid.UUID(int=self.random.getrandbits(128), version=4))
        self.age(self.claude_transcript(id, self.cwd(index), self.random.choice(CLAUDE_SAMPLES)))

    def claude_transcript(self, id: str, cwd: Path, sample: str) -> Path:
        source = next((FIXTURES / sample / ".claude" / "projects").glob("*/*.jsonl"))
        slug = "".join(char if char.isalnum() else "-" for char in str(cwd))
        path = self.folder / ".claude" / "projects" / slug / f"{id}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source.read_text().replace(source.stem, id))
        return path

    def store_codex(self, index: int) -> None:
        self.age(self.codex_rollout(time.time() - self.random.random() * 60 * DAY)[1])

    def codex_rollout(self, began: float) -> tuple[str, Path]:
        source = next(CODEX_SAMPLE.glob("sessions/*/*/*/*.jsonl"))
        tail = f"{self.random.getrandbits(74):020x}"
        stamp = f"{int(began * 1000):012x}"
        id = f"{stamp[:8]}-{stamp[8:]}-7{tail[:3]}-8{tail[3:6]}-{tail[6:18]}"
        local = time.localtime(began)
        folder = self.folder / ".codex" / "sessions" / time.strftime("%Y/%m/%d", local)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"rollout-{time.strftime('%Y-%m-%dT%H-%M-%S', local)}-{id}.jsonl"
        path.write_text(source.read_text().replace(source.stem[-36:], id))
        return id, path

    # Live ones

    def start_claude(self, program: Path, index: int) -> None:
        cwd = self.cwd(index)
        child = subprocess.Popen(["claude", "600"], executable=program, env=self.env, cwd=cwd)
        self.children.append(child)
        id = str(uuid.UUID(int=self.random.getrandbits(128), version=4))
        status, sample = self.random.choice([("busy", "running_mid_tool"), ("idle", "idle_interactive")])
        self.claude_transcript(id, cwd, f"claude/{sample}")
        ticks = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19]
        file = self.folder / ".claude" / "sessions" / f"{child.pid}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        facts = {"pid": child.pid, "sessionId": id, "cwd": str(cwd), "procStart": ticks, "version": "2.1.197"}
        file.write_text(json.dumps({**facts, "kind": "interactive", "entrypoint": "cli", "status": status}))

    def start_codex(self) -> None:
        """The lock is taken here and inherited by a child named codex: the kernel lists its holder as our pid, so the
        child takes it itself."""
        id, _ = self.codex_rollout(time.time() - 100)
        lock = self.folder / ".codex" / "thread-writer-locks" / f"{id}.lock"
        lock.parent.mkdir(parents=True, exist_ok=True)
        lock.touch()
        code = f"import fcntl, time; lock = open({str(lock)!r}); fcntl.flock(lock, {fcntl.LOCK_EX}); time.sleep(600)"
        argv = ["codex", "-I", "-S", "-c", code]
        self.children.append(subprocess.Popen(argv, executable=sys.executable, env=self.env, cwd=self.cwd(0)))
