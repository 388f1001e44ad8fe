"""The worktrees of a repository, each with all that git knows of it. It asks only git; clean.py asks who is there."""

from __future__ import annotations

import os

from agentctl.errors import UsageError
from agentctl.model import Value
from agentctl.workspace import commits, contents, git, submodules, unsaved, worktree
from agentctl.workspace.commits import HEADS, Keepers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeVar

    from agentctl.model import Launch
    from agentctl.workspace.worktree import Listed

    Item = TypeVar("Item")
    Found = TypeVar("Found")
    Progress = Callable[[int, int], None]  # how many are done, of how many

AT_ONCE = 4  # of git's own processes
CLOCKS = 1.0  # seconds between the clock of a file system and ours


class Tree(Value):
    """One worktree. None: it cannot be told, or there is nothing of the kind."""

    common: str  # the git folder that it shares with the others
    path: str  # as git lists it
    main: bool = False
    bare: bool = False
    branch: str | None = None
    head: str | None = None
    locked: str | None = None  # why; "" where nobody said
    there: bool = True  # its folder
    link: bool = False  # its folder is but a link to one
    made_at: float | None = None
    operation: str | None = None  # what somebody is in the middle of
    changes: tuple[str, ...] | None = None  # tracked or not
    ignored: tuple[str, ...] = ()
    repositories: tuple[str, ...] = ()  # of their own, at any place in it
    unread: tuple[str, ...] = ()  # what could not be looked into, or git could not tell
    submodules: tuple[str, ...] | None = None  # that are checked out
    in_submodules: tuple[str, ...] = ()  # what is in them alone
    unknown: tuple[str, ...] = ()  # in git's folder of it, and not known to be harmless
    in_own_folder: tuple[str, ...] = ()  # what only the refs and the reflog of this worktree have
    staged: tuple[str, ...] | None = ()  # of one whose folder is gone: what only git's index of it has
    mounts: tuple[str, ...] = ()  # of other file systems, in it: whoever deletes files goes on into them
    own: int | None = None  # commits that no other branch, remote branch, tag or worktree has
    keepers: Keepers = Keepers()  # what else has commits: those are not lost
    shared: bool = False  # its branch is checked out elsewhere, too
    default: bool = False  # its branch is the one that a clone would be given

    @property
    def real(self) -> str:
        return os.path.realpath(self.path)


def common_folder(cwd: str, env: Mapping[str, str]) -> str:
    """Of the repository that we are in. Raises UsageError."""
    said = git.run(cwd, "rev-parse", "--path-format=absolute", "--git-common-dir", env=env)
    if said.code != 0:
        raise UsageError(f"{cwd}: {git.why(said)}; --cwd names a directory in a repository")
    return os.path.realpath(git.text(said.out))


def all_trees(
    common: str, env: Mapping[str, str], *, fully: bool = False, progress: Progress | None = None
) -> list[Tree]:
    """Return all worktrees in git's order, the main one first. `fully`: also what one needs to know to remove them."""
    listed = worktree.listing(common, env, git.HERE)
    refs = commits.refs_that_keep(common, git.HERE, env)
    outlines = [outline(common, listed, number, refs, env) for number in range(len(listed))]
    return in_threads(lambda tree: with_contents(tree, env, fully=fully), outlines, progress)


def one_tree(common: str, path: str, env: Mapping[str, str]) -> Tree | None:
    """Return a worktree as it is now, with all that one needs to know to remove it; None if git does not list it."""
    listed = worktree.listing(common, env, git.HERE)
    number = next((number for number, one in enumerate(listed) if one.path == path), None)
    if number is None:
        return None
    refs = commits.refs_that_keep(common, git.HERE, env)
    return with_contents(outline(common, listed, number, refs, env), env, fully=True)


def outline(
    common: str, listed: Sequence[Listed], number: int, refs: tuple[tuple[str, str], ...], env: Mapping[str, str]
) -> Tree:
    """Return what git's list says of a worktree, and what its own git folder says. `refs`: those that keep commits."""
    one = listed[number]
    others = [other for place, other in enumerate(listed) if place != number]
    unborn = one.head is None or set(one.head) == {"0"}
    own = common if number == 0 else worktree.admin_folder(common, one.path)
    return Tree(
        common,
        one.path,
        main=number == 0,
        bare=one.bare,
        branch=one.branch,
        head=None if unborn else one.head,
        locked=one.locked,
        there=os.path.isdir(one.path),
        link=os.path.islink(one.path),
        made_at=made_at(own) if own and number else None,
        operation=unsaved.operation(own) if own else None,
        keepers=Keepers(refs, commits.heads_that_keep(others)),
        shared=one.branch is not None and any(other.branch == one.branch for other in others),
        default=one.branch is not None
        and git.question(common, git.HERE, "symbolic-ref", "--quiet", "HEAD", env=env) == HEADS + one.branch,
    )


def made_at(admin: str) -> float | None:
    """`commondir` is written when a worktree is made, and never again."""
    try:
        return os.stat(os.path.join(admin, "commondir")).st_mtime
    except OSError:
        return None


def was_there_for(launch: Launch, made_at: float | None) -> bool:
    """Return whether a worktree at the path of a launch is the one that the launch was given: git had made it before
    the launch was recorded. A person may have made another one there since."""
    return made_at is not None and made_at <= launch.created_at + CLOCKS


def with_contents(tree: Tree, env: Mapping[str, str], *, fully: bool) -> Tree:
    """Add what is in a worktree: its own commits, its changes, and if `fully` whatever else would be lost with it."""
    found: dict[str, object] = {}
    if tree.head is not None and not tree.main:
        found["own"] = own_commits(tree, env)
    if not tree.main and (why := worktree.why_foreign(tree.common, tree.path)) is not None:
        return tree._replace(**found, unread=(why,))
    if tree.there and not tree.bare:
        changes = (contents if fully else unsaved).changed_files(tree.path, env)
        found["changes"] = None if changes is None else tuple(changes)
    tree = tree._replace(**found)
    return with_losses(tree, env) if fully and not (tree.main or tree.bare) else tree


def with_losses(tree: Tree, env: Mapping[str, str]) -> Tree:
    """Add what else would be lost with a worktree, in places that `git status` does not show."""
    own = worktree.admin_folder(tree.common, tree.path)
    where = (tree.common, own, tree.keepers, env)
    only_there = commits.in_own_folder(*where, head=tree.head, detached=tree.branch is None)
    unknown = unsaved.unknown_files(own) if own is not None else []
    tree = tree._replace(in_own_folder=tuple(only_there), unknown=tuple(unknown))
    if not tree.there:
        return tree._replace(staged=staged_files(tree, own, env) if own is not None else None)
    ignored: list[str] = []
    try:
        ignored = unsaved.ignored_files(tree.path, env)
        checked_out = tuple(unsaved.checked_out_submodules(tree.path, env))
        in_submodules = tuple(submodules.in_submodules(tree.path, own, env))
        repositories, unread = unsaved.repositories_in(tree.path, env)
    except (git.GitFailed, OSError) as error:
        checked_out, in_submodules, repositories, unread = None, (), [], [str(error)]
    return tree._replace(
        ignored=tuple(ignored),
        repositories=tuple(repositories),
        unread=tuple(unread),
        mounts=tuple(mounts_in(tree.real)),
        submodules=checked_out,
        in_submodules=in_submodules,
    )


def staged_files(tree: Tree, own: str, env: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the files that only git's index of a worktree has, whose folder is gone; None if it cannot be told."""
    at = f"--git-dir={own}"
    words = ("diff-index", "--cached", "--name-only", "--diff-filter=d", "-z", tree.head or "")
    try:
        said = git.answer(tree.common, at, *(words if tree.head is not None else ("ls-files", "-z")), env=env)
    except git.GitFailed:
        return None
    return tuple(name for name in said.split("\0") if name)


def mounts_in(folder: str) -> list[str]:
    """Return the mount points in a folder; none if the kernel has no such table (macOS)."""
    from agentctl.kernel.mounts import Mounts

    below = folder.rstrip("/") + "/"
    return sorted({one.point for one in Mounts().entries() if one.point == folder or one.point.startswith(below)})


def own_commits(tree: Tree, env: Mapping[str, str]) -> int | None:
    try:
        return commits.own_commits(
            tree.common, git.HERE, [tree.head or ""], tree.keepers.objects(without=tree.branch), env
        )
    except git.GitFailed:
        return None  # a commit that is missing: a shallow or broken repository


def commits_since(common: str, base: str | None, head: str | None, env: Mapping[str, str]) -> int | None:
    if base is None or head is None:
        return None
    words = ("rev-list", "--count", f"{base}..{head}")
    said = git.question(common, git.HERE, *words, env=env, no=(1, git.FATAL))
    return int(said) if said and said.isdigit() else None


def in_threads(
    function: Callable[[Item], Found], items: Sequence[Item], progress: Progress | None = None
) -> list[Found]:
    """Return the result for each item, in their order, from a few threads. Raises the first error once all are over."""
    from concurrent.futures import ThreadPoolExecutor, as_completed

    with ThreadPoolExecutor(AT_ONCE) as pool:
        begun = [pool.submit(function, item) for item in items]
        for done, _ in enumerate(as_completed(begun), 1):
            if progress is not None:
                progress(done, len(begun))
        return [one.result() for one in begun]
