"""Which process a pid file of Claude Code names: by its start if that is given in clock ticks, else by who can have
written it."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from agentctl.agents.claude_code.adapter import ADAPTER, role_of
from agentctl.agents.claude_code.files import why_unregistered
from agentctl.kernel.processes import Processes
from agentctl.kernel.programs import UNIDENTIFIED
from agentctl.model import AGENT, HELPER, Details
from tests.support.facts import row
from tests.support.table import source

if TYPE_CHECKING:
    from pathlib import Path

    from agentctl.model import Link

ID = "00000000-0000-4000-8000-000000000001"
BOOT_TIME = 1_000_000.0
START = 1000  # ticks after the boot
BEGAN = BOOT_TIME + 10.0


def linked(root: Path, start: object, written: float) -> list[Link]:
    """Return the links of a store with one pid file, while a claude with that pid lives that started at START."""
    file = root / "sessions" / "7.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"pid": 7, "sessionId": ID, "procStart": start, "cwd": "/work", "status": "busy"}))
    os.utime(file, (written, written))
    details = Details(argv=("claude",), exe="/x/claude", cwd="/work", env={}, uid=os.getuid(), pids=(7,))
    answers = source(details=lambda process: details, kind=lambda pid, exe: UNIDENTIFIED)
    processes = Processes("boot", [row(7, START)._replace(comm="claude")], answers, boot_time=BOOT_TIME)
    store = ADAPTER.open_store(str(root))
    store.survey()
    return store.links(processes)


def test_its_own_start(tmp_path: Path) -> None:
    (link,) = linked(tmp_path, str(START), BEGAN)
    assert (link.key.pid, link.key.start, link.inferred) == (7, START, False)


@pytest.mark.parametrize("written", [BEGAN - 1.0, BEGAN, BEGAN + 1.0])
def test_a_start_in_ticks_is_sure(tmp_path: Path, written: float) -> None:
    """Another agent got the pid at once, within the tick that the file was written in."""
    (link,) = linked(tmp_path, str(START - 1), written)
    assert (link.key.pid, link.key.start) == (7, START - 1)


@pytest.mark.parametrize("start", [None, START // 100, 1_000_010_000, "2026-01-01T00:00:00Z"])
def test_a_start_in_another_form_is_of_whoever_can_have_written_it(tmp_path: Path, start: object) -> None:
    (link,) = linked(tmp_path, start, BEGAN + 1.0)
    assert (link.key.pid, link.key.start, link.inferred) == (7, START, True)


@pytest.mark.parametrize("start", [None, START // 100, 1_000_010_000, "2026-01-01T00:00:00Z"])
def test_a_process_that_started_later_did_not_write_it(tmp_path: Path, start: object) -> None:
    assert not any(link.key.start == START for link in linked(tmp_path, start, BEGAN - 1.0))


@pytest.mark.parametrize(
    ("words", "role"),
    [
        ((), AGENT),
        (("--chrome-native-host", "chrome-extension://x/"), HELPER),
        (("--claude-in-chrome-mcp",), HELPER),
        (("--chrome",), AGENT),
        (("-p", "--chrome-native-host"), AGENT),
    ],
)
def test_what_a_process_is_for(words: tuple[str, ...], role: str) -> None:
    assert role_of(words) == role


@pytest.mark.parametrize(("age", "starts"), [(0.0, True), (59.0, True), (61.0, False)])
def test_an_old_process_is_not_starting(age: float, starts: bool) -> None:
    assert ("starting" in why_unregistered(1000.0, 1000.0 + age)) == starts
