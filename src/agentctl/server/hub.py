"""Hands what is told to everybody who listens. A listener that is too slow is cut off: nothing is kept for it without
bound, and the log has what it missed.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque

from agentctl.live.log import line_of
from agentctl.model import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from agentctl.live.difference import Seen
    from agentctl.live.entries import Entry, Filter
    from agentctl.live.log import Log

MOST_KEPT = 512  # entries that wait for one listener
TOO_SLOW = "this listener was too slow, and was cut off; go on with the last id"


class Told:
    """One entry, and its bytes, which all listeners share."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self._frame: bytes | None = None

    @property
    def frame(self) -> bytes:
        if self._frame is None:
            self._frame = frame_of(self.entry)
        return self._frame


def frame_of(entry: Entry) -> bytes:
    """Return an entry as a server-sent event. Without a number it has no id: a listener keeps the last that it got."""
    id = f"id: {entry['log']}.{entry['seq']}\n" if entry["seq"] is not None else ""
    return f"{id}event: {entry['type']}\ndata: {line_of(entry)}\n\n".encode()


class Listener:
    """What waits for one subscriber. Used in the thread of the event loop alone."""

    def __init__(self, wanted: Filter, joined: int) -> None:
        self._wanted, self._joined = wanted, joined
        self._waiting: deque[Told] = deque()
        self._more = asyncio.Event()
        self.cut = False

    def take(self, told: Told, turn: int) -> None:
        if turn <= self._joined or self.cut:
            return
        shown = self._wanted.of(told.entry)
        if shown is None:
            return
        if len(self._waiting) >= MOST_KEPT:
            self.cut = True
            self._waiting.clear()
        else:
            self._waiting.append(told if shown is told.entry else Told(shown))
        self._more.set()

    def end(self) -> None:
        """Let whoever waits in `some` go: nothing more comes."""
        self.cut = True
        self._more.set()

    async def some(self, patience: float) -> list[Told]:
        """Return what waits; nothing after `patience` seconds, or if it was cut off."""
        if not self._waiting and not self.cut:
            self._more.clear()
            try:
                await asyncio.wait_for(self._more.wait(), patience)
            except TimeoutError:
                return []
        found = [*self._waiting]
        self._waiting.clear()
        return found


class Standing(Value):
    """What was told at one moment, so that nobody gets an event twice, or misses one."""

    turn: int
    last: int  # number in the log
    seen: Seen | None
    missing: str | None  # why the log does not have the last events


class Hub:
    """`told` is called by the thread of the engine, with the lock that it also holds while it writes the log."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._turn = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listeners: set[Listener] = set()
        self.ending = False

    def serve_in(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    @property
    def count(self) -> int:
        return len(self._listeners)

    def told(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self._turn += 1
            if self._loop is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._hand_out, Told(entry), self._turn)

    def _hand_out(self, told: Told, turn: int) -> None:
        for listener in self._listeners:
            listener.take(told, turn)

    def where_it_stands(self, log: Log) -> Standing:
        """Call it in a thread: whoever writes the log has the lock, and its disk may be slow."""
        with self.lock:
            return Standing(self._turn, log.seq, log.seen, log.missing)

    def join(self, wanted: Filter, turn: int) -> Listener:
        listener = Listener(wanted, turn)
        if self.ending:
            listener.end()
        self._listeners.add(listener)
        return listener

    def leave(self, listener: Listener) -> None:
        self._listeners.discard(listener)

    def end(self) -> None:
        self.ending = True
        for listener in self._listeners:
            listener.end()
