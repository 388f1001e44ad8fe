"""Claude Code, as the suites know it."""

from __future__ import annotations

from tests.agents.base import Description

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from bench.stored import Kind
    from tests.fuzz.agent import Fuzz
    from tests.lab.recipe import Recipe
    from tests.soak.lives import Life
    from tests.support.worlds import FixtureWorld
    from tests.torture.agents import Live


class ClaudeCode(Description):
    NAME = "claude-code"
    PROGRAM = "claude"
    FIXTURES = ("claude", "claude-2.1.118", "claude-2.1.325")
    OUTPUT = "claude-code-2.1.325.log"

    def root(self, home: Path, data: Path) -> Path:
        return home / ".claude"

    def ids(self, root: Path) -> set[str]:
        from tests.agents.claude_code import store

        return store.ids(root)

    def rebuild(self, home: Path, name: str) -> FixtureWorld:
        from tests.agents.claude_code import fixtures

        return fixtures.rebuild(home, name)

    def torture(self) -> type[Live]:
        from tests.agents.claude_code import torture

        return torture.Claude

    def soak(self) -> type[Life]:
        from tests.agents.claude_code import soak

        return soak.ClaudeLife

    def fuzz(self) -> Fuzz:
        from tests.agents.claude_code import fuzz

        return fuzz.FUZZ

    def lab(self) -> Recipe:
        from tests.agents.claude_code import lab

        return lab.RECIPE

    def bench(self) -> type[Kind]:
        from tests.agents.claude_code import bench

        return bench.Sessions


DESCRIPTION = ClaudeCode()
