"""What a person at a terminal reads: short ids, and no silence. Programs get whole ids."""

from __future__ import annotations

import io
import time
from typing import TYPE_CHECKING

import pytest

from agentctl import cli
from agentctl.cli import format, output, stop, wait, worktree
from agentctl.cli import locks as locks_command
from agentctl.cli import width as width_module
from agentctl.stop.stop import Asked, Options
from agentctl.wait import Transition
from agentctl.workspace import locks
from agentctl.workspace.occupancy import Lock

if TYPE_CHECKING:
    from collections.abc import Iterator

RANDOM = "8994a4ce-5562-406b-895b-52f7dd65b59e"
TIMED = "01a1ecd2-f609-755d-810c-4ed688aa4b89"
LETTERS = "ses_e132d0cf0ffeTuv2FkglCNDT5n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def nothing_typed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(cli, "TYPED", [])
    yield


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"{RANDOM} has ended; agentctl resume {RANDOM} TEXT", "8994a4ce has ended; agentctl resume 8994a4ce TEXT"),
        (f"`agentctl why {RANDOM}`, ({RANDOM}), {RANDOM}.", "`agentctl why 8994a4ce`, (8994a4ce), 8994a4ce."),
        (f"/x/{RANDOM}/a: no; {RANDOM}.jsonl; --id={RANDOM}", f"/x/{RANDOM}/a: no; {RANDOM}.jsonl; --id={RANDOM}"),
        (f"two begin so:\n  {RANDOM}  demo", f"two begin so:\n  {RANDOM}  demo"),
        (f"{TIMED} and {LETTERS}", f"{TIMED} and {LETTERS}"),  # nobody looked whether a beginning is unique
    ],
)
def test_a_sentence_has_short_ids_on_a_terminal_only(text: str, shown: str) -> None:
    assert output.for_people(text, Terminal()) == shown
    assert output.for_people(text, io.StringIO()) == text


@pytest.mark.parametrize("id", [TIMED, LETTERS])
def test_what_a_person_typed_stands_for_an_id_that_begins_with_its_time(
    id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "TYPED", ["stop", id[:12], id[:3]])
    assert output.for_people(f"{id} has ended", Terminal()) == f"{id[:12]} has ended"


def test_an_error_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    cli.complain(f"{RANDOM} waits for a person")
    assert screen.getvalue() == "agentctl: 8994a4ce waits for a person\n"


def test_a_change_on_a_terminal_and_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    change = Transition(RANDOM, None, "demo", "running", "done", None, 1, 0.0)
    for stream, id in ((Terminal(), RANDOM[:8]), (io.StringIO(), RANDOM)):
        monkeypatch.setattr("sys.stdout", stream)
        monkeypatch.setenv("NO_COLOR", "1")
        wait.print_change(change)
        assert stream.getvalue() == f"{id} running -> done\n"


def test_a_wait_for_a_launch_names_no_session_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    """Its launch has chosen an id, and no store has it yet."""

    class Launched:
        id, session_id, launch_id, seen = RANDOM, None, "mwlloyf2nyfd", None

    wait.begun([Launched()])  # type: ignore[list-item]
    assert capsys.readouterr().err == "waiting for launch mwlloyf2nyfd: \n"


@pytest.mark.parametrize(("stream", "told"), [(Terminal(), True), (io.StringIO(), False)])
def test_a_slow_stop_says_what_it_waits_for(stream: io.StringIO, told: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*_: object, **__: object) -> list[object]:
        deadline = time.monotonic() + 10
        while told and not stream.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
        return []

    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(stop, "SLOW", 0.05)
    monkeypatch.setattr("agentctl.stop.stop.stop", slow)
    list(stop.outcomes([Asked(RANDOM)], Options(grace=10.0)))
    line = "agentctl: waiting until 8994a4ce has ended, for up to 10s (--grace)\n"
    assert stream.getvalue() == (line if told else "")


def test_a_lock_and_its_refusal_tell_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        lock = Lock("/srv/site", "ann", None, 1_800_000_000.0, 1_800_007_200.0)
        assert locks.held_by(lock) == f"locked by ann since {output.local(lock.created_at)}, until 2027-01-15 19:00:00"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_locks_prints_ids_that_can_be_typed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(width_module, "known_width", lambda: 80)
    row: dict[str, object] = {
        "directory": "/srv/projects/webshop/backend", "kind": "session", "holder": TIMED, "agent": "claude-code",
        "why": "is running", "since": None, "expires_at": None,
    }  # fmt: skip
    locks_command.show([row], {TIMED: TIMED[:12]})
    head, line = capsys.readouterr().out.splitlines()
    assert line.split()[-4:] == ["-", "claude-code", "is", "running"]
    assert TIMED[:12] in line.split()
    assert head.split() == ["DIRECTORY", "KIND", "HOLDER", "SINCE", "EXPIRES", "WHY"]


def test_worktrees_show_whole_ids_and_the_end_of_branches(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(width_module, "known_width", lambda: 80)
    rows = [
        (f"~/code/repo-night-{slot}", f"try/night/{slot}", "2 own", "1", "2s", f"running claude-code {id}", "night")
        for slot, id in (("claude-opus", "2ff01ded"), ("claude-haiku", "05c6ff56"))
    ]
    format.table(
        format.columns_of(worktree.COLUMNS, rows),
        flexible=worktree.FLEXIBLE,
        optional=worktree.OPTIONAL,
        brief={"SESSION": worktree.without_agent},
    )
    _, first, second = capsys.readouterr().out.splitlines()
    assert "running 2ff01ded" in first
    assert "running 05c6ff56" in second
    assert "opus" in first.split()[1]
    assert "haiku" in second.split()[1]
