"""python -m tests.fuzz [--n N] [--seed S] [--only TARGET] [--replay CASE]: exit code 1 if any case failed."""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from tests import agents
from tests.fuzz import campaign, memory
from tests.fuzz.agent import Result
from tests.fuzz.asking import Asked
from tests.fuzz.targets import TARGETS

PATIENCE = 90.0  # seconds for one case, whatever else this machine does: then it hangs
WORKERS = 2
SHOWN = 5  # failures of a target that are shown whole
BUILD = Path(__file__).parents[2] / "build"


class Tally:
    def __init__(self) -> None:
        self.cases: Counter[str] = Counter()
        self.problems: Counter[str] = Counter()
        self.crashes: Counter[str] = Counter()
        self.kinds: dict[str, list[str]] = {}  # the last line of a failure -> the cases

    def add(self, case: str, problems: int, failures: list[str]) -> None:
        target = campaign.Case.parse(case).target
        self.cases[target] += 1
        self.problems[target] += problems > 0
        self.crashes[target] += bool(failures)
        for failure in failures:
            self.kinds.setdefault(kind_of(failure), []).append(case)

    def table(self) -> str:
        width = max(map(len, TARGETS))
        lines = [f"{'target':<{width}}  {'cases':>7}  {'problems':>8}  {'crashes':>7}"]
        for name in TARGETS:
            counts = self.cases[name], self.problems[name], self.crashes[name]
            lines.append(f"{name:<{width}}  {counts[0]:>7}  {counts[1]:>8}  {counts[2]:>7}")
        totals = self.cases.total(), self.problems.total(), self.crashes.total()
        lines.append(f"{'all':<{width}}  {totals[0]:>7}  {totals[1]:>8}  {totals[2]:>7}")
        return "\n".join(lines)


def kind_of(failure: str) -> str:
    """Failures that come from one place look alike: the exception, and the line that raised it."""
    lines = [line.strip() for line in failure.strip().splitlines()]
    places = [line for line in lines if line.startswith("File ") and "/src/agentctl/" in line]
    where = places[-1].rpartition("/src/")[2] if places else ""
    return f"{lines[-1][:160]}  {where}"


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--n", type=int, default=2000, help="how many cases")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=list(TARGETS), metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--replay", metavar="CASE", help="one case, as it was printed")
    parser.add_argument("--workers", type=int, default=WORKERS)
    parser.add_argument("--no-memory", action="store_true", help="without the files of 1 GB")
    parser.add_argument("--worker", metavar="I/K:START", help=argparse.SUPPRESS)
    args = parser.parse_args(words)
    if args.worker:
        return work(args)
    if args.replay:
        return replay(args.replay)
    started = time.monotonic()
    tally = Tally()
    threads = [threading.Thread(target=drive, args=(args, index, tally), daemon=True) for index in range(args.workers)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        time.sleep(1.0 if sys.stderr.isatty() else 0.2)
        if sys.stderr.isatty():
            done, crashes = tally.cases.total(), tally.crashes.total()
            print(f"\r{done}/{args.n} cases, {crashes} crashes ", end="", file=sys.stderr, flush=True)
    print(f"\r{tally.table()}")
    if left_out := agents.not_covered_line("fuzz"):
        print(left_out)
    for kind, cases in sorted(tally.kinds.items(), key=lambda item: -len(item[1])):
        print(f"\n{len(cases)} x {kind}\n  {' '.join(cases[:SHOWN])}")
    failed = tally.crashes.total() > 0
    if not args.no_memory and args.only is None:
        failed = not memory.report() or failed
    print(f"\nseed {args.seed}, {args.n} cases, {time.monotonic() - started:.0f} s: {'FAILED' if failed else 'ok'}")
    return 1 if failed else 0


def drive(args: argparse.Namespace, index: int, tally: Tally) -> None:
    """One worker after the other for this share of the cases: one that hangs or dies takes a case with it, not all."""
    start = index
    while start < args.n:
        command = [sys.executable, "-m", "tests.fuzz", "--n", str(args.n), "--seed", str(args.seed)]
        command += ["--only", args.only] if args.only else []
        command += ["--worker", f"{index}/{args.workers}:{start}"]
        with (
            tempfile.TemporaryFile("w+") as said,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True) as child,
        ):
            assert child.stdout is not None
            for line in child.stdout:
                found = json.loads(line)
                tally.add(found["case"], found["problems"], found["failures"])
                start = campaign.Case.parse(found["case"]).number + args.workers
            if child.wait() == 0:
                return
            said.seek(0)
            one = campaign.case(args.seed, start, args.only)
            last = said.read()[-4000:]
            failure = f"{last}\nit hung, or its process died (exit code {child.returncode})"
            tally.add(str(one), 0, [failure])
            campaign.keep(one, Result([], Asked(0, [failure])), BUILD)
            start += args.workers


def work(args: argparse.Namespace) -> int:
    share, _, start = args.worker.partition(":")
    index, _, workers = share.partition("/")
    with home() as folder:
        for number in range(int(start), args.n, int(workers)):
            one = campaign.case(args.seed, number, args.only)
            faulthandler.dump_traceback_later(PATIENCE, exit=True)
            found = campaign.run(one, folder)
            faulthandler.cancel_dump_traceback_later()
            if found.asked.failures:
                campaign.keep(one, found, BUILD)
            print(campaign.line_of(one, found), flush=True)
    assert int(index) < int(workers)
    return 0


def replay(name: str) -> int:
    one = campaign.Case.parse(name)
    with home() as folder:
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        found = campaign.run(one, folder)
        faulthandler.cancel_dump_traceback_later()
    print("\n".join([f"case {one}", *found.what, "", *(found.asked.failures or ["nothing is wrong"])]))
    return 1 if found.asked.failures else 0


class home:
    """A folder for the homes, in memory where there is such a file system."""

    def __enter__(self) -> Path:
        place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self._folder = tempfile.TemporaryDirectory(prefix="agentctl-fuzz-", dir=place, ignore_cleanup_errors=True)
        return Path(self._folder.name)

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
