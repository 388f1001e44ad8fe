"""Counts the records that were read and are to be read, for a person who waits."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeVar

    T = TypeVar("T")


class Count:
    """What `tell` is told: how many records were read, and of how many. Several threads add to it without a lock: a
    count that is a little too low for a moment does no harm."""

    def __init__(self, tell: Callable[[int, int], None]) -> None:
        self._tell = tell
        self._done = self._wanted = 0

    def through(self, answers: Iterator[T]) -> Iterator[T]:
        """Yield these answers, and count them: a tuple is a record, a list has the ids that are asked for."""
        for answer in answers:
            if type(answer) is tuple:
                self._done += 1
            elif isinstance(answer, list):
                self._wanted += len(answer)
            yield answer

    def show(self) -> None:
        if self._wanted:
            self._tell(self._done, self._wanted)
