"""agentctl compare GROUP: what the launches of a group do, what they cost, and what came of them, side by side."""

from __future__ import annotations

import os
import sys

from agentctl import comparing, differing
from agentctl.cli import output
from agentctl.cli.progress import Progress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Sequence

    from agentctl.comparing import Slot
    from agentctl.model import Tokens

EPILOG = """\
FILES and LINES are against the commit that the worktree began with: committed, uncommitted and untracked files taken
together (ignored ones left out); --json has them apart. Where the worktree is gone, what is on its branch. TOKENS are
input/output, COST what the agent itself recorded. Nothing is ranked: read the diffs.

examples:
  agentctl compare g-7k2p                   one row per slot, also while they run
  agentctl compare g-7k2p --diff opus       all that one of them did, as a diff
  agentctl compare g-7k2p --stat opus       its files
  agentctl compare g-7k2p --diff opus | git apply    take it over: off a terminal, the diff has binary files, too
  agentctl compare g-7k2p --json            {"schema": 1, "group", "slots": [...], "problems": [...]}
"""
COLUMNS = ("SLOT", "AGENT", "MODEL", "STATUS", "TIME", "TOKENS", "COST", "COMMITS", "FILES", "LINES", "LAST MESSAGE")
LEAST = 20  # characters for the last message
# As git colours a diff; the first that a line begins with.
DIFF_COLOURS = (("diff ", 1), ("index ", 1), ("+++ ", 1), ("--- ", 1), ("@@", 36), ("+", 32), ("-", 31))


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("group", metavar="GROUP", help="what was given as --group, or what launch called it")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--diff", metavar="SLOT", help="the whole diff of one slot against its base")
    which.add_argument("--stat", metavar="SLOT", help="the files of that diff")
    which.add_argument("--json", action="store_true", help="machine-readable")


def run(args: Namespace) -> int:
    env = os.environ
    if args.diff is not None or args.stat is not None:
        return run_diff(args)
    with Progress("slots looked at") as progress:
        found = comparing.compare(args.group, env, progress)
    if args.json:
        problems = [output.problem_json(problem) for problem in found.problems]
        output.print_json(
            {"group": found.group, "slots": [slot_json(one) for one in found.slots], "problems": problems}
        )
        return 0
    table([cells(one) for one in found.slots], found.slots)
    for one in found.slots:
        if one.said:
            print(f"{output.plain(one.name)}: {output.plain(one.said)}", file=sys.stderr)
    output.warn(found.problems)
    return 0


def run_diff(args: Namespace) -> int:
    place = comparing.place_of(args.group, args.diff if args.diff is not None else args.stat, os.environ)
    if place.worktree is None:
        print(f"its worktree is gone: this is what was committed on {output.plain(place.branch)}", file=sys.stderr)
    if args.stat is not None:
        differing.show(place, os.environ, f"--stat={output.width()}", each=print_line)
    elif sys.stdout.isatty():
        differing.show(place, os.environ, each=print_line)
    else:
        differing.show(place, os.environ, "--binary")  # byte by byte, for `git apply`
    return 0


# For people


def print_line(line: bytes) -> None:
    """Of a diff, as no terminal obeys it: what was changed may hold anything."""
    text = line.rstrip(b"\r\n").decode(errors="backslashreplace")
    shown = "\t".join(output.plain(part) for part in text.split("\t"))
    code = next((code for begin, code in DIFF_COLOURS if text.startswith(begin)), None) if output.colourful() else None
    print(shown if code is None else f"\x1b[{code}m{shown}\x1b[0m")


def table(rows: Sequence[Sequence[str]], slots: Sequence[Slot]) -> None:
    widths = [max(len(row[index]) for row in (COLUMNS, *rows)) for index in range(len(COLUMNS) - 1)]
    left = max(LEAST, output.width() - sum(widths) - 2 * len(widths))
    for number, row in enumerate((COLUMNS, *rows)):
        parts = [text.ljust(size) for text, size in zip(row, (*widths, 0), strict=True)]
        if number:
            parts[3] = output.coloured(parts[3], slots[number - 1].status)
        parts[-1] = output.shorten(row[-1], left)
        print("  ".join(parts).rstrip())


def cells(one: Slot) -> tuple[str, ...]:
    session, work = one.session, one.difference
    mark = ("?" if one.inferred else "") + ("+" if session is not None and session.suspended else "")
    return (
        output.plain(one.name),
        one.launch.agent,
        output.plain(session.model if session else None) or "-",
        one.status + mark,
        span(one.seconds),
        tokens_cell(session.tokens if session else None),
        "-" if session is None or session.cost_usd is None else f"${session.cost_usd:.2f}",
        "-" if work is None or work.commits is None else str(work.commits),
        "-" if work is None else str(work.files),
        "-" if work is None else f"+{work.added} -{work.removed}",
        output.plain(" ".join((one.last_message or (one.reason if session is None else "") or "").split())) or "-",
    )


def span(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    whole = int(seconds)
    if whole >= 3600:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 60}m{whole % 60:02d}s" if whole >= 60 else f"{whole}s"


def tokens_cell(tokens: Tokens | None) -> str:
    if tokens is None or (tokens.input is None and tokens.output is None):
        return "-"
    return f"{short(tokens.input)}/{short(tokens.output)}"


def short(number: int | None) -> str:
    if number is None:
        return "-"
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if number >= size:
            return f"{number / size:.1f}{unit}"
    return str(number)


# For programs


def slot_json(one: Slot) -> dict[str, object]:
    session, work, launch = one.session, one.difference, one.launch
    return {
        "slot": one.name,
        "agent": launch.agent,
        "model": session.model if session else None,
        "launch_id": launch.id,
        "session_id": session.id if session else None,
        "status": one.status,
        "inferred": one.inferred,
        "reason": one.reason,
        "started_at": output.utc(launch.created_at),
        "ended_at": output.utc(session.ended_at) if session else None,
        "seconds": None if one.seconds is None else round(one.seconds, 3),
        "tokens": session.tokens._asdict() if session and session.tokens else None,
        "cost_usd": session.cost_usd if session else None,
        "worktree": launch.worktree,
        "worktree_there": one.place is not None and one.place.worktree is not None,
        "branch": launch.branch,
        "base": launch.base,
        **{name: getattr(work, name) if work is not None else None for name in WORK},
        "last_message": one.last_message,
        "said": one.said,
    }


WORK = ("head", "commits", "files", "added", "removed", "binary", "uncommitted", "untracked")
