"""The log of older versions of OpenCode: what is believed of it, and of whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agentctl.agents.opencode.older_log import NONE, Hints, is_older, own_logs, read_hints
from agentctl.model import ProcessKey

if TYPE_CHECKING:
    from pathlib import Path

BEGIN = "INFO  2026-11-18T04:14:55 +357ms service=default args=[] process_role=main run_id=5208 opencode"
OPENED = "INFO  2026-11-18T04:14:57 +1ms service=project directory=/home/me/a b fromDirectory"
LOOP = "INFO  2026-11-18T04:15:00 +0ms service=session.prompt session.id=ses_{} step=0 loop"


def hints(folder: Path, *lines: str) -> Hints:
    path = folder / "2026-11-18T041455.log"
    path.write_text("".join(f"{line}\n" for line in lines))
    return read_hints([str(path)])


def test_what_it_says(tmp_path: Path) -> None:
    found = hints(tmp_path, BEGIN, OPENED, LOOP.format("a1"), LOOP.format("b2"), LOOP.format("a1"))
    assert found == Hints(frozenset({"/home/me/a b"}), ("ses_b2", "ses_a1"))


def test_two_that_started_in_one_second(tmp_path: Path) -> None:
    assert hints(tmp_path, BEGIN, BEGIN, OPENED, LOOP.format("a1")) == NONE


def test_the_working_part_of_a_screen(tmp_path: Path) -> None:
    """Its own log does not begin with a start: it names sessions, and no directory that may be asked about."""
    assert hints(tmp_path, OPENED, LOOP.format("a1")) == Hints(frozenset(), ("ses_a1",))


@pytest.mark.parametrize(
    "line",
    [
        f"sleep 1; {OPENED}",
        OPENED.replace("fromDirectory", "somewhere"),
        OPENED.replace("/home", "home"),
        LOOP.format(""),
        f"echo {LOOP.format('a1')}",
    ],
)
def test_what_says_nothing(tmp_path: Path, line: str) -> None:
    assert hints(tmp_path, BEGIN, line) == NONE


def test_which_logs_are_its_own() -> None:
    mine, theirs = (ProcessKey("boot", pid, 1) for pid in (1, 2))
    own, shared = "/d/log/2026-11-18T041455.log", "/d/log/2026-11-18T041456.log"
    files = {mine: [own, shared, "/d/opencode.db", "/d/log/opencode.log"], theirs: [shared]}
    assert own_logs(mine, files) == [own]
    assert own_logs(theirs, files) == []


@pytest.mark.parametrize(
    "path", ["/d/log/opencode.log", "/d/2026-11-18T041455.log", "/d/log/2026-11-18T041455.txt", "/d/log/2026.log"]
)
def test_what_is_no_such_log(path: str) -> None:
    assert not is_older(path)
