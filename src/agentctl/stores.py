"""Source 2's tools: bounded reads of files that other programs write while we look. Knows no agent.

Nothing here writes, locks or follows a name that is not a regular file: a FIFO or a device where a transcript
should be is an error to report, never something to block on.
"""

from __future__ import annotations

import os
import stat
import time
from errno import ENOENT

from agentctl import jsontext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    Span = tuple[bytes, int, int]  # a block, and where a line begins and ends in it

CHUNK = 32 * 1024
FIRST_CHUNK = 8 * 1024  # of a beginning: what is looked for there mostly is in its first lines
BLOCK = 1024 * 1024  # where a whole file is looked through
LINE_LIMIT = 8 * 1024 * 1024  # a longer line is passed over: no agent writes one, and memory stays bounded
TOO_LONG = b"(too long to be read)"  # stands for what was passed over
ID_LENGTH = 200
STARTS_KEPT = 1024
TORN_TRIES = 4
TORN_PAUSE = 0.004
DEEPEST = 500  # brackets inside of each other: whoever shows or compares a value recurses, and Python gives up at 1000
LARGEST = 10**15  # of tokens, and of money
LATEST_MOMENT = 253402214400.0  # 9999-12-31: the last day that every clock and time zone can show


class NotRegular(OSError):
    """Where a file should be is a FIFO, a device, a socket or a directory."""


class Torn(ValueError):
    """A JSON file that does not parse, also after looking again."""


def open_regular(path: str) -> int:
    return opened(path)[0]


def opened(path: str) -> tuple[int, int]:
    """(descriptor, size) of a regular file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except ValueError:  # a NUL or half a character: an id that somebody wrote into a file became part of this path
        raise FileNotFoundError(ENOENT, "no file can have this name", path) from None
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        os.close(fd)
        raise NotRegular(f"not a regular file: {path}")
    return fd, found.st_size


def read_bytes(path: str, limit: int = 4 * 1024 * 1024) -> bytes:
    fd, size = opened(path)
    try:
        parts = []
        size += 1  # so that the end of most files is seen with the first read
        while limit > 0 and (part := os.read(fd, min(limit, size))):
            parts.append(part)
            limit -= len(part)
            if len(part) < size:
                break
        return b"".join(parts)
    finally:
        os.close(fd)


def read_json(path: str) -> dict[str, Any]:
    """One JSON object. Agents rewrite such files in place (write, then truncate), so a shorter object may be
    followed by the tail of the longer one it replaces, and a half-written one is complete a moment later."""
    for attempt in range(TORN_TRIES):
        if attempt:
            time.sleep(TORN_PAUSE)
        text = read_bytes(path).decode(errors="replace").lstrip()
        try:
            value = jsontext.leading(text)
        except ValueError:
            continue
        except RecursionError:
            break
        if isinstance(value, dict) and not is_too_deep(value, text.count("[") + text.count("{")):
            return value
        break
    raise Torn(f"not a JSON object: {path}")


def decode(line: bytes | str) -> dict[str, Any] | None:
    """One JSONL line, or None if it is torn, foreign or absurd."""
    try:
        value = jsontext.whole(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    if len(line) <= 2 * DEEPEST:
        return value  # every bracket that is opened is closed: it cannot be too deep
    return None if is_too_deep(value, brackets_in(line)) else value


def brackets_in(line: bytes | str) -> int:
    """How many open."""
    if isinstance(line, str):
        return line.count("[") + line.count("{")
    # What count() does byte by byte: of 12 KB 0.7 instead of 11 us.
    return 2 * len(line) - len(line.replace(b"[", b"")) - len(line.replace(b"{", b""))


def is_too_deep(value: object, brackets: int) -> bool:
    """`brackets`: how many its text has; nearly always too few to be looked at any further."""
    if brackets <= DEEPEST:
        return False
    front = [value]
    for _ in range(DEEPEST):
        below: list[object] = []
        for one in front:
            inner = one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
            below += [other for other in inner if isinstance(other, (dict, list))]
        if not below:
            return False
        front = below
    return True


class Opened:
    """A file of lines that is open: its end and its beginning are read with one opening."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.fd, self.size = opened(path)

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)


def lines_backward(path: str, limit: int, end: int | None = None, *, tell: bool = False) -> Iterator[bytes]:
    """The lines of a file (or of its first `end` bytes) from the last to the first, reading at most `limit` bytes.

    An unfinished last line (no newline yet) is given as it is: decode() says whether it is whole. With `tell`, a line
    that is too long is given as TOO_LONG, and so is the rest of the file where the limit was reached.
    """
    with Opened(path) as file:
        for block, begin, after in Backward(file, limit, end, tell=tell):
            yield block if block is TOO_LONG else block[begin:after]


class Backward:
    """The same lines, each as a place in the block that was read: most of them are looked at and not taken out.

    Who knows that he can pass over some lines sets `after` to the end of the next one that he wants.
    """

    def __init__(self, file: Opened, limit: int, end: int | None = None, *, tell: bool = False) -> None:
        self._fd, self._limit, self._tell = file.fd, limit, tell
        self._position = file.size if end is None else end
        self.block = b""
        self.after = 0  # the end of what was not given yet of this block

    @property
    def start(self) -> int:
        """Where the line that was given last begins in the file."""
        return self._position + self.after + 1

    def __iter__(self) -> Iterator[Span]:
        pieces: list[bytes] = []  # of the line that reaches back over blocks, last piece first
        length = 0
        while self._position > 0 and self._limit > 0:
            size = min(CHUNK, self._position, self._limit)
            self._position -= size
            self._limit -= size
            block = self.block = os.pread(self._fd, size, self._position)
            if len(block) < size:
                pieces, length = [], 0  # the file has shrunk: what was read behind here is no part of it any more
            self.after = len(block)
            while (newline := block.rfind(b"\n", 0, self.after)) >= 0:
                after, self.after = self.after, newline
                length += after - newline - 1
                if length > LINE_LIMIT:
                    if self._tell:
                        yield TOO_LONG, 0, len(TOO_LONG)
                elif pieces and length:
                    yield b"".join((block[newline + 1 : after], *reversed(pieces))), 0, length
                elif length:
                    yield block, newline + 1, after
                else:
                    self.after = len(block[:newline].rstrip(b"\n"))  # empty lines, perhaps millions of them, at once
                pieces, length = [], 0
            length += self.after
            if length <= LINE_LIMIT:
                pieces.append(block[: self.after])
            else:
                pieces = []  # too long to keep: its length tells
        self.after = -1
        if self._position == 0 and 0 < length <= LINE_LIMIT:
            yield b"".join(reversed(pieces)), 0, length
        elif self._tell and (length or self._position):
            yield TOO_LONG, 0, len(TOO_LONG)


def lines_forward(file: str | Opened, limit: int, chunk: int | None = None) -> Iterator[bytes]:
    """The whole lines at the beginning of a file, at most `limit` bytes; `chunk` at a time, or little at first."""
    if isinstance(file, str):
        with Opened(file) as opened:
            yield from lines_from_start(opened.fd, limit, chunk)
    else:
        yield from lines_from_start(file.fd, limit, chunk)


def lines_from_start(fd: int, limit: int, chunk: int | None = None) -> Iterator[bytes]:
    """The same of a file that is open, wherever it was read."""
    size = chunk or FIRST_CHUNK
    pieces: list[bytes] = []
    length = position = 0
    while position < limit and (data := os.pread(fd, min(size, limit - position), position)):
        position += len(data)
        size = max(size, min(4 * size, CHUNK))
        begin = 0
        while (newline := data.find(b"\n", begin)) >= 0:  # one after the other: mostly the first ones are all
            length += newline - begin
            if 0 < length <= LINE_LIMIT:
                yield b"".join((*pieces, data[begin:newline])) if pieces else data[begin:newline]
            pieces, length, begin = [], 0, newline + 1
        length += len(data) - begin
        if length <= LINE_LIMIT:
            pieces.append(data[begin:])


def end_of_lines(path: str, limit: int) -> tuple[int, int]:
    """(inode, the offset behind the last whole line): from where lines_since() goes on. Where the last `limit` bytes
    are one line, its end, wherever that will be: it is too long to be read."""
    fd = open_regular(path)
    try:
        found = os.fstat(fd)
        position = found.st_size
        while position > 0:
            if found.st_size - position >= limit:
                return found.st_ino, found.st_size
            size = min(CHUNK, position)
            newline = os.pread(fd, size, position - size).rfind(b"\n")
            if newline >= 0:
                return found.st_ino, position - size + newline + 1
            position -= size
        return found.st_ino, 0
    finally:
        os.close(fd)


def lines_since(path: str, cursor: tuple[int, int], limit: int) -> tuple[list[bytes], tuple[int, int], bool]:
    """The whole lines that were added behind a cursor, the new cursor, and whether the file is another one now (then
    the lines are from its beginning). At most `limit` bytes a call; a line longer than that is passed over."""
    fd = open_regular(path)
    try:
        found = os.fstat(fd)
        restarted = found.st_ino != cursor[0] or found.st_size < cursor[1]
        start = 0 if restarted else cursor[1]
        data = os.pread(fd, limit, start)
        end = data.rfind(b"\n") + 1
        if end == 0 and len(data) == limit:
            return [], (found.st_ino, start + limit), restarted
        return data[:end].splitlines(), (found.st_ino, start + end), restarted
    finally:
        os.close(fd)


class Passage:
    """The whole lines of a part of a file that hold one of some words, each with its offset.

    The words are looked for in whole blocks, so that the other lines, nearly all of them, are not even taken apart.
    Of a line that is longer than LINE_LIMIT nothing is kept but whether one of the words was seen in it.
    """

    def __init__(
        self, fd: int, start: int, end: int, words: tuple[bytes, ...], tick: Callable[[], None] | None = None
    ) -> None:
        self._fd, self._end, self._words, self._tick = fd, end, words, tick
        self.offset = start  # behind the last whole line that was looked at
        self.too_long = 0  # lines with one of the words that could not be kept

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        rest, position = b"", self.offset
        dropped = missed = False  # the line that is being read was dropped; and it held one of the words
        while position < self._end and (block := os.pread(self._fd, min(BLOCK, self._end - position), position)):
            position += len(block)
            if self._tick is not None:
                self._tick()
            if dropped:
                cut = block.find(b"\n")
                missed = missed or any(word in block[: cut if cut >= 0 else None] for word in self._words)
                if cut < 0:
                    continue
                self.too_long += missed
                self.offset = position - len(block) + cut + 1
                block, dropped, missed = block[cut + 1 :], False, False
            data = rest + block if rest else block
            last = data.rfind(b"\n") + 1
            for begin, line in lines_holding(data, last, self._words):
                if len(line) <= LINE_LIMIT:
                    yield self.offset + begin, line
                else:
                    self.too_long += 1
            self.offset += last
            rest = data[last:]
            if len(rest) > LINE_LIMIT:
                missed, dropped, rest = any(word in rest for word in self._words), True, b""


def lines_holding(data: bytes, end: int, words: tuple[bytes, ...]) -> Iterator[tuple[int, bytes]]:
    """(offset, line) of the lines before `end`, which is behind a newline, that hold one of the words. In order."""
    after = 0
    hits = [-1] * len(words)  # where each of them is next; not before `after`
    while True:
        for index, hit in enumerate(hits):
            if hit < after and (hit := data.find(words[index], after, end)) < 0:
                hit = end
            hits[index] = hit
        if (first := min(hits)) == end:
            return
        begin, after = data.rfind(b"\n", after, first) + 1 or after, data.find(b"\n", first) + 1
        yield begin, data[begin : after - 1]


def real_path(path: str) -> str:
    """Of a path that somebody wrote into a file: what no file system can have (a NUL, a loop) stays as it is."""
    try:
        return real_path_by_kernel(path) or os.path.realpath(path)
    except (OSError, ValueError):
        return path


def real_path_by_kernel(path: str) -> str | None:
    """In three steps, where realpath asks for every folder on the way: of a hundred sessions that is a twentieth of a
    list. None: it is not there, or the kernel has no name for it."""
    if not hasattr(os, "O_PATH"):
        return None
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        found = os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return None
    finally:
        os.close(fd)
    return found if found.startswith("/") and not found.endswith(" (deleted)") else None


def names(folder: str) -> list[str]:
    """The names in a folder; none if it is not there. Any other failure is the caller's to report."""
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a name that no file system can have
        return []


def modified_since(folder: str, suffix: str, since: float) -> Iterator[tuple[str, os.stat_result]]:
    """The files of a folder that were written at or after `since`: their names, and how they were found."""
    try:
        entries = os.scandir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return
    with entries:
        for entry in entries:
            if entry.name.endswith(suffix):
                try:
                    found = entry.stat()
                except OSError:
                    continue
                if found.st_mtime >= since:
                    yield entry.name, found


def moment(value: object) -> float | None:
    """Seconds since 1970 from what agents write: ISO 8601 text, seconds or milliseconds."""
    seconds = -1.0
    try:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            seconds = value / 1000 if value > 1e11 else float(value)
        elif isinstance(value, str):
            seconds = utc_seconds(value)
    except (ValueError, OverflowError):
        return None
    return seconds if 0 <= seconds < LATEST_MOMENT else None  # not so for NaN and infinity, either


def utc_seconds(text: str) -> float:
    """2026-11-15T18:36:49.146Z is what all agents write: it is taken apart here, which spares every command the import
    of datetime. Everything else is datetime's."""
    if len(text) >= 20 and text[-1] == "Z" and text.isascii():
        try:
            minute, second = MINUTES[text[:16]], float(text[17:-1])
        except ValueError:
            minute, second = None, 0.0
        if minute is not None and 0 <= second < 60:
            return minute + second
    from datetime import datetime

    return datetime.fromisoformat(text).timestamp()


def start_of_minute(text: str) -> int | None:
    """Of 2026-11-15T18:36, in seconds since 1970. None: datetime's."""
    day, hour, minute = DAYS[text[:10]], int(text[11:13]), int(text[14:16])
    if day is None or text[10] != "T" or hour >= 24 or minute >= 60:
        return None
    return day + hour * 3600 + minute * 60


def start_of_day(text: str) -> int | None:
    """Of 2026-11-15."""
    year, month, day = int(text[:4]), int(text[5:7]), int(text[8:10])
    if not text[4] == text[7] == "-" or not (year >= 1970 and 1 <= month <= 12 and 1 <= day <= 28):
        return None
    # Days since 1970-01-01, counting the year from March so that the leap day is its last.
    shifted, years = (month + 9) % 12, year - (month < 3)
    days = years * 365 + years // 4 - years // 100 + years // 400 + (shifted * 153 + 2) // 5 + day - 719469
    return days * 86400


class Starts(dict[str, "int | None"]):
    """The last ones that were worked out: the lines of a transcript are seconds apart, transcripts of a day are many.
    (functools, which has such a memory, takes longer to import than all of this.)"""

    def __init__(self, start: Callable[[str], int | None]) -> None:
        super().__init__()
        self._start = start

    def __missing__(self, text: str) -> int | None:
        if len(self) >= STARTS_KEPT:
            self.clear()
        self[text] = found = self._start(text)
        return found


MINUTES, DAYS = Starts(start_of_minute), Starts(start_of_day)


def is_session_id(text: str) -> bool:
    """Could it be the name of a session? It becomes part of paths and of what people type: one that could lead out of
    its store, be taken for an option, or play tricks on a terminal is none."""
    return (
        0 < len(text) <= ID_LENGTH
        and text.isprintable()  # so that its only whitespace can be a blank
        and not text.startswith(("-", "."))
        and "/" not in text
        and "\\" not in text
        and " " not in text
    )


def amount(value: object) -> float | None:
    """Money, or what else was counted, as files hold it: not below nothing, not without an end."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if number and 0 <= value < LARGEST else None  # type: ignore[arg-type, operator]


def total(values: Iterable[object]) -> int:
    """The sum of what are counts among these."""
    return sum(int(found) for found in map(amount, values) if found is not None)


def text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def whole_number(value: object) -> int | None:
    """A count or a pid as files hold it: a number, or a string of digits. Everything else is None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if 0 <= value < 10**19 else None
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20 else None
