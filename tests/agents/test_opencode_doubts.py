"""OpenCode where nothing proves who is on a session: nobody is then called the only one that can be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from agentctl.query import sessions
from tests.support.opencode_home import Home, line

if TYPE_CHECKING:
    from pathlib import Path

    from agentctl.model import Answer
    from tests.support.worlds import FixtureWorld


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Any:
    def ask(world: FixtureWorld) -> Answer:
        monkeypatch.setattr(sessions, "snapshot", lambda agents: world.processes)
        monkeypatch.setattr(sessions, "SECOND_LOOK", 0.0)
        return sessions.query(sessions.Scope(agents=("opencode",), since=0.0), world.env)

    return ask


def words(answer: Answer) -> dict[str, tuple[str, int | None, bool]]:
    assert answer.problems == ()
    return {one.id: (one.status, one.pid, one.inferred) for one in answer.sessions}


def test_a_new_turn_in_the_session_of_another_run_may_be_of_that_one_which_was_killed(home: Home, judged: Any) -> None:
    """Killed before its log was written, it was called running for as long as a screen of its directory lived."""
    home.process(10, 10)
    home.logs(10, line(11, "aa", "init"))
    home.session("ses_other", 50)
    home.prompt("ses_other", 51)
    home.step("ses_other", 52, end=53, finish="stop")
    home.logs(99, line(52, "dead", "loop session.id=ses_other step=0"))
    home.prompt("ses_other", 100)
    home.step("ses_other", 102)
    answer = judged(home.world())
    assert words(answer) == {"ses_other": ("unknown", None, False)}
    assert [(one.pid, one.candidates) for one in answer.unattached] == [(10, ("ses_other",))]


def test_a_new_turn_in_the_session_that_a_screen_was_told_to_open_is_its_own(home: Home, judged: Any) -> None:
    home.session("ses_a", 50)
    home.prompt("ses_a", 51)
    home.logs(99, line(52, "dead", "loop session.id=ses_a step=0"))
    home.process(10, 100, "--session", "ses_a")
    home.logs(10, line(101, "aa", "init"))
    home.prompt("ses_a", 110)
    assert words(judged(home.world())) == {"ses_a": ("running", 10, True)}


def test_what_is_dated_in_the_future_is_not_newer_than_a_process(home: Home, judged: Any) -> None:
    """A clock that was wrong: each screen that was started there later was on its sessions, until it had a log."""
    home.session("ses_ahead", 5000)
    home.prompt("ses_ahead", 5001)
    home.step("ses_ahead", 5002, end=5003, finish="stop")
    home.process(10, 100)
    answer = judged(home.world(taken_at=200))
    assert words(answer) == {"ses_ahead": ("done", None, True)}
    assert [(one.pid, one.candidates) for one in answer.unattached] == [(10, ("ses_ahead",))]


def test_a_log_that_cannot_be_read_makes_nobody_the_only_one(home: Home, judged: Any) -> None:
    """A screen that was never prompted was on the session of one that had been killed."""
    home.process(10, 10)
    home.logs(10, line(11, "aa", "init"))
    home.session("ses_dead", 100)
    home.prompt("ses_dead", 101)
    home.logs(99, line(102, "dead", "loop session.id=ses_dead step=0"))
    home.log.unlink()
    home.log.mkdir()
    answer = judged(home.world())
    assert [one.path for one in answer.problems] == [str(home.log)]
    assert words(answer._replace(problems=())) == {"ses_dead": ("unknown", None, False)}
    assert [(one.pid, one.candidates) for one in answer.unattached] == [(10, ("ses_dead",))]
