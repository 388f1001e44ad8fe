"""What every stand-in needs: who it is, and writing the way real agents write."""

from __future__ import annotations

import json
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def stat_fields(pid: int | str = "self") -> list[str]:
    """The fields of /proc/<pid>/stat from the third (state) on; OSError if there is no such process."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].decode().split()


def start_ticks(pid: int | str = "self") -> int:
    return int(stat_fields(pid)[19])


def boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def pid_domain() -> str:
    try:
        with open("/etc/machine-id") as file:
            machine = file.read().strip()
    except OSError:
        machine = ""
    return f"linux:{machine}:{os.readlink('/proc/self/ns/pid')}"


def utc() -> str:
    now = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03d}Z"


def milliseconds() -> int:
    return int(time.time() * 1000)


def random_id() -> str:
    """A UUID of version 4."""
    text = os.urandom(16).hex()
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-8{text[17:20]}-{text[20:]}"


def timed_id() -> str:
    """A UUID of version 7: it begins with its time."""
    text = f"{milliseconds():012x}" + os.urandom(10).hex()
    return f"{text[:8]}-{text[8:12]}-7{text[13:16]}-8{text[17:20]}-{text[20:]}"


def compact(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(errors="surrogatepass")


def append(path: str, record: dict[str, Any]) -> None:
    """One line, opened and closed for it: a transcript is never held open."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.write(fd, compact(record) + b"\n")
    os.close(fd)


def rewrite(path: str, value: dict[str, Any]) -> None:
    """In place: write, then truncate. Between the two a reader sees the old tail behind a shorter new object."""
    data = compact(value)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.write(fd, data)
    os.ftruncate(fd, len(data))
    os.close(fd)


def rewrite_in_halves(path: str, value: dict[str, Any], pause: float) -> float:
    """As a write that the kernel split would look: for `pause` seconds only the first half. How long it really was."""
    data = compact(value)
    began = time.monotonic()  # before the file is empty: the kernel may hold us up right after it truncated the file
    fd = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
    os.write(fd, data[: len(data) // 2])
    time.sleep(pause)
    os.write(fd, data[len(data) // 2 :])
    took = time.monotonic() - began
    os.close(fd)
    return took


def remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
