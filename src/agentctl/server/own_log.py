"""What the daemon has to say about itself: daemon/daemon.log, a line each, bounded."""

from __future__ import annotations

import os
import time

from agentctl.durations import utc
from agentctl.files.redaction import redact_text

LARGEST = 1024 * 1024
KEPT = 2  # older files, daemon.log.1 and daemon.log.2


class OwnLog:
    """Appends lines. `taking_over`: what is written to stdout and stderr goes there, too."""

    def __init__(self, path: str, *, taking_over: bool = False, largest: int = LARGEST) -> None:
        self._path, self._largest, self._taking_over = path, largest, taking_over
        self._fd = -1
        self._open()

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(self._path, flags, 0o600)
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = fd
        if self._taking_over:
            for number in (1, 2):
                os.dup2(fd, number)

    def __call__(self, words: str) -> None:
        """Add a line. A log that cannot be written keeps nobody from anything."""
        line = f"{utc(time.time())} {redact_text(words)}".replace("\n", "\n  ")
        try:
            if os.fstat(self._fd).st_size > self._largest:
                self._turn_over()
            os.write(self._fd, line.encode(errors="backslashreplace") + b"\n")
        except OSError:
            pass

    def _turn_over(self) -> None:
        for number in range(KEPT, 0, -1):
            older = f"{self._path}.{number - 1}" if number > 1 else self._path
            try:
                os.replace(older, f"{self._path}.{number}")
            except FileNotFoundError:
                pass
        self._open()


def last_lines(path: str, count: int) -> list[str]:
    """Return the last lines, of the file before, too. Raises OSError."""
    lines: list[str] = []
    for name in (path, f"{path}.1"):
        if len(lines) >= count:
            break
        try:
            with open(name, "rb") as file:
                file.seek(0, os.SEEK_END)
                file.seek(max(0, file.tell() - LARGEST))
                lines = [*file.read().decode(errors="replace").splitlines(), *lines]
        except FileNotFoundError:
            continue
    return lines[-count:] if count else []
