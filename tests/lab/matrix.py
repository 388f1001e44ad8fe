"""The matrix, as data: agent x mode x state. Each cell has a play, or a reason why there is none:
not_applicable.toml has the reasons that hold for every agent, a recipe those of its agent."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from tests.lab.errors import LabError
from tests.lab.plays_places import PLAYS
from tests.lab.recipe import DAEMON, HEADLESS, INTERACTIVE, MODES, STREAM, Without
from tests.lab.recipes import RECIPES

NOT_APPLICABLE = Path(__file__).with_name("not_applicable.toml")

# What `make lab` runs without FULL=1: the states in which a wrong answer costs a person most.
CORE = {
    HEADLESS: (
        "model-call tool-running permission finished api-error-given-up sigint sigterm sigkill killed-wrapper resumed "
        "two-in-one-cwd sub-agent first-process"
    ).split(),
    INTERACTIVE: "fresh permission question api-error-retrying escape sigkill id-rotation opened-in-list".split(),
    DAEMON: "permission daemon-alive daemon-killed picker".split(),
    STREAM: "idle permission".split(),
}


@dataclass(frozen=True)
class Cell:
    agent: str
    version: str
    mode: str
    state: str
    not_applicable: str | None = None  # for every version
    lacking: str | None = None  # for this version, by its own --help

    @property
    def played(self) -> bool:
        return self.not_applicable is None and self.lacking is None

    @property
    def name(self) -> str:
        return f"{self.agent}/{self.mode}/{self.state}"

    @property
    def core(self) -> bool:
        recipe = RECIPES[self.agent]
        return self.state in (*(recipe.CORE or CORE)[self.mode], *recipe.MORE_CORE.get(self.mode, ()))

    def __str__(self) -> str:
        return f"{self.agent} {self.version} {self.mode} {self.state}"


def cells(agent: str, version: str) -> list[Cell]:
    reasons = read_reasons()
    return [
        Cell(agent, version, mode, state, reasons.get((agent, mode, state)))
        for mode in RECIPES[agent].MODES
        for state in PLAYS
    ]


def read_reasons() -> dict[tuple[str, str, str], str]:
    """Return why there is no such cell: (agent, mode, state) -> reason."""
    found = {}
    general = read_general()
    for agent, recipe in RECIPES.items():
        for one in (*general, *recipe.NOT_APPLICABLE):
            for mode in one.modes:
                for state in one.states:
                    if mode not in MODES or state not in PLAYS or not one.reason:
                        raise LabError(f"no such cell, or no reason: {agent}/{mode}/{state}")
                    found[agent, mode, state] = one.reason
    return found


def read_general() -> list[Without]:
    """Return what holds for every agent."""
    entries = tomllib.loads(NOT_APPLICABLE.read_text())["cell"]
    return [Without(tuple(one["states"]), str(one["reason"]), tuple(one.get("modes", MODES))) for one in entries]
