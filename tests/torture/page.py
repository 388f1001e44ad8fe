"""docs/torture.md: the page has parts, and each is written by the run that it reports, between its two marks.

    page.put("soak", text, published=True)

Everything outside of the marks is written by hand. What is not to be published goes to build/, which git ignores.
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
UNPUBLISHED = REPOSITORY / "build" / "torture.md"
PARTS = ("cases", "defences", "fuzz", "soak")


def put(part: str, text: str, *, published: bool) -> Path:
    """Where it was written."""
    path = PATH if published else UNPUBLISHED
    path.parent.mkdir(exist_ok=True)
    path.write_text(with_part(PATH.read_text(), part, text))
    return path


def with_part(page: str, part: str, text: str) -> str:
    begin, end = marks(part)
    before, found, rest = page.partition(begin)
    _, also_found, after = rest.partition(end)
    if not (found and also_found):
        raise ValueError(f"{PATH} has no part {part!r}")
    return f"{before}{begin}\n{text.strip()}\n{end}{after}"


def part_of(page: str, part: str) -> str:
    begin, end = marks(part)
    return page.partition(begin)[2].partition(end)[0]


def marks(part: str) -> tuple[str, str]:
    return f"<!-- begin: {part} -->", f"<!-- end: {part} -->"


def when() -> str:
    """For the first line of a part: the day, and the commit that was tried."""
    return f"{time.strftime('%Y-%m-%d', time.gmtime())} at commit {commit()}"


def commit() -> str:
    """With a `+` where what is tried is not quite what was committed."""
    try:
        found = git("rev-parse", "--short=8", "HEAD")
        return found + ("+" if git("status", "--porcelain", "--", "src", "tests") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def git(*words: str) -> str:
    command = ["git", "-C", str(REPOSITORY), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def cell(text: str) -> str:
    """As one cell of a table that Markdown shows as it is."""
    text = re.sub(r"([|<>*_\\])", r"\\\1", " ".join(text.split()))
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    return [row(*head), row(*("---",) * len(head)), *(row(*cells) for cells in rows)]
