"""The index of what was counted: it only saves work. With it, without it, with a broken one, by several at once and
however a transcript grew, the answer is the same."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentctl.agents import load_all
from agentctl.agents.claude_code import usage as claude_code_usage
from agentctl.usage import db, query
from tests.support.demo_home import SOURCES, TIMEOUT
from tests.support.opencode_home import Home as OpenCodeHome
from tests.support.worlds import FIXTURES

if TYPE_CHECKING:
    from agentctl.usage.query import Spending

ID = "00000000-0000-4000-8000-00000000000{}"


def spent(env: dict[str, str], by: str = "session") -> Spending:
    return query.spent(query.Question(by), load_all(), [], env, lambda done, whole: None)


class Home:
    """A home with transcripts of Claude Code. Each answer is of the index anew made, too: both must be equal."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {"HOME": str(folder), "AGENTCTL_HOME": str(folder / "state")}
        self.env |= {f"XDG_{name}_HOME": str(folder / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
        self.projects = folder / ".claude" / "projects" / "-work"
        self.projects.mkdir(parents=True, exist_ok=True)
        self.index = folder / "cache" / "agentctl" / "usage.db"

    def path(self, number: int = 1) -> Path:
        return self.projects / f"{ID.format(number)}.jsonl"

    def ask(self) -> dict[str, Any]:
        found = essence(spent(self.env))
        elsewhere = {**self.env, "XDG_CACHE_HOME": str(self.folder / "no" / "cache")}
        shutil.rmtree(self.folder / "no", ignore_errors=True)
        assert essence(spent(elsewhere)) == found
        return found


def essence(found: Spending) -> dict[str, Any]:
    def of(row: Any) -> tuple[Any, ...]:
        cost = None if row.cost_usd is None else round(row.cost_usd, 8)
        return (tuple(row.tokens._asdict().values()), row.total, cost, row.cost_complete, row.sessions)

    rows = {row.key: of(row) for row in found.rows}
    return {"rows": rows, "total": of(found.total), "problems": [one.problem for one in found.problems]}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def answer(name: str, output: int = 42, *, tight: bool = True, **more: Any) -> bytes:
    usage = {"input_tokens": 11, "output_tokens": output, "cache_read_input_tokens": 5}
    message = {"id": name, "model": "model-1", "usage": usage}
    at = f"2026-11-15T18:{int(name[-1], 36):02}:00.000Z"
    record = {"type": "assistant", "message": message, "uuid": f"u-{name}", "timestamp": at, "cwd": "/work", **more}
    return json.dumps(record, separators=(",", ":") if tight else (" , ", " : ")).encode() + b"\n"


def cost_state(cost: float, output: int) -> bytes:
    usage = {"costUSD": cost, "inputTokens": 11_000, "outputTokens": output, "cacheReadInputTokens": 5000}
    usage["cacheCreationInputTokens"] = 0
    return json.dumps({"type": "cost-state", "modelUsage": {"model-1": usage}}).encode() + b"\n"


# However it grew

LINES = st.one_of(
    st.builds(
        answer,
        st.sampled_from([f"msg_{letter}" for letter in "abcdef"]),
        st.integers(0, 50),
        tight=st.booleans(),
        requestId=st.sampled_from([None, "req_1"]),
    ),
    st.builds(cost_state, st.floats(0, 5), st.integers(0, 300)),
    st.sampled_from(
        [
            b'{"type":"user","message":{"content":"a text with \\"usage\\" in it"}}\n',
            b'{"type":"user","toolUseResult":{"usage":{"output_tokens":7}},"message":{"content":"x"}}\n',
            b'{"type":"assistant","message":{"usage":{"output_tokens":\n',
            b'{"type":"assistant","message":{"id":"s","model":"<synthetic>","usage":{"output_tokens":9}}}\n',
            b"[1]\n",
            b"\n",
            b"\xff\xfe usage \x00\n",
        ]
    ),
)


@settings(deadline=None, max_examples=20)
@given(lines=st.lists(LINES, max_size=12), cuts=st.lists(st.integers(0, 3000), max_size=4))
def test_any_split_of_a_transcript_gives_what_one_pass_gives(lines: list[bytes], cuts: list[int]) -> None:
    text = b"".join(lines)
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder))
        for end in [*sorted(cuts), len(text)]:
            home.path().write_bytes(text[:end]) if not home.path().exists() else add(home.path(), text, end)
            found = home.ask()
        assert found["rows"] == {} or len(found["rows"]) == 1


def add(path: Path, text: bytes, end: int) -> None:
    with path.open("ab") as file:
        file.write(text[file.tell() : end])


CALLS = st.lists(st.sampled_from("abcdef"), max_size=10)


@settings(deadline=None, max_examples=15)
@given(calls=CALLS, forked=CALLS, signed=st.booleans(), data=st.data())
def test_a_fork_adds_nothing_but_its_own(calls: str, forked: str, signed: bool, data: st.DataObject) -> None:
    """With or without the bookkeeping at its head that gives a copy away; of the whole, or of a part: also of the first
    lines of a call, whose usage grows from line to line."""
    lines = [answer(f"msg_{name}", number) for number, name in enumerate(calls)]
    own = [answer(f"msg_of_the_fork_{name}", number) for number, name in enumerate(forked)]
    copied = lines[: data.draw(st.integers(0, len(lines)))]
    head = [b'{"type":"queue-operation","timestamp":"2026-11-15T19:00:00.000Z"}\n'] if signed else []
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder))
        home.path(2).write_bytes(b"".join(lines))
        alone = home.ask()["total"][0]
        home.path(1).write_bytes(b"".join([*head, *copied]))
        assert home.ask()["total"][0] == alone
        home.path(3).write_bytes(b"".join(own))
        with_own = home.ask()["total"][0]
        home.path(3).unlink()
        later = b"".join(own).replace(b"T18:", b"T20:")
        home.path(1).write_bytes(b"".join([*head, *copied, later]))
        assert home.ask()["total"][0] == with_own


def test_a_space_before_the_colon_is_read(home: Home) -> None:
    home.path().write_bytes(answer("msg_a", tight=False) + answer("msg_b"))
    assert b'"usage" : {' in home.path().read_bytes()
    assert home.ask()["total"][0][:2] == (22, 84)


# However it changed


def test_a_transcript_that_was_cut_written_anew_or_replaced(home: Home) -> None:
    path = home.path()
    path.write_bytes(answer("msg_a") + answer("msg_b"))
    assert home.ask()["total"][0][:2] == (22, 84)
    os.truncate(path, len(answer("msg_a")))
    assert home.ask()["total"][0][:2] == (11, 42)
    path.write_bytes(answer("msg_c", 7) + answer("msg_d", 7) + answer("msg_e", 7))  # the same file, longer than before
    assert home.ask()["total"][0][:2] == (33, 21)
    path.write_bytes(answer("msg_c", 8) + answer("msg_d", 8) + answer("msg_e", 8))  # and of the same size
    assert home.ask()["total"][0][:2] == (33, 24)
    (home.folder / "new").write_bytes(answer("msg_f", 1))
    (home.folder / "new").rename(path)
    assert home.ask()["total"][0][:2] == (11, 1)
    path.unlink()
    assert home.ask()["rows"] == {}


def test_an_unfinished_line_counts_when_it_is_finished(home: Home) -> None:
    line = answer("msg_a")
    home.path().write_bytes(line[:-1])
    assert home.ask()["rows"] == {}
    with home.path().open("ab") as file:
        file.write(b"\n")
    assert home.ask()["total"][0][:2] == (11, 42)


def test_what_only_a_copy_has_left_counts_there(home: Home) -> None:
    home.path(1).write_bytes(answer("msg_a") + answer("msg_b"))
    home.path(2).write_bytes(answer("msg_a") + answer("msg_c"))
    assert {key[-1]: row[0][1] for key, row in home.ask()["rows"].items()} == {"1": 84, "2": 42}
    home.path(1).unlink()
    assert {key[-1]: row[0][1] for key, row in home.ask()["rows"].items()} == {"2": 84}


def test_only_what_is_new_is_read(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(1, 6):
        home.path(number).write_bytes(answer(f"msg_{number}") * 50)
        os.utime(home.path(number), (1000, 1000))
    spent(home.env)
    read: list[tuple[str, int]] = []
    real = claude_code_usage.USAGE.count

    def count(source: Any, state: Any, tick: Any = None) -> Any:
        found = real(source, state, tick)
        read.append((source.session[-1], len(found.spent)))
        return found

    monkeypatch.setattr(claude_code_usage.USAGE, "count", count)
    spent(home.env)
    assert read == []
    with home.path(3).open("ab") as file:
        file.write(answer("msg_x"))
    assert spent(home.env).total.tokens.output == 6 * 42
    assert read == [("3", 1)]


def test_one_that_cannot_be_read_is_a_problem_and_the_others_count(home: Home) -> None:
    home.path(1).write_bytes(answer("msg_a"))
    os.mkfifo(home.path(2))
    home.path(3).symlink_to("/nowhere")
    home.path(4).write_bytes(b'{"usage":' + b"x" * 9_000_000 + b"}\n" + answer("msg_b"))
    for _ in range(2):
        found = home.ask()
        assert found["total"][0][:2] == (22, 84)
        assert len(found["problems"]) == 3
        assert "1 lines are too long to be counted" in found["problems"]


# Whatever is wrong with it


def broken(index: Path, how: str) -> None:
    for end in ("-wal", "-shm"):
        Path(f"{index}{end}").unlink(missing_ok=True)
    content = index.read_bytes()
    index.unlink()
    if how == "empty":
        index.touch()
    elif how == "garbage":
        index.write_bytes(b"not a database at all" * 1000)
    elif how.startswith("cut"):
        index.write_bytes(content[: len(content) * int(how[3:]) // 100])
    elif how.startswith("noise"):
        chance = random.Random(how)
        data = bytearray(content)
        for _ in range(400):
            data[chance.randrange(100, len(data))] = chance.randrange(256)
        index.write_bytes(data)
    elif how == "folder":
        index.mkdir()
    elif how == "fifo":
        os.mkfifo(index)
    elif how == "link":
        index.symlink_to("/dev/full")
    else:
        index.write_bytes(content)
        with sqlite3.connect(index) as connection:
            connection.execute(how)
        connection.close()


@pytest.mark.parametrize(
    "how",
    [
        "empty",
        "garbage",
        "cut10",
        "cut50",
        "cut95",
        "noise1",
        "noise2",
        "noise3",
        "folder",
        "fifo",
        "link",
        "drop table sum",
        "create table more (x)",
        "create trigger t after update on source begin delete from call; end",
        "pragma user_version = 99",
        "update source set state = 'x'",
        "update source set state = '[]', written = 1",
        'update source set state = \'{"offset": "x", "inode": [], "reader": {}}\', written = 1',
        "update source set inode = 'x', size = x'ff'",
        "update folder set mark = 'x', root = x'ff'",
        "update sum set output = 'y', cost = 'z', cache_read = x'00ff'",
        "update session set top = 77777, parent = 99999",
    ],
)
def test_a_broken_index_is_made_anew(home: Home, how: str) -> None:
    for number in range(1, 9):
        home.path(number).write_bytes(b"".join(answer(f"msg_{number}_{letter}") for letter in "abcdefgh"))
    expected = essence(spent(home.env))
    assert expected["total"][0][:2] == (64 * 11, 64 * 42)
    broken(home.index, how)
    with home.path(1).open("ab") as file:
        file.write(answer("msg_new"))
    if not how.startswith(("noise", "update")):  # no cache can tell whether numbers in it were changed by hand
        assert essence(spent(home.env))["total"][0][:2] == (65 * 11, 65 * 42)
    else:
        assert spent(home.env).total.sessions >= 1
    if home.index.is_file():
        home.index.unlink()
    assert home.ask()["total"][0][:2] == (65 * 11, 65 * 42)


def test_it_is_for_us_alone_and_nothing_else_is_written(home: Home) -> None:
    home.path().write_bytes(answer("msg_a"))
    before = {path: path.lstat().st_mtime_ns for path in (home.folder / ".claude").rglob("*")}
    spent(home.env)
    assert home.index.stat().st_mode & 0o777 == 0o600
    assert home.index.parent.stat().st_mode & 0o777 == 0o700
    assert {path: path.lstat().st_mtime_ns for path in (home.folder / ".claude").rglob("*")} == before
    assert {path.name for path in home.index.parent.iterdir()} <= {"usage.db", "usage.db-wal", "usage.db-shm"}


def test_where_nothing_can_be_written_it_still_counts(home: Home) -> None:
    home.path().write_bytes(answer("msg_a"))
    (home.folder / "cache").touch()  # no folder can be made there
    assert spent(home.env).total.tokens.output == 42


def test_a_disk_that_is_full_is_no_reason_not_to_answer(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.path().write_bytes(answer("msg_a"))
    real = db.opened

    def small(path: str) -> sqlite3.Connection:
        connection = real(path)
        connection.execute("pragma max_page_count = 1")
        return connection

    monkeypatch.setattr(db, "opened", small)
    home.path(2).write_bytes(b"".join(answer(f"msg_{number}_a") for number in range(2000)))
    assert spent(home.env).total.tokens.output == 2001 * 42


# Several at once


def test_nobody_waits_for_one_that_writes(home: Home) -> None:
    home.path().write_bytes(answer("msg_a"))
    spent(home.env)
    writer = sqlite3.connect(home.index, isolation_level=None)
    writer.execute("begin immediate")
    try:
        with home.path().open("ab") as file:
            file.write(answer("msg_b"))
        assert spent(home.env).total.tokens.output == 84
        assert writer.execute("select count(*) from call").fetchone() == (1,)  # on a copy, and not here
    finally:
        writer.execute("rollback")
        writer.close()
    assert spent(home.env).total.tokens.output == 84
    assert sqlite3.connect(home.index).execute("select count(*) from call").fetchone() == (2,)


def test_an_index_that_is_locked_is_not_thrown_away(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.path().write_bytes(answer("msg_a"))
    spent(home.env)
    inode = home.index.stat().st_ino
    other = sqlite3.connect(home.index, isolation_level=None)
    other.execute("pragma locking_mode = exclusive")
    other.execute("begin exclusive")
    try:
        assert spent(home.env).total.tokens.output == 42
    finally:
        other.execute("rollback")
        other.close()
    assert home.index.stat().st_ino == inode


def test_many_at_once_while_transcripts_grow(home: Home) -> None:
    """Real processes on one index, from its making on: each answers, no answer has too much, the last has all."""
    for number in range(1, 5):
        home.path(number).write_bytes(b"".join(answer(f"msg_{number}_{one}_a") for one in range(300)))
    env = {**home.env, "PATH": os.environ["PATH"], "PYTHONPATH": SOURCES}
    command = [sys.executable, "-m", "agentctl", "usage", "--since", "all", "--json"]

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    running, most = [], 1200
    for number in range(9):
        with home.path(1 + number % 4).open("ab") as file:
            file.write(answer(f"msg_later_{number}_a"))
        most += 1
        running.append((start(), 1200, 1209))
    for child, least, limit in running:
        out, said = child.communicate(timeout=TIMEOUT)
        assert (child.returncode, said) == (0, "")
        assert least * 42 <= json.loads(out)["total"]["tokens"]["output"] <= limit * 42
    assert home.ask()["total"][0][1] == most * 42
    assert sqlite3.connect(home.index).execute("pragma integrity_check").fetchone() == ("ok",)


def test_one_that_is_interrupted_keeps_what_it_counted(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "MANY_AT_ONCE", 1)
    for number in range(1, 5):
        home.path(number).write_bytes(answer(f"msg_{number}"))
        os.utime(home.path(number), (1000, 1000))
    portions = iter(range(10))

    def tell(done: int, whole: int) -> None:
        if next(portions) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        query.spent(query.Question("session"), load_all(), [], home.env, tell)
    assert sqlite3.connect(home.index).execute("select count(*) from source").fetchone() == (2,)
    assert home.ask()["total"][0][1] == 4 * 42


# Databases


def test_a_database_is_read_from_where_it_was_left(tmp_path: Path) -> None:
    home = OpenCodeHome(tmp_path)
    env = {**home.env, "AGENTCTL_HOME": str(tmp_path / "state")}

    def output() -> int | None:
        found = essence(spent(env))
        elsewhere = {**env, "XDG_CACHE_HOME": str(tmp_path / "no" / "cache")}
        shutil.rmtree(tmp_path / "no", ignore_errors=True)
        assert essence(spent(elsewhere)) == found
        return spent(env).total.tokens.output

    home.session("ses_a", 10)
    home.step("ses_a", 12, end=13, tokens={"input": 1, "output": 2}, cost=1.0)
    assert output() == 2
    home.step("ses_a", 14, tokens={"input": 0, "output": 0}, cost=0)  # begun
    home.session("ses_b", 15, parent="ses_a")
    home.step("ses_b", 16, end=17, tokens={"input": 1, "output": 3}, cost=1.0)
    assert output() == 5
    finished = {"role": "assistant", "tokens": {"input": 1, "output": 7}, "cost": 1.0, "time": {"completed": 1}}
    home._do("update message set data = ? where id = 'msg_0002'", json.dumps(finished))
    assert output() == 12
    home._do("delete from message where id = 'msg_0001'")
    assert output() == 10
    home._do("delete from message where id = 'msg_0003'")
    home.step("ses_a", 20, end=21, tokens={"input": 1, "output": 1}, cost=1.0)
    assert output() == 8


def test_stores_of_all_agents_in_one_home(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "claude" / "subagent_finished" / ".claude", tmp_path / ".claude")
    shutil.copytree(FIXTURES / "codex" / "finished_ok" / "codex_home", tmp_path / ".codex")
    shutil.copytree(FIXTURES / "opencode" / "finished_ok" / "xdg_data", tmp_path / "data")
    home = Home(tmp_path)
    assert home.ask()["total"][0][:2] == (44 + 2000 + 1600, 168 + 100 + 80)
    (tmp_path / ".codex").rename(tmp_path / "elsewhere")
    assert home.ask()["total"][0][:2] == (44 + 1600, 168 + 80)


@pytest.mark.parametrize(("first", "counted"), [("T19:00:00.500Z", (11, 42)), ("T18:00:00.000Z", (None, None))])
def test_a_clock_that_was_set_back_makes_no_copies(first: str, counted: tuple[Any, Any], home: Home) -> None:
    """A fork begins with a record that is older than its head; a session of its own does not."""
    head = b'{"type":"queue-operation","timestamp":"2026-11-15T19:00:00.000Z"}\n'
    prompt = b'{"type":"user","uuid":"u","timestamp":"2026-11-15%b"}\n' % first.encode()
    home.path().write_bytes(head + prompt + answer("msg_a"))
    assert home.ask()["total"][0][:2] == counted
