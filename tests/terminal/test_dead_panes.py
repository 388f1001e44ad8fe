"""Dead panes of launches that are over are closed, and no other ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from agentctl.kernel.procfs import own_pid_namespace
from agentctl.launches import records
from agentctl.terminal import dead_panes, tmux
from tests.launches.test_records import facts, write

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from agentctl.model import ProcessKey

pytestmark = pytest.mark.linux
END = 1_600_000_000.0


class Table:
    """A process table in which everything is gone, or nothing is."""

    def __init__(self, *, gone: bool) -> None:
        self._gone = gone

    def gone(self, key: ProcessKey) -> bool:
        return self._gone


class Server:
    """What a tmux server is asked. `set`: what the window itself has for remain-on-exit."""

    def __init__(self, lines: Sequence[str], *, set: str = "on\n") -> None:
        self.lines, self.set = lines, set
        self.closed: list[str] = []

    def ask(self, socket: str, words: Sequence[str], env: object) -> str:
        match words[0]:
            case "list-panes":
                return "".join(f"{line}\n" for line in self.lines)
            case "show-options":
                return self.set
            case "if-shell":
                assert words[-2] == "#{pane_dead}", "only if it is still dead"
                self.closed.append(words[-1])
        return ""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"AGENTCTL_HOME": str(tmp_path / "state")}


@pytest.fixture
def launch(env: dict[str, str]) -> str:
    reserved = records.reserve(env)
    write(reserved, facts(reserved.id, pid_namespace=own_pid_namespace()))
    write(reserved, b'{"key": null, "at": "2020-09-13T12:26:40Z"}\n', records.EXITS)
    return reserved.id


def closed(
    server: Server, env: dict[str, str], monkeypatch: pytest.MonkeyPatch, *, gone: bool = True, now: float = END + 60,
    dry_run: bool = False,
) -> list[str]:  # fmt: skip
    monkeypatch.setattr(tmux, "sockets", lambda env: ["/s"])
    monkeypatch.setattr(tmux, "ask", server.ask)
    table: Any = Table(gone=gone)
    return [one.id for one in dead_panes.close_all(env, cast("Any", table), now, dry_run=dry_run)]


def test_the_dead_pane_of_a_launch_that_is_over(
    env: dict[str, str], launch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server([f"1 %3 agentctl-{launch}"])
    assert closed(server, env, monkeypatch, dry_run=True) == ["%3"] and server.closed == []
    assert closed(server, env, monkeypatch) == ["%3"] and server.closed == ["kill-pane -t %3"]


@pytest.mark.parametrize(
    ("line", "more"),
    [
        ("0 %3 agentctl-ID", {}),  # it lives
        ("1 %3 my agentctl-ID", {}),  # of a person
        ("1 %3 agentctl-notes", {}),
        ("1 %3 ID", {}),
        ("1 %3 agentctl-ID", {"gone": False}),  # its runner may live
        ("1 %3 agentctl-ID", {"now": END + 1}),  # whoever launched it may still read the screen
    ],
)
def test_other_panes_stay(
    env: dict[str, str], launch: str, monkeypatch: pytest.MonkeyPatch, line: str, more: dict[str, Any]
) -> None:
    server = Server([line.replace("ID", launch)])
    assert closed(server, env, monkeypatch, **more) == [] and server.closed == []


def test_a_pane_that_the_persons_own_setting_keeps_stays(
    env: dict[str, str], launch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server([f"1 %3 agentctl-{launch}"], set="")
    assert closed(server, env, monkeypatch) == [] and server.closed == []


def test_a_launch_whose_record_is_damaged_may_live(
    env: dict[str, str], launch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (records_file := f"{records.launches_folder(env)}/{launch}/{records.LAUNCH}")
    with open(records_file, "w") as file:
        file.write("{")
    assert closed(Server([f"1 %3 agentctl-{launch}"]), env, monkeypatch) == []
