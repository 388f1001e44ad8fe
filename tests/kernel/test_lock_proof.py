"""Who holds a lock: the kernel's list names who took it, and only open files prove that a process holds it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from agentctl.kernel import linux, lock_proof, one_process
from agentctl.kernel.mounts import Mounts
from tests.support.children import HALF_DEAD, end, row_of

if TYPE_CHECKING:
    from pathlib import Path

    from agentctl.kernel.source import Locks
    from tests.support.children import Spawn

pytestmark = pytest.mark.linux
# It takes a lock and starts a tool that inherits it, and writes that tool's pid.
TAKES = """import fcntl, os
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(fd, fcntl.LOCK_EX)
os.set_inheritable(fd, True)
r, w = os.pipe()
tool = os.fork()
if tool == 0:
    os.close(w)
    os.read(r, 1)
    os._exit(0)
os.close(r)
open(sys.argv[2], 'w').write(str(tool))
"""


def named(path: Path, pid: int) -> Locks:
    """The kernel's list, as it is if this process took the lock on this file."""
    identity = Mounts().identity(str(path))
    assert identity is not None
    return {identity: (pid,)}


def test_only_who_holds_it_owns_it(spawn: Spawn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "its.lock"
    taker, stranger = spawn(TAKES, str(path), str(tmp_path / "tool")), spawn()
    tool = int((tmp_path / "tool").read_text())
    table = linux.snapshot(frozenset())
    assert [process.pid for process in table.lock_owners(str(path))] == [taker.pid]
    assert table.unproved_owners(str(path)) == ()
    for pid, owns in ((stranger.pid, False), (tool, True), (os.getpid(), False)):
        monkeypatch.setattr(linux, "flocks", lambda pid=pid: named(path, pid))
        table = linux.snapshot(frozenset())
        assert [process.pid for process in table.lock_owners(str(path))] == ([pid] if owns else [])
        assert table.unproved_owners(str(path)) == ()
    end(taker)


def test_two_files_of_one_identity_are_told_apart(
    spawn: Spawn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files in layers of an overlay, or in subvolumes of a btrfs, may have one inode number on one device."""
    path, other = tmp_path / "its.lock", tmp_path / "other.lock"
    other.touch()
    taker = spawn(TAKES, str(path), str(tmp_path / "tool"))
    identity = Mounts().identity(str(path))
    monkeypatch.setattr(Mounts, "identity", lambda self, path: identity)
    table = linux.snapshot(frozenset())
    assert table.lock_owners(str(other)) == ()
    assert [process.pid for process in table.lock_owners(str(path))] == [taker.pid]


OF_A_THREAD = """import ctypes, fcntl, os, threading, time
def take():
    assert ctypes.CDLL(None).unshare(0x400) == 0
    fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
    fcntl.flock(fd, fcntl.LOCK_EX)
    taken.set()
    time.sleep(600)
taken = threading.Event()
threading.Thread(target=take, daemon=True).start()
taken.wait()
"""


def test_a_thread_may_have_open_files_of_its_own(spawn: Spawn, tmp_path: Path) -> None:
    path = tmp_path / "its.lock"
    taker = spawn(OF_A_THREAD, str(path))
    table = linux.snapshot(frozenset())
    assert [process.pid for process in table.lock_owners(str(path))] == [taker.pid]


def test_a_first_thread_that_ended_since_the_table_was_read(spawn: Spawn, tmp_path: Path) -> None:
    """The folder of the process is empty from then on: that is no proof that it holds nothing."""
    path = tmp_path / "its.lock"
    takes = "import fcntl, os\nfd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)\nfcntl.flock(fd, fcntl.LOCK_EX)\n"
    child = spawn(takes + HALF_DEAD, str(path))
    table = linux.snapshot(frozenset())
    before = row_of(table, child)._replace(state="S")  # as the table had it a moment earlier
    identity = Mounts().identity(str(path))
    assert identity is not None
    source = linux.Proc(frozenset({"PATH"}))
    assert source.holds_lock(before, identity, str(path)) is True
    assert str(path) in source.open_files(before)
    assert str(path) in [name for name, _ in source.written_files(before) or ()]
    assert source.positions(before, str(path)) == [0]
    details, place = source.details(before), source.place(before)
    assert details is not None and details.argv and details.exe and details.env and details.cwd == os.getcwd()
    assert place is not None and place.at == details.directory == directory_identity(os.getcwd())


def directory_identity(path: str) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino


def test_a_program_that_was_read_when_the_first_thread_had_ended_is_read_again(spawn: Spawn) -> None:
    child = spawn(HALF_DEAD)
    before = row_of(linux.snapshot(frozenset()), child)._replace(state="S")
    source = linux.Proc(frozenset())
    assert source.program(before).exe is None
    details = source.details(before)
    assert details is not None and details.exe is not None and details.argv is not None


def test_a_closed_process_is_no_proved_owner(spawn: Spawn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "its.lock"
    path.touch()
    child = spawn()

    def refuse(*_: object) -> object:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(lock_proof, "locks_of", refuse)
    monkeypatch.setattr(linux, "flocks", lambda: named(path, child.pid))
    table = linux.snapshot(frozenset())
    assert table.lock_owners(str(path)) == ()
    assert table.unproved_owners(str(path)) == (row_of(table, child),)


def test_what_was_proved_counts_only_for_the_process_of_the_table(
    spawn: Spawn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "its.lock"
    spawn(TAKES, str(path), str(tmp_path / "tool"))
    table = linux.snapshot(frozenset())
    monkeypatch.setattr(one_process, "as_it_is_now", lambda process: None)
    assert table.lock_owners(str(path)) == ()


@pytest.mark.parametrize(
    ("line", "identity"),
    [
        (b"1: FLOCK  ADVISORY  WRITE 12 08:02:100 0 EOF", (8, 2, 100)),
        (b"1: POSIX  ADVISORY  WRITE 12 08:02:100 0 EOF", None),
        (b"1: -> FLOCK  ADVISORY  WRITE 12 08:02:100 0 EOF", None),
        (b"1: FLOCK  ADVISORY  WRITE 12 08:100 0 EOF", None),
        (b"1: FLOCK  ADVISORY", None),
        (b"", None),
    ],
)
def test_the_file_of_a_lock(line: bytes, identity: tuple[int, int, int] | None) -> None:
    assert lock_proof.identity_in(line.split()) == identity
