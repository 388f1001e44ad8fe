"""The table of `list`, made column by column: the same as one that is made row by row, each cell for itself."""

from __future__ import annotations

import os
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.cli import cells, format, output
from agentctl.cli import list as listing
from agentctl.cli import width as width_module
from agentctl.model import STATUS_WORDS, Session

NOW = 1_800_000_000.0
HOME = "/home/person"
ODD = st.text("ab \n\x1b\u202e\udc80漢", max_size=150)
TEXT = st.one_of(st.none(), st.text(max_size=12), ODD)
BEGUN = st.sampled_from(["works on: ", "permission to run: ", "works on: permission to "])
DOING = st.one_of(TEXT, st.tuples(BEGUN, ODD).map("".join))
IDS = st.one_of(st.text("ab-", min_size=1, max_size=12), st.text(min_size=1, max_size=12))
WIDE = st.text("漢字あ한🚀e\u0301✔\ufe0f x", max_size=60)
PATHS = st.sampled_from([None, "", HOME, f"{HOME}/work", f"{HOME}work", "/a" * 60, "/x\ny", "/漢字" * 12])
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
        "waiting_for": DOING,
        "pid": st.one_of(st.none(), st.integers(0, 10**7)),
        "suspended": st.booleans(),
        "cwd": PATHS,
        "model": TEXT,
        "title": TEXT,
        "prompt": TEXT,
        "started_at": st.one_of(st.none(), st.floats(0, 2 * NOW)),
        "status_since": st.one_of(st.none(), st.floats(0, 2 * NOW)),
        "doing": DOING,
        "processes": st.sampled_from([(), ({"role": "agent"},), ({"role": "agent"}, {"role": "agent"})]),
        "parent": st.one_of(st.none(), IDS),
        "group": st.one_of(st.none(), st.just("night")),
        "slot": TEXT,
        "inferred": st.booleans(),
    }
).map(lambda fields: Session(**fields))  # type: ignore[arg-type]


def plain_table(rows: list[Session], tree: bool, width: int, colourful: bool) -> str:
    ids = plain_short_ids([session.id for session in rows])
    shown = listing.ordered(rows, tree)
    lines = []
    for session, mark in shown:
        line = {
            "ID": mark + output.plain(ids[session.id]),
            "STATUS": output.status_cell(session),
            "AGENT": session.agent,
            "MODEL": output.plain(session.model) or "-",
            "GROUP": output.plain("/".join(filter(None, (session.group, session.slot)))) or "-",
            "PID": "-" if session.pid is None else str(session.pid),
            "AGE": format.age(session.started_at, NOW),
            "SINCE": format.age(session.status_since, NOW),
            "DIRECTORY": output.tilde(session.cwd, HOME),
            "WHAT": plain_what(session),
        }
        lines.append(line)
    if not any(session.group for session in rows):
        lines = [{name: cell for name, cell in line.items() if name != "GROUP"} for line in lines]
    needed = {name: max(columns(line[name]) for line in [{name: name}, *lines]) for name in lines[0]}
    least = {name: min(needed[name], listing.FLEXIBLE.get(name, needed[name])) for name in needed}
    for name in listing.OPTIONAL:
        if sum(least.values()) + 2 * len(least) - 2 > width:
            least.pop(name, None)
    if sum(least.values()) + 2 * len(least) - 2 > width:
        least |= {name: min(needed[name], 4) for name in least if name in listing.FLEXIBLE}
    left = width - sum(least.values()) - 2 * len(least) + 2
    printed = []
    for number, line in enumerate(({name: name for name in least}, *lines)):
        parts = []
        for name in least:
            size = shared(needed, least, left)[name]
            cut = from_the_end if name == "DIRECTORY" and number else from_the_beginning
            fits = columns(line[name]) <= size
            cell = cut(line[name] if fits or name != "WHAT" or not number else fewer_words(line[name]), size)
            cell += " " * (size - columns(cell))
            if name == "STATUS" and number and colourful:
                cell = f"\x1b[{output.STATUS_COLOURS[shown[number - 1][0].status]}m{cell}\x1b[0m"
            parts.append(cell)
        printed.append("  ".join(parts).rstrip())
    return "\n".join(printed) + "\n"


def shared(needed: dict[str, int], least: dict[str, int], left: int) -> dict[str, int]:
    """Return the widths of the columns: what is left beyond the least goes to the flexible ones. Of two, the first gets
    at most its share of what both have, by how narrow they may be, unless the second needs less."""
    sizes = dict(least)
    flexible = [name for name in least if name in listing.FLEXIBLE]
    both = max(0, left) + sum(least[name] for name in flexible)
    for number, name in enumerate(flexible):
        others = flexible[number + 1 :]
        share = both * listing.FLEXIBLE[name] // sum(listing.FLEXIBLE[other] for other in flexible[number:])
        share = min(share, both - sum(least[other] for other in others))
        sizes[name] = min(needed[name], max(least[name], share))
        both -= sizes[name]
    return sizes


def columns(text: str) -> int:
    """Return how many columns a text takes, by the standard's own tables, character by character."""
    size = 0
    for char in text:
        own = 2 if unicodedata.east_asian_width(char) in "WF" else 1
        if unicodedata.category(char) in ("Mn", "Me", "Cf") or 0x1160 <= ord(char) <= 0x11FF:
            own = 0
        size += own
    return size


def from_the_beginning(text: str, size: int) -> str:
    if columns(text) <= size:
        return text
    return max((text[:count] for count in range(len(text)) if columns(text[:count]) < size), key=len) + "…"


def from_the_end(text: str, size: int) -> str:
    if columns(text) <= size:
        return text
    fitting = [text[count:] for count in range(1, len(text) + 1) if columns(text[count:]) < size]
    return "…" + max(fitting, key=len)


def fewer_words(text: str) -> str:
    """Return a cell of WHAT that does not fit without what STATUS says already."""
    mark, text = ("2 processes; ", text[23:]) if text.startswith("2 processes are on it; ") else ("", text)
    if text.startswith("permission to "):
        text = text[14:]
    return mark + (text[10:] if text.startswith("works on: ") else text)


def plain_what(session: Session) -> str:
    failed = session.error and (session.process != "alive" or session.last_turn == "failed")
    several = ["2 processes are on it"] if len(session.processes) == 2 else []
    choices = (
        session.waiting_for,
        session.doing,
        session.reason if session.status in ("unknown", "alive") else None,
        session.error if failed and session.status not in ("unknown", "alive") else None,
        (session.title or session.prompt) if session.status not in ("unknown", "alive") else None,
        session.reason,
    )
    about = output.plain(next((text for text in choices if text), None))
    return "; ".join([*several, *([about] if about else [])]) or "-"


def plain_short_ids(ids: list[str]) -> dict[str, str]:
    found = {}
    for id in ids:
        others = {other for other in ids if other != id}
        size = 8
        while size < len(id) and any(other.startswith(id[:size]) for other in others):
            size += 1
        short = id[:size].rstrip("-") if size < len(id) else id
        found[id] = id[:size] if any(other.startswith(short) for other in others) else short
    return found


MANY_IDS = st.lists(IDS.map(lambda id: f"01a1e3b{id}") | IDS, max_size=12)


@given(MANY_IDS, MANY_IDS)
def test_ids_are_cut_to_where_they_are_unique(ids: list[str], others: list[str]) -> None:
    found = output.short_ids(ids, others)
    assert found == {id: plain_short_ids([*ids, *others])[id] for id in ids}
    for id, short in found.items():
        assert [other for other in {*ids, *others} if other.startswith(short)] == [id] or short == id


@given(st.lists(SESSIONS, min_size=1, max_size=6), st.booleans(), st.integers(1, 200), st.booleans())
def test_it_is_as_if_made_row_by_row(rows: list[Session], tree: bool, width: int, colourful: bool) -> None:
    import io
    from unittest.mock import patch

    out = io.StringIO()
    with (
        patch.object(width_module, "known_width", lambda: width),
        patch.object(output, "colourful", lambda: colourful),
        patch.object(time, "time", lambda: NOW),
        patch.object(os.path, "expanduser", lambda path: HOME),
        patch("sys.stdout", out),
    ):
        listing.table(rows, tree, output.short_ids(session.id for session in rows))
    assert out.getvalue() == plain_table(rows, tree, width, colourful)


def test_a_text_is_worked_out_once() -> None:
    asked: list[str | None] = []
    remembered = output.Remembered(lambda text: asked.append(text) or f"<{text}>")  # type: ignore[func-returns-value]
    assert [remembered[text] for text in ("a", None, "a", None)] == ["<a>", "<None>", "<a>", "<None>"]
    assert asked == ["a", None]


@given(st.lists(SESSIONS, min_size=1, max_size=6), st.booleans(), st.integers(40, 220))
def test_it_is_never_wider_than_the_terminal(rows: list[Session], tree: bool, width: int) -> None:
    """If every id is short enough to be shown whole: an id that is cut cannot be used."""
    short = [row._replace(id=row.id[:8]) for row in rows]
    columns = listing.columns_of(listing.ordered(short, tree), {row.id: row.id for row in short})
    needed = {name: cells.widest([name, *column]) for name, column in columns.items()}
    needed["ID"] = min(needed["ID"], 16)
    sizes = cells.fitted(needed, width, listing.FLEXIBLE, listing.OPTIONAL)
    assert sum(sizes.values()) + 2 * (len(sizes) - 1) <= width
    assert {"ID", "STATUS", "WHAT"} <= set(sizes)


@given(WIDE, st.integers(1, 30))
def test_a_text_is_cut_to_its_columns(text: str, width: int) -> None:
    for cut in (cells.shorten, cells.shorten_path):
        assert cells.columns_of(cut(text, width)) <= width
        assert cut(text, width) == text or cells.columns_of(text) > width
    assert cells.shorten(text, width).removesuffix("…") == text[: len(cells.shorten(text, width).removesuffix("…"))]
    (filled,) = cells.filled([cells.shorten(text, width)], width, right=False)
    assert cells.columns_of(filled) == width


def test_how_wide_characters_are() -> None:
    for text, size in {
        "plain": 5,
        "漢字": 4,
        "ｆｕｌｌ": 8,
        "한글": 4,
        "\u1112\u1161\u11ab": 2,
        "cafe\u0301": 4,
        "🚀": 2,
        "✔": 1,
        "✔\ufe0f": 2,
        "…": 1,
        "ก็": 1,
        "\u200b": 0,
    }.items():
        assert cells.columns_of(text) == size, text


@pytest.mark.parametrize(
    ("width", "shown"), [(80, "run: git push origin main"), (200, "permission to run: git push origin")]
)
def test_what_it_waits_for_is_seen_in_a_terminal_of_80_columns(
    width: int, shown: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(width_module, "known_width", lambda: width)
    asks = Session(
        id="01a1ecd2-f295-769f-8860-7f3dc9a09583",
        agent="claude-code",
        status="waiting",
        process="alive",
        turn="waiting",
        model="a-model-with-a-name",
        pid=12345,
        cwd="/srv/projects/webshop/backend",
        started_at=1.0,
        status_since=1.0,
        waiting_for="permission to run: git push origin main",
    )
    listing.table([asks], False, {asks.id: asks.id[:12]})
    assert shown in capsys.readouterr().out


def test_a_title_that_only_mentions_a_permission_keeps_its_words() -> None:
    assert listing.briefly("asks for permission to push") == "asks for permission to push"
    assert listing.briefly("2 processes are on it; works on: this") == "2 processes; this"


@pytest.mark.parametrize("width", [20, 40, 80])
def test_a_sentence_below_a_table_is_broken_between_words(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(width_module, "known_width", lambda: width)
    text = "claude-code pid 54 in ~/work: not registered with a session (starting, at a dialog, or ending)"
    lines = format.paragraph(text, "  ", "  ").split("\n")
    assert all(len(line) <= width for line in lines)
    assert " ".join(line.strip() for line in lines) == text
    assert [len(line) - len(line.lstrip()) for line in lines] == [2, *[4] * (len(lines) - 1)]
