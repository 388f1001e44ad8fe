"""`worktree clean` while a process listens at a socket in the worktree, and uses nothing else there."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.children import until
from tests.support.worktree_home import Worktrees, worktrees_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.linux
LISTENS = """
import os, socket, sys, time
os.chdir(sys.argv[1])
one = socket.socket(socket.AF_UNIX)
one.bind(sys.argv[2])
one.listen()
os.chdir("/")
open(sys.argv[3], "w").close()
time.sleep(600)
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Worktrees]:
    with worktrees_in(tmp_path) as home:
        yield home


def test_a_socket_that_a_process_listens_at(home: Worktrees) -> None:
    home.ended("[[text:x]]", "a")
    home.git(home.repository, "config", "core.excludesFile", str(home.folder / "ignore"))
    (home.folder / "ignore").write_text("s\n")
    path, ready = home.path("a") / "s", home.folder / "ready"
    words = [sys.executable, "-c", LISTENS, str(home.folder), str(path), str(ready)]
    with subprocess.Popen(words, cwd="/", env={}) as process:
        try:
            until(ready.exists)
            done = home.clean("g")
            assert done.returncode == 4, done.stdout + done.stderr
            assert f"pid {process.pid}" in done.stderr and "uses s in it" in done.stderr
            assert path.exists()
        finally:
            process.kill()
    assert home.clean("g").returncode == 0
