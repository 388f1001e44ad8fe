"""OpenCode's log: which lines in it are whose, and which sessions they name.

All processes of a home append to one file. Each line has the run id of its writer and none has a pid. But every writer
has the file open for appending, and the kernel keeps for each opening how far it has written: the line that ends there
is the writer's own. So the kernel proves which run a process is, and the lines of that run say which sessions it works
on (measured with 1.18.33; older versions have a file per start, which two processes of one second share: not used).

Lines are written in batches, up to a second late (more while the process is busy): what is not in the log yet proves
nothing. What is in it stays: an open turn that another run has logged is not this one's.
"""

from __future__ import annotations

import os
import re

from agentctl.model import Value
from agentctl.stores import moment, open_regular

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agentctl.model import Process
    from agentctl.processes import Processes

NAME = "opencode.log"
LIMIT = 2 * 1024 * 1024  # back from a process's last line
LINE_LIMIT = 64 * 1024
LATE = 60.0  # seconds by which the lines of two processes may be out of order: each writes its own in batches

# Anchored, and only up to the first words: further on a line quotes commands and titles, in which anything may stand.
LINE = re.compile(rb"timestamp=(\S+) level=([A-Z]+) run=([0-9a-f]+) message=")
SESSION = re.compile(
    rb'(?:loop|process|cancel|stream|"exiting loop"|"stream error")(?: providerID=\S+ modelID=\S+)?'
    rb" session\.id=(ses_\w+)"
)
SESSION_ID = re.compile(r"ses_\w+", re.ASCII)  # no other is in a log
CREATED = re.compile(rb"created id=(ses_\w+) ")
ASKING = re.compile(rb"asking id=(?:per|que)_")
ALLOWED = re.compile(
    rb'evaluated permission=\S+ pattern=(?:"(?:[^"\\]|\\.)*"|[^\s"]\S*|) action\.permission=\S+ action\.action=allow '
)
STREAM_ERROR = re.compile(rb'"stream error" .* error\.error="([^"]*)')
INSTANCE = re.compile(rb'"creating instance" directory=(\S.*)')


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


def read_trail(process: Process, path: str, processes: Processes) -> Trail | None:
    """The lines of this process in the log at this path; None if it cannot be told which are its own.

    Raises OSError where the log is there and cannot be read."""
    ends = [position for position in processes.positions(process, path) if position > 0]
    if not ends:
        return None
    fd = open_regular(path)
    try:
        runs = {run_that_ends_at(fd, end) for end in ends}
        start = max(0, max(ends) - LIMIT)
        data = os.pread(fd, max(ends) - start, start) if len(runs) == 1 else b""
    finally:
        os.close(fd)
    run = runs.pop()
    if run is None or not data:
        return None
    started = processes.started_at(process.key)
    return read_lines(path, run, data, whole=start == 0, started=started)


class Tail:
    """The newest lines of a log, of all runs."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._data: bytes | None = None

    def runs_since(self, id: str, since: float) -> set[str]:
        """The runs that say, at or after this moment, that they work on this session."""
        data = self._read()
        runs: set[str] = set()
        end = len(data)
        name = id.encode(errors="surrogateescape") if SESSION_ID.fullmatch(id) else None
        while name and (found := data.rfind(name, 0, end)) >= 0:
            start = data.rfind(b"\n", 0, found) + 1
            line = data[start : data.find(b"\n", found)]
            end = start
            head = LINE.match(line)
            at = time_of(head) if head else None
            if head is None or at is None:
                continue
            if at < since - LATE:
                break
            named = SESSION.match(line, head.end()) or CREATED.match(line, head.end())
            if named is not None and named[1].decode() == id and at >= since:
                runs.add(head[3].decode())
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
    """The run of the line that ends at this place; None if no line ends here: the file was cut or written over."""
    start = max(0, end - LINE_LIMIT)
    data = os.pread(fd, end - start, start)
    if len(data) != end - start or not data.endswith(b"\n"):
        return None
    # A line with a line break in a value goes on below: what counts is the last beginning of a line.
    heads = [head for line in data.split(b"\n") if (head := LINE.match(line))]
    return heads[-1][3].decode() if heads else None


def read_lines(path: str, run: str, data: bytes, *, whole: bool, started: float) -> Trail | None:
    sessions: dict[str, float] = {}
    created: set[str] = set()
    asked: list[float] = []
    allowed: list[float] = []
    failed: dict[str, tuple[float, str]] = {}
    directories: set[str] = set()
    chatty = False
    tag = b" run=" + run.encode() + b" "
    lines = data.split(b"\n")
    if not whole and len(lines) > 1:
        first = next((head for line in lines[1:64] if (head := LINE.match(line))), None)
        begun = time_of(first) if first else None
        whole = begun is not None and begun < started  # it reaches back to before the process was there
    for line in lines:
        head = LINE.match(line) if tag in line else None
        if head is None or head[3] != run.encode():
            continue
        at = time_of(head)
        if at is None:
            continue
        chatty = chatty or head[2] in (b"INFO", b"DEBUG")
        rest = head.end()
        if named := SESSION.match(line, rest):
            id = named[1].decode()
            sessions.pop(id, None)
            sessions[id] = at
            if error := STREAM_ERROR.match(line, rest):
                failed[id] = (at, error[1].decode(errors="replace"))
        elif named := CREATED.match(line, rest):
            sessions.setdefault(named[1].decode(), at)
            created.add(named[1].decode())
        elif ASKING.match(line, rest):
            asked.append(at)
        elif ALLOWED.match(line, rest):
            allowed.append(at)
        elif opened := INSTANCE.match(line, rest):
            directories.add(opened[1].decode(errors="surrogateescape").strip('"'))
    if not chatty:
        return None  # it logs errors only: what it does not say means nothing
    return Trail(
        path,
        run,
        whole,
        sessions,
        frozenset(created),
        tuple(asked),
        tuple(allowed),
        failed,
        frozenset(directories),
    )


def time_of(head: re.Match[bytes]) -> float | None:
    """When a line was made. In whole milliseconds: half of one more, so that it is not before what it tells of."""
    at = moment(head[1].decode(errors="replace"))
    return None if at is None else at + 0.0005
