"""What a worktree has that the commit it began with had not: committed, not committed and not even known to git, taken
together. Nothing is changed for that: what git does not know is added to a copy of the index, which is thrown away."""

from __future__ import annotations

import os
from contextlib import contextmanager

from agentctl.errors import AgentctlError
from agentctl.model import Value
from agentctl.workspace import commits, git, scratch_index, unsaved
from agentctl.workspace.special_files import refuse_special_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

# Of the person's own settings, none counts that runs programs, leaves things out, or makes what `git apply` refuses.
PLAIN = ("--no-ext-diff", "--no-textconv", "--no-relative", "--ignore-submodules=none", "--submodule=short", "-M")
PREFIXES = ("--src-prefix=a/", "--dst-prefix=b/")


class Place(Value):
    """Where the work of a launch is: in a worktree, or on its branch if the worktree is gone."""

    common: str
    base: str
    worktree: str | None = None
    branch: str | None = None


class Difference(Value):
    head: str | None
    commits: int | None
    files: int
    added: int
    removed: int
    binary: int  # files of which no lines can be counted
    uncommitted: int  # files, those that git does not know included
    untracked: int


def measure(place: Place, env: Mapping[str, str]) -> Difference:
    """Return how much was changed. Raises GitFailed."""
    with against_base(place, env) as (cwd, words, more):
        ran = git.run(
            cwd, *words, *PLAIN, "--numstat", "-z", *ends(place), env=env, patience=git.CHECKOUT_PATIENCE, more=more
        )
        if ran.code != 0:
            raise git.GitFailed(f"{cwd}: git diff: {git.why(ran)}")
        files, added, removed, binary = count(git.text(ran.out))
    changes = unsaved.status(place.worktree, env) if place.worktree is not None else []
    head = head_of(place, env)
    commits = (
        git.question(place.common, git.HERE, "rev-list", "--count", f"{place.base}..{head}", env=env, no=(1, git.FATAL))
        if head
        else None
    )
    return Difference(
        head,
        int(commits) if commits and commits.isdigit() else None,
        files,
        added,
        removed,
        binary,
        len(changes or ()),
        sum(letters == "??" for letters, _ in changes or ()),
    )


def show(place: Place, env: Mapping[str, str], *options: str, each: Callable[[bytes], object] | None = None) -> None:
    """Print the whole diff, of any length: to our own output, or to `each`, line by line."""
    with against_base(place, env) as (cwd, words, more):
        options = ("--no-color", *PLAIN, *PREFIXES, *options)
        ran = git.stream(cwd, *words, *options, *ends(place), env=env, more=more, each=each)
    if (
        ran.code is not None and ran.code > 0 and ran.code != 128 + 13
    ):  # by SIGPIPE, it was read as far as somebody wanted
        raise AgentctlError(f"{cwd}: git diff: {git.why(ran)}")


def head_of(place: Place, env: Mapping[str, str]) -> str | None:
    words = ("rev-parse", "--verify", "--quiet")
    if place.worktree is not None:
        return git.question(place.worktree, *words, "HEAD^{commit}", env=env)
    return git.question(place.common, git.HERE, *words, f"{commits.HEADS}{place.branch}^{{commit}}", env=env)


def ends(place: Place) -> tuple[str, ...]:
    """Return the two commits to compare; without the second, the first is compared with the worktree."""
    return (place.base, "--") if place.worktree is not None else (place.base, f"{commits.HEADS}{place.branch}", "--")


@contextmanager
def against_base(place: Place, env: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, ...], dict[str, str]]]:
    """Return where to run git, with which words and which variables."""
    if place.worktree is None:
        yield place.common, (git.HERE, "diff"), {}
        return
    refuse_special_files(place.worktree)
    with index_with_untracked(place, place.worktree, env) as index:
        yield place.worktree, (*scratch_index.ON_ITS_OWN, "diff"), {"GIT_INDEX_FILE": index}


@contextmanager
def index_with_untracked(place: Place, worktree: str, env: Mapping[str, str]) -> Iterator[str]:
    """Make a copy of the worktree's index that has every file, also those outside of a sparse checkout. `git add -N`
    writes an empty object; it goes to a folder of its own, which refers to the repository's objects."""
    with scratch_index.copied(worktree, env) as index:
        objects = os.path.join(os.path.dirname(index), "objects")
        os.mkdir(objects)
        more = {
            "GIT_INDEX_FILE": index,
            "GIT_OBJECT_DIRECTORY": objects,
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": quoted(os.path.join(place.common, "objects")),
        }
        words = (*scratch_index.ON_ITS_OWN, "add", "--intent-to-add", "--ignore-errors", "--", ".")
        git.run(worktree, *words, env=env, patience=git.CHECKOUT_PATIENCE, more=more)
        yield index


def quoted(path: str) -> str:
    """Return a path as git takes it in a list of paths: it may have a colon."""
    for char, word in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n")):
        path = path.replace(char, word)
    return f'"{path}"'


def count(said: str) -> tuple[int, int, int, int]:
    """Return files, lines added and removed, and files without lines, from `--numstat -z`."""
    files = added = removed = binary = 0
    entries = iter(said.split("\0"))
    for entry in entries:
        if not entry:
            continue
        plus, minus, name = entry.split("\t", 2)
        if not name:  # the names of a file that was renamed follow
            next(entries, None), next(entries, None)
        files += 1
        if plus == "-":
            binary += 1
        else:
            added, removed = added + int(plus), removed + int(minus)
    return files, added, removed, binary
