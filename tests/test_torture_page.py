"""docs/torture.md is of today's suite, and what is written there is the same from every run."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.torture import page, told
from tests.torture.open_rows import OPEN
from tests.torture.registry import CASES
from tests.torture.rows import ROWS, SECTIONS
from tests.torture.runner import ALWAYS, select

PAGE = page.PATH.read_text()


def test_every_row_of_the_list_is_a_case_or_open() -> None:
    tried = {case.name for case in CASES} | set(ALWAYS)
    assert {line.name for line in ROWS} - tried == {name for name, _, _ in OPEN} - tried
    assert {name for name, _, _ in OPEN} <= {line.name for line in ROWS}
    assert all(line.section in SECTIONS and line.world and line.must for line in ROWS)


def test_every_world_has_its_name_and_says_what_it_is() -> None:
    twice = [name for name, count in Counter(case.world for case in CASES).items() if count > 1]
    assert not twice
    assert all(case.about for case in CASES)


def test_the_page_has_the_cases_of_the_suite() -> None:
    """`make torture` writes it."""
    assert told.named_in(page.part_of(PAGE, "cases")) == told.wanted(ALWAYS)


def test_the_page_has_a_place_for_every_part() -> None:
    for part in page.PARTS:
        assert PAGE.count(page.marks(part)[0]) == PAGE.count(page.marks(part)[1]) == 1


def test_a_part_is_written_and_the_others_stay() -> None:
    written = page.with_part(PAGE, "soak", "ten hours\n")
    assert page.part_of(written, "soak") == "\nten hours\n"
    assert page.with_part(written, "soak", page.part_of(PAGE, "soak")) == PAGE
    with pytest.raises(ValueError, match="no part"):
        page.with_part("nothing", "soak", "x")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("running, alive/working, pid 574, exact", "running, alive/working, pid N, exact"),
        ("in mid-turn, and pid 12, 574 may be on it", "in mid-turn, and pid N may be on it"),
        ("exit 0, {30296: 'SIGTERM', 7: 'itself'}; 0 alive", "exit 0, {N: 'SIGTERM', N: 'itself'}; 0 alive"),
        ("[(12, 'agent'), (13, 'wrapper')]", "[(N, 'agent'), (N, 'wrapper')]"),
        ("4c84e2e9-6243-4600-8d7c-3faba211bb46 stopped", "ID stopped"),
        ("no session 'ses_e1db792d3ffehW7Rzpz7qvDmJf'", "no session 'ID'"),
        ("launch mwio8f2ptji5 gone already", "launch ID gone already"),
        ("/tmp/torture-c5utqwka/07/home/work: busy", "…/work: busy"),
        ("0.52 s, a plain one 0.11 s", "N s, a plain one N s"),
        ("0 wrong in 64 ends, 512 polls, 9001 rows; 3 problems", "0 wrong in 64 ends, N polls, N rows; N problems"),
        (".codex/sessions/2026/11/16/rollout-2026-11-16T03-16-30-x", ".codex/sessions/DAY/rollout-x"),
        ("sessions/25854.json of mode 000: a problem", "sessions/N.json of mode 000: a problem"),
        ("claude, pid 7 inside, 1887 outside", "claude, pid N inside, N outside"),
        ("20 of 20", "20 of 20"),
        ("61 of 64", "N of 64"),
        ("an answer within 2 s", "an answer within 2 s"),
        ("1048576 bytes of prompt", "1048576 bytes of prompt"),
    ],
)  # fmt: skip
def test_what_differs_from_run_to_run_is_a_letter(text: str, shown: str) -> None:
    assert told.stable(text) == shown


def test_a_table_cell_is_one_line_that_markdown_shows_as_it_is() -> None:
    assert page.cell("a | b\n<c> \x1b[1m*d* e_f") == r"a \| b \<c\> \x1b[1m\*d\* e\_f"


def test_cases_are_chosen_by_name_or_by_world() -> None:
    one = CASES[0]
    assert select([one.world]) == [one]
    assert select([one.name]) == [case for case in CASES if case.name == one.name]
    assert select([]) == CASES
    with pytest.raises(SystemExit, match="no such case"):
        select(["nobody"])
