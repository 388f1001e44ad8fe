"""The process table through psutil: for macOS. It runs on Linux too, so that one contract test drives both sources.

What psutil does by design, and what must not leave this module as truth: process_iter() with attributes drops
processes silently, a zombie "is running", one unreadable file is "no such process", create_time() follows the clock,
and exe() of a process that may not be read is guessed from its argv.

Not guaranteed off Linux: there is no kernel list of locks. Who has the lock file open stands for who holds the lock.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping

import psutil

from agentctl.kernel import places
from agentctl.kernel.processes import Processes
from agentctl.kernel.source import Source
from agentctl.model import Details, Process, ProcessKey

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeVar

    from agentctl.kernel.keyboard import Unheard
    from agentctl.kernel.places import Place
    from agentctl.kernel.source import Locks

    T = TypeVar("T")

LINUX = sys.platform == "linux"
# The unit of a key's start: field 22 of /proc/<pid>/stat on Linux, microseconds since 1970 elsewhere.
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK") if LINUX else 1_000_000
COMM_LENGTH = 15  # of Linux; psutil fills a cut name up from argv
TRIES = 3
# File systems that other kernels write to, as macOS calls them.
SHARED_FILE_SYSTEMS = ("nfs", "smbfs", "afpfs", "webdav", "9p", "virtiofs", "prl_fs", "vmhgfs")

STATES = {
    psutil.STATUS_RUNNING: "R",
    psutil.STATUS_SLEEPING: "S",
    psutil.STATUS_DISK_SLEEP: "D",
    psutil.STATUS_STOPPED: "T",
    psutil.STATUS_TRACING_STOP: "t",
    psutil.STATUS_ZOMBIE: "Z",
    psutil.STATUS_DEAD: "X",
    psutil.STATUS_IDLE: "I",
}


def snapshot(env_names: frozenset[str]) -> Processes:
    boot = boot_id()
    taken_at = time.time()
    forget_terminals()
    rows = []
    unseen = 0
    for pid in psutil.pids():
        if pid == 0:
            continue  # the kernel of macOS itself
        try:
            found = row(pid, boot)
        except (psutil.Error, OSError):
            unseen += 1  # it has the pid and could not be read: never an absence
        else:
            if found is not None:
                rows.append(found)
    rows = without_kernel(rows)
    return Processes(
        boot,
        rows,
        Psutil(env_names, rows),
        taken_at=taken_at,
        boot_time=time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) if LINUX else 0.0,
        ticks_per_second=TICKS_PER_SECOND,
        hidden=f"{unseen} processes could not be read" if unseen else hidepid(),
        env_names=env_names,
    )


class Psutil(Source):
    """Answers from psutil."""

    def __init__(self, env_names: frozenset[str], rows: list[Process]) -> None:
        self._env_names = env_names
        self._rows = rows

    def details(self, process: Process) -> Details | None:
        return details(process, self._env_names)

    def absent(self, pid: int) -> bool:
        return absent(pid)

    def place(self, process: Process) -> Place | None:
        found = self.details(process)
        if found is None:
            return None
        named = places.of_path(found.cwd) if found.cwd is not None else None
        return named or places.Place(found.cwd or f"the directory of pid {process.pid}", None)

    def directory(self, process: Process) -> tuple[int, int] | None:
        place = self.place(process)
        return place.at if place is not None else None

    def why_unheard(self, process: Process) -> Unheard | None:
        return why_unheard(process)

    def open_files(self, process: Process) -> list[str]:
        return open_files(process)

    def locks(self) -> Locks:
        return OpenFiles(self._rows)

    def lock_identity(self, path: str) -> tuple[int, int, int] | None:
        return identity(path)

    def holds_lock(self, process: Process, identity: tuple[int, int, int], path: str) -> bool:
        return True  # locks() names those that have the file open at this moment

    def incomplete_for(self, root: str) -> str | None:
        return shared_with_others(root)


def row(pid: int, boot: str) -> Process | None:
    """Return one row; None if the pid is free. Raises if there is a process and it cannot be read."""
    for _ in range(TRIES):
        try:
            return read_row(psutil.Process(pid), boot)
        except psutil.NoSuchProcess:
            if absent(pid):
                return None
            # Its pid has just been given to another one, or psutil took something else for its end: look again.
    raise psutil.AccessDenied(pid)


def read_row(process: psutil.Process, boot: str) -> Process:
    started = start(process)
    with process.oneshot():
        state = STATES.get(process.status(), "?")
        dead = state == "X" or (state == "Z" and not has_living_thread(process))
        comm = ask(process.name) or ""
        terminal = ask(process.terminal)
        parent = process.ppid()  # the last, because it also proves that the pid is still this process's own
    if LINUX:
        comm = os.fsencode(comm)[:COMM_LENGTH].decode(errors="replace")
    return Process(ProcessKey(boot, process.pid, started), parent, comm, state, dead, device(terminal))


def start(process: psutil.Process) -> int:
    """Return psutil's own identity of the process: since 7.1 the start as the kernel noted it, which no clock change
    moves."""
    seconds: float | None = process._ident[1]  # type: ignore[attr-defined]
    if seconds is None:
        raise psutil.AccessDenied(process.pid)
    return round(seconds * TICKS_PER_SECOND)


def has_living_thread(process: psutil.Process) -> bool:
    """Return whether a thread of this zombie lives: if the leader of a thread group has exited, the group shows as a
    zombie while its other threads go on (Linux)."""
    return (ask(process.num_threads) or 0) > 1


def forget_terminals() -> None:
    """Make psutil look for terminals again: it caches those of its first look, and a daemon must see later ones."""
    known = getattr(sys.modules.get("psutil._psposix"), "get_terminal_map", None)
    forget = getattr(known, "cache_clear", None)
    if forget is not None:
        forget()


def device(terminal: str | None) -> int:
    try:
        return os.stat(terminal).st_rdev if terminal else 0
    except OSError:
        return 0


def without_kernel(rows: list[Process]) -> list[Process]:
    """Return the rows without the kernel threads of Linux, which are all children of kthreadd."""
    mothers = {row.pid for row in rows if row.comm == "kthreadd" and row.pid == 2 and row.parent == 0}
    return [row for row in rows if row.pid not in mothers and row.parent not in mothers]


def absent(pid: int) -> bool:
    """Return whether it is proved that no process has this pid. Signal 0 signals nobody: it only asks."""
    if pid <= 0:
        return False  # these mean groups of processes
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        return False
    return False


def details(process: Process, env_names: frozenset[str]) -> Details | None:
    try:
        asked = psutil.Process(process.pid)
    except psutil.Error:
        return None
    env = ask(asked.environ)
    users = ask(asked.uids)
    ours = users is not None and os.geteuid() in (0, users.real)
    cwd = ask(asked.cwd) or None
    found = Details(
        argv=words(ask(asked.cmdline)),
        exe=(ask(asked.exe) or None) if ours else None,  # of others' processes psutil would guess it
        cwd=cwd,
        directory=places.identity(cwd) if cwd else None,
        # An empty one is no answer: macOS shows a protected environment so, and Linux any for a moment during exec.
        env={name: value for name, value in env.items() if name in env_names} if env else None,
        uid=users.real if users else None,
        pids=(process.pid,),
    )
    return found if still_has_its_pid(process) else None


def still_has_its_pid(process: Process) -> bool:
    """Return whether this process still has its pid. What was read by pid belongs to it only if this is true
    afterwards."""
    try:
        now = row(process.pid, process.key.boot)
    except (psutil.Error, OSError):
        return False
    return now is not None and now.key == process.key and not now.dead


def words(argv: list[str] | None) -> tuple[str, ...] | None:
    """Return argv without the empty words at its end: a process that sets its title overwrites its argv."""
    if not argv:
        return None
    size = len(argv)
    while size > 1 and not argv[size - 1]:
        size -= 1
    return tuple(argv[:size])


def ask(question: Callable[[], T]) -> T | None:
    """Return the answer; None if it could not be read, which does not say whether the process lives."""
    try:
        return question()
    except (psutil.Error, OSError):
        return None


class OpenFiles(Mapping[tuple[int, int, int], tuple[int, ...]]):
    """Maps (major, minor, inode) to who has it open, among the processes of this user; read at the first question."""

    def __init__(self, rows: list[Process]) -> None:
        self._rows = rows
        self._found: dict[tuple[int, int, int], tuple[int, ...]] | None = None

    def found(self) -> dict[tuple[int, int, int], tuple[int, ...]]:
        if self._found is None:
            self._found = {}
            for process in self._rows:
                files = {identity(path) for path in open_files(process)} if is_ours(process) else set()
                for file in files:
                    if file is not None:
                        self._found[file] = (*self._found.get(file, ()), process.pid)
        return self._found

    def __getitem__(self, file: tuple[int, int, int]) -> tuple[int, ...]:
        return self.found()[file]

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        return iter(self.found())

    def __len__(self) -> int:
        return len(self.found())

    def __bool__(self) -> bool:
        return True  # whether there are any is not worth reading them all


def is_ours(process: Process) -> bool:
    users = None if process.dead else ask(lambda: psutil.Process(process.pid).uids())
    return users is not None and users.real == os.getuid()


def why_unheard(process: Process) -> Unheard | None:
    """Return why keys may not reach a process, by `ps`: it tells the process group that its terminal has in the
    foreground, and not who else of that group reads it."""
    from agentctl.kernel import commands
    from agentctl.kernel.keyboard import Unheard

    ran = commands.run(["ps", "-o", "pgid=,tpgid=", "-p", str(process.pid)], None, os.environ, 5.0)
    words = ran.out.split() if ran.outcome == commands.DONE and ran.code == 0 else []
    if len(words) != 2:
        return Unheard(f"`ps` does not say who reads its terminal ({ran.problem or ran.said or 'no such process'})")
    if words[0] != words[1]:
        return Unheard("it is in the background of its terminal, so it does not read what is typed there")
    return None


def open_files(process: Process) -> list[str]:
    """Return the paths of the regular files that a process has open."""
    files = ask(lambda: psutil.Process(process.pid).open_files()) or []
    return [file.path for file in files] if still_has_its_pid(process) else []


def identity(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return os.major(found.st_dev), os.minor(found.st_dev), found.st_ino


def boot_id() -> str:
    if LINUX:
        from agentctl.kernel import linux

        return linux.boot_id()
    return sysctl(b"kern.bootsessionuuid")


def sysctl(name: bytes) -> str:
    """Return a text of this name from the kernel of macOS; empty if it has none."""
    import ctypes

    try:
        call = ctypes.CDLL(None).sysctlbyname
    except (OSError, AttributeError):
        return ""
    call.argtypes = (ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    text = ctypes.create_string_buffer(256)
    size = ctypes.c_size_t(len(text))
    return text.value.decode(errors="replace") if call(name, text, ctypes.byref(size), None, 0) == 0 else ""


def hidepid() -> str | None:
    if not LINUX:
        return None
    from agentctl.kernel.mounts import Mounts

    return Mounts().hidepid()


def shared_with_others(root: str) -> str | None:
    """Return why processes that this table cannot show may be writing below this folder; None if they cannot."""
    if LINUX:
        from agentctl.kernel.mounts import Mounts

        return Mounts().shared_with_others(root)
    real = os.path.realpath(root)
    mounts = [
        (len(mount.mountpoint), mount.mountpoint, mount.fstype)
        for mount in psutil.disk_partitions(all=True)
        if real == mount.mountpoint or real.startswith(mount.mountpoint.rstrip("/") + "/")
    ]
    if not mounts:
        return "the file system of its store is not known"
    _, point, kind = max(mounts)
    if kind in SHARED_FILE_SYSTEMS or "fuse" in kind:
        return f"its store is on {kind} ({point}): processes of other machines may be on it"
    return None
