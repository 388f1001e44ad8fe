"""Decides from measured costs whether a command became slower. Pure: it starts nothing and reads no clock.

- CPU time is judged by the median over the rounds of new / old, where each pair is measured one right after the other.
  Other programs on the machine slow both runs of a pair alike, so the ratio keeps little of their load; and the median
  ignores the pairs that they hit unevenly. The ratio of the minima is worse, because two single runs decide it: it
  spread half again as wide with two equal versions on a busy machine.
- Counts of instructions are judged by the ratio of the minima. Most commands need the same count in every run. One that
  waits for an agent may look once more, which is a quarter of a `stop`: two runs that agree may both have done so. So
  a difference counts only after more rounds, be it for the worse or for the better.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

CONFIRMED = 1.01  # two counts that differ by less are the same floor


class Cost(NamedTuple):
    """What one run of a command cost."""

    amount: float  # seconds of CPU, or instructions
    calls: int = 0  # system calls; 0 if they were not counted


class Figures(NamedTuple):
    """What one case cost in each round: bare python, the old version, the new version."""

    bare: list[Cost]
    old: list[Cost]
    new: list[Cost]


class Row(NamedTuple):
    """One case compared."""

    rounds: int
    bare: float  # the least
    old: float  # the least, as a multiple of bare
    new: float
    median: float  # of new / old in each round
    lowest: float  # of new / old in each round
    minima: float  # the least new / the least old
    floor: float  # the second least / the least, of the version where that is larger
    calls: float  # the least system calls, new / old; 1 if they were not counted


def compare(figures: Figures) -> Row:
    """Return the statistics of one case. Raises ValueError if its rounds are not whole, or are fewer than two."""
    bare, old, new = ([cost.amount for cost in costs] for costs in figures)
    ratios = [after / before for before, after, _ in zip(old, new, bare, strict=True)]
    if len(ratios) < 2:
        raise ValueError("fewer than two rounds were measured")
    calls = [min(cost.calls for cost in costs) for costs in (figures.old, figures.new)]
    return Row(
        rounds=len(ratios),
        bare=min(bare),
        old=min(old) / min(bare),
        new=min(new) / min(bare),
        median=statistics.median(ratios),
        lowest=min(ratios),
        minima=min(new) / min(old),
        floor=max(sorted(amounts)[1] / min(amounts) for amounts in (old, new)),
        calls=calls[1] / calls[0] if calls[0] else 1.0,
    )


class Judge(NamedTuple):
    """A way to judge figures."""

    statistic: str  # its name, for people
    ratio: Callable[[Row], float]
    unsure: Callable[[Row, float], bool]  # whether more rounds may change the verdict at this limit

    def slower(self, figures: Mapping[str, Figures], limit: float) -> list[str]:
        """Return the names of the cases whose ratio is above the limit."""
        return [name for name, costs in figures.items() if self.ratio(compare(costs)) > limit]

    def doubtful(self, figures: Mapping[str, Figures], limit: float) -> list[str]:
        """Return the names of the cases that more rounds may change."""
        return [name for name, costs in figures.items() if self.unsure(compare(costs), limit)]


TIMES = Judge("median", lambda row: row.median, lambda row, limit: row.lowest <= limit < row.median)
COUNTS = Judge(
    "minima",
    lambda row: row.minima,
    lambda row, limit: row.floor > CONFIRMED or not 1 / limit <= row.minima <= limit,
)


def even(rounds: int) -> int:
    """Return the number of rounds, or one more, so that each version is measured first equally often."""
    return rounds + rounds % 2
