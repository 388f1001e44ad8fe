"""What the fuzz asks of an agent's description, with a default for each question."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from agentctl.cli import output, peek
from tests import agents
from tests.fuzz import oracle
from tests.support.worlds import FIXTURES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path
    from random import Random

    from agentctl import model
    from tests.fuzz.asking import Asked
    from tests.support.worlds import Swap, Table


class Result(NamedTuple):
    what: list[str]  # what was done, for people
    asked: Asked


class Target(Protocol):
    def run(self, folder: Path, rng: Random) -> Result: ...


class Parser(NamedTuple):
    """A function that takes one line apart, and real lines to be damaged for it."""

    texts: Callable[[], Sequence[bytes]]
    read: Callable[[bytes], Iterable[str]]


class Big(NamedTuple):
    """A file that a reader reads; `line` is what it has to do with."""

    path: str
    line: dict[str, Any]
    id: str | None = None  # of the session that it is of


class InProc(NamedTuple):
    """Its processes in a /proc that is made by hand, beside its store."""

    processes: tuple[tuple[str, str, tuple[str, ...]], ...]  # comm, state, argv
    env: dict[str, str]
    open_files: tuple[Path, ...] = ()  # which each process has open
    locked: tuple[Path, ...] = ()  # which the first process has locked


def nobody(home: Path) -> InProc:
    return InProc((), {})


def nothing(home: Path) -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class Fuzz:
    targets: dict[str, tuple[int, Target]]  # name -> (weight, what is done)
    faults: dict[str, Swap]  # for each target a fault in our readers that it has to find
    parsers: tuple[Parser, ...] = ()
    big_files: dict[str, Big] = field(default_factory=dict)  # name -> a file that may be 1 GB; paths begin with home/
    prepare: Callable[[Path], None] = nothing  # what has to be in the home before a big file is read
    lines: tuple[str, ...] = ()  # patterns of fixtures whose lines get among those of other agents
    in_proc: Callable[[Path], InProc] = nobody  # put its store into a home, and say how its processes look
    unreachable: tuple[Swap, ...] = ()  # what stands for its sockets where nobody may be asked
    live: Callable[[Path, Table, dict[str, str]], str] | None = None  # only of agents.OWN: see its description


def every() -> list[Fuzz]:
    return [found for one in agents.every() if (found := one.fuzz()) is not None]


# For parsers


def lines_of(pattern: str) -> Callable[[], list[bytes]]:
    """The lines of real files, each of a kind, by the words at its beginning."""

    def read() -> list[bytes]:
        kinds: dict[bytes, bytes] = {}
        for path in sorted(FIXTURES.glob(pattern)):
            for line in path.read_bytes().splitlines():
                kinds.setdefault(line[:60], line)
        return [line for line in kinds.values() if len(line) < 20_000]

    return read


def shown(messages: Iterable[model.Message]) -> Iterable[str]:
    for message in messages:
        yield from oracle.human(peek.line_of(message))
        text = json.dumps(peek.message_json(message), ensure_ascii=False)
        found = oracle.parse(text.encode("utf-8", "backslashreplace").decode())
        yield from oracle.document({"schema": output.SCHEMA, "messages": [found]}, oracle.NOBODY)


def texts(value: Any) -> Iterable[str]:
    """What a reader calls a text is one, or nothing."""
    for name in ("turn", "reason", "error", "model", "branch", "cwd", "version", "parent", "prompt", "id"):
        found = getattr(value, name, None)
        if not (found is None or isinstance(found, str)):
            yield f"{name} is {found!r:.60}"
