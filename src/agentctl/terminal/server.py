"""Who listens at the socket of a tmux server.

A tmux client obeys its server: it opens files for it, and may run commands for it. So no client of ours speaks to a
server that is not proved to be as free as we are.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager

from agentctl.kernel.confinement import why_confined
from agentctl.kernel.procfs import PROC, link

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE = 5.0  # seconds to connect
CREDENTIALS = 12  # bytes: pid, user, group
LISTENING = 0x10000  # in the flags of /proc/net/unix
NOT_ASKED = "its server is not proved to be yours, so agentctl does not ask it: "


@contextmanager
def pinned(path: str) -> Iterator[str]:
    """Yield a path that leads to this very socket, whatever has its name by then. Raises OSError."""
    if not hasattr(os, "O_PATH"):
        yield path
        return
    fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield f"{PROC}/{os.getpid()}/fd/{fd}"
    finally:
        os.close(fd)


def why_not_ours(path: str) -> str | None:
    """Return why the server at this socket must not be asked; None if it is proved to be as free as we are, or if this
    system cannot tell (macOS). Raises OSError if nobody listens."""
    import socket

    if not hasattr(socket, "SO_PEERCRED"):
        return None
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(PATIENCE)
        client.connect(path)
        peer = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS)
    pid = int.from_bytes(peer[:4], sys.byteorder)
    if pid == 0:  # the kernel says so of a process that our PID namespace does not have
        return f"{NOT_ASKED}it is in another PID namespace"
    if (why := why_confined(pid)) is not None:
        return f"{NOT_ASKED}{why} (pid {pid})"
    # The kernel named whoever began to listen: that one may have ended, and its pid be another's.
    return None if listens(pid, path) else f"{NOT_ASKED}pid {pid}, which began to listen there, does so no more"


def listens(pid: int, path: str) -> bool:
    """Return whether this process holds the listening socket that is bound to this file."""
    try:
        wanted = os.stat(path)
        with open(f"{PROC}/{pid}/net/unix", encoding="utf-8", errors="surrogateescape") as table:
            bound = [words for line in table if len(words := line.rstrip("\n").split(None, 7)) == 8]
        held = {link(f"{PROC}/{pid}/fd/{name}") for name in os.listdir(f"{PROC}/{pid}/fd")}
    except OSError:
        return False
    return any(f"socket:[{inode}]" in held and is_bound(words, wanted) for words in bound if (inode := inode_of(words)))


def inode_of(words: list[str]) -> str | None:
    """Return the inode of a listening socket in a row of /proc/net/unix."""
    try:
        return words[6] if int(words[3], 16) & LISTENING else None
    except ValueError:
        return None


def is_bound(words: list[str], wanted: os.stat_result) -> bool:
    try:
        found = os.stat(words[7])
    except (OSError, ValueError):
        return False
    return (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino)
