"""The mutants match today's sources, and docs/torture.md names all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.mutants import summary
from tests.mutants.match import mismatches
from tests.mutants.model import Mutant, mutant
from tests.mutants.runner import BROKEN, GREEN, RED, verdict
from tests.mutants.table import MUTANTS
from tests.torture import page

if TYPE_CHECKING:
    from pathlib import Path

RUN = "2026-01-02 at commit 01234567"
LATER = "2026-02-03 at commit 89abcdef"
GUARD = "zombie/zombie"


@pytest.mark.parametrize("one", MUTANTS, ids=lambda one: one.name)
def test_it_matches_the_sources(one: Mutant) -> None:
    """`make mutants-match` says the same, without pytest."""
    assert mismatches([one]) == []


@pytest.mark.parametrize(
    ("guards", "edits", "lines"),
    [
        (GUARD, [("a.py", "x = 1", "x = 2")], []),
        (GUARD, [("a.py", "x = 1", "x = 2"), ("a.py", "x = 2", "x = 3")], []),
        (GUARD, [("a.py", "x = 9", "x = 2")], ["a.py has this text 0 times: x = 9"]),
        (GUARD, [("a.py", "1", "2")], ["a.py has this text 2 times: 1"]),
        (GUARD, [("a.py", "x = 1", "x = 1")], ["a.py: the edit changes nothing: x = 1"]),
        (GUARD, [("a.py", "x = 1", "x =")], ["a.py is not Python after the edit: line 1: invalid syntax"]),
        (GUARD, [("b.py", "x = 1", "x = 2")], ["b.py: No such file or directory"]),
        (GUARD, [], ["it changes nothing"]),
        ("", [("a.py", "x = 1", "x = 2")], ["no case guards it"]),
        ("zombie/nobody", [("a.py", "x = 1", "x = 2")], ["there is no guard zombie/nobody"]),
        ("zombie@zombie/zombie", [("a.py", "x = 1", "x = 2")], ["there is no guard zombie@zombie/zombie"]),
        ("list-vs-status@zombie/zombie", [("a.py", "x = 1", "x = 2")], []),
        ("tests/nobody.py::test_x", [("a.py", "x = 1", "x = 2")], ["there is no guard tests/nobody.py::test_x"]),
    ],
)
def test_what_does_not_match_is_named(
    tmp_path: Path, guards: str, edits: list[tuple[str, str, str]], lines: list[str]
) -> None:
    (tmp_path / "a.py").write_text("x = 1\ny = 1\n")
    assert mismatches([mutant("m", "d", "w", guards, *edits)], tmp_path) == [f"m: {line}" for line in lines]


def test_no_mutants_do_not_match() -> None:
    assert mismatches([]) == ["there are no mutants"]


def test_names_are_unique_and_every_mutant_is_described() -> None:
    assert len({one.name for one in MUTANTS}) == len(MUTANTS)
    assert all(one.defence and one.without for one in MUTANTS)


def test_the_page_names_all_of_them_as_caught() -> None:
    """`make mutants` writes it; `make mutants NEW=1` adds those that it does not name."""
    text = page.part_of(page.PATH.read_text(), "mutants")
    runs = summary.read(text)
    assert sorted(name for names in runs.values() for name in names) == sorted(one.name for one in MUTANTS)
    assert text == summary.text_of(runs)


def test_a_page_on_which_one_was_not_caught_is_not_believed() -> None:
    text = summary.text_of({RUN: ["a", "b-c"]})
    assert text == f"Run of {RUN}: 2 of 2 mutants caught.\n\n`a`, `b-c`"
    assert summary.read(text) == {RUN: ["a", "b-c"]}
    assert summary.read(text.replace("2 of 2", "1 of 2")) == summary.read(text.replace(", `b-c`", "")) == {}
    assert summary.read("nothing") == {}


def test_a_run_of_some_replaces_only_theirs() -> None:
    runs = summary.with_run({RUN: ["a", "b", "gone"]}, LATER, ["b", "c"], ["a", "b", "c"])
    assert runs == {RUN: ["a"], LATER: ["b", "c"]}
    assert summary.read(summary.text_of(runs)) == runs
    assert summary.with_run(runs, LATER, ["a"], ["a", "b", "c"]) == {LATER: ["b", "c", "a"]}


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
def test_the_verdict_of_a_run(rows: list[dict[str, str]], guard: str, state: str) -> None:
    assert verdict(guard, rows).state == state


def test_a_mutant_may_have_several_guards() -> None:
    assert mutant("x", "d", "w", "a/b c/d", ("f.py", "old", "new")).guards == ("a/b", "c/d")
