"""Runs the guards of a mutant on a copy of the sources that has its edit: each of them must fail."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from compileall import compile_dir
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from py_compile import compile as compile_file
from typing import TYPE_CHECKING, NamedTuple

from tests.torture.__main__ import SOURCES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tests.mutants.model import Mutant

REPOSITORY = Path(__file__).parents[2]
PACKAGE = REPOSITORY / "src" / "agentctl"
AT_ONCE = 2
LIMIT, LIMIT_EACH = 120.0, 60.0  # seconds for a run, and for each of its worlds
RED, GREEN, BROKEN, ABSENT = "red", "green", "broken", "not run"
# An edit that only crashes the program removes no defence. Nothing else prints these words.
FALLEN_OVER = re.compile(r"\b(Syntax|Indentation|Name|UnboundLocal|Attribute|Type|Import)Error\b")


class Seen(NamedTuple):
    state: str
    said: str = ""  # the first check that failed


class Tried(NamedTuple):
    mutant: Mutant
    guards: dict[str, Seen]
    seconds: float

    @property
    def caught(self) -> bool:
        return all(one.state == RED for one in self.guards.values())


class Workshop:
    """A folder with compiled copies of the sources. They are compiled because the worlds start hundreds of commands."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.pristine = folder / "pristine"
        shutil.copytree(PACKAGE, self.pristine / "agentctl", ignore=shutil.ignore_patterns("__pycache__"))
        compile_dir(self.pristine, quiet=2)

    def patched(self, mutant: Mutant) -> Path:
        root = self._folder / mutant.name
        shutil.copytree(self.pristine, root)
        for edit in mutant.edits:
            path = root / "agentctl" / edit.file
            text = path.read_text()
            if text.count(edit.old) != 1:
                raise ValueError(f"{mutant.name}: {edit.file} has its text {text.count(edit.old)} times")
            path.write_text(text.replace(edit.old, edit.new))
            compile_file(str(path), doraise=True)
        return root


def is_test(guard: str) -> bool:
    return guard.startswith("tests/")


def world_of(guard: str) -> str:
    """Return the world of a guard. `list-vs-status@zombie/zombie` is a rule, checked after that world."""
    return guard.rpartition("@")[2]


def look(guards: Iterable[str], sources: Path, notes: Path) -> dict[str, Seen]:
    """Run the guards on these sources, and return what each says."""
    guards = list(guards)
    found: dict[str, Seen] = {}
    worlds = [guard for guard in guards if not is_test(guard)]
    if worlds:
        found.update(run_worlds(worlds, sources, notes))
    for guard in filter(is_test, guards):
        found[guard] = run_test(guard, sources)
    return found


def run_worlds(guards: Sequence[str], sources: Path, notes: Path) -> dict[str, Seen]:
    flags = [] if any("@" in guard for guard in guards) else ["--without-rules"]
    names = sorted({world_of(guard) for guard in guards})
    command = [sys.executable, "-m", "tests.torture", *flags, "--rows", str(notes), *names]
    notes.unlink(missing_ok=True)
    said = run(command, {**os.environ, SOURCES: str(sources)}, LIMIT + LIMIT_EACH * len(names))
    if not notes.exists():
        return dict.fromkeys(guards, Seen(ABSENT, said[-300:]))
    rows = json.loads(notes.read_text())
    return {guard: verdict(guard, rows) for guard in guards}


def verdict(guard: str, rows: list[dict[str, str]]) -> Seen:
    rule, at, _ = guard.partition("@")
    mine = [row for row in rows if (row["case"] == rule if at else row["world"] == guard)]
    wrong = [row for row in mine if not row["ok"]]
    if not mine:
        return Seen(ABSENT)
    if not wrong:
        return Seen(GREEN)
    if fallen := next((row for row in wrong if FALLEN_OVER.search(row["answer"] + row["details"])), None):
        return Seen(BROKEN, fallen["answer"] + fallen["details"][-300:])
    return Seen(RED, f"{wrong[0]['truth']}: {wrong[0]['answer']}")


def run_test(guard: str, sources: Path) -> Seen:
    inside = ["env", f"PYTHONPATH={sources}", "PYTHONDONTWRITEBYTECODE=1"]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--tb=short", guard]
    said = run([str(REPOSITORY / "scripts" / "contained"), *inside, *command], dict(os.environ), LIMIT + LIMIT_EACH)
    last = said.strip().rpartition("\n")[2]
    if re.search(r"\b\d+ failed", last) and " error" not in last:
        if fallen := FALLEN_OVER.search(said):
            return Seen(BROKEN, fallen[0])
        return Seen(RED, next((line for line in said.splitlines() if line.startswith("FAILED")), last))
    return Seen(GREEN) if re.search(r"\b\d+ passed", last) else Seen(ABSENT, last)


def run(command: list[str], env: dict[str, str], limit: float) -> str:
    try:
        done = subprocess.run(
            command, cwd=REPOSITORY, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", timeout=limit, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        return f"{error}"
    return done.stdout


def try_all(mutants: Sequence[Mutant], workshop: Workshop, folder: Path, tell: Callable[[Tried], None]) -> list[Tried]:
    def try_one(mutant: Mutant) -> Tried:
        began = time.monotonic()
        root = workshop.patched(mutant)
        try:
            guards = look(mutant.guards, root, folder / f"{mutant.name}.rows")
        finally:
            shutil.rmtree(root)
        return Tried(mutant, guards, time.monotonic() - began)

    found = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for tried in pool.map(try_one, mutants):
            tell(tried)
            found.append(tried)
    return found


def look_without_patch(mutants: Sequence[Mutant], workshop: Workshop, folder: Path) -> dict[str, Seen]:
    """Run all guards of the mutants on the sources as they are, each once. Run a guard that fails there once more by
    itself: on a busy machine a store may not answer in time."""
    guards = sorted({guard for mutant in mutants for guard in mutant.guards})
    shares = [guards[number::AT_ONCE] for number in range(AT_ONCE)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        parts = pool.map(lambda n: look(shares[n], workshop.pristine, folder / f"green{n}.rows"), range(AT_ONCE))
        found = {guard: seen for part in parts for guard, seen in part.items()}
    for guard in [guard for guard, seen in found.items() if seen.state != GREEN]:
        found |= look([guard], workshop.pristine, folder / "again.rows")
    return found
