"""Into which processes the kernel lets us look."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from agentctl.kernel import access
from agentctl.kernel.processes import Processes
from agentctl.model import Process, ProcessKey
from tests.support.table import source

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest

US, ROOT = 1000, 0
EVERYBODY = "0 0 4294967295"
NONE, SOME = "0000000000000000", "0000000000000004"


def on(
    monkeypatch: pytest.MonkeyPatch,
    *,
    owner: int,
    powers: str = NONE,
    users: str = EVERYBODY,
    closed: bool = True,
) -> None:
    """Process 7 on a machine where we are user 1000 without powers."""
    files = {"/proc/self/uid_map": users, "/proc/self/status": f"x\nCapPrm:\t{NONE}\n"}
    files["/proc/7/status"] = f"x\nCapPrm:\t{powers}\n"

    def exe(path: str) -> str:
        if closed:
            raise PermissionError(13, "Permission denied", path)
        return "/usr/bin/sleep"

    monkeypatch.setattr(access, "read", lambda path, limit: files[path].encode())
    monkeypatch.setattr(access, "owner_of", {"/proc/7": US, "/proc/7/environ": owner}.get)
    monkeypatch.setattr(os, "geteuid", lambda: US)
    monkeypatch.setattr(os, "readlink", exe)


def test_a_process_that_closed_itself_is_not_closed_by_us(monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, owner=ROOT)
    assert access.why_closed([7]) is None
    on(monkeypatch, owner=ROOT, users="0 1000 1")
    assert access.why_closed([7]) is None


def test_a_process_with_more_powers_is_not_closed_by_us(monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, owner=US, powers=SOME)
    assert access.why_closed([7]) is None


def test_in_a_user_namespace_or_a_sandbox_we_cannot_look(monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, owner=US, powers=SOME, users="0 1000 1")
    assert "user namespace" in (access.why_closed([7]) or "")
    on(monkeypatch, owner=US)
    assert "sandbox" in (access.why_closed([7]) or "")


def test_one_that_was_closed_for_a_moment_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, owner=US, closed=False)
    assert access.why_closed([7]) is None


def test_a_table_into_which_we_may_not_look_is_complete_for_no_store() -> None:
    row = Process(ProcessKey("boot", 7, 1), 1, "x", "S")
    asked: list[list[int]] = []

    def why_closed(pids: Iterable[int]) -> str:
        asked.append(list(pids))
        return "we may not look"

    table = Processes("boot", [row], source(executables=dict.fromkeys, why_closed=why_closed))
    assert table.incomplete_for("/store") == table.incomplete_for("/other") == "we may not look"
    assert asked == [[7]]  # once for each table
    assert Processes("boot", [row], source(executables=lambda pids: {7: "/bin/sleep"})).incomplete_for("/store") is None
