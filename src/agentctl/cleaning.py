"""What stands against removing a worktree, and removing it.

What is found out first (inspection.py: git; here: who is in it) is judged by one pure function, `objections`. It is
found out again when nobody else can make a worktree of this repository or launch into one, and only then it is removed.
Nothing that git does not list is ever removed. An agent that a person starts by hand in that instant is not kept out.
"""

from __future__ import annotations

import os

from agentctl import busy, git, inspection, locks, worktrees
from agentctl.errors import AgentctlError, NotFound, Refused
from agentctl.model import ALIVE, UNKNOWN, Value
from agentctl.sessions import Scope, settled_look
from agentctl.stores import real_path
from agentctl.unsaved import HEADS, named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from agentctl.busy import Lock
    from agentctl.inspection import Tree
    from agentctl.model import Launch, Problem
    from agentctl.processes import Processes
    from agentctl.sessions import Look

    Real = Callable[[str], str]

TRIES = "try/"  # the branches of launches in groups: try/<group>/<slot>
REMOVED, PRUNED, KEPT = "removed", "pruned", "kept"
SHOWN = 20


class Options(Value):
    force: bool = False
    delete_branch: bool = False
    dry_run: bool = False


class Objection(Value):
    why: str
    next: str
    firm: bool = True  # also with --force


class Outcome(Value):
    """What came of one worktree; with `dry_run` what would have."""

    path: str
    branch: str | None
    head: str | None
    outcome: str  # removed; pruned: its folder was gone; kept
    why: str | None = None
    branch_deleted: bool = False
    ignored: int = 0  # files and folders that git was told to ignore, and that went with it
    said: str | None = None
    exit_code: int = 0


# Who is in it


def inside(path: str | None, folder: str) -> bool:
    return path is not None and (path == folder or path.startswith(folder.rstrip("/") + "/"))


def who_is_in(folder: str, look: Look, real: Real = real_path) -> list[Objection]:
    """By sessions, by processes that no session explains, by launches, and by whoever else stands there."""
    processes = look.world.processes
    launches_alive = busy.launches_that_live([one.launch for one in look.world.launches], processes)
    holders = list(busy.holders(look.answer, launches_alive))
    found = []
    for holder in holders:
        if inside(real(holder.directory), folder):
            what = f"agentctl stop {holder.who}" if not holder.who.startswith("pid ") else "end it"
            found.append(Objection(f"{holder.agent} {holder.who} {holder.why}", f"stop it first: {what}"))
    for session in look.answer.sessions:
        perhaps = session.process == UNKNOWN and session.rule not in busy.PERHAPS  # those are holders
        if perhaps and session.cwd is not None and inside(real(session.cwd), folder):
            why = f"{session.agent} {session.id}: it cannot be told whether it still runs ({session.reason})"
            found.append(Objection(why, f"see `agentctl why {session.id}`, or --force", firm=False))
    for reading in look.readings:
        if reading.unread is not None:
            why = f"who is there cannot be told: {reading.store.root}: {reading.unread}"
            found.append(Objection(why, "try again, or --force", firm=False))
    agents = {key for holder in holders for key in holder.keys}
    for session in look.answer.sessions:  # also one of which it is not known where it works
        agents |= {str(entry.get("key")) for entry in session.processes if session.process == ALIVE}
    pids = {holder.pid for holder in holders if holder.pid is not None}
    return found + list(standing_in(folder, processes, agents, pids, named_already=any(one.firm for one in found)))


def standing_in(
    folder: str, processes: Processes, agents: set[str], pids: set[int], *, named_already: bool
) -> Iterable[Objection]:
    """Processes that have it as their directory: tools of agents that work elsewhere, and anybody's."""
    for process in processes.living():
        details = processes.details(process)
        if process.pid == os.getpid() or details is None or not inside(details.cwd, folder):
            continue
        line = busy.ancestors_of(process.pid, processes)
        of_agent = any(str(key) in agents or key.pid in pids for key in line)
        if of_agent and named_already:
            continue
        whose = ", of a live session," if of_agent else ""
        why = f"pid {process.pid} ({process.comm}){whose} is in it"
        yield Objection(why, "end it first" if of_agent else "end it first, or --force", firm=of_agent)


def locked_by(
    folder: str, manual: Iterable[Lock], unread: Iterable[Problem], env: Mapping[str, str]
) -> list[Objection]:
    found = []
    for lock in manual:
        if inside(lock.directory, folder):
            reason = f": {lock.reason}" if lock.reason else ""
            found.append(Objection(f"locked by {lock.by}{reason}", f"agentctl unlock {lock.directory}"))
    for problem in unread:
        if problem.path == locks.lock_path(env, folder):
            found.append(Objection(f"{problem.path}: {problem.problem}", f"agentctl unlock --force {folder}"))
    return found


# What stands against it: pure


def objections(tree: Tree, present: Sequence[Objection], cwd: str, *, delete_branch: bool) -> list[Objection]:
    """`present`: who is in it. The firm ones first."""
    found: list[Objection] = []
    if tree.main:
        return [Objection("the main worktree is never removed", "name a linked one: agentctl worktree list")]
    if inside(cwd, tree.real):
        found.append(Objection("you are in it", "cd somewhere else first"))
    if tree.locked is not None:
        reason = f": {tree.locked}" if tree.locked else ""
        found.append(Objection(f"git has it locked{reason}", f"git worktree unlock {tree.path}"))
    if tree.link:
        found.append(Objection("a link to a folder elsewhere", "move it back, or `git worktree repair` it"))
    if tree.mounts:
        found.append(Objection(f"a file system is mounted in it ({named(tree.mounts)})", "unmount it first"))
    if delete_branch and tree.default:
        found.append(Objection(f"{tree.branch} is the repository's own branch", "leave --delete-branch out"))
    if delete_branch and tree.shared:
        found.append(Objection(f"{tree.branch} is checked out elsewhere, too", "leave --delete-branch out"))
    found += [*present, *(losses(tree, delete_branch=delete_branch))]
    return sorted(found, key=lambda one: not one.firm)


def losses(tree: Tree, *, delete_branch: bool) -> list[Objection]:
    """What would be lost with it."""
    why = []
    if tree.there:
        if tree.operation is not None:
            why.append((f"it is in the middle of {tree.operation}", "finish that"))
        if tree.changes is None:
            why.append(("git cannot say whether it has changes", f"try `git status` in {tree.path}"))
        elif tree.changes:
            count = len(tree.changes)
            why.append((f"{count} change{'s' if count > 1 else ''} ({named(tree.changes)})", "commit them"))
        if tree.repositories:
            why.append((f"repositories of their own are in it ({named(tree.repositories)})", "move them away"))
        why += [(one, "push it") for one in tree.in_submodules]
    if tree.head is not None and (tree.branch is None or delete_branch):
        where = tree.branch or "its detached HEAD"
        if tree.own is None:
            why.append((f"git cannot say whether anything else has the commits of {where}", "see `git log` there"))
        elif tree.own:
            commits = f"{tree.own} commit{'s' if tree.own > 1 else ''}"
            keep = "leave --delete-branch out" if tree.branch else "give them a branch: git switch -c NAME"
            why.append((f"{commits} of {where} ({tree.head[:12]}) nowhere else", f"merge them, {keep}"))
    return [Objection(what, f"{instead}, or --force", firm=False) for what, instead in why]


def is_over(tree: Tree, launched: Sequence[Launch]) -> bool:
    """For --merged: made for a launch, as far as that can still be told, and nothing of it is only here. People's own
    worktrees are for people."""
    of_launch = (tree.branch or "").startswith(TRIES) or launch_of(tree, launched) is not None
    return of_launch and not tree.main and tree.own == 0


def launch_of(tree: Tree, launched: Sequence[Launch]) -> Launch | None:
    """The newest one that it was made for."""
    mine = (one for one in launched if one.worktree is not None and real_path(one.worktree) == tree.real)
    return max(mine, key=lambda one: one.created_at, default=None)


# Which


def find(word: str, cwd: str, launched: Sequence[Launch], env: Mapping[str, str]) -> list[tuple[str, str]]:
    """The worktrees that a person means by a path, a branch or a group, each with its repository's git folder. Raises
    NotFound and Refused."""
    here = git.question(cwd, "rev-parse", "--path-format=absolute", "--git-common-dir", env=env)
    home = None if here is None else os.path.realpath(here)
    path = os.path.abspath(os.path.join(cwd, word))
    by_path = trees_at(path, home, env)
    listed = [] if home is None else worktrees.listing(home, env, git.HERE)
    by_branch = [(home, one.path) for one in listed if home and one.branch is not None and one.branch == word]
    by_group = [(home, one.path) for one in listed if home and (one.branch or "").startswith(f"{TRIES}{word}/")]
    members = [one for one in launched if one.group == word and one.worktree and one.repository]
    for launch in members:
        by_group += trees_at(launch.worktree or "", launch.repository, env)
    meant = [found for found in map(unique, (by_path, by_branch, by_group)) if found]
    if not meant:
        if members:
            raise NotFound(f"group {word}: none of its worktrees is there any more")
        if os.path.lexists(path):
            raise Refused(f"{path}: git lists no worktree there; `agentctl worktree list` shows what there is")
        raise NotFound(f"no worktree, branch or group {word!r} here; `agentctl worktree list` shows what there is")
    if any(found != meant[0] for found in meant[1:]):
        several = ", ".join(dict.fromkeys(path for found in meant for _, path in found))
        raise NotFound(f"{word!r} may be any of {several}; say which by its path")
    return meant[0]


def unique(found: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return sorted(set(found))


def trees_at(path: str, common: str | None, env: Mapping[str, str]) -> list[tuple[str, str]]:
    """The worktree that git lists at this path, by whatever way it leads there. `common`: where to look for one whose
    folder is gone."""
    if os.path.isdir(path):
        said = git.question(path, "rev-parse", "--path-format=absolute", "--git-common-dir", env=env)
        common = os.path.realpath(said) if said is not None else common
    if common is None or not os.path.isdir(common):
        return []
    real = os.path.realpath(path)
    try:
        listed = worktrees.listing(common, env, git.HERE)
    except git.GitFailed:
        return []
    return [(common, one.path) for one in listed if os.path.realpath(one.path) == real]


# Removing


def clean(common: str, path: str, options: Options, cwd: str, env: Mapping[str, str]) -> Outcome:
    """Raises Refused where it is kept, with why and what to do."""
    with worktrees.alone(common):
        if not os.path.isdir(path):
            return clean_alone(common, path, options, cwd, env)
        with locks.gate(env, path):
            return clean_alone(common, path, options, cwd, env)


def clean_alone(common: str, path: str, options: Options, cwd: str, env: Mapping[str, str]) -> Outcome:
    tree = inspection.one_tree(common, path, env)
    if tree is None:
        raise NotFound(f"{path}: git does not list it any more")
    refuse(tree, present_in(tree, env), cwd, options)
    outcome = PRUNED if not tree.there else REMOVED
    done = Outcome(path, tree.branch, tree.head, outcome, ignored=len(tree.ignored), said=notes(tree))
    if not options.dry_run:
        remove(tree, options, env)
    if options.delete_branch and tree.branch is not None and tree.head is not None:
        if options.dry_run:
            return done._replace(branch_deleted=True)
        return delete_branch(tree, done, env)
    return done


def present_in(tree: Tree, env: Mapping[str, str]) -> list[Objection]:
    """The last look before it is removed."""
    manual, unread = locks.read_all(env)
    return [*locked_by(tree.real, manual, unread, env), *who_is_in(tree.real, settled_look(Scope(), env))]


def refuse(tree: Tree, present: Sequence[Objection], cwd: str, options: Options) -> None:
    found = objections(tree, present, cwd, delete_branch=options.delete_branch)
    if standing := [one for one in found if one.firm or not options.force]:
        first, more = standing[0], len(standing) - 1
        also = f" (and {more} more: {'; '.join(one.why for one in standing[1:4])})" if more else ""
        raise Refused(f"{tree.path}: {first.why}{also}; {first.next}")


def notes(tree: Tree) -> str | None:
    if not tree.ignored:
        return None
    count = len(tree.ignored)
    return f"{count} ignored {'entry' if count == 1 else 'entries'} with it ({named(tree.ignored)})"


def remove(tree: Tree, options: Options, env: Mapping[str, str]) -> None:
    """Without --force git looks for changes once more. Submodules it removes with --force only; we looked into them."""
    force = ("--force",) if options.force or tree.submodules else ()
    words = (git.HERE, "worktree", "remove", *force, "--", tree.path)
    ran = git.run(tree.common, *words, env=env, patience=git.CHECKOUT_PATIENCE)
    if ran.code != 0:
        raise Refused(f"{tree.path}: git could not remove it: {git.why(ran)}; see `git worktree list`")


def delete_branch(tree: Tree, done: Outcome, env: Mapping[str, str]) -> Outcome:
    """Only if it still is where it was looked at: git compares and deletes in one step."""
    words = (git.HERE, "update-ref", "-d", f"{HEADS}{tree.branch}", tree.head or "")
    ran = git.run(tree.common, *words, env=env)
    if ran.code == 0:
        return done._replace(branch_deleted=True)
    return done._replace(why=f"its branch {tree.branch} stays: {git.why(ran)}", exit_code=Refused.exit_code)


def outcomes(
    targets: Sequence[tuple[str, str]], options: Options, cwd: str, env: Mapping[str, str]
) -> Iterable[Outcome]:
    """One after the other: what one of them is kept for keeps nobody from the others."""
    for common, path in targets:
        try:
            yield clean(common, path, options, cwd, env)
        except AgentctlError as error:
            yield Outcome(path, None, None, KEPT, why=str(error), exit_code=error.exit_code)
