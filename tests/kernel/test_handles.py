"""Handles: the process that is meant gets the signal, or nobody does."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from agentctl.kernel import handles
from agentctl.kernel.handles import Handle, wait_for
from tests.support.children import PATIENCE, end_unreaped, true_key, until

if TYPE_CHECKING:
    from agentctl.model import Process, ProcessKey
    from tests.support.children import Spawn

pytestmark = pytest.mark.linux


@pytest.fixture(params=["pidfd", "no pidfd", "forbidden"], autouse=True)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "no pidfd":
        monkeypatch.delattr(os, "pidfd_open")
    elif request.param == "forbidden":

        def forbidden(pid: int) -> int:
            raise PermissionError(1, "Operation not permitted")

        monkeypatch.setattr(os, "pidfd_open", forbidden)
    return str(request.param)


def opened(key: ProcessKey) -> Handle:
    handle = Handle.open(key)
    assert handle is not None
    return handle


def test_it_is_signalled_and_seen_to_end(spawn: Spawn) -> None:
    child = spawn()
    handle = opened(true_key(child.pid))
    assert handle.alive() and not handle.suspended()
    assert wait_for([handle], 0.0) == [handle]
    assert handle.send(signal.SIGTERM)
    assert wait_for([handle], PATIENCE) == []
    assert not handle.alive()
    handle.close()


def test_who_has_the_pid_now_is_not_opened(spawn: Spawn) -> None:
    key = true_key(spawn().pid)
    assert Handle.open(type(key)(key.boot, key.pid, key.start - 1)) is None
    assert Handle.open(type(key)("another boot", key.pid, key.start)) is None


def test_nothing_stays_open_of_who_was_not_meant(spawn: Spawn) -> None:
    key = true_key(spawn().pid)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        assert Handle.open(type(key)(key.boot, key.pid, key.start - 1)) is None
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_zombie_is_no_process_and_takes_no_signal(spawn: Spawn) -> None:
    child = spawn()
    handle = opened(true_key(child.pid))
    end_unreaped(child)
    until(lambda: not handle.alive())
    assert not handle.send(signal.SIGTERM)
    assert Handle.open(handle.key) is None
    handle.close()


def test_one_that_was_reaped_takes_no_signal(spawn: Spawn) -> None:
    child = spawn()
    handle = opened(true_key(child.pid))
    child.kill()
    child.wait(PATIENCE)
    assert not handle.alive() and not handle.send(signal.SIGTERM)
    assert wait_for([handle], 0.0) == []
    handle.close()


def test_suspended(spawn: Spawn) -> None:
    child = spawn()
    handle = opened(true_key(child.pid))
    assert not handle.suspended()
    child.send_signal(signal.SIGSTOP)
    until(handle.suspended)
    assert handle.alive()
    child.send_signal(signal.SIGCONT)
    until(lambda: not handle.suspended())
    handle.close()


def test_waiting_for_several_ends_with_the_time(spawn: Spawn) -> None:
    stays, goes = (opened(true_key(spawn().pid)) for _ in range(2))
    goes.send(signal.SIGKILL)
    assert wait_for([stays, goes], 0.5) == [stays]
    for handle in (stays, goes):
        handle.close()


@pytest.mark.parametrize("kernel", ["pidfd"], indirect=True)  # otherwise nothing is opened
def test_too_many_open_files_is_no_end(spawn: Spawn, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(pid: int) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "pidfd_open", full)
    with pytest.raises(OSError, match="Too many open files"):
        Handle.open(true_key(spawn().pid))


@pytest.mark.parametrize("kernel", ["pidfd"], indirect=True)  # otherwise nothing is opened
def test_the_key_is_proved_after_it_was_opened(spawn: Spawn, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at the table and the opening the pid may have got another owner: the proof comes last."""
    order: list[str] = []
    real_open, real_row = os.pidfd_open, handles.row_of

    def open_one(pid: int) -> int:
        order.append("open")
        return real_open(pid)

    def prove(key: ProcessKey) -> Process | None:
        order.append("prove")
        return real_row(key)

    monkeypatch.setattr(os, "pidfd_open", open_one)
    monkeypatch.setattr(handles, "row_of", prove)
    opened(true_key(spawn().pid)).close()
    assert order == ["open", "prove"]
