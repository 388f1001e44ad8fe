"""docs/certified.md: which versions of which agents were held against the truth, and how that went. Generated."""

from __future__ import annotations

import datetime
import re
from typing import TYPE_CHECKING

from tests.lab import matrix
from tests.lab.isolation import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.lab.matrix import Cell

PATH = REPOSITORY / "docs" / "certified.md"
HEAD = """\
# Certified versions

Written by `make lab`; do not edit. Each line is one run of the real program, offline, against a scripted model: it is
brought into the states of tests/lab/plays.py, and what agentctl says is held against what is true. `make lab FULL=1`
plays all cells; without it the core ones.

| agent | version | run | passed | not applicable | result | failed | date |
|---|---|---|---|---|---|---|---|
"""
ALL, CORE = "all", "core"
CERTIFIED = "certified"
ROW = re.compile(
    r"^\| (?P<agent>\S+) \| (?P<version>\S+) \| (?P<run>all|core) \| (?P<passed>\d+) of (?P<played>\d+) "
    r"\| (?P<not_applicable>\d+) \| (?P<result>[^|]+) \|.*\|$",
    re.MULTILINE,
)


def write(wanted: Sequence[Cell], results: Mapping[Cell, bool]) -> None:
    """Replace the lines of what was run. A few chosen cells certify nothing and are not written."""
    rows = {(row["agent"], row["version"]): row[0] for row in rows_in(read())}
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    for agent, version in dict.fromkeys((cell.agent, cell.version) for cell in wanted):
        mine = [cell for cell in wanted if (cell.agent, cell.version) == (agent, version)]
        run = kind_of_run(mine)
        if run is None or any(cell not in results for cell in mine if cell.not_applicable is None):
            continue
        played = [cell for cell in mine if cell in results]
        failed = [f"{cell.mode}/{cell.state}" for cell in played if not results[cell]]
        result = CERTIFIED if not failed else f"not {CERTIFIED}"
        passed = f"{len(played) - len(failed)} of {len(played)}"
        cells = f"{run} | {passed} | {len(mine) - len(played)}"
        rows[agent, version] = f"| {agent} | {version} | {cells} | {result} | {', '.join(failed) or '-'} | {today} |"
    PATH.parent.mkdir(exist_ok=True)
    PATH.write_text(HEAD + "".join(f"{row}\n" for _, row in sorted(rows.items())))


def kind_of_run(cells: Sequence[Cell]) -> str | None:
    """All cells of a version, or all its core cells; None: fewer, a look at a detail."""
    wanted = set(cells)
    known = matrix.cells(cells[0].agent, cells[0].version)
    if wanted == set(known):
        return ALL
    return CORE if wanted == {cell for cell in known if cell.core} else None


def rows_in(text: str) -> list[re.Match[str]]:
    return list(ROW.finditer(text))


def read() -> str:
    try:
        return PATH.read_text()
    except FileNotFoundError:
        return ""
