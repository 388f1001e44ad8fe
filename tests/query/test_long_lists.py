"""A list ends without freeing what it was made of, and nobody can tell: all is written, and nothing is left."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.demo_home import TIMEOUT, Home
from tests.support.worlds import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path

CLAUDE = sorted(FIXTURES.glob("claude*/*/.claude/projects/*/*.jsonl"))
OPENCODE = FIXTURES / "opencode" / "subagent_and_fork" / "xdg_data" / "opencode" / "opencode.db"
AT_ONCE, AS_ALWAYS = "at once", "as always"
ENDED = "Python has ended"
# The database cannot be opened where it is, so that it is read as a copy.
PROGRAM = f"""\
import os, sys
from agentctl import __main__ as program
from agentctl.agents.opencode import db as opencode_db

real = opencode_db.connect

def connect(path, mode):
    if mode == "ro":
        raise opencode_db.sqlite().OperationalError("unable to open database file")
    return real(path, mode)

opencode_db.connect = connect
if sys.argv.pop(1) == "{AS_ALWAYS}":
    from agentctl.fast import exit as at_once
    at_once.exit = lambda code: None
code = program.main()
os.write(2, b"{ENDED}")
sys.exit(code)
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    found = Home(tmp_path)
    for number, path in enumerate(CLAUDE):
        target = tmp_path / ".claude/projects/-work" / f"00000000-0000-4000-8000-{number:012}.jsonl"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
        os.utime(target, (10**9, 10**9))
    (tmp_path / "data" / "opencode").mkdir(parents=True)
    shutil.copy(OPENCODE, tmp_path / "data" / "opencode")
    (tmp_path / "temporary").mkdir()
    found.env["TMPDIR"] = str(tmp_path / "temporary")
    found.env["COLUMNS"] = "200"
    return found


def ask(home: Home, how: str, *words: str, stdout: int = subprocess.PIPE) -> tuple[int, str | None, str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, how, "list", "-a", "--since", "all", *words],
        env=home.env,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert os.listdir(home.env["TMPDIR"]) == []
    return done.returncode, without_others(done.stdout), done.stderr


def without_others(said: str | None) -> str | None:
    """Leave out what `list` says of the agents of other HOMEs: those of other tests come and go."""
    if said is None or not said.startswith("{"):
        return said and re.sub(r"\n\d+ agent process.* not shown\n$", "", said)
    return json.dumps({**json.loads(said), "not_shown": []})


@pytest.mark.parametrize("words", [(), ("--json",), ("--strict",), ("--agent", "opencode", "--tree")])
def test_it_says_the_same(home: Home, words: tuple[str, ...]) -> None:
    if "--strict" in words:
        (home.root.parent.parent / ".codex").write_text("no folder")  # a problem: exit code 5
    code, said, complained = ask(home, AS_ALWAYS, *words)
    assert code == (5 if "--strict" in words else 0)
    assert said
    assert complained.endswith(ENDED)
    assert ask(home, AT_ONCE, *words) == (code, said, complained.removesuffix(ENDED))


def test_a_reader_that_went_away_is_no_error(home: Home) -> None:
    for how in (AS_ALWAYS, AT_ONCE):
        read, write = os.pipe()
        os.close(read)
        try:
            code, _, complained = ask(home, how, stdout=write)
        finally:
            os.close(write)
        assert (code, complained.removesuffix(ENDED)) == (0, "")


@pytest.mark.linux  # has /dev/full
@pytest.mark.parametrize("words", [(), ("--agent", "opencode")], ids=["more than a buffer", "less"])
def test_a_full_disk_is_told(home: Home, words: tuple[str, ...]) -> None:
    """With the same exit code, however much of it Python had still to write at its end."""
    with open("/dev/full", "w") as full:
        found = [ask(home, how, *words, stdout=full.fileno()) for how in (AS_ALWAYS, AT_ONCE)]
    (code, _, complained), at_once = found
    assert at_once == (code, None, complained.removesuffix(ENDED))
    assert code == 1
    assert "No space left" in complained
