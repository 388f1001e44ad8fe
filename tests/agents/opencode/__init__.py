"""OpenCode, as the suites know it."""

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


class OpenCode(Description):
    NAME = "opencode"
    PROGRAM = "opencode"
    FIXTURES = ("opencode",)
    OUTPUT = "opencode-1.18.33.log"

    def root(self, home: Path, data: Path) -> Path:
        return data / "opencode"

    def ids(self, root: Path) -> set[str]:
        from tests.agents.opencode import store

        return store.ids(root)

    def rebuild(self, home: Path, name: str) -> FixtureWorld:
        from tests.agents.opencode import fixtures

        return fixtures.rebuild(home)

    def torture(self) -> type[Live]:
        from tests.agents.opencode import torture

        return torture.OpenCode

    def soak(self) -> type[Life]:
        from tests.agents.opencode import soak

        return soak.OpenCodeLife

    def fuzz(self) -> Fuzz:
        from tests.agents.opencode import fuzz

        return fuzz.FUZZ

    def lab(self) -> Recipe:
        from tests.agents.opencode import lab

        return lab.RECIPE

    def bench(self) -> type[Kind]:
        from tests.agents.opencode import bench

        return bench.Sessions


DESCRIPTION = OpenCode()
