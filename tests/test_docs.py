"""What the docs name is there: every function on the page of the architecture, and the rooms in their order."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import agentctl
from agentctl.cli import ALIASES, VERBS
from tests.test_layout import ON_ITS_OWN, ROOMS

PACKAGE = Path(agentctl.__file__).parent
REPOSITORY = Path(__file__).parents[1]
PAGE = (REPOSITORY / "docs" / "architecture.md").read_text()
NAMED = sorted(set(re.findall(r"`([\w/]+\.py):([\w.]+)`", PAGE)))
QUESTIONS = 10
COMMANDS = ("list", "launch", "stop", "events", "send", "usage")


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(text: str) -> list[str]:
    """The rows of a table, without its head."""
    return [line for line in text.splitlines() if line.startswith("|")][2:]


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_every_function_that_it_names_is_there(file: str, name: str) -> None:
    body: list[ast.stmt] = ast.parse((PACKAGE / file).read_text()).body
    for part in name.split("."):
        (found,) = [
            node
            for node in body
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef) and node.name == part
        ]
        body = found.body


def test_it_opens_with_the_rooms_in_their_order() -> None:
    assert re.findall(r"^## (.*)$", PAGE, re.M)[0] == "The rooms"
    shown = [
        name for row in rows(section("The rooms")) for name in re.findall(r"`([\w]+)(?:/|\.py)`", row.split("|")[1])
    ]
    assert shown == [*ROOMS, ON_ITS_OWN]


def test_a_newcomer_is_two_hops_from_each_answer() -> None:
    """From the README to this page, and from its table to the code."""
    assert "(docs/architecture.md)" in (REPOSITORY / "README.md").read_text()
    questions = rows(section("Ten questions"))
    assert len(questions) == QUESTIONS
    assert all(re.search(r"`[\w/]+\.py:[\w.]+`", row) for row in questions)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_is_walked_through(command: str) -> None:
    text = section(f"`{command}`, hop by hop")
    assert f"`cli/{command}.py:run`" in text
    assert len(re.findall(r"`[\w/]+\.py:[\w.]+`", text)) >= 4


PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(REPOSITORY).as_posix())
def test_every_link_leads_to_a_file(page: Path) -> None:
    assert [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()] == []


def test_every_command_of_the_readme_is_one() -> None:
    """The lines that a reader copies: each verb exists."""
    text = (REPOSITORY / "README.md").read_text()
    verbs = set(re.findall(r"^    agentctl ([a-z]+)|; agentctl ([a-z]+)|`agentctl ([a-z]+)", text, re.M))
    named = {verb for groups in verbs for verb in groups if verb}
    assert len(named) >= 10
    assert named <= {*VERBS, *ALIASES}
