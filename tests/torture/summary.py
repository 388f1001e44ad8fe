"""The cases on docs/torture.md: one line for each, with the number of checks that passed in the last whole run."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.torture import page
from tests.torture.open_rows import OPEN
from tests.torture.page import cell, table
from tests.torture.rows import ROWS, SECTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

HEAD = ("case", "what happens", "what must be true", "result")
ROW = re.compile(r"^\| \*\*([\w-]+)\*\* \|.*\| (\d+) passed(?: \(partly open\))? \|$", re.MULTILINE)
PARTLY_OPEN = " (partly open)"
NOT_RUN = "open"


def counts(rows: Iterable[dict[str, Any]]) -> dict[str, int]:
    """Return how many checks of each case passed. `rows` are those of a whole run without a failure."""
    return dict(Counter(row["case"] for row in rows))


def text_of(passed: Mapping[str, int], run: str) -> str:
    """Return the part of the page: `passed` has the checks of each case, `run` says when they ran and on what."""
    lines = [f"Run of {run}: {len(passed)} cases, {sum(passed.values())} checks, all passed.", ""]
    for section in SECTIONS:
        lines += [f"### {section}", ""]
        lines += table(
            HEAD,
            [
                (f"**{line.name}**", cell(line.world), cell(line.must), result(line.name, passed))
                for line in ROWS
                if line.section == section
            ],
        )
        lines += [""]
    return "\n".join([*lines, *open_lines()])


def result(name: str, passed: Mapping[str, int]) -> str:
    if name not in passed:
        return NOT_RUN
    return f"{passed[name]} passed" + (PARTLY_OPEN if name in {case for case, _, _ in OPEN} else "")


def open_lines() -> list[str]:
    head = ["### Open", "", "The suite does not test these yet, so they do not count as passed:", ""]
    rows = [(f"**{name}**", cell(what), cell(why)) for name, what, why in OPEN]
    return [*head, *table(("case", "what is missing", "why"), rows)]


def read(text: str) -> tuple[dict[str, int], str]:
    """Return what a part of the page says: the checks that passed of each case, and when they ran."""
    return {name: int(count) for name, count in ROW.findall(text)}, page.run_of(text)


def reword() -> str:
    """Write the page again with today's wording of the cases and the results that it already has."""
    return page.put("cases", text_of(*read(page.part_of(page.PATH.read_text(), "cases"))))
