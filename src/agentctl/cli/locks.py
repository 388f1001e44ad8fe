"""agentctl locks: the directories that are locked, and those in which agents work."""

from __future__ import annotations

import os
import sys
import time

from agentctl import busy, launches, locks
from agentctl.cli import output
from agentctl.sessions import Scope, settled_look
from agentctl.stores import real_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterable

    from agentctl.busy import Holder, Lock

EPILOG = """\
`manual` are those of `agentctl lock`. `session` and `launch` are stored nowhere: a session works there or waits, or one
that agentctl launched lives there, at this moment.

examples:
  agentctl locks
  agentctl locks --json | jq -r '.locks[] | select(.kind == "manual") | .directory'
"""
COLUMNS = ("DIRECTORY", "KIND", "HOLDER", "SINCE", "EXPIRES", "WHY")
MANUAL, SESSION, LAUNCH = "manual", "session", "launch"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="machine-readable")


def run(args: Namespace) -> int:
    manual, problems = locks.read_all(os.environ)
    known, unread = launches.read_all(os.environ)
    look = settled_look(Scope())
    alive = busy.launches_that_live(known, look.world.processes)
    rows = entries(manual, (holder for holder in busy.holders(look.answer, alive) if holder.blocks))
    problems = list(dict.fromkeys([*problems, *unread, *look.answer.problems]))
    if args.json:
        output.print_json({"locks": rows, "problems": [output.problem_json(problem) for problem in problems]})
        return 0
    if rows:
        show(rows)
    else:
        print("no locks, and no agent at work", file=sys.stderr)
    output.warn(problems)
    return 0


def entries(manual: Iterable[Lock], holders: Iterable[Holder]) -> list[dict[str, object]]:
    """One shape for both kinds; times as the JSON has them."""
    rows: list[dict[str, object]] = [
        {
            "directory": lock.directory,
            "kind": MANUAL,
            "holder": lock.by,
            "agent": None,
            "launch_id": None,
            "why": lock.reason,
            "since": output.utc(lock.created_at),
            "expires_at": output.utc(lock.expires_at),
        }
        for lock in manual
    ]
    for holder in holders:
        entry: dict[str, object] = {
            "directory": real_path(holder.directory),
            "kind": LAUNCH if holder.who == holder.launch_id else SESSION,
            "holder": holder.who,
            "agent": holder.agent,
            "launch_id": holder.launch_id,
            "why": holder.why,
            "since": output.utc(holder.since),
            "expires_at": None,
        }
        rows.append(entry)
    return sorted(rows, key=lambda row: (str(row["directory"]), str(row["kind"]), str(row["holder"])))


def show(rows: list[dict[str, object]]) -> None:
    from agentctl.stores import moment

    now = time.time()
    lines = []
    for row in rows:
        since, until = moment(row["since"]), moment(row["expires_at"])
        why = output.plain(str(row["why"] or ""))
        lines.append(
            (
                output.tilde(str(row["directory"])),
                str(row["kind"]),
                output.plain(str(row["holder"])),
                output.age(since, now),
                f"in {output.age(now, until)}" if until is not None else "-",
                f"{row['agent']} {why}" if row["agent"] else why,
            )
        )
    widths = [max(len(line[index]) for line in (COLUMNS, *lines)) for index in range(len(COLUMNS))]
    for line in (COLUMNS, *lines):
        print("  ".join(cell.ljust(size) for cell, size in zip(line, widths, strict=True)).rstrip())
