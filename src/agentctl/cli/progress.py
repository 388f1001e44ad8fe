"""A line on the terminal for those who wait: only on a terminal, and only if it takes long."""

from __future__ import annotations

import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

SLOW = 1.0  # seconds


class Progress:
    """with Progress("slots looked at") as told: told(3, 10)"""

    def __init__(self, what: str) -> None:
        self._what = what
        self._since = time.monotonic()
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def __call__(self, done: int, of: int) -> None:
        if sys.stderr.isatty() and time.monotonic() - self._since >= SLOW:
            self._shown = True
            print(f"\r{done} of {of} {self._what}\x1b[K", end="", file=sys.stderr, flush=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
