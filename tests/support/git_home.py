"""A home with a git repository in which the real command launches demo agents in worktrees."""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.support.launch_home import TIMEOUT, Home

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WHO = {f"GIT_{role}_{what}": f"x@{role}" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


@contextmanager
def git_home_in(folder: Path) -> Iterator[GitHome]:
    """In the end no process is left, and no lock of git's."""
    home = GitHome(folder)
    try:
        yield home
    finally:
        home.end_all()
    assert home.locks() == []


class GitHome(Home):
    """`work` is a repository with one commit."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.env |= {"GIT_CONFIG_NOSYSTEM": "1", **WHO}
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.git("init", "-q", "-b", "main", ".")
        self.commit("file", "one\n")

    def git(self, *words: str, cwd: Path | None = None, **env: str) -> str:
        done = subprocess.run(
            ["git", *words],
            cwd=cwd or self.work,
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=True,
        )
        return done.stdout.strip()

    def commit(self, name: str, content: str, cwd: Path | None = None) -> str:
        path = (cwd or self.work) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        self.git("add", "--", name, cwd=cwd)
        self.git("commit", "-q", "-m", name, cwd=cwd)
        return self.git("rev-parse", "HEAD", cwd=cwd)

    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    def program(self, name: str, script: str) -> None:
        """What is found in PATH before all others."""
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        self.env["PATH"] = f"{self.bin}:{os.environ['PATH']}"

    def slots(self, *words: str, code: int = 0, **more: Any) -> dict[str, dict[str, Any]]:
        """The slots that came of a launch, by name."""
        import json

        done = self.agentctl("launch", "--json", *words, **more)
        assert done.returncode == code, done.stderr
        answer = json.loads(done.stdout)
        assert answer["schema"] == 1
        return {slot["slot"]: {**slot, "group": answer["group"], "said": done.stderr} for slot in answer["slots"]}

    def branches(self) -> list[str]:
        return self.git("for-each-ref", "--format=%(refname:short)", "refs/heads/").split()

    def worktrees(self) -> list[str]:
        """All but the main one, as git lists them."""
        lines = self.git("worktree", "list", "--porcelain").splitlines()
        found = [os.path.realpath(line.removeprefix("worktree ")) for line in lines if line.startswith("worktree ")]
        return found[1:]

    def beside(self, prefix: str = "work-") -> list[str]:
        """What lies beside the repository under names like its own."""
        return sorted(name for name in os.listdir(self.folder) if name.startswith(prefix))

    def locks(self) -> list[str]:
        """Lock files of git, anywhere."""
        return [
            os.path.join(folder, name)
            for folder, _, names in os.walk(self.folder)
            for name in names
            if name.endswith(".lock") and f"{os.sep}state{os.sep}" not in folder
        ]

    def untouched(self) -> bool:
        """Nothing is left of a launch that failed."""
        entries = self.git("rev-parse", "--path-format=absolute", "--git-common-dir") + "/worktrees"
        return not (
            self.beside()
            or self.worktrees()
            or [name for name in self.branches() if name.startswith("try")]
            or (os.path.isdir(entries) and os.listdir(entries))
            or self.locks()
        )
