"""Every agent through one door: its real files of each state, judged by the real query path, against what is true."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentctl import wait
from agentctl.agents import load
from agentctl.agents.claude_code import files
from agentctl.agents.claude_code import store as claude_store
from agentctl.files import bounded
from agentctl.files.bounded import names
from agentctl.model import ALIVE, GONE, Answer, Process, ProcessKey, Session
from agentctl.query import sessions
from tests.support.worlds import EXPECTED, NAMES, FixtureWorld, rebuild, states


@pytest.fixture
def world(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FixtureWorld:
    agent, state = request.param
    found = rebuild(agent, state, tmp_path)
    env = {**found.env, "XDG_CACHE_HOME": str(tmp_path / "cache"), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    monkeypatch.setattr(sessions, "snapshot", lambda agents: found.processes)
    monkeypatch.setattr(sessions, "SECOND_LOOK", 0.0)
    for swap in found.swaps:
        monkeypatch.setattr(*swap)
    return found._replace(env=env)


def ask(world: FixtureWorld, agent: str, **scope: Any) -> Answer:
    return sessions.query(sessions.Scope(agents=(NAMES[agent],), **scope), world.env)


CASES = [pytest.param((agent, state), agent, state, id=f"{agent}/{state}") for agent, state in states()]


def test_every_fixture_is_of_one_agent() -> None:
    assert set(NAMES) == {agent for agent, _ in states()}


@pytest.mark.parametrize(("world", "agent", "state"), CASES, indirect=["world"])
def test_every_state_is_judged_right(world: FixtureWorld, agent: str, state: str) -> None:
    expected = EXPECTED[agent][state]
    answer = ask(world, agent, since=0.0)
    assert answer.problems == ()
    if "sessions" in expected:
        assert len(answer.sessions) == expected["sessions"]
    if "unattached" in expected:
        assert len(answer.unattached) == expected["unattached"]
    if "by_session" in expected:
        assert {session.id: session.status for session in answer.sessions} == expected["by_session"]
    several = "sessions" in expected or "by_session" in expected
    for session in answer.sessions if several else (the_session(answer, expected.get("session", "")),):
        check_session(session, expected)


def check_session(session: Session, expected: dict[str, Any]) -> None:
    assert session.status in expected["status"], session.evidence
    if session.status == "waiting" and "waiting only if marked inferred" in expected.get("note", ""):
        assert session.inferred
    elif "inferred" in expected or len(expected["status"]) == 1:
        assert session.inferred == expected.get("inferred", False), session.evidence
    if "pid" in expected:
        assert session.pid == expected["pid"]
    if "last_turn" in expected:
        assert session.last_turn == expected["last_turn"]
    if "error" in expected:
        assert expected["error"] in (session.error or "")
    assert (session.pid is None) == (session.process != ALIVE)
    assert session.cwd
    assert session.agent_version


def the_session(answer: Answer, prefix: str) -> Session:
    (session,) = [session for session in answer.sessions if session.id.startswith(prefix)]
    return session


@pytest.mark.parametrize(("world", "agent", "state"), CASES, indirect=["world"])
def test_list_and_status_and_why_agree(world: FixtureWorld, agent: str, state: str) -> None:
    everything = ask(world, agent, since=0.0)
    now = {session.id: session for session in ask(world, agent).sessions}
    for session in everything.sessions:
        (asked,) = sessions.query_session(session.id, world.env).sessions
        counted = {"tokens": None} if session.cost_usd is not None else {"tokens": None, "cost_usd": None}
        assert asked._replace(**counted) == session
        ended = session.process == GONE
        assert (session.id in now) != ended
        if not ended:
            assert now[session.id] == session


@pytest.mark.parametrize(("world", "agent", "state"), CASES, indirect=["world"])
def test_a_whole_id_is_answered_as_if_everything_was_listed(
    world: FixtureWorld, agent: str, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = type(load(NAMES[agent]).open_store("/nowhere"))
    ids = [session.id for session in ask(world, agent, since=0.0, children=True).sessions]
    whole = {id: sessions.query_session(id, world.env) for id in ids}
    asked: list[str] = []

    def has_not(store: object, id: str) -> bool:
        asked.append(id)
        return False

    listed = count_calls(kind, "find", monkeypatch)
    for id in ids:
        sessions.query_session(id, world.env)
    top = [id for id in ids if (whole[id].sessions[0].parent is None)]
    assert listed[0] <= len(ids) - len(top), "of what is where it belongs nothing is listed"
    monkeypatch.setattr(kind, "has", has_not)
    assert {id: sessions.query_session(id, world.env) for id in ids} == whole
    assert set(asked) == set(ids)


def count_calls(of: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    calls, real = [0], getattr(of, name)

    def counting(*args: Any, **named: Any) -> Any:
        calls[0] += 1
        return real(*args, **named)

    monkeypatch.setattr(of, name, counting)
    return calls


@pytest.mark.parametrize(("world", "agent", "state"), CASES, indirect=["world"])
def test_reading_changes_nothing(world: FixtureWorld, agent: str, state: str) -> None:
    home = Path(world.env["HOME"])

    def everything() -> dict[str, tuple[int, int]]:
        return {str(path): (path.lstat().st_mtime_ns, path.lstat().st_size) for path in sorted(home.rglob("*"))}

    before = everything()
    ask(world, agent, since=0.0)
    assert everything() == before


@pytest.mark.parametrize(("world", "agent", "state"), CASES, indirect=["world"])
def test_what_may_tell_of_a_session_can_be_watched(world: FixtureWorld, agent: str, state: str) -> None:
    """Paths of its store, each there or with a parent that is; the same answer each time, and nothing is touched."""
    home = Path(world.env["HOME"])
    before = sorted(home.rglob("*"))
    look = sessions.settled_look(sessions.Scope(agents=(NAMES[agent],), since=0.0, children=True), world.env)
    assert look.answer.sessions or EXPECTED[agent][state].get("sessions") == 0
    for session in look.answer.sessions:
        (store,) = [one.store for one in look.readings if one.store.root == session.store]
        paths = store.watched(session.id)
        assert all(Path(path).is_relative_to(store.root) for path in paths)
        # What it was judged by is among them, or in a folder that is.
        judged_by = [link.path for link in look.world.links if link.id == session.id]
        for path in filter(None, (session.path, *judged_by)):
            assert any(Path(path).is_relative_to(one) for one in paths), path
        assert list(store.watched(session.id)) == list(paths)
    assert sorted(home.rglob("*")) == before


@pytest.mark.parametrize(("world", "agent", "state"), CASES, indirect=["world"])
def test_waiting_for_no_time_says_how_it_stands(world: FixtureWorld, agent: str, state: str) -> None:
    """Each session and sub-agent by its id: the exit code follows from its status."""
    for session in ask(world, agent, since=0.0, children=True).sessions:
        found = wait.wait([session.id], timeout=0.0, env=world.env)
        (waited,) = found.waited
        assert (waited.id, waited.status) == (session.id, session.status)
        code = wait.decide(session, None)[0]
        assert found.exit_code == (124 if code is None else code)


def case(agent: str, state: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("world", [(agent, state)], indirect=True)


@case("claude", "usage_repeated_lines")
def test_usage_on_repeated_lines_counts_once(world: FixtureWorld) -> None:
    (session,) = sessions.query_session("67c30c86", world.env).sessions
    assert session.tokens is not None
    assert session.tokens.output == EXPECTED["claude"]["usage_repeated_lines"]["output_tokens"]


@case("claude", "subagent_finished")
def test_a_subagent_is_a_child_of_its_parent(world: FixtureWorld) -> None:
    (alone,) = ask(world, "claude", since=0.0).sessions
    parent, child = sorted(ask(world, "claude", since=0.0, children=True).sessions, key=lambda one: one.parent or "")
    assert (alone.id, child.parent, child.status) == (parent.id, parent.id, "done")
    (found,) = sessions.query_session(child.id, world.env).sessions
    assert found.parent == parent.id


@case("claude-2.1.325", "busy_subagent_after_end_turn")
def test_a_running_subagent_runs_in_its_parents_process(world: FixtureWorld) -> None:
    children = [one for one in ask(world, "claude-2.1.325", children=True).sessions if one.parent]
    assert [(child.status, child.pid, child.inferred) for child in children] == [("running", 2515, True)]


@case("codex", "running_subagent")
def test_a_codex_subagent_has_its_own_lock(world: FixtureWorld) -> None:
    rows = ask(world, "codex", children=True).sessions
    assert {(row.status, row.pid) for row in rows} == {("running", 27960)}
    assert sorted(bool(row.parent) for row in rows) == [False, True]
    assert {entry["role"] for row in rows for entry in row.processes} == {"agent", "wrapper"}


@case("codex", "running_interactive_tool")
def test_a_rollout_that_could_not_be_looked_for_says_of_no_turn_that_it_was_never_begun(
    world: FixtureWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store is closed between the reading of its locks and that of its rollouts."""

    def closed(folder: str) -> list[str]:
        if "/sessions" in folder:
            raise PermissionError(13, "Permission denied", folder)
        return names(folder)

    monkeypatch.setattr(bounded, "names", closed)
    (session,) = ask(world, "codex").sessions
    assert (session.status, session.process, session.turn) == ("alive", ALIVE, "unknown")
    assert "may be hidden" in (session.reason or "")


@case("codex", "waiting_approval_daemon")
def test_the_daemon_owns_the_thread_and_its_client_is_no_stranger(world: FixtureWorld) -> None:
    answer = ask(world, "codex")
    (session,) = answer.sessions
    assert (session.pid, session.link, session.inferred) == (25164, "exact", False)
    assert session.waiting_for == "approval: touch /home/user/work/zz9"
    assert answer.unattached == ()


@case("claude", "headless_running_mid_tool")
def test_a_transcript_that_cannot_be_read_does_not_make_its_session_idle(
    world: FixtureWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(path: str, **more: object) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(claude_store, "read_tail", closed)
    (session,) = ask(world, "claude").sessions
    assert (session.status, session.process, session.turn) == ("alive", ALIVE, "unknown")
    assert session.reason == "Permission denied"


@case("claude", "bg_waiting_permission")
def test_what_it_waits_for_is_said(world: FixtureWorld) -> None:
    session = the_session(ask(world, "claude"), "bda6f0ac")
    assert session.waiting_for == "permission prompt: Bash: touch /labhome/claude/tmp/bgperm"


@case("claude-2.1.325", "bg_worker_killed9_before_respawn")
def test_a_worker_that_may_come_back_names_its_daemon(world: FixtureWorld) -> None:
    session = the_session(ask(world, "claude-2.1.325"), "21fea0ff")
    assert session.process == "unknown"
    assert "2967" in (session.reason or "")


@case("claude-2.1.325", "headless_running_mid_model")
def test_a_process_of_another_pid_namespace_is_not_dead(world: FixtureWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "pid_domain", lambda: "linux:elsewhere:pid:[1]")
    world.processes.by_pid.clear()
    session = the_session(ask(world, "claude-2.1.325", since=0.0), "6f626dc2")
    assert (session.status, session.process) == ("unknown", "unknown")


@case("claude", "sigterm_mid_model")
def test_a_process_in_its_last_moments_may_still_be_on_it(world: FixtureWorld) -> None:
    """Its memory is given back before it is gone: for a moment it has no arguments, and it is still there."""
    assert the_session(ask(world, "claude", since=0.0), "ca9d883f").status == "stopped"
    last_moments = Process(ProcessKey(world.processes.boot, 4711, 99), 1, "claude", "R")
    world.processes.by_pid[4711] = last_moments
    session = the_session(ask(world, "claude", since=0.0), "ca9d883f")
    assert (session.status, session.process) == ("unknown", "unknown")


def test_all_fixture_states_are_covered() -> None:
    assert len(CASES) == 74
