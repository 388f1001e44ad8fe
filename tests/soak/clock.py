"""The clock of a stand-in: all that it writes goes by it, and it can be set."""

from __future__ import annotations

import time

from tests.torture.standins import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Clock:
    """The clock of the machine, and how far it was set."""

    def __init__(self) -> None:
        self.shift = 0.0

    def time(self) -> float:
        return time.time() + self.shift

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


CLOCK = Clock()
files.time = CLOCK  # type: ignore[assignment, attr-defined]
