"""All that the demo agent waits for, in one place: signals, the end of its tool, lines on standard input.

Signals arrive as bytes in a pipe, so none is lost between two waits and none strikes in the middle of a write.
"""

from __future__ import annotations

import os
import select
import signal
import stat
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

STDIN = 0
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Ended(Exception):
    """Somebody ended the agent, by a signal or by closing its input."""

    def __init__(self, reason: str, exit_code: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.exit_code = exit_code


class Inputs:
    def __init__(self) -> None:
        self._signals, writer = os.pipe()
        os.set_blocking(writer, False)  # as set_wakeup_fd demands
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in (*ENDING, signal.SIGCHLD):
            if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                continue  # nohup: it is meant to outlive its terminal
            signal.signal(number, _noted)
        self._listens = stdin_has_a_writer()
        self._text = b""

    def wait(self, seconds: float | None) -> None:
        """Until the time is over or something happened; the caller looks what. Raises Ended."""
        self._select(seconds, stdin=False)

    def sleep(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self.wait(left)

    def line(self, seconds: float | None = None) -> str | None:
        """The next line of standard input, or None if none came in time. Raises EOFError at its end."""
        if b"\n" not in self._text and self._select(seconds, stdin=self._listens):
            data = os.read(STDIN, 65536)
            self._text += data
            if not data and not self._text:
                raise EOFError
            if not data:
                self._text += b"\n"
        line, newline, rest = self._text.partition(b"\n")
        if not newline:
            return None
        self._text = rest
        return line.decode(errors="replace")

    def _select(self, seconds: float | None, *, stdin: bool) -> bool:
        """Is there something on standard input?"""
        watched = [self._signals, STDIN] if stdin else [self._signals]
        ready = select.select(watched, [], [], seconds)[0]
        if self._signals in ready:
            for number in os.read(self._signals, 4096):
                if number in ENDING:
                    raise Ended(f"ended by {signal.Signals(number).name}", 128 + number)
        return STDIN in ready


def _noted(number: int, frame: FrameType | None) -> None:
    """A signal without a handler of ours would not be written to the pipe."""


def stdin_has_a_writer() -> bool:
    """Nobody ever types into /dev/null, and its end of file says nothing; any other input ends when its writer goes."""
    try:
        status = os.fstat(STDIN)
    except OSError:  # closed
        return False
    return not (stat.S_ISCHR(status.st_mode) and status.st_rdev == os.stat(os.devnull).st_rdev)
