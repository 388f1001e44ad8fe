"""Which file system a path is on, by mountinfo, and who else may be writing to it."""

from __future__ import annotations

import os

from agentctl.kernel.access import may_see_all
from agentctl.kernel.procfs import PROC, own_pid_namespace, read
from agentctl.model import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

INITIAL_PID_NAMESPACE = "pid:[4026531836]"
# Only this machine writes to these. Any other type may be a network file system, or the host's.
LOCAL_FILE_SYSTEMS = frozenset(
    "ext2 ext3 ext4 xfs btrfs f2fs bcachefs zfs jfs reiserfs nilfs2 tmpfs ramfs rootfs overlay overlayfs aufs ecryptfs "
    "vfat msdos exfat ntfs ntfs3 fuseblk squashfs erofs iso9660 udf hfs hfsplus minix ufs fuse.fuse-overlayfs "
    "fuse.gocryptfs fuse.encfs fuse.mergerfs fuse.ntfs-3g".split()
)
LAYERS = ("overlay", "overlayfs", "aufs", "fuse.fuse-overlayfs", "tmpfs", "ramfs", "rootfs", "squashfs", "erofs")
SAME_DEVICE = ("ext4", "xfs", "f2fs", "tmpfs", "ramfs")  # stat's device number there is the one in the list of locks


class Mount(Value):
    number: int
    parent: int
    point: str
    major: int
    minor: int
    kind: str  # of file system
    options: str
    root: str = "/"  # which folder of the file system is mounted there


def mounts_in(text: bytes) -> list[Mount]:
    """Return the mounts that a mountinfo file lists."""
    lines = text.decode(errors="surrogateescape").split("\n")
    return [mount for line in lines if (mount := mount_in(line)) is not None]


def mount_in(line: str) -> Mount | None:
    """Return the mount that a line of mountinfo is about; None if it is not one."""
    fields = line.split(" ")
    if "-" not in fields[6:]:
        return None
    dash = fields.index("-", 6)
    numbers = (*fields[:2], *fields[2].split(":"))
    if (
        len(numbers) != 4
        or not all(number.isascii() and number.isdigit() for number in numbers)
        or dash + 1 >= len(fields)
    ):
        return None
    number, parent, major, minor = map(int, numbers)
    options = f"{fields[5]},{fields[dash + 3]}" if len(fields) > dash + 3 else fields[5]
    return Mount(number, parent, unescape(fields[4]), major, minor, fields[dash + 1], options, unescape(fields[3]))


def is_mapped_for(path: str, ours: Iterable[Mount], theirs: Iterable[Mount]) -> bool:
    """Return whether somebody with other mounts reaches a path of ours through an ID-mapped mount: then owner and mode,
    as we see them, do not say what that one may do. Mounts are compared by what they show of a file system."""
    on = [mount for mount in ours if path == mount.point or path.startswith(f"{mount.point.rstrip('/')}/")]
    mount = max(on, key=lambda mount: len(mount.point), default=None)
    if mount is None:
        return False
    place = f"{mount.root.rstrip('/')}/{path[len(mount.point.rstrip('/')) :].strip('/')}".rstrip("/") + "/"
    return any(
        "idmapped" in one.options.split(",")
        and (one.major, one.minor) == (mount.major, mount.minor)
        and (place.startswith(root := one.root.rstrip("/") + "/") or root.startswith(place))
        for one in theirs
    )


class Mounts:
    """mountinfo: which device a path is on as the kernel's lock list names it, and what kind of file system it is.
    stat's device number is another one on overlay and btrfs, so it cannot be joined with /proc/locks.
    mountinfo lists every mount below our root folder. In a plain chroot that folder is not a mount point, and the mount
    it is on is missing from the list. So what is on no listed mount is on the mount of our root: statfs knows its type.
    """

    def __init__(self) -> None:
        self._entries: list[Mount] | None = None
        self._found: dict[str, Mount | None] = {}  # by path: every store is asked about several times

    def entries(self) -> list[Mount]:
        """Return all mounts, as mountinfo lists them. Of two on one point the later one is on top."""
        if self._entries is None:
            try:
                text = read(f"{PROC}/self/mountinfo", 16 * 1024 * 1024)
            except OSError:
                text = b""
            self._entries = mounts_in(text)
        return self._entries

    def of(self, path: str) -> Mount | None:
        """Return the mount that a path is on."""
        if path not in self._found:
            self._found[path] = self._walk_to(path)
        return self._found[path]

    def _walk_to(self, path: str) -> Mount | None:
        """Return the mount that a path is on. It walks from the root downwards, so it never meets a covered mount."""
        real, found, below = os.path.realpath(path), None, self.entries()
        while True:
            if found is not None:
                below = [mount for mount in self.entries() if mount.parent == found.number and mount is not found]
            ways = [mount for mount in below if real == mount.point or real.startswith(mount.point.rstrip("/") + "/")]
            if not ways:
                return found
            if found is None:  # the root of our view: its own parent is not in the list
                numbers = {mount.number for mount in self.entries()}
                ways = [mount for mount in ways if mount.parent not in numbers or mount.parent == mount.number] or ways
            shortest = min(len(mount.point) for mount in ways)
            found = [mount for mount in ways if len(mount.point) == shortest][-1]

    def place(self, path: str) -> tuple[str, str]:
        """Return the mount point that the path is below, and the type of its file system. Raises OSError."""
        if (mount := self.of(path)) is not None:
            return mount.point, mount.kind
        if not self.entries():
            raise OSError(f"{PROC}/self/mountinfo cannot be read")
        from agentctl.kernel import statfs

        return "/", statfs.kind_of(path)

    def identity(self, path: str) -> tuple[int, int, int] | None:
        """Return a file's device and inode as the kernel's lock list has them; None if that device is not known."""
        mount = self.of(path)
        try:
            found = os.stat(path)
            kind = self.place(path)[1] if mount is None else ""
        except OSError:
            return None
        if mount is not None:
            return mount.major, mount.minor, found.st_ino
        return (os.major(found.st_dev), os.minor(found.st_dev), found.st_ino) if kind in SAME_DEVICE else None

    def shared_with_others(self, root: str) -> str | None:
        """Return why processes that this table cannot show may be writing below this folder; None if they cannot."""
        try:
            point, kind = self.place(root)
        except OSError as error:
            return f"the file system of its store is not known: {error.strerror or error}"
        if kind not in LOCAL_FILE_SYSTEMS:
            return f"its store is on {kind} ({point}): processes of other machines may be on it"
        if own_pid_namespace() == INITIAL_PID_NAMESPACE:
            return None
        in_chroot = self.of(root) is None
        is_root = point == "/" and not in_chroot
        is_ours = is_root and not self._may_be_the_machines()
        if (is_ours and not self._is_copied(root)) or self._is_made_here(root):
            return None
        where = "in a chroot" if in_chroot else f"on a mount of its own ({point})"
        where = "on what may be the root of the machine" if point == "/" and not in_chroot else where
        where = "on a mount of the namespace around it" if is_ours else where
        return f"we are inside a PID namespace, and its store is {where}: others may be on it"

    def _may_be_the_machines(self) -> bool:
        """Return whether our root may be the root of the machine, bound to another place and entered by chroot: it is a
        whole disk. Containers have layers (overlay) or a folder of a disk as their root."""
        mount = self.of("/")
        return mount is not None and mount.root == "/" and mount.kind not in LAYERS

    def _is_copied(self, root: str) -> bool:
        """Return whether the mount of a folder was copied from another PID namespace, as sandboxes do that keep the
        file system (`unshare --pid --mount-proc`, `bwrap --bind / /`): our /proc lies on top of another /proc, and the
        mount is older than ours. mountinfo lists mounts in the order in which they were made."""
        mount, place = self.of(root), self._own_proc()
        return mount is not None and place is not None and self.entries().index(mount) < place

    def _is_made_here(self, root: str) -> bool:
        """Return whether the mount of a folder is a tmpfs that was made in our own PID namespace: our /proc lies on top
        of another /proc, and the tmpfs is newer and whole, and was not there before under another name. In a container
        with one /proc nothing tells a tmpfs of its own from a volume that others have, too."""
        mount, place = self.of(root), self._own_proc()
        if mount is None or place is None or mount.kind != "tmpfs" or mount.root != "/":
            return False
        older = self.entries()[: place + 1]
        return mount not in older and all((one.major, one.minor) != (mount.major, mount.minor) for one in older)

    def _own_proc(self) -> int | None:
        """Return the place of our /proc in the list of mounts, if it lies on top of another /proc: what is listed
        behind it was mounted later, by us."""
        mounts, ours = self.entries(), self._proc()
        below = next((mount for mount in mounts if ours is not None and mount.number == ours.parent), None)
        if ours is None or below is None or (below.point, below.kind) != (ours.point, "proc"):
            return None
        return max(mounts.index(ours), mounts.index(below))

    def _proc(self) -> Mount | None:
        """Return the mount that /proc is, wherever a link leads and whatever lies below it; None if it is no proc file
        system. The list has mounts in the order in which they were made, and a mount can be moved onto another one."""
        mount = self.of(PROC)
        return mount if mount is not None and mount.kind == "proc" else None

    def hidepid(self) -> str | None:
        """Return why /proc hides processes of others from us, or may; None if it does not."""
        mount = self._proc()
        if mount is None:
            return f"{PROC} is on no mount of type proc that is listed: it may hide processes"
        words = [word for word in mount.options.split(",") if word.startswith(("hidepid=", "subset="))]
        hiding = [word for word in words if word not in ("hidepid=0", "hidepid=off")]
        if not hiding or may_see_all():
            return None
        return f"{PROC} is mounted with {hiding[-1]}: processes of others are hidden"

    def covered(self) -> str | None:
        """Return what is mounted over the folder of a process in /proc, and hides it from us; None if nothing is."""
        if (top := self._proc()) is None:
            return None
        for mount in self.entries():
            name = mount.point.removeprefix(f"{top.point}/").partition("/")[0]
            if mount.parent == top.number and mount.point.startswith(f"{top.point}/") and name.isdigit():
                return f"{mount.point} is covered by another mount: what runs there is hidden"
        return None


def unescape(text: str) -> str:
    """Return a path with its blanks: mountinfo writes them as octal numbers."""
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, char)
    return text
