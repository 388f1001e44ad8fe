"""Processes whose arguments cannot be read because they are starting or ending at that moment: who counts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from agentctl.kernel.processes import Processes
from agentctl.model import Details, Process, ProcessKey
from agentctl.query import sessions
from agentctl.query.sessions import Scope, settled_look
from tests.support.demo_home import Home
from tests.support.table import source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.linux
BOOT = "a boot"
READABLE = Details(argv=("python", "-c", "pass"), exe="/usr/bin/python3", cwd="/", env={}, uid=os.getuid())
VAGUE = Details(uid=os.getuid())


@pytest.fixture
def killed(tmp_path: Path) -> Iterator[tuple[Home, str]]:
    """A session that was killed in mid-turn."""
    home = Home(tmp_path)
    try:
        id, child = home.start("-p", "[[sleep:300]]")
        child.kill()
        child.wait()
        yield home, id
    finally:
        home.end_all()


def ask(home: Home, id: str, tables: list[dict[int, Details]], monkeypatch: pytest.MonkeyPatch) -> str:
    """What is said of it, if the processes of each look are these."""
    looks = iter(tables)

    def snapshot(agents: object) -> Processes:
        details = next(looks)
        rows = [Process(ProcessKey(BOOT, pid, pid), 1, "python", "S") for pid in details]
        return Processes(BOOT, rows, source(details=lambda process: details[process.pid]))

    monkeypatch.setattr(sessions, "snapshot", snapshot)
    monkeypatch.setattr(sessions, "SECOND_LOOK", 0.0)
    (session,) = settled_look(Scope(prefix=id), home.env).answer.sessions
    assert list(looks) == [], "each table was looked at"
    return session.status


@pytest.mark.parametrize(
    ("tables", "status"),
    [
        ([{}], "stopped"),
        ([{7: READABLE}], "stopped"),
        ([{7: VAGUE}, {7: READABLE}], "stopped"),
        ([{7: VAGUE}, {}], "stopped"),
        # It may be an agent whose first thread has ended.
        ([{7: VAGUE}, {7: VAGUE}], "unknown"),
        # Others that come and go, as on any busy machine.
        ([{7: VAGUE}, {8: VAGUE}], "stopped"),
        ([{7: VAGUE, 8: READABLE}, {7: READABLE, 8: VAGUE}], "stopped"),
        ([{7: VAGUE, 8: VAGUE}, {7: READABLE, 8: VAGUE, 9: VAGUE}], "unknown"),
    ],
)
def test_who_is_only_passing_by_hides_no_end(
    killed: tuple[Home, str], tables: list[dict[int, Details]], status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, id = killed
    assert ask(home, id, tables, monkeypatch) == status


def test_an_agent_between_two_of_its_programs_still_counts(
    killed: tuple[Home, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home, id = killed
    agent = READABLE._replace(argv=("python", "-m", "agentctl.demo_agent"), env=home.env)
    assert ask(home, id, [{7: VAGUE, 8: agent}, {7: READABLE, 8: VAGUE}], monkeypatch) == "unknown"
