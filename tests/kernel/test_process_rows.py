"""Rows that are made into processes only where they are asked for: they answer as those that are all made at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from agentctl.kernel.processes import Processes
from agentctl.model import Details, Process, ProcessKey
from tests.support.table import source

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentctl.kernel.processes import Row

NAMES = [b"sleep", b"codex", b"codex-x", b"node", b"\xff\xfe", b"\xff\xfd", b"", "\ufffd".encode()]
PIDS = st.integers(1, 8)
STARTS = st.integers(1, 3)
rows = st.lists(
    st.tuples(PIDS, PIDS, st.sampled_from(NAMES), st.sampled_from("SRTD"), st.integers(0, 2), STARTS),
    max_size=8,
    unique_by=lambda row: row[0],
).map(lambda found: sorted(found))  # as /proc lists them
dead = st.sets(PIDS)

QUESTIONS: list[Callable[[Processes, int, int], object]] = [
    lambda table, pid, start: table.row(pid),
    lambda table, pid, start: table.get(pid),
    lambda table, pid, start: table.alive(ProcessKey("boot", pid, start)),
    lambda table, pid, start: table.alive(ProcessKey("another", pid, start)),
    lambda table, pid, start: table.gone(ProcessKey("boot", pid, start)),
    lambda table, pid, start: table.find(pid, start),
    lambda table, pid, start: table.find(pid, None),
    lambda table, pid, start: table.find(pid + 100, start),  # its number in an inner namespace
    lambda table, pid, start: table.children(pid),
    lambda table, pid, start: table.descendants(pid),
    lambda table, pid, start: list(table.living()),
    lambda table, pid, start: table.named(lambda name: name.startswith("codex")),
    lambda table, pid, start: table.named(lambda name: "\ufffd" in name),
    lambda table, pid, start: table.named(lambda name: len(name) == start),
    lambda table, pid, start: list(table.by_pid.items()),
    lambda table, pid, start: table.count(),
]


def process_of(row: Row, *, dead: bool) -> Process:
    pid, parent, comm, state, tty, start = row
    return Process(ProcessKey("boot", pid, start), parent, comm.decode(errors="replace"), state, dead, tty)


def details(process: Process) -> Details:
    return Details(pids=(process.pid, process.pid + 100))


@given(rows, dead, st.lists(st.tuples(st.sampled_from(QUESTIONS), PIDS, STARTS), max_size=12))
def test_rows_answer_as_processes(
    rows: list[Row], dead: set[int], asked: list[tuple[Callable[[Processes, int, int], object], int, int]]
) -> None:
    """Whatever was asked before: what was made, and what was looked up, stays."""
    made = [process_of(row, dead=row[0] in dead) for row in rows]
    mixed = [one if one.dead else row for one, row in zip(made, rows, strict=True)]
    lazy = Processes("boot", mixed, source(details=details))
    for question, pid, start in asked:
        plain = Processes("boot", made, source(details=details))
        assert question(lazy, pid, start) == question(plain, pid, start)


@given(rows, dead)
def test_those_of_a_name_are_those_that_live_and_have_it(rows: list[Row], dead: set[int]) -> None:
    table = Processes("boot", [process_of(row, dead=row[0] in dead) for row in rows])
    asked: list[str] = []

    def wanted(name: str) -> bool:
        asked.append(name)
        return "o" in name

    assert table.named(wanted) == [one for one in table.living() if "o" in one.comm]
    assert len(asked) == len(set(asked))


@given(rows)
def test_what_is_changed_among_all_of_them_counts(rows: list[Row]) -> None:
    table = Processes("boot", rows)
    table.named(lambda name: True), table.children(1), table.find(200, 1)
    new = Process(ProcessKey("boot", 50, 2), 7, "codex", "S")
    table.by_pid[50] = new
    assert new in table.named(lambda name: name == "codex")
    assert table.children(7)[-1] == new
    assert table.find(50, 2) == new
    table.by_pid = {50: new}
    assert [*table.living()] == table.children(7) == [new]
