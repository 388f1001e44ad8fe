"""Jobs in threads that may be left behind: which is given up on, and which is only slow."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from agentctl.fast.threads import Event
from agentctl.kernel import stall_guard
from agentctl.kernel.stall_guard import Errand, Failure, gather, in_parallel
from tests.support.children import until

if TYPE_CHECKING:
    from collections.abc import Iterator

TIMEOUT = 60.0
has_clock = pytest.mark.linux  # macOS has no clock of a thread's own


@pytest.fixture
def let_go() -> Iterator[threading.Event]:
    """For those that are left behind: set at the end of the test."""
    event = threading.Event()
    yield event
    event.set()


def test_one_that_waits_is_given_up_on_and_the_others_are_not(
    let_go: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stall_guard, "STALL", 0.2)
    stuck, well = Errand(), Errand()
    done = []
    in_parallel([(stuck, lambda: void(let_go.wait(TIMEOUT))), (well, lambda: done.append("well"))])
    assert done == ["well"]
    assert (stuck.stalled, well.stalled) == (True, False)
    assert stuck.unread is not None and well.unread is None


class Working(Errand):
    """Has worked so much when it is looked at."""

    def __init__(self, *seen: int) -> None:
        super().__init__()
        self.seen = list(seen)

    def worked(self) -> int:
        return self.seen.pop(0)


@pytest.mark.parametrize("seen", [(0,), (1, 2, 5, 5), (3, 3)])
def test_the_next_one_starts_when_one_works_no_more(seen: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stall_guard, "HEAD_START", 0.0)
    errand = Working(*seen)
    stall_guard.wait_while_it_works(errand, Event())
    assert errand.seen == []


def void(_: object) -> None:
    pass


@has_clock
def test_one_that_works_for_long_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step may take longer than that, on a machine that is too busy."""
    monkeypatch.setattr(stall_guard, "STALL", 1.0)
    errand = Errand()
    done = []

    def work() -> None:
        while time.thread_time() < 2.0:
            sum(range(1000))
        done.append(True)

    in_parallel([(errand, work)])
    assert done == [True]
    assert errand.unread is None


@has_clock
def test_one_that_works_without_end_is_not(let_go: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stall_guard, "STALL", 0.2)
    monkeypatch.setattr(stall_guard, "MOST_WORK", 0.05)
    errand = Errand()

    def work() -> None:
        while not let_go.is_set():
            sum(range(1000))

    in_parallel([(errand, work)])
    assert errand.stalled


class Steps(Errand):
    """Has done so many steps, and worked so long, when it is looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0

    def worked(self) -> float:
        return self.seconds


def test_the_work_of_each_step_counts_for_itself() -> None:
    """Very many steps take longer than one ever may: the last one, which saves them all, still has its time."""
    errand = Steps()
    errand.progress, errand.seconds = 200_000, 5 * stall_guard.MOST_WORK
    before = errand.pace()
    errand.seconds += 3.0
    during = errand.pace()
    errand.seconds += 2 * stall_guard.MOST_WORK
    at_last = errand.pace()
    errand.seconds += 1.0
    assert before != during != at_last
    assert errand.pace() == at_last  # one step without end is given up on


def test_how_far_they_are_is_told_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stall_guard, "GLANCE", 0.0)
    told = threading.Event()

    def items() -> Iterator[int]:
        yield 1
        assert told.wait(TIMEOUT)
        yield 2

    assert gather([items()], told.set) == [((1, 2), None)]


class Clock:
    """A clock that stands still until it is set. It has no CPU time of threads, so only progress counts."""

    def __init__(self) -> None:
        self.now = 0.0
        self.asked = 0

    def monotonic(self) -> float:
        self.asked += 1
        return self.now


def test_one_that_gets_on_slowly_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step takes nearly as long as is allowed without progress."""
    clock = Clock()
    monkeypatch.setattr(stall_guard, "time", clock)
    errand = Errand()

    def work() -> None:
        for _ in range(5):
            clock.now += 0.9 * stall_guard.STALL
            errand.progress += 1
            asked = clock.asked
            until(lambda asked=asked: clock.asked > asked + 1)  # type: ignore[misc]

    in_parallel([(errand, work)])
    assert errand.unread is None
    assert errand.progress == 5


def test_what_iterators_yield_comes_back_in_their_order() -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise OSError(5, "Input/output error")

    assert gather([iter([1, 2]), failing(), iter([])]) == [
        ((1, 2), None),
        ((1,), Failure("Input/output error", stalled=False)),
        ((), None),
    ]
    assert gather([]) == []


def test_what_comes_after_it_was_given_up_on_is_not_seen(
    let_go: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stall_guard, "STALL", 0.2)
    ended = threading.Event()

    def stuck() -> Iterator[str]:
        yield "early"
        let_go.wait(TIMEOUT)
        yield "late"
        ended.set()

    ((seen, failure),) = gather([stuck()])
    let_go.set()
    assert ended.wait(TIMEOUT)
    assert seen == ("early",)
    assert failure is not None and failure.stalled and "did not answer" in failure.why
