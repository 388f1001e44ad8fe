"""Stored sessions as years of work leave them: seeded, of sizes as in life, generated cheaply and kept between runs.

Bodies are cut from one generated conversation, by whole lines, so that a gigabyte takes seconds; the ends of each file
are its own. Kept in build/bench, by what it was made from, for a day: the ages of sessions are part of it.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import shutil
import time
import uuid
from pathlib import Path
from typing import Any, NamedTuple

from tests import agents

VERSION = 6
CACHE = Path(__file__).parent.parent / "build" / "bench"
DAY = 86400
FRESH = 20 * 3600  # an older one has other sessions in the last week
YEARS = 2 * 365 * DAY
LAST_WEEK = 0.05  # of the sessions
MEDIAN, SIGMA, LARGEST = 64 * 1024, 1.55, 60 * 1024 * 1024
RESTAMP = 32 * 1024  # bytes: so often some agents write their title and mode again, so that they are near the end
WORDS = "the parser fails when a header is folded over two lines so split it first and keep the offsets of both".split()


class Stored(NamedTuple):
    """A folder with home/ and data/ as they were left, and what is in them."""

    folder: Path
    ids: dict[str, list[str]]  # name of the agent -> its sessions
    bytes: int

    @property
    def typical(self) -> str:
        """Return the id of one session of the agent that has most of them."""
        ids = max(self.ids.values(), key=len)
        return ids[len(ids) // 2]


class Kind:
    """Makes the stored sessions of one agent. Each description with such a class has a share in the benchmarks."""

    SHARE: float  # of all stored sessions
    LIVE = 0  # of the live agents, and
    LAUNCHED = 0  # of the kept launches: as many, compared with those of the others
    HAS_LINES = True  # its transcripts are lines: `turn` makes those of one turn, and `Maker.write` cuts from many

    def __init__(self, name: str, make: Maker) -> None:
        self.name, self.make = name, make

    def turn(self, at: float, id: str, cwd: str) -> list[bytes]:
        raise NotImplementedError

    def store(self, count: int) -> None:
        """Write so many sessions, and note their ids."""
        raise NotImplementedError


def stored(count: int, seed: int = 1) -> Stored:
    """From the cache, or made now. This process has them to itself until it ends."""
    alone()
    folder = CACHE / f"stored-{VERSION}-{seed}-{count}"
    index = folder / "index.json"
    if not index.exists() or time.time() - index.stat().st_mtime > FRESH:
        shutil.rmtree(folder, ignore_errors=True)
        maker = Maker(folder, random.Random(f"{seed} {count}"))
        maker.make(count)
        index.write_text(json.dumps({"ids": maker.ids, "bytes": maker.bytes}))
        os.sync()
    found = json.loads(index.read_text())
    return Stored(folder, found["ids"], found["bytes"])


LOCKS: list[int] = []


def alone() -> None:
    """Take the lock of the cache, or raise SystemExit if another benchmark has it.

    A benchmark links the stored files into its home and unlinks them at its end. Both change the ctime of the files, so
    a second benchmark would find its caches out of date in mid-run, and call known what is not.
    """
    if not LOCKS:
        CACHE.mkdir(parents=True, exist_ok=True)
        LOCKS.append(os.open(CACHE / "lock", os.O_RDWR | os.O_CREAT, 0o600))
    try:
        fcntl.flock(LOCKS[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SystemExit(f"another benchmark uses {CACHE}; wait for its end") from None


def utc(moment: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment)) + f".{int(moment % 1 * 1000):03d}Z"


def compact(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


class Maker:
    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder = folder
        self.random = chance
        self.now = time.time()
        self.bytes = 0
        self.kinds = [kind(one.NAME, self) for one in agents.every() if (kind := one.bench()) is not None]
        self.ids: dict[str, list[str]] = {kind.name: [] for kind in self.kinds}
        self.bodies = {kind.name: self.body(kind.turn) for kind in self.kinds if kind.HAS_LINES}

    def make(self, count: int) -> None:
        for kind in self.kinds:
            kind.store(round(count * kind.SHARE))

    # Chance, as in life

    def age(self) -> float:
        return self.random.random() * (7 * DAY if self.random.random() < LAST_WEEK else YEARS) + 300

    def size(self) -> int:
        return min(int(self.random.lognormvariate(0, SIGMA) * MEDIAN), LARGEST)

    def text(self, length: int) -> str:
        words = self.random.choices(WORDS, k=max(1, length // 5))
        return " ".join(words)[:length]

    def output(self) -> str:
        """Of a tool: mostly a screen or two, sometimes a whole file."""
        return self.text(min(int(self.random.lognormvariate(7.2, 1.3)), 200_000)).replace(" so ", "\n")

    def uuid(self) -> str:
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    def timed(self, moment: float) -> str:
        """A UUID that begins with its time."""
        digits = f"{int(moment * 1000):012x}7{self.random.getrandbits(76):019x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-8{digits[17:20]}-{digits[20:]}"

    def project(self) -> str:
        return f"/home/person/work/project-{int(self.random.paretovariate(0.7)) % 60}"

    def body(self, turn: Any) -> list[bytes]:
        """The lines of a long conversation, from which all are cut."""
        lines: list[bytes] = []
        while sum(map(len, lines)) < 8 * 1024 * 1024:
            lines += turn(self.now, "body", "/home/person/work/project-1")
        return lines

    def write(
        self,
        path: Path,
        head: list[bytes],
        agent: str,
        tail: list[bytes],
        written: float,
        stamps: tuple[bytes, ...] = (),
    ) -> None:
        """`stamps`: lines that stand there again after every so many bytes."""
        wanted = self.size()
        body = self.bodies[agent]
        at = self.random.randrange(len(body))
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "wb") as file:
            size = file.write(b"\n".join(head) + b"\n")
            stamped = size
            while size < wanted:
                size += file.write(body[at] + b"\n")
                at = (at + 1) % len(body)
                if stamps and size - stamped >= RESTAMP:
                    size += file.write(b"\n".join(stamps) + b"\n")
                    stamped = size
            size += file.write(b"\n".join(tail) + b"\n")
        self.bytes += size
        os.utime(path, (written, written))
