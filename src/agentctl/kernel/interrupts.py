"""Ctrl-C, SIGTERM and SIGHUP: one kind of interruption, held back while something is done that must not stop in the
middle.
"""

from __future__ import annotations

import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

ENDING = (signal.SIGTERM, signal.SIGHUP)  # somebody ends us, or closes the terminal


class Ended(KeyboardInterrupt):
    """A signal that ends a command as Ctrl-C does: what it had begun is taken back, or said."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.exit_code = 128 + number


def heed_ends() -> None:
    """Take SIGTERM and SIGHUP as Ctrl-C is taken. One that is ignored (nohup) stays so."""
    for number in ENDING:
        if signal.getsignal(number) is signal.SIG_DFL:
            try:
                signal.signal(number, end)
            except ValueError:
                return  # not in the main thread: whoever runs us there has its own way


def end(number: int, frame: FrameType | None) -> None:
    raise Ended(number)


class Uninterrupted:
    """Holds these signals back until the end of the block, so that what is noted is also printed. For the main
    thread."""

    def __enter__(self) -> None:
        self._came: int | None = None
        held = {number: signal.getsignal(number) for number in (signal.SIGINT, *ENDING)}
        # Not those that are ignored, as Ctrl-C is in the background of a shell, and not those that nobody heeds.
        self._before = {number: handler for number, handler in held.items() if callable(handler)}
        for number in self._before:
            signal.signal(number, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came = number

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._came is not None:
            raise KeyboardInterrupt if self._came == signal.SIGINT else Ended(self._came)
