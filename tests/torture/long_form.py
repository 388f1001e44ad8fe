"""The long form of docs/torture.md: every check of the last whole run, with its answer and its evidence.

A whole run stores its rows in build/torture.json, which git ignores; `python -m tests.torture --report` prints them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.torture import page
from tests.torture.page import cell, table
from tests.torture.registry import CASES
from tests.torture.rows import ROWS, SECTIONS, Line
from tests.torture.summary import open_lines

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PATH = page.REPOSITORY / "build" / "torture.json"
LONGEST = 400  # characters in one cell
EXPLAINED = """\
# The torture suite: every check

A check passes if agentctl's answer is true. The evidence is the rule that decided and what it was decided from:
`kernel`, `store`, `api` or `launch`. `from outside` means that the suite looked for itself: at a process, a file, an
exit code or a command's output.
"""
NO_RUN = "No whole run is stored here, so there are no answers: run `make torture` first."


def store(rows: list[dict[str, Any]], path: Path = PATH) -> str:
    """Store the rows of a whole run. Return a line that says where."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"run": page.now(), "rows": rows}))
    return f"every check: python -m tests.torture --report (from {path.name})"


def stored(path: Path = PATH) -> tuple[list[dict[str, Any]], str]:
    """Return the rows of the last whole run and when it ran; nothing if none is stored."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return [], ""
    record = json.loads(text)
    return record["rows"], record["run"]


def text_of(rows: Sequence[dict[str, Any]], run: str, names: Sequence[str] = ()) -> str:
    """Return the long form of these cases, or of all if none is named."""
    failed = sum(not row["ok"] for row in rows)
    about_run = f"Run of {run}: {len(rows)} checks, {len(rows) - failed} passed, {failed} failed." if rows else NO_RUN
    lines = [EXPLAINED, about_run, ""]
    for section in SECTIONS:
        chosen = [line for line in ROWS if line.section == section and (not names or line.name in names)]
        if chosen:
            lines += [f"## {section}", ""]
        for line in chosen:
            lines += case_lines(line, [row for row in rows if row["case"] == line.name])
    return "\n".join(lines if names else [*lines, *open_lines()])


def case_lines(line: Line, rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the lines of one case: its sentences, its worlds, and a table of its checks."""
    lines = [f"### {line.name}", "", f"- What happens: {line.world}.", f"- What must be true: {line.must}."]
    if line.seen:
        lines += [f"- Seen in public: {line.seen}."]
    lines += [f"- World `{case.world}`: {case.about}." for case in CASES if case.name == line.name]
    checks = [
        (
            cell(shortened(row["truth"])),
            cell(shortened(row["answer"])),
            cell(row["evidence"]),
            "yes" if row["ok"] else "NO",
        )
        for row in rows
    ]
    return [*lines, "", *(table(("truth", "answer", "evidence", "passed"), checks) if checks else []), ""]


def shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
