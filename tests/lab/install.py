"""Installs the agents by npm into a cache outside the repository, one folder per package and version.

Only this step uses the network. A folder is there whole or not at all: it is made beside its place and renamed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests import agents
from tests.lab.errors import LabError
from tests.lab.recipes import RECIPES

if TYPE_CHECKING:
    from collections.abc import Callable

INSTALL_LIMIT = 900.0
ASK_LIMIT = 60.0
MEGABYTE = 1024 * 1024


@dataclass(frozen=True)
class Package:
    agent: str
    package: str
    program: str
    versions: dict[str, int]  # version -> MB on disk

    def folder(self, version: str) -> Path:
        return cache_folder() / f"{self.package.replace('/', '+')}@{version}"

    def executable(self, version: str) -> Path:
        return self.folder(version) / "node_modules" / ".bin" / self.program


def packages() -> dict[str, Package]:
    """Return what is installed for each agent: the pinned versions of its description."""
    return {
        name: Package(name, recipe.PACKAGE, agents.load(name).PROGRAM, recipe.VERSIONS)
        for name, recipe in RECIPES.items()
    }


def cache_folder() -> Path:
    chosen = os.environ.get("AGENTCTL_LAB_CACHE")
    if chosen:
        return Path(chosen).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "agentctl-lab"


def npm() -> str:
    missing = [name for name in ("node", "npm") if shutil.which(name) is None]
    if missing:
        raise LabError(f"the lab needs Node.js with npm to install the agents; not found: {' and '.join(missing)}")
    return str(shutil.which("npm"))


def newest(package: Package) -> str:
    """The newest version by npm's own word, where "latest" is asked for."""
    command = [npm(), "view", package.package, "dist-tags.latest", "--json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ASK_LIMIT)
        version = json.loads(done.stdout or "null")
    except (subprocess.TimeoutExpired, ValueError) as error:
        raise LabError(f"npm does not say which version of {package.package} is the newest: {error}") from error
    if done.returncode or not isinstance(version, str):
        raise LabError(f"npm view {package.package} failed: {last_line(done.stderr)}")
    return version


def install(package: Package, version: str, say: Callable[[str], None]) -> Path:
    """The program of this version, installed now if it was not."""
    program = package.executable(version)
    if program.exists():
        return program
    command = npm()
    size = package.versions.get(version)
    about = f"about {size} MB" if size else "a few hundred MB"
    say(f"installing {package.package}@{version}: {about}, once, into {package.folder(version)}")
    staging = package.folder(version).with_name(f".{package.folder(version).name}.{os.getpid()}")
    staging.mkdir(parents=True)
    try:
        download(command, package, version, staging, say)
        finish(package, staging)
        if not (staging / "node_modules" / ".bin" / package.program).exists():
            raise LabError(f"{package.package}@{version} was installed and has no program {package.program}")
        try:
            staging.rename(package.folder(version))
        except OSError:
            if not program.exists():  # unless another run was faster
                raise
    except OSError as error:
        raise LabError(f"{package.package}@{version} could not be installed: {error}") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return program


def download(command: str, package: Package, version: str, staging: Path, say: Callable[[str], None]) -> None:
    options = "--no-audit --no-fund --no-save --no-package-lock --ignore-scripts --loglevel=error".split()
    argv = [command, "install", "--prefix", str(staging), *options, f"{package.package}@{version}"]
    log = staging / "npm.log"
    with log.open("wb") as output:
        running = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=staging)
        began, told = time.monotonic(), 0.0
        try:
            while running.poll() is None:
                spent = time.monotonic() - began
                if spent > INSTALL_LIMIT:
                    raise LabError(f"npm install {package.package}@{version} did not end in {INSTALL_LIMIT:g} s")
                if spent - told >= 3:
                    told = spent
                    say(f"  {package.package}@{version}: {megabytes(staging)} MB after {spent:.0f} s")
                time.sleep(0.1)
        finally:
            if running.poll() is None:
                running.kill()
                running.wait()
    if running.returncode:
        raise LabError(f"npm install {package.package}@{version} failed: {last_line(log.read_text(errors='replace'))}")
    log.unlink()
    say(f"  {package.package}@{version}: {megabytes(staging)} MB in {time.monotonic() - began:.0f} s")


def finish(package: Package, staging: Path) -> None:
    """Run the package's own postinstall, which puts its native binary in place: newer npm versions leave it out."""
    folder = staging / "node_modules" / package.package
    script = json.loads((folder / "package.json").read_text()).get("scripts", {}).get("postinstall")
    if script is None:
        return
    done = subprocess.run(
        ["/bin/sh", "-c", script],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=ASK_LIMIT,
    )
    if done.returncode:
        raise LabError(f"the postinstall of {package.package} failed: {last_line(done.stderr or done.stdout)}")


def megabytes(folder: Path) -> int:
    seen: dict[tuple[int, int], int] = {}
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                found = os.lstat(os.path.join(place, name))
            except FileNotFoundError:
                continue  # npm moves things while we look
            seen[found.st_dev, found.st_ino] = found.st_blocks * 512
    return sum(seen.values()) // MEGABYTE


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip() and "A complete log" not in line]
    return next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "it said nothing")
