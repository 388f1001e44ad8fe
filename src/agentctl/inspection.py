"""The worktrees of a repository, each with all that git can tell of it. Only questions; who works there is asked
elsewhere."""

from __future__ import annotations

import os

from agentctl import git, unsaved, worktrees
from agentctl.errors import UsageError
from agentctl.model import Value
from agentctl.unsaved import HEADS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeVar

    from agentctl.worktrees import Listed

    Item = TypeVar("Item")
    Found = TypeVar("Found")
    Told = Callable[[int, int], None]  # how many are done, of how many

AT_ONCE = 4  # of git's own processes
ESCAPES = (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\"))  # of the kernel's table


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
    repositories: tuple[str, ...] = ()  # of their own, in what is ignored
    submodules: tuple[str, ...] | None = None  # that are checked out
    in_submodules: tuple[str, ...] = ()  # what is in them alone
    mounts: tuple[str, ...] = ()  # of other file systems, in it: whoever deletes files goes on into them
    own: int | None = None  # commits that no other branch, remote branch, tag or worktree has
    heads: tuple[str, ...] = ()  # of the other worktrees: what they hold is not lost
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


def all_trees(common: str, env: Mapping[str, str], *, fully: bool = False, told: Told | None = None) -> list[Tree]:
    """In git's order: the main one first. `fully`: also what only those need to know who remove."""
    listed = worktrees.listing(common, env, git.HERE)
    outlines = [outline(common, listed, number, env) for number in range(len(listed))]
    return in_threads(lambda tree: looked_into(tree, env, fully=fully), outlines, told)


def one_tree(common: str, path: str, env: Mapping[str, str]) -> Tree | None:
    """As it is now, for who is about to remove it; None: git does not list it."""
    listed = worktrees.listing(common, env, git.HERE)
    number = next((number for number, one in enumerate(listed) if one.path == path), None)
    return None if number is None else looked_into(outline(common, listed, number, env), env, fully=True)


def outline(common: str, listed: Sequence[Listed], number: int, env: Mapping[str, str]) -> Tree:
    """What the list says of it, and the folder that git keeps of it."""
    one = listed[number]
    others = [other for place, other in enumerate(listed) if place != number]
    unborn = one.head is None or set(one.head) == {"0"}
    own = common if number == 0 else worktrees.admin_folder(common, one.path)
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
        heads=tuple({other.head for other in others if other.head and set(other.head) != {"0"}}),
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


def looked_into(tree: Tree, env: Mapping[str, str], *, fully: bool) -> Tree:
    found: dict[str, object] = {}
    if tree.head is not None and not tree.main:
        found["own"] = own_commits(tree, env)
    if tree.there and not tree.bare:
        changes = unsaved.changed_files(tree.path, env)
        found["changes"] = None if changes is None else tuple(changes)
        if fully and not tree.main:
            ignored = unsaved.ignored_files(tree.path, env)
            found["ignored"] = tuple(ignored)
            found["repositories"] = tuple(unsaved.repositories_in(tree.path, ignored))
            found["mounts"] = tuple(mounts_in(tree.real))
            found["submodules"] = tuple(unsaved.checked_out_submodules(tree.path, env))
            found["in_submodules"] = tuple(unsaved.in_submodules(tree.path, env))
    return tree._replace(**found)


def mounts_in(folder: str, table: str = "/proc/self/mountinfo") -> list[str]:
    """None where there is no such table (macOS)."""
    try:
        with open(table, errors="surrogateescape") as file:
            points = [line.split(" ")[4] for line in file]
    except (OSError, IndexError):
        return []
    for code, char in ESCAPES:
        points = [point.replace(code, char) for point in points]
    return sorted({point for point in points if point == folder or point.startswith(folder.rstrip("/") + "/")})


def own_commits(tree: Tree, env: Mapping[str, str]) -> int | None:
    try:
        return unsaved.own_commits(tree.common, tree.head or "", tree.branch, tree.heads, env)
    except git.GitFailed:
        return None  # a commit that is missing: a shallow or broken repository


def commits_since(common: str, base: str | None, head: str | None, env: Mapping[str, str]) -> int | None:
    if base is None or head is None:
        return None
    said = git.question(common, git.HERE, "rev-list", "--count", f"{base}..{head}", env=env)
    return int(said) if said and said.isdigit() else None


def in_threads(function: Callable[[Item], Found], items: Sequence[Item], told: Told | None = None) -> list[Found]:
    """Of each, a few at a time; in their order. The first error is raised once all are over."""
    from concurrent.futures import ThreadPoolExecutor, as_completed

    with ThreadPoolExecutor(AT_ONCE) as pool:
        begun = [pool.submit(function, item) for item in items]
        for done, _ in enumerate(as_completed(begun), 1):
            if told is not None:
                told(done, len(begun))
        return [one.result() for one in begun]
