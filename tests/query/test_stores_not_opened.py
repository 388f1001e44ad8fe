"""A store that was not read is a problem, never an absence, whatever went wrong when it was opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agentctl.agents.demo.adapter import Demo
from agentctl.query.sessions import Scope, query
from tests.support.launch_home import Home

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    try:
        yield home
    finally:
        home.end_all()


@pytest.mark.parametrize(
    "error", [FileNotFoundError("a file of its package"), SystemExit(3), OSError(5, "Input/output error")], ids=repr
)
def test_a_store_that_cannot_be_opened_is_told(
    home: Home, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """FileNotFoundError: its module was being replaced, or what it reads or runs when it is opened is missing."""
    home.until_status(home.launch("hello"), "done")

    def refuse(self: Demo, root: str) -> None:
        raise error

    monkeypatch.setattr(Demo, "open_store", refuse)
    answer = query(Scope(since=0.0), home.env)
    assert [one.agent for one in answer.problems] == ["demo"], answer.problems


def test_a_link_that_leads_nowhere_is_not_a_store_that_was_never_used(home: Home) -> None:
    """Whoever made the link has a store: on a disk that is not mounted now."""
    (home.folder / ".codex").symlink_to(home.folder / "disk" / "codex")
    assert [one.agent for one in query(Scope(), home.env).problems] == ["codex"]


def test_opencode_where_its_store_is_a_file(home: Home) -> None:
    (home.folder / "data").mkdir()
    (home.folder / "data" / "opencode").write_text("a file")
    assert [one.agent for one in query(Scope(), home.env).problems] == ["opencode"]
