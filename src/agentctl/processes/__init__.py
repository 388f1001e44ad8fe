"""Source 1: the kernel's process table, read once per query.

`snapshot()` picks the reader of this platform: /proc on Linux, psutil elsewhere. Both give the same `Processes`.
"""

from __future__ import annotations

import sys

from agentctl.model import Process, ProcessKey

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from agentctl.model import Details

    Locks = Mapping[tuple[int, int, int], tuple[int, ...]]  # (major, minor, inode) -> pids of the holders
    Row = tuple[int, int, bytes, str, int, int]  # pid, parent, name, state, terminal, start: of one that lives


class Processes:
    """One reading of the process table, with what it could not see.

    Rows are read at once, and made into a Process where they are asked for: of thousands that is a few. Details (argv,
    cwd, environment) of a process are read only when asked for, and only believed if the same process still has the pid
    afterwards.
    """

    def __init__(
        self,
        boot: str,
        rows: Iterable[Process | Row],
        *,
        taken_at: float = float("inf"),
        boot_time: float = 0.0,
        ticks_per_second: int = 100,
        hidden: str | None = None,
        read_details: Callable[[Process], Details | None] | None = None,
        read_program: Callable[[Process], Details] | None = None,
        still: Callable[[Process], bool] | None = None,
        locks: Locks | None = None,
        read_locks: Callable[[], Locks | None] | None = None,
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
        self._rows = {row.key.pid if isinstance(row, Process) else row[0]: row for row in rows}
        self.taken_at = taken_at  # wall clock before the first row was read
        self.boot_time = boot_time
        self.ticks_per_second = ticks_per_second
        self.hidden = hidden
        self._read_details = read_details
        self._read_program = read_program
        self._still = still
        self._details: dict[int, Details | None] = {}
        self._locks = locks
        self._read_locks = read_locks
        self._lock_identity = lock_identity
        self._absent = absent
        self._read_open_files = read_open_files
        self._read_positions = read_positions
        self._read_ports = read_ports
        self._read_own_start = read_own_start
        self._incomplete_for = incomplete_for
        self._forget()

    def _forget(self) -> None:
        """What was looked up in the rows: pids by parent, by start, by name."""
        self._by_parent: dict[int, list[int]] | None = None
        self._by_start: dict[int, list[int]] | None = None
        self._by_name: dict[str, list[int]] | None = None

    def count(self) -> int:
        return len(self._rows)

    @property
    def by_pid(self) -> dict[int, Process]:
        """All of them, and the dead: for the few who need that, for all are made. What is changed in it counts."""
        for pid in self._rows:
            self.row(pid)
        self._forget()
        return self._rows  # type: ignore[return-value]  # none is a mere row any more

    @by_pid.setter
    def by_pid(self, rows: dict[int, Process]) -> None:
        self._rows = dict(rows)
        self._forget()

    def row(self, pid: int) -> Process | None:
        """The process that has this pid, dead or alive."""
        found = self._rows.get(pid)
        if not (found is None or isinstance(found, Process)):
            _, parent, comm, state, tty, start = found
            key = ProcessKey(self.boot, pid, start)
            found = self._rows[pid] = Process(key, parent, comm.decode(errors="replace"), state, False, tty)
        return found

    def get(self, pid: int) -> Process | None:
        """The living process that has this pid now, whoever it is."""
        row = self.row(pid)
        return None if row is None or row.dead else row

    def alive(self, key: ProcessKey) -> Process | None:
        """The process of this key, if it lives. A recycled pid, a zombie and another boot are not it."""
        row = self.row(key.pid)
        return row if row is not None and row.key == key and not row.dead else None

    def gone(self, key: ProcessKey) -> bool:
        """Is it proved that this process does not live? Not merely: it was not seen."""
        if key.boot != self.boot or key.pid in self._rows:
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
        by_start = self._by_start
        if by_start is None:
            by_start = self._by_start = self._pids_by(lambda row: row[5], lambda process: process.key.start)
        return self._living_of(by_start.get(start, ()))

    def own_start(self, process: Process) -> int:
        """Its start as this process reads it itself, and notes it: its clock may be another one than ours."""
        return self._read_own_start(process) if self._read_own_start else process.key.start

    def living(self) -> Iterator[Process]:
        return iter(self._living_of(list(self._rows)))

    def named(self, wanted: Callable[[str], bool]) -> list[Process]:
        """The living processes whose name is wanted, by pid. Thousands of them have a few dozen names: each is asked
        about once, and of the others nothing is made."""
        by_name = self._by_name
        if by_name is None:
            by_name = {}
            for name, pids in self._pids_by(lambda row: row[2], lambda process: process.comm).items():
                text = name if isinstance(name, str) else name.decode(errors="replace")
                by_name.setdefault(text, []).extend(pids)
            self._by_name = by_name
        return self._living_of(sorted(pid for name, pids in by_name.items() if wanted(name) for pid in pids))

    def children(self, pid: int) -> list[Process]:
        by_parent = self._by_parent
        if by_parent is None:
            by_parent = self._by_parent = self._pids_by(lambda row: row[1], lambda process: process.parent)
        return self._living_of(by_parent.get(pid, ()))

    def _pids_by(self, of_row: Callable[[Row], Any], of_process: Callable[[Process], Any]) -> dict[Any, list[int]]:
        found: dict[Any, list[int]] = {}
        for pid, row in self._rows.items():
            value = of_process(row) if isinstance(row, Process) else of_row(row)
            if value in found:
                found[value].append(pid)
            else:
                found[value] = [pid]
        return found

    def _living_of(self, pids: Iterable[int]) -> list[Process]:
        return [row for pid in pids if (row := self.get(pid)) is not None]

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

    @property
    def knows_locks(self) -> bool:
        return self._lock_list() is not None

    def _lock_list(self) -> Locks | None:
        if self._locks is None and self._read_locks is not None:
            self._locks = self._read_locks()
        return self._locks

    def lock_owners(self, path: str) -> tuple[Process, ...]:
        """The living processes that hold a lock on this file, by the kernel's own list."""
        identity = self._lock_identity(path) if self._lock_identity else None
        if identity is None:
            return ()
        owners = (self.get(pid) for pid in (self._lock_list() or {}).get(identity, ()))
        return tuple(owner for owner in owners if owner is not None)


def snapshot(env_names: Iterable[str] = ()) -> Processes:
    """Read the process table of this machine. `env_names`: the only environment variables that are kept."""
    if sys.platform == "linux":
        from agentctl.processes import linux

        return linux.snapshot(frozenset(env_names))
    from agentctl.processes import portable

    return portable.snapshot(frozenset(env_names))
