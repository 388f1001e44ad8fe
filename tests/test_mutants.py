"""The table of mutants is of today's sources, and of cases and tests that there are."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutants import told
from tests.mutants.model import Mutant, mutant
from tests.mutants.runner import BROKEN, GREEN, PACKAGE, RED, REPOSITORY, is_test, verdict, world_of
from tests.mutants.table import MUTANTS
from tests.torture import page
from tests.torture.registry import CASES
from tests.torture.runner import ALWAYS

BY_NAME = pytest.mark.parametrize("one", MUTANTS, ids=lambda one: one.name)


@BY_NAME
def test_what_it_takes_out_is_there_exactly_once(one: Mutant) -> None:
    assert one.edits
    for edit in one.edits:
        assert (PACKAGE / edit.file).read_text().count(edit.old) == 1, edit
        assert edit.old != edit.new


@BY_NAME
def test_what_is_left_is_python(one: Mutant) -> None:
    texts: dict[str, str] = {}
    for edit in one.edits:
        text = texts.get(edit.file) or (PACKAGE / edit.file).read_text()
        texts[edit.file] = text.replace(edit.old, edit.new)
    for text in texts.values():
        ast.parse(text)


@BY_NAME
def test_who_guards_it_is_there(one: Mutant) -> None:
    worlds = {case.world for case in CASES}
    assert one.guards
    for guard in one.guards:
        if is_test(guard):
            path, _, name = guard.partition("[")[0].partition("::")
            tree = ast.parse((REPOSITORY / path).read_text())
            assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, guard
        else:
            rule, at, _ = guard.partition("@")
            assert world_of(guard) in worlds, guard
            assert not at or rule in ALWAYS


def test_names_are_unique_and_every_row_says_what_it_is() -> None:
    assert len({one.name for one in MUTANTS}) == len(MUTANTS)
    assert all(one.defence and one.without for one in MUTANTS)


def test_the_page_has_all_of_them() -> None:
    """`make mutants` writes it."""
    assert told.named_in(page.part_of(page.PATH.read_text(), "defences")) == [one.name for one in MUTANTS]


def row(world: str, *, ok: bool, answer: str = "stopped", case: str = "zombie") -> dict[str, object]:
    return {"case": case, "world": world, "truth": "t", "answer": answer, "ok": ok, "details": "", "evidence": ""}


@pytest.mark.parametrize(
    ("rows", "guard", "state"),
    [
        ([row("zombie/zombie", ok=True)], "zombie/zombie", GREEN),
        ([row("zombie/zombie", ok=True), row("zombie/zombie", ok=False)], "zombie/zombie", RED),
        ([row("zombie/other", ok=False)], "zombie/zombie", "not run"),
        ([row("zombie/zombie", ok=False, answer="agentctl: NameError: x")], "zombie/zombie", BROKEN),
        ([row("a", ok=False, case="list-vs-status")], "list-vs-status@zombie/zombie", RED),
        ([row("zombie/zombie", ok=False)], "list-vs-status@zombie/zombie", "not run"),
    ],
)
def test_what_a_run_of_its_guards_says(rows: list[dict[str, str]], guard: str, state: str) -> None:
    assert verdict(guard, rows).state == state


def test_a_mutant_of_several_guards() -> None:
    one = mutant("x", "d", "w", "a/b c/d", ("f.py", "old", "new"))
    assert one.guards == ("a/b", "c/d")
    assert Path(one.edits[0].file).suffix == ".py"
