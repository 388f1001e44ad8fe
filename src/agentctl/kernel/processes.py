"""Source 1: the kernel's process table, read once per query.

`snapshot()` picks the reader of this platform: /proc on Linux, psutil elsewhere. Both give the same `Processes`.
"""

from __future__ import annotations

import sys

from agentctl.kernel.procfs import mounts_of
from agentctl.kernel.programs import ORDINARY, is_loader
from agentctl.kernel.recorded import UNNAMED
from agentctl.kernel.source import Source
from agentctl.model import Process, ProcessKey

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from agentctl.kernel.held import Held
    from agentctl.kernel.keyboard import Unheard
    from agentctl.kernel.places import Place
    from agentctl.kernel.source import Locks
    from agentctl.model import Details

    Row = tuple[int, int, bytes, str, int, int]  # pid, parent, name, state, terminal, start: of one that lives


class Processes:
    """One reading of the process table, and why it may be incomplete.

    All rows are read at once. A row becomes a Process when somebody asks for it: a few of thousands. Details (argv,
    cwd, environment) of a process are read only on request, and believed only if the same process still has the pid
    afterwards.
    """

    def __init__(
        self,
        boot: str,
        rows: Iterable[Process | Row],
        source: Source | None = None,
        *,
        taken_at: float = float("inf"),
        boot_time: float = 0.0,
        ticks_per_second: int = 100,
        hidden: str | None = None,
        blind: str | None = None,
        outermost: bool = False,
        env_names: frozenset[str] = frozenset(),
    ) -> None:
        self.boot = boot  # empty if it could not be read
        self.env_names = env_names  # what details(...).env can hold at all
        self._rows = {row.key.pid if isinstance(row, Process) else row[0]: row for row in rows}
        self._source = source or Source()
        self.taken_at = taken_at  # wall clock before the first row was read
        self.boot_time = boot_time
        self.ticks_per_second = ticks_per_second
        self.hidden = hidden or blind  # why some processes may not be in the table
        self.blind = blind  # why it shows none at all: nothing may be proved, signalled or started
        self._outermost = outermost  # in the outermost PID namespace, which shows the processes of all others
        self._inner: list[tuple[Process, int]] | None = None
        self._inner_unread = False
        self._shifted: list[tuple[Process, int]] | None = None
        self._details: dict[int, Details | None] = {}
        self._executables: Mapping[int, str | None] | None = None
        self._kinds: dict[int, str | None] = {}
        self._mounts: dict[int, str | None] = {}
        self._own_mounts: str | None = None
        self._closed: str | None = None  # empty: there is none
        self._written: dict[int, list[tuple[str, str]] | None] = {}
        self._held: dict[int, Held | None] = {}
        self._locks: Locks | None = None
        self._locks_read = False
        self._proved: dict[str, list[tuple[Process, bool | None]]] = {}
        self._forget()

    def _forget(self) -> None:
        """Drop the indexes of the rows: pids by parent, by start, by name."""
        self._by_parent: dict[int, list[int]] | None = None
        self._by_start: dict[int, list[int]] | None = None
        self._by_name: dict[str, list[int]] | None = None

    def count(self) -> int:
        return len(self._rows)

    @property
    def by_pid(self) -> dict[int, Process]:
        """Return all processes, dead ones included. This makes every row a Process. Changes to the result count."""
        for pid in self._rows:
            self.row(pid)
        self._forget()
        return self._rows  # type: ignore[return-value]  # every row is a Process now

    @by_pid.setter
    def by_pid(self, rows: dict[int, Process]) -> None:
        self._rows = dict(rows)
        self._forget()

    def row(self, pid: int) -> Process | None:
        """Return the process that has this pid, dead or alive."""
        row = self._rows.get(pid)
        if not (row is None or isinstance(row, Process)):
            _, parent, comm, state, tty, start = row
            key = ProcessKey(self.boot, pid, start)
            row = self._rows[pid] = Process(key, parent, comm.decode(errors="replace"), state, False, tty)
        return row

    def get(self, pid: int) -> Process | None:
        """Return the living process that has this pid now, whichever it is."""
        row = self.row(pid)
        return None if row is None or row.dead else row

    def alive(self, key: ProcessKey) -> Process | None:
        """Return the process of this key, if it lives. A recycled pid, a zombie or another boot does not match."""
        row = self.row(key.pid)
        return row if row is not None and row.key == key and not row.dead else None

    def gone(self, key: ProcessKey) -> bool:
        """Return whether it is proved that this process has ended. That it was not seen is no proof."""
        if not self.boot:
            return False  # which boot this is could not be read
        if key.namespace is not None:
            return self._gone_elsewhere(key, key.namespace)
        if key.boot != self.boot:
            return True  # see recorded.py: one that may be of a container names another namespace
        if key.pid in self._rows or self.hidden is None:
            return self.alive(key) is None and self.find(key.pid, key.start) is None
        return self._source.absent(key.pid)

    def _gone_elsewhere(self, key: ProcessKey, namespace: str) -> bool:
        """Return whether it is proved that a process of another PID namespace has ended: we see all processes of that
        namespace, and this is none of them. We see them in the outermost namespace, and if one process of that
        namespace is in our table. If its number has been given to a new namespace since, the old one has ended, with
        all its processes."""
        inner = self._inside()
        if self.hidden or self._inner_unread or self.own(key) != key:
            return False
        if any(self._may_be(row, pid, key) for row, pid in inner):
            return False
        return self._outermost or any(self._source.pid_namespace(row) == namespace for row, _ in inner)

    def pid_namespace(self, process: Process) -> str | None:
        """Return the PID namespace that it is in; None if that cannot be read."""
        return self._source.pid_namespace(process)

    def inner_pids(self, process: Process) -> tuple[int, ...] | None:
        """Return its pids in the PID namespaces below ours, the innermost last; None if that cannot be read."""
        return self._source.inner_pids(process)

    def _inside(self) -> list[tuple[Process, int]]:
        """Return the living processes of the PID namespaces below ours, each with its pid there. Only keys that were
        recorded in another namespace need it: it asks the kernel about every process, once."""
        if self._inner is None:
            self._inner = []
            for row in self.living():
                pids = self._source.inner_pids(row)
                self._inner_unread = self._inner_unread or pids is None
                self._inner += [(row, pids[-1])] if pids else []
        return self._inner

    def _may_be(self, row: Process, pid: int, key: ProcessKey) -> bool:
        """Return whether this process, which is `pid` in its own PID namespace, has this key there, or may have it."""
        if pid != key.pid or key.start not in (row.key.start, self.own_start(row)):
            return False
        return key.namespace == UNNAMED or self._source.pid_namespace(row) in (None, key.namespace)

    def own(self, key: ProcessKey) -> ProcessKey:
        """Return the key that a recorded process has in this table: another one if it was recorded in a PID namespace
        below ours, or in another time namespace. Return the key itself if the process is not here."""
        row = self._seen_as(key)
        return key if row is None else row.key

    def _seen_as(self, key: ProcessKey) -> Process | None:
        """Return the living process of a recorded key. All that is recorded of a process is looked up here."""
        if key.namespace is None:
            return self.find(key.pid, key.start) if key.boot == self.boot else None
        if key.namespace == UNNAMED and (row := self.find(key.pid, key.start)) is not None:
            return row
        rows = [row for row, pid in self._inside() if self._may_be(row, pid, key)]
        named = [row for row in rows if key.namespace in (UNNAMED, self._source.pid_namespace(row))]
        return named[0] if named else None

    def find(self, pid: int, start: int | None) -> Process | None:
        """Return the living process that calls itself `pid`, in this or an inner PID namespace, with this start by its
        own clock. If two do, by chance, a program of the system is not the one that is meant."""
        row = self.get(pid)
        if row is not None and start is not None and start not in (row.key.start, self.own_start(row)):
            row = None
        if start is None or (row is not None and self.kind(pid) != ORDINARY):
            return row
        return next(self._inner_of(pid, start), row)

    def _inner_of(self, pid: int, start: int) -> Iterator[Process]:
        """Yield the living processes that are `pid` in an inner PID namespace, with this start by their own clock."""
        for row in self._started(start):
            details = self.details(row) if row.pid != pid else None
            if details is not None and pid in details.pids:
                yield row
        for row, own_start in self._in_other_clocks():
            if own_start == start and pid in (self._source.inner_pids(row) or ()):
                yield row

    def _in_other_clocks(self) -> list[tuple[Process, int]]:
        """Return the living processes that read another start of themselves than we do, each with that start: they are
        in another time namespace. Programs of the system are no agents, and are left out."""
        if self._shifted is None:
            rows = [row for pid in self.executables() if self.kind(pid) != ORDINARY and (row := self.get(pid))]
            self._shifted = [(row, own) for row in rows if (own := self.own_start(row)) != row.key.start]
        return self._shifted

    def may_find(self, pid: int, start: int) -> bool:
        """Return whether `find` is worth it for this pid and start. Of hundreds of stored launches hardly one is."""
        return pid in self._rows or start in self._pids_by_start() or bool(self._in_other_clocks())

    def _started(self, start: int) -> list[Process]:
        """Return the living processes that started in this tick."""
        return self._living_of(self._pids_by_start().get(start, ()))

    def _pids_by_start(self) -> dict[int, list[int]]:
        if self._by_start is None:
            self._by_start = self._pids_by(lambda row: row[5], lambda process: process.key.start)
        return self._by_start

    def own_start(self, process: Process) -> int:
        """Return its start as this process reads it itself, and notes it: its clock may be another one than ours."""
        return self._source.own_start(process)

    def living(self) -> Iterator[Process]:
        return iter(self._living_of(list(self._rows)))

    def named(self, wanted: Callable[[str], bool]) -> list[Process]:
        """Return the living processes whose name is wanted, by pid. Thousands of processes have a few dozen names:
        `wanted` is called once for each name, and the other rows stay rows."""
        by_name = self._by_name
        if by_name is None:
            by_name = {}
            for name, pids in self._pids_by(lambda row: row[2], lambda process: process.comm).items():
                text = name if isinstance(name, str) else name.decode(errors="replace")
                by_name.setdefault(text, []).extend(pids)
            self._by_name = by_name
        return self._living_of(sorted(pid for name, pids in by_name.items() if wanted(name) for pid in pids))

    def executables(self) -> Mapping[int, str | None]:
        """Return the executable of every living process by its pid; None if we may not know it. One link is read for
        each process, once for each table."""
        if self._executables is None:
            pids = [pid for pid, row in self._rows.items() if not (isinstance(row, Process) and row.dead)]
            self._executables = self._source.executables(pids)
        return self._executables

    def owner(self, process: Process) -> int | None:
        """Return the user whose files a process can change; None if that cannot be read."""
        return self._source.owner(process.pid)

    def is_unexecuted(self, process: Process) -> bool:
        """Return whether a process was forked and has executed no program since: it has the program, the arguments and
        the open files of the process that it was forked from."""
        return self._source.is_unexecuted(process.pid)

    def closed(self) -> str | None:
        """Return why we may not look into processes of our own user that did not close themselves; None if there is
        none. Under whatever name, an agent may be one of them."""
        if self._closed is None:
            denied = [pid for pid, exe in self.executables().items() if exe is None]
            self._closed = self._source.why_closed(denied) or "" if denied else ""
        return self._closed or None

    def names_of(self, process: Process) -> tuple[str, ...]:
        """Return what a process is called: its own name, which it may change, and that of its executable."""
        exe = self.executables().get(process.pid)
        if exe is None:
            return (process.comm,)
        if is_loader(exe) and (runs := self.details(process)) is not None:
            exe = runs.exe or exe
        return (process.comm, exe.rpartition("/")[2])

    def running(self, wanted: Callable[[str], bool]) -> list[Process]:
        """Return the living processes whose own name, or that of their executable, is wanted; by pid."""
        known = {process.pid: process for process in self.named(wanted)}
        answers: dict[str, bool] = {}
        for pid, exe in self.executables().items():
            if exe is None or pid in known:
                continue
            name = exe.rpartition("/")[2]
            if name not in answers:
                answers[name] = is_loader(exe) or wanted(name)
            if not answers[name] or (process := self.get(pid)) is None:
                continue
            if not is_loader(exe) or any(wanted(each) for each in self.names_of(process)):
                known[pid] = process
        return [known[pid] for pid in sorted(known)]

    def kind(self, pid: int) -> str | None:
        """Return what the executable of the process with this pid is, in the words of programs.py; None if it has none,
        or we may not know it."""
        if pid not in self._kinds:
            exe = self.executables().get(pid)
            self._kinds[pid] = None if exe is None else self._source.kind(pid, exe)
        return self._kinds[pid]

    def children(self, pid: int) -> list[Process]:
        by_parent = self._by_parent
        if by_parent is None:
            by_parent = self._by_parent = self._pids_by(lambda row: row[1], lambda process: process.parent)
        return self._living_of(by_parent.get(pid, ()))

    def _pids_by(self, of_row: Callable[[Row], Any], of_process: Callable[[Process], Any]) -> dict[Any, list[int]]:
        pids: dict[Any, list[int]] = {}
        for pid, row in self._rows.items():
            value = of_process(row) if isinstance(row, Process) else of_row(row)
            if value in pids:
                pids[value].append(pid)
            else:
                pids[value] = [pid]
        return pids

    def _living_of(self, pids: Iterable[int]) -> list[Process]:
        return [row for pid in pids if (row := self.get(pid)) is not None]

    def descendants(self, pid: int) -> list[Process]:
        below: list[Process] = []
        seen = {pid}
        front = [pid]
        while front:
            for child in self.children(front.pop()):
                if child.pid not in seen:
                    seen.add(child.pid)
                    below.append(child)
                    front.append(child.pid)
        return below

    def ancestors(self, pid: int) -> tuple[ProcessKey, ...]:
        """Return the living process that has this pid, and all its ancestors, nearest first."""
        keys: dict[ProcessKey, None] = {}
        row = self.get(pid)
        while row is not None and row.key not in keys:  # rows read at different moments can form a circle
            keys[row.key] = None
            row = self.get(row.parent)
        return tuple(keys)

    def details(self, process: Process) -> Details | None:
        """Return argv, cwd and environment of a process; None if it ended or was replaced meanwhile."""
        pid = process.key.pid
        if pid not in self._details:
            self._details[pid] = self._source.details(process)
        return self._details[pid]

    def mentions(self, pid: int, words: Iterable[bytes]) -> bool:
        """Return whether the environment of this process may have one of these words: details() tells. False also if
        that cannot be read, or not cheaply."""
        return self._source.mentions(pid, words)

    def program(self, process: Process) -> Details | None:
        """Return what it runs: only argv and exe. They are of this process only if `still` says so afterwards.
        None: ask details()."""
        return None if process.key.pid in self._details else self._source.program(process)

    def still(self, process: Process) -> bool:
        """Return whether the same process still has its pid."""
        return self._source.still(process)

    def why_unheard(self, process: Process) -> Unheard | None:
        """Return why keys that are typed at its terminal at this moment may not reach this process, or may reach
        others; None if only it gets them."""
        return self._source.why_unheard(process)

    def is_at(self, process: Process, terminal: str) -> bool | None:
        """Return whether this process is at the terminal with this path; None if this system cannot doubt it."""
        return self._source.is_at(process, terminal)

    def open_files(self, process: Process) -> list[str]:
        """Return the paths that this process has open; none if that cannot be read."""
        return self._source.open_files(process)

    def held(self, process: Process) -> Held | None:
        """Return what this process has open and what it watches; None if that cannot be read."""
        if process.pid not in self._held:
            self._held[process.pid] = self._source.held(process)
        return self._held[process.pid]

    def identity(self, path: str) -> tuple[int, int, int] | None:
        """Return device and inode of a path as `held` has them; None if that is not known."""
        return self._source.lock_identity(path)

    def sees_our_mounts(self, process: Process) -> bool:
        """Return whether a process has our mounts and our root, so that a path means to it what it means to us."""
        if self._own_mounts is None:
            self._own_mounts = mounts_of("self")
        if process.pid not in self._mounts:
            self._mounts[process.pid] = mounts_of(process.pid)
        return self._mounts[process.pid] == self._own_mounts

    def written_files(self, process: Process) -> list[tuple[str, str]] | None:
        """Return the files that this process has open for writing: the path, and a path that leads us to the file
        whatever mounts the process sees. None if that cannot be read."""
        if process.pid not in self._written:
            self._written[process.pid] = self._source.written_files(process)
        return self._written[process.pid]

    def positions(self, process: Process, path: str) -> list[int]:
        """Return this process's positions in a file, one for each time it has it open; none if that cannot be read.

        If a file is opened for appending, the kernel moves a writer to the end of what it wrote, and moves nobody else.
        So this very process wrote the bytes before this position.
        """
        return self._source.positions(process, path)

    def is_frozen(self, process: Process) -> bool:
        """Return whether the cgroup of this process keeps it from running (docker pause); its state does not say so."""
        return self._source.is_frozen(process)

    def ports(self, process: Process) -> list[int]:
        """Return the TCP ports of 127.0.0.1 on which this process listens and we can reach it; read anew each time."""
        return self._source.ports(process)

    def place(self, process: Process) -> Place | None:
        """Return the directory of this process, by what it is; None if the process has ended, or this platform does not
        tell. A place without an identity: we may not look."""
        return self._source.place(process)

    def directory(self, process: Process) -> tuple[int, int] | None:
        """Return device and inode of the directory of this process, in one system call; None if that cannot be
        read."""
        return self._source.directory(process)

    def incomplete_for(self, root: str) -> str | None:
        """Return why a process that works in this folder may be missing from the table; None if it would be here."""
        return self.hidden or self.closed() or self._source.incomplete_for(root)

    def started_at(self, key: ProcessKey) -> float:
        """Return the wall-clock start, only for people and for inference by time: it moves when the clock is set."""
        return self.boot_time + key.start / self.ticks_per_second

    def knows_locks(self, folder: str) -> bool:
        """Return whether lock_owners() can know who holds a lock on a file of this folder. If not, no owner does not
        mean that nobody holds it."""
        return self._lock_list() is not None and self._source.lock_identity(folder) is not None

    def _lock_list(self) -> Locks | None:
        if not self._locks_read:
            self._locks, self._locks_read = self._source.locks(), True
        return self._locks

    def lock_owners(self, path: str) -> tuple[Process, ...]:
        """Return the living processes that took a lock on this file, by the kernel's own list, and are proved to hold
        it; see knows_locks() and unproved_owners()."""
        return tuple(process for process, holds in self._named_for(path) if holds)

    def unproved_owners(self, path: str) -> tuple[Process, ...]:
        """Return the living processes whose pids the kernel's list names for a lock on this file, and into which we may
        not look. Each may hold the lock, or have got the pid of one that has ended."""
        return tuple(process for process, holds in self._named_for(path) if holds is None)

    def _named_for(self, path: str) -> list[tuple[Process, bool | None]]:
        """Return the living processes that the kernel's list names for a lock on this file, and whether each holds it.
        The list names who took it: if that one has ended, a child may hold it on, and a stranger may have the pid."""
        identity = self._source.lock_identity(path)
        if identity is None:
            return []
        if path not in self._proved:
            named = (self.get(pid) for pid in (self._lock_list() or {}).get(identity, ()))
            self._proved[path] = [
                (process, self._source.holds_lock(process, identity, path)) for process in named if process is not None
            ]
        return self._proved[path]


def snapshot(env_names: Iterable[str] = ()) -> Processes:
    """Read the process table of this machine. `env_names`: the only environment variables that it holds."""
    if sys.platform == "linux":
        from agentctl.kernel import linux

        return linux.snapshot(frozenset(env_names))
    from agentctl.kernel import portable

    return portable.snapshot(frozenset(env_names))
