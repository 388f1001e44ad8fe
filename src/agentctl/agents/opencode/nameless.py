"""The files of OpenCode's databases that live processes write to and that have no name any more.

Nobody can read what is in there, and nothing else tells that it is missing: SQLite takes a write-ahead log that is not
there for an empty one.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentctl.kernel.processes import Processes
    from agentctl.model import Process

PROGRAMS = ("opencode", ".opencode")  # how the names of its processes begin
ENDS = (".db", ".db-wal", ".db-journal")


def looks_like(comm: str) -> bool:
    return comm.startswith(PROGRAMS)


def nameless(root: str, processes: Processes) -> Iterator[tuple[Process, str]]:
    """Yield the live processes that write to such a file of the store at this real path, and what it was called."""
    for process in processes.running(looks_like):
        for path, way in processes.written_files(process) or ():
            is_here = path.startswith((f"{root}/opencode", f"{root}-")) or path == root
            if is_here and path.endswith((*ENDS, f"{root}-wal", root)) and has_no_name(way):
                yield process, path


def has_no_name(way: str) -> bool:
    """Return whether the file that this way leads to, through a descriptor of a process, was removed."""
    try:
        return os.stat(way).st_nlink == 0
    except OSError:
        return False  # it was closed meanwhile
