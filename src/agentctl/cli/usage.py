"""agentctl usage: the tokens and the cost of all sessions, each token once."""

from __future__ import annotations

import os
import sys
import time

from agentctl import config
from agentctl.agents import chosen, load_all
from agentctl.cli import output
from agentctl.cli.durations import seconds
from agentctl.errors import UsageError
from agentctl.spending import Question, spent
from agentctl.usage import BY, Price, Row, bar, human, money

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

EPILOG = """\
Each token once: lines that repeat a call, copies in forks and resumed sessions, running totals are not counted again; a
sub-agent has its own row by session, and is a part of its parent in the number of sessions. TOTAL has every token once;
the other columns are as the agent records them (some count the cache among the input, or reasoning among the output).

Days are in your local time zone (TZ). TIME is an age (90m, 12h, 7d, 4w; to the quarter of an hour) or a date
(2026-11-01: its first moment for --since, its last for --until).

The cost is what the agents themselves have recorded. Where they have not, it is estimated from the prices in your
configuration, and marked with ~; there is no list of prices in agentctl, because they change. + is for cost that is not
known. [prices."model-*"] takes input, output, cache_read and cache_write, in US dollars for a million tokens.

examples:
  agentctl usage                          the last 30 days
  agentctl usage --by model --since all
  agentctl usage --by session --since 12h
  agentctl usage --by group --json        {"schema": 1, "by": "group", "rows": [...], "total": {...}, "problems": [...]}
"""
DAY = 24 * 60 * 60
DEFAULT_DAYS = 30
PROGRESS_AFTER = 1.0
LEAST_BAR, MOST_BAR = 6, 40
NAMES = {
    "project": "DIRECTORY",
    "group": "GROUP",
    "session": "SESSION",
    "day": "DAY",
    "agent": "AGENT",
    "model": "MODEL",
}
NUMBERS = ("TOTAL", "INPUT", "OUTPUT", "CACHE-R", "CACHE-W", "COST", "SESSIONS")
DISPENSABLE = ("CACHE-W", "CACHE-R", "SESSIONS", "INPUT", "OUTPUT")  # where the terminal is narrow, in this order


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--by", choices=BY, default="day", help="what a row is (default: day)")
    parser.add_argument("--since", metavar="TIME", help="an age, a date, or all (default: 30 days)")
    parser.add_argument("--until", metavar="TIME", help="an age or a date (default: now)")
    parser.add_argument("--agent", action="append", metavar="A", help="only this agent (repeat for more)")
    parser.add_argument("--json", action="store_true", help="machine-readable")
    parser.add_argument("--strict", action="store_true", help="exit 5 if anything could not be read")


def run(args: Namespace) -> int:
    now = time.time()
    since = (
        first_day(now) if args.since is None else None if args.since == "all" else moment(args.since, now, "--since")
    )
    until = None if args.until is None else moment(args.until, now, "--until")
    prices = [Price(pattern, **values) for pattern, values in config.prices(os.environ)]
    agents = load_all(chosen(args.agent or None))
    progress = Progress()
    found = spent(Question(args.by, since, until), agents, prices, os.environ, progress.tell)
    progress.end()
    if args.json:
        rows = [row_json(row) for row in found.rows]
        problems = [output.problem_json(problem) for problem in found.problems]
        output.print_json({"by": args.by, "rows": rows, "total": row_json(found.total), "problems": problems})
    else:
        show(list(found.rows), found.total, args.by)
        output.warn(found.problems)
    return 5 if args.strict and found.problems else 0


# When


def first_day(now: float) -> float:
    """The beginning of the day that begins the last 30, today among them."""
    year, month, day, *_ = time.localtime(now)
    return time.mktime((year, month, day - DEFAULT_DAYS + 1, 0, 0, 0, 0, 0, -1))


def moment(text: str, now: float, option: str) -> float:
    """An age, or a date as a local day."""
    if text.count("-") == 2:
        try:
            year, month, day = (int(part) for part in text.split("-"))
            time.strptime(f"{year:04}-{month:02}-{day:02}", "%Y-%m-%d")  # is there such a day?
            return time.mktime((year, month, day + (option == "--until"), 0, 0, 0, 0, 0, -1))
        except (ValueError, OverflowError) as error:
            raise UsageError(f"{option} {text}: no such day; write it as 2026-11-01") from error
    if text.isdigit():
        raise UsageError(f"{option} {text}: of what? Use s, m, h, d or w, such as {text}h, or a date as 2026-11-01")
    return now - seconds(text)


# For programs


def row_json(row: Row) -> dict[str, object]:
    found: dict[str, object] = {
        "key": row.key,
        "tokens": {**row.tokens._asdict(), "total": row.total},
        "cost_usd": row.cost_usd,
        "cost_estimated": row.cost_estimated,
        "cost_complete": row.cost_complete,
        "sessions": row.sessions,
    }
    if row.session is not None:
        found |= {"agent": row.session.agent, "parent": row.session.parent, "cwd": row.session.cwd}
    return found


# For people


class Progress:
    """On stderr, if somebody sits there, and not before a second has passed."""

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._shown = False

    def tell(self, done: int, whole: int) -> None:
        if sys.stderr.isatty() and time.monotonic() - self._since >= PROGRESS_AFTER:
            print(f"\rcounting: {done / 1e6:.0f} of {whole / 1e6:.0f} MB ", end="", file=sys.stderr, flush=True)
            self._shown = True

    def end(self) -> None:
        if self._shown:
            print("\r\x1b[K" if os.environ.get("TERM") != "dumb" else "", end="\n", file=sys.stderr, flush=True)


def show(rows: list[Row], total: Row, by: str) -> None:
    if not rows:
        print("nothing was spent in this time; `agentctl usage --since all` shows all of it", file=sys.stderr)
        return
    names = heads(rows, by)
    lines = [cells(row) for row in rows]
    last = cells(total)
    columns = [name for name in NUMBERS if (by, name) != ("session", "SESSIONS")]
    widths = {name: max(len(name), *(len(line[name]) for line in (*lines, last))) for name in columns}
    most = max(len(NAMES[by]), len("total"), *map(len, names))

    def left() -> int:
        return output.width() - most - sum(widths[name] + 2 for name in columns) - 2

    for name in DISPENSABLE:
        if left() < LEAST_BAR and name in columns:
            columns.remove(name)
    room = left()
    if room < 0:
        most, room = max(8, most + room), 0
    room = 0 if room < LEAST_BAR else min(room, MOST_BAR)
    highest = max(row.total for row in rows)
    numbers = "  ".join(name.rjust(widths[name]) for name in columns)
    print(f"{output.shorten(NAMES[by], most):<{most}}  {numbers}")
    for row, name, line in zip(rows, names, lines, strict=True):
        numbers = "  ".join(line[column].rjust(widths[column]) for column in columns)
        print(f"{output.shorten(name, most):<{most}}  {numbers}  {bar(row.total, highest, room)}".rstrip())
    print(f"{'total':<{most}}  " + "  ".join(last[column].rjust(widths[column]) for column in columns))


def heads(rows: list[Row], by: str) -> list[str]:
    if by == "session":
        ids = output.short_ids([row.key or "" for row in rows])
        shown = {row.key for row in rows}
        return [
            ("└ " if row.session and row.session.top != row.key and row.session.top in shown else "")
            + output.plain(ids[row.key or ""])
            for row in rows
        ]
    if by == "project":
        return [output.tilde(row.key) for row in rows]
    nothing = {"group": "(no group)", "model": "(not recorded)", "day": "(no time)"}.get(by, "-")
    return [output.plain(row.key) or nothing for row in rows]


def cells(row: Row) -> dict[str, str]:
    tokens = row.tokens
    numbers = (row.total, tokens.input, tokens.output, tokens.cache_read, tokens.cache_write)
    return dict(zip(NUMBERS, (*map(human, numbers), money(row), str(row.sessions)), strict=True))
