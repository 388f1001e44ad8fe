"""Ask the kernel for the type of the file system that a path is on.

mountinfo says more, but it does not list the mount that the root folder of a plain chroot is on. Python offers no
statfs with the type in it, so this calls the one of the C library.
"""

from __future__ import annotations

import os
import sys

# f_type, and the name that mountinfo has for it. From the kernel's magic.h and statfs(2).
TYPES = {
    0xEF53: "ext4",  # ext2 and ext3, too
    0x58465342: "xfs",
    0x9123683E: "btrfs",
    0xF2F52010: "f2fs",
    0xCA451A4E: "bcachefs",
    0x2FC12FC1: "zfs",
    0x3153464A: "jfs",
    0x52654973: "reiserfs",
    0x3434: "nilfs2",
    0x01021994: "tmpfs",
    0x858458F6: "ramfs",
    0x794C7630: "overlay",
    0x61756673: "aufs",
    0xF15F: "ecryptfs",
    0x4D44: "vfat",
    0x2011BAB0: "exfat",
    0x7366746E: "ntfs3",
    0x73717368: "squashfs",
    0xE0F5E1E2: "erofs",
    0x9660: "iso9660",
    # Other machines write to these, or may: which program is behind a "fuse" cannot be told (virtiofs is one, too).
    0x6969: "nfs",
    0xFF534D42: "cifs",
    0xFE534D42: "smb3",
    0x517B: "smbfs",
    0x01021997: "9p",
    0x65735546: "fuse",
    0x00C36400: "ceph",
    0x5346414F: "afs",
    0x6B414653: "afs",
    0x786F4256: "vboxsf",
    0x7461636F: "ocfs2",
    0x01161970: "gfs2",
    0x0BD00BD0: "lustre",
}
ROOM = 512  # bytes: struct statfs is shorter than this everywhere


def kind_of(path: str) -> str:
    """Return the name of the type of the file system. Raises OSError if the kernel does not say it, or says one that is
    not in TYPES."""
    kind = TYPES.get(number := type_number(path))
    if kind is None:
        raise OSError(f"statfs says type {number:#x}, which agentctl does not know")
    return kind


def type_number(path: str) -> int:
    """Return f_type, which is the first word of struct statfs. Raises OSError."""
    try:
        import ctypes

        call = ctypes.CDLL(None, use_errno=True).statfs
    except (ImportError, OSError, AttributeError) as error:
        raise OSError(f"statfs cannot be called: {error}") from error
    call.argtypes = (ctypes.c_char_p, ctypes.c_void_p)
    answer = ctypes.create_string_buffer(ROOM)
    if call(os.fsencode(path), answer) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    # Of a word of 64 bits, the type is the lower half; a word of 32 bits may be signed.
    return int.from_bytes(answer.raw[: ctypes.sizeof(ctypes.c_long)], sys.byteorder) & 0xFFFFFFFF
