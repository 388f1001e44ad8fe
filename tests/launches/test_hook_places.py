"""Where a hook runs if the directory of its launch is gone: the person is told, and nobody's work is changed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from agentctl.launches import hooks
from agentctl.launches.hooks import Facts
from tests.support.children import until
from tests.support.launch_home import Home

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.linux


def test_where_it_runs(tmp_path: Path) -> None:
    for name in ("there", "repository/.git", "repository/packages", "open"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "repository/file").touch()
    (tmp_path / "open").chmod(0o777)
    rows = {
        "there": "there",
        "gone": ".",
        "there/gone/far": "there",
        "repository/packages/gone": ".",  # what a hook does to its agent's work, it must not do there
        "repository/packages": "repository/packages",
        "open/gone": ".",  # others can put files there
        "repository/file": "repository/file",  # it is no directory: the hook cannot run there, and does not
    }
    found = {name: hooks.standing(str(tmp_path / name)) for name in rows}
    assert found == {name: os.path.normpath(tmp_path / where) for name, where in rows.items()}
    assert hooks.standing("/no/such/folder") == "/"


def test_it_is_told_the_directory_that_it_was_launched_in(tmp_path: Path) -> None:
    gone, told = tmp_path / "gone", tmp_path / "told"
    facts = Facts(cwd=str(gone))
    log = str(tmp_path / "log")
    result = hooks.run("on-complete", f"pwd > {told}; echo $AGENTCTL_CWD >> {told}", facts, log, str(gone))
    assert result.exit_code == 0, result
    assert told.read_text().splitlines() == [str(tmp_path), str(gone)]


def test_an_agent_that_removes_its_own_directory(tmp_path: Path) -> None:
    home = Home(tmp_path)
    ran, gone = tmp_path / "ran", home.folder_named("gone")
    try:
        words = ("--cwd", gone, "--on-complete", f"touch {ran}", "--", "--yes")
        id = home.launch('[[bash:rmdir "$PWD"]]', *words)
        until(ran.exists)
        home.wait_until_quiet()
        assert not os.path.exists(gone)
        assert "on-complete ok" in home.agentctl("status", id).stdout
    finally:
        home.end_all()


def test_one_that_cannot_be_run_is_said_to_be_so(tmp_path: Path) -> None:
    from agentctl.cli.status import hook_line

    (tmp_path / "file").touch()
    result = hooks.run("on-complete", "true", Facts(), str(tmp_path / "log"), str(tmp_path / "file"))
    hooks.note(str(tmp_path), "on-complete", result)
    (ran,) = hooks.results(str(tmp_path))
    assert hook_line(ran).startswith("on-complete was not run: on-complete could not be run: ")
