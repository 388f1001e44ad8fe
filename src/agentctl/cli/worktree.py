"""agentctl worktree list|clean: the worktrees of a repository, who works there, and removing what is done with."""

from __future__ import annotations

import os
import sys
import time

from agentctl import cleaning, inspection, launches
from agentctl.cli import output
from agentctl.cli.progress import Progress
from agentctl.errors import UsageError
from agentctl.model import GONE, UNKNOWN
from agentctl.sessions import RECENT, Scope, query
from agentctl.stores import real_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterable, Sequence

    from agentctl.cleaning import Outcome
    from agentctl.inspection import Tree
    from agentctl.model import Launch, Session

EPILOG = """\
`agentctl worktree list --help` and `agentctl worktree clean --help` have the options.

examples:
  agentctl worktree list                 of this repository: branch, commits, changes, who works or worked there
  agentctl worktree clean g-7k2p         those of a group
  agentctl worktree clean --merged       those of launches of which nothing is only there
"""
LIST_EPILOG = """\
The main worktree comes first. COMMITS: since the commit that its launch began with, where that is still known; `merged`
if another branch, a remote branch, a tag or a worktree has them all. CHANGES: files, tracked or not, ignored ones left
out. SESSION: the ones that are alive first, else the newest of the last 7 days whose directory is inside.

examples:
  agentctl worktree list
  agentctl worktree list ~/src/project --json    {"schema": 1, "repository", "worktrees": [...], "problems": [...]}
"""
CLEAN_EPILOG = """\
TARGET is the path of a worktree, its branch, or a group. The branch stays, unless --delete-branch.

Refused (exit code 4), with why: a live session, one that may be alive, or a process of an agent is in it (stop that
first; --force does not help); `agentctl lock`, `git worktree lock`; the main worktree; the one that you are in. And,
unless --force: changes, tracked or not, a rebase or merge in the middle, submodules and repositories in it that have
something of their own, commits that nothing else has (of a detached HEAD, or with --delete-branch), other processes.
Ignored files go with it and are named. A squash or a rebase does not count as merged: git has no record of it. A
worktree whose folder is gone: only git's entry is removed. --merged takes those that were made for launches.

examples:
  agentctl worktree clean ../project-g-7k2p-opus
  agentctl worktree clean g-7k2p --delete-branch         a whole group, with its branches
  agentctl worktree clean --merged --dry-run             what would go, and what stays and why
  agentctl worktree clean g-7k2p --json                  {"schema": 1, "dry_run", "worktrees": [...]}
"""
COLUMNS = ("WORKTREE", "BRANCH", "COMMITS", "CHANGES", "AGE", "SESSION", "NOTE")


def add_arguments(parser: ArgumentParser) -> None:
    from agentctl.cli import help_format

    verbs = parser.add_subparsers(dest="what", metavar="list|clean", required=True)
    shown = verbs.add_parser(
        "list", help="the worktrees of a repository", epilog=LIST_EPILOG, formatter_class=help_format
    )
    shown.add_argument("directory", nargs="?", metavar="DIR", help="somewhere in the repository (default: here)")
    cleaned = verbs.add_parser("clean", help="remove worktrees", epilog=CLEAN_EPILOG, formatter_class=help_format)
    cleaned.add_argument("target", nargs="*", metavar="TARGET", help="a path, a branch or a group")
    cleaned.add_argument("--merged", action="store_true", help="all of launches of which nothing is only there")
    cleaned.add_argument("--delete-branch", action="store_true", help="the branch, too, if all it has is elsewhere")
    cleaned.add_argument("--force", action="store_true", help="also what has work in it; never where a session lives")
    cleaned.add_argument("--dry-run", action="store_true", help="remove nothing, say what would be")
    for one in (shown, cleaned):
        one.allow_abbrev = False
        one.add_argument("--cwd", metavar="DIR", help="somewhere in the repository (default: here)")
        one.add_argument("--json", action="store_true", help="machine-readable")


def run(args: Namespace) -> int:
    return run_list(args) if args.what == "list" else run_clean(args)


def here(args: Namespace) -> str:
    return os.path.abspath(args.cwd) if args.cwd is not None else os.getcwd()


# list


def run_list(args: Namespace) -> int:
    if args.directory is not None and args.cwd is not None:
        raise UsageError("a directory and --cwd: give one of them")
    env = os.environ
    cwd = os.path.abspath(args.directory) if args.directory is not None else here(args)
    common = inspection.common_folder(cwd, env)
    with Progress("worktrees looked at") as progress:
        trees = inspection.all_trees(common, env, told=progress)
    answer = query(Scope(since=time.time() - RECENT))
    launched, _ = launches.read_all(env)  # what cannot be read of them is among the answer's problems
    rows = []
    for tree, sessions in zip(trees, by_tree(trees, answer.sessions), strict=True):
        launch = cleaning.launch_of(tree, launched)
        base = launch.base if launch is not None else None
        rows.append((tree, sessions, launch, inspection.commits_since(common, base, tree.head, env)))
    if args.json:
        output.print_json(
            {
                "repository": common,
                "worktrees": [tree_json(*row) for row in rows],
                "problems": [output.problem_json(problem) for problem in answer.problems],
            }
        )
        return 0
    table([COLUMNS, *(cells(*row) for row in rows)])
    output.warn(answer.problems)
    return 0


def by_tree(trees: Sequence[Tree], sessions: Sequence[Session]) -> list[list[Session]]:
    """Each session in the innermost worktree that its directory is in; alive ones first, then the newest."""
    found: list[list[Session]] = [[] for _ in trees]
    for session in sessions:
        cwd = real_path(session.cwd) if session.cwd is not None else None
        around = [number for number, tree in enumerate(trees) if cleaning.inside(cwd, tree.real)]
        if around:
            found[max(around, key=lambda number: len(trees[number].real))].append(session)
    for mine in found:
        mine.sort(key=lambda one: (one.process == GONE, one.process == UNKNOWN, -(one.updated_at or 0.0)))
    return found


def tree_json(tree: Tree, sessions: Sequence[Session], launch: Launch | None, commits: int | None) -> dict[str, object]:
    return {
        "path": tree.path,
        "main": tree.main,
        "branch": tree.branch,
        "head": tree.head,
        "base": launch.base if launch else None,
        "commits": commits,
        "own_commits": tree.own,
        "merged": None if tree.own is None else tree.own == 0,
        "changes": None if tree.changes is None else len(tree.changes),
        "operation": tree.operation,
        "there": tree.there,
        "locked": tree.locked,
        "made_at": output.utc(tree.made_at),
        "group": launch.group if launch else None,
        "slot": launch.slot if launch else None,
        "launch_id": launch.id if launch else None,
        "sessions": [
            {"id": one.id, "agent": one.agent, "status": one.status, "inferred": one.inferred, "process": one.process}
            for one in sessions
        ],
    }


def cells(tree: Tree, sessions: Sequence[Session], launch: Launch | None, commits: int | None) -> tuple[str, ...]:
    branch = output.plain(tree.branch) or ("(bare)" if tree.bare else f"({(tree.head or '')[:12] or 'nothing yet'})")
    changes = "-" if tree.changes is None else str(len(tree.changes))
    age = output.age(tree.made_at, time.time())
    return (
        output.tilde(tree.path),
        branch,
        commits_cell(tree, commits),
        changes,
        age,
        session_cell(sessions),
        note(tree, launch),
    )


def commits_cell(tree: Tree, commits: int | None) -> str:
    if tree.own is None:
        return "-"
    count = "" if commits is None else f"{commits} "
    if tree.own == 0:
        return f"{count}merged".strip() if commits != 0 else "0"
    return f"{tree.own} own" if commits in (None, tree.own) else f"{commits}, {tree.own} own"


def session_cell(sessions: Sequence[Session]) -> str:
    if not sessions:
        return "-"
    first, more = sessions[0], len(sessions) - 1
    return f"{output.status_cell(first)} {first.agent} {output.plain(first.id)[:8]}" + (f" +{more}" if more else "")


def note(tree: Tree, launch: Launch | None) -> str:
    parts = []
    if tree.main:
        parts.append("main")
    if launch is not None and launch.group:
        parts.append(f"{launch.group}/{launch.slot}" if launch.slot else launch.group)
    if not tree.there:
        parts.append("its folder is gone")
    if tree.locked is not None:
        parts.append(f"locked: {tree.locked}" if tree.locked else "locked")
    if tree.operation is not None:
        parts.append(f"in {tree.operation}")
    return output.plain(", ".join(parts))


def table(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    for row in rows:
        print("  ".join(text.ljust(size) for text, size in zip(row, widths, strict=True)).rstrip())


# clean


def run_clean(args: Namespace) -> int:
    if args.merged == bool(args.target):
        raise UsageError("name worktrees (a path, a branch or a group), or --merged for all that are done with")
    if args.merged and args.force:
        raise UsageError("--merged takes only what nothing is lost with; name what you want to --force")
    env, cwd = os.environ, here(args)
    stand = os.path.realpath(os.getcwd())
    options = cleaning.Options(args.force, args.delete_branch, args.dry_run)
    launched, problems = launches.read_all(env)
    if args.merged:
        targets = done_with(cwd, launched)
    else:
        targets = list(dict.fromkeys(one for word in args.target for one in cleaning.find(word, cwd, launched, env)))
    if len(targets) == 1 and not args.merged:
        found: Iterable[Outcome] = [cleaning.clean(*targets[0], options, stand, env)]
    else:
        found = cleaning.outcomes(targets, options, stand, env)
    done = []
    for one in found:  # each as it comes
        done.append(one)
        if one.outcome == cleaning.KEPT:
            print(f"agentctl: {output.plain(one.why)}", file=sys.stderr)
        elif not args.json:
            print(line(one, args.dry_run), flush=True)
    if args.json:
        output.print_json({"dry_run": args.dry_run, "worktrees": [outcome_json(one) for one in done]})
    if not targets:
        print("no worktree of a launch is done with", file=sys.stderr)
    output.warn(problems)
    codes = [one.exit_code for one in done if not (args.merged and one.outcome == cleaning.KEPT)]
    return max(codes, default=0)


def done_with(cwd: str, launched: Sequence[Launch]) -> list[tuple[str, str]]:
    common = inspection.common_folder(cwd, os.environ)
    with Progress("worktrees looked at") as progress:
        trees = inspection.all_trees(common, os.environ, told=progress)
    return [(tree.common, tree.path) for tree in trees if cleaning.is_over(tree, launched)]


def line(one: Outcome, dry_run: bool) -> str:
    would = "would be " if dry_run else ""
    text = f"{output.tilde(one.path)}: {would}{one.outcome}"
    if one.said:
        text += f", {output.plain(one.said)}"
    if one.branch_deleted:
        text += f"; branch {output.plain(one.branch)} {would}deleted (was {(one.head or '')[:12]})"
    elif one.why:
        text += f"; {output.plain(one.why)}"
    elif one.branch is not None:
        text += f"; branch {output.plain(one.branch)} stays"
    return text


def outcome_json(one: Outcome) -> dict[str, object]:
    found = dict(one._asdict())
    del found["exit_code"]
    return found
