"""New processes: noticed by their pids, read twice, and nobody else is read."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from agentctl.kernel import newcomers
from agentctl.kernel.newcomers import Newcomers, pids, table_of
from tests.support.children import end_unreaped, true_key

if TYPE_CHECKING:
    from tests.support.children import Spawn

pytestmark = pytest.mark.linux


def test_a_new_process_is_named_at_two_checks(spawn: Spawn) -> None:
    first = spawn()
    new = Newcomers()
    assert first.pid not in new.check()
    child = spawn()
    assert child.pid in new.check()
    assert child.pid in new.check()  # it may have been before exec
    assert child.pid not in new.check()


def test_one_that_has_ended_meanwhile_is_not_named_again(spawn: Spawn) -> None:
    new = Newcomers()
    child = spawn()
    assert child.pid in new.check()
    child.kill()
    child.wait()
    assert child.pid not in new.check()


def test_the_table_has_only_these(spawn: Spawn) -> None:
    child, other = spawn(), spawn()
    table = table_of({child.pid})
    row = table.get(child.pid)
    assert row is not None and row.key == true_key(child.pid)
    assert table.get(other.pid) is None
    details = table.details(row)
    assert details is not None and details.argv is not None and details.argv[0] == sys.executable
    program = table_of({child.pid}).program(row)
    assert program is not None and program.exe == details.exe
    assert table.still(row)
    assert table.executables() == {child.pid: details.exe}


def test_the_dead_are_in_no_table(spawn: Spawn) -> None:
    child = spawn()
    end_unreaped(child)
    assert table_of({child.pid}).get(child.pid) is None
    child.wait()
    assert table_of({child.pid}).get(child.pid) is None


def test_without_such_a_list_nobody_is_new(monkeypatch: pytest.MonkeyPatch, spawn: Spawn) -> None:
    new = Newcomers()
    spawn()
    monkeypatch.setattr(newcomers, "PROC", "/there/is/no/such/folder")
    assert pids() is None
    assert not new.blind
    assert new.check() == frozenset()
    assert new.blind and Newcomers().blind
    monkeypatch.setattr(sys, "platform", "darwin")
    assert pids() is None
