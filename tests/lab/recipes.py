"""The recipes of all agents that the lab runs, from their descriptions (tests/agents)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests import agents

if TYPE_CHECKING:
    from tests.lab.recipe import Recipe

RECIPES: dict[str, Recipe] = {one.NAME: recipe for one in agents.every() if (recipe := one.lab()) is not None}
