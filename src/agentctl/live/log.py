"""Writes the log of events: events/NNNNNN.ndjson in the state folder, one writer, whole lines, bounded.

    with Log(folder, shapes) as log:
        seen = log.seen                       # what the log says, folded; None: there is no log
        log.begin(step.seen)                  # after the first look; what changed meanwhile is appended as late
        told = log.append(step.events, step.seen)

The log is a memory of what was told, never an answer to what is so. Anybody may delete it, or parts of it, at any time.
A number is given only to what is in the file. What could not be written (a full disk) is told without a number, and
once the file can be written again, a new segment says what is missing.
"""

from __future__ import annotations

import json
import os
import time

from agentctl.files.private import make_private
from agentctl.kernel.flock import Flock
from agentctl.live import segments
from agentctl.live.difference import CHECKPOINT
from agentctl.live.entries import END, after, redacted, seen_from
from agentctl.model import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Self

    from agentctl.live.difference import Event, Seen
    from agentctl.live.entries import Entry

LOCK = "lock"
PATIENCE = 5.0  # seconds: a daemon that is being replaced lets go of the log in that time
MEGABYTE = 1024 * 1024
DAY = 86400.0
APPENDING = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class Limits(Value):
    total: int = 64 * MEGABYTE
    segment: int = 4 * MEGABYTE
    segment_age: float = DAY  # seconds
    age: float = 30 * DAY


class Shapes(Value):
    """How events and checkpoints are told to programs."""

    event: Callable[[Event], dict[str, Any]]
    checkpoint: Callable[[Seen], dict[str, Any]]


class Log:
    """Raises Refused if another process writes this log, or the folder is not ours alone."""

    def __init__(self, folder: str, shapes: Shapes, limits: Limits | None = None) -> None:
        self.folder, self._shapes, self._limits = folder, shapes, limits or Limits()
        self._fd = -1
        self._path = ""
        self._size = 0
        self._begun = 0.0  # when this segment was, by the clock that never steps back
        self._gap: str | None = None  # why the next thing to write is a new segment
        self.seen: Seen | None = None
        self.log, self.seq = "", 0
        self.lost = 0  # events that are not in the log since the last one that is
        self.why: str | None = None  # it cannot be written

    def __enter__(self) -> Self:
        make_private(self.folder)
        self._lock = Flock(os.path.join(self.folder, LOCK), PATIENCE, "the log of events")
        self._lock.__enter__()
        try:
            self._recover()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._close()
        self._lock.__exit__(None, None, None)

    # What the log says

    def _recover(self) -> None:
        """Fold the last segment that has a checkpoint, and what follows it. Cut a torn last line."""
        found = segments.names(self.folder)
        paths = [os.path.join(self.folder, name) for name in found]
        start = next((at for at in reversed(range(len(paths))) if segments.first_of(paths[at]) is not None), None)
        if start is None:
            self._gap = segments.DAMAGED if paths else None
            return
        closed = False
        for path in paths[start:]:
            for entry in segments.read(path):
                closed = entry is not None and entry["type"] == END
                self._fold(entry)
        if closed:  # the segment after it is not there: its numbers were given
            self._forget_numbers(segments.ENDS_EARLY)
        else:
            self._open(paths[-1])

    def _fold(self, entry: Entry | None) -> None:
        try:
            if entry is None:
                raise ValueError(segments.DAMAGED)
            if entry["type"] == CHECKPOINT or self.seen is None:
                self.seen = after_checkpoint(entry)
            else:
                self.seen = after(self.seen, entry)
            self.seq, self.log = entry["seq"], entry["log"]
        except (ValueError, TypeError, KeyError, AttributeError):
            self._gap = segments.DAMAGED

    def _forget_numbers(self, why: str) -> None:
        self.log, self.seq, self._gap = "", 0, why

    def _open(self, path: str) -> None:
        self._fd = os.open(path, APPENDING)
        self._path, self._begun = path, time.monotonic()
        with open(self._fd, "rb", closefd=False) as file:
            file.seek(0, os.SEEK_END)
            size = file.tell()
            file.seek(max(0, size - segments.LONGEST))
            rest = file.read()
        torn = len(rest) - (rest.rfind(b"\n") + 1)
        if torn:
            os.ftruncate(self._fd, size - torn)
        self._size = size - torn

    # What is added to it

    def begin(self, seen: Seen) -> None:
        """Make a first segment if there is none, or if the last one is damaged. `seen`: what is so."""
        before = self.seen if self.seen is not None else seen
        self.seen = before
        self._heal()

    def append(self, events: Iterable[Event], seen: Seen, *, late: bool = False) -> list[Entry]:
        """Write events, and return them as they are told: with their numbers, or without if they could not be
        written. `seen`: what is so after them."""
        told = [redacted({**self._shapes.event(event), "late": late}) for event in events]
        if self._heal() and (not told or self._write(told)):
            self.seen = seen
            self._turn_over()
            return told
        self.lost += len(told)
        self.seen = seen
        return [self._stamped(one, None) for one in told]

    def heal(self) -> bool:
        """Try again to write what says that events are missing. Return whether nothing is missing now."""
        return self._heal()

    def checkpoint(self, seen: Seen, seq: int) -> Entry:
        """Return a checkpoint of what was so after an event."""
        return self._stamped(redacted(self._shapes.checkpoint(seen)), seq)

    @property
    def missing(self) -> str | None:
        """Why the last events that were told are not in the log; None if they are."""
        return f"{self.lost} events could not be written to the log: {self.why}" if self.lost else None

    def _stamped(self, one: dict[str, Any], seq: int | None) -> Entry:
        late = one.get("late", False)
        return {"schema": 1, "log": self.log, "seq": seq, "late": late, **{k: v for k, v in one.items() if k != "late"}}

    def _heal(self) -> bool:
        """Return whether the next event may follow the last one in the file; begin a new segment if it may not."""
        if self._fd >= 0 and self._gap is None and not self.lost and not self._is_there():
            self._gap = segments.DELETED
        if self._fd >= 0 and self._gap is None and not self.lost:
            return True
        return self._new_segment(self.missing or self._gap)

    def _is_there(self) -> bool:
        """Is the segment that we write still what has its name?"""
        try:
            return os.path.samestat(os.fstat(self._fd), os.stat(self._path, follow_symlinks=False))
        except OSError:
            return False

    def _write(self, told: list[dict[str, Any]]) -> bool:
        """Append entries as whole lines, or nothing. They get their numbers."""
        stamped = [self._stamped(one, self.seq + place) for place, one in enumerate(told, 1)]
        data = "".join(line_of(one) + "\n" for one in stamped).encode()
        if not self._add(data):
            return False
        self.seq += len(told)
        told[:] = stamped
        return True

    def _add(self, data: bytes) -> bool:
        try:
            write_all(self._fd, data)
            os.fdatasync(self._fd)
        except OSError as error:
            self._failed(error)
            return False
        self._size += len(data)
        return True

    def _failed(self, error: OSError) -> None:
        self.why = f"{error.strerror or error} ({self._path or self.folder})"
        if self._fd < 0:
            return
        try:
            os.ftruncate(self._fd, self._size)
        except OSError:
            self._gap = segments.DAMAGED  # half a line is in it: nothing may follow it

    def _new_segment(self, gap: str | None) -> bool:
        """Begin a segment with a checkpoint of what was told last. It gets its name once it is whole."""
        assert self.seen is not None
        try:
            make_private(self.folder)
            numbers = [segments.number_of(name) or 0 for name in segments.names(self.folder)]
            path = os.path.join(self.folder, segments.name_of(max(numbers, default=0) + 1))
            fd, size = self._made(path, gap)
        except OSError as error:
            self._failed(error)
            return False
        self._end_segment(path)
        self._close()
        self._fd, self._path, self._size, self._begun = fd, path, size, time.monotonic()
        self._gap, self.lost, self.why = None, 0, None
        self._expire()
        return True

    def _made(self, path: str, gap: str | None) -> tuple[int, int]:
        """Make the file of a segment; return its descriptor and size."""
        self.log = self.log or os.urandom(4).hex()
        seq = self.seq + 1 if gap is not None and self.lost else self.seq
        entry = self.checkpoint(self.seen, seq) if self.seen is not None else {}
        if gap is not None:
            entry["gap"] = gap
        data = (line_of(entry) + "\n").encode()
        fd = os.open(f"{path}.new", os.O_CREAT | os.O_TRUNC | APPENDING, 0o600)
        try:
            write_all(fd, data)
            os.fsync(fd)
            os.rename(f"{path}.new", path)
        except BaseException:
            os.close(fd)
            remove(f"{path}.new")
            raise
        self.seq = seq
        return fd, len(data)

    def _end_segment(self, following: str) -> None:
        """Note in a segment that another one follows it: else nobody knew that the last one was deleted."""
        if self._fd >= 0 and self._gap is None:
            end = {"schema": 1, "log": self.log, "seq": self.seq, "type": END, "next": os.path.basename(following)}
            self._add((line_of(end) + "\n").encode())

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    # Bounds

    def _turn_over(self) -> None:
        """Begin the next segment if this one is large or old."""
        if self._size >= self._limits.segment or time.monotonic() - self._begun >= self._limits.segment_age:
            self._new_segment(None)

    def _expire(self) -> None:
        """Remove the oldest segments beyond the bounds; never the last one."""
        *old, last = [os.path.join(self.folder, name) for name in segments.names(self.folder)] or [self._path]
        sizes = {path: size_of(path) for path in old}
        room = self._limits.total - size_of(last) - self._limits.segment
        for path in old:
            too_old = time.time() - changed_at(path) > self._limits.age
            if sum(sizes.values()) > room or too_old:
                remove(path)
                sizes.pop(path)


def after_checkpoint(entry: Entry) -> Seen:
    if entry["type"] != CHECKPOINT:
        raise ValueError("no checkpoint")
    return seen_from(entry)


def line_of(entry: Entry) -> str:
    """Return an entry as one line: ASCII, so that a file name that is not UTF-8 makes no line unreadable."""
    return json.dumps(entry, ensure_ascii=True)


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def size_of(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def changed_at(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass  # it may stay: the next segment tries again
