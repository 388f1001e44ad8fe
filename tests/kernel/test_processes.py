"""Both readers of the process table, held to one contract with real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentctl.kernel import linux, portable
from agentctl.kernel.processes import Processes
from agentctl.kernel.stat_line import KERNEL_THREAD
from agentctl.model import Details, Process, ProcessKey
from tests.support.children import (
    HALF_DEAD,
    PARENT,
    PATIENCE,
    Source,
    Spawn,
    details_of,
    end,
    end_unreaped,
    hear,
    look,
    row_of,
    say,
    true_key,
    until,
)
from tests.support.table import source as stub

pytestmark = pytest.mark.linux

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


def test_what_can_be_read_of_a_zombie_leader(source: Source, spawn: Spawn) -> None:
    child = spawn(HALF_DEAD)
    table = look(source, "PATH")
    details = details_of(table, child)
    if source is portable:
        assert details.argv is None and details.env is None
        return
    # Its other threads show what it runs and has open; the folder of its first thread shows nothing of that any more.
    assert details.argv and details.argv[1] == "-c"
    assert details.env and details.cwd == os.getcwd()
    assert details.exe == table.executables()[child.pid] == os.path.realpath(sys.executable)


def test_another_process_with_the_pid_is_not_it(source: Source, spawn: Spawn) -> None:
    child = spawn()
    key = true_key(child.pid)
    processes = look(source)
    for other in (ProcessKey(key.boot, key.pid, key.start - 1), ProcessKey(key.boot, key.pid, key.start + 1)):
        assert processes.alive(other) is None
        assert processes.gone(other)
        assert processes.find(child.pid, other.start) is None
        assert processes.details(Process(other, 1, "", "S")) is None


def test_another_boot_is_gone(source: Source, spawn: Spawn) -> None:
    key = true_key(spawn().pid)
    processes = look(source)
    before = ProcessKey("00000000-0000-0000-0000-000000000000", key.pid, key.start)
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
        if int(fields[6]) & KERNEL_THREAD:
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
    assert processes.open_files(row._replace(key=ProcessKey(row.key.boot, row.pid, row.key.start - 1))) == []
    end(child)
    assert processes.open_files(row) == []


def test_each_writer_of_a_shared_log_stands_behind_its_own_last_line(spawn: Spawn, tmp_path: Path) -> None:
    path = tmp_path / "shared.log"
    code = "file = open(sys.argv[1], 'a')\nfile.write(sys.argv[2])\nfile.flush()"
    first = spawn(code, str(path), "line of the first\n")
    second = spawn(code, str(path), "line of the second one\n")
    reader = spawn("file = open(sys.argv[1])", str(path))
    processes = linux.snapshot(frozenset())
    ends = {child.pid: processes.positions(row_of(processes, child), str(path)) for child in (first, second, reader)}
    assert ends == {first.pid: [18], second.pid: [41], reader.pid: [0]}
    row = row_of(processes, first)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "shared.log").touch()
    assert processes.positions(row, str(tmp_path / "other" / "shared.log")) == []
    assert processes.positions(row, str(tmp_path / "none")) == []
    assert processes.positions(row._replace(key=ProcessKey(row.key.boot, row.pid, row.key.start - 1)), str(path)) == []
    end(first)
    assert processes.positions(row, str(path)) == []


LISTENER = """
import socket
def listen(address):
    listener = socket.create_server((address, 0))
    return listener, listener.getsockname()[1]
mine, port = listen('127.0.0.1')
public, _ = listen('0.0.0.0')
talking = socket.create_connection(('127.0.0.1', port))
print(port, flush=True)
sys.stdin.readline()
mine.close()
"""


def test_the_ports_of_a_process_are_those_it_listens_on_itself(spawn: Spawn) -> None:
    child = spawn("print('ready', flush=True)" + LISTENER)
    bystander = spawn()
    port = int(hear(child))
    processes = linux.snapshot(frozenset())
    row = row_of(processes, child)
    assert processes.ports(row) == [port]
    assert processes.ports(row_of(processes, bystander)) == []
    assert processes.ports(row._replace(key=ProcessKey(row.key.boot, row.pid, row.key.start - 1))) == []
    say(child, "close it")
    until(lambda: processes.ports(row) == [])  # read anew each time: a port may change hands


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
    proving = Processes("boot", [], stub(absent=source.absent), hidden="some")
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


def test_during_exec_argv_and_environment_are_not_known(source: Source) -> None:
    """When Popen returns, the kernel may not have set up the new program yet: neither word nor variable is there."""
    env = {"PATH": os.environ["PATH"]}
    table = source.snapshot(frozenset(env))
    for _ in range(50):
        child = subprocess.Popen(["sleep", "60"], env=env)
        try:
            details = table.details(Process(true_key(child.pid), os.getpid(), "", "S"))
        finally:
            child.kill()
            child.wait(PATIENCE)
        assert details is not None
        assert details.env in (None, env)
        assert details.argv in (None, ("sleep", "60"))


# The table itself


def test_a_process_of_an_inner_namespace_is_found_by_its_own_pid_and_start() -> None:
    rows = [Process(ProcessKey("b", 500, 77), 1, "x", "S"), Process(ProcessKey("b", 7, 11), 1, "y", "S")]
    inner = {500: Details(pids=(500, 7)), 7: Details(pids=(7,))}
    processes = Processes("b", rows, stub(details=lambda process: inner[process.pid]))
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
    processes = Processes("b", [row], stub(details=lambda process: asked.append(process.pid)))
    assert processes.details(row) is None
    assert processes.details(row) is None
    assert asked == [2]
