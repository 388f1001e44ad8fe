"""Ask the kernel when a directory was made. An inode gets a new owner once its directory is removed; this time does not
come back with it.

Python offers no statx on Linux, so this calls the one of the C library. Not every file system keeps the time.
"""

from __future__ import annotations

import os
import sys

EMPTY_PATH, BIRTH = 0x1000, 0x800  # AT_EMPTY_PATH, STATX_BTIME
MASK, SECONDS, NANOSECONDS, ROOM = slice(0, 4), slice(80, 88), slice(88, 92), 256  # in struct statx


def born(fd: int) -> int | None:
    """Return when an open file or directory was made, in nanoseconds; None if that is not known."""
    seconds = getattr(os.fstat(fd), "st_birthtime", None)
    if isinstance(seconds, float):  # macOS
        return int(seconds * 1e9)
    try:
        import ctypes

        call = ctypes.CDLL(None, use_errno=True).statx
    except (ImportError, OSError, AttributeError):
        return None
    call.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p)
    answer = ctypes.create_string_buffer(ROOM)
    if call(fd, b"", EMPTY_PATH, BIRTH, answer) != 0:
        return None
    mask, whole, rest = (int.from_bytes(answer.raw[part], sys.byteorder) for part in (MASK, SECONDS, NANOSECONDS))
    return whole * 10**9 + rest if mask & BIRTH and whole else None
