"""Reads the log of events: its segments, events/NNNNNN.ndjson, each of which begins with a checkpoint.

Anybody may delete a segment at any time, and a disk may damage one. Whoever reads is told so by a gap: which numbers
are missing, and why; then a checkpoint, from which on the events are whole again.
"""

from __future__ import annotations

import json
import os

from agentctl.errors import UsageError
from agentctl.fast.value import Value
from agentctl.files.bounded import moment
from agentctl.live.difference import CHECKPOINT
from agentctl.live.entries import END, GAP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from agentctl.live.entries import Entry

SUFFIX, DIGITS = ".ndjson", 6
LONGEST = 256 * 1024 * 1024  # bytes of a line: more is damage
DELETED = "the segments of the log that had these events are not there any more: they expired, or somebody deleted them"
DAMAGED = "a line of the log cannot be read"
BEFORE = "the log begins later: what was before is not recorded, has expired, or was deleted"
OTHER_LOG = "the log was begun anew: its numbers are others"
NOT_YET = "the log does not have this number: it was begun anew, or an end of it was lost"
ENDS_EARLY = "the end of the log was deleted"


class Since(Value):
    """From where on somebody wants to read: after a number (of that log, if it is named), or from a time on."""

    seq: int | None = None
    log: str | None = None
    at: float | None = None


def since_of(text: str, now: float) -> Since:
    """Return what a person means: 120, 3f2a9c01.120, 2h, 2026-11-18T07:00:00Z. Raises UsageError."""
    log, dot, number = text.rpartition(".")
    if number.isascii() and number.isdigit() and len(number) < 16 and (not dot or is_log(log)):
        return Since(int(number), log or None)
    if (
        len(text) >= 10
        and text[4:5] == "-"
        and (at := moment(text if "T" in text else f"{text}T00:00:00Z")) is not None
    ):
        return Since(at=at)
    from agentctl.durations import seconds

    try:
        if text[-1:] in tuple("smhdw"):
            return Since(at=now - seconds(text))
    except UsageError:
        pass
    raise UsageError(f"--since {text!r}: give the number of an event, or a time such as 2h or 2026-11-18T07:00:00Z")


def is_log(text: str) -> bool:
    return len(text) == 8 and all(digit in "0123456789abcdef" for digit in text)


# Segments


def names(folder: str) -> list[str]:
    """Return the names of the segments, in order. None are there if the folder is not. Raises OSError."""
    try:
        with os.scandir(folder) as entries:
            found = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
    except FileNotFoundError:
        return []
    return sorted((name for name in found if number_of(name) is not None), key=lambda name: number_of(name) or 0)


def number_of(name: str) -> int | None:
    stem = name.removesuffix(SUFFIX)
    is_number = name.endswith(SUFFIX) and DIGITS <= len(stem) <= 12 and stem.isascii() and stem.isdigit()
    return int(stem) if is_number else None


def name_of(number: int) -> str:
    return f"{number:0{DIGITS}}{SUFFIX}"


def parsed(line: bytes) -> Entry | None:
    """Return the entry of a line; None: it is damaged."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) and is_entry(entry) else None


def is_entry(entry: dict[str, Any]) -> bool:
    seq, kind = entry.get("seq"), entry.get("type")
    if not (isinstance(seq, int) and isinstance(kind, str) and isinstance(entry.get("log"), str)):
        return False
    if kind == CHECKPOINT:
        return isinstance(entry.get("sessions"), list) and isinstance(entry.get("problems"), list)
    return kind in (GAP, END) or isinstance(entry.get("agent"), str)


def whole_lines(data: bytes) -> tuple[list[bytes], int]:
    """Return the lines that are whole, and how many bytes they have: the rest is torn, or still being written."""
    size = data.rfind(b"\n") + 1
    return data[:size].splitlines(), size


def read(path: str) -> Iterator[Entry | None]:
    """Yield the entries of the whole lines of a segment; None for each that is damaged. A segment that is not there any
    more has none. A line that is being written has no end yet, and is left for later. Raises OSError."""
    try:
        file = open(path, "rb")
    except FileNotFoundError:
        return
    with file:
        for line in file:
            if line.endswith(b"\n"):
                yield parsed(line)


def first_of(path: str) -> Entry | None:
    """Return the checkpoint that a segment begins with; None if it has none."""
    entry = next(iter(read(path)), None)
    return entry if entry is not None and entry["type"] == CHECKPOINT else None


# Replay


class Begin(Value):
    """Where a replay begins."""

    index: int  # of the segment
    after: int  # show what has a higher number
    gap: str | None = None  # why events are missing before it


def begin(checkpoints: list[Entry | None], last: int, since: Since) -> Begin:
    """Return where to begin. `checkpoints`: of each segment; None: damaged. `last`: the last number of the log."""
    known = [(index, entry) for index, entry in enumerate(checkpoints) if entry is not None]
    if not known:
        return Begin(0, -1, DAMAGED if checkpoints else None)
    newest = Begin(known[-1][0], known[-1][1]["seq"])
    if since.at is not None:
        earlier = [index for index, entry in known if (moment(entry.get("at")) or 0.0) < since.at]
        return Begin(earlier[-1], -1) if earlier else Begin(known[0][0], known[0][1]["seq"], BEFORE)
    wanted = since.seq or 0
    if since.log is not None and since.log != known[-1][1]["log"]:
        return newest._replace(gap=OTHER_LOG)
    if wanted > last:
        return newest._replace(gap=NOT_YET)
    current = [(index, entry) for index, entry in known if entry["log"] == known[-1][1]["log"]]
    before = [index for index, entry in current if entry["seq"] <= wanted]
    if before:
        return Begin(before[-1], wanted)
    return Begin(current[0][0], current[0][1]["seq"], DELETED)


def replay(folder: str, since: Since, last: int | None = None) -> Iterator[Entry]:
    """Yield the entries since then, up to `last`: events, and where some are missing a gap with a checkpoint. Raises
    OSError."""
    paths = [os.path.join(folder, name) for name in names(folder)]
    checkpoints = [first_of(path) for path in paths]
    end = last if last is not None else last_in(paths)
    start = begin(checkpoints, end, since)
    logs = [entry["log"] for entry in checkpoints if entry is not None]
    yield from Replay(start, since.at, logs[-1] if logs else "").run(paths[start.index :], end)


def last_in(paths: list[str]) -> int:
    """Return the last number of a log."""
    found = 0
    for entry in read(paths[-1]) if paths else ():
        found = entry["seq"] if entry is not None else found
    return found


class Replay:
    """Follows the numbers from segment to segment. `_shown`: the last number that was shown, or is known."""

    def __init__(self, start: Begin, at: float | None, newest: str) -> None:
        self._gap = start.gap
        self._log, self._newest = newest if at is None else None, newest
        self._told = False  # the gap was told, and no checkpoint has come since
        self._shown: int | None = start.after if start.after >= 0 else None
        self._at = at  # nothing older than this is shown, until the first that is not

    def run(self, paths: Iterable[str], last: int) -> Iterator[Entry]:
        for path in paths:
            for entry in read(path):
                if entry is None:
                    self._gap = self._gap or DAMAGED
                elif entry["log"] != self._newest or entry["seq"] <= last:
                    yield from self._take(entry)
        if self._shown is not None and self._shown < last:
            self._gap = self._gap or ENDS_EARLY
        if self._gap is not None and not self._told:
            yield gap_of(self._newest, last, self._gap, None)

    def _take(self, entry: Entry) -> Iterator[Entry]:
        if self._log not in (None, entry["log"]):
            self._shown, self._gap = None, self._gap or OTHER_LOG
        self._log = entry["log"]
        if entry["type"] == CHECKPOINT:
            yield from self._take_checkpoint(entry)
            return
        known = self._shown is not None and entry["seq"] <= self._shown
        if entry["type"] == END or known or self._is_too_old(entry):
            return
        if self._shown is not None and entry["seq"] != self._shown + 1:
            self._gap = self._gap or DAMAGED
        if self._gap is not None and not self._told:
            self._told = True
            yield gap_of(entry["log"], entry["seq"] - 1, self._gap, None)
        self._shown = entry["seq"]
        yield entry

    def _take_checkpoint(self, entry: Entry) -> Iterator[Entry]:
        """A checkpoint repeats what is known, unless something is missing before it."""
        if self._shown is not None and entry["seq"] < self._shown:
            return
        missing = self._gap or entry.get("gap")
        if missing is None and self._shown is not None and entry["seq"] > self._shown:
            missing = DELETED
        self._shown = entry["seq"]
        if missing is None or self._is_too_old(entry):
            return
        yield gap_of(entry["log"], entry["seq"], missing, entry.get("at"))
        yield {key: value for key, value in entry.items() if key != "gap"}
        self._gap, self._told = None, False

    def _is_too_old(self, entry: Entry) -> bool:
        """Is it older than the time that was asked for? From the first that is not, all are shown, whatever the clock
        said then: it may have been set."""
        if self._at is None:
            return False
        if (moment(entry.get("at")) or 0.0) < self._at:
            self._shown, self._gap, self._told = entry["seq"], None, False  # what is missing is older, too
            return True
        self._at = None
        return False


def gap_of(log: str, seq: int, reason: str, at: str | None) -> Entry:
    """Return what says that events up to this number are missing."""
    return {"schema": 1, "log": log, "seq": seq, "late": False, "type": GAP, "at": at, "reason": reason}
