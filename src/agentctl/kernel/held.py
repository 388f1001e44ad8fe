"""What a process has open, by the kernel's own list: files, and what it watches (inotify).

These are facts. The kernel gives each file the path that it has now, whatever it was called when the process opened it,
and what is watched by device and inode.
"""

from __future__ import annotations

import os

from agentctl.kernel.procfs import DELETED, link, read
from agentctl.model import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Identity = tuple[int, int, int]  # major, minor, inode: as mountinfo and the kernel's list of locks have them

WATCHES = "anon_inode:inotify"
MINOR_BITS = 20  # of the kernel's own number for a device


class Held(Value):
    """What one process has open."""

    files: tuple[tuple[str, str], ...] = ()  # the path as the process sees it, and a path that leads us there
    watched: frozenset[Identity] = frozenset()


def held_by(base: str) -> Held | None:
    """Return what the process of this folder of /proc has open; None if we may not look. Nothing here touches the files
    themselves: they may be on a dead mount. Files that were removed are left out."""
    files = []
    watched: set[Identity] = set()
    try:
        names = os.listdir(f"{base}/fd")
    except OSError:
        return None
    for name in names:
        try:
            target = os.readlink(f"{base}/fd/{name}")
            if target == WATCHES:
                watched.update(watched_in(read(f"{base}/fdinfo/{name}", 1024 * 1024)))
        except PermissionError:
            return None  # who may list all folders sees the numbers of its files, and no more
        except OSError:
            continue  # it was closed meanwhile
        if target.startswith("/") and not target.startswith("/dev/") and not target.endswith(DELETED):
            files.append((target, f"{base}/fd/{name}"))
    return Held(tuple(files), frozenset(watched))


def watched_in(info: bytes) -> Iterator[Identity]:
    """Yield what is watched, from the lines of fdinfo: `inotify wd:1 ino:9e7e sdev:800013 mask:...`, in hexadecimal."""
    for line in info.split(b"\n"):
        words = dict(word.partition(b":")[::2] for word in line.split()[1:]) if line.startswith(b"inotify ") else {}
        try:
            inode, device = int(words[b"ino"], 16), int(words[b"sdev"], 16)
        except (KeyError, ValueError):
            continue
        yield device >> MINOR_BITS, device & ((1 << MINOR_BITS) - 1), inode


def written_in(base: str) -> list[tuple[str, str]] | None:
    """Return the files that are open for writing in this fd folder of /proc, as `one_process.written_files` does."""
    found = []
    try:
        names = os.listdir(base)
    except OSError:
        return None
    for name in names:
        try:
            target = os.readlink(f"{base}/{name}")
            if not target.startswith("/") or target.startswith("/dev/"):
                continue
            target = link(f"{base}/{name}") or target  # without the mark of one that was removed
            if os.lstat(f"{base}/{name}").st_mode & 0o200:  # so the kernel shows that it may write
                found.append((target, f"{base}/{name}"))
        except PermissionError:
            return None  # as above
        except OSError:
            continue  # it was closed meanwhile
    return found
