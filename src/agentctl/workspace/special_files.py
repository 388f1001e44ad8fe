"""Files that git would open and wait for, perhaps for ever: a FIFO or a device in the place of its rules, or of a file
in a git folder. An agent can make one, so agentctl looks before it runs git, and opens git's files without waiting.
"""

from __future__ import annotations

import os
import stat

from agentctl.workspace import git

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

RULES = frozenset((".gitignore", ".gitattributes", ".gitmodules"))
OBJECTS = "objects"  # too many to look at, and git reads each by its content
SMALL = 64 * 1024


def special_files(path: str) -> list[str]:
    """Return those in a worktree: rules, and the git folders of repositories in it."""
    found = []
    front = [path]
    while front:
        folder = front.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name == ".git":
                        found += special_git_files(entry)
                    elif entry.is_dir(follow_symlinks=False):
                        front.append(entry.path)
                    elif entry.name in RULES and is_special(entry):
                        found.append(entry.path)
        except OSError:
            continue  # git does not come there either, or says so
    return sorted(os.path.relpath(one, path) for one in found)


def special_git_files(entry: os.DirEntry[str]) -> list[str]:
    """Return those of a .git: itself, or what is in it if it is a folder."""
    if entry.is_dir(follow_symlinks=False):
        return special_in(entry.path)
    return [entry.path] if is_special(entry) else []


def special_in(git_folder: str) -> list[str]:
    """Return those in a git folder, at any depth but for its objects; nothing of what cannot be listed: git cannot read
    that either, and says so."""
    return sorted(walk(git_folder))


def walk(git_folder: str) -> Iterator[str]:
    front = [git_folder]
    while front:
        try:
            with os.scandir(front.pop()) as entries:
                listed = list(entries)
        except OSError:
            continue
        for entry in listed:
            if entry.is_dir(follow_symlinks=False):
                front += [entry.path] if entry.name != OBJECTS else []
            elif is_special(entry):
                yield entry.path


def is_special(entry: os.DirEntry[str]) -> bool:
    """Return whether this is no file. A link is what it leads to; one that leads nowhere is nothing to wait for."""
    if entry.is_file(follow_symlinks=False):
        return False
    try:
        mode = os.stat(entry.path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISSOCK(mode))


def refuse_special_files(path: str) -> None:
    if special := special_files(path):
        raise refused(path, special)


def refuse_special_in(git_folder: str) -> None:
    """Raise GitSilent if git would wait in its own folder."""
    if special := special_in(git_folder):
        raise refused(git_folder, [os.path.relpath(one, git_folder) for one in special])


def refused(path: str, special: list[str]) -> git.GitSilent:
    more = f" and {len(special) - 1} more" if len(special) > 1 else ""
    return git.GitSilent(f"{path}: {special[0]}{more} is no file, and git would wait for it; remove it, and try again")


def content(path: str, limit: int = -1) -> bytes:
    """Return what is in one of git's files, without waiting for a FIFO. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(f"{path}: it is no file")
        return file.read(limit)
