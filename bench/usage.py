"""What counting costs: `agentctl usage` over two homes, the first time, again, and after one line was added.

- 1 GB in 10 000 files of one agent, all of the last 30 days: made after the lines of real ones, a third of them answers
  of a model with usage, the rest prompts, results of tools (the bulk) and bookkeeping;
- the 10 000 stored sessions of the other benchmarks (bench/stored.py): 3.7 GB of three agents, two years, every fourth
  kilobyte a line with usage.

`make bench`. Prints the figures, the load and what nothing can be faster than, and puts them into docs/performance.md.
Judges nothing: the targets stand beside the figures in the last lines.
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
from typing import TYPE_CHECKING, NamedTuple

from bench import report
from bench.stored import CACHE, stored

if TYPE_CHECKING:
    from collections.abc import Callable

AGENTCTL = os.path.join(os.path.dirname(sys.executable), "agentctl")
FILES, FOLDERS, BYTES = 10_000, 500, 1_000_000_000
STORED = 10_000
ROUNDS = 15
FASTEST, QUICKEST = 250, 100  # the targets: MB per CPU second the first time; ms of CPU after one line was added
DAY = 24 * 60 * 60
BEGUN = time.time() - 29 * DAY


def link(source: str, target: str) -> str:
    """Databases are written to by those who open them: those are copied."""
    if source.endswith(".jsonl"):
        os.link(source, target)
    else:
        shutil.copy2(source, target)
    return target


class Home:
    """With 1 GB of transcripts."""

    name = "1 GB"
    first_rounds = 5

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

    def cpu(self, *words: str, command: str = "") -> tuple[float, int]:
        """CPU seconds and KiB of memory of one `agentctl usage`."""
        argv = [sys.executable, "-I", "-c", command] if command else [AGENTCTL, "usage", *words]
        child = subprocess.Popen(argv, env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            raise SystemExit(f"{argv}: exit {child.returncode}")
        return usage.ru_utime + usage.ru_stime, usage.ru_maxrss

    def least(self, *words: str, command: str = "", before: Callable[[], None] | None = None) -> float:
        """Milliseconds, of some rounds."""
        found = []
        for _ in range(ROUNDS):
            if before is not None:
                before()
            found.append(self.cpu(*words, command=command)[0] * 1000)
        return min(found)

    def append(self) -> None:
        assert self.first is not None
        with open(self.first, "a") as file:
            file.write(self.line(self.first.stem, "assistant", BEGUN, 1000))

    def forget(self) -> None:
        shutil.rmtree(Path(self.env["XDG_CACHE_HOME"]) / "agentctl", ignore_errors=True)


class StoredHome(Home):
    """With the stored sessions of the other benchmarks: linked, because nothing is written to them, but for one."""

    name = f"{STORED} stored"
    first_rounds = 2

    def fill(self) -> None:
        source = stored(STORED)
        for name, target in (("home", self.folder), ("data", Path(self.env["XDG_DATA_HOME"]))):
            shutil.copytree(source.folder / name, target, copy_function=link, dirs_exist_ok=True)
        self.size = source.bytes
        self.first = min((self.folder / ".claude" / "projects").glob("*/*.jsonl"))
        own = self.first.with_suffix(".own")
        shutil.copy2(self.first, own)
        own.replace(self.first)


# What it cannot be faster than: list the folders, and ask for the stamp of each transcript.
LIST = """
import os
folders = [{root!r}]
for folder in folders:
    fd = os.open(folder, os.O_RDONLY)
    with os.scandir(fd) as entries:
        for entry in entries:
            if entry.is_dir():
                folders.append(folder + "/" + entry.name)
            else:
                entry.stat()
    os.close(fd)
"""
IMPORTS = "import _sqlite3, _json, _blake2"


class Figures(NamedTuple):
    name: str
    rate: float  # MB per CPU second of the whole command, the first time
    appended: float  # ms of CPU of the whole command


def measured(home: Home, tell: Callable[[str], None]) -> Figures:
    python, imports, bare = home.least(command="pass"), home.least(command=IMPORTS), home.least()
    home.fill()
    walk = home.least(command=LIST.format(root=str(home.folder / ".claude" / "projects")))
    runs = []
    for _ in range(home.first_rounds):
        home.forget()
        runs.append(home.cpu())
    first, memory = min(runs)
    again, appended = home.least(), home.least(before=home.append)
    sessions = home.least("--by", "session", "--since", "all")
    index = os.path.getsize(Path(home.env["XDG_CACHE_HOME"]) / "agentctl" / "usage.db")
    files = sum(1 for _ in home.folder.glob(".*/**/*.jsonl"))
    tell(
        f"{home.name}: {home.size / 1e6:.0f} MB in {files} files; load {os.getloadavg()[0]:.1f}; "
        f"index {index / 1e6:.1f} MB; least of {ROUNDS}, the first of {home.first_rounds}; {sys.version.split()[0]}"
    )
    rows = (
        ("python -I -c pass, CPU ms", python),
        ("  with what is in C of SQLite and JSON", imports),
        ("  with a walk that asks for each stamp", walk),
        ("nothing to count, CPU ms", bare),
        ("the first time: CPU ms", first * 1000),
        ("the first time: memory, MB", memory / 1024),
        ("nothing new: CPU ms", again),
        ("one line added: CPU ms", appended),
        ("by session, all: CPU ms", sessions),
    )
    for name, figure in rows:
        tell(f"  {name:<42} {figure:>7.0f}")
    return Figures(home.name, home.size / 1e6 / first, appended)


def main() -> None:
    said: list[str] = []

    def tell(line: str) -> None:
        print(line, flush=True)
        said.append(line)

    found = []
    for kind in (Home, StoredHome):
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="usage-", dir=CACHE) as folder:  # beside what is linked
            found.append(measured(kind(Path(folder)), tell))
    tell("of the whole command:")
    for one in found:
        tell(f"{one.name}, the first time: {one.rate:.0f} MB per CPU second (target: at least {FASTEST})")
        tell(f"{one.name}, one line added: {one.appended:.0f} ms of CPU (target: at most {QUICKEST})")
    report.add_usage(said)


if __name__ == "__main__":
    main()
