"""Worlds that only the kernel can make: mounts that hang, hide or are shared, and commands with less power."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
from typing import TYPE_CHECKING

from tests.torture.handles import WorldError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MS_NOSUID, MS_NODEV, MNT_DETACH = 2, 4, 2
NOBODY = 65534
ONE_USER = "this namespace has one user only: run as root, or with subordinate uids (newuidmap)"
libc = ctypes.CDLL(None, use_errno=True)


def mount(kind: str, point: Path, options: str = "", source: str = "torture") -> None:
    data = options.encode()
    if libc.mount(source.encode(), os.fsencode(point), kind.encode(), MS_NOSUID | MS_NODEV, data):
        raise WorldError(f"could not mount {kind} on {point}: {os.strerror(ctypes.get_errno())}")


def unmount(point: Path) -> None:
    if libc.umount2(os.fsencode(point), MNT_DETACH):
        raise WorldError(f"could not unmount {point}: {os.strerror(ctypes.get_errno())}")


@contextlib.contextmanager
def mounted(kind: str, point: Path, options: str = "") -> Iterator[None]:
    point.mkdir(parents=True, exist_ok=True)
    mount(kind, point, options)
    try:
        yield
    finally:
        unmount(point)


@contextlib.contextmanager
def hanging(point: Path) -> Iterator[None]:
    """A file system whose server never answers: whoever looks at it waits, as on a dead network mount."""
    point.mkdir(parents=True, exist_ok=True)
    try:
        server = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise WorldError(f"no hanging mount can be made without /dev/fuse: {error.strerror}") from error
    try:
        mount("fuse", point, f"fd={server},rootmode=40000,user_id=0,group_id=0")
        try:
            yield
        finally:
            unmount(point)
    finally:
        os.close(server)


@contextlib.contextmanager
def read_only(point: Path) -> Iterator[None]:
    """The same folder, for those who come from now on, but nothing can be written there."""
    for options in (["--bind", str(point), str(point)], ["-o", "remount,bind,ro", str(point)]):
        subprocess.run(["mount", *options], check=True)
    try:
        yield
    finally:
        unmount(point)


def without_file_powers(command: list[str]) -> list[str]:
    """As root whom modes bind: a folder of mode 000 is closed to it."""
    return ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", *command]


def another_user() -> int:
    """A uid of this namespace that is not ours."""
    with open("/proc/self/uid_map") as file:
        ranges = [(int(first), int(first) + int(size)) for first, _, size in map(str.split, file)]
    known = [uid for first, end in ranges for uid in (NOBODY, first, first + 1) if first <= uid < end and uid > 0]
    if not known:
        raise WorldError(ONE_USER)
    return max(known)


def as_nobody(command: list[str]) -> list[str]:
    """As another user, who may read all files."""
    user = another_user()
    return [
        "setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups",
        "--inh-caps=-all,+dac_read_search", "--ambient-caps=+dac_read_search", *command,
    ]  # fmt: skip


def as_nobody_who_sees_little(command: list[str]) -> list[str]:
    """The same, with /proc mounted so that it hides the processes of others."""
    script = 'mount -t proc -o hidepid=2 proc /proc && exec "$@"'
    return ["unshare", "--mount", "sh", "-c", script, "sh", *as_nobody(command)]


def in_inner_pid_namespace(command: list[str]) -> list[str]:
    """Below a first process that is not the agent, as in a container with an init."""
    return [
        "env",
        "unshare",
        "--pid",
        "--fork",
        "--mount-proc",
        "--kill-child",
        "sh",
        "-c",
        '"$@"; true',
        "sh",
        *command,
    ]


def in_time_namespace(seconds: int) -> Callable[[list[str]], list[str]]:
    """As if the machine had been booted this much earlier: for whoever is in it, all processes have other starts."""
    return lambda command: ["unshare", "--time", "--boottime", str(seconds), "--fork", *command]


def child_of(pid: int) -> int | None:
    """The only child of a process."""
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        words = file.read().split()
    return int(words[0]) if len(words) == 1 else None
