"""agentctl usage: count the tokens and the cost of all sessions, each token once."""

from __future__ import annotations

import os
import sys
import time

from agentctl import config
from agentctl.agents import chosen, load_all
from agentctl.agents.base import is_random
from agentctl.agents.guard import despite_faults
from agentctl.cli import format, output
from agentctl.cli.cells import columns_of
from agentctl.cli.width import width
from agentctl.durations import seconds
from agentctl.errors import UsageError
from agentctl.usage.query import Question, spent
from agentctl.usage.report import BY, Price, Row, bar, human, money

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

EPILOG = """\
agentctl counts each token once. It does not count again: lines that repeat a
call, copies in forks and resumed sessions, running totals. With --by session a
sub-agent has its own row; the SESSIONS column counts it as part of its parent.
TOTAL has every token once; the other columns are as the agent records them
(some agents count the cache as input, or reasoning as output).

TIME is an age (90m, 12h, 7d, 4w; exact to a quarter of an hour) or a date
(2026-11-01: --since begins at its first moment, --until ends at its last).
Days are in your local time zone (TZ).

COST is what the agents recorded. For agents that record none, agentctl
estimates it from the prices in your configuration, and marks it with ~.
agentctl has no price list of its own, because prices change. + means that the
cost of some tokens is unknown. In the configuration, [prices."model-*"] takes
input, output, cache_read and cache_write, in US dollars per million tokens.

examples:
  agentctl usage                      the last 30 days
  agentctl usage --by model --since all
  agentctl usage --by session --since 12h
  agentctl usage --by group --json
      {"schema": 1, "by": "group", "rows": [...], "total": {...},
       "problems": [...]}
"""
DAY = 24 * 60 * 60
DEFAULT_DAYS = 30
MEGABYTE = 10**6
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
DISPENSABLE = ("CACHE-W", "CACHE-R", "SESSIONS", "INPUT", "OUTPUT")  # left out on a narrow terminal, in this order


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--by", choices=BY, default="day", help="what each row stands for (default: day)")
    parser.add_argument("--since", metavar="TIME", help="an age, a date, or all (default: 30 days)")
    parser.add_argument("--until", metavar="TIME", help="an age or a date (default: now)")
    parser.add_argument("--agent", action="append", metavar="A", help="only this agent (repeat for more)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--strict", action="store_true", help="exit with 5 if anything could not be read")


def run(args: Namespace) -> int:
    now = time.time()
    since = (
        first_day(now) if args.since is None else None if args.since == "all" else moment(args.since, now, "--since")
    )
    until = None if args.until is None else moment(args.until, now, "--until")
    if since is not None and until is not None and since >= until:
        raise UsageError(f"--since {args.since or f'{DEFAULT_DAYS}d'} is not before --until {args.until}")
    prices = [Price(pattern, **values) for pattern, values in config.prices(os.environ)]
    agents = load_all(chosen(args.agent or None))
    question = Question(args.by, since, until)
    with format.Progress("MB counted", MEGABYTE) as progress:
        found = despite_faults(agents, lambda sound: spent(question, sound, prices, os.environ, progress))
    if args.json:
        rows = [row_json(row) for row in found.rows]
        problems = [output.problem_json(problem) for problem in found.problems]
        output.print_json({"by": args.by, "rows": rows, "total": row_json(found.total), "problems": problems})
    else:
        if found.rows:
            show(list(found.rows), found.total, args.by)
        else:
            hint = "; `agentctl usage --since all` shows all of them" if args.since != "all" else ""
            nothing = "no tokens were used in this time" if args.since != "all" or args.until else "no tokens were used"
            print(output.in_what_was_read(nothing, found.problems, hint), file=sys.stderr)
        output.warn(found.problems)
    return 5 if args.strict and found.problems else 0


# When


def first_day(now: float) -> float:
    """Return the beginning of the first of the last 30 days; today is the last of them."""
    year, month, day, *_ = time.localtime(now)
    return time.mktime((year, month, day - DEFAULT_DAYS + 1, 0, 0, 0, 0, 0, -1))


def moment(text: str, now: float, option: str) -> float:
    """Return the time that an age or a date (a local day) means."""
    if text.count("-") == 2:
        try:
            year, month, day = (int(part) for part in text.split("-"))
            time.strptime(f"{year:04}-{month:02}-{day:02}", "%Y-%m-%d")  # raises ValueError if there is no such day
            return time.mktime((year, month, day + (option == "--until"), 0, 0, 0, 0, 0, -1))
        except (ValueError, OverflowError) as error:
            raise UsageError(f"{option} {text}: no such day; write a date like 2026-11-01") from error
    if text.isdigit():
        raise UsageError(f"{option} {text}: no unit; use s, m, h, d or w, such as {text}h, or a date like 2026-11-01")
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


def show(rows: list[Row], total: Row, by: str) -> None:
    names = [NAMES[by], *heads(rows, by), "total"]
    lines = [cells(row) for row in (*rows, total)]
    numbers = [name for name in NUMBERS if (by, name) != ("session", "SESSIONS")]
    widths = {name: max(len(name), *(len(line[name]) for line in lines)) for name in numbers}
    names_width, numbers, room = fitted(max(map(columns_of, names)), widths, width())
    highest = max(row.total for row in rows)
    head, *names = [output.shorten(name, names_width) for name in names]
    columns = {head: names, **{name: [line[name] for line in lines] for name in numbers}}
    bars = [*(bar(row.total, highest, room) for row in rows), ""]
    format.table({**columns, "": bars}, right=numbers)


def fitted(names_width: int, widths: dict[str, int], terminal: int) -> tuple[int, list[str], int]:
    """The width of the first column, the columns of numbers that fit beside it, and the width of the longest bar."""
    numbers = list(widths)

    def left() -> int:
        return terminal - names_width - sum(widths[name] + 2 for name in numbers) - 2

    for name in DISPENSABLE:
        if left() < LEAST_BAR and name in numbers:
            numbers.remove(name)
    room = left()
    if room < 0:
        return max(8, names_width + room), numbers, 0
    return names_width, numbers, 0 if room < LEAST_BAR else min(room, MOST_BAR)


def heads(rows: list[Row], by: str) -> list[str]:
    if by == "session":
        ids = {row.key or "": row.key or "" for row in rows} | output.short_ids(
            row.key for row in rows if row.key and is_random(row.key)
        )
        shown = {row.key for row in rows}
        branch = output.drawn("└ ", "- ")
        return [
            (branch if row.session and row.session.top != row.key and row.session.top in shown else "")
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
