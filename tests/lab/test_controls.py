"""The lab's parts that try the controls, without an agent: a check that cannot fail proves nothing."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from agentctl.agents import TABLE
from agentctl.agents.recipes import PERMISSIONS, Recipe
from tests import agents
from tests.lab import __main__ as lab
from tests.lab import controls, install
from tests.lab.errors import LabError, WrongAnswer
from tests.lab.recipes import RECIPES
from tests.lab.stage import Run, Stage, strings

if TYPE_CHECKING:
    from pathlib import Path

ECHO = """
import os, sys
print(len(sys.stdin.buffer.read()), os.getcwd())
print(os.environ["X"], file=sys.stderr)
"""


def test_every_agent_of_the_lab_has_facts_and_a_package() -> None:
    packages = install.packages()
    assert set(packages) == set(TABLE) - set(agents.not_covered("lab"))
    for agent, package in packages.items():
        for version in package.versions:
            facts = RECIPES[agent].facts(version)
            assert set(facts.modes) == set(PERMISSIONS)
            assert set(facts.without) < set(controls.CHECKS)


def test_every_check_is_listed_for_every_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert lab.main(["--controls", "--list", "--agent", "codex"]) == 0
    names = [line.split()[-1] for line in capsys.readouterr().out.splitlines()]
    assert names == list(controls.CHECKS)


def test_a_run_is_given_its_input_and_its_folder_and_keeps_both_outputs(tmp_path: Path) -> None:
    recipe = Recipe((sys.executable, "-c", ECHO), b"x" * 300_000, env={"X": "more"})
    run = Run(recipe, {"PATH": os.environ["PATH"]}, tmp_path, tmp_path / "output.log")
    assert run.wait() == 0
    assert sorted(run.said().decode().split()) == sorted(["300000", str(tmp_path), "more"])


def test_a_run_that_does_not_end_is_told(tmp_path: Path) -> None:
    run = Run(Recipe(("sleep", "60")), {"PATH": os.environ["PATH"]}, tmp_path, tmp_path / "output.log")
    try:
        with pytest.raises(LabError, match="has not ended"):
            run.wait(0.1)
    finally:
        run.process.kill()
        run.process.wait()


def test_a_wrong_value_is_told() -> None:
    controls.expect("the code", 0, 0)
    with pytest.raises(WrongAnswer, match="the code is 1, not 0"):
        controls.expect("the code", 1, 0, "its words")


def test_a_prompt_is_looked_for_as_it_is() -> None:
    body = {"messages": [{"content": [{"text": " a\n"}]}, {"content": "b"}], "n": 1}
    assert list(strings(body)) == [" a\n", "b"]


def test_an_agent_that_dies_before_it_names_its_session_is_told(tmp_path: Path) -> None:
    stage = Stage("codex", tmp_path / "codex", tmp_path)
    run = Run(Recipe(("false",)), {"PATH": os.environ["PATH"]}, tmp_path, tmp_path / "output.log")
    with pytest.raises(WrongAnswer, match="ended with 1 and no id"):
        stage.printed(run)
    stage.server.server_close()
