"""Which directory a path or a process means: its device and inode, and those of all directories above it.

A path is only a name. A directory can be renamed under a live process, be mounted at a second place, and have another
path in a container. Its device and inode stay the same. The kernel leads us to the directory of a process without a
name (/proc/PID/cwd), and from there upwards by `..`.
"""

from __future__ import annotations

import errno
import os

from agentctl.kernel.birth import born
from agentctl.kernel.mounts import mounts_in
from agentctl.kernel.procfs import PROC, link, read
from agentctl.model import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from agentctl.kernel.mounts import Mount

    Identity = tuple[int, int]  # device, inode

SAME, ABOVE, BELOW = "same", "above", "below"
NO_SUCH = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ESRCH)
FOLDER = os.O_DIRECTORY | os.O_CLOEXEC | (os.O_PATH if hasattr(os, "O_PATH") else os.O_RDONLY)
DEEPEST = 4096  # levels: more than a path can have


class Place(Value):
    """A directory, by what it is."""

    name: str  # for people
    at: Identity | None  # None: there is one, and it cannot be told which
    above: frozenset[Identity] = frozenset()  # of the directories above it, whichever way they lead to it


def of_path(path: str) -> Place | None:
    """Return the directory that a path of ours leads to; None if it leads to none."""
    return at_the_end_of(path, path, "self") if os.path.isabs(path) and "\0" not in path else None


def of_process(folder: str, pid: int) -> Place | None:
    """Return the directory of a process, whatever mounts it sees; None if it has none: a process that ends gives up its
    directory before it leaves the table. `folder`: what /proc shows of a living thread of it."""
    way = f"{folder}/cwd"
    return at_the_end_of(way, link(way) or f"the directory of pid {pid}", pid)


def plain(path: str) -> str:
    """Return an absolute path without empty parts and `.`. Only the kernel knows where `..` leads: behind a link that
    is another place than the text says."""
    return "/" + "/".join(part for part in path.split("/") if part not in ("", "."))


def names_in(folder: str) -> list[str]:
    """Return the names in a folder; none if it cannot be listed: for those who look for something in many places."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def identity(path: str) -> Identity | None:
    """Return device and inode of what a path leads to; None if that cannot be read."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def made(path: str) -> tuple[int, int, int | None] | None:
    """Return which directory a path leads to, also if its inode gets a new owner later: device, inode, and when it was
    made, if that is known. None if it leads to none."""
    try:
        fd = os.open(path, FOLDER)
    except (OSError, ValueError):
        return None
    try:
        return (*identity_of(fd), born(fd))
    except OSError:
        return None
    finally:
        os.close(fd)


def is_another(path: str, was: tuple[int, int, int | None] | None) -> bool:
    """Return whether a path leads to another directory than the one that it was. If one is not known, or nothing is
    there, it is no other one. The number of a device may change with a mount; the time stays."""
    now = made(path)
    if was is None or now is None:
        return False
    if now[2] is not None and was[2] is not None:
        return now[1:] != was[1:]
    return now[:2] != was[:2]


def at_the_end_of(way: str, name: str, owner: int | str) -> Place | None:
    """Return the directory that `way` leads to. `owner`: the process among whose mounts it is called `name`."""
    try:
        fd = os.open(way, FOLDER)
    except OSError as error:
        return None if error.errno in NO_SUCH else Place(name, None)
    try:
        at = identity_of(fd)
        above = set(climb(fd))
        for other in other_names(fd, link(f"{PROC}/self/fd/{fd}") or name, owner):
            above.update(above_the_same(other, at))
        return Place(name, at, frozenset(above) - {at})
    except OSError:
        return Place(name, None)
    finally:
        os.close(fd)


def identity_of(fd: int) -> Identity:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


def climb(fd: int) -> Iterator[Identity]:
    """Yield the directories above an open one. It ends at the root, or where we may not go on."""
    yield from (at for at, _ in upwards(fd))


def upwards(fd: int) -> Iterator[tuple[Identity, int]]:
    """Yield the same, each with a descriptor that is open until the next one."""
    at, here = identity_of(fd), os.dup(fd)
    try:
        for _ in range(DEEPEST):
            try:
                parent = os.open("..", FOLDER, dir_fd=here)
            except OSError:
                return  # its way up is closed to us, or it was removed
            os.close(here)
            here, below = parent, at
            at = identity_of(here)
            if at == below:
                return
            yield at, here
    finally:
        os.close(here)


def birth(path: str, at: Identity | None = None) -> int | None:
    """Return when a directory was made, in nanoseconds: the one that a path leads to, or the one with this identity, if
    that is the same or above it. None if there is none, or its file system does not tell."""
    try:
        fd = os.open(path, FOLDER)
    except (OSError, ValueError):
        return None
    try:
        if at is None or identity_of(fd) == at:
            return born(fd)
        return next((born(above) for identity, above in upwards(fd) if identity == at), None)
    except OSError:
        return None
    finally:
        os.close(fd)


def other_names(fd: int, name: str, owner: int | str) -> Iterator[str]:
    """Yield the paths of ours that may lead to the same directory: by the mounts of the same file system. A mount of a
    part of it (a bind mount) has other directories above it than the part itself."""
    theirs = mounts_of(owner)
    ours = theirs if owner == "self" else mounts_of("self")
    number = mount_number(fd)
    mount = next((mount for mount in theirs if mount.number == number), None)
    if mount is None or (rest := below(name, mount.point)) is None:
        return
    inside = mount.root.rstrip("/") + rest  # its path from the root of its file system
    for other in ours:
        same = (other.major, other.minor) == (mount.major, mount.minor) and other.number != number
        if same and (rest := below(inside or "/", other.root)) is not None:
            yield other.point.rstrip("/") + rest or "/"


def below(path: str, folder: str) -> str | None:
    """Return the rest of a path below a folder, with its slash; empty if it is the folder; None if it is elsewhere."""
    folder = folder.rstrip("/")
    return path[len(folder) :].rstrip("/") if path == folder or path.startswith(f"{folder}/") else None


def above_the_same(path: str, at: Identity) -> list[Identity]:
    """Return the directories above a path, if it leads to this directory."""
    try:
        fd = os.open(path, FOLDER)
    except OSError:
        return []
    try:
        return list(climb(fd)) if identity_of(fd) == at else []
    finally:
        os.close(fd)


def mounts_of(owner: int | str) -> list[Mount]:
    try:
        return mounts_in(read(f"{PROC}/{owner}/mountinfo", 16 * 1024 * 1024))
    except OSError:
        return []


def mount_number(fd: int) -> int | None:
    """Return the number that mountinfo has for the mount of an open file."""
    try:
        words = read(f"{PROC}/self/fdinfo/{fd}", 4096).split()
    except OSError:
        return None
    at = words.index(b"mnt_id:") if b"mnt_id:" in words else -2
    return int(words[at + 1]) if at >= 0 and words[at + 1 : at + 2] and words[at + 1].isdigit() else None


def relation(theirs: Place, ours: Place) -> str | None:
    """Return where their directory is, seen from ours: the same, above, below; None if neither is in the other."""
    if theirs.at is None or ours.at is None:
        return None
    if theirs.at == ours.at:
        return SAME
    if theirs.at in ours.above:
        return ABOVE
    return BELOW if ours.at in theirs.above else None


class Contents(Value):
    """The directories of a tree, and what in it cannot be removed."""

    directories: Mapping[Identity, str]  # each with its path
    closed: tuple[str, ...] = ()  # paths, each with why


def contents_of(folder: str, may: Callable[[str, int], bool] = os.access) -> Contents:
    """Look through a tree, to the end: which directories it has, and whether we could remove all of it. Nothing is
    changed. `may`: asks the kernel what we may do with a path."""
    directories: dict[Identity, str] = {}
    closed: list[str] = []
    if why := why_it_stays(os.path.dirname(folder), [folder], may):
        closed.append(why)
    front = [folder]
    while front:
        path = front.pop()
        try:
            found = os.lstat(path)
            with os.scandir(path) as entries:
                names = [(entry.path, entry.is_dir(follow_symlinks=False)) for entry in entries]
        except FileNotFoundError:
            continue
        except OSError as error:
            closed.append(f"{path}: {error.strerror}")
            if at := identity(path):
                directories[at] = path
            continue
        directories[found.st_dev, found.st_ino] = path
        front += [name for name, is_folder in names if is_folder]
        if names and (why := why_it_stays(path, [name for name, _ in names], may)):
            closed.append(why)
    return Contents(directories, tuple(sorted(closed)))


def why_it_stays(folder: str, paths: list[str], may: Callable[[str, int], bool]) -> str | None:
    """Return why what is in a folder cannot be removed from it; None if it can."""
    if not may(folder, os.W_OK | os.X_OK):
        return f"{folder}: not writable"
    try:
        found = os.lstat(folder)
        mine = os.geteuid() in (0, found.st_uid)
        if mine or not found.st_mode & 0o1000:  # the sticky bit: only the owner removes
            return None
        others = [path for path in paths if os.lstat(path).st_uid != os.geteuid()]
    except OSError as error:
        return f"{folder}: {error.strerror}"
    return f"{others[0]}: of another account" if others else None
