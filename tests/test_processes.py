"""Both readers of the process table, held to one contract with real processes; then the parsers of /proc alone."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import psutil
import pytest

from agentctl.model import Details, Process, ProcessKey
from agentctl.processes import Processes, linux, portable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    Child = subprocess.Popen[bytes]

    class Spawn(Protocol):
        def __call__(self, code: str = "", *words: str | bytes, **options: Any) -> Child: ...


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="drives both sources, and one of them is /proc")

PATIENCE = 30.0  # until a test gives up; nothing here is expected to take that long
REST = "print('ready', flush=True)\nsys.stdin.read()\n"  # ends with its stdin, so also when the tests are killed
PARENT = "import subprocess\nchild = subprocess.Popen([sys.executable, '-c', 'import sys; sys.stdin.read()'])\n"
HALF_DEAD = """
import ctypes, threading
def go_on():
    while 'State:\\tZ' not in open('/proc/self/status').read():
        pass
    print('ready', flush=True)
    sys.stdin.read()
threading.Thread(target=go_on).start()
ctypes.CDLL(None).pthread_exit(None)
"""


class Source(Protocol):
    def snapshot(self, env_names: frozenset[str]) -> Processes: ...
    def absent(self, pid: int) -> bool: ...
    def details(self, process: Process, env_names: frozenset[str]) -> Details | None: ...


@pytest.fixture(params=[linux, portable], ids=["linux", "portable"])
def source(request: pytest.FixtureRequest) -> Source:
    found: Source = request.param
    return found


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Start Python children; each has said that it is ready, and none outlives its test."""
    children: list[Child] = []

    def start(code: str = "", *words: str | bytes, **options: Any) -> Child:
        child = subprocess.Popen(
            [sys.executable, "-c", f"import sys\n{code}\n{REST}", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            **options,
        )
        children.append(child)
        assert hear(child) == "ready"
        return child

    yield start
    for child in children:
        end(child)


def hear(child: Child) -> str:
    assert child.stdout is not None
    assert select.select([child.stdout], [], [], PATIENCE)[0], "the child says nothing"
    return child.stdout.readline().decode().strip()


def say(child: Child, text: str) -> None:
    assert child.stdin is not None
    child.stdin.write(text.encode() + b"\n")
    child.stdin.flush()


def end(child: Child) -> None:
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            pipe.close()
    child.send_signal(signal.SIGCONT)
    for last_resort in (child.terminate, child.kill):
        try:
            child.wait(PATIENCE / 3)
        except subprocess.TimeoutExpired:
            last_resort()
    child.wait(PATIENCE)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.005)


def end_unreaped(child: Child) -> None:
    """It ends, and nobody asks how: a zombie."""
    child.kill()
    until(lambda: os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None)


def row_of(processes: Processes, child: Child) -> Process:
    row = processes.get(child.pid)
    assert row is not None
    return row


def details_of(processes: Processes, child: Child) -> Details:
    details = processes.details(row_of(processes, child))
    assert details is not None
    return details


def true_key(pid: int) -> ProcessKey:
    """The key as /proc has it, taken apart in the simplest way."""
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return ProcessKey(Path("/proc/sys/kernel/random/boot_id").read_text().strip(), pid, int(fields[19]))


def look(source: Source, *env_names: str) -> Processes:
    return source.snapshot(frozenset(env_names))


# The contract


def test_a_live_child_is_alive_under_its_key(source: Source, spawn: Spawn) -> None:
    child = spawn()
    key = true_key(child.pid)
    processes = look(source)
    row = processes.alive(key)
    assert row is not None
    assert row.key == key
    assert row.parent == os.getpid()
    assert not row.dead and not row.suspended
    assert not processes.gone(key)
    assert processes.find(child.pid, key.start) == row
    assert processes.hidden is None


def test_an_ended_and_reaped_child_is_gone(source: Source, spawn: Spawn) -> None:
    child = spawn()
    key = true_key(child.pid)
    end(child)
    processes = look(source)
    assert child.pid not in processes.by_pid
    assert processes.alive(key) is None
    assert processes.gone(key)
    assert processes.get(child.pid) is None


def test_a_zombie_is_dead_though_it_has_a_row(source: Source, spawn: Spawn) -> None:
    child = spawn()
    key = true_key(child.pid)
    end_unreaped(child)
    processes = look(source)
    row = processes.by_pid[child.pid]
    assert (row.key, row.state, row.dead) == (key, "Z", True)
    assert processes.alive(key) is None
    assert processes.get(child.pid) is None
    assert processes.gone(key)
    assert row not in processes.children(os.getpid())
    assert processes.details(row) is None


def test_a_zombie_leader_whose_threads_go_on_is_alive(source: Source, spawn: Spawn) -> None:
    child = spawn(HALF_DEAD)
    key = true_key(child.pid)
    row = look(source).alive(key)
    assert row is not None
    assert (row.state, row.dead) == ("Z", False)
    end_unreaped(child)
    assert look(source).alive(key) is None


def test_what_cannot_be_read_of_a_zombie_leader_is_not_empty(source: Source, spawn: Spawn) -> None:
    child = spawn(HALF_DEAD)
    details = details_of(look(source, "PATH"), child)
    assert details.argv is None
    assert details.env is None


def test_another_process_with_the_pid_is_not_it(source: Source, spawn: Spawn) -> None:
    child = spawn()
    key = true_key(child.pid)
    processes = look(source)
    for other in (key._replace(start=key.start - 1), key._replace(start=key.start + 1)):
        assert processes.alive(other) is None
        assert processes.gone(other)
        assert processes.find(child.pid, other.start) is None
        assert processes.details(Process(other, 1, "", "S")) is None


def test_another_boot_is_gone(source: Source, spawn: Spawn) -> None:
    key = true_key(spawn().pid)
    processes = look(source)
    before = key._replace(boot="00000000-0000-0000-0000-000000000000")
    assert processes.boot == key.boot
    assert processes.alive(before) is None
    assert processes.gone(before)


def test_children_and_descendants(source: Source, spawn: Spawn) -> None:
    child, alone = spawn(PARENT), spawn()
    processes = look(source)
    children = {row.pid for row in processes.children(os.getpid())}
    assert {child.pid, alone.pid} <= children
    (grandchild,) = processes.children(child.pid)
    assert grandchild.parent == child.pid
    assert grandchild.pid not in children
    assert processes.descendants(child.pid) == [grandchild]
    assert {child.pid, alone.pid, grandchild.pid} <= {row.pid for row in processes.descendants(os.getpid())}
    assert processes.descendants(alone.pid) == []


def test_a_stopped_process_is_suspended_and_alive(source: Source, spawn: Spawn) -> None:
    child = spawn()
    child.send_signal(signal.SIGSTOP)
    until(lambda: row_of(look(source), child).suspended)
    assert look(source).alive(true_key(child.pid)) is not None
    child.send_signal(signal.SIGCONT)
    until(lambda: not row_of(look(source), child).suspended)


def test_argv_word_by_word(source: Source, spawn: Spawn) -> None:
    child = spawn("", "two words", "two\nlines", "", "(x)", "ä", b"\xff\xfe not utf-8", "end")
    argv = details_of(look(source), child).argv
    assert argv is not None
    assert argv[0] == sys.executable
    assert argv[3:] == ("two words", "two\nlines", "", "(x)", "ä", "\udcff\udcfe not utf-8", "end")


def test_empty_words_behind_the_last_are_taken_for_padding(source: Source, spawn: Spawn) -> None:
    """A title that a process gave itself is followed by what is left of its argv, set to zero."""
    child = spawn("", "end", "", "")
    argv = details_of(look(source), child).argv
    assert argv is not None
    assert argv[3:] == ("end",)


def test_cwd_exe_uid_and_pids(source: Source, spawn: Spawn, tmp_path: Path) -> None:
    folder = tmp_path / "a folder (deleted)"  # what the kernel adds to a name that was removed
    folder.mkdir()
    child = spawn(cwd=folder)
    details = details_of(look(source), child)
    assert details.cwd == str(folder.resolve())
    assert details.exe == os.path.realpath(sys.executable)
    assert details.uid == os.getuid()
    assert details.pids == (child.pid,)


def test_the_cwd_of_a_removed_folder_is_its_name(source: Source, spawn: Spawn, tmp_path: Path) -> None:
    folder = tmp_path / "removed"
    folder.mkdir()
    child = spawn(cwd=folder)
    folder.rmdir()
    assert details_of(look(source), child).cwd == str(tmp_path.resolve() / "removed")


def test_only_the_environment_that_was_asked_for(source: Source, spawn: Spawn) -> None:
    child = spawn(env={"ASKED": "a=b\nc", "EMPTY": "", "SECRET": "x", "BYTES": b"\xff"})
    details = details_of(look(source, "ASKED", "EMPTY", "BYTES", "UNSET"), child)
    assert details.env == {"ASKED": "a=b\nc", "EMPTY": "", "BYTES": "\udcff"}
    assert details_of(look(source), child).env == {}


def test_an_environment_without_any_variable_is_not_believed(source: Source, spawn: Spawn) -> None:
    """So every environment looks during exec, and a protected one on macOS."""
    child = spawn(env={})
    assert details_of(look(source, "PATH"), child).env is None


@pytest.mark.parametrize("name", ["a) b (c", "x) Z 1 (", " ", "fifteen letters"])
def test_comm_with_blanks_and_brackets(source: Source, spawn: Spawn, name: str) -> None:
    child = spawn(f"import ctypes\nctypes.CDLL(None).prctl(15, {name.encode()!r}, 0, 0, 0)")
    row = look(source).alive(true_key(child.pid))
    assert row is not None
    assert (row.comm, row.parent, row.dead) == (name, os.getpid(), False)


def test_the_terminal_is_its_device_number(source: Source, spawn: Spawn) -> None:
    look(source)  # a terminal that is opened after the first look is seen by the next
    master, slave = os.openpty()
    try:
        code = f"import os\nos.open({os.ttyname(slave)!r}, os.O_RDWR)"
        child, without = spawn(code, start_new_session=True), spawn(start_new_session=True)
        processes = look(source)
        assert row_of(processes, child).tty == os.stat(os.ttyname(slave)).st_rdev
        assert row_of(processes, without).tty == 0
    finally:
        os.close(master)
        os.close(slave)


def test_kernel_threads_are_no_processes(source: Source) -> None:
    threads = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue
        if int(fields[6]) & linux.KERNEL_THREAD:
            threads.add(int(stat.parent.name))
    processes = look(source)
    assert threads.isdisjoint(processes.by_pid)
    assert {os.getpid(), os.getppid()} <= set(processes.by_pid)


def test_a_process_that_ended_after_the_snapshot_has_no_details(source: Source, spawn: Spawn) -> None:
    reaped, zombie = spawn(), spawn()
    processes = look(source)
    rows = [row_of(processes, reaped), row_of(processes, zombie)]
    end(reaped)
    end_unreaped(zombie)
    assert [processes.details(row) for row in rows] == [None, None]


def test_the_owner_of_a_lock_is_found_by_the_path(source: Source, spawn: Spawn, tmp_path: Path) -> None:
    path, other = tmp_path / "its.lock", tmp_path / "other.lock"
    for file in (path, other):
        file.touch()
    code = "import fcntl\nfile = open(sys.argv[1])\nfcntl.flock(file, fcntl.LOCK_EX)\nprint('ready', flush=True)\n"
    release = "sys.stdin.readline()\nfile.close()\n"
    child = spawn(code + release, str(path))
    processes = look(source)
    assert processes.lock_owners(str(path)) == (row_of(processes, child),)
    assert processes.lock_owners(str(other)) == ()
    assert processes.lock_owners(str(tmp_path / "missing")) == ()
    (tmp_path / "a link").symlink_to(path)
    assert processes.lock_owners(str(tmp_path / "a link")) == (row_of(processes, child),)
    say(child, "release")
    assert hear(child) == "ready"
    assert look(source).lock_owners(str(path)) == ()


def test_the_open_files_of_a_process(source: Source, spawn: Spawn, tmp_path: Path) -> None:
    path = tmp_path / "an open file"
    path.touch()
    child = spawn("file = open(sys.argv[1])", str(path))
    processes = look(source)
    row = row_of(processes, child)
    assert str(path.resolve()) in processes.open_files(row)
    assert processes.open_files(row._replace(key=row.key._replace(start=row.key.start - 1))) == []
    end(child)
    assert processes.open_files(row) == []


def test_an_open_file_is_not_a_lock_where_the_kernel_lists_locks(spawn: Spawn, tmp_path: Path) -> None:
    path = tmp_path / "its.lock"
    path.touch()
    spawn("file = open(sys.argv[1])", str(path))
    assert look(linux).lock_owners(str(path)) == ()


def test_unseen_is_gone_only_with_proof_where_processes_are_hidden(source: Source, spawn: Spawn) -> None:
    alive, ended = spawn(), spawn()
    end(ended)
    blind = Processes("boot", [], hidden="some")
    assert not blind.gone(ProcessKey("boot", alive.pid, 1))
    assert not blind.gone(ProcessKey("boot", ended.pid, 1))
    proving = Processes("boot", [], hidden="some", absent=source.absent)
    assert not proving.gone(ProcessKey("boot", alive.pid, 1))
    assert proving.gone(ProcessKey("boot", ended.pid, 1))
    assert proving.gone(ProcessKey("another", alive.pid, 1))
    assert Processes("boot", []).gone(ProcessKey("boot", ended.pid, 1))


def test_no_process_has_an_impossible_pid_and_groups_are_not_asked(source: Source) -> None:
    assert source.absent(2**40)
    assert source.absent(10**30)
    assert not source.absent(0)
    assert not source.absent(-1)


def test_started_at_is_near_the_clock(source: Source, spawn: Spawn) -> None:
    before = time.time()
    key = true_key(spawn().pid)
    assert before - 60 < look(source).started_at(key) < time.time() + 60


def test_both_sources_agree(spawn: Spawn, tmp_path: Path) -> None:
    children = [spawn(PARENT, "a b", "", "\n"), spawn(cwd=tmp_path, env={"HOME": "/x", "OTHER": "y"})]
    first, second = look(linux, "HOME"), look(portable, "HOME")
    assert first.boot == second.boot
    assert first.ticks_per_second == second.ticks_per_second
    both = first.by_pid.keys() & second.by_pid.keys()
    assert {os.getpid(), os.getppid(), *(child.pid for child in children)} <= both
    assert [first.by_pid[pid].key for pid in both] == [second.by_pid[pid].key for pid in both]
    for child in children:
        assert row_of(first, child)._replace(state="") == row_of(second, child)._replace(state="")
        assert details_of(first, child) == details_of(second, child)
        assert [row.key for row in first.descendants(child.pid)] == [row.key for row in second.descendants(child.pid)]


# The portable source, as far as Linux can show what it does elsewhere


def test_off_linux_the_start_is_in_microseconds(spawn: Spawn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portable, "LINUX", False)
    monkeypatch.setattr(portable, "TICKS_PER_SECOND", 1_000_000)
    child = spawn()
    processes = look(portable, "PATH")
    key = ProcessKey("", child.pid, true_key(child.pid).start * (1_000_000 // linux.TICKS_PER_SECOND))
    assert processes.alive(key) is not None
    assert processes.boot == ""  # no such sysctl here
    assert processes.boot_time == 0.0


def test_pid_0_of_macos_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "pids", lambda: [0, os.getpid()])
    processes = look(portable)
    assert list(processes.by_pid) == [os.getpid()]
    assert processes.hidden is None


def test_a_refused_read_is_not_an_absence(spawn: Spawn, monkeypatch: pytest.MonkeyPatch) -> None:
    child = spawn()
    key = true_key(child.pid)
    real = portable.read_row

    def refuse(process: psutil.Process, boot: str) -> Process:
        if process.pid == child.pid:
            raise psutil.AccessDenied(process.pid)
        return real(process, boot)

    monkeypatch.setattr(portable, "read_row", refuse)
    processes = look(portable)
    assert processes.hidden is not None
    assert processes.alive(key) is None
    assert not processes.gone(key)


def test_no_such_process_is_not_believed_while_the_pid_is_taken(spawn: Spawn, monkeypatch: pytest.MonkeyPatch) -> None:
    child = spawn()
    real = portable.read_row
    errors = [psutil.NoSuchProcess(child.pid)]

    def mistaken(process: psutil.Process, boot: str) -> Process:
        if process.pid == child.pid and errors:
            raise errors.pop()
        return real(process, boot)

    monkeypatch.setattr(portable, "read_row", mistaken)
    assert look(portable).alive(true_key(child.pid)) is not None
    errors.extend([psutil.NoSuchProcess(child.pid)] * 10)
    processes = look(portable)
    assert processes.hidden is not None
    assert not processes.gone(true_key(child.pid))


def test_open_files_are_read_only_when_a_lock_is_asked_for(
    spawn: Spawn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    child = spawn()
    asked: list[int] = []

    def ask(process: Process) -> list[str]:
        asked.append(process.pid)
        return []

    monkeypatch.setattr(portable, "open_files", ask)
    processes = look(portable)
    assert asked == []
    assert processes.lock_owners(str(tmp_path)) == ()
    assert processes.lock_owners(str(tmp_path)) == ()
    assert len(asked) == len(set(asked))
    assert child.pid in asked


@pytest.mark.parametrize(
    ("root", "kind"), [("/home/x", None), ("/net/home", "nfs"), ("/network", None), ("/net/home/deep/x", "macfuse")]
)
def test_off_linux_a_store_on_a_network_is_not_ours_alone(
    monkeypatch: pytest.MonkeyPatch, root: str, kind: str | None
) -> None:
    class Mount(NamedTuple):
        mountpoint: str
        fstype: str

    mounts = [Mount("/net/home/deep", "macfuse"), Mount("/", "apfs"), Mount("/net", "nfs")]
    monkeypatch.setattr(portable, "LINUX", False)
    monkeypatch.setattr(psutil, "disk_partitions", lambda all: mounts)
    why = portable.shared_with_others(root)
    assert why is None if kind is None else why is not None and kind in why
    monkeypatch.setattr(psutil, "disk_partitions", lambda all: [])
    assert portable.shared_with_others(root) is not None


def test_a_missing_sysctl_is_an_empty_text() -> None:
    assert portable.sysctl(b"kern.bootsessionuuid") == ""


# The parsers of /proc

REST_OF_STAT = "1 7 7 34817 7 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 {start} 1000 10 18446744073709551615"


def stat_line(comm: str, state: str = "S", flags: int = 0x400000, start: int = 4711) -> bytes:
    return f"7 ({comm}) {state} {REST_OF_STAT.format(flags=flags, start=start)}\n".encode()


@pytest.mark.parametrize("comm", ["sleep", "", "a b", ")", "((", "x) R 1 2 3 (y", "new\nline", "7 (z) Z 0"])
def test_stat_with_a_hostile_comm(comm: str) -> None:
    assert linux.parse_stat(stat_line(comm), "boot") == Process(
        ProcessKey("boot", 7, 4711), parent=1, comm=comm, state="S", dead=False, tty=34817
    )


def test_stat_with_a_comm_that_is_not_utf8() -> None:
    row = linux.parse_stat(stat_line("@").replace(b"@", b"\xff\xfe"), "boot")
    assert row is not None
    assert row.comm == "\ufffd\ufffd"


def test_stat_of_a_kernel_thread_and_of_nothing() -> None:
    assert linux.parse_stat(stat_line("kworker/0:1", flags=0x400000 | linux.KERNEL_THREAD), "boot") is None
    for data in (b"", b"7 (sleep", b"7 (sleep) S 1 7 7", b"no brackets at all"):
        assert linux.parse_stat(data, "boot") is None


@pytest.mark.parametrize(
    ("state", "threads", "dead"),
    [("S", False, False), ("T", False, False), ("Z", False, True), ("Z", True, False), ("X", True, True)],
)
def test_which_states_are_dead(state: str, threads: bool, dead: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linux, "has_living_thread", lambda pid: threads)
    row = linux.parse_stat(stat_line("x", state), "boot")
    assert row is not None
    assert row.dead is dead


def fake_task_folder(monkeypatch: pytest.MonkeyPatch, threads: dict[str, bytes | OSError]) -> None:
    def read(path: str, limit: int) -> bytes:
        found = threads[path.split("/")[-2]]
        if isinstance(found, OSError):
            raise found
        return found

    monkeypatch.setattr(os, "listdir", lambda path: list(threads))
    monkeypatch.setattr(linux, "read", read)


def test_one_thread_that_ends_while_we_look_is_not_the_end_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = ProcessLookupError()
    fake_task_folder(monkeypatch, {"7": stat_line("x", "Z"), "8": ended, "9": stat_line("x) Z (", "S")})
    assert linux.has_living_thread(7)
    fake_task_folder(monkeypatch, {"7": stat_line("x", "Z"), "8": ended, "9": stat_line("x) S (", "X")})
    assert not linux.has_living_thread(7)


def test_a_missing_process_has_no_living_thread() -> None:
    assert not linux.has_living_thread(2**40)


def test_an_environment_longer_than_any_that_linux_allows_by_default_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "environ"
    path.write_bytes(b"LONG=" + b"x" * 5 * 1024 * 1024 + b"\0LAST=1\0")
    assert linux.environment(str(path), frozenset({"LAST"})) == {"LAST": "1"}


def test_of_a_variable_set_twice_the_first_counts_as_in_getenv(tmp_path: Path) -> None:
    path = tmp_path / "environ"
    path.write_bytes(b"HOME=/first\0no equals sign\0HOME=/second\0")
    assert linux.environment(str(path), frozenset({"HOME"})) == {"HOME": "/first"}


def test_during_exec_argv_and_environment_are_not_known(source: Source) -> None:
    """When Popen returns, the kernel may not have set up the new program yet: neither word nor variable is there."""
    env = {"PATH": os.environ["PATH"]}
    for _ in range(50):
        child = subprocess.Popen(["sleep", "60"], env=env)
        try:
            details = source.details(Process(true_key(child.pid), os.getpid(), "", "S"), frozenset(env))
        finally:
            child.kill()
            child.wait(PATIENCE)
        assert details is not None
        assert details.env in (None, env)
        assert details.argv in (None, ("sleep", "60"))


LOCKS = b"""\
1: POSIX  ADVISORY  READ 11 08:02:100 128 128
2: FLOCK  ADVISORY  WRITE 12 08:02:100 0 EOF
2: -> FLOCK  ADVISORY  WRITE 13 08:02:100 0 EOF
3: OFDLCK ADVISORY  WRITE -1 08:02:100 0 EOF
4: FLOCK  ADVISORY  READ 14 fd:1a:200 0 EOF
5: FLOCK  ADVISORY  READ 15 fd:1a:200 0 EOF
6: FLOCK  ADVISORY  WRITE -1 08:02:300 0 EOF
7: LEASE  ACTIVE    WRITE 16 08:02:100 0 EOF
8: FLOCK  ADVISORY  WRITE 17 <none>:0 0 EOF
9: FLOCK  ADV"""


def test_locks_are_those_of_flock_and_of_holders_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linux, "read", lambda path, limit: LOCKS)
    assert linux.flocks() == {(8, 2, 100): (12,), (0xFD, 0x1A, 200): (14, 15), (8, 2, 300): (-1,)}


def test_a_lock_of_nobody_we_can_see_has_no_owner() -> None:
    locks = {(8, 2, 300): (-1, 0, 99)}
    assert Processes("boot", [], locks=locks, lock_identity=lambda path: (8, 2, 300)).lock_owners("x") == ()


MOUNTS = rb"""
22 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw
23 22 0:21 / /proc rw,nosuid - proc proc rw
24 22 0:45 / /merged rw,relatime shared:7 master:3 propagate_from:2 - overlay overlay rw,lowerdir=/a:/b
25 24 0:46 / /merged/inner rw - tmpfs tmpfs rw,size=1k
26 22 0:47 / /with\040blank\011tab\134slash rw - nfs4 server:/x rw,vers=4.2
27 22 0:48 /sub /twice rw - btrfs /dev/sdb rw,subvol=/sub
28 27 0:49 / /twice rw - tmpfs tmpfs rw
29 22 0:50 / /no-options rw - tmpfs tmpfs
30 22 0:51 / /n\303\244h rw - tmpfs tmpfs rw
not a mount
"""


@pytest.fixture
def mounts(monkeypatch: pytest.MonkeyPatch) -> linux.Mounts:
    return mounts_of(monkeypatch, MOUNTS)


def mounts_of(monkeypatch: pytest.MonkeyPatch, text: bytes) -> linux.Mounts:
    monkeypatch.setattr(linux, "read", lambda path, limit: text)
    return linux.Mounts()


@pytest.mark.parametrize(
    ("path", "device", "kind"),
    [
        ("/", (8, 2), "ext4"),
        ("/home/x", (8, 2), "ext4"),
        ("/merged", (0, 45), "overlay"),
        ("/merged/file", (0, 45), "overlay"),
        ("/mergedfile", (8, 2), "ext4"),
        ("/merged/inner/file", (0, 46), "tmpfs"),
        ("/merged/innermost", (0, 45), "overlay"),
        ("/with blank\ttab\\slash/file", (0, 47), "nfs4"),
        ("/twice/file", (0, 49), "tmpfs"),
        ("/no-options/file", (0, 50), "tmpfs"),
    ],
)
def test_the_mount_of_a_path(mounts: linux.Mounts, path: str, device: tuple[int, int], kind: str) -> None:
    found = mounts.of(path)
    assert found is not None
    assert (found[1:3], found[3]) == (device, kind)


def test_the_identity_of_a_file_is_of_its_mount_and_not_of_its_stat(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path.resolve() / "a mount"
    folder.mkdir()
    (folder / "file").touch()
    (tmp_path / "link").symlink_to(folder / "file")
    point = str(folder).replace(" ", "\\040")
    mounts = mounts_of(monkeypatch, MOUNTS + f"40 22 251:259 / {point} rw - btrfs /dev/x rw\n".encode())
    inode = (folder / "file").stat().st_ino
    assert mounts.identity(str(folder / "file")) == (251, 259, inode)
    assert mounts.identity(str(tmp_path / "link")) == (251, 259, inode)
    assert mounts.identity(str(folder / "missing")) is None


@pytest.mark.parametrize(
    ("root", "namespace", "why"),
    [
        ("/home/x", linux.INITIAL_PID_NAMESPACE, None),
        ("/merged/x", linux.INITIAL_PID_NAMESPACE, None),
        ("/with blank\ttab\\slash/x", linux.INITIAL_PID_NAMESPACE, "nfs4"),
        ("/home/x", "pid:[1]", None),
        ("/merged/x", "pid:[1]", "PID namespace"),
        ("/merged/inner", "pid:[1]", None),
        ("/merged/x", None, "PID namespace"),
    ],
)
def test_which_stores_others_may_write_to(
    mounts: linux.Mounts, monkeypatch: pytest.MonkeyPatch, root: str, namespace: str | None, why: str | None
) -> None:
    monkeypatch.setattr(linux, "link", lambda path: namespace)
    found = mounts.shared_with_others(root)
    assert found is None if why is None else found is not None and why in found


def test_without_mountinfo_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, limit: int) -> bytes:
        raise PermissionError

    monkeypatch.setattr(linux, "read", refuse)
    assert linux.Mounts().of("/") is None
    assert linux.Mounts().identity("/") is None
    assert linux.Mounts().shared_with_others("/") is not None
    assert linux.flocks() == {}


@pytest.mark.parametrize(
    ("options", "hides"),
    [
        ("rw,nosuid - proc proc rw", False),
        ("rw - proc proc rw,hidepid=0", False),
        ("rw - proc proc rw,hidepid=off", False),
        ("rw - proc proc rw,gid=5,hidepid=2", True),
        ("rw - proc proc rw,hidepid=invisible", True),
        ("rw - proc proc rw,hidepid=ptraceable", True),
        ("rw,hidepid=1 - proc proc rw", True),
        ("rw - proc proc rw,subset=pid", True),
    ],
)
def test_hidepid(monkeypatch: pytest.MonkeyPatch, options: str, hides: bool) -> None:
    text = f"23 22 0:21 / /proc {options}\n24 22 0:22 / /elsewhere rw - proc proc rw,hidepid=2\n".encode()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert (mounts_of(monkeypatch, text).hidepid() is not None) is hides
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert mounts_of(monkeypatch, text).hidepid() is None


def test_of_two_mounts_on_proc_only_the_upper_one_can_hide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    hiding, plain = b"23 22 0:21 / /proc rw - proc proc rw,hidepid=2\n", b"24 23 0:22 / /proc rw - proc proc rw\n"
    assert mounts_of(monkeypatch, hiding + plain).hidepid() is None
    assert mounts_of(monkeypatch, plain + hiding).hidepid() is not None


def test_a_process_table_that_refuses_entries_is_incomplete(monkeypatch: pytest.MonkeyPatch) -> None:
    real = linux.read

    def refuse(path: str, limit: int) -> bytes:
        if path == f"/proc/{os.getpid()}/stat":
            raise PermissionError
        return real(path, limit)

    monkeypatch.setattr(linux, "read", refuse)
    processes = look(linux)
    assert processes.hidden is not None
    assert not processes.gone(true_key(os.getpid()))


# The table itself


def test_a_process_of_an_inner_namespace_is_found_by_its_own_pid_and_start() -> None:
    rows = [Process(ProcessKey("b", 500, 77), 1, "x", "S"), Process(ProcessKey("b", 7, 11), 1, "y", "S")]
    inner = {500: Details(pids=(500, 7)), 7: Details(pids=(7,))}
    processes = Processes("b", rows, read_details=lambda process: inner[process.pid])
    assert processes.find(7, 77) == rows[0]
    assert processes.find(7, 11) == rows[1]
    assert processes.find(7, None) == rows[1]
    assert processes.find(7, 12) is None


def test_descendants_end_where_parents_form_a_ring() -> None:
    rows = [Process(ProcessKey("b", pid, 1), parent, "x", "S") for pid, parent in ((2, 3), (3, 2), (4, 4))]
    processes = Processes("b", rows)
    assert {row.pid for row in processes.descendants(2)} == {3}
    assert processes.descendants(4) == []


def test_details_are_read_once() -> None:
    asked: list[int] = []
    row = Process(ProcessKey("b", 2, 1), 1, "x", "S")
    processes = Processes("b", [row], read_details=lambda process: asked.append(process.pid))
    assert processes.details(row) is None
    assert processes.details(row) is None
    assert asked == [2]
