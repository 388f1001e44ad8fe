"""Runs the cases one after the other, each in its own world, and checks after each what must always be true."""

from __future__ import annotations

import importlib
import pkgutil
import shutil
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import tests.torture
from tests import agents
from tests.torture.handles import Programs, others
from tests.torture.open_rows import OPEN
from tests.torture.registry import CASES
from tests.torture.report import FROM_OUTSIDE, Report, Row
from tests.torture.world import World

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.torture.registry import Case

for module in pkgutil.iter_modules(tests.torture.__path__):
    if module.name.startswith("cases_"):  # importing them registers the cases
        importlib.import_module(f"tests.torture.{module.name}")

AGREE, UNCHANGED, NOBODY_LEFT = ALWAYS = ("list-vs-status", "reading-changes-nothing", "no-process-left")


class Runner:
    def __init__(self, base: Path, *, times: bool = False, rules: bool = True) -> None:
        self.report = Report()
        self.programs = Programs(base / "bin")
        self._base = base
        self._times = times
        self._rules = rules  # also check what must hold after every case?
        self._count = 0
        self.compared = self.differing = 0
        self.files = self.changed = 0
        self.left_behind: set[int] = set()

    def run(self, cases: Sequence[Case]) -> int:
        began = time.monotonic()
        self.report.head()
        for case in cases:
            self.run_case(case)
        if self._rules:
            self.say(
                AGREE,
                f"list, list -a, status and why agree after each of {len(cases)} worlds",
                f"{self.compared} sessions asked one by one, {self.differing} differences",
                self.compared > 0 and self.differing == 0,
            )
            self.say(
                UNCHANGED,
                "asking changes no name, size, time or inode in any store",
                f"{self.files} files, {self.changed} changed",
                self.files > 0 and self.changed == 0,
            )
        self.say(
            NOBODY_LEFT,
            "no process is left of any world",
            f"{len(self.left_behind)} left behind",
            not self.left_behind,
        )
        print("\nopen (not tested yet):")
        for name, what, why in OPEN:
            print(f"  {name:<22} {what} ({why})")
        if left_out := agents.not_covered_line("torture"):
            print(f"\n{left_out}")
        print(f"\n{time.monotonic() - began:.0f} s")
        self.report.summary(len(OPEN))
        return 1 if self.report.failed else 0

    def say(self, rule: str, truth: str, answer: str, ok: bool, details: str = "") -> None:
        self.report.add(Row(rule, rule, truth, answer, FROM_OUTSIDE, ok, details))

    def run_case(self, case: Case) -> None:
        self._count += 1
        world = World(case, self.report, self._base / f"{self._count:02d}", self.programs)
        began = time.monotonic()
        before = len(self.report.rows)
        try:
            case.build(world)
            if self._rules:
                self.hold_to_the_rules(world)
        except Exception:  # noqa: BLE001  whatever goes wrong in one world, the next one still runs
            world.says(f"{case.about}: the world can be built and asked", "it failed", False, traceback.format_exc())
        finally:
            world.end()
        if len(self.report.rows) == before:
            world.says(case.about, "nothing was checked", False)
        for pid in set(others()) - self.left_behind:
            self.left_behind.add(pid)
            world.says("no process is left behind", f"pid {pid}: {words_of(pid)}", False)
        shutil.rmtree(world.folder, ignore_errors=True)
        if self._times:
            print(f"    {time.monotonic() - began:.2f} s: {case.world}")

    def hold_to_the_rules(self, world: World) -> None:
        before = world.stores()
        asked, differing = world.compare()
        changed = sorted(set(before.items()) ^ set(world.stores().items()))
        self.compared += asked
        self.differing += len(differing)
        self.files += len(before)
        self.changed += len(changed)
        if differing:
            self.say(
                AGREE, f"{world.name}: one answer", f"{len(differing)} differences", False, "\n".join(differing)
            )  # fmt: skip
        if changed:
            self.say(
                UNCHANGED, f"{world.name}: nothing changed", f"{len(changed)} changed", False,
                "\n".join(map(str, changed)),
            )  # fmt: skip
        if world.listing.problems and not world.expects_problems:
            world.says("nothing is wrong with any store", str(world.listing.problems), False)
        strangers = set(world.listing.unattached) - world.expects_unattached
        if strangers:
            lines = [world.listing.unattached[pid] for pid in sorted(strangers)]
            world.says("every live agent is explained", f"unattached: {lines}", False)


def words_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return "gone by now"


def select(names: Sequence[str]) -> list[Case]:
    """Return the worlds with these names. The name of a case stands for all its worlds; no name, for all cases."""
    known = {name for case in CASES for name in (case.name, case.world)}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"no such case: {', '.join(unknown)}; --list shows them")
    return [case for case in CASES if not names or case.name in names or case.world in names]
