"""OpenCode's sessions: how a turn stands in them, and that reading them is safe, bounded and never an absence."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from agentctl import sessions
from agentctl.agents import opencode, opencode_db
from agentctl.agents.opencode_args import read_arguments
from agentctl.agents.opencode_db import Database, Unreadable
from agentctl.agents.opencode_json import Folder, id_time
from agentctl.agents.opencode_turn import Message, Part, Row, Turn, prompt_of, read_turn, title_of
from agentctl.model import DONE, FAILED, IDLE, INTERRUPTED, UNKNOWN, WORKING, Tokens
from tests.opencode_home import STEP_START, Home, tool
from tests.worlds import BOOT_TIME, FIXTURES

SECRETS = {"account", "control_account", "credential", "session_share"}
FORK = FIXTURES / "opencode" / "subagent_and_fork" / "xdg_data" / "opencode" / "opencode.db"
LEGACY = FIXTURES / "opencode" / "legacy_1.0.185_storage" / "xdg_data" / "opencode"


# How a turn stands


def turn_of(*messages: tuple[dict[str, Any] | None, list[dict[str, Any]]]) -> Turn:
    """The oldest first."""
    stored = [Message(str(index), float(index), float(index), data) for index, (data, _) in enumerate(messages)]
    parts = {str(index): [Part(index, index, part) for part in given] for index, (_, given) in enumerate(messages)}
    return read_turn(stored[::-1], lambda id: parts[id])


PROMPT: tuple[dict[str, Any], list[dict[str, Any]]] = ({"role": "user"}, [{"type": "text", "text": "hi"}])


def step(*parts: dict[str, Any], ended: bool = True, **data: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    return {"role": "assistant", "time": {"created": 1, **({"completed": 2} if ended else {})}, **data}, list(parts)


REFUSED = tool("error", error="The user rejected permission to use this specific tool call.")
CORRECTED = tool(
    "error", error="The user rejected permission to use this specific tool call with the following feedback: no"
)
DISMISSED = tool("error", error="The user dismissed this question")


@pytest.mark.parametrize(
    ("newest", "turn", "inferred"),
    [
        (step(STEP_START, ended=False), WORKING, False),
        (step(STEP_START, tool(), ended=False), WORKING, False),
        (step(STEP_START, finish="stop"), DONE, False),
        (step(STEP_START, finish="length"), DONE, False),
        (step(STEP_START, tool("completed"), finish="tool-calls"), WORKING, True),
        (step(STEP_START, tool("error", error="no such file"), finish="tool-calls"), WORKING, True),
        (step(STEP_START, CORRECTED, finish="tool-calls"), WORKING, True),
        (step(STEP_START, REFUSED, finish="tool-calls"), DONE, False),
        (step(STEP_START, DISMISSED, finish="tool-calls"), DONE, False),
        (step(STEP_START, finish="unknown"), WORKING, True),
        (step(STEP_START, tool("completed"), finish="stop"), WORKING, True),  # the next step is due whatever it says
        (step(STEP_START, {**tool("completed"), "metadata": {"providerExecuted": True}}, finish="stop"), DONE, False),
        (step(error={"name": "APIError", "data": {"message": "no"}}), FAILED, False),
        (step(STEP_START, error={"name": "MessageAbortedError", "data": {}}), INTERRUPTED, False),
        (step(), INTERRUPTED, False),  # aborted while it retried: neither an end nor an error is stored
        (step(tool("completed")), DONE, False),  # typed by the person behind "!"
        (step(tool(), ended=False), WORKING, False),
        (PROMPT, WORKING, False),
        ((None, []), UNKNOWN, False),
        (({"role": "somebody"}, []), UNKNOWN, False),
    ],
)
def test_how_the_newest_message_leaves_the_turn(
    newest: tuple[dict[str, Any] | None, list[dict[str, Any]]], turn: str, inferred: bool
) -> None:
    found = turn_of(PROMPT, newest)
    assert (found.turn, found.inferred) == (turn, inferred)
    assert found.reason


def test_a_session_without_a_message_has_no_turn() -> None:
    assert turn_of().turn == IDLE


def test_what_was_refused_and_what_failed_is_said() -> None:
    assert "1 tool call was refused" in turn_of(PROMPT, step(STEP_START, REFUSED, finish="tool-calls")).reason
    assert (
        "2 tool calls were refused" in turn_of(PROMPT, step(STEP_START, REFUSED, REFUSED, finish="tool-calls")).reason
    )
    failed = turn_of(PROMPT, step(error={"name": "APIError", "data": {"message": "no money"}}))
    assert failed.error == "APIError: no money"


def test_only_a_call_of_a_model_that_has_reported_nothing_may_wait_for_a_person() -> None:
    waits = turn_of(PROMPT, step(STEP_START, tool(), ended=False)).tools
    assert [(one.quiet, one.what) for one in waits] == [(True, "sleep 9")]
    runs = turn_of(PROMPT, step(STEP_START, tool(metadata={"output": ""}), ended=False)).tools
    typed = turn_of(PROMPT, step(tool(), ended=False)).tools
    written = turn_of(PROMPT, step(STEP_START, tool("pending"), ended=False)).tools
    assert [one.quiet for one in (*runs, *typed, *written)] == [False, False, False]


def test_a_prompt_typed_meanwhile_does_not_hide_the_step_that_runs() -> None:
    found = turn_of(PROMPT, step(STEP_START, tool(), ended=False), PROMPT)
    assert (found.turn, [one.quiet for one in found.tools], found.prompted) == (WORKING, [True], 0.0)


def test_an_unfinished_step_of_long_ago_is_not_the_turn() -> None:
    assert turn_of(PROMPT, step(STEP_START, ended=False), PROMPT, step(STEP_START, finish="stop")).turn == DONE


@pytest.mark.parametrize(
    ("stored", "text"),
    [
        ('"say \\"hi\\" now"', 'say "hi" now'),
        ("[[text:x]]", "[[text:x]]"),
        ('"old version" \n', "old version"),
        ('"a b" c "d e"', '"a b" c "d e"'),
        ('"', '"'),
        ('he said "no"', 'he said "no"'),
    ],
)
def test_the_quotes_that_run_adds_are_not_the_persons(stored: str, text: str) -> None:
    assert prompt_of([Part(0, 0, {"type": "text", "text": stored})]) == text


def test_what_a_person_did_not_write_is_no_prompt_and_no_title() -> None:
    assert prompt_of([Part(0, 0, {"type": "text", "text": "The following", "synthetic": True})]) is None
    assert title_of("New session - 2026-11-15T21:22:40.624Z") is None
    assert title_of("Fix the build") == "Fix the build"


def test_arguments() -> None:
    run = read_arguments(["opencode", "run", "-m", "a/b", "fix it", "now"])
    assert (run.command, run.prompt, run.one_shot, run.resumes) == ("run", '"fix it" now', True, False)
    assert read_arguments(["opencode", "run", "--session=ses_1", "x"]).session == "ses_1"
    assert not read_arguments(["opencode", "run", "-i", "x"]).one_shot
    assert read_arguments(["opencode", "run", "--", "-c"]).resumes is False
    assert read_arguments(["opencode", "run", "-f", "a.txt", "x"]).prompt is None  # how far -f reaches is not ours


# The database


def test_all_of_a_store_may_be_in_its_write_ahead_log(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "opencode" / "running_mid_tool" / "raw_wal", tmp_path / "raw")
    database = Database(str(tmp_path / "raw" / "opencode.db"))
    assert os.path.getsize(database.path) == 4096
    assert database.recent(0.0) == []
    assert {"directory", "time_updated"} <= database._columns  # an immutable reading has no table at all


def test_what_a_writer_has_not_put_into_the_file_yet_is_read(home: Home) -> None:
    writer = sqlite3.connect(home.path)
    writer.execute("pragma journal_mode = wal")
    writer.execute("pragma wal_autocheckpoint = 0")
    writer.execute("update project set name = 'x'")
    writer.commit()
    home.session("ses_new", 10)
    database = Database(str(home.path))
    assert database.recent(0.0) == ["ses_new"]
    writer.execute("insert into session_share values ('ses_new', 'x', 'secret', 'url', 0, 0)")  # in mid-transaction
    assert [row.id for row in database.begun_since(0.0)] == ["ses_new"]
    writer.rollback()
    writer.close()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def cannot_be_opened_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    real = opencode_db.connect

    def connect(path: str, mode: str) -> Any:
        if mode == "ro":
            raise sqlite3.OperationalError("unable to open database file")
        return real(path, mode)

    monkeypatch.setattr(opencode_db, "connect", connect)


@pytest.mark.usefixtures("cannot_be_opened_in_place")
def test_a_folder_that_cannot_be_written_is_read_as_a_copy_that_is_removed(home: Home) -> None:
    home.session("ses_a", 10)
    database = Database(str(home.path))
    assert database.recent(0.0) == ["ses_a"]
    assert database._copy is not None
    folder = Path(database._copy.name)
    assert folder.exists() and home.data not in folder.parents
    database.close()
    assert not folder.exists()


@pytest.mark.usefixtures("cannot_be_opened_in_place")
def test_a_database_that_is_too_large_to_copy_is_a_problem(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opencode_db, "COPY_LIMIT", 100)
    with pytest.raises(Unreadable, match="too large"):
        Database(str(home.path)).recent(0.0)


def test_a_store_that_cannot_be_read_is_a_problem_and_not_an_empty_one(home: Home) -> None:
    home.session("ses_a", 10)
    home.path.write_bytes(b"this is no database " * 500)
    answer = sessions.query(sessions.Scope(agents=("opencode",), since=0.0), home.env)
    assert answer.sessions == ()
    assert ["not a database" in problem.problem for problem in answer.problems] == [True]


def test_a_store_that_cannot_be_read_leaves_its_processes_unexplained(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.process(10, 10)
    home.path.write_bytes(b"this is no database " * 500)
    world = home.world()
    monkeypatch.setattr(sessions, "snapshot", lambda agents: world.processes)
    answer = sessions.query(sessions.Scope(agents=("opencode",)), world.env)
    assert [(one.pid, one.why) for one in answer.unattached] == [(10, "its store could not be read")]
    assert len(answer.problems) == 1


def test_a_pipe_in_the_place_of_the_database_blocks_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "opencode.db")
    with pytest.raises(OSError, match="not a regular file"):
        Database(str(tmp_path / "opencode.db")).recent(0.0)


def test_a_database_that_is_being_created_has_no_sessions(tmp_path: Path) -> None:
    (tmp_path / "opencode.db").touch()
    database = Database(str(tmp_path / "opencode.db"))
    assert (database.recent(0.0), database.session("ses_a"), database.begun_since(0.0)) == ([], None, [])


def test_a_message_that_does_not_parse_is_not_a_state(home: Home) -> None:
    home.session("ses_a", 10)
    home.prompt("ses_a", 11)
    home._do("update message set data = '{torn'")
    store = opencode.open_store(str(home.data))
    store.survey()
    record = store.record("ses_a", tokens=True)
    assert record is not None
    assert (record.turn, record.tokens) == (UNKNOWN, None)


def test_no_query_touches_a_table_of_secrets(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    real, touched = opencode_db.connect, set()

    def connect(path: str, mode: str) -> Any:
        connection, columns = real(path, mode)

        def watch(action: int, table: str | None, *_: str | None) -> int:
            if action == sqlite3.SQLITE_READ:
                touched.add(table)
            return sqlite3.SQLITE_OK

        connection.set_authorizer(watch)
        return connection, columns

    monkeypatch.setattr(opencode_db, "connect", connect)
    exercise(home)
    assert touched == {"session", "message", "part"}
    assert not touched & SECRETS


def exercise(home: Home) -> None:
    """Everything that is ever asked."""
    home.session("ses_a", 10)
    home.prompt("ses_a", 11)
    home.step("ses_a", 12, tool(), tokens={"input": 1}, cost=1)
    store = opencode.open_store(str(home.data))
    store.survey()
    assert list(store.recent(0.0)) == list(store.find("ses_")) == ["ses_a"]
    assert store.record("ses_a", tokens=True) is not None
    assert list(store.children("ses_a")) == []
    sessions_of = store._sessions
    assert sessions_of.begun_since(0.0) and sessions_of.latest_of("/work", 5)


def test_no_query_looks_through_all_messages(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, Any]] = []
    real = Database._rows

    def rows(self: Database, query: str, values: Any) -> Any:
        asked.append((query, values))
        return real(self, query, values)

    monkeypatch.setattr(Database, "_rows", rows)
    exercise(home)
    monkeypatch.undo()
    connection = sqlite3.connect(home.path)
    for query, values in asked:
        plan = [row[3] for row in connection.execute(f"explain query plan {query}", values)]
        scans = [one for one in plan if one.startswith("SCAN")]
        whole_table = [one for one in scans if "message" in one or "part" in one]
        assert not whole_table or query.endswith("from message order by rowid desc limit ?"), (query, plan)
        assert not scans or "session_id" in query or "time_updated" in query, (query, plan)
    connection.close()


def test_a_large_value_is_read_without_what_nobody_looks_at(home: Home) -> None:
    home.session("ses_a", 10)
    home.message("ses_a", 11, "user", {"type": "text", "text": "hi"}, summary={"diffs": ["x" * 100_000]})
    home.step("ses_a", 12, tool("completed", output="y" * 100_000), end=13, finish="stop")
    database = Database(str(home.path))
    row = database.session("ses_a")
    assert row is not None
    for message in database.messages(row, 5):
        assert len(json.dumps(message.data)) < 1000
        assert sum(len(json.dumps(part.data)) for part in database.parts(message.id)) < 1000


def test_a_message_whose_session_was_not_touched_yet_counts(home: Home) -> None:
    """It stores a prompt, and a moment later the session's own time."""
    home.session("ses_a", 10)
    home.prompt("ses_a", 50)
    home._do("update session set time_updated = time_created")
    database = Database(str(home.path))
    assert [row.id for row in database.begun_since(BOOT_TIME + 40)] == ["ses_a"]
    assert database.begun_since(BOOT_TIME + 60) == []


def test_what_a_fork_copied_is_not_paid_for_twice() -> None:
    database = Database(str(FORK))
    counted = {}
    for id in database.find("ses_"):
        row = database.session(id)
        assert row is not None
        counted[id[:10]] = database.usage(row)
    one = Tokens(800, 40, 200, 0, 10), 0.00092
    two = Tokens(1600, 80, 400, 0, 20), 0.00184
    assert counted == {"ses_e1f8a4": two, "ses_e1f875": two, "ses_e1f874": one, "ses_e1f829": one}


def test_older_databases_have_fewer_columns(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    shutil.copy(FORK, path)
    connection = sqlite3.connect(path)
    for name in ("model", "cost", *(name for name in opencode_db.USAGE if name.startswith("tokens"))):
        connection.execute(f"alter table session drop column {name}")
    connection.commit()
    connection.close()
    database = Database(str(path))
    row = database.session("ses_e1f8292abffeOUkZ7rwsUbH84H")
    assert row is not None
    assert (row.model, row.directory) == (None, "/home/u/work/p_kill")
    assert database.usage(row) == (Tokens(800, 40, 200, 0, 10), 0.00092)


# The files of older versions


def test_a_session_in_both_is_one_row_and_the_databases(tmp_path: Path) -> None:
    data = tmp_path / "opencode"
    shutil.copytree(LEGACY, data)
    shutil.copy(FIXTURES / "opencode" / "finished_ok" / "xdg_data" / "opencode" / "opencode.db", data)
    connection = sqlite3.connect(data / "opencode.db")
    connection.execute("update session set id = 'ses_e1f7d535dffejqS9RrR0aikJA9', title = 'of the database'")
    connection.execute("update message set session_id = 'ses_e1f7d535dffejqS9RrR0aikJA9'")
    connection.commit()
    connection.close()
    store = opencode.open_store(str(data))
    store.survey()
    assert sorted(store.recent(0.0)) == ["ses_e1f7cc1a2ffeJ6DVYCJuINozY2", "ses_e1f7d535dffejqS9RrR0aikJA9"]
    moved, left = store.record("ses_e1f7d535dffejqS9RrR0aikJA9"), store.record("ses_e1f7cc1a2ffeJ6DVYCJuINozY2")
    assert moved is not None and left is not None
    assert (moved.title, moved.turn) == ("of the database", DONE)
    assert (left.turn, left.version, left.model) == (DONE, "1.0.185", "fake/fake-1")
    assert (left.path or "").endswith(".json")


def test_tokens_of_the_older_files() -> None:
    folder = Folder(str(LEGACY))
    row = folder.session("ses_e1f7cc1a2ffeJ6DVYCJuINozY2")
    assert row is not None
    tokens, cost = folder.usage(row)
    assert tokens is not None and tokens.input
    assert cost


def test_ids_are_ordered_by_their_time_also_where_it_wraps(tmp_path: Path) -> None:
    """36 bits of milliseconds: the id after the last one begins with zeros again."""
    began = ((1 << 36) * 25) / 1000 - 10.0  # ten seconds before a wrap
    names = [f"msg_{(int((began + later) * 1000) << 12) % (1 << 48):012x}x.json" for later in (1, 8, 12, 60)]
    assert id_time(names[2]) < id_time(names[1])
    folder = tmp_path / "storage" / "message" / "ses_a"
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).write_text('{"role": "user"}')
    row = Row("ses_a", "", created=began)
    newest_first = [f"{message.id}.json" for message in Folder(str(tmp_path)).messages(row, 10)]
    assert newest_first == names[::-1]


def test_a_torn_or_vanished_file_is_not_an_end(tmp_path: Path) -> None:
    shutil.copytree(LEGACY, tmp_path / "opencode")
    folder = tmp_path / "opencode" / "storage" / "message" / "ses_e1f7cc1a2ffeJ6DVYCJuINozY2"
    newest = max(folder.iterdir())
    newest.write_text('{"role": "assis')
    store = opencode.open_store(str(tmp_path / "opencode"))
    store.survey()
    record = store.record("ses_e1f7cc1a2ffeJ6DVYCJuINozY2")
    assert record is not None
    assert record.turn == UNKNOWN
