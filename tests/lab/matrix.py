"""The matrix, as data: agent x mode x state. Each cell has a play, or stands in not_applicable.toml with its reason."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from tests.lab.agents import DAEMON, HEADLESS, INTERACTIVE, MODES, RECIPES, STREAM
from tests.lab.errors import LabError
from tests.lab.plays import PLAYS

NOT_APPLICABLE = Path(__file__).with_name("not_applicable.toml")

# What `make lab` runs without FULL=1: the states in which a wrong answer costs a person most.
CORE = {
    HEADLESS: (
        "model-call tool-running permission finished api-error-given-up sigint sigterm sigkill killed-wrapper resumed "
        "two-in-one-cwd sub-agent"
    ).split(),
    INTERACTIVE: "fresh permission question api-error-retrying escape sigkill id-rotation".split(),
    DAEMON: "permission daemon-alive daemon-killed".split(),
    STREAM: "idle permission".split(),
}


# Of an agent that takes more time to start than all the others together: what only it does.
SMALL_CORE = {
    "opencode": {
        HEADLESS: "model-call permission finished api-error-given-up sigkill two-in-one-cwd".split(),
        INTERACTIVE: "fresh permission sigkill".split(),
        DAEMON: "permission daemon-killed".split(),
    }
}


@dataclass(frozen=True)
class Cell:
    agent: str
    version: str
    mode: str
    state: str
    not_applicable: str | None = None

    @property
    def name(self) -> str:
        return f"{self.agent}/{self.mode}/{self.state}"

    @property
    def core(self) -> bool:
        return self.state in SMALL_CORE.get(self.agent, CORE)[self.mode]

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
    found = {}
    for entry in tomllib.loads(NOT_APPLICABLE.read_text())["cell"]:
        agents, modes = entry.get("agents", list(RECIPES)), entry.get("modes", MODES)
        for agent in agents:
            for mode in modes:
                for state in entry["states"]:
                    if agent not in RECIPES or mode not in MODES or state not in PLAYS or not entry["reason"]:
                        raise LabError(f"{NOT_APPLICABLE.name}: no such cell, or no reason: {agent}/{mode}/{state}")
                    found[agent, mode, state] = str(entry["reason"])
    return found
