"""python -m tests.mutants [--list] [--match] [--write] [--new] [--sample N --seed TEXT] [NAME...]

A mutant is a copy of the sources without one defence. The cases that guard this defence must fail on the copy, and pass
on the sources as they are. --sample runs a few quick mutants, chosen by the seed, and only on the copy.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.mutants import summary
from tests.mutants.match import mismatches
from tests.mutants.runner import GREEN, Tried, Workshop, is_test, look_without_patch, try_all
from tests.mutants.table import MUTANTS
from tests.torture import page

if TYPE_CHECKING:
    from tests.mutants.model import Mutant

# Worlds that take too long for a sample.
SLOW = (
    "stubborn/stubborn",
    "stubborn/suspended",
    "torn/torn_while_polled",
    "nested/nested",
    "nested/nested_daemon",
    "hostile/hostile_claude",
    "gate/gate",
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("--list", action="store_true", help="print the mutants: what each removes, and what guards it")
    parser.add_argument("--match", action="store_true", help="check that each one fits today's sources; runs nothing")
    parser.add_argument("--write", action="store_true", help="write its part of docs/torture.md if the run passes")
    parser.add_argument("--new", action="store_true", help="run only those that the page does not name as caught")
    parser.add_argument("--sample", type=int, metavar="N", help="run only N of them")
    parser.add_argument("--seed", default="", metavar="TEXT", help="choose the sample by this text")
    parser.add_argument("names", nargs="*", metavar="NAME", help="run only these")
    options = parser.parse_args()
    known = {mutant.name: mutant for mutant in MUTANTS}
    if unknown := [name for name in options.names if name not in known]:
        parser.error(f"no such mutant: {', '.join(unknown)}; --list shows them")
    if options.write and options.sample:
        parser.error("--write and --sample: a sample does not run the guards on the sources as they are")
    chosen = [known[name] for name in options.names] or list(MUTANTS)
    if options.new:
        caught = {name for names in runs_on_the_page().values() for name in names}
        chosen = [mutant for mutant in chosen if mutant.name not in caught]
    if options.list:
        return show_list(chosen)
    if options.match:
        return show_match(chosen)
    if options.sample is not None:
        quick = [mutant for mutant in chosen if not any(is_test(guard) or guard in SLOW for guard in mutant.guards)]
        chosen = random.Random(options.seed).sample(quick, min(options.sample, len(quick)))
    return try_them(chosen, green_too=options.sample is None, write=options.write)


def show_list(mutants: list[Mutant]) -> int:
    for mutant in mutants:
        print(mutant.name)
        print(f"    defence:    {mutant.defence}")
        print(f"    without it: {mutant.without}")
        print(f"    guarded by: {', '.join(mutant.guards)}")
    return 0


def show_match(mutants: list[Mutant]) -> int:
    lines = mismatches(mutants)
    print("\n".join([*lines, f"mutants: {len(mutants)}, {len(lines)} mismatches"]))
    return 1 if lines else 0


def try_them(chosen: list[Mutant], *, green_too: bool, write: bool) -> int:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        folder = Path(name)
        workshop = Workshop(folder)
        print(f"{'mutant':<28} {'caught':<8} by")
        tried = try_all(chosen, workshop, folder, show)
        green = look_without_patch(chosen, workshop, folder) if green_too else {}
    wrong = {guard: seen for guard, seen in green.items() if seen.state != GREEN}
    for guard, seen in wrong.items():
        print(f"\na guard fails on the sources as they are: {guard}: {seen.state} {seen.said}")
    caught = sum(one.caught for one in tried)
    print(f"\n{time.monotonic() - began:.0f} s")
    also = f", {len(green) - len(wrong)} of {len(green)} guards pass on the sources as they are" if green_too else ""
    print(f"mutants: {caught} of {len(tried)} caught{also}")
    if caught < len(tried) or wrong:
        return 1
    if write:
        known = [mutant.name for mutant in MUTANTS]
        runs = summary.with_run(runs_on_the_page(), page.now(), [mutant.name for mutant in chosen], known)
        print(page.put("mutants", summary.text_of(runs)))
    return 0


def runs_on_the_page() -> dict[str, list[str]]:
    return summary.read(page.part_of(page.PATH.read_text(), "mutants"))


def show(tried: Tried) -> None:
    word = "yes" if tried.caught else "NO"
    print(f"{tried.mutant.name:<28} {word:<8} {', '.join(tried.guards)} ({tried.seconds:.1f} s)", flush=True)
    for guard, seen in tried.guards.items():
        print(f"    {guard}: {seen.state}: {' '.join(seen.said.split())[:150]}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
