"""What counting costs: `agentctl usage` over 1 GB of transcripts in 10 000 files, the first time, again, and after one
line was added to one of them.

`make bench`. Prints the figures and the load; judges nothing: targets are printed beside the figures. The transcripts
are made after the lines of real ones: a third of them are a model's answers with usage, the rest prompts, results of
tools (the bulk) and bookkeeping.
"""

from __future__ import annotations

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

AGENTCTL = os.path.join(os.path.dirname(sys.executable), "agentctl")
FILES, FOLDERS, BYTES = 10_000, 500, 1_000_000_000
ROUNDS = 5
DAY = 24 * 60 * 60
BEGUN = time.time() - 29 * DAY


class Home:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.random = random.Random(1)
        self.env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(folder),
            "AGENTCTL_HOME": str(folder / "agentctl"),
            **{f"XDG_{name}_HOME": str(folder / name.lower()) for name in ("DATA", "STATE", "CACHE", "CONFIG")},
        }
        self.text = "".join(self.random.choices('abcdefghijklmnopqrstuvwxyz  \n"', k=100_000))
        self.first: Path | None = None
        self.size = self.answers = 0

    def fill(self) -> None:
        for number in range(FILES):
            folder = self.folder / ".claude" / "projects" / f"-work-project-{number % FOLDERS}"
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"{self.uuid()}.jsonl"
            path.write_text("".join(self.session(path.stem, BYTES // FILES)))
            self.size += path.stat().st_size
            self.first = self.first or path

    def uuid(self) -> str:
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    def session(self, id: str, size: int) -> list[str]:
        at = BEGUN + self.random.random() * 28 * DAY
        lines: list[str] = []
        while size > 0:
            at += self.random.random() * 60
            for kind, most in (("assistant", 3_000), ("user", 40_000), ("attachment", 3_000)):
                lines.append(self.line(id, kind, at, self.random.randrange(100, most)))
                size -= len(lines[-1])
        return lines

    def line(self, id: str, kind: str, at: float, size: int) -> str:
        where = self.random.randrange(len(self.text) - size)
        record: dict[str, object] = {"parentUuid": self.uuid(), "isSidechain": False, "type": kind}
        content = self.text[where : where + size]
        if kind == "assistant":
            self.answers += 1
            usage = {"input_tokens": 11, "cache_creation_input_tokens": 7, "cache_read_input_tokens": 5}
            usage |= {"output_tokens": self.random.randrange(2000)}
            name = f"msg_{self.random.getrandbits(96):024x}"
            blocks = [{"type": "text", "text": content}]
            record |= {"message": {"id": name, "model": "model-1", "content": blocks, "usage": usage}}
            record["requestId"] = f"req_{self.random.getrandbits(48):012x}"
        else:
            record["message"] = {"role": "user", "content": content}
        moment = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(at))
        record |= {"uuid": self.uuid(), "timestamp": moment, "cwd": "/work/project", "sessionId": id}
        return json.dumps(record, separators=(",", ":")) + "\n"

    def cpu(self, *words: str) -> tuple[float, int]:
        """CPU seconds and KiB of memory of one `agentctl usage`."""
        command = [AGENTCTL, "usage", *words]
        child = subprocess.Popen(command, env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            raise SystemExit(f"{command}: exit {child.returncode}")
        return usage.ru_utime + usage.ru_stime, usage.ru_maxrss

    def append(self) -> None:
        assert self.first is not None
        with open(self.first, "a") as file:
            file.write(self.line(self.first.stem, "assistant", BEGUN, 1000))


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="agentctl-bench-") as folder:
        home = Home(Path(folder))
        bare = min(home.cpu()[0] for _ in range(ROUNDS))
        home.fill()
        shutil.rmtree(Path(folder) / "cache", ignore_errors=True)
        first, memory = home.cpu()
        again = min(home.cpu()[0] for _ in range(ROUNDS))
        appended = []
        for _ in range(ROUNDS):
            home.append()
            appended.append(home.cpu()[0])
        sessions = home.cpu("--by", "session", "--since", "all")[0]
        index = os.path.getsize(Path(folder) / "cache" / "agentctl" / "usage.db")
    print(f"{home.size / 1e6:.0f} MB in {FILES} files, {home.answers} answers; load {os.getloadavg()[0]:.1f}; ", end="")
    print(f"index {index / 1e6:.1f} MB; least of {ROUNDS}, {sys.version.split()[0]}")
    rows = (
        ("bare: nothing to count, CPU ms", bare * 1000, ""),
        ("the first time: MB per CPU second", home.size / 1e6 / (first - bare), "at least 250"),
        ("the first time: memory, MB", memory / 1024, ""),
        ("nothing new: CPU ms above bare", (again - bare) * 1000, ""),
        ("one line added: CPU ms above bare", (min(appended) - bare) * 1000, "at most 100"),
        ("by session, all: CPU ms above bare", (sessions - bare) * 1000, ""),
    )
    for name, figure, target in rows:
        print(f"{name:<40} {figure:>7.0f}   {target}".rstrip())


if __name__ == "__main__":
    main()
