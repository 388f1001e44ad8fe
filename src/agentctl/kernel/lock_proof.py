"""Proves that a process holds a lock.

The kernel's list of locks (/proc/locks) names the process that took a lock. An flock belongs to the open file, not to
that process: a child inherits it, and holds it on after the process has ended. Then the list names a pid that anybody
may have by now. Only /proc/PID/fdinfo tells which locks the open files of a process hold.

Both name a file by the device of its mount and its inode. On an overlay of several file systems, and in the subvolumes
of a btrfs, two files have one such name: so the open file itself is compared, too.
"""

from __future__ import annotations

import os

from agentctl.kernel.procfs import link, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Identity = tuple[int, int, int]  # major, minor, inode

THREADS = 256  # of one process that are looked at: those that have open files of their own are few


def identity_in(fields: list[bytes]) -> Identity | None:
    """Return the file of an flock, by the words of a line of /proc/locks; None for another kind, and for a waiter. A
    line is: number, FLOCK, ADVISORY, WRITE, pid, major:minor:inode, and the range."""
    if len(fields) < 6 or fields[1] != b"FLOCK":  # waiters have "->" here
        return None
    try:
        major, minor, inode = fields[5].split(b":")
        return int(major, 16), int(minor, 16), int(inode)
    except ValueError:
        return None


def holds(base: str, identity: Identity, path: str) -> bool | None:
    """Return whether an open file of a process holds an flock on the file at this path, which has this identity; None
    if we may not look at its open files. `base`: its folder of /proc. A thread may have open files of its own."""
    try:
        if any(identity in locks and is_file(way, path) for way, locks in locks_of(base, os.path.basename(path))):
            return True
        threads = [f"{base}/task/{tid}" for tid in names_in(f"{base}/task")]
        return any(
            identity in locks and is_file(way, path)
            for thread in threads[:THREADS]
            for way, locks in locks_of(thread, os.path.basename(path))
        )
    except OSError:
        return None


def is_file(way: str, path: str) -> bool:
    """Return whether a descriptor of a process is of the file at this path."""
    try:
        return os.path.samestat(os.stat(way), os.stat(path))
    except OSError:
        return False  # one of them is gone by now


def names_in(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []  # that of a thread has none


def locks_of(base: str, name: str) -> Iterator[tuple[str, set[Identity | None]]]:
    """Yield the open files of a process, each with the locks that it holds; those of this name first. Raises OSError if
    they cannot be looked at."""
    targets = {fd: link(f"{base}/fd/{fd}") or "" for fd in os.listdir(f"{base}/fd")}
    for fd in sorted(targets, key=lambda fd: targets[fd].rpartition("/")[2] != name):
        try:
            lines = read(f"{base}/fdinfo/{fd}", 1024 * 1024).split(b"\n")
        except FileNotFoundError:
            continue  # it was closed meanwhile
        yield f"{base}/fd/{fd}", {identity_in(line.split()[1:]) for line in lines if line.startswith(b"lock:")}
