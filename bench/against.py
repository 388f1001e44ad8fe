"""Compares what the commands cost in another revision and in the working tree, both measured in one interleaved run.

`make bench-against REV=main` or `python -m bench.against REV`. Exits 1 if a command of the working tree needs more than
5 % more CPU than that of REV. `--instructions` counts instructions under valgrind instead: no load changes them.
bench/sides.py builds the two versions, bench/verdict.py judges.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bench import sides
from bench.home import Home
from bench.scale import BARE, LIVE, PROCESSES, check
from bench.stored import CACHE
from bench.verdict import COUNTS, TIMES, Cost, Figures, compare, even

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench.sides import Side

    Meter = Callable[[list[str], Mapping[str, str], Path], Cost]

STORED = 1000
LIMIT = 1.05
# A doubtful case is measured again up to AGAIN times, and judged by all its rounds. With two equal versions on a busy
# machine, 20 rounds alone put one of the 13 cases above 1.05 in every third run.
ROUNDS, AGAIN = 20, 3
ROUNDS_OF_INSTRUCTIONS = 2
PATIENCE = 30.0
SETTLED = 3.0  # seconds: agentctl does not cache what was written within the last two
WORK = "[[sleep:60]]"  # of the demo agent, until it is stopped
CALL = re.compile(r"^SYSCALL\[\d+,\d+\]\(\d+\) \w+", re.MULTILINE)  # where one begins; its end says "..." instead
CLOCK = re.compile(r"^SYSCALL\S+ sys_(?:clock_gettime|gettimeofday|time)\b", re.MULTILINE)  # no calls but in valgrind
REFERENCES = re.compile(r"I\s+refs:\s+([\d,]+)")


class Case(NamedTuple):
    name: str
    words: tuple[str, ...] = ()  # of `launch` and `stop`: made for each run
    cold: bool = False  # measured without a cache; otherwise everything is known to it


LAUNCH, STOP = "launch", "stop"


def cases(id: str) -> list[Case]:
    everything = ("list", "-a", "--since", "all")
    return [
        Case("--version", ("--version",)),
        Case("--help", ("--help",)),
        Case("list", ("list",)),
        Case("list --json", ("list", "--json")),
        Case("list -a, no cache", ("list", "-a"), cold=True),
        Case("list -a", ("list", "-a")),
        Case("list -a --since all", everything),
        Case("status ID", ("status", id)),
        Case("why ID", ("why", id)),
        Case("peek ID", ("peek", id)),
        Case("usage", ("usage",)),
        Case(LAUNCH),
        Case(STOP),
    ]


def cpu(argv: list[str], env: Mapping[str, str], output: Path) -> Cost:
    """Run a command and return its CPU time, with that of the children it waited for. `output` gets its stdout."""
    errors, new = Path(f"{output}.errors"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    files = ((0, os.devnull, os.O_RDONLY), (1, str(output), new), (2, str(errors), new))
    actions = [(os.POSIX_SPAWN_OPEN, fd, path, flags, 0o600) for fd, path, flags in files]
    pid = os.posix_spawn(argv[0], argv, env, file_actions=actions)
    _, status, usage = os.wait4(pid, 0)
    if (code := os.waitstatus_to_exitcode(status)) != 0:
        raise SystemExit(f"{argv}: exit {code}\n{errors.read_text(errors='replace')[-2000:]}")
    return Cost(usage.ru_utime + usage.ru_stime)


def instructions(argv: list[str], env: Mapping[str, str], output: Path) -> Cost:
    """Run a command under valgrind and return its instructions and system calls, without those of other programs."""
    with tempfile.TemporaryDirectory(dir=output.parent) as logs:
        valgrind = [shutil.which("valgrind") or "valgrind", "--tool=cachegrind", "--cache-sim=no"]
        valgrind += ["--cachegrind-out-file=/dev/null", "--trace-syscalls=yes", f"--log-file={logs}/%p"]
        cpu([*valgrind, *argv], {**env, "PYTHONHASHSEED": "0"}, output)
        return counted("\n".join(path.read_text(errors="replace") for path in Path(logs).iterdir()))


def counted(log: str) -> Cost:
    """Return what valgrind counted. Raises ValueError if its log does not say."""
    references = [int(number.replace(",", "")) for number in REFERENCES.findall(log)]
    if not references:
        raise ValueError(f"valgrind counted nothing: {log[-2000:]}")
    return Cost(float(sum(references)), len(CALL.findall(log)) - len(CLOCK.findall(log)))


class Bench:
    """Runs the cases of both versions in one home."""

    def __init__(self, home: Home, meter: Meter) -> None:
        self.home, self.meter = home, meter
        self.output = home.folder / "output"
        self.launched = 0

    def cost(self, side: Side, case: Case) -> Cost:
        if case.name in (LAUNCH, STOP):
            return self.launch_and_stop(side, case.name)
        if case.cold:
            side.forget()
        return self.meter([*side.command, *case.words], side.cold if case.cold else side.known, self.output)

    def launch_and_stop(self, side: Side, measured: str) -> Cost:
        """Launch the demo agent of this version, stop it, and remove what both left, so that the next finds the same.

        Returns the cost of the command called `measured`.
        """
        kept = set(side.launches.iterdir())
        self.launched += 1
        cwd = self.home.folder / f"work-{self.launched:06}"
        cwd.mkdir()
        costs = {}
        argv = ["launch", "demo", "-p", WORK, "--cwd", str(cwd)]
        costs[LAUNCH] = self.act(side, argv, measured == LAUNCH)
        id = self.output.read_text().strip()
        if not side.started():
            raise SystemExit(f"{side.name}: the agent does not run, or not from {side.sources}")
        costs[STOP] = self.act(side, ["stop", id], measured == STOP)
        self.wait_for_the_end(side)
        reap()
        shutil.rmtree(cwd)
        for path in (*side.launches.iterdir(), *Path(side.acting["XDG_DATA_HOME"]).rglob(id)):
            if path not in kept:
                remove(path)
        return costs[measured]

    def act(self, side: Side, words: Sequence[str], measured: bool) -> Cost:
        return (self.meter if measured else cpu)([*side.command, *words], side.acting, self.output)

    def wait_for_the_end(self, side: Side) -> None:
        until = time.monotonic() + PATIENCE
        while pids := side.started():
            if time.monotonic() > until:
                raise SystemExit(f"{side.name}: still running after its stop: {sorted(pids)}")
            time.sleep(0.01)

    def measure(self, old: Side, new: Side, chosen: Sequence[Case], rounds: int, figures: dict[str, Figures]) -> None:
        """Add rounds to the figures. Whoever was first in one round is second in the next."""
        for number in range(rounds):
            for case in chosen:
                costs = figures[case.name]
                costs.bare.append(self.meter(BARE, self.home.env, self.output))
                for side in (old, new) if number % 2 == 0 else (new, old):
                    (costs.old if side is old else costs.new).append(self.cost(side, case))


def reap() -> None:
    """Reap the runners and agents that have ended.

    Process 1 inherits them, and in the PID namespace of scripts/contained that is this process. Otherwise each launch
    would leave more rows in the process table, and so make the next one cost more.
    """
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def compared(old: Side, new: Side, options: argparse.Namespace) -> dict[str, Figures]:
    with Home(options.n, LIVE, PROCESSES) as home:
        for side in (old, new):
            side.move_in(home.env)
        chosen = [case for case in cases(home.source.typical) if not options.only or case.name in options.only]
        time.sleep(SETTLED)
        for side in (old, new):
            check(home, side.command, side.known)
            for case in chosen:  # fills the caches
                Bench(home, cpu).cost(side, case)
        bench = Bench(home, instructions if options.instructions else cpu)
        figures = {case.name: Figures([], [], []) for case in chosen}
        bench.measure(old, new, chosen, options.rounds, figures)
        for _ in range(AGAIN):
            if not (names := options.judge.doubtful(figures, options.limit)):
                break
            print(f"not sure yet, so measured again: {', '.join(names)}", flush=True)
            bench.measure(old, new, [case for case in chosen if case.name in names], options.rounds, figures)
        return figures


def show(figures: Mapping[str, Figures], options: argparse.Namespace) -> None:
    unit, scale = ("M", 1e-6) if options.instructions else ("ms", 1e3)
    calls = f"{'calls':>7}" if options.instructions else ""
    print(f"{'command':<22}{'bare ' + unit:>9}{'REV':>8}{'HEAD':>8}{'median':>8}{'minima':>8}{calls}{'rounds':>8}")
    for name, costs in figures.items():
        row = compare(costs)
        calls = f"{row.calls:>7.3f}" if options.instructions else ""
        print(
            f"{name:<22}{row.bare * scale:>9.1f}{row.old:>8.2f}{row.new:>8.2f}{row.median:>8.3f}{row.minima:>8.3f}"
            f"{calls}{row.rounds:>8}"
        )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.against", description=__doc__.partition("\n")[0])
    parser.add_argument("rev", metavar="REV", help="the commit to compare the working tree with")
    parser.add_argument("-n", type=int, default=STORED, help=f"stored sessions of the home ({STORED})")
    parser.add_argument(
        "--rounds", type=int,
        help=f"rounds, made even ({ROUNDS}; with --instructions {ROUNDS_OF_INSTRUCTIONS})",
    )  # fmt: skip
    parser.add_argument("--only", metavar="CASE", action="append", choices=[case.name for case in cases("")])
    parser.add_argument("--limit", type=float, default=LIMIT, help=f"the highest HEAD/REV that passes ({LIMIT})")
    parser.add_argument("--instructions", action="store_true", help="count instructions, which no load changes")
    options = parser.parse_args()
    if options.instructions and shutil.which("valgrind") is None:
        parser.error("--instructions needs valgrind, which is not installed")
    options.rounds = even(max(1, options.rounds or (ROUNDS_OF_INSTRUCTIONS if options.instructions else ROUNDS)))
    options.judge = COUNTS if options.instructions else TIMES
    return options


def main() -> int:
    """Return 0 if no command is slower, 1 if one is, 2 if they could not be measured."""
    options = arguments()
    try:
        return judged(options)
    except SystemExit as error:
        print(error, file=sys.stderr)
        return 2


def judged(options: argparse.Namespace) -> int:
    began = time.monotonic()
    commit = sides.commit_of(options.rev)
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="against-", dir=CACHE) as folder:
        old = sides.committed(commit, Path(folder, "old"))
        new = sides.working_tree(Path(folder, "new"))
        print(f"REV: {old.name}; HEAD: the working tree; {options.n} stored sessions", flush=True)
        figures = compared(old, new, options)
    show(figures, options)
    print(f"\njudged by the {options.judge.statistic} of HEAD/REV")
    print(f"{time.monotonic() - began:.0f} s, load {os.getloadavg()[0]:.1f}, Python {sys.version.split()[0]}")
    if over := options.judge.slower(figures, options.limit):
        print(f"slower than {options.limit:g} times REV: {', '.join(over)}")
        return 1
    print(f"no command is slower than {options.limit:g} times REV")
    return 0


if __name__ == "__main__":
    sys.exit(main())
