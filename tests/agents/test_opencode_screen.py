"""Which sessions the list of an OpenCode screen offers."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest

from agentctl.agents.opencode.arguments import read_arguments
from agentctl.agents.opencode.db import Database
from agentctl.agents.opencode.screen import is_whole_project, places_of

if TYPE_CHECKING:
    from pathlib import Path

ROOTS = [("git", "/w/repo"), ("git", "/w/tree"), ("global", "/")]


@pytest.mark.parametrize(
    ("directory", "places"),
    [
        ("/w/repo", {"git": "", "global": "w/repo"}),
        ("/w/repo/sub", {"git": "sub", "global": "w/repo/sub"}),
        ("/w/tree", {"git": "", "global": "w/tree"}),
        ("/w/repository", {"global": "w/repository"}),
        ("/", {"global": ""}),
    ],
)
def test_where_a_directory_is_in_its_projects(directory: str, places: dict[str, str]) -> None:
    assert places_of(directory, ROOTS) == places


def test_a_worktree_inside_of_a_repository_is_a_top_of_its_own() -> None:
    assert places_of("/w/repo/tree", [("git", "/w/repo"), ("git", "/w/repo/tree")]) == {"git": ""}


def stored(path: Path) -> Database:
    with sqlite3.connect(path) as writer:
        writer.execute("create table session (id text, project_id text, parent_id text, directory text, path text)")
        writer.execute("create table project (id text, worktree text)")
        writer.execute("create table project_directory (project_id text, directory text)")
        writer.executemany("insert into project values (?, ?)", [("git", "/w/repo"), ("global", "/"), ("odd", None)])
        writer.executemany("insert into project_directory values (?, ?)", [("git", "/w/clone")])
        rows = [
            ("top", "git", None, "/w/repo", ""),
            ("sub", "git", None, "/w/repo/sub", "sub"),
            ("child", "git", "sub", "/w/repo/sub", "sub"),
            ("subway", "git", None, "/w/repo/subway", "subway"),
            ("clone", "git", None, "/w/clone", ""),
            ("older", "global", None, "/w/plain", None),
            ("plain", "global", None, "/w/plain", "w/plain"),
            ("below", "global", None, "/w/plain/a", "w/plain/a"),
            ("beside", "global", None, "/w/other", "w/other"),
        ]
        writer.executemany("insert into session values (?, ?, ?, ?, ?)", rows)
    writer.close()
    return Database(str(path))


@pytest.mark.parametrize(
    ("directory", "ids"),
    [
        ("/w/repo", "top sub child subway clone"),
        ("/w/clone", "top sub child subway clone"),
        ("/w/repo/sub", "sub child"),
        ("/w/plain", "older plain below"),
        ("/w/plain/a", "below"),
        ("/elsewhere", ""),
    ],
)
def test_what_a_screen_in_a_directory_can_show(tmp_path: Path, directory: str, ids: str) -> None:
    assert sorted(stored(tmp_path / "a.db").offered(directory, whole=False)) == sorted(ids.split())


def test_a_screen_without_its_restriction_can_show_its_whole_project(tmp_path: Path) -> None:
    found = stored(tmp_path / "a.db").offered("/w/plain/a", whole=True)
    assert sorted(found) == ["below", "beside", "older", "plain"]


@pytest.mark.parametrize(
    ("text", "whole"),
    [(None, False), ("{}", False), ('{"session_directory_filter_enabled": false}', True), ("[]", True), ("torn", True)],
)
def test_whether_the_restriction_was_ever_turned_off(tmp_path: Path, text: str | None, whole: bool) -> None:
    note = tmp_path / "opencode" / "kv.json"
    if text is not None:
        note.parent.mkdir()
        note.write_text(text)
    assert is_whole_project({"XDG_STATE_HOME": str(tmp_path)}) is whole
    assert is_whole_project({"HOME": "/nowhere", "XDG_STATE_HOME": "relative"}) is False


@pytest.mark.parametrize(
    ("words", "has_screen"), [([], True), (["attach", "http://x"], True), (["run", "x"], False), (["serve"], False)]
)
def test_which_commands_have_a_screen(words: list[str], has_screen: bool) -> None:
    assert read_arguments(["opencode", *words]).has_screen is has_screen
