"""docs/certified.md: which versions of which agents were held against the truth, and how that went. Generated."""

from __future__ import annotations

import datetime
import re
from typing import TYPE_CHECKING, Any

from tests.lab import matrix
from tests.lab.isolation import REPOSITORY
from tests.lab.recipes import RECIPES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.lab.matrix import Cell

PATH = REPOSITORY / "docs" / "certified.md"
HEAD = """\
# Certified versions

Written by `make lab` and `make ladder`; do not edit. Each line is the real program, offline, against a
scripted model: it is brought into the states of tests/lab/plays.py, and what agentctl says is held against the truth.
`make lab FULL=1` plays all cells; without it the core ones.

| agent | version | run | passed | not applicable | result | failed | date |
|---|---|---|---|---|---|---|---|
"""
LADDER_HEAD = """\

## The ladder

The core cells on versions of the last months, by `make ladder`. Most lines of 2026-11-18 are put together from
several runs of that day: of each cell the newest counts. "Came out" is the day that npm has for a version. "Not
in this version" are cells that need what its own `--help` does not have. Any other version is judged by what its files
hold, and marked as not certified (`agentctl why`, `agentctl agents`).

| agent | version | came out | passed | not applicable | not in this version | result | failed | date |
|---|---|---|---|---|---|---|---|---|
"""
ALL, CORE = "all", "core"
CERTIFIED = "certified"
ROW = re.compile(
    r"^\| (?P<agent>\S+) \| (?P<version>\S+) \| (?P<run>all|core) \| (?P<passed>\d+) of (?P<played>\d+) "
    r"\| (?P<not_applicable>\d+) \| (?P<result>[^|]+) \|.*\|$",
    re.MULTILINE,
)
LADDER_ROW = re.compile(
    r"^\| (?P<agent>\S+) \| (?P<version>\S+) \| (?P<day>\d{4}-\d\d-\d\d) \| (?P<passed>\d+) of (?P<played>\d+) "
    r"\| (?P<not_applicable>\d+) \| (?P<lacking>\d+)(?:: [^|]+)? \| (?P<result>[^|]+) \|.*\|$",
    re.MULTILINE,
)
DEAD = "does not start"


def write(wanted: Sequence[Cell], results: Mapping[Cell, bool]) -> None:
    """Replace the lines of what was run. A few chosen cells certify nothing and are not written."""
    rows = keyed(rows_in(read()))
    for mine in by_version(wanted):
        run = kind_of_run(mine)
        if run is None or any(cell not in results for cell in mine if cell.played):
            continue
        played, failed = [cell for cell in mine if cell in results], failures(mine, results)
        cells = f"{run} | {len(played) - len(failed)} of {len(played)} | {len(mine) - len(played)}"
        rows[key(mine[0])] = f"| {mine[0].agent} | {mine[0].version} | {cells} | {verdict(failed)} | {today()} |"
    put(rows, keyed(ladder_rows_in(read())))


def write_ladder(wanted: Sequence[Cell], results: Mapping[Cell, bool], dead: Sequence[Cell]) -> None:
    """Replace the lines of the versions that were run whole. `dead`: of those that do not start."""
    rows = keyed(ladder_rows_in(read()))
    for mine in by_version(wanted):
        if any(cell not in results for cell in mine if cell.played) or kind_of_run(mine) != CORE:
            continue
        played, failed = [cell for cell in mine if cell in results], failures(mine, results)
        cells = (
            f"{len(played) - len(failed)} of {len(played)} | {sum(cell.not_applicable is not None for cell in mine)}"
        )
        rows[key(mine[0])] = ladder_row(mine[0], cells, lacking(mine), verdict(failed))
    for cell in dead:
        rows[key(cell)] = ladder_row(cell, "0 of 0 | 0", "0", f"{DEAD} | -")
    known = {(agent, numbers(version)) for agent, recipe in RECIPES.items() for version in recipe.LADDER}
    put(keyed(rows_in(read())), {name: row for name, row in rows.items() if name in known})


def ladder_row(cell: Cell, cells: str, lacks: str, result: str) -> str:
    day = RECIPES[cell.agent].LADDER[cell.version]
    return f"| {cell.agent} | {cell.version} | {day} | {cells} | {lacks} | {result} | {today()} |"


def lacking(cells: Sequence[Cell]) -> str:
    """Return how many cells a version does not have by its --help, of which modes, and why."""
    missing = [cell for cell in cells if cell.lacking is not None]
    whys = dict.fromkeys(f"{cell.mode}, {cell.lacking}" for cell in missing)
    return f"{len(missing)}: {'; '.join(whys)}" if missing else "0"


def by_version(cells: Sequence[Cell]) -> list[list[Cell]]:
    names = dict.fromkeys((cell.agent, cell.version) for cell in cells)
    return [[cell for cell in cells if (cell.agent, cell.version) == name] for name in names]


def failures(cells: Sequence[Cell], results: Mapping[Cell, bool]) -> list[str]:
    return [f"{cell.mode}/{cell.state}" for cell in cells if results.get(cell) is False]


def verdict(failed: Sequence[str]) -> str:
    return f"{CERTIFIED if not failed else f'not {CERTIFIED}'} | {', '.join(failed) or '-'}"


def today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(digits) for digits in re.findall(r"\d+", version))


def key(cell: Cell) -> tuple[str, tuple[int, ...]]:
    return cell.agent, numbers(cell.version)


def keyed(rows: Sequence[re.Match[str]]) -> dict[tuple[str, tuple[int, ...]], str]:
    return {(row["agent"], numbers(row["version"])): row[0] for row in rows}


def put(rows: Mapping[Any, str], ladder: Mapping[Any, str]) -> None:
    lines = [f"{row}\n" for _, row in sorted(rows.items())]
    steps = [f"{row}\n" for _, row in sorted(ladder.items())]
    PATH.parent.mkdir(exist_ok=True)
    PATH.write_text("".join((HEAD, *lines, LADDER_HEAD, *steps) if steps else (HEAD, *lines)))


def kind_of_run(cells: Sequence[Cell]) -> str | None:
    """All cells of a version, or all its core cells; None: fewer, a look at a detail."""
    wanted = {cell.name for cell in cells}
    known = matrix.cells(cells[0].agent, cells[0].version)
    if wanted == {cell.name for cell in known}:
        return ALL
    return CORE if wanted == {cell.name for cell in known if cell.core} else None


def rows_in(text: str) -> list[re.Match[str]]:
    return list(ROW.finditer(text))


def ladder_rows_in(text: str) -> list[re.Match[str]]:
    return list(LADDER_ROW.finditer(text))


def read() -> str:
    try:
        return PATH.read_text()
    except FileNotFoundError:
        return ""
