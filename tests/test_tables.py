"""The table of `list`, made column by column: the same as one that is made row by row, each cell for itself."""

from __future__ import annotations

import os
import time

from hypothesis import given
from hypothesis import strategies as st

from agentctl.cli import list as listing
from agentctl.cli import output
from agentctl.model import STATUS_WORDS, Session

NOW = 1_800_000_000.0
HOME = "/home/person"
TEXT = st.one_of(st.none(), st.text(max_size=12), st.text("ab \n\x1b\u202e\udc80漢", max_size=150))
IDS = st.one_of(st.text("ab-", min_size=1, max_size=12), st.text(min_size=1, max_size=12))
PATHS = st.sampled_from([None, "", HOME, f"{HOME}/work", f"{HOME}work", "/a" * 60, "/x\ny"])
SESSIONS = st.fixed_dictionaries(
    {
        "id": IDS,
        "agent": st.sampled_from(["one", "another-agent"]),
        "status": st.sampled_from(STATUS_WORDS),
        "process": st.sampled_from(["alive", "gone", "unknown"]),
        "turn": st.just("done"),
        "last_turn": st.sampled_from([None, "failed"]),
        "reason": TEXT,
        "error": TEXT,
        "waiting_for": TEXT,
        "pid": st.one_of(st.none(), st.integers(0, 10**7)),
        "suspended": st.booleans(),
        "cwd": PATHS,
        "model": TEXT,
        "title": TEXT,
        "prompt": TEXT,
        "updated_at": st.one_of(st.none(), st.floats(0, 2 * NOW)),
        "parent": st.one_of(st.none(), IDS),
        "group": st.one_of(st.none(), st.just("night")),
        "slot": TEXT,
        "inferred": st.booleans(),
    }
).map(lambda fields: Session(**fields))  # type: ignore[arg-type]


def plain_table(rows: list[Session], tree: bool, width: int, colourful: bool) -> str:
    ids = plain_short_ids([session.id for session in rows])
    grouped = any(session.group for session in rows)
    lines = []
    for session, mark in listing.ordered(rows, tree):
        group = [output.plain("/".join(filter(None, (session.group, session.slot)))) or "-"] if grouped else []
        lines.append(
            [
                mark + output.plain(ids[session.id]),
                output.status_cell(session),
                session.agent,
                output.plain(session.model) or "-",
                *group,
                "-" if session.pid is None else str(session.pid),
                output.age(session.updated_at, NOW),
                output.tilde(session.cwd, HOME),
                plain_what(session),
            ]
        )
    group = ["GROUP"] if grouped else []
    names = ["ID", "STATUS", "AGENT", "MODEL", *group, "PID", "AGE", "DIRECTORY", "WHAT"]
    widths = [max(len(line[index]) for line in (names, *lines)) for index in range(len(names))]
    left = max(30, width - sum(widths[:-2]) - 2 * (len(names) - 1))
    widths[-2] = min(widths[-2], left // 2)
    widths[-1] = left - widths[-2]
    printed = ["  ".join(name.ljust(size) for name, size in zip(names, widths, strict=True)).rstrip()]
    for (session, _), line in zip(listing.ordered(rows, tree), lines, strict=True):
        cut = [*line[:-2], output.shorten(line[-2], widths[-2]), output.shorten(line[-1], widths[-1])]
        parts = [cell.ljust(size) for cell, size in zip(cut, widths, strict=True)]
        if colourful:
            parts[1] = f"\x1b[{output.STATUS_COLOURS[session.status]}m{parts[1]}\x1b[0m"
        printed.append("  ".join(parts).rstrip())
    return "\n".join(printed) + "\n"


def plain_what(session: Session) -> str:
    failed = session.error and (session.process != "alive" or session.last_turn == "failed")
    choices = (
        session.waiting_for,
        session.reason if session.status in ("unknown", "alive") else None,
        session.error if failed and session.status not in ("unknown", "alive") else None,
        (session.title or session.prompt) if session.status not in ("unknown", "alive") else None,
        session.reason,
    )
    return output.plain(next((text for text in choices if text), None))


def plain_short_ids(ids: list[str]) -> dict[str, str]:
    found = {}
    for id in ids:
        others = {other for other in ids if other != id}
        size = 8
        while size < len(id) and any(other.startswith(id[:size]) for other in others):
            size += 1
        found[id] = id[:size].rstrip("-") if size < len(id) else id
    return found


@given(st.lists(IDS.map(lambda id: f"01a1e3b{id}") | IDS, max_size=12))
def test_ids_are_cut_to_where_they_are_unique(ids: list[str]) -> None:
    assert output.short_ids(ids) == plain_short_ids(ids)


@given(st.lists(SESSIONS, min_size=1, max_size=6), st.booleans(), st.integers(0, 200), st.booleans())
def test_it_is_as_if_made_row_by_row(rows: list[Session], tree: bool, width: int, colourful: bool) -> None:
    import io
    from unittest.mock import patch

    out = io.StringIO()
    with (
        patch.object(output, "width", lambda: width),
        patch.object(output, "colourful", lambda: colourful),
        patch.object(time, "time", lambda: NOW),
        patch.object(os.path, "expanduser", lambda path: HOME),
        patch("sys.stdout", out),
    ):
        listing.table(rows, tree)
    assert out.getvalue() == plain_table(rows, tree, width, colourful)


def test_a_text_is_worked_out_once() -> None:
    asked: list[str | None] = []
    remembered = output.Remembered(lambda text: asked.append(text) or f"<{text}>")  # type: ignore[func-returns-value]
    assert [remembered[text] for text in ("a", None, "a", None)] == ["<a>", "<None>", "<a>", "<None>"]
    assert asked == ["a", None]
