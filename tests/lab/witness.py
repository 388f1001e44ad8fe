"""Which process is behind a connection: by the kernel's list of sockets, and the open files of the processes."""

from __future__ import annotations

import os

TCP_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")


def pid_behind_port(port: int) -> int | None:
    """The process whose socket has this local port."""
    inode = inode_of(port)
    if inode is None:
        return None
    wanted = f"socket:[{inode}]"
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid() and holds(name, wanted):
            return int(name)
    return None


def inode_of(port: int) -> str | None:
    for path in TCP_TABLES:
        try:
            lines = open(path).read().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if int(fields[1].rpartition(":")[2], 16) == port and fields[9] != "0":
                return fields[9]
    return None


def holds(pid: str, wanted: str) -> bool:
    folder = f"/proc/{pid}/fd"
    try:
        numbers = os.listdir(folder)
    except OSError:
        return False
    for number in numbers:
        try:
            if os.readlink(f"{folder}/{number}") == wanted:
                return True
        except OSError:
            continue  # closed meanwhile
    return False
