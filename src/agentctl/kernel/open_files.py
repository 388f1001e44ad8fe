"""Which files a process uses: its program, its root, what it has open, what it has mapped into its memory, and the
sockets that it has made in the file system."""

from __future__ import annotations

import os

from agentctl.kernel.procfs import PROC, link, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAPS_LIMIT = 16 * 1024 * 1024
SOCKET = "socket:["
SOCKETS_LIMIT = 64 * 1024 * 1024
NAME_AT = 7  # the field of a line of /proc/PID/net/unix that has the path; before it is the inode number of the socket
PATH_AT = 5  # the field of a line of /proc/PID/maps that has the path, behind spaces


def used_by(pid: int) -> Iterator[str]:
    """Yield the paths as the kernel names them now. Nothing of a process that we may not look into."""
    folder = f"{PROC}/{pid}/fd"
    try:
        names = [f"{folder}/{name}" for name in os.listdir(folder)]
    except OSError:
        names = []  # it has ended, or is of another user
    sockets = []
    for path in (f"{PROC}/{pid}/exe", f"{PROC}/{pid}/root", *names):
        if (found := link(path)) is not None and found.startswith("/"):
            yield found
        elif found is not None and found.startswith(SOCKET):
            sockets.append(found[len(SOCKET) : -1])
    yield from bound(pid, sockets) if sockets else ()
    yield from mapped(pid)


def bound(pid: int, sockets: Iterable[str]) -> Iterator[str]:
    """Yield the paths of those of these sockets, by their inode numbers, that have one. The kernel keeps the path that
    the process gave: a relative one is meant from the directory that it was in."""
    try:
        lines = read(f"{PROC}/{pid}/net/unix", SOCKETS_LIMIT).splitlines()
    except OSError:
        return
    wanted = {number.encode() for number in sockets}
    for line in lines:
        fields = line.split(maxsplit=NAME_AT)
        if len(fields) > NAME_AT and fields[NAME_AT - 1] in wanted and not fields[NAME_AT].startswith(b"@"):
            path = os.fsdecode(fields[NAME_AT])
            yield os.path.normpath(path if path.startswith("/") else f"{link(f'{PROC}/{pid}/cwd') or ''}/{path}")


def mapped(pid: int) -> Iterator[str]:
    try:
        lines = read(f"{PROC}/{pid}/maps", MAPS_LIMIT).splitlines()
    except OSError:
        return
    seen = set()
    for line in lines:
        fields = line.split(maxsplit=PATH_AT)
        if len(fields) > PATH_AT and fields[PATH_AT].startswith(b"/") and fields[PATH_AT] not in seen:
            seen.add(fields[PATH_AT])
            yield os.fsdecode(fields[PATH_AT])
