"""Stands for threading: `Event`, `Thread` for a daemon, and `get_ident`, as far as we use them.

They are made of the three functions in C that threading is made of, too. threading takes 4 ms to import. Without those
functions they are made of threading itself. Two differences: an event that is set stays set, and Python shows an
exception that ends a thread through sys.unraisablehook, not through threading.excepthook.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Literal

try:
    from _thread import allocate_lock, get_ident, start_new_thread
except ImportError:
    import threading
    from threading import Lock as allocate_lock
    from threading import get_ident

    def start_new_thread(function: Callable[..., object], args: tuple[Any, ...], /) -> int:  # type: ignore[no-redef]
        thread = threading.Thread(target=function, args=args, daemon=True)
        thread.start()
        return thread.ident or 0


__all__ = ["Event", "Thread", "get_ident"]


class Event:
    """Something that happens once, for others to wait for."""

    def __init__(self) -> None:
        self._happened = allocate_lock()  # taken by the first one who sets it
        self._gate = allocate_lock()  # closed until then
        self._gate.acquire()

    def set(self) -> None:
        if self._happened.acquire(blocking=False):
            self._gate.release()

    def is_set(self) -> bool:
        return self._happened.locked()

    def wait(self, timeout: float | None = None) -> bool:
        """Return whether it was set, at the latest after so many seconds."""
        if self.is_set():
            return True
        if timeout is None:
            passed = self._gate.acquire()
        else:
            passed = self._gate.acquire(timeout=timeout) if timeout > 0 else self._gate.acquire(blocking=False)
        if passed:
            self._gate.release()
        return passed


class Thread:
    """A thread that Python does not wait for when it ends."""

    def __init__(self, *, target: Callable[..., object], args: tuple[Any, ...] = (), daemon: Literal[True]) -> None:
        self._target, self._args = target, args

    def start(self) -> None:
        """Raises RuntimeError if there is no room for another thread."""
        start_new_thread(self._target, self._args)

    def start_or_run(self) -> None:
        """Start it; run it here and now if the kernel gives us no thread: there is no room for one, or our children are
        to be in another PID namespace than we are (`unshare --pid` without --fork)."""
        try:
            self.start()
        except RuntimeError:
            self._target(*self._args)
