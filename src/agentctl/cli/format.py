"""What people see of every command in the same way: tables, the progress of slow work, ages and lengths of time."""

from __future__ import annotations

import os
import sys
import time

from agentctl.cli import cells, output
from agentctl.cli.width import has_width, width
from agentctl.durations import span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence
    from types import TracebackType
    from typing import Any, Self

SLOW = 1.0  # seconds before progress is shown
PATHS = ("DIRECTORY", "WORKTREE", "BRANCH")  # columns whose cells are cut at their beginning


def table_lines(
    columns: Mapping[str, Sequence[str]],
    *,
    right: Container[str] = (),
    flexible: Mapping[str, int] = {},
    optional: Sequence[str] = (),
    statuses: Sequence[str] = (),
    brief: Mapping[str, Callable[[str], str]] = {},
) -> list[str]:
    """Return the lines of a table: cells below the names of their columns, no wider than the terminal. The cells of
    `flexible` columns are cut to fit, down to the width that is given there; `optional` columns are left out, the first
    one first, if a terminal is too narrow for all of them. The columns in `right` are aligned to the right. `statuses`
    colours the cells of STATUS. `brief` has fewer words for a cell that does not fit, by column. (It works column by
    column: for ten thousand rows that takes two thirds of the time of row by row.)"""
    widths = {name: max(len(name), cells.widest(column)) for name, column in columns.items()}
    widths = cells.fitted(widths, width(), flexible, optional if has_width() else ())
    padded = cells.padded(columns, widths, right, PATHS, output.ellipsis(), brief)
    if statuses and output.colourful():
        head, *words = padded["STATUS"]
        padded["STATUS"] = [head, *map(output.coloured, words, statuses)]
    return [line.rstrip() for line in map(cells.GAP.join, zip(*padded.values(), strict=True))]


def table(columns: Mapping[str, Sequence[str]], **more: Any) -> None:
    """Print a table, with the options of `table_lines`."""
    print("\n".join(table_lines(columns, **more)))


def paragraph(text: str, indent: str = "", more: str = "") -> str:
    """Return a sentence below a table with an indent. On a terminal it is broken between words, and the lines after the
    first one have the indent `more`, too."""
    line, *words = text.split(" ")
    lines, line = [], indent + line
    for word in words:
        if has_width() and cells.columns_of(f"{line} {word}") > width():
            lines.append(line)
            line = indent + more + word
        else:
            line += f" {word}"
    return "\n".join([*lines, line])


def columns_of(names: Sequence[str], rows: Sequence[Sequence[str]]) -> dict[str, list[str]]:
    return {name: [row[number] for row in rows] for number, name in enumerate(names)}


def age(moment: float | None, now: float) -> str:
    """How long ago that was, by its largest unit: 3d, 5h, 40s."""
    return "-" if moment is None else span(now - moment, 1)


class Progress:
    """A line on stderr that counts, for people: only on a terminal, and only if the work takes longer than a second.

    with Progress("slots compared") as progress: progress(3, 10)
    """

    def __init__(self, what: str, unit: int = 1) -> None:
        self._what, self._unit = what, unit
        self._since = time.monotonic()
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def __call__(self, done: int, total: int) -> None:
        if sys.stderr.isatty() and time.monotonic() - self._since >= SLOW:
            self._shown = True
            count = f"{done / self._unit:.0f} of {total / self._unit:.0f}"
            print(f"\r{count} {self._what}{self._erase()}", end="", file=sys.stderr, flush=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            print(f"\r{self._erase()}" if self._erase() else "\n", end="", file=sys.stderr, flush=True)

    def _erase(self) -> str:
        """The sequence that erases the rest of a line, if the terminal knows it."""
        return "\x1b[K" if os.environ.get("TERM") != "dumb" else ""
