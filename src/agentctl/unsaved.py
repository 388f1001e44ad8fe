"""What is in a worktree and nowhere else: what would be lost with it. Only questions."""

from __future__ import annotations

import os

from agentctl import git

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HEADS = "refs/heads/"
TAKEN = 50  # of the names in a message
GITLINK = "160000"
# What git leaves in a worktree's own folder in the middle of something.
OPERATIONS = {
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "BISECT_LOG": "a bisect",
    "sequencer": "a cherry-pick",
}


def changed_files(path: str, env: Mapping[str, str]) -> list[str] | None:
    """Tracked or not, submodules included; None: it cannot be told. What git is told to ignore is not among them."""
    found = status(path, env)
    return None if found is None else [name for _, name in found]


def status(path: str, env: Mapping[str, str]) -> list[tuple[str, str]] | None:
    """The same, each with git's two letters for it; ?? is a file that git does not know."""
    words = ("status", "--porcelain", "--no-renames", "--untracked-files=all", "--ignore-submodules=none", "-z")
    ran = git.run(path, *words, env=env, patience=git.CHECKOUT_PATIENCE)
    return None if ran.code != 0 else [(entry[:2], entry[3:]) for entry in git.text(ran.out).split("\0") if entry]


def ignored_files(path: str, env: Mapping[str, str]) -> list[str]:
    """What git was told to ignore: a folder that is ignored as a whole counts once, and ends with a slash."""
    words = ("ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z")
    ran = git.run(path, *words, env=env, patience=git.CHECKOUT_PATIENCE)
    return [entry for entry in git.text(ran.out).split("\0") if entry] if ran.code == 0 else []


def repositories_in(path: str, folders: Sequence[str]) -> list[str]:
    """Those of the folders that are repositories of their own."""
    return [name for name in folders if name.endswith("/") and os.path.lexists(os.path.join(path, name, ".git"))]


def operation(git_folder: str) -> str | None:
    """What somebody is in the middle of. The git folder is the worktree's own."""
    return next((what for name, what in OPERATIONS.items() if os.path.lexists(os.path.join(git_folder, name))), None)


def own_commits(common: str, commit: str, without: str | None, held: Sequence[str], env: Mapping[str, str]) -> int:
    """How many commits no branch (but `without`), remote branch or tag has, nor any commit of `held`."""
    exclude = (f"--exclude={without}",) if without else ()  # below refs/heads: --branches looks there
    words = ("rev-list", "--count", commit, "--not", *exclude, "--branches", "--remotes", "--tags", *held)
    return int(git.answer(common, git.HERE, *words, env=env, patience=git.CHECKOUT_PATIENCE))


def in_submodules(path: str, env: Mapping[str, str]) -> list[str]:
    """Why the submodules that are checked out here are needed: their commits and stashes go with the worktree, unless a
    remote has them. Changes in them are changes of the worktree."""
    found = []
    for name in checked_out_submodules(path, env):
        inner = os.path.join(path, name)
        head = git.question(inner, "rev-parse", "--verify", "--quiet", "HEAD^{commit}", env=env)
        words = ("rev-list", "--count", *([head] if head else []), "--branches", "--tags", "--not", "--remotes")
        count = git.question(inner, *words, env=env)
        if count is None:
            found.append(f"submodule {name}: git cannot say what is in it")
        elif count != "0":
            found.append(f"submodule {name} has {count} commit{'' if count == '1' else 's'} that no remote has")
        if git.question(inner, "rev-parse", "--verify", "--quiet", "refs/stash", env=env):
            found.append(f"submodule {name} has a stash")
        found += in_submodules(inner, env)
    return found


def checked_out_submodules(path: str, env: Mapping[str, str]) -> list[str]:
    said = git.question(path, "ls-files", "--stage", "-z", env=env)
    links = [line.split("\t", 1)[1] for line in (said or "").split("\0") if line.startswith(GITLINK)]
    return [name for name in dict.fromkeys(links) if os.path.lexists(os.path.join(path, name, ".git"))]


def named(names: Sequence[str], count: int = 3) -> str:
    shown = ", ".join(name[:TAKEN] for name in names[:count])
    return shown if len(names) <= count else f"{shown} and {len(names) - count} more"
