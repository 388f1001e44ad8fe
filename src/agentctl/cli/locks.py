"""agentctl locks: list the locked directories, and those in which agents work."""

from __future__ import annotations

import os
import sys
import time

from agentctl.cli import format, output
from agentctl.cli.list import typeable
from agentctl.durations import span
from agentctl.files.bounded import real_path
from agentctl.launches import records
from agentctl.query.sessions import Scope, settled_look
from agentctl.workspace import locks, occupancy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterable, Mapping

    from agentctl.workspace.occupancy import Holder, Lock

EPILOG = """\
KIND is one of:
  manual     somebody set it with `agentctl lock`
  session    a session works or waits there now
  launch     an agent that agentctl launched is alive there, without a session
             yet
agentctl stores only manual locks; it derives the others when you ask.

examples:
  agentctl locks
  agentctl locks --json | jq -r '.locks[] | select(.kind == "manual").directory'
"""
COLUMNS = ("DIRECTORY", "KIND", "HOLDER", "SINCE", "EXPIRES", "WHY")
FLEXIBLE = {"DIRECTORY": 16, "HOLDER": 12, "WHY": 22}  # the columns that are cut, and how narrow they may become
OPTIONAL = ("SINCE", "KIND", "WHY", "EXPIRES")  # left out on a narrow terminal, in this order
MANUAL, SESSION, LAUNCH = "manual", "session", "launch"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: Namespace) -> int:
    manual, torn = locks.read_all(os.environ)
    problems = [problem._replace(problem=f"{problem.problem}; {locks.way_out(problem)}") for problem in torn]
    known, unread = records.read_all(os.environ)
    look = settled_look(Scope())
    alive = occupancy.launches_that_live(known, look.world.processes)
    rows = entries(manual, (holder for holder in occupancy.holders(look.answer, alive) if holder.blocks))
    problems = list(dict.fromkeys([*problems, *unread, *look.answer.problems]))
    if args.json:
        output.print_json({"locks": rows, "problems": [output.problem_json(problem) for problem in problems]})
        return 0
    if rows:
        of_sessions = [(str(row["agent"]), str(row["holder"])) for row in rows if row["kind"] == SESSION]
        show(rows, typeable(of_sessions, look.readings))
    else:
        nothing = "no directory is locked, and no agent is at work"
        print(output.in_what_was_read(nothing, problems), file=sys.stderr)
    output.warn(problems)
    return 0


def entries(manual: Iterable[Lock], holders: Iterable[Holder]) -> list[dict[str, object]]:
    """Return locks and holders in one form, as the JSON has them."""
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
            "directory": holder.directory and real_path(holder.directory),
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


def show(rows: list[dict[str, object]], ids: Mapping[str, str]) -> None:
    """Print the table. `ids`: what to print for the ids of sessions."""
    from agentctl.files.bounded import moment

    now = time.time()
    lines = []
    for row in rows:
        since, until = moment(row["since"]), moment(row["expires_at"])
        why = output.plain(str(row["why"] or ""))
        lines.append(
            (
                output.tilde(str(row["directory"] or "?")),
                str(row["kind"]),
                output.plain(ids.get(str(row["holder"]), str(row["holder"]))),
                format.age(since, now),
                f"in {span(until_next_minute(until - now))}" if until is not None else "-",
                f"{row['agent']} {why}" if row["agent"] else why,
            )
        )
    format.table(format.columns_of(COLUMNS, lines), flexible=FLEXIBLE, optional=OPTIONAL)


def until_next_minute(seconds: float) -> float:
    """Round up to whole minutes, so that a lock of two hours that was just set ends in 2h. Less than one stays."""
    return -(-seconds // 60) * 60 if seconds > 60 else seconds
