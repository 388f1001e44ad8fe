"""Removes worktrees, if nothing stands against it.

One pure function, `objections`, judges the facts (inspect.py asks git; this module asks who is in it). agentctl gathers
them again while nobody else can make a worktree of this repository or launch into one, and only then removes it. It
never removes what git does not list. It cannot keep out an agent that a person starts by hand in that instant.
"""

from __future__ import annotations

import os
from contextlib import suppress
from types import MappingProxyType

from agentctl.errors import AgentctlError, NotFound, Refused, shown_command
from agentctl.files.bounded import real_path
from agentctl.kernel import open_files, places
from agentctl.launches import groups, hooks, records
from agentctl.model import ALIVE, UNKNOWN, Value
from agentctl.query import remembered
from agentctl.workspace import git, inspect, locks, marks, occupancy, presence, worktree
from agentctl.workspace.commits import HEADS
from agentctl.workspace.unsaved import named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from agentctl.kernel.places import Place
    from agentctl.kernel.processes import Processes
    from agentctl.model import Launch, Problem, Process
    from agentctl.query.sessions import Look
    from agentctl.workspace.inspect import Tree
    from agentctl.workspace.occupancy import Holder, Lock, Where
    from agentctl.workspace.presence import Presence

    Found = tuple[str, str]  # the git folder of a repository, and the path of one of its worktrees

TRIES = "try/"  # the branches of launches in groups: try/<group>/<slot>
REMOVED, PRUNED, KEPT = "removed", "pruned", "kept"
SHOWN = 20
CLOSED = "make it writable first: chmod -R u+rwX"


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

    path: str | None  # None: only a branch was left
    branch: str | None
    head: str | None
    outcome: str  # removed; pruned: its folder was gone; deleted: only a branch was left; kept
    why: str | None = None
    branch_deleted: bool = False
    ignored: int = 0  # files and folders that git was told to ignore, and that went with it
    said: str | None = None
    exit_code: int = 0


# Who is in it


def inside(path: str | None, folder: str) -> bool:
    return path is not None and (path == folder or path.startswith(folder.rstrip("/") + "/"))


class Folder(Value):
    """The folder of a worktree, by what it is: processes and locks may know it under other paths."""

    path: str  # its real path
    place: Place | None = None
    directories: Mapping[tuple[int, int], str] = MappingProxyType({})  # its own, and all in it
    closed: tuple[str, ...] = ()  # what in it cannot be removed

    def holds(self, theirs: Place) -> bool:
        """Return whether this directory is the folder, or in it."""
        related = places.relation(theirs, self.place) if self.place is not None else None
        return theirs.at in self.directories or related in (places.SAME, places.BELOW)

    def path_of(self, at: tuple[int, int] | None) -> str:
        """Return the path of this directory, if it is in the folder; else that of the folder."""
        return self.path if at is None else self.directories.get(at, self.path)

    def holds_path(self, path: str | None) -> bool:
        """Return the same for a path of ours, which may have been removed since."""
        return inside(real_path(path), self.path) if path is not None else False


def folder_of(tree: Tree) -> Folder:
    if not tree.there:
        return Folder(tree.real)
    found = places.contents_of(tree.real)
    return Folder(tree.real, places.of_path(tree.real), found.directories, found.closed)


def who_is_in(folder: Folder, present: Presence) -> list[Objection]:
    """Return who objects: sessions, processes that no session explains, launches, and whoever else stands there."""
    look, holders = present.look, present.holders
    processes = look.world.processes
    working = [*held_by(holders, folder, present.where), *doubts_about(look, folder)]
    agents = {key for holder in holders for key in holder.keys}
    for session in look.answer.sessions:  # also one of which it is not known where it works
        agents |= {str(entry.get("key")) for entry in session.processes if session.process == ALIVE}
    pids = {holder.pid for holder in holders if holder.pid is not None}
    return working + list(standing_in(folder, processes, agents, pids, named_already=any(one.firm for one in working)))


def held_by(holders: Iterable[Holder], folder: Folder, where: Where) -> Iterator[Objection]:
    """Yield an objection for each holder of a directory in this folder, and for each that may be anywhere."""
    for holder in holders:
        theirs = where.of(holder)
        by_path = folder.place is None or not holder.pids  # of a folder that is away, only the path is known
        if any(map(folder.holds, theirs)) or (by_path and folder.holds_path(holder.directory)):
            what = shown_command("agentctl", "stop", holder.who) if not holder.who.startswith("pid ") else "end it"
            hint = f"stop it first: {what}" if holder.sure else "look where it was started, or --force"
            yield Objection(f"{holder.agent} {holder.who} {holder.why}", hint, firm=holder.sure)
        elif where.lost(holder, theirs):
            why = f"{holder.agent} {holder.who} {holder.why}, and it cannot be told in which directory"
            yield Objection(why, "look where it was started, or --force", firm=False)


def doubts_about(look: Look, folder: Folder) -> Iterator[Objection]:
    """Yield an objection for each session in this folder that may still run, and for each store that was not read."""
    for session in look.answer.sessions:
        perhaps = session.process == UNKNOWN and occupancy.of_session(session) is None  # else it is a holder
        if perhaps and folder.holds_path(session.cwd):
            why = f"{session.agent} {session.id}: it cannot be told whether it still runs ({session.reason})"
            yield Objection(why, f"see `agentctl why {session.id}`, or --force", firm=False)
    for reading in look.readings:
        if reading.unread is not None:
            why = f"who is there cannot be told: {reading.store.root}: {reading.unread}"
            yield Objection(why, "try again, or --force", firm=False)


def with_open_hooks(folder: Folder, launched: Iterable[Launch], processes: Processes) -> Iterator[Objection]:
    """Yield an objection for each launch in this folder that is not over: its agent has ended, and its runner lives and
    has not run the hook yet. The hook that runs this command does not object to itself."""
    ours = set(processes.ancestors(os.getpid()))
    for launch in launched:
        if hooks.ON_COMPLETE not in (name for name, _ in launch.hooks) or not folder.holds_path(launch.cwd):
            continue
        if processes.alive(processes.own(launch.runner)) is None or processes.alive(processes.own(launch.child)):
            continue
        own = os.path.dirname(launch.path or "")
        if hooks.completed(own) and processes.own(launch.runner) in ours:
            continue  # it has begun, and it is this hook that asks
        if all(ran.name != hooks.ON_COMPLETE for ran in hooks.results(own)):
            yield Objection(
                f"launch {launch.id} has not run its {hooks.ON_COMPLETE} yet", "try again, or --force", False
            )


def standing_in(
    folder: Folder, processes: Processes, agents: set[str], pids: set[int], *, named_already: bool
) -> Iterable[Objection]:
    """Yield an objection for each process that has its directory in this folder: tools of agents, and anybody's."""
    for process in processes.living():
        if process.pid == os.getpid() or (how := how_in(folder, process, processes)) is None:
            continue
        line = processes.ancestors(process.pid)
        of_agent = any(str(key) in agents or key.pid in pids for key in line)
        if of_agent and named_already:
            continue
        whose = ", of a live session," if of_agent else ""
        why = f"pid {process.pid} ({process.comm}){whose} {how}"
        yield Objection(why, "end it first" if of_agent else "end it first, or --force", firm=of_agent)


def how_in(folder: Folder, process: Process, processes: Processes) -> str | None:
    """Return how a process is in this folder: by the directory that it is in, by the path of one that was removed, or
    by a file that it uses; None if it is not."""
    if processes.directory(process) in folder.directories:
        return "is in it"
    details = processes.details(process)
    if details is not None and inside(details.cwd, folder.path):
        return "is in it"
    used = next((path for path in open_files.used_by(process.pid) if inside(path, folder.path)), None)
    return f"uses {os.path.relpath(used, folder.path)} in it" if used is not None else None


def locked_by(
    folder: Folder, manual: Iterable[Lock], unread: Iterable[Problem], env: Mapping[str, str]
) -> list[Objection]:
    """Return an objection for each lock of a directory in this folder, or above it."""
    found = []
    where = occupancy.Where()
    for lock in manual:
        theirs = where.of_lock(lock, near=folder.path_of(lock.identity))
        above = folder.place is not None and any(
            places.relation(place, folder.place) == places.ABOVE for place in theirs
        )
        if above or any(map(folder.holds, theirs)) or inside(lock.directory, folder.path):
            reason = f": {lock.reason}" if lock.reason else ""
            at = f" in {lock.directory}, above it" if above else ""
            found.append(
                Objection(f"locked by {lock.by}{at}{reason}", shown_command("agentctl", "unlock", lock.directory))
            )
    for problem in unread:  # whichever it is of: it may be the lock of a directory inside
        mine = problem.path == locks.lock_path(env, folder.path)
        way = locks.way_out(problem, folder.path if mine else None)
        found.append(Objection(f"{problem.path}: {problem.problem}", way))
    return found


# What stands against it: pure


def objections(tree: Tree, present: Sequence[Objection], cwd: str, *, delete_branch: bool) -> list[Objection]:
    """Return what stands against removing a worktree, the firm ones first. `present`: who is in it."""
    found: list[Objection] = []
    if tree.main:
        return [Objection("the main worktree is never removed", "name a linked one: agentctl worktree list")]
    if inside(cwd, tree.real):
        found.append(Objection("you are in it", "cd somewhere else first"))
    if tree.locked is not None:
        reason = f": {tree.locked}" if tree.locked else ""
        found.append(Objection(f"git has it locked{reason}", shown_command("git", "worktree", "unlock", tree.path)))
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
    """Return what would be lost with it."""
    why = []
    if tree.operation is not None:
        why.append((f"it is in the middle of {tree.operation}", "finish that"))
    elif tree.unknown:
        what = f"git's own folder of it has {named(tree.unknown)}, and it cannot be told what that is for"
        why.append((what, f"see `git status` in {tree.path}"))
    if tree.there:
        if tree.changes is None:
            why.append(("git cannot say whether it has changes", f"try `git status` in {tree.path}"))
        elif tree.changes:
            count = len(tree.changes)
            why.append((f"{count} change{'s' if count > 1 else ''} ({named(tree.changes)})", "commit them"))
        if tree.repositories:
            why.append((f"repositories of their own are in it ({named(tree.repositories)})", "move them away"))
        why += [(what, "push it") for what in tree.in_submodules]
        why += [(what, f"see for yourself in {tree.path}") for what in tree.unread]
    else:
        if tree.staged is None:
            why.append(("git cannot say whether anything was staged in it", "see `git worktree list`"))
        elif tree.staged:
            why.append((f"only git's index of it has what was staged ({named(tree.staged)})", "put its folder back"))
    why += [(what, "give them a branch: git branch NAME COMMIT") for what in tree.in_own_folder]
    if tree.head is not None and (tree.branch is None or delete_branch):
        why += lost_commits(tree, tree.head)
    return [Objection(what, f"{instead}, or --force", firm=False) for what, instead in why]


def lost_commits(tree: Tree, head: str) -> Iterator[tuple[str, str]]:
    """Yield which commits nothing else has, and what to do."""
    where = tree.branch or "its detached HEAD"
    if tree.own is None:
        yield f"git cannot say whether anything else has the commits of {where}", "see `git log` there"
    elif tree.own:
        commits = f"{tree.own} commit{'s' if tree.own > 1 else ''}"
        keep = "leave --delete-branch out" if tree.branch else "give them a branch: git switch -c NAME"
        yield f"{commits} of {where} ({head[:12]}) nowhere else", f"merge them, {keep}"


def is_over(tree: Tree, launched: Sequence[Launch]) -> bool:
    """For --merged: made for a launch, by its record or by our mark in git's folder of it, and nothing of it is only
    here. People's own worktrees are for people, whatever their branches are called."""
    if tree.main or tree.own != 0:
        return False
    return launch_of(tree, launched) is not None or marks.is_ours(tree.common, tree.path, tree.branch)


def launch_of(tree: Tree, launched: Sequence[Launch]) -> Launch | None:
    """The newest one that it was made for."""
    at = (one for one in launched if one.worktree is not None and real_path(one.worktree) == tree.real)
    mine = (one for one in at if inspect.was_there_for(one, tree.made_at))
    return max(mine, key=lambda one: one.created_at, default=None)


# Which


def find(word: str, cwd: str, launched: Sequence[Launch], env: Mapping[str, str]) -> list[Found]:
    """Return the worktrees that a person means by a path, a branch or a group: that of this repository, if it has one
    of this name. Raises NotFound and Refused."""
    home = git_folder_of(cwd, env)
    path = os.path.realpath(os.path.join(cwd, word))  # the kernel's meaning of `..` behind a link
    by_path = trees_at(path, home, env)
    branches = branches_of(home, env)
    by_branch = [place for branch, place in branches if branch == word]
    by_group = [place for branch, place in branches if branch.startswith(f"{TRIES}{word}/")]
    members = members_of(word, launched, cwd, home if by_path or by_branch or by_group else None)
    for launch in members:
        by_group += given_to(launch, env)
    meanings = [trees for trees in map(unique, (by_path, by_branch, by_group)) if trees]
    if not meanings:
        raise not_found(word, path, has_members=bool(members))
    if any(trees != meanings[0] for trees in meanings[1:]):
        several = ", ".join(dict.fromkeys(path for trees in meanings for _, path in trees))
        raise NotFound(f"{word!r} may be any of {several}; say which by its path")
    return meanings[0]


def members_of(word: str, launched: Sequence[Launch], cwd: str, home: str | None) -> list[Launch]:
    """Return the launches of a group that were given worktrees. `home`: only those of this repository, which has
    something of that name. Raises SeveralGroups."""
    mine = [one for one in launched if one.group == word and one.worktree and one.repository]
    if home is None:
        return groups.meant(word, mine, cwd)
    return [one for one in mine if groups.repository_of(one) == home]


def not_found(word: str, path: str, *, has_members: bool) -> AgentctlError:
    if has_members:
        return NotFound(
            f"group {word}: none of its worktrees is there any more; --delete-branch removes the branches it left"
        )
    if os.path.lexists(path):
        return Refused(f"{path}: git lists no worktree there; `agentctl worktree list` shows what there is")
    return NotFound(f"no worktree, branch or group {word!r} here; `agentctl worktree list` shows what there is")


def unique(trees: Iterable[Found]) -> list[Found]:
    return sorted(set(trees))


def git_folder_of(path: str, env: Mapping[str, str]) -> str | None:
    """Return the git folder of the repository that a folder is in; None if it is in none. Raises GitFailed."""
    ran = git.run(path, "rev-parse", "--path-format=absolute", "--git-common-dir", env=env)
    if ran.code == 0:
        return os.path.realpath(git.text(ran.out))
    if git.NO_REPOSITORY in ran.err:
        return None
    raise git.GitFailed(f"{path}: git rev-parse: {git.why(ran)}")


def branches_of(common: str | None, env: Mapping[str, str]) -> list[tuple[str, Found]]:
    """Return the branches that are checked out in the worktrees of a repository, each with its place."""
    if common is None:
        return []
    return [(one.branch, (common, one.path)) for one in worktree.listing(common, env, git.HERE) if one.branch]


def trees_at(path: str, common: str | None, env: Mapping[str, str]) -> list[Found]:
    """Return the worktree that git lists at this path, however the path leads there. `common`: the repository of one
    whose folder is gone. Raises GitFailed: that git cannot list them does not mean that there are none."""
    listed_here = common is not None and worktree.admin_folder(common, path) is not None
    if os.path.isdir(path) and not listed_here:  # what the folder itself says may be an agent's word
        common = git_folder_of(path, env) or common
    if common is None or not os.path.isdir(common):
        return []
    real = os.path.realpath(path)
    listed = worktree.listing(common, env, git.HERE)
    return [(common, one.path) for one in listed if os.path.realpath(one.path) == real]


def given_to(launch: Launch, env: Mapping[str, str]) -> list[Found]:
    """Return the worktree that a launch was given, if it is still there, and not another one at its path."""
    found = trees_at(launch.worktree or "", launch.repository, env)
    admin = [worktree.admin_folder(*one) for one in found]
    return [
        one
        for one, own in zip(found, admin, strict=True)
        if own is not None and inspect.was_there_for(launch, inspect.made_at(own))
    ]


# Removing


def clean(common: str, path: str, options: Options, cwd: str, env: Mapping[str, str]) -> Outcome:
    """Remove a worktree. Raises Refused if it stays, with why and what to do."""
    with worktree.keep_others_out(common):
        if not os.path.isdir(path):
            return clean_held(common, path, options, cwd, env)
        with locks.gate(env, path):
            return clean_held(common, path, options, cwd, env)


def clean_held(common: str, path: str, options: Options, cwd: str, env: Mapping[str, str]) -> Outcome:
    tree = inspect.one_tree(common, path, env)
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
    """Return who objects, by the last look before it is removed."""
    manual, unread = locks.read_all(env)
    folder = folder_of(tree)
    found = [Objection(f"it could not be removed whole ({named(folder.closed)})", CLOSED)] if folder.closed else []
    return [*found, *locked_by(folder, manual, unread, env), *everybody_in(folder, env)]


def everybody_in(folder: Folder, env: Mapping[str, str]) -> list[Objection]:
    present = presence.look_around(env)
    launched, _ = records.read_all(env)
    hooks_there = with_open_hooks(folder, launched, present.look.world.processes)
    return [*who_is_in(folder, present), *hooks_there, *kept_in(folder, present.look, env)]


def kept_in(folder: Folder, look: Look, env: Mapping[str, str]) -> Iterator[Objection]:
    """Yield an objection for each store of an agent in this folder, and for the state folder."""
    for reading in look.readings:
        if not (reading.absent or reading.stalled) and folder.holds_path(root := reading.store.root):
            why = f"{reading.agent.NAME} keeps its sessions in it ({root})"
            yield Objection(why, "move them away, or --force", firm=False)
    if folder.holds_path(state := records.state_folder(env)):
        yield Objection(f"agentctl keeps its own state in it ({state})", "move it, and set AGENTCTL_HOME")


def why_it_must_stay(common: str, path: str, env: Mapping[str, str]) -> str | None:
    """Return why a worktree that a launch made must not be taken back; None if it may. A lock is no reason: it kept the
    agent out. Raises GitFailed."""
    tree = inspect.one_tree(common, path, env)
    if tree is None or not tree.there:
        return None
    found = [*everybody_in(folder_of(tree), env), *losses(tree, delete_branch=False)]
    return f"{path}: {found[0].why}" if found else None


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
    """Let git remove a worktree. Without --force git looks for changes once more. It removes one with submodules only
    with --force; we have looked into them."""
    force = ("--force",) if options.force or tree.submodules else ()
    words = (git.HERE, "worktree", "remove", *force, "--", tree.path)
    paths = [path for paths in remembered.recall(env).roots.values() for path in paths]
    stores = [path for path in paths if inside(real_path(path), tree.real)]
    ran = git.run(tree.common, *words, env=env, patience=git.CHECKOUT_PATIENCE)
    if ran.code != 0:
        raise Refused(f"{tree.path}: git could not remove it: {git.why(ran)}; see `git worktree list`")
    for path in stores:  # with --force; else each was an objection
        with suppress(OSError, AgentctlError):  # then every answer says that it is gone
            remembered.forget(path, env)


def delete_branch(tree: Tree, done: Outcome, env: Mapping[str, str]) -> Outcome:
    """Delete its branch, only if that still points to the same commit: git compares and deletes in one step."""
    words = (git.HERE, "update-ref", "-d", f"{HEADS}{tree.branch}", tree.head or "")
    ran = git.run(tree.common, *words, env=env)
    if ran.code == 0:
        return done._replace(branch_deleted=True)
    return done._replace(why=f"its branch {tree.branch} stays: {git.why(ran)}", exit_code=Refused.exit_code)


def outcomes(
    targets: Sequence[tuple[str, str]], options: Options, cwd: str, env: Mapping[str, str]
) -> Iterable[Outcome]:
    """Yield what came of each, one after the other: one that stays does not keep the others."""
    for common, path in targets:
        try:
            yield clean(common, path, options, cwd, env)
        except AgentctlError as error:
            yield Outcome(path, None, None, KEPT, why=str(error), exit_code=error.exit_code)
