"""Folders and files that are ours alone: made so, and believed only if they are."""

from __future__ import annotations

import os
import stat
import time

from agentctl.errors import Refused

OTHERS_MAY_WRITE, OTHERS_MAY_ANYTHING = 0o022, 0o077


def make_private(folder: str) -> None:
    """Make a folder that only we can look into, with its parents; what is there already must be ours."""
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    if (why := not_ours(folder)) is not None:
        raise Refused(f"{folder}: {why}; make it yours alone, or set AGENTCTL_HOME to another folder")
    close_to_others(folder)


def not_ours(folder: str) -> str | None:
    """Why what is written here could come from, or be taken by, somebody else. A link counts as what it leads to, if
    it was us who made it."""
    link, found = os.lstat(folder), os.stat(folder)
    if not stat.S_ISDIR(found.st_mode):
        return "not a folder"
    if found.st_uid != os.geteuid():
        return f"it belongs to another user (uid {found.st_uid})"
    if link.st_uid != os.geteuid():
        return f"it is a link that another user made (uid {link.st_uid})"
    if found.st_mode & OTHERS_MAY_WRITE:
        return f"others can write to it (mode {stat.S_IMODE(found.st_mode):o})"
    return None


def close_to_others(folder: str) -> None:
    """One that was made by hand, or by an unpacked backup, may be open to be read. Through a descriptor: what has this
    name a moment later is not touched."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        found = os.fstat(fd)
        if found.st_uid == os.geteuid() and found.st_mode & OTHERS_MAY_ANYTHING:
            os.fchmod(fd, stat.S_IMODE(found.st_mode) & ~OTHERS_MAY_ANYTHING)
    except OSError:
        pass  # a file system without modes
    finally:
        os.close(fd)


def replace_file(path: str, data: bytes) -> None:
    """The whole of it, or what was there before. Not synced: for what can be found again."""
    temporary = f"{path}.{os.getpid()}.{os.urandom(4).hex()}"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with open(fd, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def remove_unfinished(path: str, age: float) -> None:
    """What replace_file left of this file when it was killed, so many seconds ago."""
    now, folder = time.time(), os.path.dirname(path)
    with os.scandir(folder) as entries:
        for entry in entries:
            unfinished = entry.name.startswith(os.path.basename(path) + ".")
            if unfinished and now - entry.stat(follow_symlinks=False).st_mtime > age:
                os.unlink(entry.path)


def read_own(path: str, limit: int) -> bytes:
    """A file that nobody but us can write. Raises ValueError for any other one, and for one that is too large."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & OTHERS_MAY_WRITE:
            raise ValueError("not a file of ours alone")
        if found.st_size > limit:
            raise ValueError("too large")
        with open(fd, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(fd)


def sync_folder(folder: str) -> None:
    """What was renamed or linked into it is there after a power cut, too."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
