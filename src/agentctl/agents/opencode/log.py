"""OpenCode's log: which lines in it are whose, and which sessions they name.

All processes of a home append to one file. Each line has the run id of its writer and none has a pid. But every writer
has the file open for appending, and the kernel keeps for each opening how far it has written: the line that ends there
is the writer's own. So the kernel proves which run a process is, and the lines of that run say which sessions it works
on (measured with 1.18.33; older versions have a file per start, which two processes of one second share: not used).
That holds only while the log is not emptied: a process keeps its place, and the lines of another one, which are of the
same lengths, may come to end there.

Lines are written in batches, up to a second late (more while the process is busy): what is not in the log yet proves
nothing. What is in it stays: an open turn that another run has logged is not this one's.
"""

from __future__ import annotations

import os

from agentctl.agents.opencode.log_line import (
    ASKS,
    created,
    is_allowed,
    is_session,
    opened_folder,
    read_line,
    stream_error,
    worked_on,
)
from agentctl.files.bounded import open_regular
from agentctl.model import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentctl.kernel.processes import Processes
    from agentctl.model import Process

NAME = "opencode.log"
LIMIT = 2 * 1024 * 1024  # back from a process's last line
LINE_LIMIT = 64 * 1024
MADE = 2.0  # seconds after which a log that was just made has its first line
BEGINS = 3.0  # seconds after its start in which a process writes its first line
CLOCK = 0.02  # by which a start that is counted in ticks may be too late
LATE = 60.0  # seconds by which the lines of two processes may be out of order: each writes its own in batches


class Trail(Value):
    """What one process has logged."""

    path: str
    run: str
    whole: bool  # from its very first line on
    sessions: dict[str, float]  # id -> when it was named last; the one named last comes last
    created: frozenset[str]  # those that it began itself
    asked: tuple[float, ...]  # when it asked a person for something
    allowed: tuple[float, ...]  # when a call was allowed without asking
    failed: dict[str, tuple[float, str]]  # id -> when a model call failed last, and how
    directories: frozenset[str]  # those it has opened, and answers for without opening anything

    def was_asked(self, since: float) -> bool | None:
        """Return whether a person was asked before a call that began then; None if the log does not say."""
        if any(at >= since for at in self.asked):
            return True
        return False if any(at >= since for at in self.allowed) else None


def read_trail(process: Process, path: str, processes: Processes) -> Trail | None:
    """Return what this process wrote to the log at this path; None if nothing proves which lines are its own.

    Raises OSError if the log is there and cannot be read."""
    ends = [position for position in processes.positions(process, path) if position > 0]
    if not ends:
        return None
    fd = open_regular(path)
    try:
        runs = {run_that_ends_at(fd, end) for end in ends}
        run = runs.pop() if len(runs) == 1 else None
        if run is None:
            return None
        start = max(0, max(ends) - LIMIT)
        data = os.pread(fd, max(ends) - start, start)
        started = processes.started_at(process.key)
        if not is_never_emptied(fd, started) and not begins_with_process(run, data, started):
            return None
    finally:
        os.close(fd)
    return read_lines(path, run, data, whole=start == 0, started=started)


class Tail:
    """The newest lines of a log, of all runs."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._data: bytes | None = None

    def runs_since(self, id: str, since: float) -> set[str]:
        """Return the runs that say, at or after this moment, that they work on this session."""
        data = self._read()
        runs: set[str] = set()
        end = len(data)
        name = id.encode() if is_session(id) else None
        while name and (found := data.rfind(name, 0, end)) >= 0:
            start = data.rfind(b"\n", 0, found) + 1
            line = read_line(data[start : data.find(b"\n", found)])
            end = start
            if line is None or line.at is None:
                continue
            if line.at < since - LATE:
                break
            if (worked_on(line.message) or created(line.message)) == id and line.at >= since:
                runs.add(line.run.decode())
        return runs

    def _read(self) -> bytes:
        if self._data is None:
            try:
                fd = open_regular(self.path)
            except OSError:
                return b""
            try:
                start = max(0, os.fstat(fd).st_size - LIMIT)
                self._data = os.pread(fd, LIMIT, start)
            finally:
                os.close(fd)
        return self._data


def run_that_ends_at(fd: int, end: int) -> str | None:
    """Return the run of the line that ends at this place; None if no line ends here (the file was truncated or
    overwritten), or if it cannot be told: an entry of another run before it spans lines, and may quote lines of the
    log."""
    if end > os.fstat(fd).st_size:
        return None
    start = max(0, end - LINE_LIMIT)
    data = os.pread(fd, end - start, start)
    if len(data) != end - start or not data.endswith(b"\n"):
        return None
    last: bytes | None = None
    spanning: set[bytes] = set()
    for text in data.split(b"\n")[1 if start else 0 : -1]:
        line = read_line(text)
        last = last if line is None else line.run
        if last is not None and (line is None or is_cut(text)):
            spanning.add(last)
    return last.decode() if last is not None and spanning <= {last} else None


def is_cut(text: bytes) -> bool:
    """Return whether a line ends inside a text in quotes: then the entry goes on in the next line."""
    return text.replace(b"\\\\", b"").replace(b'\\"', b"").count(b'"') % 2 == 1


def is_never_emptied(fd: int, started: float) -> bool:
    """Return whether this log is proved to be as its writers left it since this moment: its first line is older, or as
    old as the file."""
    first = first_in(os.pread(fd, LINE_LIMIT, 0).split(b"\n"))
    if first is None or first < started:
        return first is not None
    from agentctl.kernel.birth import born

    made = born(fd)
    return made is not None and abs(first - made / 1e9) <= MADE


def begins_with_process(run: str, data: bytes, started: float) -> bool:
    """Return whether the first line of a run was written when this process started. Another one may have started at the
    same moment: see Store._read_trails."""
    first = next((at for at, _, _ in lines_of(run.encode(), data.split(b"\n"))), None)
    return first is not None and started - CLOCK <= first <= started + BEGINS


def first_in(texts: list[bytes]) -> float | None:
    """Return when the first of these lines was written; None if none of them says."""
    return next((line.at for text in texts if (line := read_line(text)) and line.at is not None), None)


def read_lines(path: str, run: str, data: bytes, *, whole: bool, started: float) -> Trail | None:
    """Return what a run has logged in these lines; None if it logs errors only: what it does not say means nothing."""
    sessions: dict[str, float] = {}
    begun: set[str] = set()
    asked: list[float] = []
    allowed: list[float] = []
    failed: dict[str, tuple[float, str]] = {}
    directories: set[str] = set()
    is_chatty = False
    texts = data.split(b"\n")
    for at, level, message in lines_of(run.encode(), texts):
        is_chatty = is_chatty or level in (b"INFO", b"DEBUG")
        if id := worked_on(message):
            sessions.pop(id, None)
            sessions[id] = at
            if (error := stream_error(message)) is not None:
                failed[id] = (at, error)
        elif id := created(message):
            sessions.setdefault(id, at)
            begun.add(id)
        elif message.startswith(ASKS):
            asked.append(at)
        elif is_allowed(message):
            allowed.append(at)
        elif (folder := opened_folder(message)) is not None:
            directories.add(folder)
    if not is_chatty:
        return None
    return Trail(
        path,
        run,
        whole or reaches_back(texts, started),
        sessions,
        frozenset(begun),
        tuple(asked),
        tuple(allowed),
        failed,
        frozenset(directories),
    )


def lines_of(run: bytes, texts: list[bytes]) -> Iterator[tuple[float, bytes, bytes]]:
    """Yield when, at which level and what this run has logged."""
    tag = b" run=" + run + b" "
    for text in texts:
        line = read_line(text) if tag in text else None
        if line is not None and line.run == run and line.at is not None:
            yield line.at, line.level, line.message


def reaches_back(texts: list[bytes], started: float) -> bool:
    """Return whether these lines begin before this moment. The first of them may be cut off."""
    first = first_in(texts[1:64])
    return first is not None and first < started
