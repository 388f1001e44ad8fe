"""Reads the process table from /proc: one pass over */stat, everything else only for the processes that matter."""

from __future__ import annotations

import os
import time

from agentctl.fast.threads import Event, Thread
from agentctl.kernel import access, lock_proof, one_process, procfs, programs
from agentctl.kernel.mounts import INITIAL_PID_NAMESPACE, Mounts
from agentctl.kernel.processes import Processes
from agentctl.kernel.procfs import DELETED, PROC, link, read
from agentctl.kernel.source import Source
from agentctl.kernel.stat_line import parse_row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from agentctl.kernel.held import Held
    from agentctl.kernel.keyboard import Unheard
    from agentctl.kernel.places import Place
    from agentctl.kernel.processes import Row
    from agentctl.kernel.source import Locks
    from agentctl.model import Details, Process

BOOT_ID = f"{PROC}/sys/kernel/random/boot_id"


def snapshot(env_names: frozenset[str]) -> Processes:
    taken_at = time.time()
    try:
        boot = boot_id()
        why_blind = procfs.why_blind()
    except OSError as error:
        boot, why_blind = "", f"{BOOT_ID} cannot be read ({error.strerror})"
    if why_blind is not None:
        return Processes(boot, (), taken_at=taken_at, blind=why_blind, env_names=env_names)
    source = Proc(env_names)
    rows, unseen = read_rows(boot)
    return Processes(
        boot,
        rows,
        source,
        taken_at=taken_at,
        boot_time=time.time() - time.clock_gettime(time.CLOCK_BOOTTIME),
        ticks_per_second=one_process.TICKS_PER_SECOND,
        hidden=f"{unseen} entries of {PROC} could not be read"
        if unseen
        else source.mounts.hidepid() or source.mounts.covered(),
        outermost=procfs.own_pid_namespace() == INITIAL_PID_NAMESPACE,
        env_names=env_names,
    )


class Proc(Source):
    """Answers from /proc. A thread reads the list of locks from the moment that this is made."""

    def __init__(self, env_names: frozenset[str]) -> None:
        self.mounts = Mounts()
        self._env_names = env_names
        self._programs: dict[int, Details] = {}
        self._kinds: dict[tuple[str, int, int], str] = {}  # by path, device and inode of the executable
        self._flocks = Meanwhile(flocks)

    def details(self, process: Process) -> Details | None:
        return one_process.details(process, self._env_names, self._programs.get(process.pid))

    def program(self, process: Process) -> Details:
        runs = self._programs[process.pid] = one_process.program(process)
        return runs

    def mentions(self, pid: int, words: Iterable[bytes]) -> bool:
        return one_process.mentions(pid, words)

    def still(self, process: Process) -> bool:
        return one_process.still_has_its_pid(process)

    def absent(self, pid: int) -> bool:
        return absent(pid)

    def own_start(self, process: Process) -> int:
        return one_process.own_start(process)

    def inner_pids(self, process: Process) -> tuple[int, ...] | None:
        return one_process.inner_pids(process)

    def pid_namespace(self, process: Process) -> str | None:
        return link(f"{PROC}/{process.pid}/ns/pid")

    def place(self, process: Process) -> Place | None:
        return one_process.place(process)

    def directory(self, process: Process) -> tuple[int, int] | None:
        return one_process.directory(process)

    def executables(self, pids: Iterable[int]) -> dict[int, str | None]:
        return executables(pids)

    def owner(self, pid: int) -> int | None:
        return access.owner(pid)

    def is_unexecuted(self, pid: int) -> bool:
        return one_process.is_unexecuted(pid)

    def why_closed(self, pids: Iterable[int]) -> str | None:
        return access.why_closed(pids)

    def kind(self, pid: int, exe: str) -> str:
        """A path alone does not tell: in other mounts than ours, another file has it."""
        if not programs.in_the_system(exe):
            return programs.kind_of(exe, None)  # its path says all that there is to say
        try:
            found = os.stat(f"{PROC}/{pid}/exe")  # the file itself, whatever mounts the process sees
        except OSError:
            return programs.kind_of(exe, None)
        key = (exe, found.st_dev, found.st_ino)
        if key not in self._kinds:  # hundreds of processes have a few dozen executables
            self._kinds[key] = programs.kind_of(exe, found.st_size)
        return self._kinds[key]

    def why_unheard(self, process: Process) -> Unheard | None:
        from agentctl.kernel import keyboard

        return keyboard.why_unheard(process)

    def is_at(self, process: Process, terminal: str) -> bool:
        from agentctl.kernel import keyboard

        return keyboard.is_at(process.pid, terminal)

    def open_files(self, process: Process) -> list[str]:
        return one_process.open_files(process)

    def held(self, process: Process) -> Held | None:
        return one_process.held(process)

    def written_files(self, process: Process) -> list[tuple[str, str]] | None:
        return one_process.written_files(process)

    def positions(self, process: Process, path: str) -> list[int]:
        return one_process.positions(process, path)

    def is_frozen(self, process: Process) -> bool:
        return one_process.frozen(process)

    def ports(self, process: Process) -> list[int]:
        return one_process.ports(process)

    def locks(self) -> Locks | None:
        return self._flocks.answer()

    def lock_identity(self, path: str) -> tuple[int, int, int] | None:
        return self.mounts.identity(path)

    def holds_lock(self, process: Process, identity: tuple[int, int, int], path: str) -> bool | None:
        return one_process.holds_lock(process, identity, path)

    def incomplete_for(self, root: str) -> str | None:
        return self.mounts.shared_with_others(root)


def boot_id() -> str:
    return read(BOOT_ID, 64).decode(errors="replace").strip()


def read_rows(boot: str) -> tuple[list[Row | Process], int]:
    """Return all processes, zombies included, and how many could not be read."""
    rows: list[Row | Process] = []
    unseen = 0
    at = os.open(PROC, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # takes a tenth less time than whole paths
    try:
        for name in os.listdir(PROC):
            if not name.isdigit():
                continue
            try:
                row = parse_row(one_process.read_row(f"{name}/stat", at))
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended between the listing and the reading: stat, and only stat, says so
            except (PermissionError, ValueError):
                unseen += 1  # not understood is not absent
                continue
            if row is not None:
                rows.append(one_process.process_of(row, boot) if row[3] in one_process.DEAD else row)
    finally:
        os.close(at)
    return rows, unseen


def absent(pid: int) -> bool:
    """Return whether it is proved that no process has this pid, even if /proc hides the processes of others."""
    try:
        os.close(os.pidfd_open(pid))
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        return False
    return False


def executables(pids: Iterable[int]) -> dict[int, str | None]:
    """Return the executable of each of these processes; None if we may not know it, "" if it cannot be told (its path
    is too long for the kernel to say). One system call for each."""
    found: dict[int, str | None] = {}
    for pid in pids:
        try:
            found[pid] = os.readlink(f"{PROC}/{pid}/exe").removesuffix(DELETED)
        except PermissionError:
            found[pid] = None
        except (FileNotFoundError, ProcessLookupError):
            # It has none: it is the kernel's own, has given up its memory, or only its first thread has ended.
            tid = one_process.living_thread(pid)
            if tid is not None and (exe := link(f"{PROC}/{pid}/task/{tid}/exe")) is not None:
                found[pid] = exe
        except OSError:
            found[pid] = ""
    return found


class Meanwhile:
    """Asks the kernel something in a thread while the caller goes on. For its list of locks the kernel first waits
    until no processor is changing one: 15 ms in which it does nothing."""

    def __init__(self, ask: Callable[[], Locks | None]) -> None:
        self._ask = ask
        self._found: Locks | None = None
        self._answered = Event()
        Thread(target=self._run, daemon=True).start_or_run()

    def _run(self) -> None:
        try:
            self._found = self._ask()
        finally:
            self._answered.set()

    def answer(self) -> Locks | None:
        self._answered.wait()
        return self._found


def flocks() -> dict[tuple[int, int, int], tuple[int, ...]] | None:
    """Return (major, minor, inode) -> holders, from /proc/locks; None if that cannot be read. It never tries the lock:
    that would make the agent's own try fail."""
    try:
        lines = read(f"{PROC}/locks", 16 * 1024 * 1024).split(b"\n")
    except OSError:
        return None
    found: dict[tuple[int, int, int], tuple[int, ...]] = {}
    for line in lines:
        fields = line.split()
        identity = lock_proof.identity_in(fields)
        if identity is None or not fields[4].removeprefix(b"-").isdigit():
            continue
        holder = int(fields[4])
        holders = found.get(identity, ())
        if holder not in holders:  # the list moves while it is read: a line may come twice
            found[identity] = (*holders, holder)
    return found
