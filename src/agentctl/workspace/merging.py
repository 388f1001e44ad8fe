"""A merge that is made in git's objects alone, and only then brought into a worktree.

No setting of the person, no hook and no file of a worktree has a say in the first part, and nothing but objects is
written. What would change is then compared with the worktree. Git's exit code alone does not say that nothing was
changed: that is compared, too.
"""

from __future__ import annotations

import os
import time

from agentctl.errors import Refused
from agentctl.model import Value
from agentctl.workspace import contents, git, scratch_index, undo, unsaved
from agentctl.workspace.commits import HEADS
from agentctl.workspace.undo import NOTHING
from agentctl.workspace.unsaved import GITLINK, named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

LOCK_PATIENCE, GLANCE = 1.0, 0.05  # seconds: editors ask git all the time
CONFLICTS = 1  # git's exit code for them
USAGE = 129
# As if nothing was set. Drivers that .gitattributes names for single files are the repository's own.
PLAIN = tuple(
    word
    for setting in ("merge.renames=true", "merge.directoryRenames=conflict", "merge.default=text")
    for word in ("-c", setting)
)
NO_HOOKS = ("-c", f"core.hooksPath={os.devnull}")


class Change(Value):
    """One file that the merge changes."""

    path: str
    was: str  # its mode
    mode: str
    id: str


class State(Value):
    """What a worktree is: where HEAD is, what the index has, what git shows as changed."""

    head: str | None
    index: tuple[tuple[str, str, str], ...]
    status: tuple[tuple[str, str], ...] | None


# Making it: only objects


def committed(worktree: str, head: str, message: str, env: Mapping[str, str]) -> str:
    """Make a commit of all that is in a worktree, and return it. No branch points to it. Raises Refused if something
    cannot be in it, and GitFailed."""
    with scratch_index.copied(worktree, env) as index:
        more = {"GIT_INDEX_FILE": index}
        at = (git.THIS_TREE, *scratch_index.ON_ITS_OWN)
        done(worktree, *at, "add", "--all", env=env, more=more)
        tree = done(worktree, *at, "write-tree", env=env, more=more)
        found = unsaved.status(worktree, env, more)
    if found is None:
        raise git.GitFailed(f"{worktree}: git status failed; see for yourself there")
    left = [name for letters, name in found if letters[1:] != " "]
    if left:
        raise Refused(f"{worktree}: what is in {named(left)} cannot be committed from outside; commit it there")
    return commit_of(worktree, tree, [head], message, env)


def merged(top: str, ours: str, theirs: str, message: str, env: Mapping[str, str]) -> str:
    """Return a commit that has both: `theirs` itself if it has ours. Raises Refused if there are conflicts."""
    if git.question(top, "merge-base", "--is-ancestor", ours, theirs, env=env) is not None:
        return theirs
    words = ("merge-tree", "--write-tree", "--no-messages", "--name-only", "-z", ours, theirs)
    ran = git.run(top, *PLAIN, *words, env=env, patience=git.CHECKOUT_PATIENCE)
    if ran.code == USAGE:
        raise Refused(f"{top}: both sides have commits of their own, and only git 2.38 or newer can merge them apart")
    tree, *files = [part for part in git.text(ran.out).split("\0") if part.strip()] or [""]
    if ran.code == CONFLICTS and files:
        raise Refused(f"{top}: it cannot be merged by itself: conflicts in {named(list(dict.fromkeys(files)))}")
    if ran.code != 0:
        raise git.GitFailed(f"{top}: git merge-tree: {git.why(ran)}")
    return commit_of(top, tree, [ours, theirs], message, env)


def commit_of(cwd: str, tree: str, parents: Sequence[str], message: str, env: Mapping[str, str]) -> str:
    signed = git.question(cwd, "config", "--type=bool", "commit.gpgSign", env=env) == "true"
    words = [word for parent in parents for word in ("-p", parent)]
    sign = ("-S",) if signed else ()
    return git.answer(cwd, "commit-tree", *sign, *words, "-m", message, tree, env=env, patience=git.CHECKOUT_PATIENCE)


def changes_between(top: str, old: str, new: str, env: Mapping[str, str]) -> list[Change]:
    words = ("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", "--ignore-submodules=none", old, new)
    parts = iter(git.answer(top, *words, env=env, patience=git.CHECKOUT_PATIENCE).split("\0"))
    found = []
    for facts in parts:
        if facts:
            was, mode, _, id, _ = facts.lstrip(":").split(" ")
            found.append(Change(next(parts), was, mode, id))
    return found


# What stands against it: only questions


def refuse_overwriting(top: str, changes: Sequence[Change], env: Mapping[str, str]) -> None:
    """Raise Refused if the worktree has anything in these places that git does not have. Raises GitFailed and OSError:
    then it cannot be told."""
    paths = {one.path for one in changes}
    occupied = occupied_in(top, changes)
    unseen = [
        name for letter, _, name in contents.entries_of(top, env) if letter == contents.SKIPPED or letter.islower()
    ]
    flagged = [name for name in unseen if name in paths and os.path.lexists(os.path.join(top, name))]
    changed = [name for name in contents.changes(top, env) if name in paths and name not in {*occupied, *flagged}]
    if changed:
        raise Refused(f"{top} has uncommitted changes in {named(changed)}; commit or stash them, and try again")
    if occupied:
        raise Refused(in_the_way(top, occupied))
    if flagged:
        way = "git update-index --no-assume-unchanged --no-skip-worktree"
        raise Refused(f"{top}: git was told not to look at {named(flagged)}; undo that ({way}), and try again")


def refuse_locked(worktree: str, branch: str, env: Mapping[str, str]) -> None:
    """Raise Refused if git could not write the index of a worktree or move its branch: another git has a lock, or was
    killed while it had one."""
    names = ("index.lock", "HEAD.lock", f"{HEADS}{branch}.lock")
    words = (word for name in names for word in ("--git-path", name))
    said = git.answer(worktree, "rev-parse", "--path-format=absolute", *words, env=env)
    deadline = time.monotonic() + LOCK_PATIENCE
    for path in said.splitlines():
        while os.path.lexists(path):
            if time.monotonic() >= deadline:
                why = "a git command works there, or was killed there"
                raise Refused(f"{path} is there: {why}; if none works there, remove that file, and try again")
            time.sleep(GLANCE)


def occupied_in(top: str, changes: Sequence[Change]) -> list[str]:
    paths = {one.path for one in changes}
    return sorted({place for one in changes if one.was == NOTHING for place in taken(top, one.path, paths)})


def refuse_occupied(top: str, changes: Sequence[Change]) -> None:
    """Raise Refused if a place in which a file comes is taken."""
    if occupied := occupied_in(top, changes):
        raise Refused(in_the_way(top, occupied))


def in_the_way(top: str, occupied: Sequence[str]) -> str:
    return f"{top} has {named(occupied)}, which git does not track; move that away, and try again"


def taken(top: str, path: str, paths: set[str]) -> Iterable[str]:
    """Yield what is in the place of a new file, or of a folder above it, and does not go by the same merge."""
    parts = path.split("/")
    for above in ("/".join(parts[:count]) for count in range(1, len(parts))):
        full = os.path.join(top, above)
        if os.path.islink(full) or (os.path.lexists(full) and not os.path.isdir(full)):
            if above not in paths:
                yield above
            return
    full = os.path.join(top, path)
    if os.path.isdir(full) and not os.path.islink(full):
        for folder, folders, names in os.walk(full):
            inside = [*names, *(name for name in folders if os.path.islink(os.path.join(folder, name)))]
            for name in inside:
                found = os.path.relpath(os.path.join(folder, name), top)
                if found not in paths:
                    yield found
    elif os.path.lexists(full):
        yield path


def refuse_empty_links(top: str, theirs: str | None, changes: Sequence[Change], env: Mapping[str, str]) -> None:
    """Raise Refused if the merge brings a link to a commit of another repository (a submodule) that nobody here can
    get. `theirs`: the worktree that it comes from."""
    links = [one for one in changes if one.mode == GITLINK and not can_be_had(top, theirs, one, env)]
    if links:
        what = named([one.path for one in links])
        raise Refused(
            f"{top}: {what} is a repository of its own, and its commits would not come with the merge; "
            "push them where its .gitmodules says, or move the repository away"
        )


def can_be_had(top: str, theirs: str | None, link: Change, env: Mapping[str, str]) -> bool:
    """Return whether our submodule has the commit, or a remote of theirs."""
    ours, words = os.path.join(top, link.path), ("cat-file", "-e", f"{link.id}^{{commit}}")
    checked_out = os.path.lexists(os.path.join(ours, ".git"))
    if checked_out and git.question(ours, *words, env=env, no=(1, git.FATAL)) is not None:
        return True
    if theirs is None or not os.path.lexists(os.path.join(theirs, link.path, ".git")):
        return False
    remote = ("for-each-ref", "--count=1", "--format=%(refname)", f"--contains={link.id}", "refs/remotes/")
    said = git.question(os.path.join(theirs, link.path), *remote, env=env, no=(1, git.FATAL, USAGE))
    return bool(said)


# Doing


def state_of(worktree: str, env: Mapping[str, str]) -> State:
    """Raises GitFailed."""
    head = git.question(worktree, "rev-parse", "--verify", "--quiet", "HEAD^{commit}", env=env)
    found = unsaved.status(worktree, env)
    return State(head, tuple(contents.entries_of(worktree, env)), None if found is None else tuple(found))


def move_branch(worktree: str, commit: str, old: str, why: str, env: Mapping[str, str]) -> None:
    """Let the branch of a worktree go on to a commit of all its files, and note that in its index."""
    git.answer(worktree, "update-ref", "-m", why, "HEAD", commit, old, env=env)
    try:
        done(worktree, *NO_HOOKS, "read-tree", "--reset", commit, env=env)
    except git.GitFailed:
        git.answer(worktree, "update-ref", "-m", why, "HEAD", old, commit, env=env)
        raise
    refresh(worktree, env)


def refresh(worktree: str, env: Mapping[str, str]) -> None:
    """Let the index note which files are as git has them. A file that was only touched is not in git's way then. Raises
    GitFailed if the index cannot be written."""
    words = (*NO_HOOKS, "update-index", "-q", "--refresh")
    ran = git.run(worktree, *words, env=env, patience=git.CHECKOUT_PATIENCE)
    if ran.code not in (0, CONFLICTS):
        raise git.GitFailed(f"{worktree}: git could not do it: {git.why(ran)}")


def bring(top: str, old: str, new: str, why: str, changes: Sequence[Change], env: Mapping[str, str]) -> None:
    """Bring a commit into a worktree and its branch, or take all of it back. Raises GitFailed."""
    words = (*NO_HOOKS, "read-tree", "-m", "-u", "--no-recurse-submodules")
    refresh(top, env)
    refuse_occupied(top, changes)  # again: git would overwrite what it is told to ignore
    try:
        done(top, *words, old, new, env=env)
    except git.GitFailed as error:
        raise put_back(top, changes, error, env) from error
    try:
        git.answer(top, "update-ref", "-m", why, "HEAD", new, old, env=env)
    except git.GitFailed:
        done(top, *words, new, old, env=env)
        raise


def put_back(top: str, changes: Sequence[Change], failed: git.GitFailed, env: Mapping[str, str]) -> git.GitFailed:
    """Undo what a checkout that stopped has written. Return why it stopped, and what could not be undone."""
    try:
        left = undo.take_back(top, changes, env)
    except (git.GitFailed, OSError) as error:
        return git.GitFailed(f"{failed}; what it has written could not be taken back: {error}")
    if left:
        return git.GitFailed(f"{failed}; {named(left)} changed meanwhile, and stays as it is now")
    return failed


def done(cwd: str, *words: str, env: Mapping[str, str], more: Mapping[str, str] | None = None) -> str:
    ran = git.run(cwd, *words, env=env, patience=git.CHECKOUT_PATIENCE, more=more)
    if ran.code != 0:
        raise git.GitFailed(f"{cwd}: git could not do it: {git.why(ran)}")
    return git.text(ran.out)


def head_of(cwd: str, branch: str, env: Mapping[str, str]) -> str:
    return git.answer(cwd, "rev-parse", "--verify", f"{HEADS}{branch}^{{commit}}", env=env)
