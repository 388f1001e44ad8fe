"""python -m tests.mutants [--list] [--write] [--sample N --seed TEXT] [NAME...]

Takes each defence out of a copy of the sources, and runs the cases that guard it: they must go red, and be green on the
sources as they are. --sample: some of the quick ones, others for each seed; whether they are green, the suite has said.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.mutants import told
from tests.mutants.runner import GREEN, Tried, Workshop, is_test, look_without_patch, try_all
from tests.mutants.table import MUTANTS

if TYPE_CHECKING:
    from tests.mutants.model import Mutant

# Worlds that take longer than a sample may.
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
    parser.add_argument("--list", action="store_true", help="the names of the mutants")
    parser.add_argument(
        "--write", action="store_true", help="the part of docs/torture.md, from a whole run that passed"
    )
    parser.add_argument("--sample", type=int, metavar="N", help="so many of them only")
    parser.add_argument("--seed", default="", metavar="TEXT", help="which ones: others for each text")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these")
    options = parser.parse_args()
    known = {mutant.name: mutant for mutant in MUTANTS}
    if unknown := [name for name in options.names if name not in known]:
        parser.error(f"no such mutant: {', '.join(unknown)}; --list shows them")
    if options.write and (options.names or options.sample):
        parser.error("--write is for a whole run")
    if options.list:
        for mutant in MUTANTS:
            print(f"{mutant.name:<28} {mutant.defence}; guarded by {', '.join(mutant.guards)}")
        return 0
    chosen = [known[name] for name in options.names] or list(MUTANTS)
    if options.sample is not None:
        quick = [one for one in chosen if not any(is_test(guard) or guard in SLOW for guard in one.guards)]
        chosen = random.Random(options.seed).sample(quick, min(options.sample, len(quick)))
    return try_them(chosen, green_too=options.sample is None, write=options.write)


def try_them(chosen: list[Mutant], *, green_too: bool, write: bool) -> int:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        folder = Path(name)
        workshop = Workshop(folder)
        print(f"{'defence taken out':<28} {'caught':<8} by")
        tried = try_all(chosen, workshop, folder, show)
        green = look_without_patch(chosen, workshop, folder) if green_too else {}
    wrong = {guard: seen for guard, seen in green.items() if seen.state != GREEN}
    for guard, seen in wrong.items():
        print(f"\nnot green on the sources as they are: {guard}: {seen.state} {seen.said}")
    caught = sum(one.caught for one in tried)
    print(f"\n{time.monotonic() - began:.0f} s")
    also = f", {len(green) - len(wrong)} of {len(green)} guards green" if green_too else ""
    print(f"mutants: {caught} of {len(tried)} caught{also}")
    if caught < len(tried) or wrong:
        return 1
    if green_too and len(chosen) == len(MUTANTS):
        print(told.write(MUTANTS, published=write))
    return 0


def show(tried: Tried) -> None:
    word = "yes" if tried.caught else "NO"
    print(f"{tried.mutant.name:<28} {word:<8} {', '.join(tried.guards)} ({tried.seconds:.1f} s)", flush=True)
    for guard, seen in tried.guards.items():
        print(f"    {guard}: {seen.state}: {' '.join(seen.said.split())[:150]}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
