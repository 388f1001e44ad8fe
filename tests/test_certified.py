"""What an agent's module calls certified is what the lab's own report says, and that is of today's matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agentctl.agents import TABLE, load
from tests.lab import matrix, report
from tests.lab.agents import RECIPES

if TYPE_CHECKING:
    from re import Match

ROWS = report.rows_in(report.read())
BUILT_IN = "demo"  # our own program, of our own version: nothing is installed


def test_every_line_of_the_report_is_understood() -> None:
    lines = [line for line in report.read().splitlines() if line.startswith("| ") and "| agent |" not in line]
    assert [row[0] for row in ROWS] == lines


@pytest.mark.parametrize("agent", [name for name in TABLE if name != BUILT_IN])
def test_certified_is_what_the_lab_certified(agent: str) -> None:
    reported = {row["version"] for row in ROWS if row["agent"] == agent and row["result"] == report.CERTIFIED}
    assert set(load(agent).CERTIFIED) == reported


def test_the_lab_knows_every_agent_that_it_certifies() -> None:
    assert {row["agent"] for row in ROWS} == set(RECIPES) == {name for name in TABLE if name != BUILT_IN}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['agent']}-{row['version']}")
def test_a_line_is_of_the_cells_that_there_are(row: Match[str]) -> None:
    """A cell that was added or left out since makes the line a report of something else."""
    cells = matrix.cells(row["agent"], row["version"])
    wanted = cells if row["run"] == report.ALL else [cell for cell in cells if cell.core]
    not_applicable = sum(cell.not_applicable is not None for cell in wanted)
    assert (int(row["played"]), int(row["not_applicable"])) == (len(wanted) - not_applicable, not_applicable)
    assert (row["result"] == report.CERTIFIED) == (row["passed"] == row["played"])
