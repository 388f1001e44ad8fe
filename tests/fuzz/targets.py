"""The table of what is fuzzed: the files of each agent (tests/agents/<agent>/fuzz.py), and our own.

A new reader of ours is one more line here: a home that has its files, and their patterns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fuzz import agent, mutations, parsers, peers, proc, seeds
from tests.fuzz.agent import Result
from tests.fuzz.asking import Asked
from tests.fuzz.files import Files

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from random import Random

    from tests.fuzz.agent import Target
    from tests.support.worlds import FixtureWorld


class Lines:
    """One line, by the function that takes it apart."""

    def __init__(self) -> None:
        self._parsers = parsers.Lines()

    def run(self, folder: Path, rng: Random) -> Result:
        what, failures = self._parsers.case(rng)
        return Result([what], Asked(0, failures))


class Reader:
    """Bytes that are read by one function, which may say no in its own words only."""

    def __init__(self, texts: Sequence[bytes], read: Callable[[bytes], Sequence[str]]) -> None:
        self._texts = texts
        self._read = read

    def run(self, folder: Path, rng: Random) -> Result:
        data = mutations.mutate(rng.choice(self._texts), rng, self._texts)
        return Result([f"{data[:200]!r}"], Asked(0, list(self._read(data))))


def our_home(folder: Path) -> FixtureWorld:
    return seeds.our_home(folder / "home")


def ours(*patterns: str) -> Files:
    return Files([our_home], *patterns, our_files=True)


# name: (weight, target). The weights are shares of all cases.
TARGETS: dict[str, tuple[int, Target]] = {
    **{name: target for one in agent.every() for name, target in one.targets.items()},
    "launch record": (6, ours("launches/*/launch.json")),
    "exits": (3, ours("launches/*/exits.jsonl")),
    "output": (3, ours("launches/*/output.log")),
    "hooks": (2, ours("launches/*/hooks.jsonl")),
    "locks": (3, ours("state/locks/*")),
    "config": (4, ours("config.toml")),
    "cache": (3, ours("cache/agentctl/*")),
    "packages": (1, ours("package/package.json")),
    "process table": (8, proc.Kernel()),
    "lines": (50, Lines()),
    "git": (2, Reader(peers.GIT, peers.read_git)),
    "github": (1, Reader(peers.GITHUB, peers.read_github)),
}
