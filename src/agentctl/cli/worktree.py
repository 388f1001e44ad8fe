"""agentctl worktree list|clean: list the worktrees of a repository and who works there; remove finished ones."""

from __future__ import annotations

import os
import sys
import time

from agentctl.cli import format, output
from agentctl.errors import NotFound, TruthUnavailable, UsageError
from agentctl.files.bounded import real_path
from agentctl.launches import records
from agentctl.model import GONE, UNKNOWN
from agentctl.query.sessions import RECENT, Scope, query, unread_words
from agentctl.workspace import branches, clean, inspect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterable, Sequence

    from agentctl.model import Launch, Problem, Session
    from agentctl.workspace.branches import Leftover
    from agentctl.workspace.clean import Outcome
    from agentctl.workspace.inspect import Tree

EPILOG = """\
`agentctl worktree list --help` and `agentctl worktree clean --help` show the
options.

examples:
  agentctl worktree list              branch, commits, changes, and who works or
                                      worked there
  agentctl worktree clean g-7k2p      remove the worktrees of a group
  agentctl worktree clean --merged    remove those whose work is merged
"""
LIST_EPILOG = """\
The main worktree comes first.

COMMITS   how many since the commit that its launch began with, if that is still
          known; `merged` if another branch, remote branch, tag or worktree has
          all of them
CHANGES   how many files have changes, untracked files included, ignored files
          not
SESSION   the sessions whose directory is inside: live ones first, otherwise the
          newest of the last 7 days; ? if there is none in what could be read

examples:
  agentctl worktree list
  agentctl worktree list ~/src/project --json
      {"schema": 1, "repository", "worktrees": [...], "problems": [...]}
"""
CLEAN_EPILOG = """\
TARGET is the path of a worktree, its branch, or a group. The branch stays,
unless you give --delete-branch; that also removes the branches of a group whose
worktrees are gone already.

clean refuses (exit code 4) and says why:
- if a session in the worktree is alive or may be alive, or an agent's process
  is in it. Stop it first; --force does not help.
- if `agentctl lock` or `git worktree lock` holds it
- if it is the main worktree, or the one that you are in
- unless you give --force: if work would be lost (changes, untracked files,
  submodules or repositories inside that have something of their own, commits
  of a detached HEAD or, with --delete-branch, of the branch that exist nowhere
  else), if a rebase or merge is in progress, or if other processes are in it

clean removes ignored files too, and names them. Commits that were squashed or
rebased do not count as merged: git has no record of that. If the folder of a
worktree is already gone, clean removes only git's entry. --merged considers
only worktrees that `agentctl launch` made.

examples:
  agentctl worktree clean ../project-g-7k2p-opus
  agentctl worktree clean g-7k2p --delete-branch    a group, with its branches
  agentctl worktree clean --merged --dry-run        what would go, and what
                                                    stays, and why
  agentctl worktree clean g-7k2p --json
      {"schema": 1, "dry_run", "worktrees": [...]}
"""
COLUMNS = ("WORKTREE", "BRANCH", "COMMITS", "CHANGES", "AGE", "SESSION", "NOTE")
FLEXIBLE = {"WORKTREE": 12, "BRANCH": 12, "SESSION": 16, "NOTE": 8}  # the columns that are cut, and how narrow
OPTIONAL = ("AGE", "COMMITS", "NOTE", "CHANGES", "BRANCH")  # left out on a narrow terminal, in this order


def add_arguments(parser: ArgumentParser) -> None:
    from agentctl.cli import help_format

    verbs = parser.add_subparsers(dest="what", metavar="list|clean", required=True)
    shown = verbs.add_parser(
        "list", help="list the worktrees of a repository", epilog=LIST_EPILOG, formatter_class=help_format
    )
    shown.add_argument("directory", nargs="?", metavar="DIR", help="somewhere in the repository (default: here)")
    cleaned = verbs.add_parser("clean", help="remove worktrees", epilog=CLEAN_EPILOG, formatter_class=help_format)
    cleaned.add_argument("target", nargs="*", metavar="TARGET", help="the path of a worktree, its branch, or a group")
    cleaned.add_argument("--merged", action="store_true", help="all that launch made and whose work is merged")
    cleaned.add_argument("--delete-branch", action="store_true", help="also the branch, if another ref has its commits")
    cleaned.add_argument("--force", action="store_true", help="even if work would be lost; never if a session is alive")
    cleaned.add_argument("--dry-run", action="store_true", help="remove nothing, show what would be removed")
    for one in (shown, cleaned):
        one.allow_abbrev = False
        one.add_argument("--cwd", metavar="DIR", help="somewhere in the repository (default: here)")
        one.add_argument("--json", action="store_true", help="print JSON")


def run(args: Namespace) -> int:
    return run_list(args) if args.what == "list" else run_clean(args)


def here(args: Namespace) -> str:
    return os.path.realpath(args.cwd) if args.cwd is not None else os.getcwd()


# list


def run_list(args: Namespace) -> int:
    if args.directory is not None and args.cwd is not None:
        raise UsageError("give either DIR or --cwd, not both")
    env = os.environ
    cwd = os.path.realpath(args.directory) if args.directory is not None else here(args)
    common = inspect.common_folder(cwd, env)
    with format.Progress("worktrees looked at") as progress:
        trees = inspect.all_trees(common, env, progress=progress)
    answer = query(Scope(since=time.time() - RECENT))
    launched, _ = records.read_all(env)  # the problems of the answer name launches that cannot be read
    rows = []
    for tree, sessions in zip(trees, by_tree(trees, answer.sessions), strict=True):
        launch = clean.launch_of(tree, launched)
        base = launch.base if launch is not None else None
        rows.append((tree, sessions, launch, inspect.commits_since(common, base, tree.head, env)))
    if args.json:
        output.print_json(
            {
                "repository": common,
                "worktrees": [tree_json(*row) for row in rows],
                "problems": [output.problem_json(problem) for problem in answer.problems],
            }
        )
        return 0
    lines = [cells(*row, complete=not answer.problems) for row in rows]
    columns = format.columns_of(COLUMNS, lines)
    format.table(columns, flexible=FLEXIBLE, optional=OPTIONAL, brief={"SESSION": without_agent})
    output.warn(answer.problems)
    return 0


def by_tree(trees: Sequence[Tree], sessions: Sequence[Session]) -> list[list[Session]]:
    """Return the sessions of each worktree, live ones first, then the newest. A session belongs to the innermost
    worktree that holds its directory."""
    found: list[list[Session]] = [[] for _ in trees]
    for session in sessions:
        cwd = real_path(session.cwd) if session.cwd is not None else None
        around = [number for number, tree in enumerate(trees) if clean.inside(cwd, tree.real)]
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


def cells(
    tree: Tree, sessions: Sequence[Session], launch: Launch | None, commits: int | None, *, complete: bool = True
) -> tuple[str, ...]:
    branch = output.plain(tree.branch) or ("(bare)" if tree.bare else f"({(tree.head or '')[:12] or 'nothing yet'})")
    changes = "-" if tree.changes is None else str(len(tree.changes))
    age = format.age(tree.made_at, time.time())
    return (
        output.tilde(tree.path),
        branch,
        commits_cell(tree, commits),
        changes,
        age,
        session_cell(sessions, complete=complete),
        note(tree, launch),
    )


def commits_cell(tree: Tree, commits: int | None) -> str:
    if tree.own is None:
        return "-"
    count = "" if commits is None else f"{commits} "
    if tree.own == 0:
        return f"{count}merged".strip() if commits != 0 else "0"
    return f"{tree.own} own" if commits in (None, tree.own) else f"{commits}, {tree.own} own"


def session_cell(sessions: Sequence[Session], *, complete: bool) -> str:
    if not sessions:
        return "-" if complete else "?"
    first, more = sessions[0], len(sessions) - 1
    return f"{output.status_cell(first)} {first.agent} {output.short(first.id)}" + (f" +{more}" if more else "")


def without_agent(cell: str) -> str:
    """Return a cell of SESSION in fewer words, so that its id is not cut."""
    status, *words = cell.split(" ")
    return " ".join([status, *words[1:]])


def note(tree: Tree, launch: Launch | None) -> str:
    parts = []
    if tree.main:
        parts.append("main")
    if launch is not None and launch.group:
        parts.append(f"{launch.group}/{launch.slot}" if launch.slot else launch.group)
    if not tree.there:
        parts.append("folder is gone")
    if tree.locked is not None:
        parts.append(f"locked: {tree.locked}" if tree.locked else "locked")
    if tree.operation is not None:
        parts.append(f"in {tree.operation}")
    return output.plain(", ".join(parts))


# clean


def run_clean(args: Namespace) -> int:
    if args.merged == bool(args.target):
        raise UsageError("which worktrees? Give a path, a branch or a group, or --merged for all that are merged")
    if args.merged and args.force:
        raise UsageError("--merged never removes work; to use --force, name the worktrees")
    env, cwd = os.environ, here(args)
    stand = os.path.realpath(os.getcwd())
    options = clean.Options(args.force, args.delete_branch, args.dry_run)
    launched, problems = records.read_all(env)
    left = leftovers(args.target, cwd, launched) if args.delete_branch else []
    if args.merged:
        targets = done_with(cwd, launched)
    else:
        targets = find_all(args.target, cwd, launched, problems, left)
    if len(targets) == 1 and not args.merged and not left:
        found: Iterable[Outcome] = [clean.clean(*targets[0], options, stand, env)]
    else:
        found = (*clean.outcomes(targets, options, stand, env), *branches.outcomes(left, options, env))
    done = []
    for one in found:  # print each when it is done
        done.append(one)
        if one.outcome == clean.KEPT:
            print(f"agentctl: {output.plain(one.why)}", file=sys.stderr)
        elif not args.json:
            print(line(one, args.dry_run), flush=True)
    if args.json:
        output.print_json({"dry_run": args.dry_run, "worktrees": [outcome_json(one) for one in done]})
    if not targets and not left:
        nothing = "no worktree of a launch is finished and merged"
        print(output.in_what_was_read(nothing, problems), file=sys.stderr)
    output.warn(problems)
    codes = [one.exit_code for one in done if not (args.merged and one.outcome == clean.KEPT)]
    return max(codes, default=0)


def leftovers(words: Sequence[str], cwd: str, launched: Sequence[Launch]) -> list[Leftover]:
    """Return the branches without a worktree that a person means by a group, or by the name of one."""
    return list(dict.fromkeys(one for word in words for one in branches.leftovers(word, cwd, launched, os.environ)))


def find_all(
    words: Sequence[str],
    cwd: str,
    launched: Sequence[Launch],
    problems: Sequence[Problem],
    left: Sequence[Leftover] = (),
) -> list[tuple[str, str]]:
    """Return the worktrees that a person means. Raises as `clean.find`, unless there is a branch without a worktree
    (`left`); TruthUnavailable if a group was not found, and a launch that could not be read may be of it."""
    try:
        return list(dict.fromkeys(one for word in words for one in clean.find(word, cwd, launched, os.environ)))
    except NotFound as error:
        if left and len(words) == 1:
            return []
        if unread := unread_words(problems):
            raise TruthUnavailable(f"{error}{unread}") from None
        raise


def done_with(cwd: str, launched: Sequence[Launch]) -> list[tuple[str, str]]:
    common = inspect.common_folder(cwd, os.environ)
    with format.Progress("worktrees looked at") as progress:
        trees = inspect.all_trees(common, os.environ, progress=progress)
    return [(tree.common, tree.path) for tree in trees if clean.is_over(tree, launched)]


def line(one: Outcome, dry_run: bool) -> str:
    would = "would be " if dry_run else ""
    if one.path is None:
        return f"branch {output.plain(one.branch)}: {would}deleted (was {(one.head or '')[:12]})"
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
