"""The one way to look again when something may have changed. Every command that follows something uses it.

    with Rounds() as rounds:
        while True:
            look                                # the truth is read anew each time
            if rounds.cover(interest): continue # something was not watched before that look, and may have changed since
            rounds.sleep(due)                   # returns at once if something happened since it last returned

A wake-up proves nothing, it only causes a look. What wakes: the end of a process (at once), a file (at once, and twice
a second while files change all the time), and, for whoever asks for it, a new process that an agent recognises. Without
any, a look is due after a pause that depends on what is open (live/pace.py), so a lost wake-up is a delay.
"""

from __future__ import annotations

import time

from agentctl.kernel.watch import DUE, Watch
from agentctl.live.pace import FEW, Bursts, Rests
from agentctl.model import ProcessKey, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from agentctl.live.births import Births

LOOKS_IN_A_ROW, BREATH = 3, 0.2  # looks at what was not watched before; then a rest, however much is new
TRY_AGAIN = 60.0  # seconds after which we ask the kernel for room for watches again
NEW, BORN = "new", "born"  # beside the words of Watch.sleep: it was not watched before; a process may be an agent's


class Interest(Value):
    """What may change an answer: whose end, and which files."""

    keys: frozenset[ProcessKey] = frozenset()
    paths: frozenset[str] = frozenset()
    complete: bool = True  # False: something may change that shows in neither
    unsettled: bool = True  # something is open: if nothing wakes us, look soon, and then less and less often
    due: float = float("inf")  # the latest moment of the next look (monotonic)


class Rounds:
    """`burst`: how often files may wake us at once after a rest. `reader`: a descriptor that we write to; once nobody
    reads it, `sleep` returns CLOSED. `births` notices new processes. `tick` is called about once a second while nothing
    happens, if there are `births`."""

    def __init__(
        self,
        burst: int = FEW,
        *,
        reader: int | None = None,
        births: Births | None = None,
        tick: Callable[[], None] = lambda: None,
    ) -> None:
        self._pace, self._rests = Bursts(burst), Rests()
        self._reader, self._births, self._tick = reader, births, tick
        self._open: Watch | None = None
        self._interest = Interest()
        self._new, self._in_a_row = False, 0
        self._woken = True
        self._awake = time.process_time()  # the CPU that we had used when we woke
        self._full_since: float | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._open is not None:
            self._open.__exit__()
            self._open = None

    @property
    def _watch(self) -> Watch:
        """Opened when it is needed: many a wait is over at its first look."""
        if self._open is None:
            self._open = Watch(self._pace, self._reader)
        return self._open

    @property
    def full(self) -> bool:
        """Has the kernel no room for all our watches?"""
        return self._full_since is not None

    def rest(self, interest: Interest, *, changed: bool = False) -> str:
        """Watch this, and sleep until some of it may have changed. Return why; NEW: it was not watched before."""
        return NEW if self.cover(interest) else self.sleep(changed=changed)

    def cover(self, interest: Interest) -> bool:
        """Watch this and nothing else. True: some of it was not watched before, so look again before you sleep."""
        now = time.monotonic()
        self._pace.looked(time.process_time() - self._awake)
        if self._full_since is not None and now - self._full_since >= TRY_AGAIN:
            self._full_since = None
            self._watch.try_again()
        blind = not interest.complete or (self._births is not None and self._births.blind)
        self._interest = interest
        self._new = self._watch.cover(interest.keys, interest.paths, blind=blind)
        if self._watch.full and self._full_since is None:
            self._full_since = now
        self._in_a_row = self._in_a_row + 1 if self._new else 0
        return 0 < self._in_a_row < LOOKS_IN_A_ROW

    def sleep(self, due: float | None = None, *, changed: bool = False) -> str:
        """Sleep until something happens or a look is due. Return which. `due`: if not the moment that the interest
        names. `changed`: the last look differs from the one before."""
        pause = self._rests.after(
            changed=changed or self._woken, unsettled=self._interest.unsettled, blind=self._watch.blind
        )
        latest = self._interest.due if due is None else due
        why = self._until(min(latest, time.monotonic() + (min(BREATH, pause) if self._new else pause)))
        self._woken = why != DUE
        self._awake = time.process_time()
        return why

    def _until(self, due: float) -> str:
        """Sleep until something happens or it is `due`. A check of the pids never cuts the rest short that files which
        change all the time have to take."""
        births = self._births
        while births is not None:
            why = self._watch.sleep(min(due, max(births.next_check(), self._pace.earliest())))
            if why != DUE or time.monotonic() >= due:
                return why
            if births.check():
                return BORN
            self._tick()
        return self._watch.sleep(due)
