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
    from collections.abc import Collection, Iterable, Iterator, Mapping

SKIPPED = "S"  # what `git ls-files -v` says of a file with the flag skip-worktree
GONE, MODIFIED = " D", " M"
RULES = ".gitignore"
MODES = "core.fileMode=true"


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
        settings = settings_of_all(path, env)
        found = unsaved.status(path, env, {"GIT_INDEX_FILE": index}, settings=settings)
        if found is None or at_a_glance is None:
            raise git.GitFailed(f"{path}: git status failed")
        found = [(letters, name) for letters, name in found if not (letters == GONE and name in unseen)]
        known = {name for _, name in at_a_glance}
        new = [name for letters, name in found if letters == MODIFIED and name not in known]
        same = set(as_checked_out(path, new, index, env, modes=MODES in settings)) if new else set()
    changed = [name for _, name in found if name not in same]
    hidden = hidden_by_new_rules(path, {name for _, _, name in entries}, env)
    return [*changed, *(name for name in hidden if name not in changed)]


def hidden_by_new_rules(path: str, tracked: Collection[str], env: Mapping[str, str]) -> Iterator[str]:
    """Yield what is ignored only by a rule that would go with the worktree: one in a .gitignore that git does not
    track, at the top or in a folder with tracked files. Elsewhere a tool made it, for a folder of its own (.venv).
    Raises GitFailed."""
    ignored = unsaved.ignored_files(path, env)
    folders = folders_of(tracked)
    given = os.fsencode("".join(f"{name}\0" for name in ignored))
    words = (git.THIS_TREE, "check-ignore", "--verbose", "-z", "--stdin")
    ran = git.run(path, *words, env=env, patience=git.CHECKOUT_PATIENCE, input=given)
    if ran.code not in (0, 1):
        raise git.GitFailed(f"{path}: git check-ignore: {git.why(ran)}")
    said = os.fsdecode(ran.out).split("\0")
    for source, name in zip(said[::4], said[3::4], strict=False):
        folder, file = source[: source.rfind("/") + 1], source[source.rfind("/") + 1 :]
        if file == RULES and source not in tracked and folder in folders:
            yield name


def folders_of(names: Iterable[str]) -> set[str]:
    """Return the folders that these files are in, each with a slash at its end; the top is empty."""
    found = {""}
    for name in names:
        folder = name[: name.rfind("/") + 1]
        while folder not in found:
            found.add(folder)
            folder = folder[: folder.rfind("/", 0, -1) + 1]
    return found


def entries_of(path: str, env: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield each entry of a worktree's index: the letter for its flags, all of it, and its name. Raises GitFailed."""
    said = git.answer(path, git.THIS_TREE, "ls-files", "-v", "--stage", "-z", env=env, patience=git.CHECKOUT_PATIENCE)
    for line in said.split("\0"):
        if line:
            yield line[:1], line[2:], line.split("\t", 1)[1]


def settings_of_all(path: str, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the settings for which files are ignored and whether modes count, as they would be without the worktree's
    own settings, which go with it; none if it has none of these. Raises GitFailed."""
    base = env.get("XDG_CONFIG_HOME") or os.path.join(env.get("HOME", ""), ".config")
    found: list[str] = []
    for name, default in (("core.excludesFile", os.path.join(base, "git", "ignore")), ("core.fileMode", "true")):
        said = (git.question(path, "config", "--show-scope", "-z", "--get-all", name, env=env) or "").split("\0")
        values = list(zip(said[::2], said[1::2], strict=False))
        if any(scope == "worktree" for scope, _ in values):
            others = [value for scope, value in values if scope != "worktree"]
            found += ("-c", f"{name}={others[-1] if others else default}")
    return tuple(found)


def as_checked_out(
    path: str, names: Iterable[str], index: str, env: Mapping[str, str], *, modes: bool = False
) -> Iterator[str]:
    """Yield those of these files that git would write as they are, with `modes` also executable or not. If a file was
    committed in a way that the settings for line ends or filters would not have allowed, what git would commit now
    differs, though nobody changed it."""
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
        if plain and filecmp.cmp(here, there, shallow=False) and not (modes and executable(here) != executable(there)):
            yield name


def executable(path: str) -> bool:
    return bool(os.stat(path).st_mode & 0o100)
