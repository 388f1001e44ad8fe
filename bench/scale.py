"""What the commands cost as sessions pile up: CPU as a ratio to `python -I -c pass` of the same run, interleaved, the
minimum of all rounds; bytes read and peak memory beside it.

`make bench` runs all sizes and writes docs/performance.md; `make bench N=1000` prints one size; `make bench QUICK=1`
is for every day. Judges nothing: targets are printed beside the figures.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from bench import profiles
from bench.gauge import Gauge
from bench.home import LAUNCHES, Home
from tests import agents

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROUNDS = 15
SIZES = (100, 1000, 10_000)
LIVE, PROCESSES = 20, 300
CROWD = (100, 3000)  # live, processes
CROWD_TARGET = 15
CALLERS = 20
QUICK = (1000, 5)  # stored sessions, rounds
AGENTCTL = os.path.join(os.path.dirname(sys.executable), "agentctl")
BARE_NAME = "python -I -c pass"
BARE = [sys.executable, "-I", "-c", "pass"]
IMPORTS = [
    sys.executable, "-I", "-c",
    "from agentctl.agents import load_all; from agentctl.agents.opencode import db, log; "
    "from agentctl.cli import list; load_all(); "
    "import agentctl.query.attribution, agentctl.launches.retention, agentctl.kernel.linux, agentctl.fast.sqlite",
]  # fmt: skip


class Case(NamedTuple):
    name: str
    argv: list[str]
    target: float | None = None  # of CPU against bare python
    memory: float | None = 60e6
    times: int = 1
    cold: bool = False  # without the cache


class Profile(NamedTuple):
    imports: list[tuple[str, float]]
    calls: list[tuple[str, int]]
    listing: list[profiles.Row]
    everything: list[profiles.Row]


class Size(NamedTuple):
    """What was measured of one home."""

    stored: int
    live: int
    processes: int
    bytes: int
    load: float
    rows: dict[str, dict[str, float]]  # name of the case -> figures


def cases(id: str, stored: int) -> list[Case]:
    large = stored >= SIZES[-1]
    everything = [AGENTCTL, "list", "-a", "--since", "all"]
    return [
        Case(BARE_NAME, BARE, None, None),
        Case("imports of list", IMPORTS, None, None),
        Case("--version", [AGENTCTL, "--version"], 2),
        Case("--help", [AGENTCTL, "--help"], 5),
        Case("list", [AGENTCTL, "list"], 6),
        Case("list --json, 20 at once", [AGENTCTL, "list", "--json"], times=CALLERS),
        Case("status ID", [AGENTCTL, "status", id], 8 if large else None),
        Case("why ID", [AGENTCTL, "why", id], 8 if large else None),
        Case("peek ID", [AGENTCTL, "peek", id], 8 if large else None),
        Case("list -a, no cache", [AGENTCTL, "list", "-a"], 25 if large else None, cold=True),
        Case("list -a", [AGENTCTL, "list", "-a"], 25 if large else None),
        Case("list -a --since all, no cache", everything, 120 if large else None, 120e6, cold=True),
        Case("list -a --since all", everything, 60 if large else None, 120e6),
    ]


def check(home: Home, command: Sequence[str] = (AGENTCTL,), env: Mapping[str, str] | None = None) -> None:
    """Raise SystemExit if `list` gives a wrong answer: then its cost means nothing."""
    found = subprocess.run([*command, "list", "--json"], env=env or home.env, capture_output=True, check=True)
    answer = json.loads(found.stdout)
    ids = [session["id"] for session in answer["sessions"] if session["process"] == "alive"]
    if sorted(ids) != sorted(home.alive) or answer["problems"] or answer["unattached"]:
        wrong = set(ids) ^ set(home.alive)
        raise SystemExit(f"not as it should be: {wrong}, {answer['problems']}, {answer['unattached']}")


def measure(home: Home, chosen: list[Case], rounds: int) -> dict[str, dict[str, float]]:
    best: dict[str, dict[str, float]] = {}
    with Gauge(home.env) as gauge:
        for _ in range(rounds):
            for case in chosen:
                if case.cold:
                    shutil.rmtree(home.cache, ignore_errors=True)
                found = gauge.cost(case.argv, case.times)
                before = best.get(case.name, found)
                best[case.name] = {
                    name: (max if name == "rss" else min)(value, before[name]) for name, value in found.items()
                }
    return best


def measured(stored: int, live: int, processes: int, rounds: int, *, only: str | None = None) -> Size:
    with Home(stored, live, processes) as home:
        check(home)
        every = cases(home.source.typical, stored)
        chosen = [case for case in every if only is None or case.name in (only, BARE_NAME)]
        rows = measure(home, chosen, rounds)
        return Size(stored, live, processes, home.source.bytes, os.getloadavg()[0], rows)


def show(size: Size) -> None:
    print(
        f"\n{size.stored} stored ({size.bytes / 1e6:.0f} MB), {size.live} live, {size.processes} other processes; "
        f"load {size.load:.1f}"
    )
    print(f"{'command':<30} {'ratio':>6} {'at most':>8} {'cpu ms':>8} {'wall ms':>8} {'peak MB':>8} {'read MB':>8}")
    bare = size.rows[BARE_NAME]["cpu"]
    for case in cases("", size.stored):
        if (row := size.rows.get(case.name)) is not None:
            most = case.target if size.live == LIVE else CROWD_TARGET
            target = f"{most:g}" if most and case.name != BARE_NAME else ""
            print(
                f"{case.name:<30} {row['cpu'] / bare:>6.2f} {target:>8} {row['cpu'] * 1000:>8.1f} "
                f"{row['wall'] * 1000:>8.1f} {row['rss'] / 1e6:>8.1f} {row['read'] / 1e6:>8.2f}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("-n", type=int, help="only this many stored sessions")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--crowd", action="store_true", help="only list, with 100 live sessions among 3000 processes")
    parser.add_argument("--quick", action="store_true", help="only 1000 stored sessions, in a few rounds")
    args = parser.parse_args()
    began = time.monotonic()
    if args.quick or args.n:
        show(measured(args.n or QUICK[0], LIVE, PROCESSES, QUICK[1] if args.quick else args.rounds))
    elif args.crowd:
        show(measured(SIZES[-1], *CROWD, args.rounds, only="list"))
    else:
        everything(args.rounds)
    if left_out := agents.not_covered_line("bench"):
        print(f"\n{left_out}")
    print(f"\n{time.monotonic() - began:.0f} s")


def everything(rounds: int) -> None:
    from bench import report

    sizes = []
    for stored in SIZES:
        sizes.append(measured(stored, LIVE, PROCESSES, rounds))
        show(sizes[-1])
    crowd = measured(SIZES[-1], *CROWD, rounds, only="list")
    show(crowd)
    with Home(SIZES[-1], LIVE, PROCESSES) as home:
        since_all = ["list", "-a", "--since", "all"]
        subprocess.run([AGENTCTL, *since_all], env=home.env, stdout=subprocess.DEVNULL, check=True)
        profile = Profile(
            profiles.imports(home.env, ["list"], 14),
            profiles.system_calls(home.env, ["list"], 8),
            profiles.functions(home.env, ["list"], 22),
            profiles.functions(home.env, since_all, 22),
        )
    report.write(sizes, crowd, profile, LAUNCHES, rounds)
    print(f"\nwritten: {report.TEXT} and {report.PICTURE}")


if __name__ == "__main__":
    main()
