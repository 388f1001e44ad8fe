"""Read files that other programs write at the same time, with limits on time and memory. Knows no agent.

Nothing here writes, locks, or opens anything but a regular file: a FIFO or a device in the place of a transcript is an
error to report; we never block on it.
"""

from __future__ import annotations

import os
import stat
import time
from errno import ENOENT

from agentctl.fast import json as fast_json
from agentctl.fast.timestamps import timestamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    Span = tuple[bytes, int, int]  # a block, and where a line begins and ends in it

CHUNK = 32 * 1024
FIRST_CHUNK = 8 * 1024  # for the beginning of a file: what we look for is mostly in its first lines
BLOCK = 1024 * 1024  # for searching a whole file
LINE_LIMIT = 8 * 1024 * 1024  # a longer line is skipped: no agent writes one, and memory stays bounded
TOO_LONG = b"(too long to be read)"  # stands for a line that was skipped
ID_LENGTH = 200
NOT_IN_AN_ID = frozenset(" /\\;&|<>()$`'\"*?[]{}!#~^")  # separators of paths, and what a shell takes for its own
TORN_TRIES = 4
TORN_PAUSE = 0.004
DEEPEST = 500  # nested brackets: to show or compare a value, Python recurses, and gives up at 1000
LARGEST = 10**15  # tokens, or dollars
EARLIEST = 1577836800.0  # 2020-01-01: no agent is older
WHOLE_SECONDS = 2.0  # the coarsest times that a file system has (FAT)
LATEST_MOMENT = 253402214400.0  # 9999-12-31: the last day that every clock and time zone can show


class NotRegular(OSError):
    """The path is a FIFO, a device, a socket or a directory, not a regular file."""


class LeadsNowhere(OSError):
    """A link on the way to the path leads nowhere: what it stands for is somewhere else, not absent."""


class Torn(ValueError):
    """A JSON file that does not parse, even after several tries."""


def open_regular(path: str) -> int:
    return opened(path)[0]


def opened(path: str) -> tuple[int, int]:
    """Open a regular file; return its descriptor and its size."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except ValueError:  # a NUL or a lone surrogate: the path has an id in it that came from a file
        raise FileNotFoundError(ENOENT, "no file can have this name", path) from None
    except FileNotFoundError:
        check_absent(path)
        raise
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        os.close(fd)
        raise NotRegular(f"not a regular file: {path}")
    return fd, found.st_size


def read_bytes(path: str, limit: int = 4 * 1024 * 1024) -> bytes:
    fd, size = opened(path)
    try:
        parts = []
        size += 1  # so that the first read reaches the end of most files
        while limit > 0 and (part := os.read(fd, min(limit, size))):
            parts.append(part)
            limit -= len(part)
            if len(part) < size:
                break
        return b"".join(parts)
    finally:
        os.close(fd)


def read_json(path: str) -> dict[str, Any]:
    """Read one JSON object. Agents rewrite such files in place (write, then truncate): a shorter object may be followed
    by the tail of the longer one that it replaces, and a half-written one is complete a moment later."""
    for attempt in range(TORN_TRIES):
        if attempt:
            time.sleep(TORN_PAUSE)
        text = read_bytes(path).decode(errors="replace").lstrip()
        try:
            value, _ = fast_json.raw_decode(text)
        except ValueError:
            continue
        except RecursionError:
            break
        if isinstance(value, dict) and not is_too_deep(value, text.count("[") + text.count("{")):
            return value
        break
    raise Torn(f"not a JSON object: {path}")


def decode(line: bytes | str) -> dict[str, Any] | None:
    """Return the object in a JSONL line; None if the line is torn, no object, or nested too deeply."""
    try:
        value = fast_json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    if len(line) <= 2 * DEEPEST:
        return value  # every bracket that opens also closes: it cannot be too deep
    return None if is_too_deep(value, brackets_in(line)) else value


def is_garbled(line: bytes) -> bool:
    """Return whether a line cannot be one that an agent wrote: it holds a NUL (what a power cut leaves), or begins like
    no object. What stood there is not known."""
    return not line.startswith(b"{") or b"\0" in line


def is_cut(line: bytes) -> bool:
    """Return whether the end of a line is missing: its writer was killed, or is still at it."""
    return not line.endswith((b"}", b"}\r"))


def brackets_in(line: bytes | str) -> int:
    """Count the opening brackets."""
    if isinstance(line, str):
        return line.count("[") + line.count("{")
    # count() goes byte by byte: for 12 KB this takes 0.7 us instead of 11.
    return 2 * len(line) - len(line.replace(b"[", b"")) - len(line.replace(b"{", b""))


def is_too_deep(value: object, brackets: int) -> bool:
    """Is the value nested more than DEEPEST levels? `brackets`: how many its text has, nearly always few enough."""
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
    """An open file of lines: it is opened once to read its end and its beginning."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.fd, self.size = opened(path)

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)


def lines_backward(path: str, limit: int, end: int | None = None, *, tell: bool = False) -> Iterator[bytes]:
    """Yield the lines of a file (or of its first `end` bytes) from the last to the first; read at most `limit` bytes.

    An unfinished last line (no newline yet) is yielded as it is: decode() says whether it is whole. With `tell`, a line
    that is too long is yielded as TOO_LONG, and so is the rest of the file if the limit is reached.
    """
    with Opened(path) as file:
        for block, begin, after in Backward(file, limit, end, tell=tell):
            yield block if block is TOO_LONG else block[begin:after]


class Backward:
    """The same lines, each as a position in the block that was read: most of them are never copied.

    A caller that can skip some lines sets `after` to the end of the next line that it wants.
    """

    def __init__(self, file: Opened, limit: int, end: int | None = None, *, tell: bool = False) -> None:
        self._fd, self._limit, self._tell = file.fd, limit, tell
        self._position = file.size if end is None else end
        self.block = b""
        self.after = 0  # the end of the part of this block that was not yielded yet

    @property
    def start(self) -> int:
        """The offset in the file at which the last yielded line begins."""
        return self._position + self.after + 1

    def __iter__(self) -> Iterator[Span]:
        pieces: list[bytes] = []  # of a line that spans blocks, last piece first
        length = 0
        while self._position > 0 and self._limit > 0:
            size = min(CHUNK, self._position, self._limit)
            self._position -= size
            self._limit -= size
            block = self.block = os.pread(self._fd, size, self._position)
            if len(block) < size:
                pieces, length = [], 0  # the file has shrunk: what we read behind this is gone
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
                    self.after = len(block[:newline].rstrip(b"\n"))  # skip empty lines, perhaps millions, at once
                pieces, length = [], 0
            length += self.after
            if length <= LINE_LIMIT:
                pieces.append(block[: self.after])
            else:
                pieces = []  # too long to keep; its length says so
        self.after = -1
        if self._position == 0 and 0 < length <= LINE_LIMIT:
            yield b"".join(reversed(pieces)), 0, length
        elif self._tell and (length or self._position):
            yield TOO_LONG, 0, len(TOO_LONG)


def lines_forward(file: str | Opened, limit: int, chunk: int | None = None) -> Iterator[bytes]:
    """Yield the whole lines in the first `limit` bytes of a file. Reads `chunk` bytes at a time, or few at first."""
    if isinstance(file, str):
        with Opened(file) as opened:
            yield from lines_from_start(opened.fd, limit, chunk)
    else:
        yield from lines_from_start(file.fd, limit, chunk)


def lines_from_start(fd: int, limit: int, chunk: int | None = None) -> Iterator[bytes]:
    """The same for an open file, whatever its current position."""
    size = chunk or FIRST_CHUNK
    pieces: list[bytes] = []
    length = position = 0
    while position < limit and (data := os.pread(fd, min(size, limit - position), position)):
        position += len(data)
        size = max(size, min(4 * size, CHUNK))
        begin = 0
        while (newline := data.find(b"\n", begin)) >= 0:  # one by one: mostly only the first lines are needed
            length += newline - begin
            if 0 < length <= LINE_LIMIT:
                yield b"".join((*pieces, data[begin:newline])) if pieces else data[begin:newline]
            pieces, length, begin = [], 0, newline + 1
        length += len(data) - begin
        if length <= LINE_LIMIT:
            pieces.append(data[begin:])


def end_of_lines(path: str, limit: int) -> tuple[int, int]:
    """Return the inode and the offset behind the last whole line, from which lines_since() continues. If the last
    `limit` bytes are one unfinished line, return the end of the file: the line is too long to be read."""
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
    """Return the whole lines that were added behind a cursor, the new cursor, and whether the file was replaced (then
    the lines are from its beginning). Reads at most `limit` bytes; skips a line longer than that."""
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
    """The whole lines of a part of a file that hold one of these words, each with its offset.

    It searches whole blocks for the words, so the other lines, nearly all of them, are never split. It drops a line
    that is longer than LINE_LIMIT, and remembers only whether the line held one of the words.
    """

    def __init__(
        self, fd: int, start: int, end: int, words: tuple[bytes, ...], tick: Callable[[], None] | None = None
    ) -> None:
        self._fd, self._end, self._words, self._tick = fd, end, words, tick
        self.offset = start  # behind the last whole line that was searched
        self.too_long = 0  # lines with one of the words that were dropped
        self.garbled = False  # it has a NUL, which no line can hold: what stood there is lost

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        rest, position = b"", self.offset
        dropped = missed = False  # the current line was dropped; and it held one of the words
        while position < self._end and (block := os.pread(self._fd, min(BLOCK, self._end - position), position)):
            position += len(block)
            self.garbled = self.garbled or b"\0" in block
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
    """Yield offset and line of the lines that hold one of the words, in order. `end` must be behind a newline."""
    after = 0
    hits = [-1] * len(words)  # the next position of each word; not before `after`
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
    """Resolve a path that came from a file; return it as it is if that is impossible (a NUL, a loop of links)."""
    try:
        return real_path_by_kernel(path) or os.path.realpath(path)
    except (OSError, ValueError):
        return path


def real_path_by_kernel(path: str) -> str | None:
    """Resolve a path in three system calls; realpath needs one for every folder on the way, which for a hundred
    sessions is a twentieth of a `list`. None: the path does not exist, or the kernel has no name for it."""
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


def check_absent(path: str) -> None:
    """Raise LeadsNowhere unless a path that was not found is truly absent: all folders on the way are there, up to one
    that does not have the next name. A link that leads nowhere (to a disk that is not mounted) is not an absence."""
    while True:
        try:
            is_link = stat.S_ISLNK(os.lstat(path).st_mode)
        except (FileNotFoundError, ValueError):
            above = os.path.dirname(path)
            if above in (path, ""):
                return
            path = above
            continue
        if is_link and not os.path.exists(path):
            raise LeadsNowhere(ENOENT, f"a link that leads nowhere: {os.readlink(path)}", path)
        return


def names(folder: str) -> list[str]:
    """Return the names in a folder; none if it is absent. Raises OSError for everything else that keeps it from being
    listed: a file in its place, or a link that leads nowhere, is not an empty folder."""
    try:
        return os.listdir(folder)
    except ValueError:  # a NUL in the path: no folder has this name
        return []
    except FileNotFoundError:
        check_absent(folder)
        return []


Failed = tuple[str, OSError]  # what could not be looked at, and why


def modified_since(
    folder: str, suffix: str | tuple[str, ...], since: float, failed: list[Failed]
) -> Iterator[tuple[str, os.stat_result | None]]:
    """Yield name and stat of the files in a folder that were written at or after `since`. If a file's stat cannot be
    read, it is yielded without one, for it may be new, and added to `failed`. So is a file whose time says nothing.
    Raises OSError if the folder is there and cannot be listed."""
    try:
        entries = os.scandir(folder)
    except ValueError:
        return
    except FileNotFoundError:
        check_absent(folder)
        return
    with entries:
        for entry in entries:
            if entry.name.endswith(suffix):
                try:
                    found = entry.stat()
                except OSError as error:
                    if not isinstance(error, FileNotFoundError) or os.path.lexists(f"{folder}/{entry.name}"):
                        failed.append((entry.name, error))
                        yield entry.name, None
                    continue  # else it was removed this moment
                if may_be_since(found.st_mtime, since):
                    yield entry.name, found


def may_be_since(written: float, since: float) -> bool:
    """Return whether a file with this time may have been written at or after a moment. A time before there was any
    agent is none: what the file holds must say when it was written."""
    return written + grain_of(written) >= since or written < EARLIEST


def grain_of(written: float) -> float:
    """Return how much later than its time a file may have been written. Some file systems keep whole seconds, or even
    ones: a time without a fraction may be of one of them."""
    return WHOLE_SECONDS if written == written // 1 else 0.0


def moment(value: object) -> float | None:
    """Return a time that an agent wrote (ISO 8601, seconds, milliseconds) as seconds since 1970, or None."""
    seconds = -1.0
    try:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            seconds = value / 1000 if value > 1e11 else float(value)
        elif isinstance(value, str):
            seconds = timestamp(value)
    except (ValueError, OverflowError):
        return None
    return seconds if 0 <= seconds < LATEST_MOMENT else None  # NaN and infinity fail this test, too


def is_session_id(text: str) -> bool:
    """Can this be a session id? It becomes part of paths and of what people type, so it must not lead out of its store,
    look like an option, control a terminal, or be more than one word in the commands that messages show."""
    return (
        0 < len(text) <= ID_LENGTH
        and text.isprintable()  # so a blank is the only white space that it can have
        and not text.startswith(("-", "."))
        and NOT_IN_AN_ID.isdisjoint(text)
    )


def amount(value: object) -> float | None:
    """Return a number from a file (money, or a count); None unless it is at least 0 and less than LARGEST."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if number and 0 <= value < LARGEST else None  # type: ignore[arg-type, operator]


def total(values: Iterable[object]) -> int:
    """Return the sum of those values that are valid counts."""
    return sum(int(found) for found in map(amount, values) if found is not None)


def text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def whole_number(value: object) -> int | None:
    """Return a count or a pid from a file: a number, or a string of digits. Everything else is None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if 0 <= value < 10**19 else None
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20 else None
