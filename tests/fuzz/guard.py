"""What a query may never do: signal anybody, run anything, write outside its cache. The interpreter itself watches."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

if TYPE_CHECKING:
    from collections.abc import Iterator

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
RUNS = ("subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.spawn", "pty.spawn")
SENDS = ("os.kill", "os.killpg", "signal.", "ptrace")
CHANGES = (
    *("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.chmod", "os.chown", "os.link", "os.symlink"),
    *("os.truncate", "os.utime", "os.setxattr", "shutil."),
)
BELOW = ("os.remove", "os.rmdir", "os.mkdir")  # their last word: the folder that the path is in, if it is open
LOCKS = ("fcntl.flock", "fcntl.lockf")  # even a try would make an agent's own try fail
COPIES = "agentctl-"  # a database that cannot be read in place is read as a temporary copy


class Forbidden(BaseException):
    """Not an Exception: no handler of the code that did it takes it for a fault of a file."""


class Guard:
    """Installed once in a process, for an audit hook cannot be taken away; watches only while it is asked to."""

    def __init__(self) -> None:
        self._installed = False
        self._allowed: tuple[str, ...] | None = None
        self._locks = False
        self._made: str | None = None
        self._harness = threading.local()
        self.broken: list[str] = []
        self.seen: set[str] = set()

    @contextmanager
    def watch(self, *allowed: str, locks: bool = False, made: str | None = None) -> Iterator[list[str]]:
        """`allowed`: the folders that may be written to, and whose files may be locked; `locks`: may others be locked?
        `made`: a folder that may be made, and no more."""
        if not self._installed:
            sys.addaudithook(self._hook)
            self._installed = True
        self.broken = []
        self._locks = locks
        self._made = os.path.realpath(made) if made is not None else None
        with (
            mock.patch.object(signal, "pidfd_send_signal", self._never),
            mock.patch.object(sys, "dont_write_bytecode", True),
        ):
            self._allowed = tuple(os.path.realpath(folder) for folder in allowed)
            try:
                yield self.broken
            finally:
                self._allowed = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """For what the case itself does in between."""
        self._harness.on = True
        try:
            yield
        finally:
            self._harness.on = False

    def _never(self, *words: object) -> None:
        self._break(f"signal.pidfd_send_signal{words!r}")

    def _hook(self, event: str, words: tuple[Any, ...]) -> None:
        if self._allowed is None or getattr(self._harness, "on", False):
            return
        self.seen.add(event)
        bad = event.startswith((*RUNS, *SENDS)) or (event in LOCKS and not self._may_lock(words[0]))
        if event == "open":
            bad = isinstance(words[2], int) and bool(words[2] & WRITES) and not self._may_write(words[0])
        elif event.startswith(CHANGES):
            path = words[1] if event.startswith("shutil.copy") else words[0]
            below = words[-1] if event in BELOW and isinstance(words[-1], int) and words[-1] >= 0 else None
            path = path if below is None else os.path.join(f"/proc/self/fd/{below}", path)
            bad = not (self._may_write(path) or (event == "os.mkdir" and self._may_make(path)))
        elif event in ("socket.connect", "socket.sendto", "socket.bind"):
            bad = int(words[0].family) != 1 and not (isinstance(words[1], tuple) and words[1][0] == "127.0.0.1")
        elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
            bad = words[0] != "127.0.0.1"
        if bad:
            self._break(f"{event} {words!r}"[:500])

    def _break(self, what: str) -> None:
        self.broken.append(what)
        raise Forbidden(what)

    def _may_make(self, path: str) -> bool:
        """A folder that may be made, or one above it."""
        return self._made is not None and f"{self._made}/".startswith(f"{os.path.realpath(path)}/")

    def _may_lock(self, fd: int) -> bool:
        return self._locks or self._may_write(os.readlink(f"/proc/self/fd/{fd}"))

    def _may_write(self, path: object) -> bool:
        if isinstance(path, int):
            return True  # what is open already was looked at when it was opened
        text = os.path.realpath(os.fsdecode(path))  # type: ignore[arg-type]
        allowed = self._allowed or ()
        copy = os.path.join(os.environ.get("TMPDIR", "/tmp"), COPIES)
        return any(text == one or text.startswith(one + os.sep) for one in allowed) or text.startswith(copy)


GUARD = Guard()
