"""Private folders and files: only this user can write them, and agentctl believes no others."""

from __future__ import annotations

import os
import stat
import time

from agentctl import __version__
from agentctl.errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

OTHERS_MAY_WRITE, OTHERS_MAY_ANYTHING = 0o022, 0o077

# agentctl believes a cache only if the code that wrote it reads files as this code does. Raise the number whenever that
# code changes what it reads; a test compares it with the code.
CACHE_SCHEMA = 19
CACHE_CODE = f"{__version__} {CACHE_SCHEMA}"


def make_private(folder: str, own: Collection[str] | None = None) -> None:
    """Make a folder, with its parents, that only this user can read. Raises Refused if it is not ours alone. `own`: the
    names that we put there; if the folder has others, and is open to other users, it is not closed to them: a person
    may have named a folder of their own by mistake."""
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    why = not_ours(folder)
    if why is None and own is not None and os.stat(folder).st_mode & OTHERS_MAY_ANYTHING:
        others = sorted({*os.listdir(folder)}.difference(own))
        why = f"it has other files ({', '.join(others[:3])}) and others can read it" if others else None
    if why is not None:
        raise Refused(
            f"{folder}: {why}; change its owner or mode (chmod go-rwx), or set AGENTCTL_HOME to another folder"
        )
    close_to_others(folder)


def not_ours(folder: str) -> str | None:
    """Return why another user could write to this folder or replace it; None if no one could. A link that we made
    counts as the folder it leads to."""
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
    """Make a folder unreadable for others: it may have been made by hand, or unpacked from a backup. Uses a descriptor,
    so whatever gets this name a moment later is not touched."""
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
    """Replace a file as a whole, or not at all. It is not synced: use it only for what can be made again."""
    _replace(path, data, lambda fd: None)


def replace_durably(path: str, data: bytes) -> None:
    """Replace a file as a whole, or not at all, also if the power is cut."""
    _replace(path, data, os.fsync)
    sync_folder(os.path.dirname(path))


def _replace(path: str, data: bytes, sync: Callable[[int], None]) -> None:
    temporary = f"{path}.{os.getpid()}.{os.urandom(4).hex()}"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with open(fd, "wb") as file:
            file.write(data)
            file.flush()
            sync(fd)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def remove_unfinished(path: str, age: float) -> None:
    """Remove what replace_file left behind when it was killed, if that is older than `age` seconds."""
    now, folder = time.time(), os.path.dirname(path)
    with os.scandir(folder) as entries:
        for entry in entries:
            unfinished = entry.name.startswith(os.path.basename(path) + ".")
            if unfinished and now - entry.stat(follow_symlinks=False).st_mtime > age:
                os.unlink(entry.path)


def read_own(path: str, limit: int) -> bytes:
    """Read a file that only this user can write. Raises ValueError for any other, and for one that is too large."""
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
    """Sync a folder, so that what was renamed or linked into it survives a power cut."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
