"""A FIFO or a device where git, or agentctl, opens a file: nobody waits for it, and nothing is removed."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from agentctl.workspace import git, special_files
from tests.support.worktree_home import Worktrees, worktrees_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.linux


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Worktrees]:
    with worktrees_in(tmp_path) as home:
        yield home


@pytest.mark.parametrize("name", ["worktrees/repo-g-a/logs/HEAD", "info/attributes", "worktrees/repo-g-a/HEAD"])
def test_in_the_git_folder(home: Worktrees, name: str) -> None:
    home.ended("[[text:x]]", "a")
    path = home.repository / ".git" / name
    path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path)
    try:
        for words in (("worktree", "list"), ("worktree", "clean", "g"), ("worktree", "clean", "--merged")):
            done = home.agentctl(*words)
            assert done.returncode == 5, done.stdout + done.stderr
            assert f"{name} is no file" in done.stderr and len(done.stderr.splitlines()) == 1
        assert home.path("a").is_dir()
    finally:
        path.unlink()


def test_in_a_repository_inside_of_a_worktree(home: Worktrees) -> None:
    home.ended("[[bash:git init -q inner; rm inner/.git/HEAD; mkfifo inner/.git/HEAD]]", "a")
    assert home.agentctl("worktree", "list").returncode == 0
    done = home.agentctl("worktree", "clean", "g")
    assert done.returncode == 4 and "inner/.git/HEAD is no file" in done.stderr, done.stderr
    assert (home.path("a") / "inner").is_dir()


def test_a_git_that_gives_no_answer_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "git"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o700)
    monkeypatch.setattr(git, "PATIENCE", 0.2)
    with pytest.raises(git.GitSilent, match="has not answered") as silent:
        git.answer(str(tmp_path), "status", env={"PATH": f"{tmp_path}:{os.defpath}"})
    assert silent.value.exit_code == 5


def test_what_is_no_special_file(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True, env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)})
    (tmp_path / ".git" / "dangling").symlink_to("nowhere")
    (tmp_path / ".git" / "link").symlink_to("HEAD")
    assert special_files.special_in(str(tmp_path / ".git")) == []
    os.mkfifo(tmp_path / "pipe")  # git does not open it
    os.mkfifo(tmp_path / ".git" / "objects" / "pipe")
    assert special_files.special_files(str(tmp_path)) == []
    (tmp_path / ".git" / "to-a-pipe").symlink_to(tmp_path / "pipe")
    assert special_files.special_files(str(tmp_path)) == [".git/to-a-pipe"]


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="it is no file"):
        special_files.content(str(tmp_path / "pipe"))
