"""Sleeps until something may have changed: a process ended, a file was written. Nothing here says what is true.

    with Watch() as watch:
        while True:
            look                            # the truth is read anew each time
            if watch.cover(keys, paths):    # something is watched that was not: it may have changed before
                continue
            watch.sleep(deadline)           # returns at once if something happened since it last returned

So no wake-up is lost between a look and the sleep after it. A pidfd watches a process, inotify watches files. If
neither can (another kernel writes, the table of watches is full, macOS), it is `blind`, and the caller looks more often
(live/rounds.py). A pace says how soon a file may wake us again; the end of a process wakes us at once.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import struct
import time

from agentctl.kernel.stall_guard import Errand, in_parallel
from agentctl.model import Process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Self

    from agentctl.model import ProcessKey

ENDED, CHANGED, DUE = "ended", "changed", "due"  # a process; a file; nothing, but the time has come
CLOSED = "closed"  # nobody reads any more what we write

# Not IN_ATTRIB: SQLite sets the owner of a file that it reads, and whoever reads would wake itself.
MODIFY, MOVED_FROM, MOVED_TO, CREATE, DELETE = 0x2, 0x40, 0x80, 0x100, 0x200
DELETE_SELF, MOVE_SELF, OVERFLOW, IGNORED = 0x400, 0x800, 0x4000, 0x8000
ONLY_DIRECTORY, MASK_ADD = 0x01000000, 0x20000000
COMES_OR_GOES = CREATE | DELETE | MOVED_FROM | MOVED_TO
ITSELF = IGNORED | DELETE_SELF | MOVE_SELF  # the watched folder or file itself went, not something in it
EVENT = struct.Struct("iIII")
READ_SIZE = 64 * 1024
TRIES = 5  # a path that comes and goes while it is being watched
NO_NAME = "/"  # for a watch on the folder itself only: nothing in a folder has this name


class Pace:
    """Decides when files may wake us: this one, at once. Pure: the caller passes the time."""

    def earliest(self) -> float:
        """Return the moment before which no file wakes us."""
        return float("-inf")

    def woken(self, by: str, now: float) -> None:
        """Learn what has woken us."""


class Arming(Errand):
    """A path to watch. It is set up in its own thread, which never returns on a dead mount."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path
        self.watches: list[tuple[int, str | None]] = []  # number, and the only name in it that matters
        self.blind = False


class Watch:
    """`pace` decides when files wake us. `reader`: a descriptor that we write to; if its other end is closed, `sleep`
    returns CLOSED."""

    def __init__(self, pace: Pace | None = None, reader: int | None = None) -> None:
        self._pace = pace or Pace()
        self._reader = reader
        self._ends: dict[ProcessKey, int] = {}  # of those that live: the pidfd
        self._ended: set[ProcessKey] = set()
        self._files = Inotify()
        self._paths: dict[str, Arming] = {}
        self._stale: set[str] = set()  # it came or went: what was watched is not what has this name now
        self.blind = False  # something is not watched: whoever asks looks more often

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for fd in self._ends.values():
            os.close(fd)
        self._ends.clear()
        self._files.close()

    def cover(self, keys: Iterable[ProcessKey], paths: Iterable[str], *, blind: bool = False) -> bool:
        """Watch these and nothing else. Return whether one of them is new here: then look again before you sleep.
        `blind`: something may change that shows neither in these processes nor in these files."""
        wanted_keys, wanted_paths = set(keys), set(paths)
        new = self._cover_processes(wanted_keys)
        for path in self._paths.keys() - wanted_paths:
            self._forget(path)
        fresh = wanted_paths - self._paths.keys()
        self._arm(fresh)
        unseen = self._ended & wanted_keys or wanted_keys - self._ends.keys()
        self.blind = blind or bool(unseen) or any(arming.blind for arming in self._paths.values())
        return new or bool(fresh)

    @property
    def full(self) -> bool:
        """Has the kernel no room for all our watches?"""
        return self._files.full

    def try_again(self) -> None:
        """Forget what could not be watched for want of room: `cover` then finds it new, and tries again."""
        if self._files.fd is None:
            self._files = Inotify()
        self._files.full = False
        for path in [path for path, arming in self._paths.items() if arming.blind]:
            self._forget(path)

    def sleep(self, until: float) -> str:
        """Sleep until a process ends, a file changes, or it is `until` (monotonic). Return which."""
        wake, changed = until, False
        while True:
            # Once a file has changed there is nothing more to learn from files until we may wake.
            happened = self._poll(wake - time.monotonic(), files=not changed)
            if happened is not None:
                return self._return(happened)
            if not changed and self._drain():
                changed = True
                wake = min(wake, max(self._pace.earliest(), time.monotonic()))
            if time.monotonic() >= wake:
                return self._return(CHANGED if changed else DUE)

    def _return(self, why: str) -> str:
        """Leave what happens from now on to the next sleep, and watch again what came or went. Return `why`."""
        self._drain()
        if self._stale:
            stale = self._stale & self._paths.keys()
            self._stale = set()
            for path in stale:
                self._forget(path)
            self._arm(stale)
        self._pace.woken(why, time.monotonic())
        return why

    def _poll(self, seconds: float, *, files: bool) -> str | None:
        """Wait, and return ENDED if a process has ended (it is not watched any further), CLOSED if our reader has
        gone."""
        poll = select.poll()
        by_fd = {fd: key for key, fd in self._ends.items()}
        for fd in by_fd:
            poll.register(fd, select.POLLIN)
        if files and self._files.fd is not None:
            poll.register(self._files.fd, select.POLLIN)
        if self._reader is not None:
            poll.register(self._reader, 0)  # an error or a hang-up is reported in any case
        ready = [fd for fd, _ in poll.poll(max(0.0, seconds) * 1000)]
        for key in [by_fd[fd] for fd in ready if fd in by_fd]:
            os.close(self._ends.pop(key))
            self._ended.add(key)
        if self._reader in ready:
            return CLOSED
        return ENDED if any(fd in by_fd for fd in ready) else None

    # Processes

    def _cover_processes(self, wanted: set[ProcessKey]) -> bool:
        for key in self._ends.keys() - wanted:
            os.close(self._ends.pop(key))
        self._ended &= wanted
        new = False
        for key in wanted - self._ends.keys() - self._ended:
            fd = open_process(key)
            if fd is None:
                continue  # it cannot be watched
            if fd < 0:
                self._ended.add(key)
            else:
                self._ends[key] = fd
            new = True
        return new

    # Files

    def _arm(self, paths: set[str]) -> None:
        armings = [Arming(path) for path in sorted(paths)]
        in_parallel([(arming, arm(arming, self._files)) for arming in armings])
        for arming in armings:
            arming.blind = arming.blind or arming.unread is not None
            self._paths[arming.path] = arming

    def _forget(self, path: str) -> None:
        dropped = {number for number, _ in self._paths.pop(path).watches}
        for number in dropped - {number for arming in self._paths.values() for number, _ in arming.watches}:
            self._files.drop(number)

    def _drain(self) -> bool:
        """Read what happened, and return whether it concerned one of our paths."""
        relevant = False
        for number, mask, name in self._files.events():
            if mask & OVERFLOW:
                relevant = True
                self._stale |= self._paths.keys()
            for path, arming in self._paths.items():
                for watched, only in arming.watches:
                    if watched == number and (only in (None, name) or mask & ITSELF):
                        relevant = True
                        if mask & ITSELF or (only == name and mask & COMES_OR_GOES):
                            self._stale.add(path)
        return relevant


def open_process(key: ProcessKey) -> int | None:
    """Return a descriptor that becomes readable when this very process ends; -1 if it has ended; None if it cannot be
    watched. It is opened first and then proved: between a proof and an opening another process may get the pid."""
    if not hasattr(os, "pidfd_open") or key.namespace is not None:
        return None
    from agentctl.kernel import linux, one_process, procfs

    try:
        boot = linux.boot_id()
        if procfs.why_blind() is not None:
            return None
        fd = os.pidfd_open(key.pid)
    except (ProcessLookupError, OverflowError):
        return -1
    except OSError:
        return None
    if key.boot == boot and one_process.still_has_its_pid(Process(key, 0, "", "")):
        return fd
    os.close(fd)
    return -1


def arm(arming: Arming, files: Inotify) -> Callable[[], None]:
    """Return a function that watches a path, and its name in its folder, because the path may be replaced. If it does
    not exist yet, the function watches the nearest folder that does, for the next step on the way. It also watches for
    a rename of a folder above."""

    def run() -> None:
        for _ in range(TRIES):
            folder, name = os.path.split(arming.path)
            while not os.path.isdir(folder) and os.path.dirname(folder) != folder:
                folder, name = os.path.split(folder)
            number = files.add(folder, COMES_OR_GOES | DELETE_SELF | MOVE_SELF | ONLY_DIRECTORY)
            if number is not None:
                arming.watches.append((number, name))
            nearest = os.path.join(folder, name)
            if number is None and os.path.isdir(folder):
                arming.blind = True
            elif number is None or (nearest != arming.path and os.path.lexists(nearest)):
                continue  # it changed while we looked
            break
        else:
            arming.blind = True
        # If a folder further up is renamed, nothing happens in the folders below it: only a watch on it reports that.
        while (above := os.path.dirname(folder)) != folder:
            folder = above
            if (number := files.add(folder, DELETE_SELF | MOVE_SELF | ONLY_DIRECTORY)) is not None:
                arming.watches.append((number, NO_NAME))
        try:
            kind = os.stat(arming.path).st_mode
        except OSError:
            return
        number = files.add(arming.path, MODIFY | DELETE_SELF | MOVE_SELF | (COMES_OR_GOES if stat.S_ISDIR(kind) else 0))
        if number is not None:
            arming.watches.append((number, None))
        # No file shows what goes through a socket.
        arming.blind = arming.blind or number is None or stat.S_ISSOCK(kind)

    return run


class Inotify:
    """Reports changes of files (Linux). Elsewhere no path can be added."""

    def __init__(self) -> None:
        self.fd: int | None = None
        self.full = False  # the kernel has no room: this user has too many of them, or of watches
        try:
            import ctypes

            libc = ctypes.CDLL(None, use_errno=True)
            self._errno = ctypes.get_errno
            self._add, self._remove = libc.inotify_add_watch, libc.inotify_rm_watch
            fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        except (ImportError, OSError, AttributeError):
            return  # another system, or a Python without ctypes
        if fd >= 0:
            self.fd = fd
        else:
            self.full = self._errno() in (errno.EMFILE, errno.ENFILE)

    def close(self) -> None:
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None

    def add(self, path: str, mask: int) -> int | None:
        """Return the number of the watch; None if there is no such path, or the kernel has no room for more."""
        if self.fd is None:
            return None
        number: int = self._add(self.fd, os.fsencode(path), mask | MASK_ADD)
        if number < 0 and self._errno() == errno.ENOSPC:
            self.full = True
        return number if number >= 0 else None

    def drop(self, number: int) -> None:
        if self.fd is not None:
            self._remove(self.fd, number)

    def events(self) -> Iterator[tuple[int, int, str]]:
        """Yield (watch, mask, name) of all that happened since the last call."""
        while self.fd is not None:
            try:
                data = os.read(self.fd, READ_SIZE)
            except OSError as error:
                if error.errno in (errno.EAGAIN, errno.EINTR):
                    return
                raise
            place = 0
            while place < len(data):
                number, mask, _, length = EVENT.unpack_from(data, place)
                name = data[place + EVENT.size : place + EVENT.size + length].rstrip(b"\0")
                yield number, mask, os.fsdecode(name)
                place += EVENT.size + length
