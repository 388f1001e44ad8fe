"""What is in a worktree and nowhere else: what would be lost with it. Only questions."""

from __future__ import annotations

import os

from agentctl.workspace import git, scratch_index
from agentctl.workspace.special_files import refuse_special_files, special_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TAKEN = 50  # of the names in a message
GITLINK = "160000"
BARE = frozenset(("HEAD", "objects", "refs"))  # what every git folder has
EACH_NAME = ("-c", "core.ignoreCase=false")  # else git takes a new file `A` for the known one `a`
# What git leaves in a worktree's own folder in the middle of something.
OPERATIONS = {
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "BISECT_LOG": "a bisect",
    "sequencer": "a cherry-pick",
    "MERGE_AUTOSTASH": "a merge",
    "NOTES_MERGE_REF": "a merge of notes",
}
# What git has in a worktree's own folder at rest, or judged elsewhere (its refs, its reflog, its submodules).
HARMLESS = frozenset(
    """HEAD commondir gitdir index locked logs modules refs config.worktree info ORIG_HEAD FETCH_HEAD COMMIT_EDITMSG
    MERGE_MSG SQUASH_MSG TAG_EDITMSG NOTES_EDITMSG EDIT_DESCRIPTION MERGE_MODE MERGE_RR AUTO_MERGE REBASE_HEAD
    BISECT_ANCESTORS_OK reftable agentctl-launch""".split()
)
SHARED_INDEX = "sharedindex."


def changed_files(path: str, env: Mapping[str, str]) -> list[str] | None:
    """Tracked or not, submodules included; None: it cannot be told. What git is told to ignore is not among them."""
    found = status(path, env)
    return None if found is None else [name for _, name in found]


def status(
    path: str, env: Mapping[str, str], more: Mapping[str, str] | None = None, settings: Sequence[str] = ()
) -> list[tuple[str, str]] | None:
    """The same, each with git's two letters for it; ?? is a file that git does not know. `more`: of another index."""
    if special_files(path):
        return None
    options = ("--untracked-files=all", "--ignore-submodules=none")
    words = ("status", "--porcelain", "--no-renames", *options, "-z")
    apart = (*scratch_index.ON_ITS_OWN, *EACH_NAME) if more else ()
    ran = git.run(path, git.THIS_TREE, *apart, *settings, *words, env=env, patience=git.CHECKOUT_PATIENCE, more=more)
    return None if ran.code != 0 else [(entry[:2], entry[3:]) for entry in git.text(ran.out).split("\0") if entry]


def ignored_files(path: str, env: Mapping[str, str]) -> list[str]:
    """Return what git was told to ignore: a folder that is ignored as a whole counts once, and ends with a slash.
    Raises GitFailed."""
    refuse_special_files(path)
    words = ("ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z")
    said = git.answer(path, git.THIS_TREE, *words, env=env, patience=git.CHECKOUT_PATIENCE)
    return [entry for entry in said.split("\0") if entry]


# Repositories inside


def repositories_in(path: str, env: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return the repositories and linked worktrees in a worktree, in any folder of it, however deep: git does not show
    one in a folder that it tracks. And what could not be looked into. Submodules are judged elsewhere. Raises
    GitFailed."""
    found: list[str] = []
    unread: list[str] = []
    known = {"", *submodules_at_every_depth(path, env)}
    front = [""]
    while front:
        name = front.pop()
        inside = entries_in(path, name, unread)
        if name not in known and (".git" in inside or inside.keys() >= BARE):
            found.append(name)
            continue
        below = sorted((each for each, is_folder in inside.items() if is_folder and each != ".git"), reverse=True)
        front += (f"{name}/{each}" if name else each for each in below)
    return found, unread


def entries_in(path: str, name: str, unread: list[str]) -> dict[str, bool]:
    """Return what is in this folder of a worktree, each with whether it is a folder; note one that cannot be listed."""
    try:
        with os.scandir(os.path.join(path, name)) as entries:
            return {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
    except FileNotFoundError:
        return {}  # it was removed at this moment
    except OSError as error:
        unread.append(f"what is in {name or path} cannot be told ({error.strerror})")
        return {}


def submodules_at_every_depth(path: str, env: Mapping[str, str]) -> list[str]:
    """Return all that are checked out here. Raises GitFailed."""
    found = []
    for name in checked_out_submodules(path, env):
        below = submodules_at_every_depth(os.path.join(path, name), env)
        found += [name, *(f"{name}/{each}" for each in below)]
    return found


def unknown_files(git_folder: str) -> list[str]:
    """Return what is in the git folder of a linked worktree and not known to be harmless: something may be going on, or
    is kept only there. Raises OSError."""
    return sorted(name for name in os.listdir(git_folder) if not name.startswith(SHARED_INDEX) and name not in HARMLESS)


def operation(git_folder: str) -> str | None:
    """What somebody is in the middle of. The git folder is the worktree's own."""
    return next((what for name, what in OPERATIONS.items() if os.path.lexists(os.path.join(git_folder, name))), None)


def checked_out_submodules(path: str, env: Mapping[str, str]) -> list[str]:
    """Return the submodules that are checked out here. Raises GitFailed."""
    said = git.answer(path, git.THIS_TREE, "ls-files", "--stage", "-z", env=env, patience=git.CHECKOUT_PATIENCE)
    links = [line.split("\t", 1)[1] for line in said.split("\0") if line.startswith(GITLINK)]
    return [name for name in dict.fromkeys(links) if os.path.lexists(os.path.join(path, name, ".git"))]


def named(names: Sequence[str], count: int = 3) -> str:
    shown = ", ".join(name[:TAKEN] for name in names[:count])
    return shown if len(names) <= count else f"{shown} and {len(names) - count} more"
