"""What a launch id stands for, in odd states: each command says what is true, and acts on nobody else's session."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from agentctl.errors import AgentctlError, Ambiguous
from agentctl.query.resolve import resolve
from tests.support.children import true_key, until
from tests.support.launch_home import LONG
from tests.support.screen_home import ScreenHome

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.linux
ASKS = "#!/bin/sh\necho 'Do you trust this folder?'\nexec sleep 300\n"
ID = "0b9c7c4e-6e0e-4b4b-9d1a-6a3f6f1f0a11"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[ScreenHome]:
    home = ScreenHome(tmp_path)
    try:
        yield home
    finally:
        home.end_all()


def stored_claude(home: ScreenHome, id: str = ID) -> None:
    """A session of Claude that has ended."""
    folder = home.folder / ".claude" / "projects" / str(home.work).replace("/", "-").replace("_", "-").replace(".", "-")
    folder.mkdir(parents=True)
    (home.folder / ".claude" / "sessions").mkdir()
    common = {"sessionId": id, "cwd": str(home.work), "version": "2.1.0", "isSidechain": False}
    lines: list[dict[str, object]] = [
        {
            "type": "user",
            "uuid": "u1",
            "parentUuid": None,
            "timestamp": "2026-01-01T10:00:00.000Z",
            "message": {"role": "user", "content": "hello"},
        },
        {
            "type": "assistant",
            "uuid": "u2",
            "parentUuid": "u1",
            "timestamp": "2026-01-01T10:00:01.000Z",
            "message": {
                "role": "assistant",
                "model": "m",
                "stop_reason": "end_turn",
                "content": [{"type": "text", "text": "hi"}],
            },
        },
    ]
    (folder / f"{id}.jsonl").write_text("".join(json.dumps({**common, **line}) + "\n" for line in lines))


def test_attach_shows_the_screen_of_a_resumed_session_that_asks_before_it_begins(home: ScreenHome) -> None:
    """`resume --interactive` prints `agentctl attach LAUNCH`: at a dialog of its agent that must lead to the screen."""
    stored_claude(home)
    home.program("claude", ASKS)
    done = home.agentctl("resume", "--interactive", ID, "--id-timeout", "2s")
    (launch,) = os.listdir(home.state / "launches")
    assert f"agentctl attach {launch}" in done.stderr
    found = home.agentctl("attach", "--print", launch)
    assert "attach-session" in found.stdout, found.stderr


def written(home: ScreenHome, id: str, agent: str, printed: str = "", **facts: object) -> None:
    """A launch that is over, as its runner left it."""
    folder = home.state / "launches" / id
    folder.mkdir(parents=True, mode=0o700)
    home.state.chmod(0o700)
    folder.parent.chmod(0o700)
    gone = "00000000-0000-0000-0000-000000000000:2:3"
    record = {
        "id": id,
        "agent": agent,
        "cwd": str(home.work),
        "created_at": 1767261600.0,
        "runner": gone,
        "child": gone,
        "headless": True,
        "one_shot": True,
        **facts,
    }
    (folder / "launch.json").write_text(json.dumps(record))
    (folder / "output.log").write_text(printed)


def test_a_store_that_cannot_be_read_is_not_a_session_that_is_not_there_yet(home: ScreenHome) -> None:
    id = home.launch("hello")
    home.until_status(id, "done")
    launch = home.launch_of(id).id
    store = home.folder / "data" / "agentctl-demo"
    store.rename(home.folder / "aside")
    store.write_text("a file where the store should be")
    by_session, by_launch = home.agentctl("status", id), home.agentctl("status", launch)
    assert "not read" in by_session.stderr
    assert "not read" in by_launch.stderr and "yet" not in by_launch.stderr, by_launch.stderr


def test_a_launch_that_is_over_has_no_session_any_more_not_yet(home: ScreenHome) -> None:
    id = home.launch("hello")
    home.until_status(id, "done")
    launch = home.launch_of(id).id
    shutil.rmtree(home.folder / "data" / "agentctl-demo" / "sessions" / id)
    until(lambda: not home.living())
    for verb in ("status", "why", "peek", "resume"):
        found = home.agentctl(verb, launch, *(["go on"] if verb == "resume" else []))
        assert found.returncode == 3
        assert "yet" not in found.stderr, found.stderr


def test_what_a_launch_printed_is_a_whole_id_not_the_beginning_of_anothers(home: ScreenHome) -> None:
    id = home.launch("a private matter")
    home.until_status(id, "done")
    (home.folder / ".codex").mkdir()
    written(home, "mwjp3lmbckxo", "codex", json.dumps({"type": "thread.started", "thread_id": id[:1]}) + "\n")
    found = resolve("mwjp3lmbckxo", home.env)
    assert found.session is None, f"the launch of codex stands for {found.session.agent} {found.session.id}"


def test_a_launch_of_one_agent_is_not_a_session_of_another(home: ScreenHome) -> None:
    id = home.launch("a private matter")
    home.until_status(id, "done")
    written(home, "mwjp3lmbckxo", "claude-code", session_id=id)
    found = resolve("mwjp3lmbckxo", home.env)
    assert found.session is None, f"the launch of claude-code stands for {found.session.agent} {found.session.id}"


def test_a_launch_that_failed_is_not_said_to_have_no_session_yet(home: ScreenHome) -> None:
    assert home.agentctl("launch", "demo", "-p", "hello", "--", "--no-such-option").returncode == 1
    (launch,) = os.listdir(home.state / "launches")
    until(lambda: not home.living())
    found = home.agentctl("status", launch)
    assert found.returncode == 3
    assert "yet" not in found.stderr, found.stderr


def test_wait_and_status_mean_the_same_session_by_a_launch_that_another_went_on_with(home: ScreenHome) -> None:
    """The id that codex chose for itself is in its output alone."""
    id = "0199a213-81c0-7800-8aa1-bbab2a035a53"
    folder = home.folder / ".codex" / "sessions" / "2026" / "01" / "01"
    folder.mkdir(parents=True)
    lines = [
        {"type": "session_meta", "payload": {"id": id, "cwd": str(home.work), "timestamp": "2026-01-01T10:00:00Z"}},
        {"type": "event_msg", "payload": {"type": "task_started", "turn_id": "1"}},
        {"type": "event_msg", "payload": {"type": "user_message", "message": "hello"}},
        {"type": "event_msg", "payload": {"type": "error", "message": "the model is overloaded"}},
        {"type": "event_msg", "payload": {"type": "task_complete", "turn_id": "1", "last_agent_message": None}},
    ]
    text = "".join(json.dumps({"timestamp": "2026-01-01T10:00:00.000Z", **line}) + "\n" for line in lines)
    (folder / f"rollout-2026-01-01T10-00-00-{id}.jsonl").write_text(text)
    printed = json.dumps({"type": "thread.started", "thread_id": id}) + "\n"
    written(home, "mwjp3lmbckxo", "codex", printed)
    written(home, "mwjp3lmbckxp", "codex", printed, session_id=id, created_at=1767261700.0)
    status = json.loads(home.agentctl("status", "mwjp3lmbckxo", "--json").stdout)["session"]
    waited = json.loads(home.agentctl("wait", "mwjp3lmbckxo", "--json").stdout.splitlines()[-1])
    assert [one["id"] for one in waited["sessions"]] == [status["id"]], (status["status"], waited)


def test_to_stop_a_launch_that_is_over_ends_nobody_elses_process(home: ScreenHome) -> None:
    """A person took up in a terminal of their own what a launch had begun; the launch itself is over."""
    words = [sys.executable, "-P", "-m", "agentctl.demo_agent", "--session-id", ID, "-p", "[[sleep:300]]"]
    with subprocess.Popen(words, env=home.env, cwd=home.work, stdin=subprocess.DEVNULL) as theirs:
        try:
            until((home.folder / "data/agentctl-demo/sessions" / ID / "process.json").exists)
            home.until_status(ID, "running")
            written(home, "mwjp3lmbckxo", "demo", session_id=ID)
            found = home.agentctl("stop", "mwjp3lmbckxo")
            assert theirs.poll() is None, found.stdout
        finally:
            theirs.kill()


def test_a_group_whose_launches_cannot_be_read_is_not_an_unknown_group(home: ScreenHome) -> None:
    home.launch(LONG, "--group", "night")
    (home.state / "launches").chmod(0o777)
    for words in (["list", "--group", "night"], ["stop", "--group", "night"], ["wait", "--group", "night"]):
        found = home.agentctl(*words)
        assert "others can write to it" in found.stderr, found.stderr


def test_to_stop_a_group_says_if_one_of_its_launches_may_be_missing(home: ScreenHome) -> None:
    home.launch(LONG, "--group", "night")
    other = home.launch(LONG, "--group", "night", "--force")
    path = home.state / "launches" / home.launch_of(other).id / "launch.json"
    whole = path.read_bytes()
    path.write_bytes(b"{")
    found = home.agentctl("stop", "--group", "night")
    path.write_bytes(whole)
    assert home.session(other)["status"] == "running"
    assert str(path) in found.stderr, f"exit {found.returncode}: {found.stdout}{found.stderr}"


def test_a_launch_that_others_may_have_written_is_not_believed_by_its_id(home: ScreenHome) -> None:
    id = home.launch("a private matter")
    home.until_status(id, "done")
    written(home, "mwjp3lmbckxo", "demo", session_id=id)
    (home.state / "launches").chmod(0o777)
    with pytest.raises(AgentctlError):
        resolve("mwjp3lmbckxo", home.env)


def test_a_launch_on_two_sessions_is_ambiguous(home: ScreenHome) -> None:
    """As of a wrapper that runs two agents, or of one process on several sessions: which is meant, nobody can know."""
    agent = f"{sys.executable} -P -m agentctl.demo_agent -p '[[sleep:300]]'"
    words = ["sh", "-c", f"{agent} & {agent} & wait"]
    with subprocess.Popen(words, env=home.env, cwd=home.work, stdin=subprocess.DEVNULL, start_new_session=True) as sh:
        try:
            until(lambda: len(home.listed()["sessions"]) == 2)
            written(home, "mwjp3lmbckxo", "demo", child=str(true_key(sh.pid)))
            assert {one["launch_id"] for one in home.listed()["sessions"]} == {"mwjp3lmbckxo"}
            with pytest.raises(Ambiguous):
                resolve("mwjp3lmbckxo", home.env)
        finally:
            os.killpg(sh.pid, 9)


def test_wait_means_the_same_by_a_launch_id_alone_and_among_others(home: ScreenHome) -> None:
    """A store is written by its agent: it may name a session like somebody's launch."""
    first, second = home.launch(LONG), home.launch(LONG, "--force")
    launches = [home.launch_of(first).id, home.launch_of(second).id]
    made_up = home.folder / "data" / "agentctl-demo" / "sessions" / launches[0]
    made_up.mkdir()
    ended = {"event": "turn_end", "how": "done", "at": "2026-01-01T10:00:00.000Z"}
    (made_up / "events.jsonl").write_text(
        "".join(json.dumps(one) + "\n" for one in ({"event": "session", "id": launches[0]}, ended))
    )
    alone = home.agentctl("wait", launches[0], "--timeout", "1s")
    both = home.agentctl("wait", "--any", *launches, "--timeout", "1s")
    assert (alone.returncode, both.returncode) == (124, 124), both.stdout


def test_to_stop_a_group_ends_no_launch_that_its_session_is_named_after(home: ScreenHome) -> None:
    """A store is written by its agent, and a session may be named like the launch of somebody else."""
    victim = home.launch(LONG)
    launch = home.launch_of(victim).id
    sessions = home.folder / "data" / "agentctl-demo" / "sessions"
    words = [sys.executable, "-P", "-m", "agentctl.demo_agent", "--session-id", ID, "-p", LONG]
    with subprocess.Popen(words, env=home.env, cwd=home.work, stdin=subprocess.DEVNULL) as rogue:
        try:
            assert home.prompt_of(ID) == LONG
            home.until_status(ID, "running")
            (sessions / ID).rename(sessions / launch)
            written(home, "mwjp3lmbckxo", "demo", session_id=launch, child=str(true_key(rogue.pid)), group="night")
            rows = {row["id"]: row["group"] for row in home.listed()["sessions"]}
            assert rows == {victim: None, launch: "night"}
            said = home.agentctl("stop", "--group", "night").stdout
            assert home.session(victim)["status"] == "running", said
        finally:
            rogue.kill()
