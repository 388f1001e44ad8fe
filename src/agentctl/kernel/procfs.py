"""Read files and links of /proc."""

from __future__ import annotations

import os

PROC = "/proc"
DELETED = " (deleted)"
CHUNK = 64 * 1024  # bytes: what is read at once


def why_blind() -> str | None:
    """Return why /proc does not show the processes of our own PID namespace; None if it does.

    Somebody else's /proc (`unshare --pid` without --mount-proc, `nsenter -p` without -m) gives our pids to strangers.
    """
    try:
        own = os.readlink(f"{PROC}/self")
    except OSError as error:
        return f"{PROC}/self cannot be read ({error.strerror}): {PROC} is not mounted, or is of another PID namespace"
    if own != str(os.getpid()):
        return f"{PROC} is of another PID namespace than ours: mount it anew (`mount -t proc proc {PROC}`)"
    return None


def own_pid_namespace() -> str | None:
    """Return the PID namespace that we are in, as the kernel names it; None if that cannot be read. The kernel gives
    its number to another namespace once this one has ended, so it is only a name together with the boot."""
    return link(f"{PROC}/self/ns/pid")


def read(path: str, limit: int) -> bytes:
    """Read a /proc file with as few system calls as there are: a scan makes thousands of these. Python makes room for
    as much as it asks for, and the kernel is slow to give megabytes."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.read(fd, min(limit, CHUNK))
        while data and len(data) < limit and (more := os.read(fd, min(limit - len(data), CHUNK))):
            data += more
        return data
    finally:
        os.close(fd)


def link(path: str) -> str | None:
    """Return what a link points to; None if that cannot be read."""
    try:
        target = os.readlink(path)
    except OSError:
        return None
    # So the kernel marks a name that was removed; a name that is there may end so, too.
    return target.removesuffix(DELETED) if target.endswith(DELETED) and not os.path.lexists(target) else target


def mounts_of(process: int | str) -> str | None:
    """Return which mounts a process sees, and from which root; None if that cannot be read."""
    try:
        return f"{os.readlink(f'{PROC}/{process}/ns/mnt')} {os.readlink(f'{PROC}/{process}/root')}"
    except OSError:
        return None


def names_a_variable(entry: str) -> bool:
    """Return whether this can be an entry of an environment, and not a title that a program has written over it."""
    name, equals, _ = entry.partition("=")
    return bool(name and equals) and not any(mark in name for mark in " /:")
