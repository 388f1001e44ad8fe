"""Sleeping until something may have changed: a process ended, a file was written. Nothing here says what is true.

    with Watch() as watch:
        while True:
            look                            # the truth is read anew each time
            if watch.cover(keys, paths):    # something is watched that was not: it may have changed before
                continue
            watch.sleep(deadline)           # returns at once if something happened since it last returned

So no wake-up is lost between a look and the sleep after it. Processes are watched by pidfd, files by inotify. What
neither can tell (another kernel's writes, a full table of watches, macOS) is found by looking again after a pause that
grows. A file that grows all the time wakes us seldom (Pace); the end of a process wakes us at once.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import struct
import time

from agentctl.model import Process
from agentctl.readings import Errand, in_parallel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Self

    from agentctl.model import ProcessKey

ENDED, CHANGED, DUE = "ended", "changed", "due"  # a process; a file; nothing, but the time has come

PAUSES = (1.0, 15.0)  # seconds without a wake-up, the first and the longest, where all is watched
BLIND_PAUSES = (0.5, 2.0)  # the same where something is not
GAPS = (0.1, 1.0)  # between two wake-ups by files, the least and, while they go on and on, the most

# Not IN_ATTRIB: SQLite sets the owner of a file that it reads, and whoever reads would wake itself.
MODIFY, MOVED_FROM, MOVED_TO, CREATE, DELETE = 0x2, 0x40, 0x80, 0x100, 0x200
DELETE_SELF, MOVE_SELF, OVERFLOW, IGNORED = 0x400, 0x800, 0x4000, 0x8000
ONLY_DIRECTORY, MASK_ADD = 0x01000000, 0x20000000
COMES_OR_GOES = CREATE | DELETE | MOVED_FROM | MOVED_TO
ITSELF = IGNORED | DELETE_SELF | MOVE_SELF  # what was watched went, and not something in it
EVENT = struct.Struct("iIII")
READ_SIZE = 64 * 1024
TRIES = 5  # a path that comes and goes while it is being watched


class Pace:
    """When to wake. Pure: it is told the time."""

    def __init__(self) -> None:
        self._pause = PAUSES[0]
        self._gap = GAPS[0]
        self._last = float("-inf")  # wake-up by a file

    def pause(self, blind: bool) -> float:
        return min(max(self._pause, BLIND_PAUSES[0]), BLIND_PAUSES[1]) if blind else self._pause

    def earliest(self) -> float:
        """No file wakes us before this moment."""
        return self._last + self._gap

    def woken(self, by: str, now: float) -> None:
        if by == DUE:
            self._pause = min(self._pause * 2, PAUSES[1])
            return
        self._pause = PAUSES[0]
        if by == CHANGED:
            goes_on = now - self._last < self._gap * 2
            self._gap = min(self._gap * 2, GAPS[1]) if goes_on else GAPS[0]
            self._last = now


class Arming(Errand):
    """One path that is to be watched. In a thread of its own: on a dead mount it does not come back."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path
        self.watches: list[tuple[int, str | None]] = []  # number, and the only name in it that matters
        self.blind = False


class Watch:
    def __init__(self) -> None:
        self._pace = Pace()
        self._ends: dict[ProcessKey, int] = {}  # of those that live: the pidfd
        self._ended: set[ProcessKey] = set()
        self._files = Inotify()
        self._paths: dict[str, Arming] = {}
        self._stale: set[str] = set()  # it came or went: what was watched is not what has this name now
        self.blind = False  # something is not watched: the pauses are shorter

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for fd in self._ends.values():
            os.close(fd)
        self._ends.clear()
        self._files.close()

    def cover(self, keys: Iterable[ProcessKey], paths: Iterable[str], *, blind: bool = False) -> bool:
        """Watch these and nothing else. True: one of them is new here, so look again before you sleep. `blind`: there
        is something that shows neither in them nor in these files."""
        wanted_keys, wanted_paths = set(keys), set(paths)
        new = self._cover_processes(wanted_keys)
        for path in self._paths.keys() - wanted_paths:
            self._forget(path)
        fresh = wanted_paths - self._paths.keys()
        self._arm(fresh)
        unseen = self._ended & wanted_keys or wanted_keys - self._ends.keys()
        self.blind = blind or bool(unseen) or any(one.blind for one in self._paths.values())
        return new or bool(fresh)

    def sleep(self, until: float | None = None) -> str:
        """Until a process ended, a file changed, it is `until` (monotonic), or the pause is over. Says which."""
        due = time.monotonic() + self._pace.pause(self.blind)
        wake = due if until is None else min(due, until)
        changed = False
        while True:
            # Once a file has changed there is nothing more to learn from files until we may wake.
            ended = self._poll(wake - time.monotonic(), files=not changed)
            if ended:
                return self._return(ENDED)
            if not changed and self._drain():
                changed = True
                wake = min(wake, max(self._pace.earliest(), time.monotonic()))
            if time.monotonic() >= wake:
                return self._return(CHANGED if changed else DUE)

    def _return(self, why: str) -> str:
        """What happens from here on is for the next sleep; what is watched is what is there now."""
        self._drain()
        if self._stale:
            stale = self._stale & self._paths.keys()
            self._stale = set()
            for path in stale:
                self._forget(path)
            self._arm(stale)
        self._pace.woken(why, time.monotonic())
        return why

    def _poll(self, seconds: float, *, files: bool) -> bool:
        """Has a process ended? It is not watched any further."""
        poll = select.poll()
        by_fd = {fd: key for key, fd in self._ends.items()}
        for fd in by_fd:
            poll.register(fd, select.POLLIN)
        if files and self._files.fd is not None:
            poll.register(self._files.fd, select.POLLIN)
        ready = [by_fd[fd] for fd, _ in poll.poll(max(0.0, seconds) * 1000) if fd in by_fd]
        for key in ready:
            os.close(self._ends.pop(key))
            self._ended.add(key)
        return bool(ready)

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
        in_parallel([(one, arm(one, self._files)) for one in armings])
        for one in armings:
            one.blind = one.blind or one.unread is not None
            self._paths[one.path] = one

    def _forget(self, path: str) -> None:
        dropped = {number for number, _ in self._paths.pop(path).watches}
        for number in dropped - {number for one in self._paths.values() for number, _ in one.watches}:
            self._files.drop(number)

    def _drain(self) -> bool:
        """Read what happened. Did it concern one of our paths?"""
        relevant = False
        for number, mask, name in self._files.events():
            if mask & OVERFLOW:
                relevant = True
                self._stale |= self._paths.keys()
            for path, one in self._paths.items():
                for watched, only in one.watches:
                    if watched == number and (only in (None, name) or mask & ITSELF):
                        relevant = True
                        if mask & ITSELF or (only == name and mask & COMES_OR_GOES):
                            self._stale.add(path)
        return relevant


def open_process(key: ProcessKey) -> int | None:
    """A descriptor that becomes readable when this very process ends; -1: it has; None: there is no such thing here.
    Opened, and then proved: between a proof and an opening the pid may change hands."""
    if not hasattr(os, "pidfd_open"):
        return None
    from agentctl.processes import linux

    try:
        fd = os.pidfd_open(key.pid)
    except (ProcessLookupError, OverflowError):
        return -1
    except OSError:
        return None
    if key.boot == linux.boot_id() and linux.still_has_its_pid(Process(key, 0, "", "")):
        return fd
    os.close(fd)
    return -1


def arm(one: Arming, files: Inotify) -> Callable[[], None]:
    """Watch a path, and its place in its folder: it may be replaced, or not be there yet. Then it is the nearest
    folder that is there, for the next step on the way."""

    def run() -> None:
        for _ in range(TRIES):
            folder, name = os.path.split(one.path)
            while not os.path.isdir(folder) and os.path.dirname(folder) != folder:
                folder, name = os.path.split(folder)
            number = files.add(folder, COMES_OR_GOES | DELETE_SELF | MOVE_SELF | ONLY_DIRECTORY)
            if number is not None:
                one.watches.append((number, name))
            nearest = os.path.join(folder, name)
            if number is None and os.path.isdir(folder):
                one.blind = True
            elif number is None or (nearest != one.path and os.path.lexists(nearest)):
                continue  # it changed while we looked
            break
        else:
            one.blind = True
        try:
            kind = os.stat(one.path).st_mode
        except OSError:
            return
        number = files.add(one.path, MODIFY | DELETE_SELF | MOVE_SELF | (COMES_OR_GOES if stat.S_ISDIR(kind) else 0))
        if number is not None:
            one.watches.append((number, None))
        # What is said on a socket is in no file.
        one.blind = one.blind or number is None or stat.S_ISSOCK(kind)

    return run


class Inotify:
    """The kernel's word on files (Linux). Where there is none, no path can be added."""

    def __init__(self) -> None:
        self.fd: int | None = None
        try:
            import ctypes

            libc = ctypes.CDLL(None)
            self._add, self._remove = libc.inotify_add_watch, libc.inotify_rm_watch
            fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        except (ImportError, OSError, AttributeError):
            return  # another system, or a Python without ctypes
        if fd >= 0:  # else there are too many of them already
            self.fd = fd

    def close(self) -> None:
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None

    def add(self, path: str, mask: int) -> int | None:
        """The number of the watch; None: it is not there, or the kernel has no room for more."""
        if self.fd is None:
            return None
        number: int = self._add(self.fd, os.fsencode(path), mask | MASK_ADD)
        return number if number >= 0 else None

    def drop(self, number: int) -> None:
        if self.fd is not None:
            self._remove(self.fd, number)

    def events(self) -> Iterator[tuple[int, int, str]]:
        """(watch, mask, name) of all that happened since."""
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
