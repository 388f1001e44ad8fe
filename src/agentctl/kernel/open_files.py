"""Which files a process uses: its program, its root, what it has open, and what it has mapped into its memory."""

from __future__ import annotations

import os

from agentctl.kernel.procfs import PROC, link, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MAPS_LIMIT = 16 * 1024 * 1024
PATH_AT = 5  # the field of a line of /proc/PID/maps that has the path, behind spaces


def used_by(pid: int) -> Iterator[str]:
    """Yield the paths as the kernel names them now. Nothing of a process that we may not look into."""
    folder = f"{PROC}/{pid}/fd"
    try:
        names = [f"{folder}/{name}" for name in os.listdir(folder)]
    except OSError:
        names = []  # it has ended, or is of another user
    for path in (f"{PROC}/{pid}/exe", f"{PROC}/{pid}/root", *names):
        if (found := link(path)) is not None and found.startswith("/"):
            yield found
    yield from mapped(pid)


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
