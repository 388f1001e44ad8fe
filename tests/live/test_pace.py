"""When it is time to look again: pure."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from agentctl.kernel.watch import CHANGED, DUE, ENDED
from agentctl.live.pace import BLIND_PAUSE, BURST, FEW, GAP, GRAIN, LONGEST_GAP, PAUSES, SHARE, Bursts, Rests

ROUNDING = 1e-6


def wakes_of(writes: list[float], burst: int = BURST) -> list[float]:
    """The moments at which files wake us, if they are written at these times."""
    found, pace, pending = [], Bursts(burst), 0.0
    for now in writes:
        if now < pending:
            continue  # it is part of what wakes us then
        pending = max(now, pace.earliest())
        pace.woken(CHANGED, pending)
        found.append(pending)
    return found


def check_rate(wakes: list[float], burst: int) -> None:
    """In any span there are at most `burst` wake-ups, and one more for each gap."""
    for first, earlier in enumerate(wakes):
        for count, later in enumerate(wakes[first:], 1):
            assert count <= burst + (later - earlier) / GAP + ROUNDING


@pytest.mark.parametrize("burst", [BURST, FEW])
def test_constant_writing_wakes_at_most_twice_a_second(burst: int) -> None:
    wakes = wakes_of([step / 100 for step in range(3000)], burst)
    check_rate(wakes, burst)
    assert len(wakes) >= 2 * 29  # and not much less often


@pytest.mark.parametrize("burst", [BURST, FEW])
@pytest.mark.parametrize("seed", range(20))
def test_random_writing_wakes_at_most_twice_a_second_and_never_late(seed: int, burst: int) -> None:
    rng, now, writes = random.Random(seed), 0.0, []
    for _ in range(300):
        now += rng.choice((0.001, 0.03, 0.3, 0.7, 3.0))
        writes.append(now)
    wakes = wakes_of(writes, burst)
    check_rate(wakes, burst)
    assert all(later - earlier > GRAIN - ROUNDING for earlier, later in pairwise(wakes))
    for write in writes:
        assert any(write <= wake < write + GAP + ROUNDING for wake in wakes)


@pytest.mark.parametrize("burst", [BURST, FEW])
def test_after_a_rest_the_first_writes_wake_at_once(burst: int) -> None:
    writes = [place + step * GRAIN * 1.5 for place in (0.0, 10.0) for step in range(burst)]
    assert wakes_of(writes, burst) == writes


@pytest.mark.parametrize("cost", [0.001, 0.02, 0.03, 0.06])
def test_constant_writing_costs_a_small_share_of_a_core(cost: float) -> None:
    pace, now, wakes = Bursts(), 0.0, 0
    while now < 100.0:
        now = max(now, pace.earliest()) + cost  # a change is always there
        pace.woken(CHANGED, now)
        pace.looked(cost)
        wakes += 1
    assert wakes * cost < SHARE * 100.0 * 1.1


def test_however_dear_a_look_is_files_wake_every_two_seconds() -> None:
    pace = Bursts()
    pace.looked(60.0)
    for now in (10.0, 10.1):
        pace.woken(CHANGED, now)
    assert pace.earliest() <= 10.1 + LONGEST_GAP


def test_only_files_count() -> None:
    pace = Bursts()
    for by in (ENDED, DUE):
        pace.woken(by, 1.0)
    assert pace.earliest() == float("-inf")


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
