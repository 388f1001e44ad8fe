"""Keys of other PID namespaces: the process table judges one only if it would show that process."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from agentctl.kernel import handles, linux, one_process, recorded, watch
from agentctl.kernel.processes import Processes
from agentctl.kernel.recorded import UNNAMED
from agentctl.kernel.source import Source
from agentctl.model import Details, Process, ProcessKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

OURS, INNER, OTHER = "pid:[1]", "pid:[2]", "pid:[3]"
KEY = ProcessKey("b", 7, 77)


class Kernel(Source):
    """What it says of some processes by their pid: their namespace, and their pids below ours."""

    def __init__(self, places: Mapping[int, tuple[str | None, tuple[int, ...] | None]]) -> None:
        self._places = places

    def inner_pids(self, process: Process) -> tuple[int, ...] | None:
        return self._places.get(process.pid, (OURS, ()))[1]

    def pid_namespace(self, process: Process) -> str | None:
        return self._places.get(process.pid, (OURS, ()))[0]


def row(pid: int, start: int, state: str = "S", *, dead: bool = False) -> Process:
    return Process(ProcessKey("b", pid, start), 1, "x", state, dead)


def table(
    *rows: Process, kernel: Source | None = None, outermost: bool = False, hidden: str | None = None
) -> Processes:
    return Processes("b", rows, kernel or Kernel({}), outermost=outermost, hidden=hidden)


def test_a_key_of_another_namespace_equals_none_of_ours() -> None:
    there = KEY.recorded_in(INNER)
    assert (there.namespace, KEY.namespace) == (INNER, None)
    assert there != KEY
    assert ProcessKey.parse(str(there)) == there
    assert KEY.recorded_in("nonsense:]").namespace is not None
    processes = table(row(7, 77))
    assert processes.alive(KEY) is not None
    assert processes.alive(there) is None
    assert processes.own(there) == there


@pytest.mark.parametrize("outermost", [False, True])
def test_not_seen_is_gone_only_where_it_would_be_seen(outermost: bool) -> None:
    there = KEY.recorded_in(OTHER)
    assert table(row(7, 77), outermost=outermost).gone(there) is outermost
    assert table(outermost=outermost).gone(there) is outermost
    assert table(outermost=outermost, hidden="hidepid").gone(there) is False


def test_a_namespace_with_a_process_in_our_table_is_seen_whole() -> None:
    kernel = Kernel({500: (INNER, (1,))})
    assert table(row(500, 3), kernel=kernel).gone(KEY.recorded_in(INNER)) is True
    assert table(row(500, 3), kernel=kernel).gone(KEY.recorded_in(OTHER)) is False


def test_a_process_of_an_inner_namespace_is_known_by_namespace_pid_and_start() -> None:
    kernel = Kernel({500: (INNER, (7,)), 501: (OTHER, (7,)), 502: (INNER, (8,)), 503: (INNER, (7,))})
    processes = table(row(500, 77), row(501, 77), row(502, 77), row(503, 76), kernel=kernel)
    there = KEY.recorded_in(INNER)
    assert processes.own(there) == ProcessKey("b", 500, 77)
    assert processes.gone(there) is False
    assert processes.own(KEY.recorded_in(OTHER)) == ProcessKey("b", 501, 77)
    dead = table(row(500, 77, "Z", dead=True), row(502, 77), kernel=kernel)
    assert dead.gone(there) is True


@pytest.mark.parametrize("place", [(None, (7,)), (INNER, None)])
def test_what_the_kernel_does_not_say_proves_nothing(place: tuple[str | None, tuple[int, ...] | None]) -> None:
    processes = table(row(500, 77), kernel=Kernel({500: place}), outermost=True)
    assert processes.own(KEY.recorded_in(INNER)).namespace == INNER
    assert processes.gone(KEY.recorded_in(INNER)) is False


def test_a_container_may_have_a_boot_of_its_own() -> None:
    key, unnamed = (ProcessKey("a", 7, 77).recorded_in(name) for name in (INNER, UNNAMED))
    kernel = Kernel({500: (INNER, (7,))})
    for one in (key, unnamed):
        assert table(row(500, 77), kernel=kernel).gone(one) is False
        assert table(row(500, 77), kernel=kernel).own(one) == ProcessKey("b", 500, 77)
        assert table(row(500, 78), kernel=kernel).own(one) == one
        assert table(row(500, 78), kernel=kernel).gone(one) is (one == key)  # we see that namespace
        assert table(row(500, 78), kernel=kernel, outermost=True).gone(one) is True
        assert Processes("", ()).gone(one) is False
    before = ProcessKey("a", 500, 77)  # of an earlier boot, or of our own namespace
    assert table(row(500, 77), kernel=kernel).gone(before) is True
    assert table(row(500, 77), kernel=kernel).own(before) == before


def test_another_boot_counts_by_the_age_of_its_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded, "booted_at", lambda: 1000.0)
    monkeypatch.setattr(recorded, "own_pid_namespace", lambda: OURS)
    same, other = ProcessKey("b", 7, 77), ProcessKey("a", 7, 77)
    for written in (900.0, 1100.0):
        assert recorded.key_here(same, None, written, "b") == recorded.key_here(same, OURS, written, "b") == same
        assert recorded.key_here(same, INNER, written, "b") == same.recorded_in(INNER)
        assert recorded.key_here(other, OURS, written, "b") == other
    assert recorded.key_here(other, None, 900.0, "b") == recorded.key_here(other, INNER, 900.0, "b") == other
    assert recorded.key_here(other, None, 1100.0, "b") == other.recorded_in(UNNAMED)
    assert recorded.key_here(other, INNER, 1100.0, "b") == other.recorded_in(INNER)


def test_a_process_of_an_inner_namespace_and_another_clock_is_found() -> None:
    class Shifted(Kernel):
        def own_start(self, process: Process) -> int:
            return process.key.start + 70 if process.pid == 500 else process.key.start

        def executables(self, pids: Iterable[int]) -> Mapping[int, str | None]:
            return dict.fromkeys(pids, "/home/x/agent")

    processes = table(row(500, 7), kernel=Shifted({500: (INNER, (7,))}))
    assert processes.find(7, 77) == row(500, 7)
    assert processes.own(KEY) == ProcessKey("b", 500, 7)
    assert not processes.gone(KEY)
    assert processes.gone(ProcessKey("b", 8, 77)) and processes.gone(ProcessKey("b", 7, 78))


def test_a_key_of_another_clock_is_the_same_process() -> None:
    class Shifted(Kernel):
        def own_start(self, process: Process) -> int:
            return process.key.start + 70

    processes = table(row(7, 7), kernel=Shifted({}))
    assert processes.own(KEY) == ProcessKey("b", 7, 7)
    assert processes.gone(KEY) is False
    assert processes.gone(ProcessKey("b", 7, 78)) is True


@pytest.mark.linux
def test_nothing_holds_or_watches_what_was_recorded_elsewhere() -> None:
    own = one_process.parse_stat(one_process.read_row("/proc/self/stat"), linux.boot_id())
    assert own is not None
    found = handles.Handle.open(own.key)
    assert found is not None
    found.close()
    with pytest.raises(OSError, match="another PID namespace"):
        handles.Handle.open(own.key.recorded_in(INNER))
    assert watch.open_process(own.key.recorded_in(INNER)) is None
    fd = watch.open_process(own.key)
    assert fd is not None
    os.close(fd)


def test_a_pid_of_an_inner_namespace_is_found_by_its_start() -> None:
    class Inner(Kernel):
        def details(self, process: Process) -> Details | None:
            return Details(pids=(process.pid, 7))

    processes = table(row(500, 77), row(501, 78), kernel=Inner({}))
    assert processes.find(7, 77) == row(500, 77)
    assert processes.find(7, 79) is None
