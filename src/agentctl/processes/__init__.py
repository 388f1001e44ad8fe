"""Source 1: the kernel's process table, read once per query.

`snapshot()` picks the reader of this platform: /proc on Linux, psutil elsewhere. Both give the same `Processes`.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from agentctl.model import Details, Process, ProcessKey


class Processes:
    """One reading of the process table, with what it could not see.

    Rows are read at once; details (argv, cwd, environment) of a process only when asked for, and only believed
    if the same process still has the pid afterwards.
    """

    def __init__(
        self,
        boot: str,
        rows: Iterable[Process],
        *,
        taken_at: float = float("inf"),
        boot_time: float = 0.0,
        ticks_per_second: int = 100,
        hidden: str | None = None,
        read_details: Callable[[Process], Details | None] | None = None,
        read_program: Callable[[Process], Details] | None = None,
        still: Callable[[Process], bool] | None = None,
        locks: Mapping[tuple[int, int, int], tuple[int, ...]] | None = None,
        lock_identity: Callable[[str], tuple[int, int, int] | None] | None = None,
        absent: Callable[[int], bool] | None = None,
        read_open_files: Callable[[Process], list[str]] | None = None,
        read_positions: Callable[[Process, str], list[int]] | None = None,
        read_ports: Callable[[Process], list[int]] | None = None,
        read_own_start: Callable[[Process], int] | None = None,
        incomplete_for: Callable[[str], str | None] | None = None,
        env_names: frozenset[str] = frozenset(),
    ) -> None:
        self.boot = boot
        self.env_names = env_names  # what details(...).env can hold at all
        self.by_pid: dict[int, Process] = {row.key.pid: row for row in rows}
        self.taken_at = taken_at  # wall clock before the first row was read
        self.boot_time = boot_time
        self.ticks_per_second = ticks_per_second
        self.hidden = hidden
        self._read_details = read_details
        self._read_program = read_program
        self._still = still
        self._details: dict[int, Details | None] = {}
        self.knows_locks = locks is not None
        self._locks = locks or {}
        self._lock_identity = lock_identity
        self._absent = absent
        self._read_open_files = read_open_files
        self._read_positions = read_positions
        self._read_ports = read_ports
        self._read_own_start = read_own_start
        self._incomplete_for = incomplete_for
        self._children: dict[int, list[Process]] | None = None
        self._by_start: dict[int, list[Process]] | None = None

    def get(self, pid: int) -> Process | None:
        """The living process that has this pid now, whoever it is."""
        row = self.by_pid.get(pid)
        return None if row is None or row.dead else row

    def alive(self, key: ProcessKey) -> Process | None:
        """The process of this key, if it lives. A recycled pid, a zombie and another boot are not it."""
        row = self.by_pid.get(key.pid)
        return row if row is not None and row.key == key and not row.dead else None

    def gone(self, key: ProcessKey) -> bool:
        """Is it proved that this process does not live? Not merely: it was not seen."""
        if key.boot != self.boot or key.pid in self.by_pid:
            return self.alive(key) is None
        if self.hidden is None:
            return True
        return self._absent is not None and self._absent(key.pid)

    def find(self, pid: int, start: int | None) -> Process | None:
        """The living process that calls itself `pid`, in this or an inner PID namespace, with this start time."""
        row = self.get(pid)
        if row is not None and (start is None or row.key.start == start or self.own_start(row) == start):
            return row
        for row in self._started(start) if start is not None else ():
            details = self.details(row)
            if details is not None and pid in details.pids:
                return row
        return None

    def _started(self, start: int) -> list[Process]:
        """The living processes that started in this tick: every kept launch asks, so the table is walked once."""
        if self._by_start is None:
            self._by_start = {}
            for row in self.living():
                self._by_start.setdefault(row.key.start, []).append(row)
        return self._by_start.get(start, [])

    def own_start(self, process: Process) -> int:
        """Its start as this process reads it itself, and notes it: its clock may be another one than ours."""
        return self._read_own_start(process) if self._read_own_start else process.key.start

    def living(self) -> Iterator[Process]:
        return (row for row in self.by_pid.values() if not row.dead)

    def children(self, pid: int) -> list[Process]:
        if self._children is None:
            self._children = {}
            for row in self.living():
                self._children.setdefault(row.parent, []).append(row)
        return self._children.get(pid, [])

    def descendants(self, pid: int) -> list[Process]:
        found: list[Process] = []
        seen = {pid}
        front = [pid]
        while front:
            for child in self.children(front.pop()):
                if child.pid not in seen:
                    seen.add(child.pid)
                    found.append(child)
                    front.append(child.pid)
        return found

    def details(self, process: Process) -> Details | None:
        """argv, cwd, environment of a process; None if it ended or was replaced meanwhile."""
        pid = process.key.pid
        if pid not in self._details:
            self._details[pid] = self._read_details(process) if self._read_details else None
        return self._details[pid]

    def program(self, process: Process) -> Details | None:
        """What it runs: argv and exe alone. Of this process only if `still` says so afterwards; None = details() has to
        be asked."""
        known = process.key.pid in self._details
        return self._read_program(process) if self._read_program and not known else None

    def still(self, process: Process) -> bool:
        """Does the same process still have its pid?"""
        return self._still is not None and self._still(process)

    def open_files(self, process: Process) -> list[str]:
        """The paths this process has open; none if that cannot be read."""
        return self._read_open_files(process) if self._read_open_files else []

    def positions(self, process: Process, path: str) -> list[int]:
        """Where this process stands in a file, once for each time it has it open; none if that cannot be read.

        In a file that is opened for appending, the kernel moves a writer to the end of what it wrote, and moves nobody
        else: the bytes before this position were written by this very process.
        """
        return self._read_positions(process, path) if self._read_positions else []

    def ports(self, process: Process) -> list[int]:
        """The TCP ports of 127.0.0.1 that this process itself listens on, as we can reach them; read anew each time."""
        return self._read_ports(process) if self._read_ports else []

    def incomplete_for(self, root: str) -> str | None:
        """Why a process that works in this folder may be missing from the table; None = it would be here."""
        return self.hidden or (self._incomplete_for(root) if self._incomplete_for else None)

    def started_at(self, key: ProcessKey) -> float:
        """Wall-clock start, for people and for time inference only: it moves when the clock is set."""
        return self.boot_time + key.start / self.ticks_per_second

    def lock_owners(self, path: str) -> tuple[Process, ...]:
        """The living processes that hold a lock on this file, by the kernel's own list."""
        identity = self._lock_identity(path) if self._lock_identity else None
        if identity is None:
            return ()
        owners = (self.get(pid) for pid in self._locks.get(identity, ()))
        return tuple(owner for owner in owners if owner is not None)


def snapshot(env_names: Iterable[str] = ()) -> Processes:
    """Read the process table of this machine. `env_names`: the only environment variables that are kept."""
    if sys.platform == "linux":
        from agentctl.processes import linux

        return linux.snapshot(frozenset(env_names))
    from agentctl.processes import portable

    return portable.snapshot(frozenset(env_names))
