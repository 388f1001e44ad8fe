"""Holds a process that agentctl may signal: opens it first, then proves that it is the one that is meant.

On Linux a pidfd holds it, so that no other process that gets its pid later ever gets the signal. Without pidfds (macOS,
or a sandbox that forbids them) the key is proved again right before each signal; the instant between is not covered.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

    from agentctl.model import Process, ProcessKey

NO_PIDFD = (errno.ENOSYS, errno.EPERM)  # an old kernel, a sandbox
PAUSE = 0.02  # between two looks, if nothing wakes us


class Handle:
    def __init__(self, row: Process, fd: int | None) -> None:
        self.key = row.key
        self.comm = row.comm
        self._fd = fd

    @classmethod
    def open(cls, key: ProcessKey) -> Self | None:
        """Return a handle on this process; None if it has ended. Raises OSError if the kernel does not say, or if
        too many descriptors are open."""
        fd = None
        if hasattr(os, "pidfd_open") and hasattr(signal, "pidfd_send_signal"):
            try:
                fd = os.pidfd_open(key.pid)
            except ProcessLookupError:
                return None
            except OSError as error:
                if error.errno not in NO_PIDFD:
                    raise
        # Only now: if the pid still has this key after the opening, then this is the process that was opened.
        row = row_of(key)
        if row is None:
            if fd is not None:
                os.close(fd)
            return None
        return cls(row, fd)

    def alive(self) -> bool:
        if self._fd is None:
            return row_of(self.key) is not None
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        return not poll.poll(0)

    def suspended(self) -> bool:
        row = row_of(self.key)
        return row is not None and row.suspended

    def send(self, number: signal.Signals) -> bool:
        """Send a signal; return False if it has ended already. The kernel would take a signal for a zombie, too. Raises
        PermissionError."""
        if not self.alive():
            return False
        try:
            if self._fd is not None:
                signal.pidfd_send_signal(self._fd, number)
            else:
                os.kill(self.key.pid, number)
        except ProcessLookupError:
            return False
        return True

    def fileno(self) -> int | None:
        return self._fd

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)


def row_of(key: ProcessKey) -> Process | None:
    """Return the process of this key as it is now; None if it has ended. Raises OSError if the kernel does not tell."""
    if sys.platform == "linux":
        from agentctl.kernel import linux, one_process, procfs

        if key.namespace is not None:
            raise OSError(f"pid {key.pid} was recorded in another PID namespace ({key.namespace})")
        if key.boot != linux.boot_id():
            return None
        if (why := procfs.why_blind()) is not None:
            raise OSError(why)
        try:
            row = one_process.parse_stat(one_process.read_row(f"{procfs.PROC}/{key.pid}/stat"), key.boot)
        except (FileNotFoundError, ProcessLookupError):
            return None
        except ValueError as error:
            raise OSError(f"the kernel's word of pid {key.pid} is not understood: {error}") from error
    else:
        from agentctl.kernel import portable

        row = portable.row(key.pid, key.boot) if key.boot == portable.boot_id() else None
    return row if row is not None and row.key == key and not row.dead else None


def has_ended(key: ProcessKey) -> bool:
    """Return whether this process is known to have ended."""
    try:
        return row_of(key) is None
    except OSError:
        return False  # the kernel does not tell


def wait_for(handles: Iterable[Handle], seconds: float) -> list[Handle]:
    """Wait until all of them have ended, at most so long. Return those that still live."""
    deadline = time.monotonic() + seconds
    living = list(handles)
    while living:
        left = max(0.0, deadline - time.monotonic())
        descriptors = [fd for fd in (handle.fileno() for handle in living) if fd is not None]
        if len(descriptors) == len(living):
            poll = select.poll()
            for fd in descriptors:
                poll.register(fd, select.POLLIN)
            poll.poll(left * 1000)
        else:
            time.sleep(min(PAUSE, left))
        living = [handle for handle in living if handle.alive()]
        if left <= 0.0:
            break
    return living
