"""When the engine looks again: pure."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from agentctl.kernel.watch import CHANGED, DUE, ENDED
from agentctl.live.pace import BLIND_PAUSE, BURST, GRAIN, PAUSES, SPAN, Bursts, Rests

ROUNDING = 1e-6


def wakes_of(writes: list[float]) -> list[float]:
    """The moments at which files wake us, if they are written at these times."""
    found, pace, pending = [], Bursts(), 0.0
    for now in writes:
        if now < pending:
            continue  # it is part of what wakes us then
        pending = max(now, pace.earliest())
        pace.woken(CHANGED, pending)
        found.append(pending)
    return found


def test_constant_writing_wakes_at_most_twice_a_second() -> None:
    wakes = wakes_of([step / 100 for step in range(3000)])
    assert all(wakes[place + BURST] - wakes[place] > SPAN - ROUNDING for place in range(len(wakes) - BURST))
    assert len(wakes) >= 2 * 29  # and not much less often


@pytest.mark.parametrize("seed", range(20))
def test_random_writing_wakes_at_most_twice_a_second_and_never_late(seed: int) -> None:
    rng, now, writes = random.Random(seed), 0.0, []
    for _ in range(300):
        now += rng.choice((0.001, 0.03, 0.3, 0.7, 3.0))
        writes.append(now)
    wakes = wakes_of(writes)
    assert all(wakes[place + BURST] - wakes[place] > SPAN - ROUNDING for place in range(len(wakes) - BURST))
    assert all(later - earlier > GRAIN - ROUNDING for earlier, later in pairwise(wakes))
    for write in writes:
        assert any(write <= wake < write + SPAN + ROUNDING for wake in wakes)


def test_after_a_rest_the_first_write_and_the_next_wake_at_once() -> None:
    assert wakes_of([0.0, 5.0, 5.2, 9.0]) == [0.0, 5.0, 5.2, 9.0]


def test_only_files_count() -> None:
    pace = Bursts()
    for by in (ENDED, DUE):
        pace.woken(by, 1.0)
    assert pace.earliest() == float("-inf")
    assert pace.pause(blind=True) == float("inf")  # the engine decides when a look is due


def test_it_rests_long_if_all_is_settled_and_watched() -> None:
    rests = Rests()
    assert [rests.after(changed=changed, unsettled=False, blind=False) for changed in (True, False)] == [PAUSES[1]] * 2


def test_while_something_is_open_it_looks_soon_and_then_less_and_less_often() -> None:
    rests = Rests()
    pauses = [rests.after(changed=number == 0, unsettled=True, blind=False) for number in range(6)]
    assert pauses == [1.0, 2.0, 4.0, 8.0, 15.0, 15.0]
    assert rests.after(changed=True, unsettled=True, blind=False) == PAUSES[0]


def test_what_is_not_watched_is_looked_at_every_two_seconds() -> None:
    rests = Rests()
    pauses = [rests.after(changed=number == 0, unsettled=False, blind=True) for number in range(4)]
    assert pauses == [1.0, 2.0, 2.0, 2.0]
    assert pauses[-1] == BLIND_PAUSE
