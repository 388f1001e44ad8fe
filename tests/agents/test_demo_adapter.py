"""The demo agent's adapter: its links and records, on real processes."""

from __future__ import annotations

import os
import subprocess
import time
import uuid
from typing import TYPE_CHECKING

import pytest

from agentctl import model
from agentctl.agents.demo.adapter import ADAPTER
from agentctl.kernel.processes import Processes, snapshot
from agentctl.model import Details, Process, ProcessKey, Tokens
from tests.support.demo_home import COMMAND, TIMEOUT, Home, kinds, session_of, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from agentctl.agents.base import Store

linux_only = pytest.mark.linux


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    try:
        yield home
    finally:
        home.end_all()


def link_of(store: Store, id: str, processes: Processes) -> model.Link:
    [link] = [link for link in store.links(processes) if link.id == id]
    return link


@pytest.mark.parametrize(
    ("argv", "role"),
    [
        (("python3", "-m", "agentctl.demo_agent"), model.AGENT),
        (("python3", "-m", "agentctl.demo_agent"), model.AGENT),  # started by an older version
        (("/usr/bin/python3.12", "-X", "dev", "-I", "-m", "agentctl.demo_agent", "-p", "x"), model.AGENT),
        (("/bin/python", "/opt/bin/agentctl-demo", "x"), model.AGENT),
        (("agentctl-demo",), model.AGENT),
        (("agentctl-demo", "--version"), model.CLIENT),
        (("python3", "-m", "pytest", "-m", "agentctl.demo_agent"), None),
        (("python3", "wrapper.py", "-m", "agentctl.demo_agent"), None),
        (("python3", "-m", "agentctl", "list"), None),
        ((), None),
        (None, None),
    ],
)
def test_claims(argv: tuple[str, ...] | None, role: str | None) -> None:
    process = Process(ProcessKey("boot", 100, 1), 1, "python3", "S")
    assert ADAPTER.claims(process, Details(argv=argv)) == role


def test_looks_like() -> None:
    names = ("python3.11", "Python", "agentctl-demo", "sh")
    assert [ADAPTER.looks_like(name) for name in names] == [True, True, True, False]


def test_roots() -> None:
    assert ADAPTER.roots({"HOME": "/h"}) == ("/h/.local/share/agentctl-demo",)
    assert ADAPTER.roots({"HOME": "/h", "XDG_DATA_HOME": "/d"}) == ("/d/agentctl-demo",)
    assert ADAPTER.roots({"HOME": "/h", "XDG_DATA_HOME": "relative"}) == ("/h/.local/share/agentctl-demo",)


@linux_only
@pytest.mark.parametrize(
    ("prompt", "status", "turn"),
    [
        ("[[sleep:300]]", "busy", model.WORKING),
        ("[[ask:make coffee]]", "waiting", model.WAITING),
        ("[[idle]]", "idle", model.IDLE),
    ],
)
def test_link_of_a_live_process(home: Home, prompt: str, status: str, turn: str) -> None:
    id, child = home.start("-p", prompt)
    home.wait_for_status(id, status)
    store = home.store()
    store.survey()
    processes = snapshot(ADAPTER.ENV)
    link = link_of(store, id, processes)
    live = processes.alive(link.key)
    assert live is not None
    assert live.pid == child.pid
    assert (link.strength, link.turn) == (model.EXACT, turn)
    assert link.waiting_for == ("permission to run: make coffee" if turn == model.WAITING else None)
    details = processes.details(live)
    assert details is not None
    assert ADAPTER.looks_like(live.comm)
    assert store.role(live, details, str(ADAPTER.claims(live, details)), processes) == model.AGENT
    assert ADAPTER.roots(details.env or {}) == (str(home.root),)
    assert store.told() == ()


@linux_only
def test_link_of_a_killed_process_is_proved_gone(home: Home) -> None:
    id, child = home.start("-p", "[[sleep:300]]")
    child.kill()
    child.wait(TIMEOUT)
    store = home.store()
    store.survey()
    processes = snapshot()
    link = link_of(store, id, processes)
    assert processes.gone(link.key)


@linux_only
def test_link_of_another_boot_is_gone(home: Home) -> None:
    id, child = home.start("-p", "[[idle]]")
    store = home.store()
    store.survey()
    file = home.wait_for_status(id, "idle")
    elsewhere = Processes(
        "another boot", [Process(ProcessKey("another boot", child.pid, file["start_ticks"]), 1, "x", "S")]
    )
    link = link_of(store, id, elsewhere)
    assert elsewhere.gone(link.key)
    assert elsewhere.alive(link.key) is None


@linux_only
def test_a_session_begun_after_the_survey_is_linked_if_the_snapshot_has_it(home: Home) -> None:
    home.run("-p", "so that there is a store")
    store = home.store()
    store.survey()
    earlier = snapshot()
    id, child = home.start("-p", "[[idle]]")
    assert store.links(earlier) == []  # not looked at, and so not gone
    assert link_of(store, id, snapshot()).key.pid == child.pid


@linux_only
def test_a_session_resumed_after_the_survey_is_linked_to_its_new_process(home: Home) -> None:
    id, killed = home.start("-p", "[[sleep:300]]")
    killed.kill()
    killed.wait(TIMEOUT)
    store = home.store()
    store.survey()
    resumed = subprocess.Popen(
        [*COMMAND, "--resume", id, "[[idle]]"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=home.env
    )
    try:
        home.wait_for_status(id, "idle")
        assert link_of(store, id, snapshot()).key.pid == resumed.pid
    finally:
        resumed.terminate()
        resumed.wait(TIMEOUT)


@linux_only
def test_a_process_that_changed_since_the_survey_is_looked_at_again(home: Home) -> None:
    id, child = home.start("-p", "[[idle]]", stdin=subprocess.PIPE)
    home.wait_for_status(id, "idle")
    store = home.store()
    store.survey()
    processes = snapshot()
    link = link_of(store, id, processes)
    assert child.stdin is not None
    child.stdin.write("[[ask:true]]\n")
    child.stdin.flush()
    home.wait_for_status(id, "waiting")
    assert (link.turn, store.observe(link, home.record(id), processes).turn) == (model.IDLE, model.WAITING)
    child.terminate()
    child.wait(TIMEOUT)
    assert store.observe(link, home.record(id), processes).reason == "its turn is over, and its process is about to end"


def test_candidates_of_a_process_without_a_process_file(home: Home) -> None:
    process = Process(ProcessKey("boot", 100, 1), 1, "python3", "S")
    id = session_of(home.run("-p", "x"))
    store = home.store()
    named = Details(argv=(*COMMAND, "--resume", id, "x"))
    assert store.candidates(process, named, time.time() + 60).ids == (id,)
    unnamed = Details(argv=tuple(COMMAND))
    assert store.candidates(process, unnamed, time.time() - 60).ids == (id,)
    assert store.candidates(process, unnamed, time.time() + 60).ids == ()


@pytest.mark.parametrize(
    ("prompt", "turn", "error"),
    [("hello", model.DONE, None), ("[[text:x]][[fail:boom]]", model.FAILED, "boom")],
)
def test_record_of_an_ended_turn(home: Home, prompt: str, turn: str, error: str | None) -> None:
    id = session_of(home.run("-p", prompt, "--model", "demo-9"))
    record = home.record(id)
    assert (record.id, record.turn, record.error, record.prompt) == (id, turn, error, prompt)
    assert (record.model, record.version, record.cwd) == ("demo-9", ADAPTER.CERTIFIED[-1], home.env["HOME"])
    assert record.started_at is not None
    assert record.updated_at is not None
    assert record.started_at <= record.updated_at <= time.time()
    assert record.tokens is None


def test_record_says_what_was_refused(home: Home) -> None:
    id = session_of(home.run("-p", "[[ask:a]][[ask:b]]", input="n\nn\n"))
    record = home.record(id)
    assert record.turn == model.DONE
    assert "2 tool calls were refused" in (record.reason or "")


def test_record_of_a_second_question(home: Home) -> None:
    id, child = home.start("-p", "[[ask:true]] [[ask:false]]", stdin=subprocess.PIPE)
    assert child.stdin is not None
    child.stdin.write("y\n")
    child.stdin.flush()
    wait_until(lambda: kinds(home.events(id)).count("ask") == 2, "the second question")
    record = home.record(id)
    assert (record.turn, record.pending) == (model.WORKING, "false")
    assert record.ending == "it had asked for permission to run: false"


def test_record_of_an_interrupted_turn(home: Home) -> None:
    id, child = home.start("-p", "[[sleep:300]]")
    home.wait_for_event(id, "prompt")
    assert home.record(id).turn == model.WORKING
    child.terminate()
    child.wait(TIMEOUT)
    record = home.record(id)
    assert record.turn == model.INTERRUPTED
    assert "SIGTERM" in (record.reason or "")


def test_record_without_a_turn(home: Home) -> None:
    id, _ = home.start()
    home.wait_for_event(id, "session")
    assert home.record(id).turn == model.IDLE


def test_tokens_are_the_sum_of_all_model_calls(home: Home) -> None:
    id = session_of(home.run("-p", "[[text:one]][[bash:true]]"))
    home.run("--resume", id, "two")
    calls = [event for event in home.events(id) if event["event"] == "usage"]
    assert len(calls) == 3
    expected = Tokens(sum(call["input"] for call in calls), sum(call["output"] for call in calls))
    assert home.record(id, tokens=True).tokens == expected


def test_stored_sessions_are_found(home: Home) -> None:
    id = session_of(home.run("-p", "x"))
    (home.root / "sessions" / "stray file").touch()
    store = home.store()
    store.survey()
    assert list(store.find(id[:6])) == [id]
    assert list(store.recent(time.time() - 60)) == [id]
    assert list(store.recent(time.time() + 60)) == []
    assert store.record("stray file") is None
    assert store.record(str(uuid.uuid4())) is None
    assert store.told() == ()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": 7}'])
def test_a_broken_process_file_is_one_problem(home: Home, content: str) -> None:
    id = session_of(home.run("-p", "x"))
    (home.folder(id) / "process.json").write_text(content)
    store = home.store()
    store.survey()
    assert store.links(Processes("boot", [])) == []
    assert [problem.path for problem in store.told()] == [str(home.folder(id) / "process.json")]


def test_what_is_not_a_file_is_a_problem_and_never_blocks(home: Home) -> None:
    id = session_of(home.run("-p", "x"))
    events = home.folder(id) / "events.jsonl"
    events.unlink()
    os.mkfifo(events)
    store = home.store()
    record = store.record(id)
    assert record is not None
    assert record.turn == model.UNKNOWN
    assert [problem.path for problem in store.told()] == [str(events)]
