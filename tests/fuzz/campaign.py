"""Cases by number: which target each is of, what it does, and what is kept of one that failed."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from hashlib import blake2b
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

from tests.fuzz.targets import TARGETS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fuzz.agent import Result

TRIES = 2  # of a case that took too long: a machine that is busy is no fault of a reader
KEPT = 2 * 1024 * 1024  # bytes of a failed case


class Case(NamedTuple):
    """Everything that a case does follows from its name."""

    target: str
    seed: int
    number: int

    def __str__(self) -> str:
        return f"{self.target.replace(' ', '-')}:{self.seed}:{self.number}"

    @classmethod
    def parse(cls, text: str) -> Case:
        target, seed, number = text.rsplit(":", 2)
        return cls(target.replace("-", " "), int(seed), int(number))


def case(seed: int, number: int, only: str | None = None) -> Case:
    names = list(TARGETS)
    target = only or Random(f"{seed}:{number}").choices(names, [weight for weight, _ in TARGETS.values()])[0]
    return Case(target, seed, number)


def run(one: Case, folder: Path) -> Result:
    """`folder`: where the homes are made; it can serve all cases of a process, one after the other."""
    for attempt in range(TRIES):
        with listed_in_order_of(str(one)):
            found = TARGETS[one.target][1].run(folder, Random(str(one)))
        if not found.asked.stalled:
            break
        if attempt == TRIES - 1:
            found.asked.failures.append("a store did not answer in time: it hangs")
    return found


class Entries:
    """What os.scandir returns, as far as it is used: an iterator that is closed."""

    def __init__(self, entries: list[os.DirEntry[Any]]) -> None:
        self._entries = iter(entries)

    def __enter__(self) -> Iterator[os.DirEntry[Any]]:
        return self._entries

    def __exit__(self, *_: object) -> None: ...

    def __iter__(self) -> Iterator[os.DirEntry[Any]]:
        return self._entries


@contextmanager
def listed_in_order_of(seed: str) -> Iterator[None]:
    """Give the names in a folder in an order that follows from the case: that of the file system is another one on each
    machine. Threads list, too, so it cannot be drawn from one Random."""
    listdir, scandir = os.listdir, os.scandir

    def place(name: str | bytes) -> bytes:
        return blake2b(os.fsencode(name), key=seed.encode()[:64], digest_size=8).digest()

    def in_order(*given: Any) -> list[Any]:
        return sorted(listdir(*given), key=place)

    def scan_in_order(*given: Any) -> Any:
        with scandir(*given) as entries:
            return Entries(sorted(entries, key=lambda entry: place(entry.name)))

    with mock.patch.object(os, "listdir", in_order), mock.patch.object(os, "scandir", scan_in_order):
        yield


def keep(one: Case, found: Result, build: Path) -> Path:
    """What it was, for people; its files come again with --replay."""
    folder = build / "fuzz"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{str(one).replace(':', '-')}.txt"
    words = [f"case {one}", f"again: python -m tests.fuzz --replay {one}", "", *found.what, "", *found.asked.failures]
    path.write_text("\n".join(words)[:KEPT] + "\n", errors="backslashreplace")
    return path


def line_of(one: Case, found: Result) -> str:
    """For the process that counts."""
    return json.dumps({"case": str(one), "problems": found.asked.problems, "failures": found.asked.failures})
