"""What the commands cost: CPU as a ratio to `python -I -c pass`, minimum of 15 interleaved rounds.

`make bench`. Prints the table and the load; judges nothing: targets are printed beside the figures.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

from bench.home import Home

ROUNDS = 15
STORED, LIVE, PROCESSES = 1000, 20, 300
AGENTCTL = os.path.join(os.path.dirname(sys.executable), "agentctl")
COMMANDS: dict[str, tuple[list[str], float | None]] = {
    "python -I -c pass": ([sys.executable, "-I", "-c", "pass"], None),
    "agentctl --version": ([AGENTCTL, "--version"], 2),
    "agentctl --help": ([AGENTCTL, "--help"], 5),
    "agentctl list": ([AGENTCTL, "list"], 6),
    "agentctl list --json": ([AGENTCTL, "list", "--json"], 6),
    "agentctl list -a": ([AGENTCTL, "list", "-a"], None),
}


def cpu(command: list[str], env: dict[str, str]) -> float:
    """User and system seconds of one run."""
    child = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise SystemExit(f"{command}: exit {child.returncode}")
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    with Home(STORED, LIVE, PROCESSES) as home:
        answer = json.loads(subprocess.run([AGENTCTL, "list", "--json"], env=home.env, capture_output=True).stdout)
        if len(answer["sessions"]) != LIVE or answer["problems"]:
            raise SystemExit(f"the home is not as it should be: {len(answer['sessions'])} live, {answer['problems']}")
        best = dict.fromkeys(COMMANDS, float("inf"))
        for _ in range(ROUNDS):
            for name, (command, _) in COMMANDS.items():
                best[name] = min(best[name], cpu(command, home.env))
    bare = best["python -I -c pass"]
    print(f"{LIVE} live, {PROCESSES} other processes, {STORED} stored; load {os.getloadavg()[0]:.1f}")
    print(f"{'command':<22} {'cpu ms':>7} {'ratio':>6} {'at most':>8}")
    for name, (_, target) in COMMANDS.items():
        wanted = f"{target:g}" if target else ""
        print(f"{name:<22} {best[name] * 1000:>7.1f} {best[name] / bare:>6.2f} {wanted:>8}")


if __name__ == "__main__":
    main()
