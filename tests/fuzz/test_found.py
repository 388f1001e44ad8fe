"""What `make fuzz` found, each as small as it gets: tests/fixtures/fuzz has the files, by what was wrong with them."""

from __future__ import annotations

import io
import json
import os
import shutil
import sqlite3
import struct
from contextlib import closing, redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Any

import pytest

from agentctl import cli, config, wait
from agentctl.agents.codex import rollout as codex_rollout
from agentctl.agents.codex import socket
from agentctl.agents.codex.store import Store
from agentctl.agents.opencode import db, json_store, log, usage
from agentctl.cli import list as list_verb
from agentctl.cli import output
from agentctl.errors import UsageError
from agentctl.files import bounded
from agentctl.files.reader import Reader
from agentctl.kernel import linux, one_process
from agentctl.kernel.processes import Processes
from agentctl.launches import records
from agentctl.model import Answer, Link, ProcessKey, Session
from agentctl.query import attribution, remembered, sessions
from tests.fuzz import oracle, seeds
from tests.support.worlds import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path

FOUND = FIXTURES / "fuzz"
CLAUDE_ID = "3f2a0000-0000-4000-8000-00000000000a"
THREAD = "01a1e088-0a83-7532-a8bd-0c9c4bdcef5d"


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    found = seeds.environment(tmp_path)
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sessions, "snapshot", lambda agents: Processes("boot", ()))
    return found


def claude(name: str, folder: Path) -> None:
    (folder / ".claude/projects/-w").mkdir(parents=True)
    shutil.copy(FOUND / name, folder / f".claude/projects/-w/{CLAUDE_ID}.jsonl")


def rollout(name: str, folder: Path) -> None:
    path = folder / ".codex/sessions/2026/11/15"
    path.mkdir(parents=True)
    shutil.copy(FOUND / name, path / f"rollout-2026-11-15T18-36-49-{THREAD}.jsonl")


def everything() -> Answer:
    return sessions.query(sessions.Scope(since=0.0))


def said(*words: str) -> str:
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        cli.run(list(words))
    return out.getvalue()


# Numbers


def test_a_cost_without_an_end_is_not_known(env: dict[str, str], tmp_path: Path) -> None:
    """1e400 is infinity to Python, and was printed as such: no JSON. NaN the same; 10**400 raised OverflowError."""
    claude("cost-without-an-end.jsonl", tmp_path)
    assert [one.cost_usd for one in everything().sessions] == [None]
    oracle.parse(said("list", "-a", "--since", "all", "--json"))
    for value in ("NaN", "10" * 200, "-1", "true"):
        assert bounded.amount(json.loads(value)) is None


@pytest.mark.parametrize(("name", "make"), [("huge-tokens-claude.jsonl", claude), ("huge-tokens-codex.jsonl", rollout)])
def test_tokens_that_nobody_can_count_are_not_counted(
    name: str, make: Any, env: dict[str, str], tmp_path: Path
) -> None:
    """Two numbers of 4300 digits can be read, and their sum cannot be written: ValueError. And -5, and true."""
    make(name, tmp_path)
    (one,) = everything().sessions
    found = oracle.parse(said("status", "--json", one.id))["session"]["tokens"]
    assert (found["input"], found["output"]) == (7, None)


def test_a_cost_in_an_older_store_is_bounded(tmp_path: Path) -> None:
    folder = tmp_path / "storage/message/ses_1"
    folder.mkdir(parents=True)
    for number, cost in enumerate(("NaN", "1e400", "9" * 400, "0.5")):
        tokens = f'{{"input": 1, "output": {10**400}}}'
        text = f'{{"role": "assistant", "tokens": {tokens}, "cost": {cost}, "time": {{"created": 1}}}}'
        (folder / f"msg_{number}.json").write_text(text)
    session = tmp_path / "storage/session/project/ses_1.json"
    session.parent.mkdir(parents=True)
    session.write_text('{"id": "ses_1", "directory": "/w", "time": {"created": 1, "updated": 2}}')
    older = json_store.Folder(Reader("opencode", str(tmp_path)))
    row = older.session("ses_1")
    assert row is not None
    found, _ = usage.of_session(older, row)
    assert found.tokens is not None
    assert (found.tokens.input, found.tokens.output, found.cost_usd) == (4, None, 0.5)


@pytest.mark.parametrize("at", [-1e10, 9e15, float("inf"), float("nan")])
def test_the_time_of_a_file_that_no_calendar_has_is_not_shown(at: float) -> None:
    """A file can be of the year 3170843; the year was printed, and localtime raised."""
    assert output.utc(at) is None
    assert output.clock(at) == ""


# Depth


def test_nesting_that_can_be_read_and_not_shown_is_no_record() -> None:
    """Python reads 980 brackets inside of each other, and str() of that raises RecursionError a few calls deeper."""
    for depth in (bounded.DEEPEST + 1, 980):
        assert bounded.decode(b'{"a":' + b"[" * depth + b"]" * depth + b"}") is None
    fine = bounded.decode(b'{"a":' + b"[" * (bounded.DEEPEST - 1) + b"]" * (bounded.DEEPEST - 1) + b"}")
    assert str(fine)
    assert bounded.decode(b'{"a": "' + b"[" * 5000 + b'"}') is not None  # in a text they are only characters


def test_a_deep_file_of_one_object_is_torn(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_text('{"a":' * 900 + "1" + "}" * 900)
    with pytest.raises(bounded.Torn):
        bounded.read_json(str(path))


# Names and paths


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_a_name_that_no_file_can_have_is_not_there(name: str, tmp_path: Path) -> None:
    """ids come out of files, and become parts of paths: ValueError, and with it the whole store was not read."""
    with pytest.raises(FileNotFoundError):
        bounded.open_regular(str(tmp_path / name))
    assert bounded.names(str(tmp_path / name)) == []


def test_a_root_that_no_file_system_can_have_is_forgotten(env: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "cache/agentctl/roots.json"
    seeds.put(path, {"demo": ["/a\0b", "/c\ud800", str(tmp_path), 5, "relative"]})
    assert remembered.recall(env).roots == {"demo": [str(tmp_path)]}
    assert [problem.path for problem in everything().problems] == [str(path)]


def test_an_empty_id_does_not_turn_the_log_for_ever(tmp_path: Path) -> None:
    """The search for nothing always finds something, at the same place."""
    path = tmp_path / "opencode.log"
    path.write_bytes((FOUND / "one-line.log").read_bytes())
    tail = log.Tail(str(path))
    for id in ("", "\ud800", "ses_\udcff", "x"):
        assert tail.runs_since(id, 0.0) == set()
    assert tail.runs_since("ses_1", 0.0) == {"944f122e"}


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "opencode.db"
    columns = "id, parent_id, directory, title, version, model, time_created, time_updated"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"create table session ({columns})")
        connection.execute("create table message (id, session_id, time_created, time_updated, data)")
        connection.execute("insert into session values ('ses_1', null, '/w', 't', '1', null, 1, 1)")
    return path


def test_a_directory_that_is_no_unicode_is_in_no_row(database: Path) -> None:
    """sqlite3 raises UnicodeEncodeError for it, which is no sqlite3.Error."""
    found = db.Database(str(database))
    assert found.of_directory("/w\udcff", 5) == []
    assert found.find("ses_\ud800") == []
    assert [row.id for row in found.of_directory("/w", 5)] == ["ses_1"]


def test_a_folder_that_is_no_unicode_can_hold_a_database(database: Path) -> None:
    folder = database.parent / os.fsdecode(b"odd \xff %41 ?#")
    folder.mkdir()
    moved = shutil.copy(database, folder / "opencode.db")
    assert db.Database(str(moved)).find("ses") == ["ses_1"]


def test_a_view_without_an_end_is_a_problem_and_ends(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(db, "PATIENCE", 0.05)
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("alter table session rename to real")
        endless = "with recursive n(i) as (select 1 union all select i + 1 from n)"
        connection.execute(f"create view session as {endless} select real.* from n, real where i < 0")
    with pytest.raises(db.Unreadable, match="interrupted"):
        db.Database(str(database)).find("ses")


def test_a_schema_that_is_no_unicode_is_a_problem(database: Path) -> None:
    """sqlite3 puts the name of the broken thing into its message, and raises UnicodeDecodeError over that."""
    data = (
        database.read_bytes()
        .replace(b"create table message (", b"create tab\xaae messag\xaa (")
        .replace(b"CREATE TABLE message (", b"CREATE TAB\xaaE messag\xaa (")
    )
    assert data != database.read_bytes()
    database.write_bytes(data)
    with pytest.raises(db.Unreadable):
        db.Database(str(database)).find("ses")


# Files that are none


def test_a_pipe_in_place_of_our_own_files_blocks_nobody(env: dict[str, str], tmp_path: Path) -> None:
    """open() waits for a writer, for ever: the configuration, the roots that were seen, the output of a launch."""
    for path in (
        tmp_path / "config/agentctl/config.toml",
        tmp_path / "cache/agentctl/roots.json",
        tmp_path / "output.log",
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(path)
    assert attribution.printed_in(str(tmp_path), "codex") is None
    memory = remembered.recall(env)
    assert memory.roots == {}
    assert [problem.problem.partition(":")[0] for problem in memory.problems] == ["not a regular file"]
    with pytest.raises(UsageError, match="not a regular file"):
        config.load(env)


@pytest.mark.parametrize("text", ["a = " + "[" * 5000, f"a = {'9' * 5000}", 'stores.demo = ["/a\\u0000"]', "\xff"])
def test_a_configuration_that_cannot_be_read_says_so(text: str, env: dict[str, str], tmp_path: Path) -> None:
    """RecursionError, and the ValueError of int(), are none of TOML's own."""
    seeds.put(tmp_path / "config/agentctl/config.toml", text.encode("latin-1"))
    (problem,) = config.problems(config.read(env))
    assert str(problem.path).endswith("config.toml")
    assert config.stores_in(config.read(env))[0].get("demo", []) == []


def test_a_configuration_without_an_end_is_not_read_to_it(env: dict[str, str], tmp_path: Path) -> None:
    seeds.put(tmp_path / "config/agentctl/config.toml", b"")
    os.truncate(tmp_path / "config/agentctl/config.toml", 1 << 40)
    with pytest.raises(UsageError, match="too large"):
        config.load(env)


def test_a_line_without_an_end_has_its_end_behind_it(tmp_path: Path) -> None:
    """The search for the last line break went back through all of it: a sparse file of a TB costs nobody anything."""
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"{}\n")
    os.truncate(path, 1 << 40)
    assert bounded.end_of_lines(str(path), 1 << 20)[1] == 1 << 40


def test_of_exits_without_an_end_the_newest_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """4 MB of short lines became 80 MB of exits."""
    monkeypatch.setattr(records, "MOST_EXITS", 3)
    seeds.put(tmp_path / "exits.jsonl", [{"exit_code": number} for number in range(9)])
    assert [one.exit_code for one in records.exits_in(str(tmp_path))] == [6, 7, 8]


def test_of_calls_without_an_end_the_newest_are_kept(tmp_path: Path) -> None:
    call = {"type": "function_call", "name": "exec_command"}
    lines = [{"type": "response_item", "payload": {**call, "call_id": str(number)}} for number in range(3000)]
    seeds.put(tmp_path / "rollout", [{"type": "event_msg", "payload": {"type": "task_started"}}, *lines])
    with bounded.Opened(str(tmp_path / "rollout")) as file:
        pending = codex_rollout.read_tail(file).pending
    assert (pending[0][0], pending[-1][0], len(pending)) == ("2000", "2999", codex_rollout.MOST_PENDING)


# What is said of a session


def test_what_is_not_known_any_more_is_not_linked_to_a_process() -> None:
    """`wait` on a session whose record went away: no pid, and still the link to one."""
    alive = Session("s", "codex", "waiting", "alive", "waiting", pid=7, process_key="b:7:7", link="sole")
    target = wait.Target(alive._replace(waiting_for="you", suspended=True, terminal={"tty": "/dev/pts/1"}))
    target.seen = wait.Seen("unknown", "its record is gone")
    (one,) = wait.result([target], first=False).waited
    assert one.session is not None
    gone = one.session
    assert (gone.process, gone.pid, gone.link, gone.waiting_for, gone.terminal) == ("unknown", None, None, None, None)
    assert not gone.suspended


# Terminals


def test_ids_versions_and_messages_cannot_speak_to_a_terminal(env: dict[str, str], tmp_path: Path) -> None:
    claude("escapes.jsonl", tmp_path)
    odd = tmp_path / ".claude/projects/-w/\x1b[31m\x9b\u202e.jsonl"
    shutil.copy(tmp_path / f".claude/projects/-w/{CLAUDE_ID}.jsonl", odd)
    for id in (CLAUDE_ID, odd.name.removesuffix(".jsonl")):
        for verb in ("status", "why", "peek"):
            text = said(verb, id)
            assert list(oracle.human(text)) == []
            assert "\\x1b" in text
    assert list(oracle.human(said("status", "\x1b[2J"))) == []


def test_a_session_that_is_its_own_parent_is_still_in_the_tree() -> None:
    rows = [Session(id, "codex", "done", "gone", "done", parent=parent) for id, parent in (("a", "b"), ("b", "a"))]
    rows.append(Session("c", "codex", "done", "gone", "done", parent="c"))
    assert sorted(row.id for row, _ in list_verb.ordered(rows, True)) == ["a", "b", "c"]


# The kernel and peers


@pytest.mark.parametrize("word", [b"-1", b"x", b"9" * 400, b"1_0", b"+1"])
def test_a_row_that_is_not_understood_is_not_absent(word: bytes, tmp_path: Path, monkeypatch: Any) -> None:
    fields = b"1 7 7 0 7 0 0 0 0 0 0 0 0 0 20 0 1 0 @ 1000"
    seeds.put(tmp_path / "7" / "stat", b"7 (x) S " + fields.replace(b"@", word))
    seeds.put(tmp_path / "8" / "stat", b"8 (y) S " + fields.replace(b"@", b"5"))
    seeds.put(tmp_path / "sys/kernel/random/boot_id", b"\xff\n")
    seeds.put(tmp_path / "self/mountinfo", b"22 1 x:y / / rw - ext4 /dev/vda rw\n")
    seeds.put(tmp_path / "locks", b"1: FLOCK  ADVISORY  WRITE x 00:zz:12 0 EOF\n")
    monkeypatch.setattr(linux, "PROC", str(tmp_path))
    monkeypatch.setattr(one_process, "PROC", str(tmp_path))
    found = linux.snapshot(frozenset())
    assert list(found.by_pid) == [8]
    assert found.hidden is not None
    assert not found.gone(ProcessKey(found.boot, 7, 5)) or linux.absent(7)


def test_lines_of_the_kernel_that_are_cut_off_say_nothing(tmp_path: Path) -> None:
    seeds.put(tmp_path / "status", b"Name:\tx\nUid:\nNSpid:\tx\t12\n")
    assert one_process.identities(str(tmp_path / "status")) == {"pids": (12,)}


@pytest.mark.parametrize("flags", [5, "waitingOnApproval", {"a": 1}, [None, {}], None])
def test_a_daemon_that_says_something_else_is_no_fault(flags: object) -> None:
    """TypeError: argument of type 'int' is not iterable."""
    link = Link("codex", THREAD, "/x", ProcessKey("boot", 7, 7), "how")
    found = Store("/x")._observe_answer(link, None, {"type": "active", "activeFlags": flags})
    assert found.turn == "working"


def connection(said: bytes) -> socket.Connection:
    found = socket.Connection.__new__(socket.Connection)
    found._buffer, found._deadline = said, float("inf")
    return found


def test_a_message_without_an_end_is_not_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each piece was bounded, and their sum was not."""
    monkeypatch.setattr(socket, "MESSAGE_LIMIT", 1000)
    piece = b"\x01\x7e" + struct.pack(">H", 400) + b"x" * 400
    with pytest.raises(ValueError, match="too long"):
        connection(piece * 20)._message()


def test_a_deep_answer_is_no_answer() -> None:
    text = b"[" * 60_000
    assert connection(b"\x81\x7e" + struct.pack(">H", len(text)) + text)._message() == {}


@pytest.mark.parametrize("place", [2**63, 2**200, 5])
def test_a_place_in_a_log_that_no_file_has(tmp_path: Path, place: int) -> None:
    """OverflowError: Python int too large to convert to C long."""
    seeds.put(tmp_path / "log", b"x\n")
    with open(tmp_path / "log", "rb") as file:
        assert log.run_that_ends_at(file.fileno(), place) is None
