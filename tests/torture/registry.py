"""The named cases. One name may have several worlds, one per agent or kind of world: `zombie/zombie_leader`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.torture.world import World


class Case(NamedTuple):
    name: str
    build: Callable[[World], None]

    @property
    def about(self) -> str:
        return (self.build.__doc__ or "").strip().splitlines()[0]

    @property
    def world(self) -> str:
        """Its own name among those of the same case."""
        return f"{self.name}/{self.build.__name__}"


CASES: list[Case] = []


def case(name: str) -> Callable[[Callable[[World], None]], Callable[[World], None]]:
    def register(build: Callable[[World], None]) -> Callable[[World], None]:
        CASES.append(Case(name, build))
        return build

    return register
