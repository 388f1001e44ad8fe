"""Codex, as the suites know it."""

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


class Codex(Description):
    NAME = "codex"
    PROGRAM = "codex"
    FIXTURES = ("codex",)
    OUTPUT = "codex-0.166.0.log"

    def root(self, home: Path, data: Path) -> Path:
        return home / ".codex"

    def ids(self, root: Path) -> set[str]:
        from tests.agents.codex import store

        return store.ids(root)

    def rebuild(self, home: Path, name: str) -> FixtureWorld:
        from tests.agents.codex import fixtures

        return fixtures.rebuild(home)

    def torture(self) -> type[Live]:
        from tests.agents.codex import torture

        return torture.Codex

    def soak(self) -> type[Life]:
        from tests.agents.codex import soak

        return soak.CodexLife

    def fuzz(self) -> Fuzz:
        from tests.agents.codex import fuzz

        return fuzz.FUZZ

    def lab(self) -> Recipe:
        from tests.agents.codex import lab

        return lab.RECIPE

    def bench(self) -> type[Kind]:
        from tests.agents.codex import bench

        return bench.Sessions


DESCRIPTION = Codex()
