"""Real child processes for tests of the process table, and what is true of them."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from agentctl.kernel import linux, portable
from agentctl.model import Details, Process, ProcessKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agentctl.kernel.processes import Processes

Child = subprocess.Popen[bytes]


class Spawn(Protocol):
    def __call__(self, code: str = "", *words: str | bytes, **options: Any) -> Child: ...


PATIENCE = 30.0  # until a test gives up; nothing here is expected to take that long
REST = "print('ready', flush=True)\nsys.stdin.read()\n"  # ends with its stdin, so also when the tests are killed
PARENT = "import subprocess\nchild = subprocess.Popen([sys.executable, '-c', 'import sys; sys.stdin.read()'])\n"
HALF_DEAD = """
import ctypes, threading
def go_on():
    while 'State:\\tZ' not in open('/proc/self/status').read():
        pass
    print('ready', flush=True)
    sys.stdin.read()
threading.Thread(target=go_on).start()
ctypes.CDLL(None).pthread_exit(None)
"""


class Source(Protocol):
    def snapshot(self, env_names: frozenset[str]) -> Processes: ...
    def absent(self, pid: int) -> bool: ...


@pytest.fixture(params=[linux, portable], ids=["linux", "portable"])
def source(request: pytest.FixtureRequest) -> Source:
    found: Source = request.param
    return found


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Start Python children; each has said that it is ready, and none outlives its test."""
    children: list[Child] = []

    def start(code: str = "", *words: str | bytes, **options: Any) -> Child:
        child = subprocess.Popen(
            [sys.executable, "-c", f"import sys\n{code}\n{REST}", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            **options,
        )
        children.append(child)
        assert hear(child) == "ready"
        return child

    yield start
    for child in children:
        end(child)


def hear(child: Child) -> str:
    assert child.stdout is not None
    assert select.select([child.stdout], [], [], PATIENCE)[0], "the child says nothing"
    return child.stdout.readline().decode().strip()


def say(child: Child, text: str) -> None:
    assert child.stdin is not None
    child.stdin.write(text.encode() + b"\n")
    child.stdin.flush()


def end(child: Child) -> None:
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            pipe.close()
    child.send_signal(signal.SIGCONT)
    for last_resort in (child.terminate, child.kill):
        try:
            child.wait(PATIENCE / 3)
        except subprocess.TimeoutExpired:
            last_resort()
    child.wait(PATIENCE)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.005)


def end_unreaped(child: Child) -> None:
    """It ends, and nobody asks how: a zombie."""
    child.kill()
    until(lambda: os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None)


def row_of(processes: Processes, child: Child) -> Process:
    row = processes.get(child.pid)
    assert row is not None
    return row


def details_of(processes: Processes, child: Child) -> Details:
    details = processes.details(row_of(processes, child))
    assert details is not None
    return details


def true_key(pid: int) -> ProcessKey:
    """The key as /proc has it, taken apart in the simplest way."""
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return ProcessKey(Path("/proc/sys/kernel/random/boot_id").read_text().strip(), pid, int(fields[19]))


def look(source: Source, *env_names: str) -> Processes:
    return source.snapshot(frozenset(env_names))
