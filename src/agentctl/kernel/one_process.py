"""Reads what /proc shows of one process: its row, what it runs, its directory, its open files.

Everything is read by pid, so it counts only if the same process still has that pid afterwards. `seen` makes sure of
that, and that the folder we read was one of a living thread: if the first thread of a process has ended while others go
on, /proc/PID shows nothing any more, and that is no proof that the process has nothing.
"""

from __future__ import annotations

import os
import sys

from agentctl.kernel import lock_proof, programs
from agentctl.kernel.procfs import CHUNK, PROC, link, names_a_variable, read
from agentctl.kernel.stat_line import is_whole, parse_row, whole
from agentctl.model import Details, Process, ProcessKey

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    from agentctl.kernel.held import Held
    from agentctl.kernel.places import Place
    from agentctl.kernel.processes import Row

    Seen = TypeVar("Seen")
    Other = TypeVar("Other")

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
# Linux allows 6 MiB for argv and environment together. Half an environment would be one with names missing.
DETAIL_LIMIT = 8 * 1024 * 1024
FORKED_ONLY = 0x40  # PF_FORKNOEXEC in the flags of stat
DEAD = "ZXx"  # the states in which it may be
TCP_LISTEN = b"0A"
LOOPBACK = f"{int.from_bytes(bytes((127, 0, 0, 1)), sys.byteorder):08X}:".encode()  # as net/tcp writes 127.0.0.1
OWN_SHIFT: list[int] = []  # once it is known
CGROUPS = "/sys/fs/cgroup"
UNIFIED = ("", "/unified")  # the second: beside the hierarchies of version 1
LOOKS = 8  # how often we look again because the thread that we looked at has ended


def read_row(path: str, at: int | None = None, limit: int = 4096) -> bytes:
    """Read a stat or environ file. It comes whole with the first read, which saves a third of the system calls of a
    scan. `at`: an open folder."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=at)
    try:
        return os.read(fd, limit)
    finally:
        os.close(fd)


def parse_stat(data: bytes, boot: str) -> Process | None:
    row = parse_row(data)
    return None if row is None else process_of(row, boot)


def process_of(row: Row, boot: str) -> Process:
    pid, parent, comm, state, tty, start = row
    dead = state in DEAD and not (state == "Z" and living_thread(pid) is not None)
    return Process(ProcessKey(boot, pid, start), parent, comm.decode(errors="replace"), state, dead, tty)


def living_thread(pid: int) -> str | None:
    """Return the number of a thread of this zombie that lives; None if none does. If the first thread of a process has
    exited, the kernel shows a zombie while the other threads go on."""
    try:
        tids = os.listdir(f"{PROC}/{pid}/task")
    except OSError:
        return None  # it ended while we looked
    for tid in tids:
        if tid != str(pid):
            try:
                data = read(f"{PROC}/{pid}/task/{tid}/stat", 4096)
            except OSError:
                continue  # this thread ended: the others may go on
            if data[data.rfind(b")") + 2 : data.rfind(b")") + 3] not in (b"Z", b"X", b"x"):
                return tid
    return None


def base_of(process: Process) -> str:
    """Return the folder of /proc that shows what this process runs and has open: that of a living thread."""
    base = f"{PROC}/{process.pid}"
    tid = living_thread(process.pid) if process.state == "Z" else None
    return base if tid is None else f"{base}/task/{tid}"


def seen(process: Process, look: Callable[[str], Seen], otherwise: Other) -> Seen | Other:
    """Return what `look` reads in a folder of /proc of this process; `otherwise` if the process has ended by then. If
    the thread whose folder it is ends meanwhile, look again in the folder of another one."""
    base = base_of(process)
    for _ in range(LOOKS):
        found, before = look(base), base
        now = as_it_is_now(process)
        if now is None:
            return otherwise
        base = base_of(now)
        if base == before:
            break
    return found


def program(process: Process) -> Details:
    """Return what a process runs: argv and exe. They are of this process only if it still has its pid afterwards."""
    return program_in(base_of(process))


def program_in(base: str) -> Details:
    return programs.loaded_by(Details(argv=strings(f"{base}/cmdline"), exe=link(f"{base}/exe")))


def details(process: Process, env_names: frozenset[str], known: Details | None = None) -> Details | None:
    """Return the details of a process; None if another process has its pid by now. `known`: its program, if that was
    read before."""
    whole_program = known if known is not None and known.argv is not None and known.exe is not None else None
    return seen(process, lambda base: details_in(base, env_names, whole_program), None)


def details_in(base: str, env_names: frozenset[str], known: Details | None) -> Details:
    runs = known or program_in(base)
    return Details(
        argv=runs.argv,
        exe=runs.exe,
        cwd=link(f"{base}/cwd"),
        directory=directory_in(base),
        env=environment(f"{base}/environ", env_names),
        **identities(f"{base}/status"),  # type: ignore[arg-type]
    )


def directory(process: Process) -> tuple[int, int] | None:
    """Return device and inode of the directory of a process; None if that cannot be read."""
    return directory_in(base_of(process))


def directory_in(base: str) -> tuple[int, int] | None:
    try:
        found = os.stat(f"{base}/cwd")
    except OSError:
        return None
    return found.st_dev, found.st_ino


def place(process: Process) -> Place | None:
    """Return the directory of a process, by what it is; None if the process has ended, or has given up its directory
    because it is about to end."""
    from agentctl.kernel import places

    return seen(process, lambda base: places.of_process(base, process.pid), None)


def holds_lock(process: Process, identity: tuple[int, int, int], path: str) -> bool | None:
    """Return whether a process holds an flock on this file, which has this identity; None if we may not look."""
    return seen(process, lambda base: lock_proof.holds(base, identity, path), False)


def still_has_its_pid(process: Process) -> bool:
    """Return whether this process still has its pid, and lives."""
    return as_it_is_now(process) is not None


def as_it_is_now(process: Process) -> Process | None:
    """Return the row of this process as it is at this moment; None if it has ended, or another one has its pid."""
    try:
        now = parse_stat(read_row(f"{PROC}/{process.pid}/stat"), process.key.boot)
    except (OSError, ValueError):
        return None
    return now if now is not None and now.key == process.key and not now.dead else None


def strings(path: str) -> tuple[str, ...] | None:
    """Return the words of cmdline or environ; None if there is no answer. Both are empty for a moment during every
    exec, so an empty file is no answer."""
    try:
        data = read(path, DETAIL_LIMIT)
    except OSError:
        return None
    return tuple(part.decode(errors="surrogateescape") for part in data.rstrip(b"\0").split(b"\0")) if data else None


def environment(path: str, names: frozenset[str]) -> dict[str, str] | None:
    """Return these variables of a process; None if that cannot be read. A program may write its title over its
    environment, from its beginning: then the first text names no variable, and what the variables were is lost."""
    entries = strings(path)
    if entries is None or not names_a_variable(entries[0]):
        return None
    pairs = (entry.partition("=") for entry in reversed(entries))  # the first of two with one name counts: see getenv
    return {name: value for name, _, value in pairs if name in names}


def mentions(pid: int, words: Iterable[bytes]) -> bool:
    """Return whether the environment of a process has one of these words; False if it cannot be read."""
    try:
        data = read_row(f"{PROC}/{pid}/environ", limit=CHUNK)
        if len(data) == CHUNK:
            data = read(f"{PROC}/{pid}/environ", DETAIL_LIMIT)
    except OSError:
        return False
    return any(word in data for word in words)


def identities(path: str) -> dict[str, object]:
    """Return uid, and the pid in each PID namespace, from status."""
    try:
        data = read(path, 16384)
    except OSError:
        return {}
    found: dict[str, object] = {}
    if numbers := numbers_after(data, b"\nUid:"):
        found["uid"] = numbers[0]
    if numbers := numbers_after(data, b"\nNSpid:"):
        found["pids"] = numbers
    return found


def inner_pids(process: Process) -> tuple[int, ...] | None:
    """Return the pids of a process in the PID namespaces below ours; None if that cannot be read. What has ended has
    none. NSpid begins with the pid in the namespace of /proc, which is ours."""
    try:
        pids = numbers_after(read(f"{PROC}/{process.pid}/status", 16384), b"\nNSpid:")
    except (FileNotFoundError, ProcessLookupError):
        return ()
    except OSError:
        return None
    return pids[1:] if pids else None


def numbers_after(data: bytes, name: bytes) -> tuple[int, ...]:
    """Return the numbers in one line of status. The process's name in the first line cannot fake another line: the
    kernel writes a line break in it as \\n."""
    at = data.find(name)
    words = data[at + len(name) : data.find(b"\n", at + 1)].split() if at >= 0 else []
    return tuple(whole(word) for word in words if is_whole(word))


def open_files(process: Process) -> list[str]:
    """Return the paths that a process has open. For a single process, never for all."""
    return seen(process, open_in, [])


def open_in(base: str) -> list[str]:
    try:
        names = os.listdir(f"{base}/fd")
    except OSError:
        return []
    return [path for path in (link(f"{base}/fd/{name}") for name in names) if path and path.startswith("/")]


def written_files(process: Process) -> list[tuple[str, str]] | None:
    """Return the files that a process has open for writing: the path, and a path that leads us to it; None if that
    cannot be read. Whoever only reads a file (a pager, a backup) does not work on it."""
    from agentctl.kernel.held import written_in

    return seen(process, lambda base: written_in(f"{base}/fd"), [])


def held(process: Process) -> Held | None:
    """Return what a process has open and watches; None if we may not look, or it has ended."""
    from agentctl.kernel.held import held_by

    return seen(process, held_by, None)


def is_unexecuted(pid: int) -> bool:
    """Return whether a process was forked and has executed no program since, by the flags of its stat."""
    try:
        data = read(f"{PROC}/{pid}/stat", 4096)
        return bool(int(data[data.rfind(b")") + 2 :].split(None, 8)[6]) & FORKED_ONLY)
    except (OSError, ValueError, IndexError):
        return False


def positions(process: Process, path: str) -> list[int]:
    """Return the positions of a process in a file, one for each descriptor that it has of it."""
    return seen(process, lambda base: positions_in(base, path), [])


def positions_in(base: str, path: str) -> list[int]:
    found = []
    try:
        wanted = os.stat(path)
        names = os.listdir(f"{base}/fd")
    except OSError:
        return []
    for name in names:
        target = link(f"{base}/fd/{name}")
        if target is None or os.path.basename(target) != os.path.basename(path):
            continue
        try:
            opened = os.stat(f"{base}/fd/{name}")  # the file itself, whatever its name in the process's own mounts
            info = read(f"{base}/fdinfo/{name}", 4096).split()
        except OSError:
            continue  # it was closed meanwhile
        if (opened.st_dev, opened.st_ino) == (wanted.st_dev, wanted.st_ino) and info[:1] == [b"pos:"]:
            found += [whole(word) for word in info[1:2] if is_whole(word)]
    return found


def frozen(process: Process) -> bool:
    """Return whether its cgroup keeps a process from running: `docker pause`, lxc-freeze, `systemctl freeze`. Its state
    does not say so. If that cannot be read, it is not known to be so."""
    return seen(process, frozen_in, False)


def frozen_in(base: str) -> bool:
    for line in contents(f"{base}/cgroup").splitlines():
        controllers, _, path = line.partition(b":")[2].partition(b":")
        where = path.decode(errors="surrogateescape")
        if where in ("", "/"):
            continue  # the root cannot be frozen
        if not controllers and any(b"frozen 1" in contents(f"{CGROUPS}{top}{where}/cgroup.events") for top in UNIFIED):
            return True
        if controllers == b"freezer" and contents(f"{CGROUPS}/freezer{where}/freezer.state").startswith(b"FR"):
            return True  # FROZEN or FREEZING
    return False


def contents(path: str) -> bytes:
    try:
        return read(path, 64 * 1024)
    except (OSError, ValueError):
        return b""


def ports(process: Process) -> list[int]:
    """Return the ports of 127.0.0.1 that a process listens on: its own socket inodes in the kernel's table of
    sockets."""
    return seen(process, ports_in, [])


def ports_in(base: str) -> list[int]:
    if link(f"{base}/ns/net") != link(f"{PROC}/self/ns/net"):
        return []  # on our side, another process answers on that port
    try:
        targets = (link(f"{base}/fd/{name}") for name in os.listdir(f"{base}/fd"))
        inodes = {target[8:-1].encode() for target in targets if target and target.startswith("socket:[")}
        lines = read(f"{base}/net/tcp", 16 * 1024 * 1024).split(b"\n")[1:] if inodes else []
    except OSError:
        return []
    rows = (fields for line in lines if len(fields := line.split()) > 9)
    return [
        int(port, 16)
        for fields in rows
        if fields[3] == TCP_LISTEN and fields[1].startswith(LOOPBACK) and fields[9] in inodes
        if len(port := fields[1].partition(b":")[2]) == 4 and all(digit in b"0123456789ABCDEF" for digit in port)
    ]


def own_start(process: Process) -> int:
    """Return the start as this process reads it. In a time namespace (unshare --time) the kernel shows all starts as if
    the machine had booted at another time."""
    return process.key.start + clock_shift(process.pid) - own_clock_shift()


def own_clock_shift() -> int:
    """Return the shift of our own clock. No process leaves its time namespace."""
    if not OWN_SHIFT:
        OWN_SHIFT.append(clock_shift("self"))
    return OWN_SHIFT[0]


def clock_shift(pid: int | str) -> int:
    """Return the ticks by which its time namespace shifts the time since boot; 0 if that cannot be read."""
    try:
        lines = read(f"{PROC}/{pid}/timens_offsets", 4096).decode().splitlines()
    except OSError:
        return 0
    for line in lines:
        name, seconds, nanoseconds = line.split()
        if name == "boottime":
            return int(seconds) * TICKS_PER_SECOND + int(nanoseconds) * TICKS_PER_SECOND // 1_000_000_000
    return 0
