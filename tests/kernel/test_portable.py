"""The portable source, as far as Linux can show what it does elsewhere."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

import psutil
import pytest

from agentctl.kernel import one_process, portable
from agentctl.model import Process, ProcessKey
from tests.support.children import (
    Spawn,
    look,
    true_key,
)

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.linux

# The portable source, as far as Linux can show what it does elsewhere


def test_off_linux_the_start_is_in_microseconds(spawn: Spawn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portable, "LINUX", False)
    monkeypatch.setattr(portable, "TICKS_PER_SECOND", 1_000_000)
    child = spawn()
    processes = look(portable, "PATH")
    key = ProcessKey("", child.pid, true_key(child.pid).start * (1_000_000 // one_process.TICKS_PER_SECOND))
    assert processes.alive(key) is not None
    assert processes.boot == ""  # no such sysctl here
    assert processes.boot_time == 0.0


def test_pid_0_of_macos_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "pids", lambda: [0, os.getpid()])
    processes = look(portable)
    assert list(processes.by_pid) == [os.getpid()]
    assert processes.hidden is None


def test_a_refused_read_is_not_an_absence(spawn: Spawn, monkeypatch: pytest.MonkeyPatch) -> None:
    child = spawn()
    key = true_key(child.pid)
    real = portable.read_row

    def refuse(process: psutil.Process, boot: str) -> Process:
        if process.pid == child.pid:
            raise psutil.AccessDenied(process.pid)
        return real(process, boot)

    monkeypatch.setattr(portable, "read_row", refuse)
    processes = look(portable)
    assert processes.hidden is not None
    assert processes.alive(key) is None
    assert not processes.gone(key)


def test_no_such_process_is_not_believed_while_the_pid_is_taken(spawn: Spawn, monkeypatch: pytest.MonkeyPatch) -> None:
    child = spawn()
    real = portable.read_row
    errors = [psutil.NoSuchProcess(child.pid)]

    def mistaken(process: psutil.Process, boot: str) -> Process:
        if process.pid == child.pid and errors:
            raise errors.pop()
        return real(process, boot)

    monkeypatch.setattr(portable, "read_row", mistaken)
    assert look(portable).alive(true_key(child.pid)) is not None
    errors.extend([psutil.NoSuchProcess(child.pid)] * 10)
    processes = look(portable)
    assert processes.hidden is not None
    assert not processes.gone(true_key(child.pid))


def test_open_files_are_read_only_when_a_lock_is_asked_for(
    spawn: Spawn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    child = spawn()
    asked: list[int] = []

    def ask(process: Process) -> list[str]:
        asked.append(process.pid)
        return []

    monkeypatch.setattr(portable, "open_files", ask)
    processes = look(portable)
    assert asked == []
    assert processes.lock_owners(str(tmp_path)) == ()
    assert processes.lock_owners(str(tmp_path)) == ()
    assert len(asked) == len(set(asked))
    assert child.pid in asked


@pytest.mark.parametrize(
    ("root", "kind"), [("/home/x", None), ("/net/home", "nfs"), ("/network", None), ("/net/home/deep/x", "macfuse")]
)
def test_off_linux_a_store_on_a_network_is_not_ours_alone(
    monkeypatch: pytest.MonkeyPatch, root: str, kind: str | None
) -> None:
    class Mount(NamedTuple):
        mountpoint: str
        fstype: str

    mounts = [Mount("/net/home/deep", "macfuse"), Mount("/", "apfs"), Mount("/net", "nfs")]
    monkeypatch.setattr(portable, "LINUX", False)
    monkeypatch.setattr(psutil, "disk_partitions", lambda all: mounts)
    why = portable.shared_with_others(root)
    assert why is None if kind is None else why is not None and kind in why
    monkeypatch.setattr(psutil, "disk_partitions", lambda all: [])
    assert portable.shared_with_others(root) is not None


def test_a_missing_sysctl_is_an_empty_text() -> None:
    assert portable.sysctl(b"kern.bootsessionuuid") == ""
