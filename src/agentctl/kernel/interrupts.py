"""Ctrl-C, held back while something is done that must not stop in the middle."""

from __future__ import annotations

import signal


class Uninterrupted:
    """Holds Ctrl-C back until the end of the block, so that what is noted is also printed. For the main thread."""

    def __enter__(self) -> None:
        self._pressed = False
        self._before = signal.getsignal(signal.SIGINT)
        if callable(self._before):  # else it is ignored, as in the background of a shell
            signal.signal(signal.SIGINT, self._note)

    def _note(self, *_: object) -> None:
        self._pressed = True

    def __exit__(self, *_: object) -> None:
        if callable(self._before):
            signal.signal(signal.SIGINT, self._before)
        if self._pressed:
            raise KeyboardInterrupt
