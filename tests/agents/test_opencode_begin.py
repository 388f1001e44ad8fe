"""The database that OpenCode is just creating: nobody who looks at it is in its way."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from agentctl.agents.opencode import db
from agentctl.agents.opencode.db import Database, Unreadable

if TYPE_CHECKING:
    from pathlib import Path

LOOKING = """
import os
import sys
from agentctl.agents.opencode.db import Database

print("here", flush=True)
while True:
    try:
        # The writer turns the link round at any moment: follow it once, so that each look is at one database.
        Database(os.path.realpath(sys.argv[1])).recent(0.0)
    except OSError:
        pass
"""


def test_who_creates_a_database_is_not_in_anybodys_way(tmp_path: Path) -> None:
    """As OpenCode does at its first start: it does not wait for others before it has asked for its write-ahead log."""
    here = tmp_path / "here"
    here.symlink_to(tmp_path)
    looking = subprocess.Popen(
        [sys.executable, "-c", LOOKING, str(here / "opencode.db")], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
    )
    try:
        assert looking.stdout is not None
        assert looking.stdout.readline() == b"here\n"
        for number in range(100):
            folder = tmp_path / str(number)
            folder.mkdir()
            (tmp_path / "next").symlink_to(folder)
            os.replace(tmp_path / "next", here)
            writer = sqlite3.connect(folder / "opencode.db", timeout=0, isolation_level=None)
            writer.execute("pragma journal_mode = wal")
            writer.execute("pragma busy_timeout = 5000")
            writer.execute("create table session (id text, parent_id text, time_updated integer)")
            writer.close()
        assert looking.poll() is None
    finally:
        looking.kill()
        looking.communicate()


def test_a_database_with_nothing_in_it_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "opencode.db"
    with monkeypatch.context() as patch:
        patch.setattr(db, "connect", None)
        patch.setattr(db, "BEGINNING", float("inf"))
        with path.open("wb"):  # whoever makes it has it open
            assert Database(str(path)).recent(0.0) == []
        writer = sqlite3.connect(path, isolation_level=None)
        writer.execute("pragma journal_mode = wal")
        assert path.stat().st_size > 0
        assert Database(str(path)).session("ses_x") is None
    writer.execute("create table session (id text, parent_id text, time_updated integer)")
    assert Database(str(path)).recent(0.0) == []
    writer.execute("insert into session values ('ses_x', null, 1)")
    assert Database(str(path)).recent(0.0) == ["ses_x"]
    writer.close()
    assert Database(str(path)).recent(0.0) == ["ses_x"]  # nothing is in its log any more


@pytest.mark.parametrize("damage", [b"x" * 4096, b"SQLite format 3\0" + b"x" * 4096])
def test_a_damaged_database_is_not_one_with_nothing_in_it(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "opencode.db"
    path.write_bytes(damage)
    with pytest.raises(Unreadable):
        Database(str(path)).recent(0.0)


def test_an_empty_database_that_nobody_fills_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    path.write_bytes(b"")
    with pytest.raises(Unreadable, match="it is empty"):
        Database(str(path)).recent(0.0)


def test_who_was_started_long_ago_does_not_make_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "opencode.db"
    monkeypatch.setattr(db, "BEGINNING", float("inf"))
    with path.open("wb"):
        assert db.is_being_made(str(path))
        monkeypatch.setattr(db, "BEGINNING", 0.0)
        with pytest.raises(Unreadable, match="it is empty"):
            Database(str(path)).recent(0.0)


def test_the_log_of_an_empty_database_is_left(tmp_path: Path) -> None:
    """SQLite deletes it, even for those who only read: it may be all that is left of the sessions."""
    path = tmp_path / "opencode.db"
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("pragma journal_mode = wal")
    writer.execute("create table session (id text, parent_id text, time_updated integer)")
    log = path.with_name("opencode.db-wal").read_bytes()
    writer.close()
    path.write_bytes(b"")
    path.with_name("opencode.db-wal").write_bytes(log)
    with path.open("rb"), pytest.raises(Unreadable, match="it is empty"):
        Database(str(path)).recent(0.0)
    assert path.with_name("opencode.db-wal").read_bytes() == log


@pytest.mark.parametrize("told", [True, False])
def test_rows_that_were_not_read_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: bool) -> None:
    path = tmp_path / "opencode.db"
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("create table session (id text, parent_id text, time_updated integer)")
    writer.executemany("insert into session values (?, null, 1)", [(f"ses_{number}",) for number in range(4)])
    writer.close()
    said: list[str] = []
    monkeypatch.setattr(db, "MOST_ROWS", 3)
    if told:
        assert len(Database(str(path), said.append).recent(0.0)) == 3
        assert said == [db.TOO_MANY]
    else:
        with pytest.raises(Unreadable, match="has more"):
            Database(str(path)).recent(0.0)
    monkeypatch.setattr(db, "MOST_ROWS", 4)
    assert len(Database(str(path)).recent(0.0)) == 4
