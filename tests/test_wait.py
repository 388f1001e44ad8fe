"""wait, on real agents: what ends it, what it says, and that it is an event that wakes it. The pauses after which it
would look again by itself are longer than any test."""

from __future__ import annotations

import shutil
import subprocess
import threading
from typing import TYPE_CHECKING, Any

import pytest

from agentctl import wait as waiting
from agentctl.errors import NotFound
from agentctl.kernel import watch
from agentctl.live import pace, rounds
from agentctl.model import ALIVE, GONE, UNKNOWN, Session
from agentctl.query import sessions
from tests.support.demo_home import COMMAND, TIMEOUT, Home, session_of, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from agentctl.live.rounds import Interest
    from agentctl.query.sessions import Look
    from agentctl.wait import Result, Transition
    from tests.support.launch_world import World

GO = "[[bash:while [ ! -e go ]; do sleep 0.02; done]]"


@pytest.fixture(autouse=True)
def only_events_wake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "PAUSES", (10 * TIMEOUT, 10 * TIMEOUT))
    monkeypatch.setattr(pace, "BLIND_PAUSE", 10 * TIMEOUT)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    found = Home(tmp_path)
    yield found
    found.end_all()


class Looks:
    """The looks that were made, and a gate before each but the first ones."""

    def __init__(self) -> None:
        self.made: list[tuple[Session, ...]] = []
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self, *given: Any) -> Look:
        assert self.gate.wait(TIMEOUT)
        found = sessions.settled_look(*given)
        self.made.append(found.answer.sessions)
        return found


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    found = Looks()
    monkeypatch.setattr(waiting, "settled_look", found)
    return found


class Waiting:
    """A wait in a thread of its own, from the moment at which it waits."""

    def __init__(self, home: Home | World, *ids: str, **options: Any) -> None:
        self.told: list[Transition] = []
        self.result: Result | None = None
        self.error: Exception | None = None
        self._waits = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(home, ids, options), daemon=True)
        self._thread.start()
        assert self._waits.wait(TIMEOUT)

    def _run(self, home: Home | World, ids: tuple[str, ...], options: Any) -> None:
        options = {"timeout": 3 * TIMEOUT, **options}
        try:
            begun = lambda targets: self._waits.set()  # noqa: E731
            self.result = waiting.wait(ids, env=home.env, begun=begun, report=self.told.append, **options)
        except Exception as error:  # noqa: BLE001 - told by end()
            self.error = error
        finally:
            self._waits.set()

    def end(self) -> Result:
        self._thread.join(4 * TIMEOUT)
        assert self.error is None, self.error
        assert self.result is not None
        return self.result

    def words(self) -> list[str]:
        return [f"{change.before} -> {change.after}" for change in self.told]


def answer(home: Home, id: str) -> None:
    home.wait_for_status(id, "waiting")
    (home.folder(id) / "answer").write_text("y")


@pytest.mark.parametrize(
    ("then", "code", "status"), [("", 0, "done"), ("[[fail:no more]]", 6, "failed"), ("[[text:x]]", 0, "done")]
)
@pytest.mark.parametrize("until", ["ended", "idle"])
def test_it_ends_by_itself(home: Home, then: str, code: int, status: str, until: str) -> None:
    id, _ = home.start(f"[[ask:true]] {then}")
    home.wait_for_status(id, "waiting")
    wait = Waiting(home, id, until=until)
    answer(home, id)
    result = wait.end()
    assert result.exit_code == code
    if until == "ended":
        assert result.waited[0].status == status
        assert wait.words()[-1].endswith(f"-> {status}")
    assert result.waited[0].session is not None


@pytest.mark.parametrize("until", [None, "idle", "waiting", "ended"])
@pytest.mark.parametrize("way", ["kill", "terminate"])
def test_it_is_ended_by_somebody(home: Home, until: str | None, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "FINISHING", 10 * TIMEOUT)
    id, child = home.start("[[sleep:300]]")
    wait = Waiting(home, id, until=until)
    getattr(child, way)()
    result = wait.end()
    assert (result.exit_code, result.waited[0].status) == (7, "stopped")
    assert wait.words()[-1].endswith("-> stopped")  # in its last moments it may have been seen as idle


@pytest.mark.parametrize(("prompt", "code"), [("x", 0), ("[[fail:no]]", 6)])
@pytest.mark.parametrize("until", [None, "idle", "waiting", "ended"])
def test_it_has_ended_already(home: Home, prompt: str, code: int, until: str | None) -> None:
    id = session_of(home.run("-p", prompt))
    wait = Waiting(home, id[:10], until=until)
    assert wait.end().exit_code == code
    assert wait.told == []


def test_a_question_ends_the_wait_and_its_answer_the_next(home: Home) -> None:
    id, _ = home.start(f"{GO} [[ask:make tea]] [[idle]]")
    wait = Waiting(home, id)
    (home.root.parents[1] / "go").touch()
    result = wait.end()
    assert (result.exit_code, result.waited[0].status) == (0, "waiting"), result
    assert [(change.after, change.why) for change in wait.told] == [("waiting", "permission to run: make tea")]
    wait = Waiting(home, id, until="idle")
    answer(home, id)
    assert (wait.end().exit_code, wait.words()[-1].split()[-1]) == (0, "idle")


def test_a_failed_turn_is_one_whether_its_process_lives_or_not(home: Home) -> None:
    id, _ = home.start("[[fail:no]] [[idle]]")
    home.wait_for_status(id, "idle")
    result = Waiting(home, id).end()
    assert (result.exit_code, result.waited[0].status) == (6, "idle"), result


def test_the_time_is_over(home: Home) -> None:
    id, _ = home.start("[[sleep:300]]")
    for timeout in (0.0, 0.3):
        result = Waiting(home, id, timeout=timeout).end()
        assert (result.exit_code, result.waited[0].status) == (124, "running")


def test_what_meets_the_condition_is_no_timeout() -> None:
    """It may pass, so the wait looks twice; but the last look at the end of the time counts."""
    for code, over in ((0, True), (6, True), (5, False), (None, False)):
        target = waiting.Target(None)
        target.settle(waiting.Seen("idle", code=code, patience=60.0), 1.0)
        assert not target.over
        assert target.meets_the_condition() is over


def test_an_end_between_look_and_sleep_is_not_lost(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps of the loop, driven: it dies after it was looked at and watched, before the sleep."""
    id, child = home.start("[[sleep:300]]")
    real = rounds.Rounds.cover

    def then_kill(self: rounds.Rounds, interest: Interest) -> bool:
        new = real(self, interest)
        if not new and child.poll() is None:
            child.kill()
            child.wait()
        return new

    monkeypatch.setattr(rounds.Rounds, "cover", then_kill)
    assert Waiting(home, id).end().exit_code == 7


def test_an_end_between_the_first_look_and_the_watch_is_not_lost(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    id, child = home.start("[[sleep:300]]")
    real = rounds.Rounds.cover

    def kill_first(self: rounds.Rounds, interest: Interest) -> bool:
        if child.poll() is None:
            child.kill()
            child.wait()
        return real(self, interest)

    monkeypatch.setattr(rounds.Rounds, "cover", kill_first)
    assert Waiting(home, id).end().exit_code == 7


def test_a_new_run_of_it_is_said_and_waited_for(home: Home, looks: Looks) -> None:
    id, child = home.start("[[sleep:300]]")
    before = child.pid
    wait = Waiting(home, id)
    wait_until(lambda: len(looks.made) >= 2, "the second look, after which it sleeps")
    looks.gate.clear()
    child.kill()
    child.wait()
    again = subprocess.Popen(
        [*COMMAND, "--resume", id, "[[sleep:300]]"], env=home.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    try:
        wait_until(lambda: (home.process_file(id) or {}).get("pid") == again.pid, "its new process")
        wait_until(lambda: len([e for e in home.events(id) if e["event"] == "prompt"]) == 2, "its new prompt")
        looks.gate.set()
        wait_until(lambda: wait.told, "the new run")
        again.kill()
    finally:
        again.kill()
        again.wait()
    assert wait.end().exit_code == 7
    assert wait.words() == ["running -> running", "running -> stopped"]
    assert wait.told[0].why == f"a new run: pid {again.pid}, before it was pid {before}"


def test_a_process_that_goes_on_to_another_session_leaves_this_one_ended(home: Home) -> None:
    """/clear: the same process is on another session now. Not followed: it is said."""
    other = session_of(home.run("-p", "x"))
    id, child = home.start("[[text:hello]] [[idle]]")
    home.wait_for_status(id, "idle")
    wait = Waiting(home, id, until="ended")
    (home.folder(id) / "process.json").rename(home.folder(other) / "process.json")
    result = wait.end()
    assert (result.exit_code, result.waited[0].status) == (0, "done")
    assert f"(pid {child.pid}) went on to {other}; this session is at rest" in (wait.told[-1].why or "")


def test_files_that_are_replaced(home: Home, tmp_path: Path) -> None:
    """The whole folder of the session is another one, and then a file in it."""
    id, _ = home.start("[[sleep:300]]")
    wait = Waiting(home, id)
    folder, copy = home.folder(id), tmp_path / "copy"
    shutil.copytree(folder, copy)
    folder.rename(tmp_path / "old")
    copy.rename(folder)
    file = (folder / "process.json").read_text()
    (folder / "new").write_text(file.replace('"busy"', '"waiting"'))
    (folder / "new").rename(folder / "process.json")
    assert wait.end().waited[0].status == "waiting"


def test_a_store_that_is_away_for_a_while(home: Home, looks: Looks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "UNSURE", 10 * TIMEOUT)
    id, child = home.start("[[sleep:300]]")
    wait = Waiting(home, id)
    away = home.root.with_name("away")
    home.root.rename(away)
    wait_until(lambda: looks.made[-1] == (), "a look without the store")
    away.rename(home.root)
    wait_until(lambda: looks.made[-1] != (), "a look with the store")
    child.kill()
    assert wait.end().exit_code == 7
    assert wait.words() == ["running -> stopped"]


def test_a_store_that_does_not_come_back(home: Home, looks: Looks, monkeypatch: pytest.MonkeyPatch) -> None:
    id, _ = home.start("[[sleep:300]]")
    wait = Waiting(home, id)
    # For a moment any process that starts may be on it.
    wait_until(lambda: any(one.status == "running" for one in looks.made[-1]), "a look that is sure")
    monkeypatch.setattr(waiting, "UNSURE", 0.2)
    home.root.rename(home.root.with_name("away"))
    result = wait.end()
    home.root.with_name("away").rename(home.root)
    assert result.exit_code == 5
    session = result.waited[0].session
    assert session is not None
    assert (session.status, session.process, session.pid) == ("unknown", UNKNOWN, None)
    assert wait.words() == ["running -> unknown"]


@pytest.fixture
def candidate(home: Home, tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A session that was killed in mid-turn, and a live process that may be about to take it up."""
    id, child = home.start("[[sleep:300]]")
    home.wait_for_event(id, "prompt")
    child.kill()
    child.wait()
    (tmp_path / "agentctl.demo_agent").write_text("read line\n")  # what `sh -m agentctl.demo_agent` runs
    (tmp_path / "python-at-rest").symlink_to("/bin/sh")
    with subprocess.Popen(
        ["python3", "-m", "agentctl.demo_agent", "--resume", id],
        executable=str(tmp_path / "python-at-rest"),
        env=home.env,
        cwd=tmp_path,
        stdin=subprocess.PIPE,
    ) as resting:
        wait_until(lambda: sessions.query_session(id, home.env).sessions[0].rule == "candidate", "the candidate")
        yield id, resting
        resting.kill()


def test_an_unknown_that_stays_is_exit_5(
    home: Home, candidate: tuple[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "UNSURE", 0.2)
    result = Waiting(home, candidate[0]).end()
    assert (result.exit_code, result.waited[0].status) == (5, "unknown")


def test_an_unknown_that_passes_is_waited_for(
    home: Home, candidate: tuple[str, subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "UNSURE", 10 * TIMEOUT)
    wait = Waiting(home, candidate[0])
    candidate[1].kill()
    assert wait.end().exit_code == 7


def test_an_unknown_at_the_end_of_the_time_is_no_timeout(home: Home, candidate: tuple[str, Any]) -> None:
    assert Waiting(home, candidate[0], timeout=0.0).end().exit_code == 5


def test_a_burst_of_writes_wakes_once_per_gap(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gap is longer than any test, so the whole burst wakes once. The end of the process wakes all the same."""
    slept: list[float] = []
    woken: list[str] = []

    class Noted(watch.Watch):
        def sleep(self, until: float) -> str:
            slept.append(until)
            woken.append(super().sleep(until))
            return woken[-1]

    monkeypatch.setattr(pace, "GRAIN", 10 * TIMEOUT)
    monkeypatch.setattr(rounds, "Watch", Noted)
    id, child = home.start("[[sleep:300]]")
    wait = Waiting(home, id)

    def write_and_look() -> bool:
        (home.folder(id) / "noise").write_text("x")
        return watch.CHANGED in woken

    wait_until(write_and_look, "a wake-up by a file")
    for number in range(200):
        (home.folder(id) / "noise").write_text(str(number))
    wait_until(
        lambda: len(slept) > len(woken), "the sleep after the look that the file woke"
    )  # a look would see the end
    child.kill()
    assert wait.end().exit_code == 7
    assert [by for by in woken if by != watch.DUE] == [watch.CHANGED, watch.ENDED]


def test_all_of_several_and_the_worst_counts(home: Home) -> None:
    done = session_of(home.run("-p", "x"))
    failed = session_of(home.run("-p", "[[fail:no]]"))
    id, child = home.start("[[sleep:300]]")
    wait = Waiting(home, done, failed[:8], id, done, until="ended")
    child.kill()
    result = wait.end()
    assert [(one.id, one.exit_code) for one in result.waited] == [(done, 0), (failed, 6), (id, 7)]
    assert result.exit_code == 6
    assert Waiting(home, id, done).end().exit_code == 7
    other, _ = home.start("[[sleep:300]]")
    assert Waiting(home, failed, other, timeout=0.2).end().exit_code == 124


def test_the_first_of_several(home: Home) -> None:
    one, child = home.start("[[sleep:300]]")
    two, _ = home.start("[[sleep:300]]")
    wait = Waiting(home, two, one, first=True)
    child.kill()
    result = wait.end()
    assert result.exit_code == 7
    assert {one.id: one.status for one in result.waited} == {one: "stopped", two: "running"}
    assert Waiting(home, two, first=True, timeout=0.1).end().exit_code == 124


def test_whom_there_is_not(home: Home) -> None:
    id = session_of(home.run("-p", "x"))
    for ids, options in (((id, "nobody"), {}), ((), {"group": "nobody"}), (("m0a1b2c3d4e5",), {})):
        with pytest.raises(NotFound):
            waiting.wait(ids, env=home.env, **options)  # type: ignore[arg-type]


# The rules, one by one

SESSION = Session("id", "agent", "running", ALIVE, "working")


@pytest.mark.parametrize(
    ("fields", "until", "expected"),
    [
        ({"status": "running"}, None, (None, 0)),
        ({"status": "alive"}, None, (None, 0)),
        ({"status": "alive"}, "idle", (None, 0)),
        ({"status": "waiting"}, None, (0, 0)),
        ({"status": "waiting"}, "waiting", (0, 0)),
        ({"status": "waiting"}, "idle", (None, 0)),
        ({"status": "waiting"}, "ended", (None, 0)),
        ({"status": "idle"}, None, (0, 0)),
        ({"status": "idle", "last_turn": "failed"}, None, (6, 0)),
        ({"status": "idle", "last_turn": "interrupted"}, None, (0, waiting.FINISHING)),
        ({"status": "idle"}, "waiting", (None, 0)),
        ({"status": "idle"}, "ended", (None, 0)),
        ({"status": "done"}, "waiting", (0, 0)),
        ({"status": "failed"}, "ended", (6, 0)),
        ({"status": "stopped"}, "idle", (7, 0)),
        ({"status": "unknown", "process": UNKNOWN, "rule": "newer"}, None, (5, waiting.UNSURE)),
        ({"status": "unknown", "process": UNKNOWN, "rule": "supervised"}, "ended", (5, waiting.UNSURE)),
        ({"status": "unknown", "process": UNKNOWN, "rule": "elsewhere"}, None, (5, 0)),
        ({"status": "unknown", "process": UNKNOWN, "rule": "unseen"}, None, (5, 0)),
        ({"status": "unknown", "process": UNKNOWN, "rule": "handed-on"}, None, (5, 0)),
        ({"status": "unknown", "process": UNKNOWN, "rule": "wrapped"}, None, (None, 0)),
        ({"status": "unknown", "process": GONE, "rule": "unread"}, "ended", (5, 0)),
    ],
)
def test_what_ends_a_wait(fields: dict[str, Any], until: str | None, expected: tuple[int | None, float]) -> None:
    assert waiting.decide(SESSION._replace(**fields), until) == expected
