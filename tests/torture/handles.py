"""Processes that a case started: proved by their start ticks, signalled only through a pidfd, reaped by us.

The suite is process 1 of its PID namespace, so whatever loses its parent becomes ours to reap.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import sys
import sysconfig
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tests.torture.standins.files import start_ticks, stat_fields

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

TIMEOUT = 15.0
REPOSITORY = str(Path(__file__).parents[2])
# What runs in processes that are of no agent.
BARE = "tests.torture.standins.puppet:Puppet"  # it has an agent's name, and writes nothing
WRAPPER = "tests.torture.standins.wrapper:Wrapper"


class WorldError(Exception):
    """The world could not be built as the case needs it: a failure of the suite, not of agentctl."""


def wait_until(what: str, condition: Callable[[], Any], seconds: float = TIMEOUT) -> Any:
    """Wait for a fact about the stand-ins' own files or processes; never for what agentctl says."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise WorldError(f"waited {seconds:g} s in vain for: {what}")
        time.sleep(0.005)
    return found


class Handle:
    """One process that we started, or that one of ours started and told us of."""

    def __init__(self, pid: int, start: int, popen: subprocess.Popen[bytes] | None = None) -> None:
        self.pid = pid
        self.start = start
        self.popen = popen
        self.pidfd = os.pidfd_open(pid)
        if start_ticks(pid) != start:
            raise WorldError(f"pid {pid} is not the process that was started")

    def send_signal(self, number: int) -> None:
        signal.pidfd_send_signal(self.pidfd, number)

    def has_ended(self, seconds: float = 0.0) -> bool:
        """Also true of a zombie; not of one whose other threads go on."""
        ready = select.poll()  # not select(): a long soak has more than 1024 descriptors
        ready.register(self.pidfd, select.POLLIN)
        return bool(ready.poll(seconds * 1000))

    def wait(self, seconds: float = TIMEOUT) -> None:
        """Until it has ended, and no longer than that."""
        if not self.has_ended(seconds):
            raise WorldError(f"pid {self.pid} did not end")

    def reap(self) -> int | None:
        """Its exit code or minus its signal; None if it is somebody else's child."""
        self.wait()
        if self.popen is not None:
            return self.popen.wait(TIMEOUT)
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline:
            try:
                return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            except ChildProcessError:
                if not self.is_in_the_table():
                    return None
                time.sleep(0.005)  # its parent is about to go, too, or to reap it
        raise WorldError(f"pid {self.pid} has ended and is not reaped")

    def is_in_the_table(self) -> bool:
        try:
            return start_ticks(self.pid) == self.start
        except OSError:
            return False

    def kill(self, number: int = signal.SIGKILL) -> int | None:
        self.send_signal(number)
        return self.reap()

    def stop(self) -> None:
        """At the end of a case, whatever state it is in."""
        try:
            self.send_signal(signal.SIGKILL)
        except ProcessLookupError:
            pass

    def close(self) -> None:
        """After all of the world were stopped."""
        self.reap()
        os.close(self.pidfd)
        for stream in (self.popen.stdin, self.popen.stdout) if self.popen else ():
            if stream is not None:
                try:
                    stream.close()
                except BrokenPipeError:
                    pass  # it ended before it heard its last order


class Tool(Handle):
    """A tool in a session of its own: it is ended with what it started."""

    def stop(self) -> None:
        if self.is_in_the_table() and not self.has_ended():
            os.killpg(self.pid, signal.SIGKILL)


class Puppet(Handle):
    """A stand-in that takes orders."""

    def __init__(
        self, pid: int, start: int, popen: subprocess.Popen[bytes] | None, orders: IO[bytes], answers: IO[bytes]
    ) -> None:
        super().__init__(pid, start, popen)
        self._orders = orders
        self._answers = answers

    def do(self, name: str, **arguments: Any) -> dict[str, Any]:
        self.send(name, **arguments)
        return self.answer()

    def answer(self) -> dict[str, Any]:
        return read_answer(self._answers)

    def send(self, name: str, **arguments: Any) -> None:
        """An order whose answer comes later, or never: it ends the process, or its first thread."""
        self._orders.write(json.dumps({"do": name, **arguments}).encode() + b"\n")
        self._orders.flush()


def read_answer(answers: IO[bytes]) -> dict[str, Any]:
    if not select.select([answers], [], [], TIMEOUT)[0]:
        raise WorldError("a stand-in did not answer")
    line = answers.readline()
    if not line:
        raise WorldError("a stand-in ended instead of answering; its words are on stderr")
    found: dict[str, Any] = json.loads(line)
    return found


class Programs:
    """Copies of the interpreter under the names that agents have, so that exe, comm and argv[0] look right."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()
        shutil.copy(os.path.realpath(sys.executable), folder / "interpreter")
        self.env = {"PYTHONHOME": sys.base_prefix, "PYTHONPATH": REPOSITORY, "PYTHONDONTWRITEBYTECODE": "1"}
        if libraries := sysconfig.get_config_var("LIBDIR"):
            self.env["LD_LIBRARY_PATH"] = str(libraries)

    def path(self, name: str) -> str:
        """`name` may have folders: `claude/versions/2.1.199`."""
        path = self._folder / ("share" if "/" in name else "bin") / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            os.link(self._folder / "interpreter", path)
        return str(path)


def arguments(config_path: Path, argv: list[str]) -> list[str]:
    """What the stand-in is really started with: enough words to be written over with `argv`."""
    words = [argv[0], "-S", "-m", "tests.torture.standins", str(config_path)]
    return [*words, "-" * (sum(len(os.fsencode(word)) + 1 for word in argv))]


def place_at(wanted: int, start: Callable[[], Handle]) -> Handle:
    """Start a process that gets a certain pid, which is free. The kernel takes the next one after the last."""
    for _ in range(50):
        with open("/proc/sys/kernel/ns_last_pid", "w") as file:
            file.write(str(wanted - 1))
        found = start()
        if found.pid == wanted:
            return found
        found.stop()
        found.close()
    raise WorldError(f"pid {wanted} could not be had again")


def state_of(pid: int) -> str | None:
    try:
        return stat_fields(pid)[0]
    except OSError:
        return None


def others() -> list[int]:
    """Every process of this namespace but ourselves, once those that are about to go have gone."""
    deadline = time.monotonic() + 1.0
    while (found := others_now()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return found


def others_now() -> list[int]:
    """The zombies that are ours are reaped on the way."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        if state_of(int(name)) == "Z":
            try:
                os.waitpid(int(name), os.WNOHANG)
            except ChildProcessError:
                pass
        if (state := state_of(int(name))) is not None and state != "X":
            found.append(int(name))
    return found
