"""The log of older versions of OpenCode (measured: 1.14.41): a file for each start, named after its second.

    INFO  2026-11-18T04:14:57 +1ms service=project directory=/home/me/work fromDirectory
    INFO  2026-11-18T04:15:00 +0ms service=session.prompt session.id=ses_2b step=0 loop

Its lines do not say which run wrote them. Two processes that start in one second share a file, but each begins with a
line of its own: so a file with one such line is of one process, which has it open. A screen has a second file, without
that line, for the part of it that works. A command or a title may contain a line break, and so look like a line: what
is read here is only a hint. A server is asked itself about the directories that it has open, and of the sessions that a
screen can be on the named one is taken, inferred.
"""

from __future__ import annotations

import os

from agentctl.agents.opencode.log_line import session_behind
from agentctl.files.bounded import open_regular
from agentctl.model import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agentctl.model import ProcessKey

LIMIT = 2 * 1024 * 1024  # from its beginning, and from its end
LEVELS = (b"DEBUG ", b"INFO  ", b"WARN  ", b"ERROR ")
STARTED = b" process_role=main run_id="
OPENED, OPENS = b" service=project directory=", b" fromDirectory"
WORKS = b" service=session.prompt session.id="


class Hints(Value):
    folders: frozenset[str]  # the directories that it has opened
    sessions: tuple[str, ...]  # those that it has worked on; the one named last comes last


NONE = Hints(frozenset(), ())


def is_older(path: str) -> bool:
    """Return whether this is the path of such a log."""
    folder, name = os.path.split(path)
    stem, suffix = os.path.splitext(name)
    digits = stem.replace("-", "").replace("T", "")
    return os.path.basename(folder) == "log" and suffix == ".log" and len(digits) == 14 and digits.isdigit()


def own_logs(key: ProcessKey, open_files: Mapping[ProcessKey, Iterable[str]]) -> list[str]:
    """Return the logs that a process has open, and no other one. `open_files`: of all processes of a store."""
    shared = {path for other, files in open_files.items() if other != key for path in files}
    return sorted({path for path in open_files.get(key, ()) if is_older(path)} - shared)


def read_hints(paths: Iterable[str]) -> Hints:
    """Return what the one writer of these logs says. Raises OSError."""
    folders: set[str] = set()
    sessions: list[str] = []
    for path in paths:
        fd = open_regular(path)
        try:
            size = os.fstat(fd).st_size
            data = os.pread(fd, LIMIT, 0)
            data += os.pread(fd, LIMIT, max(LIMIT, size - LIMIT)) if size > LIMIT else b""
        finally:
            os.close(fd)
        lines = [line for line in data.split(b"\n") if line.startswith(LEVELS)]
        starts = sum(STARTED in line for line in lines)
        if starts == 1:
            folders.update(folder for line in lines if (folder := opened_in(line)) is not None)
        if starts < 2:
            sessions += [id for line in lines if (id := worked_on_in(line)) is not None]
    return Hints(frozenset(folders), tuple(reversed(dict.fromkeys(reversed(sessions)))))


def opened_in(line: bytes) -> str | None:
    """Return the directory that the writer of this line has open from now on."""
    _, begins, rest = line.partition(b"ms" + OPENED)
    known = begins and rest.startswith(b"/") and rest.endswith(OPENS)
    return rest.removesuffix(OPENS).decode(errors="surrogateescape") if known else None


def worked_on_in(line: bytes) -> str | None:
    """Return the session that the writer of this line works on."""
    _, begins, rest = line.partition(b"ms" + WORKS)
    return session_behind(rest, b"").decode() or None if begins else None
