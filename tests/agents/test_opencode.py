"""The OpenCode adapter: whose process is on which session, and what it does there."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from agentctl.agents.opencode import api
from agentctl.model import Answer, Details, Session
from agentctl.query import sessions
from tests.agents.opencode.fixtures import rebuild
from tests.support.opencode_home import Home, line, tool
from tests.support.worlds import FIXTURES, FixtureWorld

if TYPE_CHECKING:
    from pathlib import Path

ASKED = "asking id=per_1 permission=bash patterns=[]"
WHAT = 'permission=webfetch pattern="a \\"action.action=allow \\" b"'


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Any:
    def ask(world: FixtureWorld, **scope: Any) -> Answer:
        monkeypatch.setattr(sessions, "snapshot", lambda agents: world.processes)
        monkeypatch.setattr(sessions, "SECOND_LOOK", 0.0)
        return sessions.query(sessions.Scope(agents=("opencode",), since=0.0, children=True, **scope), world.env)

    return ask


def words(answer: Answer) -> dict[str, tuple[str, int | None, bool]]:
    assert answer.problems == ()
    return {one.id: (one.status, one.pid, one.inferred) for one in answer.sessions}


def only(answer: Answer) -> Session:
    (session,) = answer.sessions
    return session


# Eight processes of the real agent at one moment


def test_eight_processes_of_one_directory_are_told_apart(tmp_path: Path, judged: Any) -> None:
    home = tmp_path / "home"
    shutil.copytree(FIXTURES / "opencode_one_directory", home)
    world = rebuild(home)
    answer = judged(
        world._replace(env={**world.env, "XDG_CACHE_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)})
    )
    assert words(answer) == {
        "ses_e1ebcc3a4ffeprRlVV0Z6fzS2z": ("stopped", None, True),  # the screens of its directory may show it
        "ses_e1ebc9adaffed6STTCcxV1XaZZ": ("running", 31862, False),
        "ses_e1ebc9c3fffeGyu7xrOIZoSHdC": ("running", 31865, False),
        "ses_e1ebc8acdffermm15WGkttFa1R": ("running", 31868, False),
        "ses_e1eba9e66ffe3hpUDhBUX56oQx": ("idle", 31975, True),
        "ses_e1eba8e68ffeJk9zG3A82urOqS": ("waiting", 32075, True),
        "ses_e1eb9f9dbffecdMknJCMxeH9CJ": ("running", 32143, True),
        "ses_e1eba32dcffe6iixx3GkbSFahK": ("waiting", 32257, True),
        "ses_e1eba0a7fffe9GfXp6jJD2lZNt": ("waiting", 32257, True),
    }
    assert [(one.pid, one.candidates) for one in answer.unattached] == [(32421, ())]
    asked = {one.waiting_for for one in answer.sessions if one.waiting_for}
    assert asked == {"permission: bash: sleep 12", "permission: bash: sleep 6"}


# Who is on what


def test_the_log_tells_two_screens_of_one_directory_apart(home: Home, judged: Any) -> None:
    for pid, id, run in ((10, "ses_a", "aa"), (20, "ses_b", "bb")):
        home.process(pid, pid)
        home.session(id, 100 + pid)
        home.prompt(id, 101 + pid)
        home.step(id, 102 + pid)
        home.logs(pid, line(102 + pid, run, f"loop session.id={id} step=0"))
    assert words(judged(home.world())) == {"ses_a": ("running", 10, False), "ses_b": ("running", 20, False)}


def test_a_killed_run_has_ended_while_a_screen_of_its_directory_lives(home: Home, judged: Any) -> None:
    home.process(10, 10)
    home.session("ses_dead", 100)
    home.prompt("ses_dead", 101)
    home.step("ses_dead", 102)
    home.logs(99, line(102, "dead", "loop session.id=ses_dead step=0"))
    home.logs(10, line(11, "aa", "init"))
    answer = judged(home.world())
    assert words(answer) == {"ses_dead": ("stopped", None, True)}  # its screen may show it
    assert [(one.pid, one.candidates) for one in answer.unattached] == [(10, ())]


def test_a_log_is_late_so_what_it_does_not_say_ends_nothing(home: Home, judged: Any) -> None:
    """The real agent writes its lines up to a second after its rows: this was once a false `stopped`."""
    home.process(10, 10)
    home.logs(10, line(11, "aa", "init"))
    home.session("ses_new", 100)
    home.prompt("ses_new", 101)
    home.step("ses_new", 102)
    assert words(judged(home.world())) == {"ses_new": ("running", 10, True)}


def test_a_session_without_a_prompt_has_not_ended_while_its_process_may_be_starting(home: Home, judged: Any) -> None:
    for pid in (10, 20):
        home.process(pid, 10, "run", f"prompt {pid}")
    home.session("ses_a", 50)
    assert words(judged(home.world())) == {"ses_a": ("unknown", None, False)}
    home.table.rows.clear()
    assert words(judged(home.world())) == {"ses_a": ("done", None, False)}


def test_a_screen_that_has_a_session_and_begins_another_may_be_on_both(home: Home, judged: Any) -> None:
    home.process(10, 10)
    for id, second in (("ses_old", 50), ("ses_new", 100)):
        home.session(id, second)
        home.prompt(id, second + 1)
    home.step("ses_old", 52, end=53, finish="stop")
    home.logs(10, line(52, "aa", "loop session.id=ses_old step=0"))
    found = words(judged(home.world()))
    assert found == {"ses_old": ("done", None, True), "ses_new": ("unknown", None, False)}


def test_a_server_that_is_on_one_session_may_have_begun_another(home: Home, judged: Any) -> None:
    home.process(10, 10, "serve", cwd="/elsewhere")
    for id, second in (("ses_a", 50), ("ses_b", 100)):
        home.session(id, second)
        home.prompt(id, second + 1)
    home.step("ses_a", 52)
    home.logs(10, line(52, "aa", "loop session.id=ses_a step=0"))
    assert words(judged(home.world())) == {"ses_a": ("running", 10, False), "ses_b": ("unknown", None, False)}


def test_a_server_that_logs_nothing_may_be_on_any_open_turn(home: Home, judged: Any) -> None:
    home.process(10, 10, "serve", cwd="/elsewhere")
    home.session("ses_open", 50)
    home.prompt("ses_open", 51)
    home.step("ses_open", 52)
    home.session("ses_closed", 60)
    home.prompt("ses_closed", 61)
    home.step("ses_closed", 62, end=63, finish="stop")
    home.session("ses_begun", 70)
    home.session("ses_before", 1)
    home.prompt("ses_before", 2)
    answer = judged(home.world())
    assert words(answer) == {
        "ses_open": ("unknown", None, False),
        "ses_closed": ("done", None, False),  # what is at rest in its store is at rest
        "ses_begun": ("done", None, False),
        "ses_before": ("stopped", None, False),  # nothing in it is newer than the server
    }
    assert answer.unattached == ()  # a daemon is no stranger


def test_a_session_that_a_server_finished_is_at_rest(home: Home, judged: Any) -> None:
    home.process(10, 10, "serve")
    home.session("ses_a", 50)
    home.prompt("ses_a", 51)
    home.step("ses_a", 52, end=53, finish="stop")
    home.logs(10, line(52, "aa", "loop session.id=ses_a step=0"))
    assert words(judged(home.world())) == {"ses_a": ("done", None, True)}  # a client of the server may still show it


def test_a_run_keeps_its_session_to_its_end(home: Home, judged: Any) -> None:
    home.process(10, 10, "run", "do it")
    home.session("ses_a", 50)
    home.prompt("ses_a", 51, '"do it"')
    home.step("ses_a", 52, end=53, finish="stop")
    home.logs(10, line(50, "aa", "created id=ses_a slug=x"), line(52, "aa", "loop session.id=ses_a step=0"))
    session = only(judged(home.world()))
    assert (session.status, session.pid, session.link, session.inferred) == ("idle", 10, "exact", False)
    assert (session.reason, session.last_turn) == ("its turn is over, and its process is about to end", "done")


def test_a_resumed_run_has_not_finished_before_it_began(home: Home, judged: Any) -> None:
    home.session("ses_a", 50)
    home.prompt("ses_a", 51)
    home.step("ses_a", 52, end=53, finish="stop")
    home.process(10, 100, "run", "-s", "ses_a", "go on")
    session = only(judged(home.world()))
    assert (session.status, session.pid, session.inferred) == ("alive", 10, True)
    assert session.reason == "starting: its prompt is not stored yet"


def test_runs_without_a_log_are_told_apart_by_their_prompts(home: Home, judged: Any) -> None:
    for pid, id, word in ((10, "ses_a", "first"), (20, "ses_b", "second")):
        home.process(pid, 10, "run", "--log-level", "ERROR", f"the {word} one")
        home.session(id, 50)
        home.prompt(id, 51, f'"the {word} one"')
        home.step(id, 52)
    assert words(judged(home.world())) == {"ses_a": ("running", 10, True), "ses_b": ("running", 20, True)}


def test_two_screens_without_a_log_leave_it_open(home: Home, judged: Any) -> None:
    for pid in (10, 20):
        home.process(pid, 10)
    home.session("ses_a", 50)
    home.prompt("ses_a", 51)
    answer = judged(home.world())
    assert words(answer) == {"ses_a": ("unknown", None, False)}
    assert [one.candidates for one in answer.unattached] == [("ses_a",), ("ses_a",)]


def test_a_session_that_was_opened_again_is_idle_whatever_was_left_in_it(home: Home, judged: Any) -> None:
    home.session("ses_a", 50)
    home.prompt("ses_a", 51)
    home.step("ses_a", 52, tool())
    home.process(10, 100, "-s", "ses_a")
    session = only(judged(home.world()))
    assert (session.status, session.pid, session.last_turn) == ("idle", 10, "interrupted")


def test_to_continue_means_the_latest_of_the_directory(home: Home, judged: Any) -> None:
    for id, second in (("ses_old", 40), ("ses_latest", 50)):
        home.session(id, second)
        home.prompt(id, second + 1)
        home.step(id, second + 2, end=second + 3, finish="stop")
    home.process(10, 100, "--continue")
    assert words(judged(home.world())) == {"ses_old": ("done", None, True), "ses_latest": ("idle", 10, True)}


def test_a_child_that_has_not_executed_yet_is_not_a_second_process(home: Home, judged: Any) -> None:
    home.process(10, 10, "run", "do it")
    home.process(11, 60, "run", "do it", parent=10)
    home.session("ses_a", 50)
    home.prompt("ses_a", 51, '"do it"')
    home.step("ses_a", 52)
    home.logs(10, line(52, "aa", "loop session.id=ses_a step=0"))
    home._positions[11] = home._positions[10]
    session = only(judged(home.world()))
    assert [entry["pid"] for entry in session.processes] == [10]


def test_a_command_that_quotes_a_log_line_links_nothing(home: Home, judged: Any) -> None:
    home.process(10, 10, cwd="/elsewhere")
    home.session("ses_a", 50)
    home.prompt("ses_a", 51)
    home.step("ses_a", 52)
    text = 'evaluated permission=bash pattern="message=loop session.id=ses_a step=0" action.action=allow'
    home.logs(10, line(52, "aa", text))
    assert words(judged(home.world())) == {"ses_a": ("stopped", None, False)}


def test_a_turn_that_began_after_the_process_table_was_read_ends_nothing(
    home: Home, judged: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows say when it was written: its file is written by all sessions all the time."""
    for id, second in (("ses_old", 50), ("ses_new", 100)):
        home.session(id, second)
        home.prompt(id, second + 1)
        home.step(id, second + 2)
    monkeypatch.setattr(sessions, "LOOKS", 1)
    found = words(judged(home.world(taken_at=90)))
    assert found == {"ses_old": ("stopped", None, False), "ses_new": ("unknown", None, False)}
    monkeypatch.setattr(sessions, "LOOKS", 2)  # on the second look it is known to be older than that look's table
    assert words(judged(home.world(taken_at=90)))["ses_new"] == ("stopped", None, False)


# What it does


def asking(home: Home, *argv: str, name: str = "bash", log: str | None = ASKED) -> None:
    """A call that has reported nothing, and what the log has about it; None = there is no log."""
    home.process(10, 10, *argv)
    home.session("ses_a", 50)
    home.prompt("ses_a", 51)
    home.step("ses_a", 52, tool(name=name))
    if log is not None:
        home.logs(10, line(52, "aa", "loop session.id=ses_a step=0"), *([line(53, "aa", log)] if log else []))


def test_a_quiet_tool_and_a_question_in_the_log_is_waiting(home: Home, judged: Any) -> None:
    asking(home)
    session = only(judged(home.world()))
    assert (session.status, session.inferred, session.link) == ("waiting", True, "exact")
    assert session.waiting_for == "permission: bash: sleep 9"


@pytest.mark.parametrize(
    ("name", "log", "status", "inferred"),
    [
        ("webfetch", f"evaluated {WHAT} action.permission=* action.action=allow action.pattern=*", "running", False),
        ("webfetch", f"evaluated {WHAT} action.permission=* action.action=ask action.pattern=*", "waiting", True),
        ("bash", "", "waiting", True),  # its log is late; what is allowed reports at once
        ("some_plugin", "", "running", True),  # its log is late, or will never say
    ],
)
def test_a_quiet_tool_runs_if_it_was_allowed(
    home: Home, judged: Any, name: str, log: str, status: str, inferred: bool
) -> None:
    """A slow webfetch that is allowed and one that asks look the same in the database."""
    asking(home, name=name, log=log)
    assert words(judged(home.world())) == {"ses_a": (status, 10, inferred)}


@pytest.mark.parametrize("argv", [("run", "do it"), ("--auto",)])
def test_where_nobody_is_asked_nothing_waits(home: Home, judged: Any, argv: tuple[str, ...]) -> None:
    asking(home, *argv)
    assert words(judged(home.world())) == {"ses_a": ("running", 10, False)}


def test_without_a_log_a_process_that_runs_the_command_tells(home: Home, judged: Any) -> None:
    asking(home, log=None)
    assert words(judged(home.world())) == {"ses_a": ("waiting", 10, True)}
    home.table.add(11, 6000, 10, "sleep", "S", Details(("sleep", "9"), "/bin/sleep", "/work", home.env, 0, (11,)))
    assert words(judged(home.world())) == {"ses_a": ("running", 10, True)}


def test_what_a_sub_agent_asks_is_asked_on_its_parents_screen(home: Home, judged: Any) -> None:
    home.process(10, 10)
    home.session("ses_parent", 50)
    home.session("ses_child", 53, parent="ses_parent")
    home.prompt("ses_parent", 51)
    home.step("ses_parent", 52, tool(name="task", what="", metadata={"sessionId": "ses_child"}))
    home.prompt("ses_child", 54)
    home.step("ses_child", 55, tool(what="rm -r x"))
    lines = [f"loop session.id={id} step=0" for id in ("ses_parent", "ses_child")]
    home.logs(10, line(52, "aa", lines[0]), line(55, "aa", lines[1]), line(56, "aa", ASKED))
    answer = judged(home.world())
    assert words(answer) == {"ses_parent": ("waiting", 10, True), "ses_child": ("waiting", 10, True)}
    assert {one.waiting_for for one in answer.sessions} == {"permission: bash: rm -r x"}


def test_a_command_typed_by_the_person_waits_for_nobody(home: Home, judged: Any) -> None:
    home.process(10, 10)
    home.session("ses_a", 50)
    home.message("ses_a", 51, "user", {"type": "text", "text": "The following tool ...", "synthetic": True})
    home.message("ses_a", 51.1, "assistant", tool(), time={"created": 1})
    home.logs(10, line(50, "aa", "created id=ses_a slug=x"))
    assert words(judged(home.world())) == {"ses_a": ("running", 10, True)}


def test_a_retried_model_call_is_said_by_the_log(home: Home, judged: Any) -> None:
    home.process(10, 10)
    home.session("ses_a", 50)
    home.prompt("ses_a", 51)
    home.message("ses_a", 52, "assistant", time={"created": 1})
    where = "providerID=fake modelID=fake-1 session.id=ses_a small=false"
    home.logs(
        10,
        line(52, "aa", "loop session.id=ses_a step=0"),
        line(53, "aa", f'"stream error" {where} error.error="AI_APICallError: overloaded"', "ERROR"),
    )
    session = only(judged(home.world()))
    assert (session.status, session.inferred) == ("running", False)
    assert session.reason == "the model call failed and is retried: AI_APICallError: overloaded"


# What it says itself


@pytest.fixture
def served(home: Home) -> Home:
    home.process(10, 10, "serve", cwd="/elsewhere", ports=[4111])
    home.session("ses_a", 50)
    home.prompt("ses_a", 51)
    home.step("ses_a", 52, tool())
    home.logs(
        10,
        line(20, "aa", '"creating instance" directory=/work'),
        line(52, "aa", "loop session.id=ses_a step=0"),
        line(53, "aa", ASKED),
    )
    return home


@pytest.mark.parametrize(
    ("answer", "status", "inferred", "what"),
    [
        (
            api.Answer({"ses_a": None}, {"ses_a": "permission: bash: x"}),
            "waiting",
            False,
            "permission: bash: x",
        ),
        (api.Answer({"ses_a": None}, {}), "running", False, None),
        (api.Answer({"ses_a": "overloaded"}, {}), "running", False, "overloaded"),
        (api.Answer({}, {}), "idle", True, "left without an end"),
    ],
)
def test_a_server_is_believed_about_its_own(
    served: Home,
    judged: Any,
    monkeypatch: pytest.MonkeyPatch,
    answer: api.Answer,
    status: str,
    inferred: bool,
    what: str | None,
) -> None:
    asked: list[tuple[int, str]] = []

    def ask(port: int, directory: str) -> api.Answer:
        asked.append((port, directory))
        return answer

    monkeypatch.setattr(api, "ask", ask)
    session = only(judged(served.world()))
    assert (session.status, session.pid, session.inferred) == (status, 10, inferred)
    assert what is None or what in (session.waiting_for or session.reason or "")
    assert set(asked) == {(4111, "/work")}


def test_a_server_is_not_asked_about_a_directory_it_has_not_open(
    served: Home, judged: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would open it, and write into the repository there."""
    served.log.write_text(served.log.read_text().replace('"creating instance" directory=/work', "init"))
    served._positions[10] = [served.log.stat().st_size]
    monkeypatch.setattr(api, "ask", lambda port, directory: pytest.fail("it was asked"))
    assert words(judged(served.world())) == {"ses_a": ("waiting", 10, True)}


def test_a_server_with_a_password_is_judged_by_its_log(
    served: Home, judged: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(port: int, directory: str) -> api.Answer:
        raise api.Unanswered("it answers HTTP/1.1 401 Unauthorized")

    monkeypatch.setattr(api, "ask", refuse)
    assert words(judged(served.world())) == {"ses_a": ("waiting", 10, True)}


def test_servers_that_do_not_answer_do_not_use_up_the_time_of_the_store(
    home: Home, judged: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def ask(port: int, directory: str) -> api.Answer:
        asked.append(port)
        raise api.Unanswered("timed out") from TimeoutError()

    for pid in (10, 20, 30, 40):
        home.process(pid, 10, "--port", "1", ports=[pid])
    monkeypatch.setattr(api, "ask", ask)
    assert len(judged(home.world()).unattached) == 4
    assert len(asked) == 2


def test_a_screen_with_a_port_and_without_a_log_names_its_session(
    home: Home, judged: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pid in (10, 20):
        home.process(pid, 10, "--port", "1", ports=[pid])
    home.session("ses_a", 50)
    home.prompt("ses_a", 51)
    home.step("ses_a", 52)
    answers = {10: api.Answer({}, {}), 20: api.Answer({"ses_a": None}, {})}
    monkeypatch.setattr(api, "ask", lambda port, directory: answers[port])
    session = only(judged(home.world()))
    assert (session.status, session.pid, session.link, session.inferred) == ("running", 20, "exact", False)
