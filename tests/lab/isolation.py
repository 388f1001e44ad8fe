"""The room in which real agents run: a network namespace with loopback alone, a PID namespace, a /tmp of its own.

Outside, `wrap` makes the command that opens the room. Inside, `python -m tests.lab.isolation -- COMMAND` is pid 1: it
sets the room up, runs the command, and reaps what is orphaned. When it ends, the kernel ends all that is left.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

from tests.lab.errors import LabError

REPOSITORY = Path(__file__).resolve().parents[2]
FLAGS = "--fork --pid --mount-proc --net --kill-child"
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1
MS_BIND = 4096
PRIVATE_FOLDERS = ("/tmp", "/var/tmp")  # agents put sockets there under names that only hold a pid


def wrap(needed: list[Path]) -> list[str]:
    """The beginning of a command that runs the rest of it in a room. `needed`: folders that must be seen inside."""
    unshare = shutil.which("unshare")
    if unshare is None:
        raise LabError("the lab needs `unshare` (util-linux) for its namespaces; not found")
    said = ""
    for extra in ("", "--user --map-root-user "):
        command = [unshare, *f"{extra}{FLAGS}".split()]
        try:
            done = subprocess.run([*command, "true"], capture_output=True, text=True, timeout=20)
        except subprocess.TimeoutExpired:
            said = "it did not answer in 20 s"
            continue
        if done.returncode == 0:
            keep = [word for path in needed for word in ("--keep", str(path))]
            return [*command, sys.executable, "-m", "tests.lab.isolation", *keep, "--"]
        said = done.stderr.strip()
    raise LabError(f"this kernel does not let us make network and PID namespaces, which the lab needs: {said}")


def raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        name = b"lo".ljust(16, b"\0")
        (flags,) = struct.unpack_from("h", fcntl.ioctl(probe, SIOCGIFFLAGS, name + bytes(16)), 16)
        fcntl.ioctl(probe, SIOCSIFFLAGS, name + struct.pack("h", flags | IFF_UP) + bytes(14))


def mount(source: str, target: str, kind: str | None, flags: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(source.encode(), target.encode(), kind.encode() if kind else None, flags, None):
        code = ctypes.get_errno()
        raise OSError(code, f"mount {target}: {os.strerror(code)}")


def hide(folder: str, keep: list[Path]) -> None:
    """Put an empty tmpfs over a folder; what must be seen below it is bound again at its place."""
    inside = [path for path in keep if str(path).startswith(folder + "/")]
    kept = [(path, os.open(path, os.O_PATH)) for path in inside]
    mount("tmpfs", folder, "tmpfs", 0)
    for path, fd in kept:
        path.mkdir(parents=True, exist_ok=True)
        mount(f"/proc/self/fd/{fd}", str(path), None, MS_BIND)
        os.close(fd)
    os.chmod(folder, 0o1777)


def assert_alone() -> None:
    """No interface but loopback, and no route anywhere: an agent cannot reach a real model, whatever it tries."""
    names = [name for _, name in socket.if_nameindex()]
    if names != ["lo"]:
        raise LabError(f"the network namespace has more than loopback: {names}")


def run_as_init(command: list[str]) -> int:
    """Run the command and reap every orphan until it ends. Signals go to the command."""
    child = os.posix_spawnp(command[0], command, os.environ)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda received, _: os.kill(child, received))
    while True:
        try:
            pid, status = os.waitpid(-1, 0)
        except OSError as error:
            if error.errno == errno.EINTR:
                continue
            raise
        if pid == child:
            return os.waitstatus_to_exitcode(status)


def main(words: list[str]) -> int:
    end = words.index("--")
    options, command = words[:end], words[end + 1 :]
    keep = [Path(path) for path in options[1::2]]
    try:
        if os.getpid() != 1:
            raise LabError("not the first process of a PID namespace")
        raise_loopback()
        assert_alone()
        for folder in PRIVATE_FOLDERS:
            hide(folder, keep)
    except (OSError, LabError) as error:
        print(f"the lab's room could not be set up: {error}", file=sys.stderr)
        return 125
    os.chdir(REPOSITORY)
    code = run_as_init(command)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
