"""A process that looks like an agent's and does what it is told, one line of JSON at a time, on stdin.

Its arguments are written over with the agent's own, so /proc shows what it shows of the real one.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

from tests.torture.standins.files import start_ticks, stat_fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Signalled(Exception):
    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Puppet:
    """The base of the stand-ins: each order `name` is a method `do_name` that may return facts."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.tools: list[Any] = []
        self.watches: int | None = None

    def order(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return getattr(self, f"do_{name}")(**arguments) or {}

    def on_signal(self, number: int) -> int:
        """What the agent still does when a signal ends it; its exit code."""
        return 128 + number

    def do_sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def do_await(self, path: str) -> None:
        """Do nothing until this file is there."""
        while not os.path.exists(path):
            time.sleep(0.01)

    def do_exit(self, code: int = 0) -> None:
        raise SystemExit(code)

    def do_ignore(self, signals: list[int]) -> None:
        for number in signals:
            signal.signal(number, signal.SIG_IGN)

    def do_leave_leader(self) -> None:
        """End the first thread and live on in another: the kernel then shows the process as a zombie."""
        import ctypes
        import threading

        threading.Thread(target=time.sleep, args=(600,)).start()
        libc = ctypes.CDLL(None)
        libc.syscall(ctypes.c_long(60 if os.uname().machine == "x86_64" else 93), ctypes.c_int(0))

    def do_fork(self) -> dict[str, int]:
        """A child that has not executed its tool yet: for this moment it is the agent once more."""
        pid = os.fork()
        if pid == 0:
            time.sleep(600)
            os._exit(0)
        return {"pid": pid, "start": start_ticks(pid)}

    def do_execute(self, argv: list[str]) -> None:
        """Become another program: pid and start stay."""
        os.execv(argv[0], argv)

    def do_keep_open(self, path: str) -> None:
        """Open a file to read it, and keep it open."""
        self.tools.append(open(path, "rb"))

    def do_read_database(self, path: str) -> None:
        """Read a database, and keep it open."""
        import sqlite3

        database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        database.execute("select count(*) from sqlite_master").fetchall()
        self.tools.append(database)

    def do_listen(self) -> dict[str, int]:
        """Listen on a port of 127.0.0.1, and say which."""
        import socket

        self.listener = socket.create_server(("127.0.0.1", 0))
        return {"port": self.listener.getsockname()[1]}

    def do_watch(self, path: str) -> None:
        """Watch a folder, as a program does that wants to know of changes in it."""
        import ctypes

        libc = ctypes.CDLL(None)
        if self.watches is None:
            self.watches = libc.inotify_init1(0)
        if libc.inotify_add_watch(self.watches, os.fsencode(path), 0xFC6) < 0:
            raise OSError(f"{path} cannot be watched")

    def do_chdir(self, path: str) -> None:
        os.chdir(path)

    def do_rename(self, comm: str) -> None:
        """Give the main thread another name, as a program may do with prctl."""
        with open("/proc/self/comm", "w") as file:
            file.write(comm)

    def do_crowd(self, count: int, closed: bool = False) -> None:
        """Become many processes of this program, each with a name of its own. `closed`: nobody may look into them."""
        for number in range(count):
            if os.fork() == 0:
                self.do_rename(f"one-{number}")
                if closed:
                    self.do_close_doors()
                time.sleep(600)
                os._exit(0)

    def do_close_doors(self) -> None:
        """As a program with secrets does: nobody of the same user may look into it any more."""
        import ctypes

        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)

    def start_tool(self, argv: list[str], **names: str) -> dict[str, int]:
        """A tool in a session of its own, with the marks the agent gives its tools in its environment."""
        import subprocess

        quiet = subprocess.DEVNULL
        env = {**os.environ, **names}
        child = subprocess.Popen(argv, env=env, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
        self.tools.append(child)
        return {"pid": child.pid, "start": start_ticks(child.pid)}

    def end_tools(self) -> None:
        for child in self.tools:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()


def disguise(argv: list[str], comm: str | None) -> None:
    """Show these words as our arguments. The program was started with enough of them to write over."""
    fields = stat_fields()
    begin, end = int(fields[45]), int(fields[46])
    words = b"".join(os.fsencode(word) + b"\0" for word in argv)
    if len(words) > end - begin:
        raise ValueError("not enough room for the arguments")
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        memory.seek(begin)
        memory.write(words.ljust(end - begin, b"\0"))
    if comm is not None:
        with open("/proc/self/comm", "w") as file:
            file.write(comm)


def run(puppet: Puppet) -> int:
    for number in puppet.config.get("handles", HANDLED):
        signal.signal(number, raise_signalled)
    try:
        say({"ready": os.getpid(), "start": start_ticks()})
        for name, arguments in puppet.config.get("script", ()):
            puppet.order(name, arguments)
        for line in sys.stdin:
            order = json.loads(line)
            say(puppet.order(order.pop("do"), order))
        return 0
    except Signalled as ended:
        return puppet.on_signal(ended.number)


def raise_signalled(number: int, frame: FrameType | None) -> None:
    for handled in HANDLED:
        signal.signal(handled, signal.SIG_IGN)
    raise Signalled(number)


def say(facts: dict[str, Any]) -> None:
    os.write(1, json.dumps(facts).encode() + b"\n")
