"""Takes back what a checkout that stopped has written, and nothing else.

A file is git's only if no link leads to it and it has what git was about to write there, or a beginning of that. Git
has all of it among its objects, so nothing of a person's is lost with it. What else is there stays, and is named. Git
then writes what was there before, only where nothing is.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from agentctl.workspace import git, unsaved
from agentctl.workspace.unsaved import GITLINK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agentctl.workspace.merging import Change

NOTHING = "000000"  # the mode of a file that is not there
LINK = "120000"
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def take_back(top: str, changes: Sequence[Change], env: Mapping[str, str]) -> list[str]:
    """Return which of these places are not as they were: what is there now is not git's. Raises GitFailed and OSError:
    then it cannot be told."""
    files = [one for one in changes if GITLINK not in (one.was, one.mode)]
    touched = shown_as_changed(top, env)
    new = [one for one in files if one.was == NOTHING]
    old = [one for one in files if one.was != NOTHING and one.path in touched]
    for one in (*new, *(one for one in old if one.mode != NOTHING)):
        remove_if_written(top, one, env)
    for one in old:
        remove_empty_folders(top, one.path)
    missing = [one.path for one in old if is_free(top, one.path)]
    given = os.fsencode("".join(f"{path}\0" for path in missing))
    words = ("checkout-index", "--quiet", "-z", "--stdin")
    git.run(top, git.THIS_TREE, *words, env=env, patience=git.CHECKOUT_PATIENCE, input=given)
    touched = shown_as_changed(top, env)
    return [one.path for one in files if (one.path in touched if one.was != NOTHING else is_file(top, one.path))]


def shown_as_changed(top: str, env: Mapping[str, str]) -> set[str]:
    """Git writes its index last, so it shows each file that it has written. Raises GitFailed."""
    found = unsaved.status(top, env)
    if found is None:
        raise git.GitFailed(f"{top}: git status failed")
    return {name for _, name in found}


def remove_if_written(top: str, change: Change, env: Mapping[str, str]) -> None:
    """Remove a file if git has written it just now. Raises GitFailed and OSError."""
    before = status_of(top, change.path)
    if before is None or stat.S_ISDIR(before.st_mode) or stat.S_ISLNK(before.st_mode) != (change.mode == LINK):
        return
    content = written_by_git(top, change, env)
    folder, name = opened(top, change.path)
    try:
        if stat.S_ISLNK(before.st_mode):
            is_gits = os.fsencode(os.readlink(name, dir_fd=folder)) == content
        elif stat.S_ISREG(before.st_mode):
            is_gits = content.startswith(beginning(folder, name, len(content) + 1))
        else:
            return
        if is_gits and same(before, os.lstat(name, dir_fd=folder)):
            os.unlink(name, dir_fd=folder)
    finally:
        os.close(folder)


def written_by_git(top: str, change: Change, env: Mapping[str, str]) -> bytes:
    """Return what git writes into a file: what it has, through the filters of this worktree. Raises GitFailed."""
    way = ("blob",) if change.mode == LINK else ("--filters", f"--path={change.path}")
    ran = git.run(top, git.THIS_TREE, "cat-file", *way, change.id, env=env, patience=git.CHECKOUT_PATIENCE)
    if ran.code != 0:
        raise git.GitFailed(f"{top}: git cat-file: {git.why(ran)}")
    return ran.out


def beginning(folder: int, name: str, size: int) -> bytes:
    with open(os.open(name, FILE, dir_fd=folder), "rb") as file:
        return file.read(size)


def same(one: os.stat_result, other: os.stat_result) -> bool:
    return all(
        getattr(one, each) == getattr(other, each)
        for each in ("st_dev", "st_ino", "st_mode", "st_size", "st_mtime_ns", "st_ctime_ns")
    )


def remove_empty_folders(top: str, path: str) -> None:
    """Remove a folder in the place of a file, if it holds nothing but folders: git has made it for new files."""
    now = status_of(top, path)
    if now is None or not stat.S_ISDIR(now.st_mode):
        return
    folder, name = opened(top, path)
    try:
        if any(files for _, _, files, _ in os.fwalk(name, dir_fd=folder)):
            return
        with suppress(OSError):  # somebody put something into it
            for _, folders, _, at in os.fwalk(name, topdown=False, dir_fd=folder):
                for one in folders:
                    os.rmdir(one, dir_fd=at)
            os.rmdir(name, dir_fd=folder)
    finally:
        os.close(folder)


# Places, without a link on the way


def opened(top: str, path: str) -> tuple[int, str]:
    """Return a descriptor of the folder of a file, and the file's name in it. Raises OSError if a link or a file is on
    the way."""
    *above, name = path.split("/")
    at = os.open(top, FOLDER & ~os.O_NOFOLLOW)
    for part in above:
        try:
            below = os.open(part, FOLDER, dir_fd=at)
        finally:
            os.close(at)
        at = below
    return at, name


def status_of(top: str, path: str) -> os.stat_result | None:
    """Return what lstat says of a place; None if nothing is there: what is behind a link is not there. Raises OSError
    if it cannot be told."""
    import errno

    try:
        folder, name = opened(top, path)
        try:
            return os.lstat(name, dir_fd=folder)
        finally:
            os.close(folder)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return None
        raise


def is_file(top: str, path: str) -> bool:
    now = status_of(top, path)
    return now is not None and not stat.S_ISDIR(now.st_mode)


def is_free(top: str, path: str) -> bool:
    """Return whether nothing is in a place, nor anything but folders above it."""
    parts = path.split("/")
    if status_of(top, path) is not None:
        return False
    above = (status_of(top, "/".join(parts[:count])) for count in range(1, len(parts)))
    return all(one is None or stat.S_ISDIR(one.st_mode) for one in above)
