"""OpenCode's files: how a turn stands in them, and that reading them is safe, bounded and never an absence."""

from __future__ import annotations

import gc
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentctl.agents.opencode import adapter, db, usage
from agentctl.agents.opencode.db import Database, Unreadable
from agentctl.agents.opencode.json_store import Folder, id_time
from agentctl.agents.opencode.log import Tail, read_lines, read_trail
from agentctl.agents.opencode.store import Store
from agentctl.agents.opencode.turn import NEWER_MESSAGES, Row
from agentctl.agents.usage_base import Source, Total
from agentctl.files.reader import Reader
from agentctl.model import DONE, IDLE, UNKNOWN, Details, Process, ProcessKey, Tokens
from agentctl.query import sessions
from tests.support.opencode_home import Home, line, tool
from tests.support.worlds import BOOT_TIME, FIXTURES

SECRETS = {"account", "control_account", "credential", "session_share"}
FORK = FIXTURES / "opencode" / "subagent_and_fork" / "xdg_data" / "opencode" / "opencode.db"
LEGACY = FIXTURES / "opencode" / "legacy_1.0.185_storage" / "xdg_data" / "opencode"


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
    real = db.connect

    def connect(path: str, mode: str) -> Any:
        if mode == "ro":
            raise sqlite3.OperationalError("unable to open database file")
        return real(path, mode)

    monkeypatch.setattr(db, "connect", connect)


@pytest.mark.linux
def test_a_database_that_nobody_needs_any_more_is_closed_at_once(home: Home) -> None:
    """Not when somebody looks for rubbish: a command that is over soon never does, and one that polls has it open a
    thousand times."""
    gc.disable()
    try:
        for _ in range(3):
            assert Database(str(home.path)).recent(0.0) == []
        open_files = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if fd_is_there(fd)]
    finally:
        gc.enable()
    assert str(home.path) not in open_files


def fd_is_there(fd: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{fd}")


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
    monkeypatch.setattr(db, "COPY_LIMIT", 100)
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


def test_a_database_that_is_being_created_has_no_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(db, "BEGINNING", float("inf"))
    with (tmp_path / "opencode.db").open("wb"):  # whoever makes it has it open
        database = Database(str(tmp_path / "opencode.db"))
        assert (database.recent(0.0), database.session("ses_a"), database.begun_since(0.0)) == ([], None, [])


def test_a_message_that_does_not_parse_is_not_a_state(home: Home) -> None:
    home.session("ses_a", 10)
    home.prompt("ses_a", 11)
    home._do("update message set data = '{torn'")
    store = adapter.ADAPTER.open_store(str(home.data))
    store.survey()
    record = store.record("ses_a", tokens=True)
    assert record is not None
    assert (record.turn, record.tokens) == (UNKNOWN, None)


ODD_TIMES = ("soon", b"\xff\xfe", 1e300, -1, 2**62)


def test_odd_values_in_a_row_spoil_no_other_row(home: Home) -> None:
    healthy = {"turn": DONE, "started_at": BOOT_TIME + 10}
    home.session("ses_healthy", 10)
    home.prompt("ses_healthy", 11)
    home.step("ses_healthy", 12, end=13, finish="stop")
    for index, odd in enumerate(ODD_TIMES):
        for table, name in (("session", "id"), ("message", "session_id"), ("part", "session_id")):
            for column in ("time_created", "time_updated"):
                id = home.session(f"ses_{index}_{table}_{column}", 10)
                home.prompt(id, 11)
                home.step(id, 12, end=13, finish="stop", tokens={"input": 2**62, "output": 2**62}, cost=1e308)
                home.step(id, 14, end=15, finish="stop", tokens={"input": 2**62, "output": "x"}, cost=1e308)
                home._do(f"update {table} set {column} = ? where {name} = ?", odd, id)
    home._do("update session set tokens_input = 'x', cost = ? where id = 'ses_0_part_time_updated'", b"x")
    home._do("update session set title = cast(? as text) where id like '%_part_%'", b"\xff\xfe")
    home._do("update message set data = cast(? as text) where session_id like '%_part_%'", b'{"role": "\xff"}')
    home._do("update session set id = ? where id = 'ses_1_part_time_updated'", b"\xff")
    answer = sessions.query(sessions.Scope(agents=("opencode",), since=0.0, children=True), home.env)
    assert answer.problems == ()
    found = {one.id: one for one in answer.sessions}
    assert {name: getattr(found["ses_healthy"], name) for name in healthy} == healthy
    store = adapter.ADAPTER.open_store(str(home.data))
    store.survey()
    assert all(store.record(id, tokens=True) for id in found)
    screen = Process(ProcessKey("boot", 1, 1), 0, "opencode", "S")
    assert store.candidates(screen, Details(("opencode",), cwd="/work"), BOOT_TIME).ids


def test_no_query_touches_a_table_of_secrets(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    real, touched = db.connect, set()

    def connect(path: str, mode: str) -> Any:
        connection, columns = real(path, mode)

        def watch(action: int, table: str | None, *_: str | None) -> int:
            if action == sqlite3.SQLITE_READ:
                touched.add(table)
            return sqlite3.SQLITE_OK

        connection.set_authorizer(watch)
        return connection, columns

    monkeypatch.setattr(db, "connect", connect)
    exercise(home)
    assert touched == {"session", "message", "part"}
    assert not touched & SECRETS


def exercise(home: Home) -> None:
    """Everything that is ever asked."""
    home.session("ses_a", 10)
    home.prompt("ses_a", 11)
    home.step("ses_a", 12, tool(), tokens={"input": 1}, cost=1)
    store = Store(str(home.data))
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
        counted[id[:10]], _ = usage.of_session(database, row)
    one = Total(Tokens(800, 40, 200, 0, 10), 0.00092)
    two = Total(Tokens(1600, 80, 400, 0, 20), 0.00184)
    assert counted == {"ses_e1f8a4": two, "ses_e1f875": two, "ses_e1f874": one, "ses_e1f829": one}


def test_older_databases_have_fewer_columns(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    shutil.copy(FORK, path)
    connection = sqlite3.connect(path)
    kinds = ("input", "output", "cache_read", "cache_write", "reasoning")
    for name in ("model", "cost", *(f"tokens_{kind}" for kind in kinds)):
        connection.execute(f"alter table session drop column {name}")
    connection.commit()
    connection.close()
    database = Database(str(path))
    row = database.session("ses_e1f8292abffeOUkZ7rwsUbH84H")
    assert row is not None
    assert (row.model, row.directory) == (None, "/home/u/work/p_kill")
    assert usage.of_session(database, row) == (Total(Tokens(800, 40, 200, 0, 10), 0.00092), None)


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
    store = adapter.ADAPTER.open_store(str(data))
    store.survey()
    assert sorted(store.recent(0.0)) == ["ses_e1f7cc1a2ffeJ6DVYCJuINozY2", "ses_e1f7d535dffejqS9RrR0aikJA9"]
    moved, left = store.record("ses_e1f7d535dffejqS9RrR0aikJA9"), store.record("ses_e1f7cc1a2ffeJ6DVYCJuINozY2")
    assert moved is not None and left is not None
    assert (moved.title, moved.turn) == ("of the database", DONE)
    assert (left.turn, left.version, left.model) == (DONE, "1.0.185", "fake/fake-1")
    assert (left.path or "").endswith(".json")


def test_tokens_of_the_older_files() -> None:
    folder = Folder(Reader("opencode", str(LEGACY)))
    row = folder.session("ses_e1f7cc1a2ffeJ6DVYCJuINozY2")
    assert row is not None
    assert usage.of_session(folder, row) == (Total(Tokens(1600, 100, 400, 0, 20), 0.00188), None)


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
    newest_first = [f"{message.id}.json" for message in Folder(Reader("opencode", str(tmp_path))).messages(row, 10)]
    assert newest_first == names[::-1]


def test_a_torn_or_vanished_file_is_not_an_end(tmp_path: Path) -> None:
    shutil.copytree(LEGACY, tmp_path / "opencode")
    folder = tmp_path / "opencode" / "storage" / "message" / "ses_e1f7cc1a2ffeJ6DVYCJuINozY2"
    newest = max(folder.iterdir())
    newest.write_text('{"role": "assis')
    store = adapter.ADAPTER.open_store(str(tmp_path / "opencode"))
    store.survey()
    record = store.record("ses_e1f7cc1a2ffeJ6DVYCJuINozY2")
    assert record is not None
    assert record.turn == UNKNOWN


def test_a_file_that_is_none_spoils_no_other_session(tmp_path: Path) -> None:
    shutil.copytree(LEGACY, tmp_path / "opencode")
    storage = tmp_path / "opencode" / "storage"
    (project,) = (storage / "session").iterdir()
    os.mkfifo(project / "ses_pipe.json")
    (project / "ses_folder.json").mkdir()
    os.mkfifo(storage / "message" / "ses_e1f7cc1a2ffeJ6DVYCJuINozY2" / "msg_1fffffffffffzzzz.json")
    env = {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    answer = sessions.query(sessions.Scope(agents=("opencode",), since=0.0), env)
    assert {one.id: one.turn for one in answer.sessions} == {
        "ses_e1f7d535dffejqS9RrR0aikJA9": "interrupted",
        "ses_e1f7cc1a2ffeJ6DVYCJuINozY2": UNKNOWN,
        "ses_pipe": UNKNOWN,
        "ses_folder": UNKNOWN,
    }
    assert sorted(os.path.basename(one.path or "") for one in answer.problems) == [
        "msg_1fffffffffffzzzz.json",
        "ses_folder.json",
        "ses_pipe.json",
    ]


def test_a_session_of_unknown_directory_has_not_ended_while_a_process_may_be_on_it(tmp_path: Path) -> None:
    shutil.copytree(LEGACY, tmp_path / "opencode")
    id = "ses_e1f7d535dffejqS9RrR0aikJA9"
    (path,) = (tmp_path / "opencode" / "storage" / "session").glob(f"*/{id}.json")
    path.write_text('{"id": "ses')
    store = adapter.ADAPTER.open_store(str(tmp_path / "opencode"))
    store.survey()
    screen = Process(ProcessKey("boot", 1, 1), 0, "opencode", "S")
    found = store.candidates(screen, Details(("opencode",), cwd="/work"), path.stat().st_mtime - 1)
    assert found.ids == (id,)


# The log


def test_a_log_that_was_cut_or_written_over_proves_nothing(home: Home) -> None:
    home.process(10, 10)
    home.logs(10, line(20, "aa", "loop session.id=ses_a step=0"))
    for position in (5, 10_000):
        home._positions[10] = [position]
        processes = home.world().processes
        (process,) = processes.living()
        assert read_trail(process, str(home.log), processes) is None


def test_a_process_that_logs_errors_only_says_nothing_by_its_silence() -> None:
    data = line(20, "aa", "process error=x", "ERROR").encode()
    assert read_lines("log", "aa", data, whole=True, started=0.0) is None


def test_a_trail_has_the_lines_of_its_own_run() -> None:
    data = "".join(
        [
            line(20, "aa", "created id=ses_1 slug=x title=y"),
            line(21, "bb", "loop session.id=ses_2 step=0"),
            line(22, "aa", "loop session.id=ses_1 step=0"),
            line(23, "aa", 'evaluated permission=bash pattern=" run=aa message=loop session.id=ses_3 "'),
            line(24, "aa", "asking id=que_1 questions=1"),
            "a value with a line break run=aa message=loop session.id=ses_4\n",
        ]
    ).encode()
    trail = read_lines("log", "aa", data, whole=True, started=0.0)
    assert trail is not None
    assert (list(trail.sessions), sorted(trail.created), len(trail.asked)) == (["ses_1"], ["ses_1"], 1)


def test_lines_of_two_processes_are_out_of_order(tmp_path: Path) -> None:
    path = tmp_path / "opencode.log"
    path.write_text(line(30, "aa", "loop session.id=ses_1 step=0") + line(29, "bb", "loop session.id=ses_1 step=0"))
    log = Tail(str(path))
    assert log.runs_since("ses_1", BOOT_TIME + 29.5) == {"aa"}
    assert log.runs_since("ses_1", BOOT_TIME + 28) == {"aa", "bb"}
    assert log.runs_since("ses_1", BOOT_TIME + 31) == set()
    assert Tail(str(tmp_path / "none")).runs_since("ses_1", 0.0) == set()


# What it costs


def test_a_store_that_nobody_works_in_is_not_even_opened(home: Home) -> None:
    home.session("ses_a", 10)
    code = (
        "import sys; from agentctl.query import sessions; answer = sessions.query(sessions.Scope());"
        "print(answer.problems, '_sqlite3' in sys.modules, 'http.client' in sys.modules)"
    )
    env = {**os.environ, **home.env}
    found = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "() False False"


# Tables that are not read

INPUT = (
    "insert into session_input (id, session_id, prompt, delivery, admitted_seq, promoted_seq, time_created)"
    " values ('msg_1', ?, '{}', 'steer', 1, 2, 0)"
)
ANSWER = (
    "insert into session_message (id, session_id, type, seq, time_created, time_updated, data)"
    " values ('msg_2', ?, 'assistant', 3, 0, 0, '{}')"
)


@pytest.mark.parametrize("row", [INPUT, ANSWER])
def test_a_session_whose_messages_are_in_other_tables_is_unknown(row: str, home: Home) -> None:
    home.session("ses_new", 10)
    home.session("ses_empty", 10)
    home._do(row, "ses_new")
    store = Store(str(home.data))
    store.survey()
    records = {id: store.record(id, tokens=True) for id in ("ses_new", "ses_empty")}
    assert {id: record.turn for id, record in records.items() if record} == {"ses_new": UNKNOWN, "ses_empty": IDLE}
    assert [(gap.session, gap.why) for gap in store.reader.gaps] == [("ses_new", NEWER_MESSAGES)]
    database = Database(str(home.path))
    source = Source(str(home.path), (0, 0, 0, 0))
    assert usage.count_database(source, None, None).problem == NEWER_MESSAGES
    assert [usage.of_session(database, found)[1] for id in records if (found := database.session(id))] == [
        NEWER_MESSAGES,
        None,
    ]


def test_other_tables_that_cannot_be_asked_may_hold_messages(home: Home) -> None:
    home.session("ses_new", 10)
    assert not Database(str(home.path)).has_newer_messages("ses_new")
    home._do("alter table session_input rename column session_id to session")
    assert Database(str(home.path)).has_newer_messages("ses_new")


def test_a_session_with_messages_is_read_from_them(home: Home) -> None:
    home.session("ses_old", 10)
    home.prompt("ses_old", 11)
    assert usage.count_database(Source(str(home.path), (0, 0, 0, 0)), None, None).problem is None
