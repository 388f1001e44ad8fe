"""The parsers of /proc, on hand-made and hostile text."""

from __future__ import annotations

import os
import sys
from threading import Event
from typing import TYPE_CHECKING
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.model import Process, ProcessKey
from agentctl.processes import Processes, linux
from tests.children import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")

REST_OF_STAT = "1 7 7 34817 7 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 {start} 1000 10 18446744073709551615"


def stat_line(comm: str, state: str = "S", flags: int = 0x400000, start: int = 4711) -> bytes:
    return f"7 ({comm}) {state} {REST_OF_STAT.format(flags=flags, start=start)}\n".encode()


@pytest.mark.parametrize("comm", ["sleep", "", "a b", ")", "((", "x) R 1 2 3 (y", "new\nline", "7 (z) Z 0"])
def test_stat_with_a_hostile_comm(comm: str) -> None:
    assert linux.parse_stat(stat_line(comm), "boot") == Process(
        ProcessKey("boot", 7, 4711), parent=1, comm=comm, state="S", dead=False, tty=34817
    )


NUMBERS = st.sampled_from([b"0", b"1", b"-1", b"4711", b"34817", b"9" * 20, b"9" * 21, b"x", b"1_0", b"+1", b"\xb2"])
flags = st.sampled_from([b"0", b"4194304", str(linux.KERNEL_THREAD).encode(), b"?"])
comms = st.sampled_from([b"sleep", b"a (b) c", b"", b")", b"\n1 (x) S 1"]) | st.binary(max_size=6)


@given(st.lists(NUMBERS, min_size=22, max_size=52), flags, comms, st.sampled_from("SRTZXx"), st.integers(0, 60))
def test_a_row_by_its_words_one_after_the_other(
    words: list[bytes], flags: bytes, comm: bytes, state: str, cut: int
) -> None:
    words[6] = flags
    rest = [state.encode(), *words[1:]]
    data = words[0] + b" (" + comm + b") " + b" ".join(rest[: len(rest) - cut if cut < 45 else None]) + b"\n"
    threads = mock.patch.object(linux, "has_living_thread", lambda pid: pid % 2 == 0)
    with threads:
        try:
            expected = one_after_the_other(data)
        except ValueError:
            with pytest.raises(ValueError, match="kernel"):
                linux.parse_stat(data, "boot")
        else:
            assert linux.parse_stat(data, "boot") == expected


def one_after_the_other(data: bytes) -> Process | None:
    opening, closing = data.find(b"("), data.rfind(b")")
    fields = data[closing + 2 :].split()
    if opening < 0 or len(fields) < 20:
        return None
    numbers = [linux.whole(word) for word in (fields[1], fields[4].removeprefix(b"-"), fields[6], fields[19])]
    pid, state = linux.whole(data[:opening].strip()), chr(fields[0][0])
    if numbers[2] & linux.KERNEL_THREAD:
        return None
    dead = state in "Xx" or (state == "Z" and not linux.has_living_thread(pid))
    comm = data[opening + 1 : closing].decode(errors="replace")
    return Process(ProcessKey("boot", pid, numbers[3]), numbers[0], comm, state, dead, numbers[1])


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


OFFSETS = "monotonic   {0}   {1}\nboottime   {2}   {3}\n"


@pytest.mark.parametrize(
    ("theirs", "ours", "shift"),
    [
        (OFFSETS.format(0, 0, 0, 0), OFFSETS.format(0, 0, 0, 0), 0),
        (OFFSETS.format(9, 0, 3600, 0), OFFSETS.format(0, 0, 0, 0), 3600 * linux.TICKS_PER_SECOND),
        (OFFSETS.format(0, 0, 0, 0), OFFSETS.format(0, 0, 3600, 0), -3600 * linux.TICKS_PER_SECOND),
        (OFFSETS.format(0, 0, 7, 500_000_000), OFFSETS.format(0, 0, 7, 0), linux.TICKS_PER_SECOND // 2),
        (None, None, 0),  # a kernel that has no such thing, or a process that we may not look into
    ],
)
def test_a_start_as_the_process_reads_it_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, theirs: str | None, ours: str | None, shift: int
) -> None:
    for name, text in (("7", theirs), ("self", ours)):
        (tmp_path / name).mkdir()
        if text is not None:
            (tmp_path / name / "timens_offsets").write_text(text)
    monkeypatch.setattr(linux, "PROC", str(tmp_path))
    row = Process(ProcessKey("boot", 7, 4711), parent=1, comm="x", state="S")
    assert linux.own_start(row) == 4711 + shift
    table = Processes("boot", [row], read_own_start=linux.own_start)
    assert table.find(7, 4711 + shift) is row
    assert table.find(7, 4711 + shift + 1) is None


def test_an_environment_longer_than_any_that_linux_allows_by_default_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "environ"
    path.write_bytes(b"LONG=" + b"x" * 5 * 1024 * 1024 + b"\0LAST=1\0")
    assert linux.environment(str(path), frozenset({"LAST"})) == {"LAST": "1"}


def test_of_a_variable_set_twice_the_first_counts_as_in_getenv(tmp_path: Path) -> None:
    path = tmp_path / "environ"
    path.write_bytes(b"HOME=/first\0no equals sign\0HOME=/second\0")
    assert linux.environment(str(path), frozenset({"HOME"})) == {"HOME": "/first"}


LOCKS = b"""\
1: POSIX  ADVISORY  READ 11 08:02:100 128 128
2: FLOCK  ADVISORY  WRITE 12 08:02:100 0 EOF
2: -> FLOCK  ADVISORY  WRITE 13 08:02:100 0 EOF
3: OFDLCK ADVISORY  WRITE -1 08:02:100 0 EOF
4: FLOCK  ADVISORY  READ 14 fd:1a:200 0 EOF
5: FLOCK  ADVISORY  READ 15 fd:1a:200 0 EOF
5: FLOCK  ADVISORY  READ 15 fd:1a:200 0 EOF
6: FLOCK  ADVISORY  WRITE -1 08:02:300 0 EOF
7: LEASE  ACTIVE    WRITE 16 08:02:100 0 EOF
8: FLOCK  ADVISORY  WRITE 17 <none>:0 0 EOF
9: FLOCK  ADV"""


def test_locks_are_those_of_flock_and_of_holders_only_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linux, "read", lambda path, limit: LOCKS)
    assert linux.flocks() == {(8, 2, 100): (12,), (0xFD, 0x1A, 200): (14, 15), (8, 2, 300): (-1,)}


def test_what_is_asked_meanwhile_is_waited_for_where_it_is_needed() -> None:
    asked, told = Event(), Event()

    def ask() -> dict[tuple[int, int, int], tuple[int, ...]]:
        asked.set()
        assert told.wait(PATIENCE)
        return {(8, 2, 300): (7,)}

    locks = linux.Meanwhile(ask)
    row = Process(ProcessKey("boot", 7, 1), 1, "x", "S")
    table = Processes("boot", [row], read_locks=locks.answer, lock_identity=lambda path: (8, 2, 300))
    assert asked.wait(PATIENCE)
    assert table.get(7) == row  # nobody waits for it here
    told.set()
    assert table.knows_locks
    assert table.lock_owners("x") == (row,)


@pytest.mark.parametrize("room", [True, False], ids=["in a thread", "no room for a thread"])
def test_locks_that_cannot_be_read_are_not_known(room: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise RuntimeError("can't start new thread")

    if not room:
        monkeypatch.setattr(linux, "start_new_thread", refuse)
    unknown, none = linux.Meanwhile(lambda: None), linux.Meanwhile(dict)
    assert not Processes("boot", [], read_locks=unknown.answer).knows_locks
    assert Processes("boot", [], read_locks=none.answer).knows_locks
    table = Processes("boot", [], read_locks=unknown.answer, lock_identity=lambda path: (8, 2, 300))
    assert table.lock_owners("x") == ()


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
    assert linux.flocks() is None


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
    real = linux.read_row

    def refuse(path: str, at: int | None = None) -> bytes:
        if path == f"{os.getpid()}/stat":
            raise PermissionError
        return real(path, at)

    monkeypatch.setattr(linux, "read_row", refuse)
    processes = linux.snapshot(frozenset())
    assert processes.hidden is not None
    assert not processes.gone(ProcessKey(processes.boot, os.getpid(), 1))
