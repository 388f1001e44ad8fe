"""docs/certified.md: which versions of which agents were held against the truth, and how that went. Generated."""

from __future__ import annotations

import datetime
import re
from typing import TYPE_CHECKING

from tests.lab.isolation import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.lab.matrix import Cell

PATH = REPOSITORY / "docs" / "certified.md"
HEAD = """\
# Certified versions

Written by `make lab`; do not edit. Each line is one run of the real program, offline, against a scripted model: it is
brought into the states of tests/lab/plays.py, and what agentctl says is held against what is true. `make lab FULL=1`
plays every cell; without it the core ones.

| agent | version | cells | not applicable | result | failed | date |
|---|---|---|---|---|---|---|
"""
A_RUN = 10  # fewer cells than this are a look at a detail
ROW = re.compile(r"^\| (?P<agent>(?!agent )\S+) \| (?P<version>\S+) \|.*\|$", re.MULTILINE)


def write(wanted: Sequence[Cell], results: Mapping[Cell, bool]) -> None:
    """Replace the lines of what was run. A few chosen cells certify nothing and are not written."""
    rows = {(row["agent"], row["version"]): row[0] for row in ROW.finditer(read())}
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    for agent, version in dict.fromkeys((cell.agent, cell.version) for cell in wanted):
        mine = [cell for cell in wanted if (cell.agent, cell.version) == (agent, version)]
        if len(mine) < A_RUN or any(cell not in results for cell in mine if cell.not_applicable is None):
            continue
        played = [cell for cell in mine if cell in results]
        failed = [f"{cell.mode}/{cell.state}" for cell in played if not results[cell]]
        result = "certified" if not failed else "not certified"
        passed = f"{len(played) - len(failed)} of {len(played)}"
        not_applicable = len(mine) - len(played)
        rows[agent, version] = (
            f"| {agent} | {version} | {passed} | {not_applicable} | {result} | {', '.join(failed) or '-'} | {today} |"
        )
    PATH.parent.mkdir(exist_ok=True)
    PATH.write_text(HEAD + "".join(f"{row}\n" for _, row in sorted(rows.items())))


def read() -> str:
    try:
        return PATH.read_text()
    except FileNotFoundError:
        return ""
