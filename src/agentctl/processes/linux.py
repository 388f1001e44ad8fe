"""The process table from /proc: one pass over */stat, everything else only for the processes that matter."""

from __future__ import annotations

import os
import sys
import time
from _thread import allocate_lock, start_new_thread  # threading takes 4 ms to import

from agentctl.model import Details, Process, ProcessKey
from agentctl.processes import Processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from agentctl.processes import Locks, Row

PROC = "/proc"
KERNEL_THREAD = 0x00200000  # PF_KTHREAD in the flags of stat
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
# Linux allows 6 MiB for argv and environment together. Half an environment would be one with names missing.
DETAIL_LIMIT = 8 * 1024 * 1024
DIGITS = 20  # of 64 bits
TOO_LARGE = 10**DIGITS
DEAD = "ZXx"  # the states in which it may be
DELETED = " (deleted)"
TCP_LISTEN = b"0A"
LOOPBACK = f"{int.from_bytes(bytes((127, 0, 0, 1)), sys.byteorder):08X}:".encode()  # as net/tcp writes 127.0.0.1
INITIAL_PID_NAMESPACE = "pid:[4026531836]"
# File systems that other kernels write to: their processes are in no table of ours.
SHARED_FILE_SYSTEMS = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "virtiofs", "fuse.sshfs", "ceph", "afs", "vboxsf")


def snapshot(env_names: frozenset[str]) -> Processes:
    taken_at = time.time()
    locks = Meanwhile(flocks)
    boot = boot_id()
    rows, unseen = read_rows(boot)
    mounts = Mounts()
    programs: dict[int, Details] = {}

    def read_program(process: Process) -> Details:
        programs[process.pid] = program(process)
        return programs[process.pid]

    return Processes(
        boot,
        rows,
        taken_at=taken_at,
        boot_time=time.time() - time.clock_gettime(time.CLOCK_BOOTTIME),
        ticks_per_second=TICKS_PER_SECOND,
        hidden=f"{unseen} entries of {PROC} could not be read" if unseen else mounts.hidepid(),
        read_details=lambda process: details(process, env_names, programs.get(process.pid)),
        read_program=read_program,
        still=still_has_its_pid,
        read_locks=locks.answer,
        lock_identity=mounts.identity,
        absent=absent,
        read_open_files=open_files,
        read_positions=positions,
        read_ports=ports,
        read_own_start=own_start,
        incomplete_for=mounts.shared_with_others,
        env_names=env_names,
    )


def boot_id() -> str:
    return read(f"{PROC}/sys/kernel/random/boot_id", 64).decode(errors="replace").strip()


def read(path: str, limit: int) -> bytes:
    """Read a /proc file with as few system calls as there are: a scan makes thousands of these."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.read(fd, limit)
        while data and len(data) < limit and (more := os.read(fd, limit - len(data))):
            data += more
        return data
    finally:
        os.close(fd)


def read_rows(boot: str) -> tuple[list[Row | Process], int]:
    """All that lives, and the dead that are not buried; and how many of them could not be read."""
    rows: list[Row | Process] = []
    unseen = 0
    at = os.open(PROC, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # a tenth less than whole paths
    try:
        for name in os.listdir(PROC):
            if not name.isdigit():
                continue
            try:
                row = parse_row(read_row(f"{name}/stat", at))
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended between the listing and the reading: stat, and only stat, says so
            except (PermissionError, ValueError):
                unseen += 1  # not understood is not absent
                continue
            if row is not None:
                rows.append(process_of(row, boot) if row[3] in DEAD else row)
    finally:
        os.close(at)
    return rows, unseen


def read_row(path: str, at: int | None = None) -> bytes:
    """stat comes whole with the first read: half the system calls of a scan. `at`: a folder that is open."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=at)
    try:
        return os.read(fd, 4096)
    finally:
        os.close(fd)


def parse_row(data: bytes) -> Row | None:
    """One row, or None for a kernel thread, and where it ended while it was read. comm may hold spaces, brackets and
    newlines: take the last ')'. Raises ValueError."""
    opening, closing = data.find(b"("), data.rfind(b")")
    fields = data[closing + 2 :].split(None, 20)
    if opening < 0 or len(fields) < 20:
        return None
    # Thousands of these are read: all numbers are looked at together.
    words = (data[:opening].strip(), fields[1], fields[4].removeprefix(b"-"), fields[6], fields[19])
    if not b"".join(words).isdigit():
        raise ValueError(f"not the numbers of the kernel: {data[:200]!r}")
    numbers = pid, parent, tty, flags, start = tuple(map(int, words))
    if max(numbers) >= TOO_LARGE:
        raise ValueError(f"not the numbers of the kernel: {data[:200]!r}")
    if flags & KERNEL_THREAD:
        return None
    return pid, parent, data[opening + 1 : closing], chr(fields[0][0]), tty, start


def parse_stat(data: bytes, boot: str) -> Process | None:
    row = parse_row(data)
    return None if row is None else process_of(row, boot)


def process_of(row: Row, boot: str) -> Process:
    pid, parent, comm, state, tty, start = row
    dead = state in DEAD and not (state == "Z" and has_living_thread(pid))
    return Process(ProcessKey(boot, pid, start), parent, comm.decode(errors="replace"), state, dead, tty)


def whole(word: bytes) -> int:
    """A number as the kernel writes it: at most 64 bits. Raises ValueError."""
    if not is_whole(word):
        raise ValueError(f"not a number of the kernel: {word[:DIGITS]!r}")
    return int(word)


def is_whole(word: bytes) -> bool:
    return word.isdigit() and len(word) <= DIGITS


def has_living_thread(pid: int) -> bool:
    """A thread group whose leader has exited shows as a zombie while its other threads go on."""
    try:
        tids = os.listdir(f"{PROC}/{pid}/task")
    except OSError:
        return False  # it ended while we looked
    for tid in tids:
        if tid != str(pid):
            try:
                data = read(f"{PROC}/{pid}/task/{tid}/stat", 4096)
            except OSError:
                continue  # this thread ended: the others may go on
            if data[data.rfind(b")") + 2 : data.rfind(b")") + 3] not in (b"Z", b"X", b"x"):
                return True
    return False


def absent(pid: int) -> bool:
    """Proof that no process has this pid, also where /proc hides the processes of others."""
    try:
        os.close(os.pidfd_open(pid))
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        return False
    return False


def program(process: Process) -> Details:
    return Details(argv=strings(f"{PROC}/{process.pid}/cmdline"), exe=link(f"{PROC}/{process.pid}/exe"))


def details(process: Process, env_names: frozenset[str], known: Details | None = None) -> Details | None:
    """`known`: its program, as it was read before."""
    base = f"{PROC}/{process.pid}"
    runs = known or program(process)
    found = Details(
        argv=runs.argv,
        exe=runs.exe,
        cwd=link(f"{base}/cwd"),
        env=environment(f"{base}/environ", env_names),
        **identities(f"{base}/status"),  # type: ignore[arg-type]
    )
    return found if still_has_its_pid(process) else None


def still_has_its_pid(process: Process) -> bool:
    """What was just read by pid belongs to this process only if this holds afterwards."""
    try:
        now = parse_stat(read_row(f"{PROC}/{process.pid}/stat"), process.key.boot)
    except (OSError, ValueError):
        return False
    return now is not None and now.key == process.key and not now.dead


def link(path: str) -> str | None:
    try:
        target = os.readlink(path)
    except OSError:
        return None
    # So the kernel marks a name that was removed; a name that is there may end so, too.
    return target.removesuffix(DELETED) if target.endswith(DELETED) and not os.path.lexists(target) else target


def strings(path: str) -> tuple[str, ...] | None:
    """The words of cmdline or environ. Not a byte in it is no answer: so both look for a moment during every exec."""
    try:
        data = read(path, DETAIL_LIMIT)
    except OSError:
        return None
    return tuple(part.decode(errors="surrogateescape") for part in data.rstrip(b"\0").split(b"\0")) if data else None


def environment(path: str, names: frozenset[str]) -> dict[str, str] | None:
    found = strings(path)
    if found is None:
        return None
    pairs = (entry.partition("=") for entry in reversed(found))  # of two with one name the first counts, as in getenv
    return {name: value for name, _, value in pairs if name in names}


def identities(path: str) -> dict[str, object]:
    """uid and the pid in each PID namespace, from status."""
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


def numbers_after(data: bytes, name: bytes) -> tuple[int, ...]:
    """One line of status. The name in its first line cannot feign one: the kernel writes a line break in it as \\n."""
    at = data.find(name)
    words = data[at + len(name) : data.find(b"\n", at + 1)].split() if at >= 0 else []
    return tuple(whole(word) for word in words if is_whole(word))


def open_files(process: Process) -> list[str]:
    """The paths a process has open. Used for a single process, never for all."""
    base = f"{PROC}/{process.pid}/fd"
    try:
        names = os.listdir(base)
    except OSError:
        return []
    found = [path for path in (link(f"{base}/{name}") for name in names) if path and path.startswith("/")]
    return found if still_has_its_pid(process) else []


def positions(process: Process, path: str) -> list[int]:
    """Where a process stands in a file, for each descriptor it has of it."""
    base = f"{PROC}/{process.pid}"
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
    return found if still_has_its_pid(process) else []


def ports(process: Process) -> list[int]:
    """The ports of 127.0.0.1 that a process listens on: its own socket inodes in the kernel's table of sockets."""
    base = f"{PROC}/{process.pid}"
    if link(f"{base}/ns/net") != link(f"{PROC}/self/ns/net"):
        return []  # what answers there on our side is somebody else
    try:
        targets = (link(f"{base}/fd/{name}") for name in os.listdir(f"{base}/fd"))
        inodes = {target[8:-1].encode() for target in targets if target and target.startswith("socket:[")}
        lines = read(f"{base}/net/tcp", 16 * 1024 * 1024).split(b"\n")[1:] if inodes else []
    except OSError:
        return []
    rows = (fields for line in lines if len(fields := line.split()) > 9)
    found = [
        int(port, 16)
        for fields in rows
        if fields[3] == TCP_LISTEN and fields[1].startswith(LOOPBACK) and fields[9] in inodes
        if len(port := fields[1].partition(b":")[2]) == 4 and all(digit in b"0123456789ABCDEF" for digit in port)
    ]
    return found if still_has_its_pid(process) else []


def own_start(process: Process) -> int:
    """In a time namespace (unshare --time) the kernel shows all starts as of a machine booted at another time."""
    return process.key.start + clock_shift(process.pid) - clock_shift("self")


def clock_shift(pid: int | str) -> int:
    """The ticks by which its time namespace shifts the time since boot; 0 where that cannot be told."""
    try:
        lines = read(f"{PROC}/{pid}/timens_offsets", 4096).decode().splitlines()
    except OSError:
        return 0
    for line in lines:
        name, seconds, nanoseconds = line.split()
        if name == "boottime":
            return int(seconds) * TICKS_PER_SECOND + int(nanoseconds) * TICKS_PER_SECOND // 1_000_000_000
    return 0


class Meanwhile:
    """Something that is asked of the kernel while others go on: for its list of locks it first waits until no processor
    is in the middle of one, 15 ms in which it does nothing."""

    def __init__(self, ask: Callable[[], Locks | None]) -> None:
        self._ask = ask
        self._found: Locks | None = None
        self._asking = allocate_lock()
        self._asking.acquire()
        try:
            start_new_thread(self._run, ())
        except RuntimeError:  # no room for another one
            self._run()

    def _run(self) -> None:
        try:
            self._found = self._ask()
        finally:
            self._asking.release()

    def answer(self) -> Locks | None:
        with self._asking:
            return self._found


def flocks() -> dict[tuple[int, int, int], tuple[int, ...]] | None:
    """(major, minor, inode) -> holders, from /proc/locks; None = cannot be read. Never by trying the lock: that breaks
    the agent's own try."""
    try:
        lines = read(f"{PROC}/locks", 16 * 1024 * 1024).split(b"\n")
    except OSError:
        return None
    found: dict[tuple[int, int, int], tuple[int, ...]] = {}
    for line in lines:
        fields = line.split()
        if len(fields) < 6 or fields[1] != b"FLOCK":  # waiters have "->" here
            continue
        try:
            major, minor, inode = fields[5].split(b":")
            identity, holder = (int(major, 16), int(minor, 16), int(inode)), int(fields[4])
        except ValueError:
            continue
        holders = found.get(identity, ())
        if holder not in holders:  # the list moves while it is read: a line may come twice
            found[identity] = (*holders, holder)
    return found


class Mounts:
    """mountinfo: which device a path is on as the kernel's lock list names it, and what kind of file system it is.

    stat's device number is another one on overlay and btrfs, so it cannot be joined with /proc/locks.
    """

    def __init__(self) -> None:
        self._entries: list[tuple[str, int, int, str, str]] | None = None

    def entries(self) -> list[tuple[str, int, int, str, str]]:
        """(mount point, major, minor, file system type, super options), longest mount point first."""
        if self._entries is None:
            found = []
            try:
                lines = read(f"{PROC}/self/mountinfo", 16 * 1024 * 1024).decode(errors="surrogateescape").split("\n")
            except OSError:
                lines = []
            for line in lines:
                fields = line.split(" ")
                if "-" not in fields[6:]:
                    continue
                dash = fields.index("-", 6)
                major, _, minor = fields[2].partition(":")
                if not (major.isascii() and major.isdigit() and minor.isascii() and minor.isdigit()):
                    continue
                options = f"{fields[5]},{fields[dash + 3]}" if len(fields) > dash + 3 else fields[5]
                found.append((unescape(fields[4]), int(major), int(minor), fields[dash + 1], options))
            # Of two mounts on one point the later one is on top.
            found.reverse()
            found.sort(key=lambda entry: -len(entry[0]))
            self._entries = found
        return self._entries

    def of(self, path: str) -> tuple[str, int, int, str, str] | None:
        real = os.path.realpath(path)
        for entry in self.entries():
            point = entry[0]
            if real == point or real.startswith(point.rstrip("/") + "/"):
                return entry
        return None

    def identity(self, path: str) -> tuple[int, int, int] | None:
        mount = self.of(path)
        try:
            inode = os.stat(path).st_ino
        except OSError:
            return None
        return (mount[1], mount[2], inode) if mount else None

    def shared_with_others(self, root: str) -> str | None:
        """Why processes that this table cannot show may be writing below this folder."""
        mount = self.of(root)
        if mount is None:
            return "the file system of its store is not known"
        point, _, _, kind, _ = mount
        if kind in SHARED_FILE_SYSTEMS:
            return f"its store is on {kind} ({point}): processes of other machines may be on it"
        if point != "/" and kind != "tmpfs" and link(f"{PROC}/self/ns/pid") != INITIAL_PID_NAMESPACE:
            return (
                f"we are inside a PID namespace, and its store is on a mount of its own ({point}): others may be on it"
            )
        return None

    def hidepid(self) -> str | None:
        if os.geteuid() == 0:
            return None
        for point, _, _, kind, options in self.entries():
            if point == PROC and kind == "proc":  # the first is the one on top
                words = [word for word in options.split(",") if word.startswith(("hidepid=", "subset="))]
                hiding = [word for word in words if word not in ("hidepid=0", "hidepid=off")]
                return f"{PROC} is mounted with {hiding[-1]}: processes of others are hidden" if hiding else None
        return None


def unescape(text: str) -> str:
    """mountinfo writes blanks as octal."""
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, char)
    return text
