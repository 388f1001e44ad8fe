"""What an agent's module calls certified is what the lab's own report says, and that is of today's matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agentctl.agents import TABLE, load
from tests import agents
from tests.lab import matrix, report
from tests.lab.recipes import RECIPES

if TYPE_CHECKING:
    from re import Match

ROWS = report.rows_in(report.read())
STEPS = report.ladder_rows_in(report.read())
NOT_COVERED = agents.not_covered("lab")


def test_every_line_of_the_report_is_understood() -> None:
    lines = [line for line in report.read().splitlines() if line.startswith("| ") and "| agent |" not in line]
    assert [row[0] for row in (*ROWS, *STEPS)] == lines


@pytest.mark.parametrize("agent", [name for name in TABLE if name not in NOT_COVERED])
def test_certified_is_what_the_lab_certified(agent: str) -> None:
    rows = (*ROWS, *STEPS)
    reported = {row["version"] for row in rows if row["agent"] == agent and row["result"] == report.CERTIFIED}
    assert set(load(agent).CERTIFIED) == reported


def test_the_lab_knows_every_agent_that_it_certifies() -> None:
    assert {row["agent"] for row in ROWS} == set(RECIPES) == set(TABLE) - set(NOT_COVERED)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['agent']}-{row['version']}")
def test_a_line_is_of_the_cells_that_there_are(row: Match[str]) -> None:
    """A cell that was added or left out since makes the line a report of something else."""
    cells = matrix.cells(row["agent"], row["version"])
    wanted = cells if row["run"] == report.ALL else [cell for cell in cells if cell.core]
    not_applicable = sum(cell.not_applicable is not None for cell in wanted)
    assert (int(row["played"]), int(row["not_applicable"])) == (len(wanted) - not_applicable, not_applicable)
    assert (row["result"] == report.CERTIFIED) == (row["passed"] == row["played"])


def test_every_version_of_the_ladder_was_run() -> None:
    wanted = {(agent, version, day) for agent, recipe in RECIPES.items() for version, day in recipe.LADDER.items()}
    assert {(row["agent"], row["version"], row["day"]) for row in STEPS} == wanted
    assert all(len(recipe.LADDER) >= 2 for recipe in RECIPES.values())  # beside the pinned ones


@pytest.mark.parametrize("row", STEPS, ids=lambda row: f"{row['agent']}-{row['version']}")
def test_a_step_is_of_the_cells_that_there_are(row: Match[str]) -> None:
    """Each core cell was played, or has a reason: for all versions, or for this one by its own --help."""
    core = [cell for cell in matrix.cells(row["agent"], row["version"]) if cell.core]
    modes = {mode for need in RECIPES[row["agent"]].NEEDS for mode in need.modes}
    may_lack = [cell for cell in core if cell.mode in modes and cell.not_applicable is None]
    assert int(row["not_applicable"]) == sum(cell.not_applicable is not None for cell in core)
    assert int(row["played"]) + int(row["not_applicable"]) + int(row["lacking"]) == len(core)
    assert int(row["lacking"]) <= len(may_lack)
    assert (row["result"] == report.CERTIFIED) == (row["passed"] == row["played"] != "0")
