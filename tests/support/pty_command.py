"""A command on a terminal of its own: what it has drawn so far, and keys for it."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
from typing import TYPE_CHECKING

from tests.support.demo_home import TIMEOUT, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class OnTerminal:
    def __init__(self, env: Mapping[str, str], *arguments: str, columns: int = 120, lines: int = 30) -> None:
        self._ours, theirs = pty.openpty()
        self.resize(columns, lines)
        self.output = ""
        self.child = subprocess.Popen(
            [sys.executable, "-c", TAKE_TERMINAL, *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={"TERM": "xterm", **env},
            start_new_session=True,
        )
        os.close(theirs)

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def read(self) -> str:
        """Read what has come, and return all that ever came."""
        while select.select([self._ours], [], [], 0)[0]:
            try:
                data = os.read(self._ours, 65536)
            except OSError:  # the other end is closed
                break
            self.output += data.decode(errors="replace")
        return self.output

    @property
    def frame(self) -> str:
        """What was drawn last."""
        return self.read().rpartition("\x1b[H")[2]

    def shows(self, condition: Callable[[str], bool], what: str) -> None:
        """Wait until the last frame is as it should be."""
        wait_until(lambda: condition(self.frame), f"{what} on the screen")

    def ends(self) -> int:
        """Wait until it has ended, and return its exit code."""
        wait_until(lambda: self.read() and self.child.poll() is not None, "its end")
        self.read()
        return self.child.wait(TIMEOUT)

    def close(self) -> None:
        if self.child.poll() is None:
            self.child.kill()
            self.child.wait()
        os.close(self._ours)


TAKE_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "agentctl", *sys.argv[1:]])
"""
