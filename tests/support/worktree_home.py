"""A home with a repository, in which demo agents are launched into worktrees of their own."""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.support.git_world import Git
from tests.support.launch_home import Home
from tests.support.launch_world import run_python

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

    from agentctl.model import Launch

LAUNCH = """
import json, os, sys
from agentctl.launch import group, start
from agentctl.workspace import worktree as worktrees
cwd, name, slot, prompt = sys.argv[1:]
found = worktrees.repository_at(cwd, os.environ)
plan = worktrees.plan(found, cwd, f"{name}-{slot}", os.environ, branch=f"try/{name}/{slot}")
request = start.Request("demo", prompt, plan.cwd, dict(os.environ), group=name, slot=slot, worktree=plan)
print(group.launch_one(start.prepare(request, os.environ), os.environ, print).id)
"""


@contextmanager
def worktrees_in(folder: Path) -> Iterator[Worktrees]:
    """In the end no process is left, and no lock of git's."""
    home = Worktrees(folder)
    try:
        yield home
        assert home.git.locks() == []
    finally:
        home.end_all()


class Worktrees(Home):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.git = Git(folder, self.env)
        self.env = self.git.env
        self.repository = self.git.repository()
        self.work = self.repository

    def slot(self, prompt: str, slot: str = "a", group: str = "g") -> str:
        """A demo agent in a worktree of its own: its session id."""
        done = run_python(LAUNCH, str(self.repository), group, slot, prompt, env=self.env)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def ended(self, prompt: str, slot: str = "a", group: str = "g") -> str:
        """The same, once it and its runner are gone."""
        id = self.slot(prompt, slot, group)
        self.wait_until_quiet()
        return id

    def path(self, slot: str = "a", group: str = "g") -> Path:
        return self.repository.parent / f"repo-{group}-{slot}"

    def launch_in(self, slot: str = "a", group: str = "g") -> Launch:
        (found,) = [one for one in self.launches() if (one.group, one.slot) == (group, slot)]
        return found

    def linked(self) -> list[str]:
        return [os.path.basename(path) for path in self.git.worktrees(self.repository)[1:]]

    def clean(self, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
        return self.agentctl("worktree", "clean", *words, **more)

    def trees(self, *words: str) -> dict[str, dict[str, Any]]:
        done = self.agentctl("worktree", "list", "--json", *words)
        assert done.returncode == 0, done.stderr
        return {os.path.basename(one["path"]): one for one in json.loads(done.stdout)["worktrees"]}

    def compare(self, group: str = "g") -> dict[str, dict[str, Any]]:
        done = self.agentctl("compare", group, "--json")
        assert done.returncode == 0, done.stderr
        return {one["slot"]: one for one in json.loads(done.stdout)["slots"]}


linux_only = sys.platform == "linux"
