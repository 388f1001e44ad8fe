"""Rebuilds the world of a fixture: its files as they are, and the process table that was noted with them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

from agentctl.kernel.processes import Processes
from agentctl.model import Details, Process, ProcessKey
from tests import agents
from tests.support.table import source

FIXTURES = Path(__file__).parents[1] / "fixtures"
EXPECTED: dict[str, dict[str, dict[str, Any]]] = json.loads((FIXTURES / "expected.json").read_text())["expected"]
# The folders of fixtures -> the name that agentctl has for the agent.
NAMES = {folder: one.NAME for one in agents.every() for folder in one.FIXTURES}
BOOT = "42a28f7f-2162-4eec-9f41-11cd1652155b"
BOOT_TIME = 1794766324.0


class Swap(NamedTuple):
    """A fact of the recorded machine that is in no file: `value` takes the place of a name in our code."""

    where: object  # a module, or a class of one
    name: str
    value: Any


class FixtureWorld(NamedTuple):
    processes: Processes
    env: dict[str, str]
    swaps: tuple[Swap, ...] = ()


def states() -> list[tuple[str, str]]:
    return [(agent, state) for agent in EXPECTED for state in EXPECTED[agent] if (FIXTURES / agent / state).is_dir()]


def rebuild(agent: str, state: str, folder: Path) -> FixtureWorld:
    """`agent` is a folder of the fixtures: several may be of one agent, of different versions."""
    home = folder / "home"
    shutil.copytree(FIXTURES / agent / state, home)
    return agents.of_fixtures(agent).rebuild(home, f"{agent}/{state}")


class Table:
    def __init__(self) -> None:
        self.rows: dict[int, Process] = {}
        self.details: dict[int, Details] = {}

    def add(self, pid: int, start: int, parent: int, comm: str, state: str, details: Details) -> None:
        self.rows[pid] = Process(ProcessKey(BOOT, pid, start), parent, comm, state)
        self.details[pid] = details

    def processes(
        self,
        boot_time: float = BOOT_TIME,
        *,
        taken_at: float = float("inf"),
        env_names: frozenset[str] = frozenset(),
        **answers: Any,
    ) -> Processes:
        """Return the table. `answers`: what its source says besides the details."""
        return Processes(
            BOOT,
            self.rows.values(),
            source(details=lambda process: self.details.get(process.pid), **answers),
            boot_time=boot_time,
            taken_at=taken_at,
            env_names=env_names,
        )
