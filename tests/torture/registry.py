"""The named cases. A case may have several worlds, for example one per agent: `zombie/zombie_leader`."""

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
        """What happens in this world: the first line of its docstring."""
        return (self.build.__doc__ or "").strip().splitlines()[0]

    @property
    def world(self) -> str:
        """The name of this world: that of its case, then its own."""
        return f"{self.name}/{self.build.__name__}"


CASES: list[Case] = []


def case(name: str) -> Callable[[Callable[[World], None]], Callable[[World], None]]:
    def register(build: Callable[[World], None]) -> Callable[[World], None]:
        CASES.append(Case(name, build))
        return build

    return register
