"""The base of every description: what the suites ask about an agent, with a default for each question.

A description overrides what its agent has. Each suite has a method here, named like the suite. If it returns None, the
suite leaves the agent out and says so. The reason is in LACKS, or else the one in WHY_NOT.

What a method returns is a class or a value of the suite, which again has a default for what most agents share:

    fixtures    FIXTURES and `rebuild`                          fixtures.py
    torture     Live, Agent       tests/torture/agents.py       torture.py, and standin.py: what runs in its process
    soak        Standin, Scripted tests/soak/kinds.py           soak.py, and soak_standin.py for the same
    fuzz        Fuzz              tests/fuzz/agent.py           fuzz.py
    lab         Recipe, Facts     tests/lab/recipe.py           lab.py, and lab_facts.py for what controls make it do
    bench       Kind              bench/stored.py               bench.py

The last column is where the descriptions have it: tests/agents/<agent>/.

Stand-ins import this module when they start, so it imports nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from bench.stored import Kind
    from tests.fuzz.agent import Fuzz
    from tests.lab.recipe import Recipe
    from tests.soak.lives import Life
    from tests.support.worlds import FixtureWorld
    from tests.torture.agents import Live

# Why a suite leaves out an agent whose description does not say anything about it.
WHY_NOT = {
    "fixtures": "its description names no fixtures",
    "torture": "its description has no stand-in for torture",
    "soak": "its description has no life for the soak",
    "fuzz": "its description names no files to damage",
    "lab": "its description has no recipe for the lab",
    "bench": "its description makes no stored sessions",
}


class Description:
    """What the suites know of one agent."""

    NAME: str  # as agentctl calls it
    PROGRAM: str  # as people type it
    FIXTURES: tuple[str, ...] = ()  # the folders in tests/fixtures with its states
    OUTPUT: str | None = None  # the file in tests/fixtures/outputs with what a one-shot run printed
    LACKS: dict[str, str] = {}  # noqa: RUF012  suite -> why it leaves this agent out

    def has(self, suite: str) -> bool:
        """Say whether a suite covers this agent."""
        return bool(self.FIXTURES) if suite == "fixtures" else getattr(self, suite)() is not None

    def why_not(self, suite: str) -> str:
        return self.LACKS.get(suite, WHY_NOT[suite])

    def root(self, home: Path, data: Path) -> Path:
        """Return its store for a person with this HOME and this XDG_DATA_HOME."""
        raise NotImplementedError

    def ids(self, root: Path) -> set[str]:
        """Return the sessions that are in its store, read without agentctl."""
        raise NotImplementedError

    def rebuild(self, home: Path, name: str) -> FixtureWorld:
        """Return the world of a fixture whose files were copied to `home`. `name` is its folder and its state.

        Each agent with FIXTURES has this."""
        raise NotImplementedError(f"{self.NAME} has fixtures: its description says how their world is rebuilt")

    def torture(self) -> type[Live] | None:
        """Return the class that starts one of its processes and tells it what to do."""
        return None

    def soak(self) -> type[Life] | None:
        """Return the class that leads one of its sessions through a long random life."""
        return None

    def fuzz(self) -> Fuzz | None:
        """Return its files that are damaged and its functions that are given damaged lines."""
        return None

    def lab(self) -> Recipe | None:
        """Return how the real program is installed, started and driven, and what it is known to do."""
        return None

    def bench(self) -> type[Kind] | None:
        """Return what makes its stored sessions, and how many of all sessions are its own."""
        return None
