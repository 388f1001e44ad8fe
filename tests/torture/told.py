"""The part of docs/torture.md that has the cases, from the rows of a whole run: the same bytes from every such run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tests.torture import page
from tests.torture.open_rows import OPEN
from tests.torture.page import cell, table
from tests.torture.registry import CASES
from tests.torture.rows import ROWS, SECTIONS, Line

if TYPE_CHECKING:
    from collections.abc import Iterable

FURTHER = "Further cases"
LONGEST = 150

# What is another one in every run. Each is shown as a letter that stands for it.
DIFFERS = tuple(
    (re.compile(pattern), word)
    for pattern, word in (
        (r"\S*/torture-\w+/\d+(/\w+)?", "…"),
        (r"\b[0-9a-f]{64}\b", "HASH"),
        (r"\d{4}/\d\d/\d\d/rollout-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d", "DAY/rollout"),
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{4,23}\w*", "ID"),
        (r"\b(ses|msg|prt)_\w+", "ID"),
        (r"\b(?=\w*\d)(?=\w*[a-z])[0-9a-f]{8}\b", "ID"),
        (r"\b(?=[0-9a-z]*\d)(?=[0-9a-z]*[a-z])[0-9a-z]{10,14}\b", "ID"),
        (r"\bpid \d+( \([^)]*\))?(, \d+( \([^)]*\))?)*", "pid N"),
        (r"/dev/pts/\d+", "/dev/pts/N"),
        (r"\b\d+(?=\.json\b| outside\b)", "N"),
        (r"(?<=[\[({])\d{2,}(?=[\]),:])|(?<=, )\d{2,}(?=[\]),:])", "N"),
        (r"(?<=[{ ])\d+(?=: ')", "N"),
        (r"\b\d+\.\d+ s\b", "N s"),
        (r"\b\d+ (polls|rows|problems|excused|files|sessions asked)\b", r"N \1"),
        (r"\b\d+ of (?=\d+$)", "N of "),
    )
)
EQUAL_COUNTS = re.compile(r"^(\d+) of \1\b")  # `20 of 20`: that is what was to be shown


def write(rows: list[dict[str, Any]], *, published: bool) -> str:
    path = page.put("cases", text_of(rows), published=published)
    return f"written: {path.relative_to(page.REPOSITORY)}"


def text_of(rows: list[dict[str, Any]]) -> str:
    """Without rows: what there is to be tried, and nothing of how it went."""
    cases = {row["case"] for row in rows}
    lines = [f"Run of {page.when()}: {len(cases)} cases, {len(rows)} checks, all of them passed.", ""]
    if not rows:
        lines = ["No whole run has been written here yet: `make torture` adds every check and its answer.", ""]
    for section in (*SECTIONS, FURTHER):
        listed = [line for line in lines_of_the_list() if line.section == section]
        if not listed:
            continue
        lines += [f"### {section}", ""]
        lines += table(
            ("case", "what is true", "what must be said", "where it was seen"),
            [(f"**{line.name}**", cell(line.world), cell(line.must), cell(line.seen) or "-") for line in listed],
        )
        lines += [""]
        for line in listed:
            lines += checks_of(line, [row for row in rows if row["case"] == line.name])
    lines += ["### Open", "", "Not tried yet, and so not passed:", ""]
    lines += table(("case", "what", "why"), [(f"**{name}**", cell(what), cell(why)) for name, what, why in OPEN])
    return "\n".join(lines)


def lines_of_the_list() -> list[Line]:
    """Those of the list, and each case that is not in it, with what its worlds say of themselves."""
    known = {line.name for line in ROWS}
    others = dict.fromkeys(case.name for case in CASES if case.name not in known)
    worlds = {name: "; ".join(case.about for case in CASES if case.name == name) for name in others}
    return [*ROWS, *(Line(name, FURTHER, worlds[name], "see its checks") for name in others)]


def checks_of(line: Line, rows: list[dict[str, Any]]) -> list[str]:
    if not rows:
        return []
    noun = "check" if len(rows) == 1 else "checks"
    found = [f"<details><summary>{line.name}: {len(rows)} {noun}</summary>", ""]
    cells = [
        (cell(stable(row["truth"])), cell(stable(row["answer"])), cell(row["evidence"].replace("seen ", "")))
        for row in rows
    ]
    return [*found, *table(("truth", "answer", "evidence"), cells), "", "</details>", ""]


def stable(text: str) -> str:
    text = " ".join(text.split())
    for pattern, word in DIFFERS:
        if word != "N of " or not EQUAL_COUNTS.match(text):
            text = pattern.sub(word, text)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def named_in(text: str) -> set[str]:
    """The cases of a page: of its tables, by their bold first cell."""
    return set(re.findall(r"^\| \*\*([\w-]+)\*\* \|", text, re.MULTILINE))


def wanted(always: Iterable[str]) -> set[str]:
    return {line.name for line in lines_of_the_list()} | {name for name, _, _ in OPEN} | set(always)
