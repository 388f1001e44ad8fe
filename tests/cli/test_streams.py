"""Where the output goes: a list is never lost, whatever stdout, the terminal and the environment are like."""

from __future__ import annotations

import json
import subprocess
import sys
import unicodedata
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.demo_home import TIMEOUT, Home

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROMPT = "修复失败的测试 🚀 [[sleep:300]] naïve cafe\u0301 " + "and say at length what was wrong, " * 5
ODD_ENCODINGS = ("latin-1", "ascii", "cp1252")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    found = Home(tmp_path)
    yield found
    found.end_all()


def ctl(
    home: Home, *arguments: str, shell: str = "", cwd: Path | None = None, **env: str
) -> subprocess.CompletedProcess[bytes]:
    """Run a command. `shell`: what a shell adds to it, such as a redirection."""
    command = ["sh", "-c", f'exec "$@" {shell}', "sh", sys.executable, "-m", "agentctl", *arguments]
    environment = {**home.env, **env}
    done = subprocess.run(command, env=environment, cwd=cwd, capture_output=True, timeout=TIMEOUT, check=False)
    assert b"Traceback" not in done.stderr
    return done


def one_line(done: subprocess.CompletedProcess[bytes]) -> str:
    (line,) = done.stderr.decode().splitlines()
    assert "AGENTCTL_DEBUG" not in line
    return line


def columns(line: str) -> int:
    """Return how many columns a terminal needs for a line that has no odder characters than the prompt here."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in line)
    return len(line) + wide - sum(unicodedata.combining(char) > 0 for char in line)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_is_wider_than_the_terminal(home: Home, width: int) -> None:
    ids = [home.start("-p", PROMPT)[0] for _ in range(2)]
    printed = ctl(home, "list", COLUMNS=str(width)).stdout.decode().split("\n\n")[0]
    assert [line for line in printed.splitlines() if columns(line) > width] == []
    for id in ids:
        assert id[:8] in printed
        assert "running" in printed
        assert "修" in printed


@pytest.mark.parametrize("encoding", ODD_ENCODINGS)
def test_a_stdout_that_is_not_utf_8_gets_the_list(home: Home, encoding: str) -> None:
    id, _ = home.start("-p", PROMPT)
    done = ctl(home, "list", PYTHONIOENCODING=encoding, COLUMNS="80")
    printed = done.stdout.decode(encoding).split("\n\n")[0]
    assert (done.returncode, done.stderr) == (0, b"")
    assert id[:8] in printed
    assert [line for line in printed.splitlines() if len(line) > 80] == []
    for verb in (("list", "--tree"), ("status", id), ("why", id), ("peek", id), ("usage",)):
        assert ctl(home, *verb, PYTHONIOENCODING=encoding).returncode == 0, verb


@pytest.mark.parametrize("encoding", ODD_ENCODINGS)
def test_json_on_a_stdout_that_is_not_utf_8_is_json(home: Home, encoding: str) -> None:
    home.start("-p", PROMPT)
    done = ctl(home, "list", "--json", PYTHONIOENCODING=encoding)
    answer: dict[str, Any] = json.loads(done.stdout.decode(encoding))
    assert answer["sessions"][0]["prompt"] == PROMPT


def test_a_closed_stdout_is_told(home: Home) -> None:
    home.start("-p", PROMPT)
    for words in (("list",), ("list", "--json"), ("--version",), ("--help",)):
        done = ctl(home, *words, shell=">&-")
        assert done.returncode == 1
        assert one_line(done) == "agentctl: nothing could be written to stdout: it is closed"
    for shell in ("2>&-", "<&-"):
        assert ctl(home, "list", shell=shell).returncode == 0


def test_a_full_stdout_is_told(home: Home) -> None:
    for _ in range(2):
        home.start("-p", PROMPT)
    for words in (("list",), ("list", "--json"), ("--version",), ("--help",)):
        done = ctl(home, *words, shell=">/dev/full")
        line = "agentctl: not everything could be written to stdout: No space left on device"
        assert (done.returncode, one_line(done)) == (1, line)
    assert ctl(home, "status", "x", shell=">/dev/full").returncode == 3


@pytest.mark.parametrize("columns", [pytest.param("²", id="superscript"), "-3", "0", "", "1", "9" * 30, "forty"])
def test_any_columns(home: Home, columns: str) -> None:
    id, _ = home.start("-p", PROMPT)
    done = ctl(home, "list", COLUMNS=columns)
    assert (done.returncode, done.stderr) == (0, b"")
    assert id[:8] in done.stdout.decode()


def test_a_relative_cache_folder_is_not_used(home: Home, tmp_path: Path) -> None:
    """The standard says so: else each directory that a person is in gets a folder with a cache."""
    home.run("-p", "[[text:hello]]")
    before = {*tmp_path.iterdir()}
    for _ in range(2):
        done = ctl(home, "usage", cwd=tmp_path, XDG_CACHE_HOME="here/cache")
        assert (done.returncode, done.stderr) == (0, b"")
    assert {path.name for path in {*tmp_path.iterdir()} - before} == {".cache"}


def test_little_memory_is_told_in_one_line_or_is_enough(home: Home) -> None:
    """With `ulimit -v` there is a list, or one line that says why not: never a crash, and never an empty list."""
    id, _ = home.start("-p", PROMPT)
    for limit in (20_000, 30_000, 60_000, 200_000):
        command = f"ulimit -v {limit}; exec {sys.executable} -m agentctl list"
        done = subprocess.run(["sh", "-c", command], env=home.env, capture_output=True, timeout=TIMEOUT, check=False)
        if done.returncode != 0:
            assert done.stderr, limit
            assert b"report what it shows" not in done.stderr, done.stderr
        else:
            assert id[:8].encode() in done.stdout, (limit, done.stderr)
