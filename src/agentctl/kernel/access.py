"""Into which processes the kernel lets us look, and whose they are.

It refuses to show the program, the directory and the open files of a process for one of these reasons:

- it is another user's, and we are not root;
- it closed itself to its own user, as ssh-agent does (PR_SET_DUMPABLE): then its files in /proc belong to root;
- it has powers that we do not have;
- we are confined: in a user namespace of our own, or by a security module.

Only the last one is about us: then no process can be excluded by what it runs.
"""

from __future__ import annotations

import os

from agentctl.kernel.procfs import PROC, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

EVERY_USER = [b"0", b"0", b"4294967295"]  # the uid_map of the machine's own user namespace
CAP_SYS_PTRACE = 1 << 19


def owner(pid: int) -> int | None:
    """Return the effective user of a process: its folder in /proc always belongs to that user."""
    return owner_of(f"{PROC}/{pid}")


def owner_of(path: str) -> int | None:
    try:
        return os.stat(path).st_uid
    except OSError:
        return None


def is_open_to(user: int, pid: int) -> bool:
    """Return whether a process is this user's and did not close itself: then its files in /proc are the user's."""
    return owner_of(f"{PROC}/{pid}/environ") == user


def why_closed(pids: Iterable[int]) -> str | None:
    """Return why we may not look into some of these processes although they are our user's and open to their own user;
    None if there is none. `pids`: those into which we may not look."""
    user = os.geteuid()
    own = [pid for pid in pids if is_open_to(user, pid)]
    if not own:
        return None
    ours, confined = powers("self", b"CapPrm"), not is_of_the_machine()
    closed = (pid for pid in own if (confined or not powers(pid, b"CapPrm") & ~ours) and is_closed(pid))
    where = "our user namespace" if confined else "our sandbox"
    return f"we may not look into other processes of this user from {where}" if any(True for _ in closed) else None


def is_closed(pid: int) -> bool:
    """Return whether the kernel refuses to say what a process runs. One that is starting may be closed for a moment."""
    try:
        os.readlink(f"{PROC}/{pid}/exe")
    except PermissionError:
        return is_open_to(os.geteuid(), pid)
    except OSError:
        return False  # it has ended
    return False


def may_see_all() -> bool:
    """Return whether the kernel shows us every process, however /proc is mounted: it asks for the right to trace others
    (CAP_SYS_PTRACE), in the user namespace of the machine. Root in a user namespace has it only there."""
    return is_of_the_machine() and bool(powers("self", b"CapEff") & CAP_SYS_PTRACE)


def is_of_the_machine() -> bool:
    """Return whether we are in the user namespace of the machine."""
    try:
        return read(f"{PROC}/self/uid_map", 4096).split() == EVERY_USER
    except OSError:
        return False


def powers(pid: int | str, name: bytes) -> int:
    """Return a set of capabilities of a process, as status names it; none if that cannot be read."""
    try:
        words = read(f"{PROC}/{pid}/status", 16384).partition(b"\n" + name + b":")[2].split(None, 1)
        return int(words[0], 16) if words else 0
    except (OSError, ValueError):
        return 0
