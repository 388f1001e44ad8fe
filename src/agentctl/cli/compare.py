"""agentctl compare GROUP: show the slots of a group side by side: status, time, cost, and what they changed."""

from __future__ import annotations

import os
import sys

from agentctl.cli import format, output
from agentctl.cli.width import width
from agentctl.durations import span
from agentctl.usage.report import usd
from agentctl.workspace import compare, diff

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from agentctl.model import Tokens
    from agentctl.workspace.compare import Slot

EPILOG = """\
FILES and LINES compare the worktree with the commit that it began with:
committed, uncommitted and untracked files together, without ignored files.
--json counts them separately. If the worktree is gone, they show what is on its
branch. TOKENS are input/output. COST is what the agent itself recorded.
agentctl does not rank the slots: read the diffs.

examples:
  agentctl compare g-7k2p                one row per slot, even while they run
  agentctl compare g-7k2p --stat SLOT    the files that one slot changed
  agentctl compare g-7k2p --diff SLOT    everything that it changed, as a diff
  agentctl compare g-7k2p --diff SLOT | git apply
      apply it here; a diff in a pipe also has binary files
  agentctl compare g-7k2p --json
      {"schema": 1, "group", "slots": [...], "problems": [...]}
"""
COLUMNS = ("SLOT", "AGENT", "MODEL", "STATUS", "TIME", "TOKENS", "COST", "COMMITS", "FILES", "LINES", "LAST MESSAGE")
FLEXIBLE = {"LAST MESSAGE": 16}  # the column that is cut, and how narrow it may become
OPTIONAL = ("TOKENS", "COMMITS", "AGENT", "FILES", "MODEL", "COST", "TIME", "LAST MESSAGE", "LINES")
# The colours that git uses in a diff; the first match counts.
DIFF_COLOURS = (("diff ", 1), ("index ", 1), ("+++ ", 1), ("--- ", 1), ("@@", 36), ("+", 32), ("-", 31))


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("group", metavar="GROUP", help="the name that you gave with --group, or that launch chose")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--diff", metavar="SLOT", help="show everything that this slot changed, as a diff")
    which.add_argument("--stat", metavar="SLOT", help="show which files this slot changed")
    which.add_argument("--json", action="store_true", help="print JSON")


def run(args: Namespace) -> int:
    env = os.environ
    if args.diff is not None or args.stat is not None:
        return run_diff(args)
    with format.Progress("slots compared") as progress:
        found = compare.compare(args.group, env, progress)
    if args.json:
        problems = [output.problem_json(problem) for problem in found.problems]
        output.print_json(
            {"group": found.group, "slots": [slot_json(slot) for slot in found.slots], "problems": problems}
        )
        return 0
    columns = format.columns_of(COLUMNS, [cells(slot) for slot in found.slots])
    format.table(columns, flexible=FLEXIBLE, optional=OPTIONAL, statuses=[slot.status for slot in found.slots])
    for slot in found.slots:
        if slot.said:
            print(f"{output.plain(slot.name)}: {output.plain(slot.said)}", file=sys.stderr)
    output.warn(found.problems)
    return 0


def run_diff(args: Namespace) -> int:
    place = compare.place_of(args.group, args.diff if args.diff is not None else args.stat, os.environ)
    if place.worktree is None:
        print(f"the worktree is gone; this is what was committed on {output.plain(place.branch)}", file=sys.stderr)
    if args.stat is not None:
        diff.show(place, os.environ, f"--stat={width()}", each=print_line)
    elif sys.stdout.isatty():
        diff.show(place, os.environ, each=print_line)
    else:
        diff.show(place, os.environ, "--binary")  # unchanged, for `git apply`
    return 0


# For people


def print_line(line: bytes) -> None:
    """Print a line of a diff without control characters: a changed file may hold anything."""
    text = line.rstrip(b"\r\n").decode(errors="backslashreplace")
    shown = "\t".join(output.plain(part) for part in text.split("\t"))
    code = next((code for begin, code in DIFF_COLOURS if text.startswith(begin)), None) if output.colourful() else None
    print(shown if code is None else f"\x1b[{code}m{shown}\x1b[0m")


def cells(one: Slot) -> tuple[str, ...]:
    session, work = one.session, one.difference
    mark = ("?" if one.inferred else "") + ("+" if session is not None and session.suspended else "")
    return (
        output.plain(one.name),
        one.launch.agent,
        output.plain(session.model if session else None) or "-",
        one.status + mark,
        "-" if one.seconds is None else span(one.seconds),
        tokens_cell(session.tokens if session else None),
        "-" if session is None or session.cost_usd is None else usd(session.cost_usd),
        "-" if work is None or work.commits is None else str(work.commits),
        "-" if work is None else str(work.files),
        "-" if work is None else f"+{work.added} -{work.removed}",
        output.plain(" ".join((one.last_message or (one.reason if session is None else "") or "").split())) or "-",
    )


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
        "worktree": one.given.worktree,
        "worktree_there": one.place is not None and one.place.worktree is not None,
        "branch": one.given.branch,
        "base": one.given.base,
        **{name: getattr(work, name) if work is not None else None for name in WORK},
        "last_message": one.last_message,
        "said": one.said,
    }


WORK = ("head", "commits", "files", "added", "removed", "binary", "uncommitted", "untracked")
