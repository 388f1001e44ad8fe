"""A program that ends at once ends as one that calls sys.exit does, for all who look at it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.demo_home import SOURCES, TIMEOUT

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import atexit, os, sys
sys.path.insert(0, sys.argv[2])
if sys.argv[4] == "missing":
    del atexit._run_exitfuncs
def tell(word):
    with open(sys.argv[3], "a") as file:
        file.write(word)
atexit.register(tell, "first registered ")
atexit.register(tell, "last registered ")
class Late:
    def __del__(self, write=os.write):
        write(2, b"taken apart")
LATE = Late()
LATE.itself = LATE
sys.stdout.write("said, not flushed")
if sys.argv[4] == "closed":
    os.close(1)
    os.open(os.devnull, os.O_RDONLY)
"""
OURS = PROGRAM + "from agentctl.fast.exit import exit; exit(int(sys.argv[1]))"
KNOWN = PROGRAM + "sys.exit(int(sys.argv[1]))"


def ended(program: str, code: int, how: str, told: Path) -> tuple[int, str, str, str]:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, str(code), SOURCES, str(told), how],
        env={},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    written = told.read_text()
    os.unlink(told)
    return done.returncode, done.stdout, done.stderr.replace("taken apart", ""), written


@pytest.mark.parametrize("code", [0, 1, 5, 124])
def test_it_ends_as_by_sys_exit(code: int, tmp_path: Path) -> None:
    found = ended(OURS, code, "as it is", tmp_path / "told")
    assert found == ended(KNOWN, code, "as it is", tmp_path / "told")
    assert found == (code, "said, not flushed", "", "last registered first registered ")


def test_what_could_not_be_said_is_told_as_by_sys_exit(tmp_path: Path) -> None:
    found = ended(OURS, 0, "closed", tmp_path / "told")
    assert found == ended(KNOWN, 0, "closed", tmp_path / "told")
    assert found[0] == 120 and "Bad file descriptor" in found[2]


def test_a_python_that_has_no_such_function_ends_by_sys_exit(tmp_path: Path) -> None:
    found = ended(OURS, 3, "missing", tmp_path / "told")
    assert found == ended(KNOWN, 3, "as it is", tmp_path / "told")


def test_nothing_is_taken_apart(tmp_path: Path) -> None:
    for how, expected in (("as it is", False), ("missing", True)):
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", OURS, "0", SOURCES, str(tmp_path / "told"), how],
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=True,
        )
        assert ("taken apart" in done.stderr) == expected
