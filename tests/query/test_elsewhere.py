"""A launch in the store of another profile, asked for by somebody whose environment does not name that store."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from agentctl.launch import start
from agentctl.launch.spawn import Order
from agentctl.query import remembered
from tests.support.launch_home import Home

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.linux


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    try:
        yield home
    finally:
        home.end_all()


@pytest.mark.parametrize(
    ("agent", "own", "of_agent", "noted"),
    [
        ("codex", {}, {}, None),
        ("codex", {"CODEX_HOME": "/w/codex"}, {"CODEX_HOME": "/w/codex"}, "/w/codex"),  # direnv, a profile
        ("codex", {}, {"CODEX_HOME": "/w/codex"}, "/w/codex"),  # --env
        ("codex", {"CODEX_HOME": "/w/codex"}, {"CODEX_HOME": "/v/codex"}, "/v/codex"),
        ("codex", {"CODEX_HOME": "/w/codex"}, {}, None),  # everybody finds it who has this HOME
        ("claude-code", {"CLAUDE_CONFIG_DIR": "/w/c"}, {"CLAUDE_CONFIG_DIR": "/w/c"}, "/w/c"),
        ("claude-code", {"CODEX_HOME": "/w"}, {"CODEX_HOME": "/w"}, None),
        ("opencode", {"XDG_DATA_HOME": "/w"}, {"XDG_DATA_HOME": "/w"}, "/w/opencode"),
        ("demo", {"XDG_DATA_HOME": "/w"}, {"XDG_DATA_HOME": "/w"}, "/w/agentctl-demo"),
    ],
)
def test_every_store_that_home_alone_does_not_lead_to_is_noted(
    tmp_path: Path, agent: str, own: dict[str, str], of_agent: dict[str, str], noted: str | None
) -> None:
    env = {"HOME": str(tmp_path), "AGENTCTL_HOME": str(tmp_path / "state")}
    order = Order(agent=agent, argv=("x",), cwd=str(tmp_path), env={**env, **of_agent})
    said: list[str] = []
    start.note_store(order, {**env, **own}, said.append)
    found = [path for paths in remembered.recall(env).roots.values() for path in paths]
    assert (found, said) == ([noted] if noted else [], [])


def launched_on_another_profile(home: Home) -> tuple[str, str, str]:
    """Return the session, the launch and the store of a run that is over."""
    profile = {**home.env, "XDG_DATA_HOME": str(home.folder / "profile")}
    id = home.launch("[[text:one]]", env=profile)
    home.wait_until_quiet()
    return id, home.launch_of(id).id, str(home.folder / "profile" / "agentctl-demo")


def test_it_is_found_from_a_shell_without_the_variable(home: Home) -> None:
    id, launch, _ = launched_on_another_profile(home)
    listed = home.agentctl("list", "-a", "--strict", "--json")
    assert (listed.returncode, id in listed.stdout) == (0, True)
    assert home.session(id)["status"] == "done"
    for verb, name in (("wait", id), ("wait", launch), ("status", launch)):
        answer = home.agentctl(verb, name)
        assert answer.returncode == 0 and "without a session" not in answer.stdout + answer.stderr, answer


def test_a_store_that_is_not_read_is_elsewhere(home: Home) -> None:
    id, launch, root = launched_on_another_profile(home)
    assert remembered.forget(root, home.env) == ["demo"]
    for verb in ("status", "wait", "why", "peek"):
        for name in (id, id[:8], launch):
            answer = home.agentctl(verb, name)
            if (verb, name) == ("peek", launch):
                continue  # it shows what the launch printed
            said = answer.stdout + answer.stderr
            assert (answer.returncode, f"its store is elsewhere: {root}" in said) == (5, True), (verb, name, answer)
    assert home.agentctl("status", "0000").returncode == 3  # nobody launched that


def test_the_same_store_by_another_name_is_read(home: Home) -> None:
    id, launch, root = launched_on_another_profile(home)
    remembered.forget(root, home.env)
    os.symlink(home.folder / "profile", home.folder / "link")
    env = {**home.env, "XDG_DATA_HOME": str(home.folder / "link")}
    assert home.agentctl("status", id, env=env).returncode == 0
    os.rename(home.folder / "profile" / "agentctl-demo" / "sessions" / id, home.folder / "away")
    answer = home.agentctl("wait", launch, env=env)
    assert (answer.returncode, "elsewhere" in answer.stdout + answer.stderr) == (0, False), answer
