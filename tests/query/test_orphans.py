"""Which tools `list` names: those of sessions that were killed in mid-turn, and nobody else's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from agentctl.agents import load_all
from agentctl.kernel.processes import Processes
from agentctl.model import ALIVE, DONE, GONE, INTERRUPTED, WORKING, Details, Left, Process, ProcessKey
from agentctl.query import orphans
from agentctl.query.sessions import Scope
from tests.support.table import source

if TYPE_CHECKING:
    from collections.abc import Iterable

BOOT, ID = "a boot", "3f1a8a3c-0000-4000-8000-000000000001"
NAME, VARIABLE = next((agent.NAME, agent.TOOL_ENV) for agent in load_all() if agent.TOOL_ENV is not None)
TOOL = {VARIABLE: ID}


def session(process: str, turn: str) -> Any:
    return SimpleNamespace(agent=NAME, id=ID, process=process, turn=turn)


def look(rows: Iterable[tuple[int, int, str]], env: dict[int, dict[str, str]], *sessions: Any, runner: int = 0) -> Any:
    """Rows: pid, parent, name."""
    processes = Processes(
        BOOT,
        [Process(ProcessKey(BOOT, pid, pid), parent, comm, "S") for pid, parent, comm in rows],
        source(
            mentions=lambda pid, words: any(word.decode().rstrip("=") in env.get(pid, {}) for word in words),
            details=lambda process: Details(
                argv=("sleep", "9"), exe="/usr/bin/sleep", cwd="/", env=env.get(process.pid)
            ),
        ),
    )
    launches = [SimpleNamespace(launch=SimpleNamespace(runner=ProcessKey(BOOT, runner, runner)))] if runner else []
    world = SimpleNamespace(processes=processes, launches=launches)
    return SimpleNamespace(world=world, answer=SimpleNamespace(sessions=sessions))


def judged(monkeypatch: pytest.MonkeyPatch, *sessions: Any) -> list[Scope]:
    """Let the second look find these; return what it was asked for."""
    asked: list[Scope] = []

    def settled_look(scope: Scope) -> Any:
        asked.append(scope)
        return SimpleNamespace(answer=SimpleNamespace(sessions=sessions))

    monkeypatch.setattr(orphans, "settled_look", settled_look)
    return asked


ORPHAN = [(1, 0, "init"), (7, 1, "sleep")]


def test_a_tool_of_a_killed_session(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = judged(monkeypatch, session(GONE, INTERRUPTED))
    assert orphans.left_behind(look(ORPHAN, {7: TOOL}), Scope()) == (Left(7, "sleep", NAME, ID),)
    assert [scope.ids for scope in asked] == [(ID,)]


@pytest.mark.parametrize("state", [(GONE, DONE), (ALIVE, WORKING), None])
def test_only_tools_of_killed_sessions(monkeypatch: pytest.MonkeyPatch, state: tuple[str, str] | None) -> None:
    judged(monkeypatch, *([session(*state)] if state else []))
    assert orphans.left_behind(look(ORPHAN, {7: TOOL}), Scope()) == ()


def test_no_second_look_without_a_suspect(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = judged(monkeypatch)
    live = session(ALIVE, WORKING)
    assert orphans.left_behind(look(ORPHAN, {7: TOOL}, live), Scope()) == ()
    assert orphans.left_behind(look(ORPHAN, {}), Scope()) == ()
    assert orphans.left_behind(look(ORPHAN, {7: TOOL}), Scope(agents=("demo",))) == ()
    assert asked == []


def test_who_adopts_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    judged(monkeypatch, session(GONE, INTERRUPTED))
    rows = [(1, 0, "init"), (2, 1, "systemd"), (3, 1, "python"), (4, 1, "bash"), (7, 2, "a"), (8, 3, "b"), (9, 4, "c")]
    found = orphans.left_behind(look(rows, dict.fromkeys((7, 8, 9), TOOL), runner=3), Scope())
    assert [left.pid for left in found] == [7, 8]  # a child of a shell has not lost its parent
