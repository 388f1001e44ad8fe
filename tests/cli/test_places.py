"""Where agentctl keeps its files does not depend on the directory that it is called in; and an id is never lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from agentctl import config
from tests.support.launch_home import LONG, TIMEOUT, Home
from tests.support.worktree_home import worktrees_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.linux
AGENTCTL = (sys.executable, "-m", "agentctl")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    try:
        yield home
    finally:
        home.end_all()


@pytest.mark.parametrize("value", ["state", "./state", "~/state", "../state"])
@pytest.mark.parametrize("words", [("list",), ("lock", "."), ("locks",), ("prune",)])
def test_a_relative_agentctl_home_is_refused(home: Home, value: str, words: tuple[str, ...]) -> None:
    """It would be another folder in each directory: a lock that was set in one would not hold in the next."""
    before = sorted(os.listdir(home.work))
    done = subprocess.run(
        [*AGENTCTL, *words], env={**home.env, "AGENTCTL_HOME": value}, cwd=home.work, capture_output=True, text=True,
        timeout=TIMEOUT, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert f"AGENTCTL_HOME='{value}'" in done.stderr
    assert sorted(os.listdir(home.work)) == before


def test_relative_folders_of_xdg_are_ignored() -> None:
    """As the XDG specification says."""
    for value in ("relative", "./x", "~/x", ""):
        env = {"XDG_CACHE_HOME": value, "XDG_CONFIG_HOME": value}
        assert config.cache_folder(env) == os.path.expanduser("~/.cache/agentctl")
        assert config.config_path(env) == os.path.expanduser("~/.config/agentctl/config.toml")
    env = {"XDG_CACHE_HOME": "/c", "XDG_CONFIG_HOME": "/d"}
    assert (config.cache_folder(env), config.config_path(env)) == ("/c/agentctl", "/d/agentctl/config.toml")


def into_a_full_disk(home: Home, *words: str) -> subprocess.CompletedProcess[str]:
    with open("/dev/full", "w") as full:
        return subprocess.run(
            [*AGENTCTL, "launch", *words], env=home.env, cwd=home.work, stdout=full, stderr=subprocess.PIPE, text=True,
            timeout=TIMEOUT, check=False,
        )  # fmt: skip


def ids(home: Home) -> list[str]:
    done = subprocess.run(
        [*AGENTCTL, "list", "-a", "--json"], env=home.env, capture_output=True, text=True, timeout=TIMEOUT, check=True
    )
    return [session["id"] for session in json.loads(done.stdout)["sessions"]]


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_the_id_goes_to_stderr_if_stdout_is_full(home: Home, more: tuple[str, ...]) -> None:
    marker = home.work / "created"
    done = into_a_full_disk(home, "demo", "-p", LONG, "--on-create", f"touch {marker}", *more)
    (id,) = ids(home)
    assert done.returncode == 1
    assert id in done.stderr and "stdout could not be written: No space left on device" in done.stderr
    assert "report" not in done.stderr
    assert marker.exists(), "all else is as without it"


def test_the_ids_of_slots_go_to_stderr_if_stdout_is_full(tmp_path: Path) -> None:
    with worktrees_in(tmp_path) as home:
        done = into_a_full_disk(home, "--agent", "demo", "--agent", "demo", "-p", LONG, "--group", "g")
        found = ids(home)
        assert (done.returncode, len(found)) == (1, 2), done.stderr
        assert all(id in done.stderr for id in found)
        assert "stdout could not be written" in done.stderr


def test_the_id_goes_to_stderr_if_nobody_reads_stdout(home: Home) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [*AGENTCTL, "launch", "demo", "-p", LONG], env=home.env, cwd=home.work, stdout=writing,
            stderr=subprocess.PIPE, text=True, timeout=TIMEOUT, check=False,
        )  # fmt: skip
    finally:
        os.close(writing)
    (id,) = ids(home)
    assert done.returncode == 0, "as of every command whose reader went away"
    assert id in done.stderr
