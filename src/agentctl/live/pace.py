"""Decides when the engine looks again. Pure: the caller passes the time."""

from __future__ import annotations

from agentctl.kernel.watch import CHANGED, Pace

PAUSES = (1.0, 15.0)  # seconds to the next look without a wake-up: the first while something is open, and the longest
BLIND_PAUSE = 2.0  # the longest if something is not watched
BURST, SPAN = 2, 1.0  # files wake us at most so often in so many seconds
GRAIN = 0.05  # seconds: what is written in one go wakes us once


class Bursts(Pace):
    """Lets files wake us BURST times in SPAN seconds, at once each time: after a rest, the first question is not late,
    and constant writing costs two looks a second. The engine itself decides when a look is due."""

    def __init__(self) -> None:
        super().__init__()
        self._wakes: tuple[float, ...] = ()  # the last wake-ups by files, at most BURST

    def pause(self, blind: bool) -> float:
        return float("inf")

    def earliest(self) -> float:
        if not self._wakes:
            return float("-inf")
        soon = self._wakes[-1] + GRAIN
        return max(soon, self._wakes[0] + SPAN) if len(self._wakes) == BURST else soon

    def woken(self, by: str, now: float) -> None:
        if by == CHANGED:
            self._wakes = (*self._wakes, now)[-BURST:]


class Rests:
    """How long the engine rests if nothing wakes it: long, unless something is open that no wake-up may tell (a process
    that has no session yet, a status that may pass). Then it looks soon, and later and later while nothing changes."""

    def __init__(self) -> None:
        self._pause = PAUSES[0]

    def after(self, *, changed: bool, unsettled: bool, blind: bool) -> float:
        """Return the pause after a look. `changed`: something woke us, or the look differs from the one before."""
        self._pause = PAUSES[0] if changed else min(self._pause * 2, PAUSES[1])
        pause = self._pause if unsettled or blind else PAUSES[1]
        return min(pause, BLIND_PAUSE) if blind else pause
