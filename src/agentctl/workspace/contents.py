"""Which files of a worktree differ from what git has, by what is in them.

`git status` believes a file's size and times, as far as the settings say so (core.checkStat, core.trustctime), and
leaves out what it was told not to look at (skip-worktree, assume-unchanged). Before files are removed, that is not
enough. So an index without any such notes is made in a temporary folder: git then has to read every file.
"""

from __future__ import annotations

import os

from agentctl.workspace import git, scratch_index, unsaved

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

SKIPPED = "S"  # what `git ls-files -v` says of a file with the flag skip-worktree
GONE, MODIFIED = " D", " M"


def changed_files(path: str, env: Mapping[str, str]) -> list[str] | None:
    """Return the changed files, tracked or not, submodules included; None if it cannot be told. What git is told to
    ignore is not among them."""
    try:
        return changes(path, env)
    except (git.GitFailed, OSError):
        return None


def changes(path: str, env: Mapping[str, str]) -> list[str]:
    """Return the same. A file that git was told not to look at is no change if it is not there: a sparse checkout
    leaves files out. Raises GitFailed and OSError."""
    at_a_glance = unsaved.status(path, env)
    entries = list(entries_of(path, env))
    unseen = {name for letter, _, name in entries if letter == SKIPPED or letter.islower()}
    with scratch_index.filled((entry for _, entry, _ in entries), path, env) as index:
        found = unsaved.status(path, env, {"GIT_INDEX_FILE": index}, settings=excludes_for_all(path, env))
        if found is None or at_a_glance is None:
            raise git.GitFailed(f"{path}: git status failed")
        found = [(letters, name) for letters, name in found if not (letters == GONE and name in unseen)]
        known = {name for _, name in at_a_glance}
        new = [name for letters, name in found if letters == MODIFIED and name not in known]
        same = set(as_checked_out(path, new, index, env)) if new else set()
    return [name for _, name in found if name not in same]


def entries_of(path: str, env: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield each entry of a worktree's index: the letter for its flags, all of it, and its name. Raises GitFailed."""
    said = git.answer(path, git.THIS_TREE, "ls-files", "-v", "--stage", "-z", env=env, patience=git.CHECKOUT_PATIENCE)
    for line in said.split("\0"):
        if line:
            yield line[:1], line[2:], line.split("\t", 1)[1]


def excludes_for_all(path: str, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the setting for which files are ignored, if this worktree has one of its own: the one that it would have
    without it. Raises GitFailed."""
    words = ("config", "--show-scope", "-z", "--get-all", "core.excludesFile")
    said = (git.question(path, *words, env=env) or "").split("\0")
    values = [(scope, value) for scope, value in zip(said[::2], said[1::2], strict=False)]
    if not any(scope == "worktree" for scope, _ in values):
        return ()
    others = [value for scope, value in values if scope != "worktree"]
    base = env.get("XDG_CONFIG_HOME") or os.path.join(env.get("HOME", ""), ".config")
    return ("-c", f"core.excludesFile={others[-1] if others else os.path.join(base, 'git', 'ignore')}")


def as_checked_out(path: str, names: Iterable[str], index: str, env: Mapping[str, str]) -> Iterator[str]:
    """Yield those of these files that git would write as they are. If a file was committed in a way that the settings
    for line ends or filters would not have allowed, what git would commit now differs, though nobody changed it."""
    import filecmp

    folder = os.path.join(os.path.dirname(index), "checked-out")
    words = (
        git.THIS_TREE,
        *scratch_index.ON_ITS_OWN,
        "checkout-index",
        "--quiet",
        f"--prefix={folder}/",
        "-z",
        "--stdin",
    )
    names = list(names)
    given = os.fsencode("\0".join(names))
    more = {"GIT_INDEX_FILE": index}
    ran = git.run(path, *words, env=env, patience=git.CHECKOUT_PATIENCE, more=more, input=given)
    if ran.code != 0:
        raise git.GitFailed(f"{path}: git checkout-index: {git.why(ran)}")
    for name in names:
        here, there = os.path.join(path, name), os.path.join(folder, name)
        plain = all(os.path.isfile(one) and not os.path.islink(one) for one in (here, there))
        if plain and filecmp.cmp(here, there, shallow=False):
            yield name
