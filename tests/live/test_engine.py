"""The engine on real agents: what wakes it, and exactly which events it tells. No test relies on how long something
takes: each state is held until its event is there."""

from __future__ import annotations

import os
import shutil
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

from agentctl.kernel import watch as watching
from agentctl.live import births, looking, pace, rounds
from agentctl.live import engine as engines
from agentctl.live.difference import Seen
from agentctl.live.engine import Ended, Engine, follow
from agentctl.live.looking import Stalled
from agentctl.live.rounds import Interest, Rounds
from agentctl.model import ALIVE, GONE, Session
from agentctl.query import sessions
from agentctl.query.reading import Scope
from tests.support.demo_home import TIMEOUT, Home, session_of
from tests.support.following import Following

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from agentctl.query.sessions import Look

pytestmark = pytest.mark.linux

ASK_THEN_RUN = "[[ask:while [ ! -e go ]; do sleep 0.02; done]] [[idle]]"
NEVER = 100 * TIMEOUT


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    found = Home(tmp_path)
    yield found
    found.end_all()


@pytest.fixture
def only_wake_ups(monkeypatch: pytest.MonkeyPatch) -> None:
    """No look is ever due: it is a wake-up that causes one."""
    monkeypatch.setattr(pace, "PAUSES", (NEVER, NEVER))
    monkeypatch.setattr(pace, "BLIND_PAUSE", NEVER)


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "PAUSES", (0.05, 0.05))


def answer(home: Home, id: str) -> None:
    (home.folder(id) / "answer").write_text("y")


def test_a_life_is_told_exactly(home: Home, tmp_path: Path) -> None:
    with Following(home.env) as following:
        id, child = home.start(ASK_THEN_RUN)
        following.reaches(id, "waiting")
        first = len(following.of(id))
        answer(home, id)
        following.reaches(id, "running")
        (tmp_path / "go").touch()
        following.reaches(id, "idle")
        child.send_signal(signal.SIGKILL)
        child.wait()
        following.reaches(id, "done")
    told = following.words(id)
    assert told[first:] == [
        "session.running: waiting -> running",
        "session.idle: running -> idle",
        "session.done: idle -> done",
    ]
    # How much of its beginning is seen is chance; how it is told is not.
    assert told[0].startswith("session.started: None -> ")
    assert told[:first][-1].endswith("-> waiting")
    assert following.of(id)[first - 1].reason == "permission to run: while [ ! -e go ]; do sleep 0.02; done"
    assert following.types() == []  # nothing could not be read


def test_one_that_is_killed_in_mid_turn_is_stopped_and_may_be_resumed(home: Home) -> None:
    id, child = home.start("[[sleep:300]]")
    with Following(home.env) as following:
        assert following.checkpoint is not None
        assert [session.status for session in following.checkpoint.sessions.values()] == ["running"]
        child.kill()
        child.wait()
        following.reaches(id, "stopped")
        home.resume(id, "[[sleep:300]]")
        following.reaches(id, "running")
        assert following.words(id) == ["session.stopped: running -> stopped", "session.resumed: stopped -> running"]


@pytest.mark.usefixtures("only_wake_ups")
def test_the_end_of_a_process_wakes(home: Home) -> None:
    id, child = home.start("[[sleep:300]]")
    with Following(home.env) as following:
        child.kill()
        child.wait()
        following.reaches(id, "stopped")


@pytest.mark.usefixtures("only_wake_ups")
def test_a_file_wakes(home: Home) -> None:
    id, _ = home.start("[[ask:sleep 300]]")
    home.wait_for_status(id, "waiting")
    with Following(home.env) as following:
        answer(home, id)
        following.reaches(id, "running")


def test_a_new_process_wakes(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "PAUSES", (0.2, NEVER))  # the first look may find it without a session
    with Following(home.env) as following:
        id, _ = home.start("[[sleep:300]]")
        following.reaches(id, "running")


def test_another_new_process_does_not_wake(home: Home) -> None:
    """Other tests start agents meanwhile, so the engine is asked about this very process."""
    engine = Engine(Scope(), home.env)
    engine.look()
    other = os.posix_spawn("/bin/sleep", ["sleep", "300"], {})
    try:
        assert not engine._births.is_agent_among(frozenset({other}))
    finally:
        os.kill(other, signal.SIGKILL)
        os.waitpid(other, 0)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Look]:
    """The looks that were made."""
    made: list[Look] = []

    def look(*given: Any) -> Look:
        made.append(sessions.settled_look(*given))
        return made[-1]

    monkeypatch.setattr(engines, "settled_look", look)
    return made


@pytest.mark.usefixtures("often")
def test_a_store_that_cannot_be_read_ends_nothing(home: Home) -> None:
    id, _ = home.start("[[sleep:300]]")
    ended, child = home.start("[[sleep:300]]")
    with Following(home.env) as following:
        child.kill()
        child.wait()
        following.reaches(ended, "stopped")
        folder = home.root / "sessions"
        with following.between_looks:
            folder.rename(home.root / "away")
            folder.write_text("not a folder")
        following.tells("agent.problem", agent="demo")
        following.engine_looks_again()
        with following.between_looks:
            folder.unlink()
            (home.root / "away").rename(folder)
        following.tells("agent.recovered", agent="demo")
        following.engine_looks_again()
        words = following.words(id)
        assert [word for word in words if "removed" in word or "stopped" in word or "done" in word] == []
        assert following.words(ended) == ["session.stopped: running -> stopped"]


@pytest.mark.usefixtures("often")
def test_a_transcript_that_is_deleted_is_told(home: Home) -> None:
    id, child = home.start("[[sleep:300]]")
    with Following(home.env) as following:
        child.kill()
        child.wait()
        following.reaches(id, "stopped")
        shutil.rmtree(home.folder(id))
        following.reaches(id, None)
        assert following.words(id)[1:] == ["session.removed: stopped -> None"]


def scripted(answers: list[Look]) -> Callable[..., Look]:
    rest = iter(answers)
    return lambda *_: next(rest)


def made_of(look: Look, *found: Session) -> Look:
    return look._replace(answer=look.answer._replace(sessions=found, unattached=(), problems=()))


@pytest.mark.usefixtures("often")
def test_one_that_is_absent_for_a_moment_was_not_removed(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = sessions.settled_look(Scope(), home.env)
    one = Session("s", "demo", "done", GONE, "done")
    there, away = made_of(empty, one), made_of(empty)
    monkeypatch.setattr(engines, "settled_look", scripted([there, away, there, away, away]))
    steps = follow(Engine(Scope(), home.env))
    assert next(steps).first
    (event,) = next(steps).events
    assert event.type == "session.removed"
    with pytest.raises(RuntimeError):  # all looks were used: the moment of absence told nothing
        next(steps)


def test_a_stream_that_goes_on_with_an_earlier_one_tells_what_changed_meanwhile(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of sessions that have ended, which a first look would not show."""
    empty = sessions.settled_look(Scope(), home.env)
    ended, busy = Session("s", "demo", "done", GONE, "done"), Session("t", "demo", "running", ALIVE, "working")
    before = Seen(
        {("demo", "s"): ended._replace(status="running", process=ALIVE), ("demo", "u"): ended._replace(id="u")}
    )
    scopes: list[Scope] = []
    rest = iter([made_of(empty, ended, busy), made_of(empty, ended, busy)])

    def look(scope: Scope, *_: object) -> Look:
        scopes.append(scope)
        return next(rest)

    monkeypatch.setattr(engines, "settled_look", look)
    step = next(follow(Engine(Scope(), home.env), before))
    assert scopes[0].also == {("demo", "s"), ("demo", "u")}
    assert step.first
    words = [f"{event.type}: {event.id}" for event in step.events]
    assert words == ["session.removed: u", "session.done: s", "session.started: t"]
    assert len(scopes) == 2  # only the second look in a row tells the removal


@pytest.mark.usefixtures("often")
def test_no_room_for_watches_is_told_and_it_looks_all_the_same(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "TRY_AGAIN", 0.0)
    real = watching.Inotify.add
    full = [True]

    def add(self: watching.Inotify, path: str, mask: int) -> int | None:
        if full[0]:
            self.full = True
            return None
        return real(self, path, mask)

    monkeypatch.setattr(watching.Inotify, "add", add)
    id, _ = home.start("[[ask:sleep 300]]")
    home.wait_for_status(id, "waiting")
    with Following(home.env) as following:
        problem = following.tells("agent.problem", agent="agentctl").problem
        assert problem is not None and "no room" in problem.problem
        answer(home, id)
        following.reaches(id, "running")
        full[0] = False
        following.tells("agent.recovered", agent="agentctl")


def test_a_session_that_is_followed_is_shown_whenever_it_ended(home: Home) -> None:
    id = session_of(home.run("-p", "ended"))
    shown = sessions.settled_look(Scope(), home.env).answer.sessions
    assert shown == ()
    (session,) = sessions.settled_look(Scope(also=frozenset({("demo", id)})), home.env).answer.sessions
    assert (session.id, session.status) == (id, "done")
    assert sessions.settled_look(Scope(also=frozenset({("codex", id)})), home.env).answer.sessions == ()


class Asleep:
    """A watch to which nothing happens: it notes until when it was to sleep, and says that this moment has come."""

    def __init__(self) -> None:
        self.until: list[float] = []

    def sleep(self, until: float) -> str:
        self.until.append(until)
        return watching.DUE


class Enough(Exception):
    pass


def test_a_check_of_the_pids_keeps_the_rest_that_files_have_to_take() -> None:
    def enough() -> None:
        raise Enough

    newborn, watch = births.Births(None), Asleep()
    found = Rounds(pace.BURST, births=newborn, tick=enough)
    found._open = watch  # type: ignore[assignment]
    now = time.monotonic()
    for wake in (now - 0.1, now):
        found._pace.woken(watching.CHANGED, wake)
    newborn._checked = now - births.CHECK_PIDS + 0.2  # a check is due before files may wake again
    assert found._until(now) == watching.DUE
    rest = found._pace.earliest()
    assert rest > now + 0.2
    newborn._checked = now - births.CHECK_PIDS + 0.2
    with pytest.raises(Enough):
        found._until(now + NEVER)
    assert watch.until == [now, rest]


@pytest.mark.parametrize("blind", [True, False])
def test_if_new_processes_cannot_be_noticed_it_looks_more_often(blind: bool) -> None:
    newborn = births.Births(None)
    newborn._newcomers.blind = blind
    with Rounds(births=newborn) as found:
        found.cover(Interest())
        assert found._watch.blind is blind


def test_it_ends_when_nobody_reads_any_more(home: Home) -> None:
    following = Following(home.env)
    following.end()
    assert following.events == []


def test_only_the_last_of_many_ended_sessions_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "ENDED_KEPT", 2)
    ended = Ended()
    alive = {("demo", "z"): Session("z", "demo", "running", ALIVE, "working")}
    done = {("demo", id): Session(id, "demo", "done", GONE, "done") for id in "abc"}

    def kept(*ids: str) -> set[str]:
        sessions = {**alive, **{("demo", id): done[("demo", id)] for id in ids}}
        return {id for _, id in ended.without_oldest(Seen(sessions)).sessions}

    assert kept("c") == {"c", "z"}
    assert kept("c", "a") == {"c", "a", "z"}
    assert kept("c", "a", "b") == {"a", "b", "z"}  # c has ended first
    assert kept("a", "b") == {"a", "b", "z"}
    assert kept("b") == {"b", "z"}  # a was resumed or removed


def test_a_store_that_does_not_answer_is_left_in_peace_for_a_while(home: Home) -> None:
    look = sessions.settled_look(Scope(), home.env)._replace(stalled={("demo", "/x"): "no answer"})
    stalled = Stalled()
    assert stalled.known(100.0) == {}
    stalled.note(look, 100.0)
    assert stalled.known(100.0 + looking.FORGET_STALLED / 2) == {("demo", "/x"): "no answer"}
    stalled.note(look, 100.0 + looking.FORGET_STALLED / 2)  # it was not tried: that is no news
    assert stalled.known(100.0 + looking.FORGET_STALLED) == {}
