"""Notices new processes: compares the set of pids with the one before, and reads only the new ones.

A process is read twice, at two checks: at the first it may still be the copy of its parent, before exec. One that takes
the pid of another between two checks is not noticed here; whoever asks looks again after a while anyway.
"""

from __future__ import annotations

import os
import sys

from agentctl.kernel import one_process
from agentctl.kernel.processes import Processes
from agentctl.kernel.procfs import PROC
from agentctl.kernel.source import Source
from agentctl.kernel.stat_line import parse_row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agentctl.kernel.processes import Row
    from agentctl.model import Details, Process


class Newcomers:
    def __init__(self) -> None:
        found = pids()
        self._known: frozenset[int] = found or frozenset()
        self._young: frozenset[int] = frozenset()
        self.blind = found is None  # new processes are not noticed here

    def check(self) -> frozenset[int]:
        """Return the pids that are new since the last check, and those that were new then and are still there."""
        now = pids()
        self.blind = now is None
        if now is None:
            return frozenset()
        new = now - self._known
        found = new | (self._young & now)
        self._known, self._young = now, new
        return found


def pids() -> frozenset[int] | None:
    """Return the pids that /proc shows; None if there is no such list here."""
    if sys.platform != "linux":
        return None
    try:
        return frozenset(int(name) for name in os.listdir(PROC) if name.isdigit())
    except OSError:
        return None


def table_of(pids: Iterable[int]) -> Processes:
    """Return a process table that has only these processes. It proves nothing about any other."""
    from agentctl.kernel import linux

    try:
        boot = linux.boot_id()
    except OSError:
        return Processes("", ())
    return Processes(boot, [row for pid in sorted(pids) for row in row_of(pid)], Few())


def row_of(pid: int) -> Iterable[Row]:
    try:
        row = parse_row(one_process.read_row(f"{PROC}/{pid}/stat"))
    except (OSError, ValueError):
        return ()  # it has ended, or is not ours to read: the next look says more
    return () if row is None or row[3] in one_process.DEAD else (row,)


class Few(Source):
    """Answers for a few processes, without what only a whole table needs."""

    def details(self, process: Process) -> Details | None:
        return one_process.details(process, frozenset())

    def program(self, process: Process) -> Details:
        return one_process.program(process)

    def still(self, process: Process) -> bool:
        return one_process.still_has_its_pid(process)

    def executables(self, pids: Iterable[int]) -> Mapping[int, str | None]:
        from agentctl.kernel import linux

        return linux.executables(pids)
