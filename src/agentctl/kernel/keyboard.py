"""Tells whether keys that are typed at a terminal reach one process, and nobody else.

The kernel hands keys to whoever reads the terminal, and lets only its foreground process group read. So a process gets
them alone if it is in that group, reads from the terminal, and no other process of the group can. What its ancestors
have open does not count: a wrapper or a shell that runs it in the foreground waits for it.
"""

from __future__ import annotations

import os

from agentctl.kernel.procfs import PROC, link, read
from agentctl.model import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agentctl.model import Process

CONTROLLING = (5, 0)  # /dev/tty: whoever opens it gets the terminal of its own session
TERMINALS = range(136, 144)  # the major numbers of /dev/pts/*
OUTPUTS = ("1", "2")  # a shell opens the standard descriptors for reading, too; nobody reads these two
STAT_LIMIT = 4096
DEAD = b"ZXx"


class Unheard(Value):
    """Why keys may not reach a process, or may reach others."""

    text: str
    never: bool = False  # no key will ever reach it: it does not read from a terminal


class Row(Value):
    """What the kernel says about a process and its terminal."""

    comm: str
    parent: int
    group: int
    terminal: tuple[int, int]  # major and minor; (0, 0): none
    foreground: int  # the process group that may read the terminal
    start: int


def why_unheard(process: Process) -> Unheard | None:
    """Return why keys may not reach this process, or may reach others; None if only it gets them. Read anew."""
    row = row_of(process.pid)
    if row is None or row.start != process.key.start:
        return Unheard(f"pid {process.pid} has ended")
    if row.terminal == (0, 0):
        return Unheard(f"pid {process.pid} has no terminal", never=True)
    if descriptors_on(process.pid, row.terminal, only="0") != ["0"]:
        why = f"the input of pid {process.pid} is no terminal, but a pipe or a file: nothing that is typed reaches it"
        return Unheard(why, never=True)
    if row.group != row.foreground:
        return Unheard(
            f"pid {process.pid} is in the background of its terminal, so it does not read what is typed there: "
            f"{named(row.foreground)} does"
        )
    shared = why_shared(process.pid, row)
    return Unheard(shared) if shared is not None else None


def why_shared(pid: int, row: Row) -> str | None:
    """Return which other process of the foreground group can read the terminal; None if none can."""
    rows = {int(name): found for name in os.listdir(PROC) if name.isdigit() and (found := row_of(int(name)))}
    waiting, above = {pid}, row.parent
    while above in rows and above not in waiting:
        waiting.add(above)
        above = rows[above].parent
    for other, found in rows.items():
        if found.group != row.foreground or other in waiting:
            continue
        open_here = descriptors_on(other, row.terminal)
        if open_here is None:
            return f"pid {other} ({found.comm}) shares its terminal, and may not be looked into"
        if any(name not in OUTPUTS for name in open_here):
            return f"pid {other} ({found.comm}) reads its terminal at this moment"
    return None


def row_of(pid: int) -> Row | None:
    """Return what the kernel says about this process; None if it has ended."""
    try:
        data = read(f"{PROC}/{pid}/stat", STAT_LIMIT)
    except OSError:
        return None
    fields = data[data.rfind(b")") + 2 :].split()
    if len(fields) < 20 or fields[0] in (bytes([state]) for state in DEAD):
        return None
    parent, group, _, terminal, foreground = map(int, fields[1:6])
    place = ((terminal >> 8) & 0xFFF, (terminal & 0xFF) | ((terminal >> 12) & 0xFFF00))
    comm = data[data.find(b"(") + 1 : data.rfind(b")")].decode(errors="replace")
    return Row(comm, parent, group, place, foreground, int(fields[19]))


def descriptors_on(pid: int, terminal: tuple[int, int], only: str | None = None) -> list[str] | None:
    """Return the descriptors of a process that are this terminal; None if that cannot be read. `only`: look at this
    one alone."""
    base = f"{PROC}/{pid}/fd"
    found = []
    try:
        for name in [only] if only is not None else os.listdir(base):
            try:
                device = os.stat(f"{base}/{name}").st_rdev
            except FileNotFoundError:
                continue  # it was closed meanwhile, or leads to no file
            if (os.major(device), os.minor(device)) in (terminal, CONTROLLING):
                found.append(name)
    except (FileNotFoundError, ProcessLookupError):
        return []
    except OSError:
        return None
    return found


def is_at(pid: int, path: str) -> bool:
    """Return whether a process is at the terminal with this path. Each mount of devpts has terminals of the same
    numbers: so the file counts, not the number. A process whose input and output are no terminals is taken to mean
    ours by its number if it sees our mounts."""
    try:
        wanted = os.stat(path)
        found = [status for name in ("0", "1", "2") if (status := status_of(f"{PROC}/{pid}/fd/{name}")) is not None]
    except OSError:
        return False
    terminals = [(one.st_dev, one.st_ino) for one in found if os.major(one.st_rdev) in TERMINALS]
    if terminals:
        return (wanted.st_dev, wanted.st_ino) in terminals
    theirs = link(f"{PROC}/{pid}/ns/mnt")
    return theirs is not None and theirs == link(f"{PROC}/self/ns/mnt")


def status_of(path: str) -> os.stat_result | None:
    """Return the file of a descriptor; None if it is closed."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def named(group: int) -> str:
    """Return a process group for people, by the process that leads it."""
    row = row_of(group)
    return f"pid {group} ({row.comm})" if row is not None else f"process group {group}"
