"""Caches that the version before the rooms wrote, read by the version at hand, and the other way round: the answers are
those of empty caches, and what was written by other code is replaced."""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
from typing import TYPE_CHECKING, Any

import pytest

from agentctl.files.private import CACHE_CODE
from agentctl.kernel.recorded import own_boot
from agentctl.launches import records
from agentctl.usage import db
from tests.launches.test_records import facts, write
from tests.support import stored_home
from tests.support.caches import changed
from tests.support.launch_home import Home
from tests.support.upgrade_home import NEW, agrees, install
from tests.support.worlds import FIXTURES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.linux

LAUNCHES = 60  # of so many an index is kept
SETTLED = 2.2  # seconds after which a launch that was just written is kept in the index
CLAUDE_ID, CODEX_ID = "00000000-0000-4000-8000-{:012}", "019b7000-0000-7000-8000-{:012}"
EVERYTHING = ("-a", "--since", "all")
QUESTIONS = (
    ("list", *EVERYTHING, "--tree"),
    ("list", *EVERYTHING, "--group", "g"),
    ("list",),
    ("status", CLAUDE_ID.format(7)),
    ("why", CODEX_ID.format(7)),
    ("usage", "--since", "all", "--by", "session"),
    ("usage", "--since", "all", "--by", "group"),
)


class Stored(Home):
    """With many stored sessions of three agents, many launches of them, and one demo session in a place that only a
    live agent could tell."""

    def __init__(self, folder: Path, package: Path) -> None:
        super().__init__(folder)
        self.cache = folder / "cache" / "agentctl"
        install(self, package)
        stored_home.Home(folder)
        shutil.copytree(FIXTURES / "opencode" / "subagent_and_fork" / "xdg_data", folder / "data")
        for number in range(LAUNCHES):
            self.add_launch(number)
        time.sleep(SETTLED)
        self.remote = self.launch("[[bash:sleep 1]]", "--env", f"XDG_DATA_HOME={folder / 'remote'}")
        assert self.listed()["sessions"][0]["id"] == self.remote  # and its root is remembered
        self.wait_until_quiet()

    def add_launch(self, number: int) -> None:
        reserved = records.reserve(self.env)
        if number % 3:
            more: dict[str, Any] = {"agent": "claude-code", "session_id": CLAUDE_ID.format(number)}
        else:
            more = {"agent": "codex", "session_id": None}
            thread = {"type": "thread.started", "thread_id": CODEX_ID.format(number)}
            write(reserved, json.dumps(thread).encode() + b"\n", records.OUTPUT)
        more |= {"runner": f"{own_boot()}:3:1", "child": f"{own_boot()}:4:1"}  # of this machine, and no longer there
        write(reserved, facts(reserved.id, **more, group="g" if number % 2 else "h"))

    def ask_all(self) -> list[Any]:
        """After the table, for which less is read of each transcript."""
        assert self.agentctl("list", *EVERYTHING).returncode == 0
        answers = []
        for words in QUESTIONS:
            done = self.agentctl(*words, "--json")
            assert done.returncode == 0, done.stderr
            # Without how many processes there are, and without the agents of other tests, which come and go.
            answers.append({**json.loads(done.stdout), "sources": None, "not_shown": None})
        return answers

    def ask_anew(self) -> list[Any]:
        """With all that can be found again taken away: not where live agents had their stores."""
        for path in self.cache.iterdir():
            if path.name != "roots.json":
                path.unlink()
        return self.ask_all()

    def tables(self) -> list[Path]:
        return sorted([*self.cache.glob("records-*.json"), *self.cache.glob("launches.json")])

    def codes(self) -> set[str]:
        return {json.loads(path.read_bytes())["code"] for path in self.tables()}

    def change(self, change: Callable[[dict[str, Any]], object]) -> None:
        for path in self.tables():
            path.write_bytes(changed(change)(path.read_bytes()))
            path.chmod(0o600)


@pytest.fixture
def stored(tmp_path: Path, old: Path) -> Stored:
    return Stored(tmp_path, old)


def poison(content: dict[str, Any]) -> None:
    """What is there is of the right shape, and wrong."""
    columns = content["columns"]
    if "title" in columns:
        columns["title"] = ["poison"] * len(columns["title"])
    else:
        columns["session"] = columns["session"][::-1]


def another_layout(content: dict[str, Any]) -> None:
    """What is there says that it is of this very code, and has the columns of another."""
    content["code"] = CACHE_CODE
    columns = content["columns"]
    columns["was"] = columns.pop("title" if "title" in columns else "session")


def test_the_caches_of_the_old_version(stored: Stored, old: Path) -> None:
    before = stored.ask_all()
    names = {path.name.partition("-")[0] for path in stored.cache.iterdir()}
    assert {"records", "launches.json", "roots.json", "usage.db"} <= names
    assert len(stored.tables()) == 3
    assert CACHE_CODE not in stored.codes()
    kept = stored.folder / "kept"
    shutil.copytree(stored.cache, kept)

    install(stored, NEW)
    answers = stored.ask_all()
    assert stored.codes() == {CACHE_CODE}  # replaced
    assert stored.ask_all() == answers  # from what was written just now
    assert stored.ask_anew() == answers
    assert agrees(before, answers)
    rows = {row["id"]: row for row in answers[0]["sessions"]}
    assert len(rows) > 2 * stored_home.COUNT
    assert stored.remote in rows
    assert len([row for row in rows.values() if row["launch_id"]]) == LAUNCHES + 1
    assert len(answers[5]["rows"]) > 20  # copies of one transcript count once

    shutil.rmtree(stored.cache)
    shutil.copytree(kept, stored.cache)
    stored.change(poison)  # not one of them is believed, whatever it says
    assert stored.ask_all() == answers
    assert stored.codes() == {CACHE_CODE}
    stored.change(poison)
    assert stored.ask_all() != answers  # these were: so it was the code that told
    stored.change(another_layout)
    with sqlite3.connect(stored.cache / db.NAME) as connection:
        for table in ("sum", "slice"):
            connection.execute(f"update {table} set output = output + 1000")
        connection.execute(f"pragma user_version = {db.VERSION - 1}")
    connection.close()
    assert stored.ask_all() == answers


def test_the_caches_of_the_new_version_are_none_of_the_old_one(stored: Stored, old: Path) -> None:
    """Back to the old version."""
    plain = stored.ask_anew()
    install(stored, NEW)
    stored.ask_all()
    assert stored.codes() == {CACHE_CODE}
    kept = stored.folder / "kept"
    shutil.copytree(stored.cache, kept)
    install(stored, old)
    assert stored.ask_all() == plain
    assert CACHE_CODE not in stored.codes()
    shutil.rmtree(stored.cache)
    shutil.copytree(kept, stored.cache)
    stored.change(poison)
    assert stored.ask_all() == plain
