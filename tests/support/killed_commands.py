"""The real command, killed before or after one of its steps."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from tests.support.launch_home import TIMEOUT

if TYPE_CHECKING:
    from tests.support.launch_home import Home

DRIVER = """
import importlib, os, signal, sys
from agentctl.cli import run
path, when, *words = sys.argv[1:]
path, _, word = path.partition(":")
module, name = path.rsplit(".", 1)
where = importlib.import_module(module)
step = getattr(where, name)
def killed(*given, **named):
    if word and word not in given:
        return step(*given, **named)
    if when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    step(*given, **named)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(where, name, killed)
run(words)
"""


def kill_at(home: Home, step: str, when: str, *words: str) -> None:
    """`step`: a function by its module and name; `function:word` is a call of it that has this word."""
    found = subprocess.run(
        [sys.executable, "-c", DRIVER, step, when, *words],
        env=home.env,
        cwd=home.work,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert found.returncode == -9, f"the step was not taken: {found.stderr}"
