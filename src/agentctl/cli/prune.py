"""agentctl prune: remove expired launches and locks now, and say what stays and why."""

from __future__ import annotations

import os
import sys
import time

from agentctl.cli import output
from agentctl.cli.lock import as_json
from agentctl.kernel import processes
from agentctl.launches import records, retention
from agentctl.terminal import dead_panes
from agentctl.workspace import locks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator, Sequence

    from agentctl.launches.retention import Swept
    from agentctl.terminal.dead_panes import Dead
    from agentctl.workspace.occupancy import Lock

EPILOG = """\
agentctl removes what it keeps about a launch some days after the last process
of that launch has ended: a few launches at a time, whenever you run a command.
prune removes everything that is due now. It touches nothing of a launch that is
alive or whose worktree is there, and never a file of an agent. It also closes
tmux panes that a killed `launch --interactive` left behind, dead. To change how
much agentctl keeps, set these in ~/.config/agentctl/config.toml:

  retention = "7d"
  output_limit = "100M"     longer output is truncated in the middle

examples:
  agentctl prune --dry-run    what prune would remove
  agentctl prune --json
      {"schema": 1, "removed": [...], "trimmed": [...], "locks": [...], ...}
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="remove nothing, show what would be removed")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: Namespace) -> int:
    now = time.time()
    table = processes.snapshot({records.MARKER})
    panes = dead_panes.close_all(os.environ, table, now, dry_run=args.dry_run)  # before their launches go
    swept = retention.sweep_as_configured(os.environ, table, now, sys.maxsize, dry_run=args.dry_run)
    expired = locks.sweep(os.environ, now, dry_run=args.dry_run)
    problems = [*records.read_all(os.environ)[1], *locks.stored(os.environ)[1]]
    if args.json:
        output.print_json(
            {
                "dry_run": args.dry_run,
                "removed": list(swept.removed),
                "trimmed": list(swept.trimmed),
                "locks": [as_json(lock) for lock in expired],
                "panes": [{"tmux": one.id, "tmux_session": one.name, "launch_id": one.launch} for one in panes],
                "kept": [{"launch_id": id, "why": why} for id, why in swept.kept],
                "problems": [output.problem_json(problem) for problem in problems],
            }
        )
        return 0
    for line in (each if args.dry_run else in_brief)(swept, expired, panes):
        print(line)
    if not (swept.removed or swept.trimmed or expired or panes or swept.kept or problems):
        print("nothing to remove", file=sys.stderr)
    output.warn(problems)
    return 0


def each(swept: Swept, expired: Sequence[Lock], panes: Sequence[Dead]) -> Iterator[str]:
    """Yield a line for each thing that would go or stay."""
    yield from (f"launch {id}: would be removed" for id in swept.removed)
    yield from (f"launch {id}: would be truncated in the middle of its output" for id in swept.trimmed)
    for lock in expired:
        yield f"lock of {output.tilde(lock.directory)} by {output.plain(lock.by)}: expired, would be removed"
    yield from (f"tmux session {output.plain(one.name)}: its dead pane would be closed" for one in panes)
    yield from (f"launch {id}: kept: {output.plain(why)}" for id, why in swept.kept)


def in_brief(swept: Swept, expired: Sequence[Lock], panes: Sequence[Dead]) -> Iterator[str]:
    """Yield how many things went and stay. `--dry-run` names those that stay, and why."""
    counts = [
        (len(swept.removed), "launch", "launches", "removed"),
        (len(swept.trimmed), "output", "outputs", "truncated in the middle"),
        (len(expired), "expired lock", "expired locks", "removed"),
        (len(panes), "dead tmux pane", "dead tmux panes", "closed"),
        (len(swept.kept), "launch", "launches", "kept; --dry-run says why"),
    ]
    yield from (f"{count} {one if count == 1 else many} {what}" for count, one, many, what in counts if count)
