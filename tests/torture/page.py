"""Writes docs/torture.md. `make torture` and `make mutants` each write their own part of it, between two marks.

    page.put("cases", text)

Everything outside the marks is written by hand.
"""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

REPOSITORY = Path(__file__).parents[2]
PATH = REPOSITORY / "docs" / "torture.md"
PARTS = ("cases", "mutants")
RUN = re.compile(r"^Run of (\d{4}-\d\d-\d\d at commit \S+): ", re.MULTILINE)


def put(part: str, text: str) -> str:
    """Replace this part of the page. Return a line that says so."""
    PATH.write_text(with_part(PATH.read_text(), part, text))
    return f"written: {PATH.relative_to(REPOSITORY)}"


def with_part(page: str, part: str, text: str) -> str:
    begin, end = marks(part)
    before, has_begin, rest = page.partition(begin)
    _, has_end, after = rest.partition(end)
    if not (has_begin and has_end):
        raise ValueError(f"{PATH} has no part {part!r}")
    return f"{before}{begin}\n{text.strip()}\n{end}{after}"


def part_of(page: str, part: str) -> str:
    """Return the text between the marks of this part; empty if there are none."""
    begin, end = marks(part)
    return page.partition(begin)[2].partition(end)[0].strip()


def marks(part: str) -> tuple[str, str]:
    return f"<!-- begin: {part} -->", f"<!-- end: {part} -->"


def now() -> str:
    """Return when and on what a run was made: the day, and the commit that was tested."""
    return f"{time.strftime('%Y-%m-%d', time.gmtime())} at commit {commit()}"


def run_of(text: str) -> str:
    """Return when the run of this part was made, as `now` gave it; empty if the part does not say."""
    match = RUN.search(text)
    return match[1] if match else ""


def commit() -> str:
    """Return the commit, with a `+` if src or tests differ from it."""
    try:
        name = git("rev-parse", "--short=8", "HEAD")
        return name + ("+" if git("status", "--porcelain", "--", "src", "tests") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def git(*words: str) -> str:
    command = ["git", "-C", str(REPOSITORY), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def cell(text: str) -> str:
    """Return the text as one table cell, escaped so that Markdown shows it literally."""
    text = re.sub(r"([|<>*_\\])", r"\\\1", " ".join(text.split()))
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    return [row(*head), row(*("---",) * len(head)), *(row(*cells) for cells in rows)]
