"""Who is at the other end of a connection, by the kernel. Only this user is answered.

The mode of the socket keeps others out, too; a person may change it, and some systems do not heed it.
"""

from __future__ import annotations

import os
import socket
import struct
import sys

from uvicorn.protocols.http.h11_impl import H11Protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping

LOCAL_PEERCRED, LOCAL_PEERPID = 1, 2  # of macOS, at level 0
XUCRED = struct.Struct("IIh16I")


def credentials(connection: socket.socket) -> tuple[int, int]:
    """Return pid and uid of the process that connected. Raises OSError."""
    if sys.platform == "linux":
        pid, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return pid, uid
    found = XUCRED.unpack(connection.getsockopt(0, LOCAL_PEERCRED, XUCRED.size))
    return struct.unpack("i", connection.getsockopt(0, LOCAL_PEERPID, 4))[0], found[1]


def protocol_for(user: int, tell: Callable[[str], None]) -> type[H11Protocol]:
    """Return uvicorn's own protocol, with a check of who connects. A request then has the pid as its client."""

    class Checked(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            try:
                pid, uid = credentials(transport.get_extra_info("socket"))
            except OSError as error:
                pid, uid = 0, -1
                tell(f"a connection was refused: the kernel does not tell whose it is ({error})")
            if uid != user:
                tell(f"a connection of another user was refused: uid {uid}, pid {pid}")
                transport.abort()
            super().connection_made(transport)
            self.client = (str(pid), uid)

    return Checked


def marker_of(pid: str, name: str) -> Mapping[str, str]:
    """Return the variable of this name of a process, if it has one: which launch it descends from. It leads to more
    caution only, so it does not matter if the process has ended and another one has its pid."""
    try:
        with open(f"/proc/{int(pid)}/environ", "rb") as file:
            entries = file.read(8 * 1024 * 1024).split(b"\0")
    except (OSError, ValueError):
        return {}
    found = [entry for entry in entries if entry.startswith(name.encode() + b"=")]
    return {name: os.fsdecode(found[0].partition(b"=")[2])} if found else {}
