"""The lab's own parts, without Node and without an agent: a lab that cannot fail proves nothing."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import agents
from tests.lab import __main__ as lab
from tests.lab import install, isolation, matrix, report
from tests.lab.errors import LabError
from tests.lab.plays_places import PLAYS
from tests.lab.recipe import MODES
from tests.lab.recipes import RECIPES
from tests.lab.running import Key, Running, is_alive, row_of, send, until
from tests.lab.screen import Screen
from tests.lab.watch import Call, Hold, judge, living

AGENT = Key(5, 100)
HOLD = Hold("s1", AGENT, since=1.0, until=9.0)
ENDED = {"process": "gone", "status": "done", "turn": "done", "rule": "closed", "pid": None, "ticks": None}


def sample(**changes: Any) -> str:
    """One answer of the watcher: the session is alive, and so is its process."""
    session = {"id": "s1", "status": "running", "process": "alive", "pid": 5, "ticks": 100, "inferred": False}
    session |= {"turn": "working", "rule": "alive"}
    one = {"began": 2.0, "ended": 2.1, "before": [AGENT], "after": [AGENT], "dying": []}
    one |= {"unattached": [], "problems": []}
    return json.dumps({**one, "sessions": [{**session, **changes.pop("session", {})}], **changes})


def test_a_right_answer_is_not_blamed() -> None:
    found = judge([sample()], [HOLD])
    assert (found.samples, found.wrong, found.unsure) == (1, [], 0)


def test_ended_while_its_process_lives_is_wrong() -> None:
    found = judge([sample(session={"process": "gone", "status": "done", "pid": None, "ticks": None})], [HOLD])
    assert len(found.wrong) == 1
    assert found.wrong[0].startswith("FALSE ENDED: its pid 5 lives")


def test_ended_is_right_once_its_process_is_gone() -> None:
    gone = sample(session={"process": "gone", "status": "done", "pid": None, "ticks": None}, after=[])
    assert judge([gone], [HOLD]).wrong == []


def test_ended_is_right_once_its_process_may_have_left() -> None:
    left = sample(session={"process": "gone", "pid": None, "ticks": None}, began=8.9, ended=9.1)
    assert judge([left], [HOLD]).wrong == []


def test_alive_through_a_dead_process_is_wrong() -> None:
    found = judge([sample(before=[], after=[])], [HOLD])
    assert found.wrong[0].startswith("FALSE ALIVE: pid 5")


def test_alive_through_a_reused_pid_is_wrong() -> None:
    found = judge([sample(before=[Key(5, 200)], after=[Key(5, 200)])], [])
    assert found.wrong[0].startswith("FALSE ALIVE")


def test_a_death_during_the_question_is_nobodys_fault() -> None:
    assert judge([sample(after=[])], [HOLD]).wrong == []


def test_a_session_that_is_not_listed_is_lost() -> None:
    assert judge([sample(sessions=[])], [HOLD]).wrong[0].startswith("LOST: s1")


def test_a_store_that_did_not_answer_is_no_lie_if_that_is_said() -> None:
    unread = {"sessions": [], "problems": ["a: its store did not answer"], "unattached": [[5, "could not be read"]]}
    found = judge([sample(**unread)], [HOLD])
    assert (found.wrong, found.unread) == ([], 1)
    assert judge([sample(**unread | {"problems": []})], [HOLD]).wrong[0].startswith("LOST")
    assert judge([sample(**unread | {"unattached": []})], [HOLD]).wrong[0].startswith("LOST")


def test_another_process_is_wrong() -> None:
    found = judge([sample(session={"pid": 6, "ticks": 7}, before=[AGENT, Key(6, 7)])], [HOLD])
    assert found.wrong[0].startswith("WRONG PROCESS: pid 6, not 5")


def test_unknown_is_weak_and_an_inferred_end_that_names_the_process_too() -> None:
    unknown = sample(session={"process": "unknown"})
    inferred = sample(session=ENDED | {"inferred": True}, unattached=[[5, "ending"]])
    found = judge([unknown, inferred], [HOLD])
    assert (found.wrong, found.unsure, found.inferred) == ([], 1, 1)


@pytest.mark.parametrize("change", [{"rule": "exhausted"}, {"inferred": False}])
def test_an_end_that_is_inferred_needs_a_closed_turn(change: dict[str, Any]) -> None:
    ended = sample(session=ENDED | {"inferred": True} | change, unattached=[[5, "ending"]])
    assert judge([ended], [HOLD]).wrong[0].startswith("FALSE ENDED")


def test_no_end_is_inferred_while_the_model_is_asked() -> None:
    ended = sample(session=ENDED | {"inferred": True}, unattached=[[5, "ending"]])
    assert judge([ended], [HOLD], [Call("s1", 1.9, 2.2)]).wrong[0].startswith("FALSE ENDED")
    assert judge([ended], [HOLD], [Call("s1", 1.9, 2.05), Call("s2", 1.9, 2.2)]).wrong == []


def test_a_turn_is_working_while_the_model_is_asked() -> None:
    idle = sample(session={"turn": "idle", "status": "idle"})
    assert judge([idle], [HOLD]).wrong == []
    calls = [Call("s1", 1.9, 2.2)]
    late = judge([idle, sample()], [HOLD], calls)
    assert (late.wrong, late.behind) == ([], 1)
    assert judge([sample(), idle], [HOLD], calls).wrong[0].startswith("WRONG TURN: idle")


def test_what_lets_its_session_go_has_closed_its_turn() -> None:
    closing = Hold("s1", AGENT, since=1.0, closing=1.5)
    assert judge([sample(session=ENDED)], [closing]).wrong == []
    assert judge([sample(session=ENDED | {"rule": "key-gone"})], [closing]).wrong[0].startswith("FALSE ENDED")
    assert judge([sample(sessions=[])], [closing]).wrong[0].startswith("LOST")


def test_an_end_while_the_kernel_takes_it_down_is_counted() -> None:
    found = judge([sample(session=ENDED, after=[], dying=[AGENT])], [HOLD])
    assert (found.wrong, found.dying) == ([], 1)


def test_every_cell_is_played_or_has_a_reason() -> None:
    for agent in RECIPES:
        cells = matrix.cells(agent, "1")
        assert {(cell.mode, cell.state) for cell in cells} == {
            (mode, state) for mode in RECIPES[agent].MODES for state in PLAYS
        }
        assert all(cell.not_applicable is None or len(cell.not_applicable) > 10 for cell in cells)
    assert set(matrix.CORE) == set(MODES)
    small = {agent: recipe.CORE for agent, recipe in RECIPES.items() if recipe.CORE is not None}
    assert all(set(core) == set(RECIPES[agent].MODES) for agent, core in small.items())
    assert all(set(states) <= set(PLAYS) for core in small.values() for states in core.values())
    assert set().union(*matrix.CORE.values()) <= set(PLAYS)


def test_every_pinned_agent_has_a_recipe_and_two_are_versions_of_claude() -> None:
    known = install.packages()
    assert set(known) <= set(RECIPES)
    assert {"2.1.197", "2.1.325"} <= set(known["claude-code"].versions)


def test_certified_keeps_what_was_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "PATH", tmp_path / "docs" / "certified.md")
    first, second = matrix.cells("codex", "1"), matrix.cells("codex", "2")
    report.write(first, {cell: True for cell in first if cell.not_applicable is None})
    broken = {cell: cell.state != "sigkill" for cell in second if cell.not_applicable is None}
    report.write(second, broken)
    report.write(second[:3], dict.fromkeys(second[:3], True))
    lines = [line for line in report.PATH.read_text().splitlines() if line.startswith("| codex")]
    assert [line.split(" | ")[5] for line in lines] == ["certified", "not certified"]
    assert report.PATH.read_text().count("| agent |") == 1
    assert "headless/sigkill, interactive/sigkill, daemon/sigkill" in lines[1]


def test_without_node_one_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AGENTCTL_LAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert lab.main(["--cell", "codex/headless/finished"]) == 1
    said = capsys.readouterr().err
    assert "not found: node and npm" in said
    assert said.count("\n") == 1
    assert not (tmp_path / "cache").exists()


def test_a_failed_installation_says_which_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AGENTCTL_LAB_CACHE", str(tmp_path / "cache"))
    for name in ("node", "npm"):
        (tmp_path / name).write_text("#!/bin/sh\necho 'npm error 404 not there' >&2\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert lab.main(["--cell", "codex/headless/finished"]) == 1
    said = capsys.readouterr()
    assert "npm install @openai/codex@0.166.0 failed: npm error 404 not there" in said.err
    assert "about 436 MB" in said.out
    assert list((tmp_path / "cache").iterdir()) == []


def test_without_namespaces_one_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LabError, match="needs `unshare`"):
        isolation.wrap([])
    (tmp_path / "unshare").write_text("#!/bin/sh\necho 'unshare failed: Operation not permitted' >&2\nexit 1\n")
    (tmp_path / "unshare").chmod(0o755)
    with pytest.raises(LabError, match="Operation not permitted"):
        isolation.wrap([])


def test_an_agent_that_is_not_covered_is_refused_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    for agent, why in agents.not_covered("lab").items():
        assert lab.main(["--agent", agent]) == 1
        assert capsys.readouterr().err == f"lab: {agent} is not covered: {why}\n"


def test_unknown_names_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert lab.main(["--agent", "nobody"]) == 1
    assert lab.main(["--cell", "nothing/like/it"]) == 1
    assert lab.main(["--version", "1"]) == 1
    assert capsys.readouterr().err.count("lab: ") == 3


def test_the_screen_shows_what_a_terminal_would() -> None:
    screen = Screen(20, 4)
    screen.feed("one\r\ntwo\r\n\x1b[1;31mthree\x1b[0m\x1b[1;1HONE\x1b[2;2H\x1b[K")
    assert screen.text() == "ONE\nt\nthree\n"
    screen.feed("\x1b[4;1Hlast\r\nnew")
    assert screen.text() == "t\nthree\nlast\nnew"
    assert screen.scrolled == ["ONE"]
    screen.feed("\x1b[2J\x1b]0;title\x07\x1b[Hwide 日本\x1b")
    screen.feed("[2Dx")
    assert screen.text().splitlines()[0] == "wide 日x"


def test_the_screen_answers_a_terminals_questions() -> None:
    screen = Screen(20, 4)
    screen.feed("ab\x1b[6n\x1b[c\x1b]11;?\x1b\\\x1b[?2026$p")
    assert screen.answers == ["\x1b[1;3R", "\x1b[?62;22c", "\x1b]11;rgb:0000/0000/0000\x1b\\", "\x1b[?2026;0$y"]


def test_a_program_on_a_terminal(tmp_path: Path) -> None:
    code = "print('ready', flush=True); print('got ' + input(), flush=True); raise SystemExit(7)"
    running = Running([sys.executable, "-c", code], {"TERM": "xterm"}, tmp_path, tty=True, output=tmp_path / "out")
    try:
        running.wait_shown("ready", 30)
        assert running.alive()
        assert running.key in living()[0]
        running.type("hello")
        running.wait_shown("got hello", 30)
        assert running.wait_end(30) == 7
        until(lambda: running.key not in itertools.chain(*living()), 10, "it is gone")
    finally:
        running.close()


@pytest.mark.parametrize("tty", [False, True])
def test_a_program_heeds_signals_that_we_ignore(tmp_path: Path, tty: bool) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    code = "import time; print('ready', flush=True); time.sleep(600)"
    running = Running([sys.executable, "-c", code], {"TERM": "xterm"}, tmp_path, tty=tty, output=tmp_path / "out")
    try:
        running.wait_shown("ready", 30)
        running.signal(signal.SIGINT)
        assert running.wait_end(30) != 0
    finally:
        running.close()
        signal.signal(signal.SIGINT, before)


def test_a_program_that_does_not_come_is_told_and_ended(tmp_path: Path) -> None:
    code = "import time; print('something else', flush=True); time.sleep(600)"
    running = Running([sys.executable, "-c", code], {}, tmp_path, tty=False, output=tmp_path / "out")
    try:
        with pytest.raises(LabError, match=r"not within 0\.5 s"):
            running.wait_shown("never", 0.5)
        with pytest.raises(LabError, match="the end of pid"):
            running.wait_end(0.2)
    finally:
        running.close()
    assert not is_alive(running.key)


def test_only_a_proved_process_is_signalled() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    try:
        row = row_of(child.pid)
        assert row is not None
        with pytest.raises(LabError, match="not the process that was started"):
            send(Key(child.pid, row.key.ticks + 1), signal.SIGKILL)
        assert child.poll() is None
    finally:
        child.communicate()


def test_a_cell_that_hangs_is_ended_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "CELL_LIMIT", 0.5)
    rooms = lab.Rooms(["/bin/sh", "-c", "exec sleep 600", "--"], "mark")
    result = rooms.play(matrix.cells("codex", "1")[0], Path("/nonexistent"))
    assert not result.passed
    assert result.text.startswith("hung: not over within 0.5 s")
