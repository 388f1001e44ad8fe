"""Whom the soak leads: the agents whose descriptions have a life for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests import agents

if TYPE_CHECKING:
    from tests.soak.lives import Life

LIVES: dict[str, type[Life]] = {one.NAME: life for one in agents.every() if (life := one.soak()) is not None}


def named(text: str) -> tuple[str, ...]:
    """Return the agents of a list like `a,b,b`, in which each has the name of agentctl or of its program."""
    programs = {agents.load(name).PROGRAM: name for name in LIVES}
    found = tuple(programs.get(name, name) for name in text.split(","))
    unknown = [name for name in found if name not in LIVES]
    if unknown:
        raise SystemExit(f"no such agent: {', '.join(unknown)}; known: {', '.join(LIVES)}")
    return found
