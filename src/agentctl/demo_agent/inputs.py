"""All that the demo agent waits for, in one place: signals, the end of its tool, lines on standard input.

Signals arrive as bytes in a pipe, so none is lost between two waits and none strikes in the middle of a write.

At a terminal (`screen`) it reads as an agent's screen does: a line of any length, and a paste as one prompt, whatever
lines it has (the terminal is asked to mark where a paste begins and ends).
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

STDIN, STDOUT = 0, 1
PASTES_ON, PASTES_OFF = b"\x1b[?2004h", b"\x1b[?2004l"
PASTE_BEGINS, PASTE_ENDS = b"\x1b[200~", b"\x1b[201~"
ERASE, END_OF_INPUT = b"\x7f", b"\x04"
MARK = b"> "  # on a screen, where the next prompt is typed
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

    @property
    def typed_to(self) -> bool:
        """Whether anybody can type to it."""
        return self._listens

    def show_mark(self) -> None:
        """Show on a screen that the next prompt can be typed, and what was typed already."""
        if not (os.isatty(STDIN) and os.isatty(STDOUT)):
            return
        while select.select([STDIN], [], [], 0)[0] and (data := os.read(STDIN, 65536)):
            self._text += data
        try:
            os.write(STDOUT, MARK + typed(self._text).encode())
        except OSError:
            pass  # the terminal is gone

    def wait(self, seconds: float | None) -> None:
        """Wait until the time is over or something happened; the caller looks what. Raises Ended."""
        self._select(seconds, stdin=False)

    def sleep(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self.wait(left)

    def line(self, seconds: float | None = None) -> str | None:
        """Return the next line of standard input, or None if none came in time. Raises EOFError at its end."""
        if first_line(self._text) is None and self._select(seconds, stdin=self._listens):
            data = os.read(STDIN, 65536)
            self._text += data
            if not data and not self._text:
                raise EOFError
            if not data:
                self._text = self._text.replace(PASTE_BEGINS, b"") + b"\n"
        found = first_line(self._text)
        if found is None:
            return None
        line, self._text = found
        if line == END_OF_INPUT:
            raise EOFError
        return typed(line)

    def _select(self, seconds: float | None, *, stdin: bool) -> bool:
        """Return whether there is something on standard input."""
        watched = [self._signals, STDIN] if stdin else [self._signals]
        ready = select.select(watched, [], [], seconds)[0]
        if self._signals in ready:
            for number in os.read(self._signals, 4096):
                if number in ENDING:
                    raise Ended(f"ended by {signal.Signals(number).name}", 128 + number)
        return STDIN in ready


def first_line(text: bytes) -> tuple[bytes, bytes] | None:
    """Return the first line and what follows it; None if its end is not there yet. A line break in a paste ends no
    line."""
    if text.startswith(END_OF_INPUT):
        return END_OF_INPUT, text[1:]
    at = 0
    while (end := text.find(b"\n", at)) >= 0:
        opened = text.rfind(PASTE_BEGINS, 0, end)
        closed = text.find(PASTE_ENDS, opened)
        if opened < 0 or 0 <= closed < end:
            return text[:end], text[end + 1 :]
        if closed < 0:
            return None
        at = closed
    return None


def typed(line: bytes) -> str:
    """Return what a person meant by these keys."""
    text = line.replace(PASTE_BEGINS, b"").replace(PASTE_ENDS, b"").decode(errors="replace")
    chars: list[str] = []
    for char in text:
        if char != ERASE.decode():
            chars.append(char)
        elif chars:
            chars.pop()
    return "".join(chars)


class screen:
    """with screen(): the terminal hands over each key, shows it, and marks pastes; afterwards it is as it was."""

    def __enter__(self) -> None:
        import termios

        self._before = termios.tcgetattr(STDIN)
        now = termios.tcgetattr(STDIN)
        now[3] &= ~termios.ICANON
        termios.tcsetattr(STDIN, termios.TCSANOW, now)
        os.write(STDOUT, PASTES_ON)

    def __exit__(self, *_: object) -> None:
        import termios

        try:
            if os.tcgetpgrp(STDIN) != os.getpgrp():
                return  # suspended, and ended in the background: its shell has the terminal, and we would stop again
            os.write(STDOUT, PASTES_OFF)
            termios.tcsetattr(STDIN, termios.TCSANOW, self._before)
        except (OSError, termios.error):
            pass  # the terminal is gone


def _noted(number: int, frame: FrameType | None) -> None:
    """Do nothing: Python writes a signal to the pipe only if it has a handler."""


def stdin_has_a_writer() -> bool:
    """Return whether somebody may type: nobody types into /dev/null; any other input ends when its writer goes."""
    try:
        status = os.fstat(STDIN)
    except OSError:  # closed
        return False
    return not (stat.S_ISCHR(status.st_mode) and status.st_rdev == os.stat(os.devnull).st_rdev)
