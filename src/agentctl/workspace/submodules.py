"""What is in the submodules of a worktree and nowhere else: their git folders go with it. Only questions."""

from __future__ import annotations

import os

from agentctl.workspace import commits, contents, git, unsaved

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def in_submodules(path: str, own: str | None, env: Mapping[str, str]) -> list[str]:
    """Return why the submodules of a worktree are needed: their git folders go with it, and what no remote has goes
    with them. `own`: the worktree's own git folder, which also has the
    git folders of submodules that are no longer checked out. Raises GitFailed and OSError."""
    found, seen = in_checked_out(path, "", env)
    for name, folder in module_folders(own) if own is not None else ():
        if os.path.realpath(folder) not in seen:
            found += in_module(name, folder, env)
    return found


def in_checked_out(path: str, above: str, env: Mapping[str, str]) -> tuple[list[str], set[str]]:
    """Return the same for those that are checked out, and their git folders."""
    found: list[str] = []
    seen: set[str] = set()
    for name in unsaved.checked_out_submodules(path, env):
        inner = os.path.join(path, name)
        folder = git.answer(inner, "rev-parse", "--absolute-git-dir", env=env)
        seen.add(os.path.realpath(folder))
        found += in_module(above + name, folder, env)
        # Git hands not all of its options down: what it says of a submodule from outside is not enough.
        if changes := contents.changes(inner, env):
            count = f"{len(changes)} change{'' if len(changes) == 1 else 's'}"
            found.append(f"submodule {above}{name} has {count} ({unsaved.named(changes)})")
        deeper, folders = in_checked_out(inner, f"{above}{name}/", env)
        found += deeper
        seen |= folders
    return found, seen


def in_module(name: str, folder: str, env: Mapping[str, str]) -> list[str]:
    """Return why the git folder of a submodule is needed."""
    found = []
    at = f"--git-dir={folder}"
    above = os.path.dirname(folder)
    try:
        if count := commits_without_a_remote(folder, env):
            found.append(f"submodule {name} has {commits.commits_of(count)} that no remote has")
    except git.GitFailed:
        found.append(f"submodule {name}: git cannot say what is in it")
    if git.question(above, at, "rev-parse", "--verify", "--quiet", "refs/stash", env=env, no=(1, git.FATAL)):
        found.append(f"submodule {name} has a stash")
    if (what := unsaved.operation(folder)) is not None:
        found.append(f"submodule {name} is in the middle of {what}")
    if elsewhere := worktrees_of(folder):
        found.append(f"submodule {name} has a worktree elsewhere ({', '.join(elsewhere)})")
    return found


def commits_without_a_remote(folder: str, env: Mapping[str, str]) -> int:
    """Return how many commits of a submodule no remote branch has: of all its refs, its HEAD, and those that its HEAD
    left behind. Raises GitFailed and OSError."""
    at, above = f"--git-dir={folder}", os.path.dirname(folder)
    words = ("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    head = git.question(above, at, *words, env=env, no=(1, git.FATAL))
    branch = git.question(above, at, "symbolic-ref", "--quiet", "HEAD", env=env)
    left = commits.left_behind(commits.reflog_of(folder), detached=branch is None, unborn=head is None)
    kept = [id for _, id in commits.refs_that_keep(above, at, env, ("refs/remotes/",))]
    options = ("--ignore-missing", "--exclude=refs/stash", "--all")
    return commits.own_commits(above, at, [*([head] if head else []), *left], kept, env, *options)


def module_folders(own: str) -> Iterator[tuple[str, str]]:
    """Yield name and git folder of all submodules of a worktree, checked out or not. Names may have slashes. Raises
    OSError."""

    def fail(error: OSError) -> None:
        raise error

    base = os.path.join(own, "modules")
    for folder, folders, names in os.walk(base, onerror=fail) if os.path.lexists(base) else ():
        if {*folders, *names} >= unsaved.BARE:
            yield os.path.relpath(folder, base).replace("/modules/", "/"), folder
            folders[:] = [name for name in folders if name == "modules"]


def worktrees_of(folder: str) -> list[str]:
    """Return the linked worktrees of a repository that are there, by the files of its git folder. Raises OSError."""
    base = os.path.join(folder, "worktrees")
    if not os.path.isdir(base):
        return []
    found = []
    for name in sorted(os.listdir(base)):
        with open(os.path.join(base, name, "gitdir"), "rb") as file:
            path = os.path.dirname(git.text(file.read(65536)))
        if os.path.lexists(path):
            found.append(path)
    return found
