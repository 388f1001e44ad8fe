"""Does a version start at all? python -m tests.lab.start AGENT VERSION - start PROGRAM RESULT, in a room of its own.

It must print its version. What its --help says is handed on: it tells which states this version cannot have. A version
that does not start fails here, once, and none of its cells is played.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.lab.recipe import Need

MODE, STATE = "start", "start"
LIMIT = 90
ASK_LIMIT = 40.0
FOLDER = Path("/tmp/lab")
SHOWN = 400  # characters of what it said instead


def ask(program: str, word: str, env: dict[str, str], seconds: float = ASK_LIMIT) -> str:
    """Return what a program prints when it is asked one thing."""
    try:
        done = subprocess.run(
            [program, word],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        raise LabError(f"{word} is not answered within {seconds:g} s") from None
    except OSError as error:
        raise LabError(f"it cannot be run: {error}") from None
    said = done.stdout.decode(errors="replace")
    if done.returncode:
        raise LabError(f"{word} ends with exit code {done.returncode}: {said.strip()[-SHOWN:]}")
    return said


def has_word(help: str, word: str) -> bool:
    """Return whether a --help names an option or a command, and not only a longer word."""
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", help) is not None


def lacking(needs: Sequence[Need], help: str, mode: str, state: str) -> str | None:
    """Return why a version with this --help has no such state; None if it may have it."""
    for need in needs:
        if mode in need.modes and (need.states is None or state in need.states) and not has_word(help, need.word):
            return need.reason()
    return None


def look(program: str, version: str) -> dict[str, object]:
    env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(FOLDER), "TMPDIR": str(FOLDER)}
    env |= {f"XDG_{name.upper()}_HOME": str(FOLDER / name) for name in ("data", "state", "cache", "config")}
    try:
        said = ask(program, "--version", env)
        if version not in said:
            raise LabError(f"--version says {said.strip()[:SHOWN]!r}")
        return {"passed": True, "text": "", "help": ask(program, "--help", env)}
    except LabError as error:
        return {"passed": False, "text": f"it does not start: {error}"}


def main(agent: str, version: str, mode: str, state: str, program: str, result: str) -> int:
    FOLDER.mkdir()
    Path(result).write_text(json.dumps(look(program, version)))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
