"""A resumed session runs on its own store, whatever the environment of the person who resumes it names."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from agentctl.agents import TABLE, load, load_control
from agentctl.errors import Refused
from agentctl.launch import own_store
from agentctl.model import Session
from tests.support.launch_home import Home

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOME = {"HOME": "/h", "PATH": "/bin"}


def session_in(agent: str, store: str) -> Session:
    return Session("an-id", agent, "done", "gone", "done", store=store)


@pytest.mark.parametrize(
    ("agent", "store", "given", "wanted"),
    [
        ("codex", "/h/.codex", {}, {}),
        ("codex", "/w/codex", {}, {"CODEX_HOME": "/w/codex"}),
        ("codex", "/w/codex", {"CODEX_HOME": "/w/codex"}, {"CODEX_HOME": "/w/codex"}),
        ("codex", "/w/codex", {"CODEX_HOME": "/v"}, {"CODEX_HOME": "/w/codex"}),
        ("codex", "/h/.codex", {"CODEX_HOME": "/v"}, {}),
        ("claude-code", "/w/.claude", {}, {"CLAUDE_CONFIG_DIR": "/w/.claude"}),
        # With the variable it would look for .claude.json in another place than without.
        ("claude-code", "/h/.claude", {"CLAUDE_CONFIG_DIR": "/v"}, {}),
        ("claude-code", "/work", {"CLAUDE_CONFIG_DIR": ""}, {"CLAUDE_CONFIG_DIR": ""}),
        ("opencode", "/w/opencode", {}, {"XDG_DATA_HOME": "/w"}),
        ("opencode", "/w/mine.db", {}, {"OPENCODE_DB": "/w/mine.db"}),
        ("opencode", "/w/mine.db", {"XDG_DATA_HOME": "/v"}, {"XDG_DATA_HOME": "/v", "OPENCODE_DB": "/w/mine.db"}),
        ("opencode", "/w/opencode", {"OPENCODE_DB": "/v/mine.db"}, {"XDG_DATA_HOME": "/w"}),
        ("opencode", "/h/.local/share/opencode", {"XDG_DATA_HOME": "/v"}, {}),
        ("demo", "/w/agentctl-demo", {}, {"XDG_DATA_HOME": "/w"}),
        ("demo", "/h/.local/share/agentctl-demo", {"XDG_DATA_HOME": "/v"}, {}),
    ],
)
def test_the_environment_leads_to_the_store_of_the_session(
    agent: str, store: str, given: dict[str, str], wanted: dict[str, str]
) -> None:
    found, note = own_store.leading_to(session_in(agent, store), {**HOME, **given}, "/work")
    assert found == {**HOME, **wanted}
    assert (note is None) == (given == wanted)  # what was changed is said


@pytest.mark.parametrize("agent", sorted(TABLE))
def test_every_agent_can_be_led_to_any_store_of_its_own(agent: str, tmp_path: Path) -> None:
    """The contract of STORE_ENV and naming()."""
    own = load(agent).roots({"HOME": str(tmp_path)})[0]
    control = load_control(agent)
    named = control.naming(own)
    assert set(named) <= set(control.STORE_ENV) <= set(load(agent).ENV)
    assert load(agent).roots({"HOME": "/elsewhere", **named})[0] == own


def test_a_store_that_no_variable_leads_to_is_refused() -> None:
    with pytest.raises(Refused, match="/w/other"):
        own_store.leading_to(session_in("demo", "/w/other"), HOME, "/work")


def test_the_same_folder_by_another_name_is_its_store(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    os.symlink(tmp_path / "real", tmp_path / "link")
    given = {**HOME, "CODEX_HOME": str(tmp_path / "link")}
    assert own_store.leading_to(session_in("codex", str(tmp_path / "real")), given, "/work") == (given, None)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    try:
        yield home
    finally:
        home.end_all()


@pytest.mark.linux
def test_resume_goes_on_in_the_store_of_another_profile(home: Home) -> None:
    profile = {**home.env, "XDG_DATA_HOME": str(home.folder / "profile")}
    id = home.launch("[[text:one]]", "--wait", env=profile)
    home.wait_until_quiet()
    done = home.agentctl("resume", id, "[[text:two]]", "--wait")
    assert done.returncode == 0, done.stderr
    assert f"it goes on in its own store, XDG_DATA_HOME={home.folder / 'profile'}" in done.stderr
    events = home.folder / "profile" / "agentctl-demo" / "sessions" / id / "events.jsonl"
    assert [text in events.read_text() for text in ("[[text:one]]", "[[text:two]]")] == [True, True]
    assert not home.events_file(id).exists()
