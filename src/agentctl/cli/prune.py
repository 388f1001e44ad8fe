"""agentctl prune: remove now what would go by itself, and say what stays and why."""

from __future__ import annotations

import os
import sys
import time

from agentctl import launches, locks, processes, retention
from agentctl.cli import output
from agentctl.cli.lock import as_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

EPILOG = """\
What agentctl keeps of a launch goes by itself some days after its last process: a few at a time, with whatever command
runs next. This does all of it now. Nothing of a launch that lives is touched, and no file of any agent, ever. In
~/.config/agentctl/config.toml: retention = "7d", output_limit = "100M" (of longer outputs the middle goes).

examples:
  agentctl prune --dry-run               what would go
  agentctl prune --json                  {"schema": 1, "removed": [...], "trimmed": [...], "locks": [...], ...}
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="remove nothing")
    parser.add_argument("--json", action="store_true", help="machine-readable")


def run(args: Namespace) -> int:
    now = time.time()
    table = processes.snapshot({launches.MARKER})
    swept = retention.sweep_as_configured(os.environ, table, now, sys.maxsize, dry_run=args.dry_run)
    expired = locks.sweep(os.environ, now, dry_run=args.dry_run)
    problems = [*launches.read_all(os.environ)[1], *locks.stored(os.environ)[1]]
    if args.json:
        output.print_json(
            {
                "dry_run": args.dry_run,
                "removed": list(swept.removed),
                "trimmed": list(swept.trimmed),
                "locks": [as_json(lock) for lock in expired],
                "kept": [{"launch_id": id, "why": why} for id, why in swept.kept],
                "problems": [output.problem_json(problem) for problem in problems],
            }
        )
        return 0
    would = "would be " if args.dry_run else ""
    for id in swept.removed:
        print(f"launch {id}: {would}removed")
    for id in swept.trimmed:
        print(f"launch {id}: {would}cut in the middle of its output")
    for lock in expired:
        print(f"lock of {output.tilde(lock.directory)} by {output.plain(lock.by)}: expired, {would}removed")
    for id, why in swept.kept:
        print(f"launch {id}: stays: {output.plain(why)}")
    if not (swept.removed or swept.trimmed or expired or swept.kept or problems):
        print("nothing to remove, and nothing kept", file=sys.stderr)
    output.warn(problems)
    return 0
