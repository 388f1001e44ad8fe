"""Proves that a process holds a lock.

The kernel's list of locks (/proc/locks) names the process that took a lock. An flock belongs to the open file, not to
that process: a child inherits it, and holds it on after the process has ended. Then the list names a pid that anybody
may have by now. Only /proc/PID/fdinfo tells which locks the open files of a process hold.
"""

from __future__ import annotations

import os

from agentctl.kernel.procfs import link, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Identity = tuple[int, int, int]  # major, minor, inode


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


def holds(base: str, identity: Identity, name: str) -> bool | None:
    """Return whether an open file of a process holds an flock on the file of this identity; None if we may not look at
    its open files. `base`: its folder of /proc; `name`: of the file; what is called so is looked at first."""
    try:
        return any(identity in locks for locks in locks_of(base, name))
    except OSError:
        return None


def locks_of(base: str, name: str) -> Iterator[set[Identity | None]]:
    """Yield the locks that each open file of a process holds. Raises OSError if they cannot be looked at."""
    targets = {fd: link(f"{base}/fd/{fd}") or "" for fd in os.listdir(f"{base}/fd")}
    for fd in sorted(targets, key=lambda fd: targets[fd].rpartition("/")[2] != name):
        try:
            lines = read(f"{base}/fdinfo/{fd}", 1024 * 1024).split(b"\n")
        except FileNotFoundError:
            continue  # it was closed meanwhile
        yield {identity_in(line.split()[1:]) for line in lines if line.startswith(b"lock:")}
