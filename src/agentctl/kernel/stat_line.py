"""One line of /proc/PID/stat, and the numbers in it. Pure: no I/O."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agentctl.kernel.processes import Row

KERNEL_THREAD = 0x00200000  # PF_KTHREAD in the flags of stat
DIGITS = 20  # of 64 bits
TOO_LARGE = 10**DIGITS


def parse_row(data: bytes) -> Row | None:
    """Return one row; None for a kernel thread, and if the process ended while it was read. comm may hold spaces,
    brackets and newlines, so the last ')' ends it. Raises ValueError."""
    opening, closing = data.find(b"("), data.rfind(b")")
    fields = data[closing + 2 :].split(None, 20)
    if opening < 0 or len(fields) < 20:
        return None
    # Thousands of these are read, so all numbers are checked together.
    words = (data[:opening].strip(), fields[1], fields[4].removeprefix(b"-"), fields[6], fields[19])
    if not b"".join(words).isdigit():
        raise ValueError(f"not the numbers of the kernel: {data[:200]!r}")
    numbers = pid, parent, tty, flags, start = tuple(map(int, words))
    if max(numbers) >= TOO_LARGE:
        raise ValueError(f"not the numbers of the kernel: {data[:200]!r}")
    if flags & KERNEL_THREAD:
        return None
    return pid, parent, data[opening + 1 : closing], chr(fields[0][0]), tty, start


def whole(word: bytes) -> int:
    """Return a number as the kernel writes it: at most 64 bits. Raises ValueError."""
    if not is_whole(word):
        raise ValueError(f"not a number of the kernel: {word[:DIGITS]!r}")
    return int(word)


def is_whole(word: bytes) -> bool:
    return word.isdigit() and len(word) <= DIGITS
