"""Where a session sits: a pane is proved by the terminal and by the ancestors, and by nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from agentctl.kernel.processes import Processes
from agentctl.model import Details, Problem, Process, ProcessKey, Session
from agentctl.terminal import locate, tmux
from agentctl.terminal.locate import Seat, process_of, seat_of, seated, surroundings, whereabouts, with_pane
from agentctl.terminal.tmux import Pane
from tests.support.table import source

PTS = 136 << 8


def row(pid: int, parent: int, comm: str = "agent", tty: int | None = 3, **more: Any) -> Process:
    key = ProcessKey("boot", pid, pid * 10)
    return Process(key, parent, comm, "S", tty=0 if tty is None else PTS | tty, **more)


def table(*rows: Process, **env: str) -> Processes:
    return Processes("boot", rows, source(details=lambda process: Details(("agent",), env=env, uid=0)))


def pane(pid: int, tty: int = 3, socket: str = "/s", **more: Any) -> Pane:
    return Pane(socket, f"%{pid}", f"/dev/pts/{tty}", pid, **{**OF_A_PANE, **more})


OF_A_PANE: dict[str, Any] = {"window": "@1", "session": "$1", "name": "work"}
SHELL, AGENT = row(20, 10, "bash"), row(30, 20)
SERVER = row(10, 1, "tmux: server", tty=None)


def test_the_pane_whose_process_stands_above_it() -> None:
    assert seat_of(AGENT, table(SERVER, SHELL, AGENT), [pane(99, tty=4), pane(20)]).pane == pane(20)


def test_the_pane_whose_process_it_is() -> None:
    assert seat_of(AGENT, table(SERVER, SHELL, AGENT), [pane(30)]).pane == pane(30)


def test_two_panes_in_one_directory_are_told_apart() -> None:
    other = row(31, 21, tty=4)
    processes = table(SERVER, SHELL, AGENT, row(21, 10, "bash", tty=4), other)
    panes = [pane(20), pane(21, tty=4)]
    assert [seat_of(one, processes, panes).pane for one in (AGENT, other)] == panes


@pytest.mark.parametrize(
    "panes",
    [
        [],
        [pane(20, tty=4)],  # above it, with another terminal: it runs in something inside of that pane
    ],
)
def test_without_its_terminal_it_is_in_no_pane(panes: list[Pane]) -> None:
    assert seat_of(AGENT, table(SERVER, SHELL, AGENT), panes)._replace(around=None, around_pid=None) == Seat(
        "/dev/pts/3"
    )


def test_a_terminal_alone_is_no_proof() -> None:
    """The pane's process is somebody else: another machine's, another namespace's, or made up."""
    for wrong in (77, 40):
        seat = seat_of(AGENT, table(SERVER, SHELL, AGENT, row(40, 1)), [pane(wrong)])
        assert (seat.pane, seat.like) == (None, pane(wrong))


def test_a_dead_process_of_a_pane_is_none() -> None:
    dead = row(20, 10, "bash", dead=True)
    assert seat_of(AGENT, table(SERVER, dead, AGENT), [pane(20)]).pane is None


def test_without_a_terminal_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tmux, "panes", lambda *_: pytest.fail("asked"))
    alone = row(30, 20, tty=None)
    assert seated(alone, table(SERVER, SHELL, alone), {}) == Seat(around="tmux", around_pid=10)


def test_its_own_variable_says_which_server_to_ask_and_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def panes(env: dict[str, str], named: list[str | None]) -> tuple[list[Pane], list[Problem]]:
        asked.extend(named)
        return [pane(99, tty=9)], [Problem("tmux", "no answer", "/other")]

    monkeypatch.setattr(tmux, "panes", panes)
    seat = seated(AGENT, table(SERVER, SHELL, AGENT, TMUX="/forged,1,0", TMUX_PANE="%99"), {})
    assert asked == ["/forged,1,0"]
    assert (seat.pane, seat.like) == (None, None)
    assert [one.path for one in seat.problems] == ["/other"]


@pytest.mark.parametrize(
    ("comm", "name"),
    [
        ("sshd", "ssh"),
        ("sshd-session", "ssh"),
        ("gnome-terminal-", "GNOME Terminal"),
        ("tmux: server", "tmux"),
        ("code", "VS Code"),
        ("codex", None),
        ("footloose", None),
        ("bash", None),
    ],
)
def test_what_it_runs_under(comm: str, name: str | None) -> None:
    processes = table(row(1, 0, "init"), row(10, 1, comm), SHELL, AGENT)
    assert surroundings(AGENT, processes) == ((name, 10) if name else None)


def test_rows_that_name_each_other_as_parent_end_nowhere() -> None:
    assert surroundings(AGENT, table(row(20, 30, "bash"), AGENT)) is None


def test_what_is_said_of_it() -> None:
    here = Session(
        "id", "x", "idle", "alive", "idle", pid=30, process_key="boot:30:300", terminal={"tty": "t", "tmux": None}
    )
    shown = with_pane(here, Seat("/dev/pts/3", pane(20)))
    assert shown.terminal == {"tty": "t", "tmux": "%20", "tmux_session": "work", "tmux_socket": "/s"}
    assert "pane %20" in shown.evidence[-1].fact
    assert with_pane(here, Seat("/dev/pts/3", like=pane(20))) == here
    assert whereabouts(AGENT, Seat("/dev/pts/3", around="ssh", around_pid=9)) == (
        "pid 30 runs in the terminal /dev/pts/3, under ssh (pid 9)"
    )


def test_a_terminal_of_an_unknown_kind_is_not_none() -> None:
    odd = row(30, 20, tty=None)._replace(tty=0x1000003)  # as macOS numbers them
    seat = seat_of(odd, table(SERVER, SHELL, odd), [])
    assert seat.tty is None
    assert "a terminal that cannot be named here" in whereabouts(odd, seat)


def test_a_process_is_its_whole_key() -> None:
    here = Session("id", "x", "idle", "alive", "idle", pid=30, process_key="boot:30:300")
    assert process_of(here, table(AGENT)) == AGENT
    assert process_of(here._replace(process_key="boot:30:301"), table(AGENT)) is None
    assert locate.shown_in(here._replace(pid=None), table(AGENT), {}) == (here._replace(pid=None), ())


def test_a_terminal_of_the_same_number_in_another_devpts_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is typed into the pane would go to the shell that reads it."""
    monkeypatch.setattr(tmux, "panes", lambda env, named: ([pane(20)], []))
    for answer, proved in ((False, None), (True, pane(20)), (None, pane(20))):
        looks = source(
            details=lambda process: Details(("agent",), env={}), is_at=lambda one, path, answer=answer: answer
        )
        seat = seated(AGENT, Processes("boot", (SERVER, SHELL, AGENT), looks), {})
        assert (seat.pane, seat.like) == (proved, None)
