"""Builds the two versions that bench/against.py compares: each has its own sources, command, caches and launches.

Both versions are copied to paths of equal length and compiled there, so that only their code differs. Both run with the
interpreter of the benchmark and look at the same home.
"""

from __future__ import annotations

import compileall
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

REPOSITORY = Path(__file__).parent.parent
PARTS = ("src", "pyproject.toml")
SCRIPT = """\
import sys
from {module} import {function}
if __name__ == "__main__":
    sys.exit({function}())
"""


class Side:
    """One version in a folder of its own.

    - `command` starts it;
    - `known` is an environment whose cache stays from run to run;
    - `cold` is one whose cache `forget` removes;
    - `acting` is one whose launches are its own, so that launching leaves the launches of the shared home unchanged.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        self.sources = folder / "src"
        self.launches = folder / "agentctl" / "launches"
        self.script = folder / "bin" / "agentctl"
        self.command = [sys.executable, str(self.script)]
        self.known: dict[str, str] = {}
        self.cold: dict[str, str] = {}
        self.acting: dict[str, str] = {}

    def install(self) -> None:
        """Write the command that pyproject.toml of this version names, and compile the modules."""
        scripts = tomllib.loads((self.folder / "pyproject.toml").read_text())["project"]["scripts"]
        module, _, function = scripts["agentctl"].partition(":")
        self.script.parent.mkdir()
        self.script.write_text(SCRIPT.format(module=module, function=function))
        if not compileall.compile_dir(self.sources, quiet=1):
            raise SystemExit(f"{self.name}: its sources do not compile")

    def move_in(self, env: Mapping[str, str]) -> None:
        """Make the environments from that of the home, and copy its kept launches."""
        shutil.copytree(Path(env["AGENTCTL_HOME"]) / "launches", self.launches)
        self.launches.parent.chmod(0o700)
        self.known, self.cold, self.acting = (
            {**env, "PYTHONPATH": str(self.sources), "XDG_CACHE_HOME": str(self.folder / f"cache-{name}")}
            for name in ("known", "cold", "acting")
        )
        self.acting["AGENTCTL_HOME"] = str(self.launches.parent)
        found = subprocess.run(
            [sys.executable, "-P", "-c", "import agentctl; print(agentctl.__file__)"],
            env=self.known, capture_output=True, text=True, check=True,
        )  # fmt: skip
        if not Path(found.stdout.strip()).is_relative_to(self.sources):
            raise SystemExit(f"{self.name}: python imports {found.stdout.strip()} instead of {self.sources}")

    def forget(self) -> None:
        """Remove the cache of `cold`."""
        shutil.rmtree(self.cold["XDG_CACHE_HOME"], ignore_errors=True)

    def started(self) -> set[int]:
        """Return the pids of the runners and agents that this version launched and that still run.

        They inherit PYTHONPATH and AGENTCTL_HOME of `acting`. A process that has ended has no environment.
        """
        marks = {f"{name}={self.acting[name]}".encode() for name in ("PYTHONPATH", "AGENTCTL_HOME")}
        found = set()
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                environ = Path("/proc", name, "environ").read_bytes()
            except OSError:
                continue
            if marks <= set(environ.split(b"\0")):
                found.add(int(name))
        return found


def commit_of(revision: str) -> str:
    """Return the full hash of a revision. Raises SystemExit if there is no such commit."""
    command = ["git", "-C", str(REPOSITORY), "rev-parse", "--verify", "--quiet", "--end-of-options"]
    found = subprocess.run([*command, f"{revision}^{{commit}}"], capture_output=True, text=True, check=False)
    if found.returncode != 0:
        raise SystemExit(f"{revision}: no such commit in this repository")
    return found.stdout.strip()


def committed(commit: str, folder: Path) -> Side:
    """Return the version of a commit. `git archive` registers no worktree, so a killed benchmark leaves none behind."""
    command = ["git", "-C", str(REPOSITORY), "archive", "--format=tar", commit, *PARTS]
    packed = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        tar.extractall(folder, filter="data")
    side = Side(commit[:12], folder)
    side.install()
    return side


def working_tree(folder: Path) -> Side:
    """Return the version of the working tree as it is now, with what is not committed."""
    shutil.copytree(REPOSITORY / PARTS[0], folder / PARTS[0], ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy2(REPOSITORY / PARTS[1], folder)
    side = Side("working tree", folder)
    side.install()
    return side
