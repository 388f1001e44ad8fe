"""The database that OpenCode is just creating: nobody who looks at it is in its way."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from agentctl.agents import opencode_db
from agentctl.agents.opencode_db import Database, Unreadable

if TYPE_CHECKING:
    from pathlib import Path

LOOKING = """
import sys
from agentctl.agents.opencode_db import Database

print("here", flush=True)
while True:
    try:
        Database(sys.argv[1]).recent(0.0)
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
        patch.setattr(opencode_db, "connect", None)
        path.write_bytes(b"")
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
