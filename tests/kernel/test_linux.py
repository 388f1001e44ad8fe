"""The parsers of /proc, on hand-made and hostile text."""

from __future__ import annotations

import os
from threading import Event
from typing import TYPE_CHECKING
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.fast.threads import Thread
from agentctl.kernel import linux, one_process, stat_line
from agentctl.kernel.processes import Processes
from agentctl.model import Process, ProcessKey
from tests.support.children import PATIENCE
from tests.support.table import source

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.linux

REST_OF_STAT = "1 7 7 34817 7 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 {start} 1000 10 18446744073709551615"


def line_of_stat(comm: str, state: str = "S", flags: int = 0x400000, start: int = 4711) -> bytes:
    return f"7 ({comm}) {state} {REST_OF_STAT.format(flags=flags, start=start)}\n".encode()


@pytest.mark.parametrize("comm", ["sleep", "", "a b", ")", "((", "x) R 1 2 3 (y", "new\nline", "7 (z) Z 0"])
def test_stat_with_a_hostile_comm(comm: str) -> None:
    assert one_process.parse_stat(line_of_stat(comm), "boot") == Process(
        ProcessKey("boot", 7, 4711), parent=1, comm=comm, state="S", dead=False, tty=34817
    )


NUMBERS = st.sampled_from([b"0", b"1", b"-1", b"4711", b"34817", b"9" * 20, b"9" * 21, b"x", b"1_0", b"+1", b"\xb2"])
flags = st.sampled_from([b"0", b"4194304", str(stat_line.KERNEL_THREAD).encode(), b"?"])
comms = st.sampled_from([b"sleep", b"a (b) c", b"", b")", b"\n1 (x) S 1"]) | st.binary(max_size=6)


@given(st.lists(NUMBERS, min_size=22, max_size=52), flags, comms, st.sampled_from("SRTZXx"), st.integers(0, 60))
def test_a_row_by_its_words_one_after_the_other(
    words: list[bytes], flags: bytes, comm: bytes, state: str, cut: int
) -> None:
    words[6] = flags
    rest = [state.encode(), *words[1:]]
    data = words[0] + b" (" + comm + b") " + b" ".join(rest[: len(rest) - cut if cut < 45 else None]) + b"\n"
    threads = mock.patch.object(one_process, "living_thread", lambda pid: "8" if pid % 2 == 0 else None)
    with threads:
        try:
            expected = one_after_the_other(data)
        except ValueError:
            with pytest.raises(ValueError, match="kernel"):
                one_process.parse_stat(data, "boot")
        else:
            assert one_process.parse_stat(data, "boot") == expected


def one_after_the_other(data: bytes) -> Process | None:
    opening, closing = data.find(b"("), data.rfind(b")")
    fields = data[closing + 2 :].split()
    if opening < 0 or len(fields) < 20:
        return None
    numbers = [stat_line.whole(word) for word in (fields[1], fields[4].removeprefix(b"-"), fields[6], fields[19])]
    pid, state = stat_line.whole(data[:opening].strip()), chr(fields[0][0])
    if numbers[2] & stat_line.KERNEL_THREAD:
        return None
    dead = state in "Xx" or (state == "Z" and not one_process.living_thread(pid))
    comm = data[opening + 1 : closing].decode(errors="replace")
    return Process(ProcessKey("boot", pid, numbers[3]), numbers[0], comm, state, dead, numbers[1])


def test_stat_with_a_comm_that_is_not_utf8() -> None:
    row = one_process.parse_stat(line_of_stat("@").replace(b"@", b"\xff\xfe"), "boot")
    assert row is not None
    assert row.comm == "\ufffd\ufffd"


def test_stat_of_a_kernel_thread_and_of_nothing() -> None:
    assert one_process.parse_stat(line_of_stat("kworker/0:1", flags=0x400000 | stat_line.KERNEL_THREAD), "boot") is None
    for data in (b"", b"7 (sleep", b"7 (sleep) S 1 7 7", b"no brackets at all"):
        assert one_process.parse_stat(data, "boot") is None


@pytest.mark.parametrize(
    ("state", "threads", "dead"),
    [("S", False, False), ("T", False, False), ("Z", False, True), ("Z", True, False), ("X", True, True)],
)
def test_which_states_are_dead(state: str, threads: bool, dead: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_process, "living_thread", lambda pid: "8" if threads else None)
    row = one_process.parse_stat(line_of_stat("x", state), "boot")
    assert row is not None
    assert row.dead is dead


def fake_task_folder(monkeypatch: pytest.MonkeyPatch, threads: dict[str, bytes | OSError]) -> None:
    def read(path: str, limit: int) -> bytes:
        found = threads[path.split("/")[-2]]
        if isinstance(found, OSError):
            raise found
        return found

    monkeypatch.setattr(os, "listdir", lambda path: list(threads))
    monkeypatch.setattr(one_process, "read", read)


def test_one_thread_that_ends_while_we_look_is_not_the_end_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = ProcessLookupError()
    fake_task_folder(monkeypatch, {"7": line_of_stat("x", "Z"), "8": ended, "9": line_of_stat("x) Z (", "S")})
    assert one_process.living_thread(7)
    fake_task_folder(monkeypatch, {"7": line_of_stat("x", "Z"), "8": ended, "9": line_of_stat("x) S (", "X")})
    assert not one_process.living_thread(7)


def test_a_missing_process_has_no_living_thread() -> None:
    assert not one_process.living_thread(2**40)


OFFSETS = "monotonic   {0}   {1}\nboottime   {2}   {3}\n"


@pytest.mark.parametrize(
    ("theirs", "ours", "shift"),
    [
        (OFFSETS.format(0, 0, 0, 0), OFFSETS.format(0, 0, 0, 0), 0),
        (OFFSETS.format(9, 0, 3600, 0), OFFSETS.format(0, 0, 0, 0), 3600 * one_process.TICKS_PER_SECOND),
        (OFFSETS.format(0, 0, 0, 0), OFFSETS.format(0, 0, 3600, 0), -3600 * one_process.TICKS_PER_SECOND),
        (OFFSETS.format(0, 0, 7, 500_000_000), OFFSETS.format(0, 0, 7, 0), one_process.TICKS_PER_SECOND // 2),
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
    monkeypatch.setattr(one_process, "PROC", str(tmp_path))
    monkeypatch.setattr(one_process, "OWN_SHIFT", [])
    row = Process(ProcessKey("boot", 7, 4711), parent=1, comm="x", state="S")
    assert one_process.own_start(row) == 4711 + shift
    table = Processes("boot", [row], source(own_start=one_process.own_start))
    assert table.find(7, 4711 + shift) is row
    assert table.find(7, 4711 + shift + 1) is None


def test_an_environment_longer_than_any_that_linux_allows_by_default_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "environ"
    path.write_bytes(b"LONG=" + b"x" * 5 * 1024 * 1024 + b"\0LAST=1\0")
    assert one_process.environment(str(path), frozenset({"LAST"})) == {"LAST": "1"}


@pytest.mark.parametrize("data", [b"\0\0HOME=/h\0", b"claude: worker\0\0\0HOME=/h\0", b"a title x=y\0HOME=/h\0"])
def test_a_title_over_an_environment_is_no_environment(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "environ"
    path.write_bytes(data)
    assert one_process.environment(str(path), frozenset({"HOME"})) is None


def test_of_a_variable_set_twice_the_first_counts_as_in_getenv(tmp_path: Path) -> None:
    path = tmp_path / "environ"
    path.write_bytes(b"HOME=/first\0no equals sign\0HOME=/second\0")
    assert one_process.environment(str(path), frozenset({"HOME"})) == {"HOME": "/first"}


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
    answers = {"locks": locks.answer, "lock_identity": lambda path: (8, 2, 300), "holds_lock": lambda *_: True}
    table = Processes("boot", [row], source(**answers))
    assert asked.wait(PATIENCE)
    assert table.get(7) == row  # nobody waits for it here
    told.set()
    assert table.knows_locks("/")
    assert table.lock_owners("x") == (row,)


@pytest.mark.parametrize("room", [True, False], ids=["in a thread", "no room for a thread"])
def test_locks_that_cannot_be_read_are_not_known(room: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise RuntimeError("can't start new thread")

    if not room:
        monkeypatch.setattr(Thread, "start", refuse)
    unknown, none = linux.Meanwhile(lambda: None), linux.Meanwhile(dict)
    named, nameless = (lambda path: (8, 2, 300)), (lambda path: None)  # the list may have it, but under which name?
    for locks, identity, known in ((unknown, named, False), (none, named, True), (none, nameless, False)):
        table = Processes("boot", [], source(locks=locks.answer, lock_identity=identity))
        assert table.knows_locks("/") == known
        assert table.lock_owners("x") == ()
    assert not Processes("boot", [], source(locks=none.answer)).knows_locks("/")


def test_a_lock_of_nobody_we_can_see_has_no_owner() -> None:
    locks = {(8, 2, 300): (-1, 0, 99)}
    assert Processes("boot", [], source(locks=locks, lock_identity=lambda path: (8, 2, 300))).lock_owners("x") == ()


def test_without_a_list_of_locks_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, limit: int) -> bytes:
        raise PermissionError

    monkeypatch.setattr(linux, "read", refuse)
    assert linux.flocks() is None


def test_a_process_table_that_refuses_entries_is_incomplete(monkeypatch: pytest.MonkeyPatch) -> None:
    real = one_process.read_row

    def refuse(path: str, at: int | None = None) -> bytes:
        if path == f"{os.getpid()}/stat":
            raise PermissionError
        return real(path, at)

    monkeypatch.setattr(one_process, "read_row", refuse)
    processes = linux.snapshot(frozenset())
    assert processes.hidden is not None
    assert not processes.gone(ProcessKey(processes.boot, os.getpid(), 1))
