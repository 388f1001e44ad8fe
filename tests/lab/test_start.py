"""A version that does not start fails once, at once; and what its --help does not have, it cannot do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lab import __main__ as lab
from tests.lab import matrix, report, start
from tests.lab.recipe import DAEMON, HEADLESS, Need
from tests.lab.recipes import RECIPES

if TYPE_CHECKING:
    from pathlib import Path

HELP = "  --bg, --background   in the background\n      --no-daemon\n  remote-control\n"


@pytest.mark.parametrize(
    ("word", "has"),
    [
        ("--bg", True),
        ("--no-daemon", True),
        ("--no", False),
        ("control", False),
        ("--background", True),
        ("-bg", False),
    ],
)
def test_a_help_names_whole_words(word: str, has: bool) -> None:
    assert start.has_word(HELP, word) is has


def test_a_state_needs_what_the_help_of_a_version_has() -> None:
    needs = (Need("--bg", (DAEMON,)), Need("fork", (HEADLESS,), ("fork",)))
    assert start.lacking(needs, HELP, DAEMON, "permission") is None
    assert start.lacking(needs, "", DAEMON, "permission") == "its --help has no --bg"
    assert start.lacking(needs, HELP, HEADLESS, "fork") == "its --help has no fork"
    assert start.lacking(needs, HELP, HEADLESS, "permission") is None


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("echo 'no such library' >&2; exit 127", "--version ends with exit code 127: no such library"),
        ("echo 2.0", "--version says '2.0'"),
        ("exec sleep 600", "--version is not answered within 0.3 s"),
        ("[ $1 = --version ] && echo 1.0", "--help ends with exit code 1"),
    ],
)
def test_a_version_that_does_not_start_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, told: str
) -> None:
    program = tmp_path / "agent"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(start.ask, "__defaults__", (0.3,))
    found = start.look(str(program), "1.0")
    assert found["passed"] is False
    assert told in str(found["text"])


def test_what_cannot_be_run_does_not_start(tmp_path: Path) -> None:
    assert "it cannot be run" in str(start.look(str(tmp_path / "nothing"), "1.0")["text"])


def test_no_cell_of_a_version_that_does_not_start_is_played() -> None:
    good, bad = matrix.cells("codex", "1"), matrix.cells("codex", "2")
    starts = [
        lab.Result(matrix.Cell("codex", "1", start.MODE, start.STATE), True, 0.1, "", {"help": ""}),
        lab.Result(matrix.Cell("codex", "2", start.MODE, start.STATE), False, 0.1, "it does not start", {}),
    ]
    found = lab.applicable([*good, *bad], starts)
    assert [cell.name for cell in found] == [cell.name for cell in good]
    assert {cell.version for cell in found} == {"1"}
    assert {cell.mode for cell in found if cell.lacking} == {DAEMON}


def test_the_ladder_has_a_line_for_each_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "PATH", tmp_path / "certified.md")
    (old, day), (newer, _), (dead, _) = list(RECIPES["codex"].LADDER.items())[:3]
    for version in (old, newer):
        core = [cell for cell in matrix.cells("codex", version) if cell.core]
        starts = [lab.Result(matrix.Cell("codex", version, start.MODE, start.STATE), True, 0.1, "", {"help": ""})]
        wanted = lab.applicable(core, starts)
        passed = {cell: version == old or cell.state != "sigkill" for cell in wanted if cell.played}
        report.write_ladder(wanted, passed, [])
        report.write_ladder(wanted[:3], passed, [])  # a few cells change no line
    report.write_ladder([], {}, [matrix.Cell("codex", dead, start.MODE, start.STATE)])
    rows = report.ladder_rows_in(report.read())
    assert [row["version"] for row in rows] == [old, newer, dead]
    assert [row["result"] for row in rows] == ["certified", "not certified", report.DEAD]
    assert rows[0]["day"] == day
    assert "4: daemon, its --help has no --no-daemon" in rows[0][0]
    assert "headless/sigkill, interactive/sigkill" in rows[1][0]


def test_only_versions_of_the_ladder_are_run_by_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert lab.main(["--ladder", "--agent", "codex", "--version", "0.0.1"]) == 1
    assert "codex 0.0.1 is not in its ladder" in capsys.readouterr().err
