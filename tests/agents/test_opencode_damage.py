"""What stands beside OpenCode's files or in their place: `usage`, too, never takes "could not look" for "nothing"."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from agentctl.agents import load_all
from agentctl.agents.opencode import adapter
from agentctl.agents.opencode.db import Database, Unreadable
from agentctl.agents.opencode.sessions import newest_of
from agentctl.agents.opencode.turn import Row
from agentctl.model import Details, Process, ProcessKey
from agentctl.query import sessions
from agentctl.usage.query import Question, spent
from tests.support.opencode_home import Home
from tests.support.worlds import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


LEGACY = FIXTURES / "opencode" / "legacy_1.0.185_storage" / "xdg_data" / "opencode"
LEGACY_ID = "ses_e1f7cc1a2ffeJ6DVYCJuINozY2"


def problems_of_both(folder: Path, **more: str) -> tuple[list[str | None], list[str | None]]:
    """Return the paths of the problems that `list` and `usage` name."""
    env = {"HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache"), **more}
    listed = sessions.query(sessions.Scope(agents=("opencode",), since=0.0), env).problems
    agents = [agent for agent in load_all() if agent.NAME == "opencode"]
    counted = spent(Question("agent"), agents, [], env, lambda done, whole: None).problems
    return [one.path for one in listed], [one.path for one in counted]


@pytest.mark.parametrize("end", ["-wal", "-journal"])
@pytest.mark.parametrize("what", ["link", "pipe", "folder", "zeros"])
def test_a_log_that_cannot_be_used_is_a_gap(home: Home, end: str, what: str) -> None:
    home.session("ses_new", 10)
    log = home.path.with_name(home.path.name + end)
    log.unlink(missing_ok=True)
    if what == "link":
        log.symlink_to("nowhere")
    elif what == "pipe":
        os.mkfifo(log)
    elif what == "folder":
        log.mkdir()
    else:
        log.write_bytes(bytes(4096))
    database = Database(str(home.path))
    if (what, end) == ("zeros", "-journal"):
        assert database.recent(0.0) == ["ses_new"]  # a journal that was finished may be left so
        return
    with pytest.raises(Unreadable, match=end):
        database.recent(0.0)


def test_of_several_rows_of_a_session_the_newest_counts() -> None:
    old, new, undated = (Row("ses_a", path, updated=at) for path, at in (("1", 1.0), ("2", 2.0), ("3", None)))
    other = Row("ses_b", "1", updated=1.0)
    for rows in ([old, new, other, undated], [new, undated, old, other]):
        assert {row.id: row.path for row in newest_of(rows)} == {"ses_a": "2", "ses_b": "1"}
    assert [row.path for row in newest_of([old, old._replace(path="9")])] == ["1"]  # of equal ones, the first


@pytest.mark.parametrize("what", ["closed folder", "file", "torn", "link"])
def test_usage_names_messages_of_the_older_layout_that_it_cannot_read(tmp_path: Path, what: str) -> None:
    shutil.copytree(LEGACY, tmp_path / "opencode")
    folder = tmp_path / "opencode" / "storage" / "message" / LEGACY_ID
    message = min(folder.iterdir())
    if what in ("closed folder", "file"):
        shutil.rmtree(folder)
        if what == "file":
            folder.write_text("")
        else:
            folder.symlink_to("nowhere")
    elif what == "torn":
        message.write_bytes(b"\0\0")
    else:
        message.unlink()
        message.symlink_to("nowhere")
    assert problems_of_both(tmp_path)[1] != []


def test_a_file_in_the_place_of_a_projects_folder_is_a_gap(tmp_path: Path) -> None:
    shutil.copytree(LEGACY, tmp_path / "opencode")
    (project,) = (tmp_path / "opencode" / "storage" / "session").iterdir()
    shutil.rmtree(project)
    project.write_text("")
    (project.parent / "notes.txt").write_text("left by somebody")
    assert problems_of_both(tmp_path)[0] == [str(project)]


def test_a_root_that_is_no_database_is_a_problem_in_both(tmp_path: Path) -> None:
    path = tmp_path / "some.db"
    path.write_text("this is no database")
    listed, counted = problems_of_both(tmp_path, OPENCODE_DB=str(path))
    assert str(path) in listed and str(path) in counted


def test_a_client_that_only_logs_is_on_no_session(home: Home) -> None:
    """As `opencode attach` of 1.18.33: it has the log open, and no database. The older layout keeps no other open."""
    home.session("ses_new", 10)
    process, details = Process(ProcessKey("boot", 1, 1), 0, "opencode", "S"), Details(("opencode",), cwd="/work")
    store = adapter.ADAPTER.open_store(str(home.data))
    store.survey()
    log = str(home.log)
    assert store.candidates_by_files([log], process, details, 0.0).ids == ()
    assert store.candidates_by_files([log, str(home.path)], process, details, 0.0).ids == ("ses_new",)
    home.path.unlink()
    shutil.copytree(LEGACY / "storage", home.data / "storage")
    older = adapter.ADAPTER.open_store(str(home.data))
    older.survey()
    assert LEGACY_ID in (older.candidates_by_files([log], process, details, 0.0).ids or ())
