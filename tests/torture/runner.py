"""Runs the cases one after the other, each in a world of its own, and holds all of them to what must always be true."""

from __future__ import annotations

import shutil
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from tests.torture import (  # noqa: F401  they register themselves
    cases_alive,
    cases_daemons,
    cases_ends,
    cases_hostile,
    cases_identity,
    cases_launch,
    cases_machine,
    cases_opencode,
    cases_opencode_store,
    cases_opencode_turns,
    cases_stop,
    cases_turns,
    cases_usage,
)
from tests.torture.handles import Programs, others
from tests.torture.open_rows import OPEN
from tests.torture.registry import CASES
from tests.torture.report import Report
from tests.torture.world import World

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.torture.registry import Case

ALWAYS = ("list-vs-status", "reading-changes-nothing", "no-process-left")


class Runner:
    def __init__(self, base: Path, *, times: bool = False) -> None:
        self.report = Report()
        self.programs = Programs(base / "bin")
        self._base = base
        self._times = times
        self._count = 0
        self.compared = self.differing = 0
        self.files = self.changed = 0
        self.left_behind: set[int] = set()

    def run(self, cases: Sequence[Case]) -> int:
        began = time.monotonic()
        self.report.head()
        for case in cases:
            self.run_case(case)
        self.report.add(
            "list-vs-status",
            f"after each of {len(cases)} worlds: list -a, list, status and why agree",
            f"{self.compared} sessions asked one by one, {self.differing} differences",
            self.compared > 0 and self.differing == 0,
        )
        self.report.add(
            "reading-changes-nothing",
            "names, sizes, times and inodes of all stores are the same after asking",
            f"{self.files} files, {self.changed} changed",
            self.files > 0 and self.changed == 0,
        )
        self.report.add(
            "no-process-left",
            "no process of any world is left",
            f"{len(self.left_behind)} left behind",
            not self.left_behind,
        )
        print("\nopen:")
        for name, what, why in OPEN:
            print(f"  {name:<22} {what} ({why})")
        print(f"\n{time.monotonic() - began:.0f} s")
        self.report.summary(len(OPEN))
        return 1 if self.report.failed else 0

    def run_case(self, case: Case) -> None:
        self._count += 1
        world = World(case.name, self.report, self._base / f"{self._count:02d}", self.programs)
        began = time.monotonic()
        before = len(self.report.rows)
        try:
            case.build(world)
            if world.at_rest:
                self.hold_to_the_rules(world)
        except Exception:  # noqa: BLE001  whatever goes wrong in a world, the others are still tried
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
            print(f"    {time.monotonic() - began:.2f} s: {case.about}")

    def hold_to_the_rules(self, world: World) -> None:
        before = world.stores()
        asked, differing = world.compare()
        changed = sorted(set(before.items()) ^ set(world.stores().items()))
        self.compared += asked
        self.differing += len(differing)
        self.files += len(before)
        self.changed += len(changed)
        if differing:
            self.report.add(
                "list-vs-status",
                f"{world.case}: one answer",
                f"{len(differing)} differences",
                False,
                "\n".join(differing),
            )
        if changed:
            self.report.add(
                "reading-changes-nothing", f"{world.case}: nothing changed", f"{len(changed)} changed", False,
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
    known = {case.name for case in CASES}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"no such case: {', '.join(unknown)}; --list shows them")
    return [case for case in CASES if not names or case.name in names]
