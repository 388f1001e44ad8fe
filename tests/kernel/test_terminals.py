"""At which terminal is a process? By the file, not by its number: each mount of devpts has the same numbers."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from agentctl.kernel import keyboard

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.linux

AS_ROOT = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
ELSEWHERE = """
import fcntl, os, struct, sys
UNLOCK, NUMBER = 0x40045431, 0x80045430  # TIOCSPTLCK, TIOCGPTN
master = os.open(f"{sys.argv[1]}/ptmx", os.O_RDWR | os.O_NOCTTY)
fcntl.ioctl(master, UNLOCK, struct.pack("i", 0))
number = struct.unpack("i", fcntl.ioctl(master, NUMBER, struct.pack("i", 0)))[0]
for fd in (0, 2):
    os.dup2(os.open(f"{sys.argv[1]}/{number}", os.O_RDWR | os.O_NOCTTY), fd)
os.write(1, b"ready\\n")
os.dup2(0, 1)
import signal
signal.alarm(30)
signal.pause()
"""


@pytest.fixture
def terminal() -> Iterator[tuple[int, str]]:
    """A terminal of ours: its descriptor and its path."""
    master, slave = pty.openpty()
    yield slave, os.ttyname(slave)
    os.close(master)
    os.close(slave)


def test_a_terminal_of_another_devpts_is_not_ours(tmp_path: Path, terminal: tuple[int, str]) -> None:
    script = f'mount -t devpts -o newinstance,ptmxmode=0666 none {tmp_path} && exec "$@"'
    command = ["unshare", *AS_ROOT, "--mount", "sh", "-c", script, "sh", sys.executable, "-c", ELSEWHERE, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"ready\n"
        assert not keyboard.is_at(other.pid, terminal[1])
        other.kill()


def test_the_file_of_its_descriptors_counts(terminal: tuple[int, str]) -> None:
    slave, path = terminal
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=slave) as own:
        assert keyboard.is_at(own.pid, path)
        assert not keyboard.is_at(own.pid, "/dev/null")
        own.communicate()
    assert not keyboard.is_at(own.pid, path)


def test_one_without_a_terminal_among_them_is_judged_by_its_mounts(terminal: tuple[int, str]) -> None:
    for around, at in (([], True), (["unshare", *AS_ROOT, "--mount"], False)):
        with subprocess.Popen([*around, "sh", "-c", "echo; exec cat"], stdin=-1, stdout=-1, stderr=-1) as one:
            assert one.stdout is not None
            assert one.stdout.readline() == b"\n"
            assert keyboard.is_at(one.pid, terminal[1]) is at
            one.communicate()
