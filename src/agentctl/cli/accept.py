"""agentctl accept GROUP SLOT: merge the work of one slot of a group into the branch that you are on."""

from __future__ import annotations

import os
import shlex
import sys

from agentctl.cli import output
from agentctl.errors import shown_command
from agentctl.launches import records
from agentctl.workspace import accept, clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Sequence

    from agentctl.workspace.accept import Plan
    from agentctl.workspace.clean import Outcome

EPILOG = """\
accept merges the branch of the slot into the branch of the worktree that you
are in (or --cwd). If the slot has changes that are not committed, give -m: then
accept commits all of them on the slot's branch first. accept runs no hooks for
these commits, and merges as git does without settings. If there are conflicts,
nothing is changed, and accept says how to merge by hand (exit code 4). Nothing
is pushed.

accept refuses (exit code 4) while the agent of the slot works or asks, while
another session works in the worktree that would change, and if a file of yours
that is not committed, also an ignored one, is in the place of one that changes.
--print prints the same as commands, and refuses if accept would.

Then accept offers to remove the worktrees of the group. --clean does it without
asking. A worktree with uncommitted work or a live session stays, and so do all
branches: `agentctl worktree clean GROUP --delete-branch` removes those that are
merged, and with --force also those whose work nobody wants.

examples:
  agentctl compare g-7k2p                   which one is it?
  agentctl accept g-7k2p opus               merge it here
  agentctl accept g-7k2p opus -m 'Fix #42'  commit what it left first
  agentctl accept g-7k2p opus --print       only print the commands
  agentctl accept g-7k2p opus --clean       and remove the group's worktrees
  agentctl accept g-7k2p opus --json
      {"schema": 1, "group", "slot", "branch", "into", "commits", "head", ...}
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("group", metavar="GROUP", help="the name that you gave with --group, or that launch chose")
    parser.add_argument("slot", metavar="SLOT", help="the slot, as `agentctl compare` names it")
    parser.add_argument(
        "-m", "--message", metavar="TEXT", help="commit what the slot has not committed, with this message"
    )
    parser.add_argument("--cwd", metavar="DIR", help="where to merge it (default: here)")
    parser.add_argument("--print", action="store_true", help="print the commands, and do nothing")
    parser.add_argument("--clean", action="store_true", help="then remove the worktrees of the group")
    parser.add_argument("--force", action="store_true", help="even if an agent works in one of the two worktrees")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: Namespace) -> int:
    env = os.environ
    cwd = os.path.realpath(args.cwd) if args.cwd is not None else os.getcwd()
    if args.print:
        return show_commands(args, cwd)
    plan, head = accept.accept(args.group, args.slot, cwd, args.message, env, force=args.force)
    cleaned = clean_group(args.group, cwd) if args.clean else []
    if args.json:
        output.print_json({**facts_of(plan), "head": head, "worktrees": [dict(one._asdict()) for one in cleaned]})
        return max((one.exit_code for one in cleaned), default=0)
    print(line_of(plan, head), flush=True)
    if not args.clean and wants_to_clean(args.group):
        cleaned = clean_group(args.group, cwd)
    show_cleaned(cleaned)
    return max((one.exit_code for one in cleaned), default=0)


def show_commands(args: Namespace, cwd: str) -> int:
    """Print what accept would do; whatever would stop it stops this, too."""
    env = os.environ
    plan = accept.plan(args.group, args.slot, cwd, args.message, env, force=args.force)
    if not plan.is_empty:
        accept.prepare(plan, env, force=args.force)
    commands = [*plan.commands(), *([["agentctl", "worktree", "clean", args.group]] if args.clean else [])]
    if args.json:
        output.print_json({**facts_of(plan), "commands": commands})
    else:
        for command in commands:
            print(output.plain(shlex.join(command)))
    return 0


def facts_of(plan: Plan) -> dict[str, object]:
    return {
        "group": plan.group,
        "slot": plan.slot,
        "branch": plan.branch,
        "into": plan.into,
        "directory": plan.top,
        "commits": plan.commits,
        "uncommitted": list(plan.changes),
    }


def line_of(plan: Plan, head: str | None) -> str:
    branch, into = output.plain(plan.branch), output.plain(plan.into)
    if head is None:
        return f"{into} has everything of {branch} already"
    return f"{branch} is merged into {into}, which is at {head[:12]} now"


def wants_to_clean(group: str) -> bool:
    """Ask, if a person is there; else say how it is done."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        command = shown_command("agentctl", "worktree", "clean", group)
        print(f"the worktrees of the group stay: {command}", file=sys.stderr)
        return False
    print("Remove the worktrees of the group? What has unsaved work stays. [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def clean_group(group: str, cwd: str) -> list[Outcome]:
    launched, _ = records.read_all(os.environ)
    targets = clean.find(group, cwd, launched, os.environ)
    return list(clean.outcomes(targets, clean.Options(), os.path.realpath(os.getcwd()), os.environ))


def show_cleaned(cleaned: Sequence[Outcome]) -> None:
    from agentctl.cli import worktree

    for one in cleaned:
        if one.outcome == clean.KEPT:
            print(f"agentctl: {output.plain(one.why)}", file=sys.stderr)
        else:
            print(worktree.line(one, dry_run=False))
