"""Jobs in threads that may be left behind: which is given up on, and which is only slow."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from agentctl import readings
from agentctl.readings import Errand, in_parallel

if TYPE_CHECKING:
    from collections.abc import Iterator

TIMEOUT = 60.0
has_clock = pytest.mark.skipif(not hasattr(time, "pthread_getcpuclockid"), reason="no clock of a thread's own here")


@pytest.fixture
def let_go() -> Iterator[threading.Event]:
    """For those that are left behind: set at the end of the test."""
    event = threading.Event()
    yield event
    event.set()


def test_one_that_waits_is_given_up_on_and_the_others_are_not(
    let_go: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readings, "STALL", 0.2)
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
    monkeypatch.setattr(readings, "HEAD_START", 0.0)
    errand = Working(*seen)
    readings.wait_while_it_works(errand, readings.Done())
    assert errand.seen == []


def void(_: object) -> None:
    pass


@has_clock
def test_one_that_works_for_long_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step may take longer than that, on a machine that is too busy."""
    monkeypatch.setattr(readings, "STALL", 1.0)
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
    monkeypatch.setattr(readings, "STALL", 0.2)
    monkeypatch.setattr(readings, "MOST_WORK", 0.05)
    errand = Errand()

    def work() -> None:
        while not let_go.is_set():
            sum(range(1000))

    in_parallel([(errand, work)])
    assert errand.stalled


def test_one_that_gets_on_slowly_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readings, "STALL", 1.0)
    errand = Errand()

    def work() -> None:
        for _ in range(5):
            time.sleep(0.3)
            errand.progress += 1

    in_parallel([(errand, work)])
    assert errand.unread is None
    assert errand.progress == 5
