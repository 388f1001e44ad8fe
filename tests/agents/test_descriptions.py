"""The descriptions: one per agent, each complete or with a reason, and the suites name no agent beside them."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agentctl import agents as adapters
from tests import agents
from tests.agents.base import WHY_NOT, Description
from tests.soak.cast import LIVES, named
from tests.soak.kinds import Scripted, Standin
from tests.torture.agents import Agent

if TYPE_CHECKING:
    from collections.abc import Iterator

TESTS = Path(__file__).parents[1]
SUITES = ("lab", "soak", "fuzz", "torture")
FILES = sorted(path for suite in SUITES for path in (TESTS / suite).rglob("*") if path.suffix in (".py", ".toml"))
# Files that are about certain agents.
ABOUT_SOME = {
    "torture/cases_*.py": "a case tells what happens to certain agents",
    "torture/rows.py": "it tells what other tools say of certain agents",
    "test_*.py": "a test of the suite itself takes some agent as an example",
}
WORDS = sorted(name.partition("-")[0] for name in agents.TABLE)
NAMED = re.compile(rf"(?i:{'|'.join(WORDS)})(?![a-z])")

STANDINS = [kind for one in agents.every() if (kind := one.torture()) is not None and issubclass(kind, Agent)]

every_agent = pytest.mark.parametrize("name", agents.TABLE)


def test_every_agent_has_a_description() -> None:
    assert set(agents.TABLE) == set(adapters.TABLE)
    assert agents.OWN in agents.TABLE


@every_agent
def test_a_description_is_of_its_agent(name: str) -> None:
    one, adapter = agents.load(name), adapters.load(name)
    assert one.NAME == adapter.NAME == name
    assert one.PROGRAM in adapter.BINARIES


@every_agent
def test_its_store_is_where_its_adapter_looks(name: str, tmp_path: Path) -> None:
    home, data = tmp_path / "home", tmp_path / "data"
    root = agents.load(name).root(home, data)
    assert str(root) in adapters.load(name).roots({"HOME": str(home), "XDG_DATA_HOME": str(data)})
    assert agents.load(name).ids(root) == set()


# Who is left out


@pytest.mark.parametrize("suite", WHY_NOT)
def test_a_suite_covers_an_agent_or_says_why_not(suite: str) -> None:
    left_out = agents.not_covered(suite)
    for one in agents.every():
        assert not (one.has(suite) and suite in one.LACKS), "a reason for what is there"
        assert (one.NAME in left_out) != one.has(suite)
    line = agents.not_covered_line(suite)
    assert all(f"not covered: {name} ({why})" in line for name, why in left_out.items())
    assert bool(line) == bool(left_out)


def test_a_description_that_says_nothing_is_left_out_by_every_suite(monkeypatch: pytest.MonkeyPatch) -> None:
    class Bare(Description):
        NAME = "bare"

    monkeypatch.setattr(agents, "every", lambda: [Bare()])
    for suite, why in WHY_NOT.items():
        assert agents.not_covered(suite) == {"bare": why}


def test_the_reasons_are_of_suites() -> None:
    assert all(set(one.LACKS) <= set(WHY_NOT) for one in agents.every())


# Stand-ins


@pytest.mark.parametrize("kind", STANDINS)
def test_the_process_of_a_stand_in_is_light(kind: type[Agent]) -> None:
    """Thousands of them are started: what runs in one imports nothing of a suite."""
    module, _, name = kind.STANDIN.partition(":")
    code = f"import sys; from {module} import {name}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=TESTS.parent, capture_output=True, text=True, check=True
    )
    ours = {name for name in done.stdout.split() if name.startswith(("tests.", "agentctl"))}
    assert {name for name in ours if not name.startswith(("tests.agents", "tests.torture.standins"))} == {
        "tests.torture"
    }
    assert not {"typing", "dataclasses", "pytest"} & set(done.stdout.split())


@pytest.mark.parametrize("kind", STANDINS)
def test_a_stand_in_has_an_id_of_its_own(kind: type[Agent]) -> None:
    id = kind.new_id()
    assert id != kind.new_id()
    assert kind.printed(id) == "" or id in kind.printed(id)


@pytest.mark.parametrize("name", LIVES)
def test_a_life_can_be_led(name: str) -> None:
    life = LIVES[name]
    if issubclass(life, Standin):
        assert callable(importlib.import_module(life.STANDIN).build)
    else:
        assert issubclass(life, Scripted)


def test_agents_of_the_soak_are_called_as_people_do() -> None:
    assert named(",".join(LIVES)) == tuple(LIVES)
    assert named(",".join(agents.load(name).PROGRAM for name in LIVES)) == tuple(LIVES)
    with pytest.raises(SystemExit, match="no such agent: nobody"):
        named("nobody")


# Who names an agent


def code_words(path: Path) -> Iterator[tuple[int, str]]:
    """The names and strings of a file, with their lines: no comments, no docstrings."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".toml":
        yield from ((number, line.partition("#")[0]) for number, line in enumerate(text.splitlines(), 1))
        return
    tree = ast.parse(text)
    documented = [
        node.body[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body
    ]
    skipped = {id(node.value) for node in documented if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        for field in ("id", "attr", "name", "arg", "module", "asname", "value"):
            value = getattr(node, field, None)
            if isinstance(value, str | bytes):
                yield getattr(node, "lineno", 0), value if isinstance(value, str) else value.decode(errors="replace")


def is_about_some(path: Path) -> bool:
    return any(path.relative_to(TESTS).match(pattern) for pattern in ABOUT_SOME)


@pytest.mark.parametrize(
    "path", [path for path in FILES if not is_about_some(path)], ids=lambda path: str(path.relative_to(TESTS))
)
def test_no_suite_names_an_agent(path: Path) -> None:
    assert [(line, word) for line, word in code_words(path) if NAMED.search(word)] == []


def test_what_is_about_some_agents_names_one() -> None:
    """An exception that nobody needs any more is taken out."""
    for pattern in ABOUT_SOME:
        found = [path for path in FILES if path.relative_to(TESTS).match(pattern)]
        assert any(NAMED.search(word) for path in found for _, word in code_words(path)), pattern


@pytest.mark.parametrize(
    ("word", "is_name"),
    [
        *(("claude_root", True), ("SoakClaude", True), ("~/.codex", True), ("OpenCodeLife", True), ("DEMO", True)),
        *(("democracy", False), ("code", False), ("agent", False)),
    ],
)
def test_what_counts_as_a_name(word: str, is_name: bool) -> None:
    assert bool(NAMED.search(word)) == is_name
