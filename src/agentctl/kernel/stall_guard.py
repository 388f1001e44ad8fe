"""Runs work that may never return, each errand in its own thread, and leaves behind a thread that makes no progress.

A store on a dead mount blocks every thread that touches it, even if it only asks for the real path.
"""

from __future__ import annotations

import time

from agentctl.errors import show_traceback
from agentctl.fast.threads import Event, Thread, get_ident
from agentctl.fast.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeVar

    T = TypeVar("T")

STALL = 1.4  # a store that makes no progress for this long is a problem, not an absence
GLANCE = 0.1
WORK = 0.005  # seconds of CPU that count as progress; a thread that only polls takes less
MOST_WORK = 10.0  # seconds of CPU in one step after which only its end counts: no step of ours takes that long
HEAD_START = 0.05


class Errand:
    """Work that runs in its own thread, and may never return."""

    def __init__(self) -> None:
        self.progress = 0
        self.stalled = False
        self.unread: str | None = None  # why there is no answer
        self.clock: int | None = None  # of the CPU time of its thread
        self._step, self._step_began = 0, 0.0  # the steps it had done when it was last asked, and the CPU time then

    def steps(self) -> int:
        return self.progress

    def pace(self) -> tuple[int, int]:
        """Return two numbers that change with the steps it has done, and with the CPU time of its thread in the present
        one. On a busy machine a single step takes long; a thread that waits for a dead mount gets no CPU time."""
        steps, worked = self.steps(), self.worked()
        if steps != self._step or worked < self._step_began:
            self._step, self._step_began = steps, worked
        return steps, int(min(worked - self._step_began, MOST_WORK) / WORK)

    def worked(self) -> float:
        """Return the CPU time of its thread."""
        try:
            return time.clock_gettime(self.clock) if self.clock is not None else 0.0
        except OSError:
            return 0.0  # the thread has ended


class Failure(Value):
    """Why a job did not finish."""

    why: str
    stalled: bool  # it was left behind


class Gathering(Errand):
    """Runs an iterator to its end, and has what it has yielded so far. Each item is progress."""

    def __init__(self, items: Iterator[object]) -> None:
        super().__init__()
        self._items = items
        self._yielded: list[object] = []

    def run(self) -> None:
        self._yielded.extend(self._items)  # item by item: `steps` sees how many there are already

    def steps(self) -> int:
        return len(self._yielded)

    def outcome(self) -> tuple[tuple[object, ...], Failure | None]:
        """Return what it has yielded up to now. If the job was left behind, later items are lost."""
        return tuple(self._yielded), Failure(self.unread, self.stalled) if self.unread is not None else None


def gather(
    jobs: Sequence[Iterator[T]], tell: Callable[[], None] | None = None
) -> list[tuple[tuple[T, ...], Failure | None]]:
    """Run each iterator in its own thread, as `in_parallel` does. Return, in their order, what each has yielded, and
    why it did not finish."""
    gatherings = [Gathering(job) for job in jobs]
    in_parallel([(gathering, gathering.run) for gathering in gatherings], tell)
    return [gathering.outcome() for gathering in gatherings]  # type: ignore[misc]  # an iterator of T has yielded T


def in_parallel(jobs: Sequence[tuple[Errand, Callable[[], None]]], tell: Callable[[], None] | None = None) -> None:
    """Run each job in its own thread. Leave a job behind if it makes no progress for STALL seconds, and say so in its
    errand. `tell` is called again and again meanwhile, in this thread, to show a person how far the jobs are.

    The next job starts after a moment, or later if this job works and does not wait. So stores that answer at once are
    read one after the other, which costs less than threads that take the interpreter from each other with every system
    call.
    """
    running: dict[Errand, tuple[Event, tuple[int, int], float]] = {}  # its end, its pace, since when it has that pace
    waiting = list(reversed(jobs))
    while running or waiting:
        if waiting:
            errand, run = waiting.pop()
            done = Event()
            errand.clock = None  # the clock of its last thread has ended
            running[errand] = done, errand.pace(), time.monotonic()
            Thread(target=guarded, args=(errand, run, done), daemon=True).start_or_run()
            wait_while_it_works(errand, done, tell)
        else:
            next(iter(running.values()))[0].wait(GLANCE)
        if tell is not None:
            tell()
        for errand, (done, pace, since) in list(running.items()):
            now = time.monotonic()
            if done.is_set():
                del running[errand]
            elif errand.pace() != pace:
                running[errand] = done, errand.pace(), now
            elif now - since >= STALL:
                errand.stalled, errand.unread = True, f"its store did not answer within {STALL:g} s"
                del running[errand]


def wait_while_it_works(errand: Errand, done: Event, tell: Callable[[], None] | None = None) -> None:
    before = 0.0
    while not done.wait(HEAD_START) and before + WORK <= (worked := errand.worked()) < MOST_WORK:
        before = worked
        if tell is not None:
            tell()


def guarded(errand: Errand, run: Callable[[], None], done: Event) -> None:
    if hasattr(time, "pthread_getcpuclockid"):  # not on macOS
        errand.clock = time.pthread_getcpuclockid(get_ident())
    try:
        run()
    except OSError as error:
        errand.unread = error.strerror or str(error)
    except BaseException as error:  # noqa: BLE001 -- a fault in one agent's module is a problem, never an absence
        show_traceback(error)
        errand.unread = f"{type(error).__name__}: {error}"
    finally:
        done.set()
