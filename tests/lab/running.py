"""The lab's own handle on what it started: the process by its pidfd, its terminal, its output, its descendants.

Nothing here asks agentctl: this is the truth that agentctl's answers are held against.
"""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.lab.errors import LabError
from tests.lab.screen import Screen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

DEAD = ("Z", "X", "x")
ESCAPE = "\x1b"
ECHO_LIMIT = 15.0  # for what was typed to be shown; a command may be taken before it is
# A terminal belongs to a shell that outlives what runs in it: else the end of a wrapper would hang up on the agent.
SHELL = '"$@"; echo $? >"$0"; exec cat >/dev/null'


class Key(NamedTuple):
    pid: int
    ticks: int


class Row(NamedTuple):
    key: Key
    parent: int
    state: str
    comm: str

    @property
    def dead(self) -> bool:
        return self.state in DEAD

    @property
    def argv(self) -> tuple[str, ...]:
        try:
            data = Path(f"/proc/{self.key.pid}/cmdline").read_bytes()
        except OSError:
            return ()
        return tuple(word.decode(errors="replace") for word in data.rstrip(b"\0").split(b"\0"))


def row_of(pid: int) -> Row | None:
    try:
        data = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    begin, _, end = data.rpartition(b")")
    fields = end.split()
    return Row(
        Key(pid, int(fields[19])), int(fields[1]), fields[0].decode(), begin.partition(b"(")[2].decode(errors="replace")
    )


def table() -> dict[int, Row]:
    rows = (row_of(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return {row.key.pid: row for row in rows if row is not None}


def descendants(pid: int) -> list[Row]:
    rows = table()
    found, wanted = [], {pid}
    while wanted:
        below = [row for row in rows.values() if row.parent in wanted]
        found += below
        wanted = {row.key.pid for row in below}
    return found


def threads(pid: int) -> Iterator[tuple[str, int]]:
    """(state, flags) of each thread: a leader that ended while others go on is no end."""
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return
    for task in tasks:
        try:
            with open(f"/proc/{pid}/task/{task}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue  # this thread ended
        yield fields[0], int(fields[6])


def is_alive(key: Key) -> bool:
    row = row_of(key.pid)
    if row is None or row.key != key:
        return False
    return not row.dead or any(state not in DEAD for state, _ in threads(key.pid))


def send(key: Key, number: signal.Signals) -> None:
    """Signal a process that the lab started, directly or through an agent: by pidfd, its start ticks proved."""
    fd = os.pidfd_open(key.pid)
    try:
        row = row_of(key.pid)
        if row is None or row.key != key:
            raise LabError(f"pid {key.pid} is not the process that was started")
        signal.pidfd_send_signal(fd, number)
    finally:
        os.close(fd)


def until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise LabError(f"not within {seconds:g} s: {what}")
        time.sleep(0.02)


class Running:
    """One program that the lab started."""

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: Path,
        *,
        tty: bool,
        output: Path,
        lines: Callable[[str], str] | None = None,
    ) -> None:
        """`lines`: it reads prompts from its stdin, and this is what one looks like there."""
        self.argv = tuple(argv)
        self.cwd = cwd
        self.output = output
        self._code_file = output.with_suffix(".code")
        self.screen: Screen | None = None
        self._master: int | None = None
        self._lock = threading.Lock()
        self._lines = lines
        self.typed = 0  # lines that were given to it
        if tty:
            self._start_on_terminal(env)
        else:
            with output.open("wb") as file:
                self.process = subprocess.Popen(
                    argv,
                    env=dict(env),
                    cwd=cwd,
                    stdin=subprocess.PIPE if lines else subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=heed_signals,
                )
            row = row_of(self.process.pid)
            assert row is not None  # not reaped yet, so it is in the table
            self.key = row.key

    def _start_on_terminal(self, env: Mapping[str, str]) -> None:
        self.screen = Screen()
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", self.screen.rows, self.screen.columns, 0, 0))
        self.process = subprocess.Popen(
            ["/bin/sh", "-c", SHELL, str(self._code_file), *self.argv],
            env=dict(env),
            cwd=self.cwd,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=take_terminal,
        )
        os.close(slave)
        self._master = master
        children: list[Row] = []

        def started() -> bool:
            children[:] = [row for row in table().values() if row.parent == self.process.pid]
            return bool(children)

        until(started, 40, f"{self.argv[0]} has started")
        self.key = children[0].key
        threading.Thread(target=self._read_terminal, args=(master, self.screen), daemon=True).start()

    def _read_terminal(self, master: int, screen: Screen) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        with self.output.open("wb") as file:
            while True:
                try:
                    data = os.read(master, 65536)
                except OSError:
                    data = b""  # nobody has the other side any more
                if not data:
                    with self._lock:
                        self._master = None
                    os.close(master)
                    return
                file.write(data)
                with self._lock:
                    screen.feed(decoder.decode(data))
                    answers, screen.answers = screen.answers, []
                for answer in answers:
                    self._write(answer)

    def _write(self, text: str) -> None:
        with self._lock:
            if self._master is not None:
                os.write(self._master, text.encode())

    # What a person would do

    def type(self, text: str) -> None:
        """Type a line and press Enter, as two things: an interface takes a fast Enter for a part of a paste."""
        self.typed += 1
        if self._lines is not None:
            self.send_line(self._lines(text))
            return
        before = self.shown()
        self._write(text)
        deadline = time.monotonic() + ECHO_LIMIT
        while time.monotonic() < deadline and ((now := self.shown()) == before or text[:12] not in now):
            time.sleep(0.05)
        time.sleep(0.4)
        self._write("\r")

    def press(self, keys: str) -> None:
        self._write(keys)

    def send_line(self, text: str) -> None:
        """For a program that reads its stdin."""
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode() + b"\n")
        self.process.stdin.flush()

    def hang_up(self) -> None:
        """Nothing more will come through its stdin."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    # What is true

    def alive(self) -> bool:
        return is_alive(self.key)

    def shown(self) -> str:
        if self.screen is None:
            return self.output.read_text(errors="replace") if self.output.exists() else ""
        with self._lock:
            return self.screen.text()

    def wait_shown(self, pattern: str, seconds: float = 120.0) -> None:
        wanted = re.compile(pattern)

        def seen() -> bool:
            over = self.ended()
            if over:
                time.sleep(0.2)  # its last words may still be on their way to the screen
            if wanted.search(self.shown()):
                return True
            if over:
                raise LabError(f"it ended ({self.code()}) before it showed {pattern!r}:\n{self.shown()}")
            return False

        try:
            until(seen, seconds, f"{pattern!r} on its screen")
        except LabError as error:
            raise LabError(f"{error}; its screen:\n{self.shown()}") from None

    def wait_still(self, seconds: float, limit: float = 15.0) -> None:
        """Wait until its screen has not changed for so long; if it moves for ever, no longer than the limit."""
        began = since = time.monotonic()
        shown = self.shown()
        while time.monotonic() < min(since + seconds, began + limit):
            time.sleep(0.1)
            if (now := self.shown()) != shown:
                shown, since = now, time.monotonic()

    def ended(self) -> bool:
        """Over, and its exit code is known."""
        return self.code() is not None

    def code(self) -> int | None:
        if self.screen is None:
            return self.process.poll()
        try:
            return int(self._code_file.read_text())
        except (FileNotFoundError, ValueError):
            return None  # still running, or being written at this moment

    def wait_end(self, seconds: float = 120.0) -> int:
        try:
            until(self.ended, seconds, f"the end of pid {self.key.pid}")
        except LabError as error:
            raise LabError(f"{error}; it shows:\n{self.shown()}") from None
        code = self.code()
        assert code is not None
        return code

    def descendants(self) -> list[Row]:
        return [row for row in descendants(self.key.pid) if not row.dead]

    def signal(self, number: signal.Signals) -> None:
        send(self.key, number)

    def close(self) -> None:
        """End it if it still lives, and with its shell its terminal."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)


def heed_signals() -> None:
    """As if a person had started it: what a shell runs in the background ignores SIGINT, and hands that on."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def take_terminal() -> None:
    heed_signals()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def end_all(rows: Iterable[Row], seconds: float = 30.0) -> list[Row]:
    """Kill these, each by its proved key; those that are still there after all."""
    rows = list(rows)
    for row in rows:
        try:
            send(row.key, signal.SIGKILL)
        except (ProcessLookupError, LabError):
            pass  # it ended by itself
    deadline = time.monotonic() + seconds
    while (left := [row for row in rows if is_alive(row.key)]) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


def readable(fd: int, seconds: float) -> bool:
    return bool(select.select([fd], [], [], seconds)[0])
