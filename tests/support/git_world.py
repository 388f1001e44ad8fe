"""Real git repositories in a folder of their own, and the proof that no lock of git is left in it."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from agentctl.workspace import worktree
from agentctl.workspace.worktree import Plan, make, repository_at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TIMEOUT = 60.0
# Newer versions leave a process behind in the worktree after a commit, for some moments: somebody is in it then.
NO_MAINTENANCE = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "maintenance.auto", "GIT_CONFIG_VALUE_0": "false"}


class Git:
    """Runs git as a person does, to build a world and to see what is true in it."""

    def __init__(self, folder: Path, env: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            **(env or {}),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "A",
            "GIT_AUTHOR_EMAIL": "a@example.com",
            "GIT_COMMITTER_NAME": "A",
            "GIT_COMMITTER_EMAIL": "a@example.com",
            **NO_MAINTENANCE,
        }

    def __call__(self, cwd: Path | str, *words: str | bytes) -> str:
        done = subprocess.run(
            ["git", "-c", "protocol.file.allow=always", *words],
            cwd=cwd, env=self.env, capture_output=True, timeout=TIMEOUT, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        return os.fsdecode(done.stdout).removesuffix("\n")

    def repository(self, name: str = "repo", *options: str) -> Path:
        """With one commit, of a file `a` and a file in a folder `sub`."""
        path = self.folder / name
        self(self.folder, "init", "-q", "-b", "main", *options, "--", str(path))
        (path / "sub").mkdir()
        (path / "a").write_text("one\n")
        (path / "sub" / "b").write_text("two\n")
        self.commit(path, "first")
        return path

    def commit(self, path: Path, message: str = "more") -> str:
        self(path, "add", "-A")
        self(path, "commit", "-q", "--allow-empty", "-m", message)
        return self.head(path)

    def head(self, path: Path | str) -> str:
        return self(path, "rev-parse", "HEAD")

    def branches(self, path: Path | str) -> list[str]:
        return self(path, "for-each-ref", "--format=%(refname:short)", "refs/heads").splitlines()

    def worktrees(self, path: Path | str) -> list[str]:
        said = self(path, "worktree", "list", "--porcelain", "-z").split("\0")
        return [line.removeprefix("worktree ") for line in said if line.startswith("worktree ")]

    def hook(self, repository: Path, name: str, text: str) -> None:
        path = repository / ".git" / "hooks" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def locks(self) -> list[str]:
        """Every file that git uses to keep others out."""
        return [
            os.path.join(folder, name)
            for folder, _, names in os.walk(self.folder)
            for name in names
            if name.endswith(".lock") and f"{os.sep}gates{os.sep}" not in os.path.join(folder, name)
        ]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Git]:
    world = Git(tmp_path)
    yield world
    assert world.locks() == []


def planned(world: Git, cwd: Path | str, name: str = "g-a", **more: Any) -> Plan:
    found = repository_at(str(cwd), world.env)
    return worktree.plan(found, str(cwd), name, world.env, **more)


def made(world: Git, cwd: Path | str, name: str = "g-a", **more: Any) -> Plan:
    plan = planned(world, cwd, name, **more)
    make(plan, world.env)
    assert plan.path in world.worktrees(cwd)
    assert world.head(plan.path) == plan.base
    assert world(plan.path, "status", "--porcelain") == ""
    assert world(plan.path, "branch", "--show-current") == plan.branch
    return plan


def taken_back(world: Git, repository: Path, plan: Plan) -> bool:
    return (
        not os.path.lexists(plan.path)
        and plan.path not in world.worktrees(repository)
        and (not plan.new_branch or plan.branch not in world.branches(repository))
    )
