"""Decides when to look again. Pure: the caller passes the time."""

from __future__ import annotations

from agentctl.kernel.watch import CHANGED, Pace

PAUSES = (1.0, 15.0)  # seconds to the next look without a wake-up: the first while something is open, and the longest
BLIND_PAUSE = 2.0  # the longest if something is not watched
GAP = 0.5  # seconds between two wake-ups by files, on the average
SHARE, LONGEST_GAP = 0.04, 2.0  # of a core that such wake-ups may cost; and how late they may become because of it
BURST, FEW = 2, 4  # so many may come at once after a rest; FEW: if only a few sessions are looked at, which is cheap
GRAIN = 0.05  # seconds: what is written in one go wakes us once


class Bursts(Pace):
    """Lets files wake us once in GAP seconds, and `burst` times at once after a rest: the first question is not late,
    and constant writing costs two looks a second, or fewer if looks are dear."""

    def __init__(self, burst: int = BURST) -> None:
        self._burst, self._gap = burst, GAP
        self._even = float("-inf")  # the earliest moment of the next wake-up, if they came at even gaps
        self._last = float("-inf")

    def earliest(self) -> float:
        return max(self._last + GRAIN, self._even - (self._burst - 1) * self._gap)

    def looked(self, cost: float) -> None:
        """Learn what a look has cost, in seconds of CPU."""
        self._gap = min(max(GAP, cost / SHARE), LONGEST_GAP)

    def woken(self, by: str, now: float) -> None:
        if by == CHANGED:
            self._even = max(self._even, now) + self._gap
            self._last = now


class Rests:
    """How long to rest if nothing wakes us: long, unless something is open that no wake-up may tell (a process that has
    no session yet, a status that may pass). Then we look soon, and later and later while nothing changes."""

    def __init__(self) -> None:
        self._pause = PAUSES[0]

    def after(self, *, changed: bool, unsettled: bool, blind: bool) -> float:
        """Return the pause after a look. `changed`: something woke us, or the look differs from the one before."""
        self._pause = PAUSES[0] if changed else min(self._pause * 2, PAUSES[1])
        pause = self._pause if unsettled or blind else PAUSES[1]
        return min(pause, BLIND_PAUSE) if blind else pause
