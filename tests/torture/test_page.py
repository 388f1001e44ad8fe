"""docs/torture.md matches today's suite, and the long form has every check of a run."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from tests.torture import long_form, page, summary
from tests.torture.open_rows import OPEN
from tests.torture.registry import CASES
from tests.torture.rows import ROWS, SECTIONS
from tests.torture.runner import ALWAYS, select

if TYPE_CHECKING:
    from pathlib import Path

PAGE = page.PATH.read_text()
TESTED = {case.name for case in CASES} | set(ALWAYS)
RUN = "2026-01-02 at commit 01234567"


def test_every_case_has_a_line_in_the_list_and_every_line_a_case_or_a_reason() -> None:
    names = [line.name for line in ROWS]
    opened = {name for name, _, _ in OPEN}
    assert len(TESTED) > len(ALWAYS) and len(set(names)) == len(names)
    assert set(names) - TESTED == opened - TESTED
    assert TESTED | opened == set(names)
    assert all(line.section in SECTIONS and line.world and line.must for line in ROWS)


def test_every_world_has_a_name_and_a_description() -> None:
    twice = [name for name, count in Counter(case.world for case in CASES).items() if count > 1]
    assert not twice
    assert all(case.about for case in CASES)


def test_the_page_is_what_the_suite_writes() -> None:
    """`make torture` writes it; after a rewording alone, `python -m tests.torture --reword` does."""
    text = page.part_of(PAGE, "cases")
    passed, run = summary.read(text)
    assert set(passed) == TESTED and min(passed.values()) > 0
    assert run
    assert text == summary.text_of(passed, run)


def test_the_summary_counts_the_checks_and_names_what_is_open() -> None:
    open_ones = {name for name, _, _ in OPEN}
    name = next(case.name for case in CASES if case.name not in open_ones)
    partly = next(name for name, _, _ in OPEN if name in TESTED)
    never = next(name for name, _, _ in OPEN if name not in TESTED)
    rows = [{"case": name}, {"case": name}, {"case": partly}]
    text = summary.text_of(summary.counts(rows), RUN)
    assert text.startswith(f"Run of {RUN}: 2 cases, 3 checks, all passed.\n")
    assert [line.rpartition(" | ")[2] for case in (name, partly, never) for line in lines_of(text, case)[:1]] == [
        "2 passed |",
        "1 passed (partly open) |",
        "open |",
    ]
    assert summary.read(text) == ({name: 2, partly: 1}, RUN)
    assert summary.read("nothing") == ({}, "")


def lines_of(text: str, name: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(f"| **{name}** |")]


def check(case: str, answer: str, *, ok: bool = True) -> dict[str, Any]:
    return {"case": case, "world": f"{case}/x", "truth": "t", "answer": answer, "evidence": "store", "ok": ok}


def test_the_long_form_has_every_check_of_a_stored_run(tmp_path: Path) -> None:
    first, second = (line.name for line in ROWS[:2])
    rows = [check(first, "alive"), check(second, "x" * 999, ok=False)]
    long_form.store(rows, tmp_path / "build" / "torture.json")
    stored, run = long_form.stored(tmp_path / "build" / "torture.json")
    assert stored == rows and run.startswith("20")
    text = long_form.text_of(stored, run)
    assert f"Run of {run}: 2 checks, 1 passed, 1 failed." in text
    assert "| t | alive | store | yes |" in text and "… | store | NO |" in text
    assert all(f"### {line.name}\n" in text and line.must in text for line in ROWS)
    assert all(f"`{case.world}`" in text for case in CASES)
    assert [line for line in long_form.text_of(stored, run, [first]).splitlines() if line.startswith("### ")] == [
        f"### {first}"
    ]


def test_without_a_stored_run_the_long_form_says_so(tmp_path: Path) -> None:
    text = long_form.text_of(*long_form.stored(tmp_path / "torture.json"))
    assert long_form.NO_RUN in text and "Run of" not in text


def test_the_page_has_a_place_for_every_part() -> None:
    for part in page.PARTS:
        assert PAGE.count(page.marks(part)[0]) == PAGE.count(page.marks(part)[1]) == 1


def test_writing_one_part_leaves_the_others() -> None:
    written = page.with_part(PAGE, "mutants", "none\n")
    assert page.part_of(written, "mutants") == "none"
    assert page.with_part(written, "mutants", page.part_of(PAGE, "mutants")) == PAGE
    with pytest.raises(ValueError, match="no part"):
        page.with_part("nothing", "mutants", "x")


def test_markdown_shows_a_table_cell_literally() -> None:
    assert page.cell("a | b\n<c> \x1b[1m*d* e_f") == r"a \| b \<c\> \x1b[1m\*d\* e\_f"


def test_select_takes_the_name_of_a_case_or_of_a_world() -> None:
    first = CASES[0]
    assert select([first.world]) == [first]
    assert select([first.name]) == [case for case in CASES if case.name == first.name]
    assert select([]) == CASES
    with pytest.raises(SystemExit, match="no such case"):
        select(["nobody"])
