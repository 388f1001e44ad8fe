"""What launching costs: CPU of the command against bare python, its wall time against the agent's own time to its id,
the memory of a runner, and the time that a stop takes against the agent's own.

`make bench`. Prints figures and the load; judges nothing: targets are printed beside the figures.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 11
AGENTCTL = os.path.join(os.path.dirname(sys.executable), "agentctl")
DEMO = [sys.executable, "-P", "-m", "agentctl.demo_agent"]
BARE = [sys.executable, "-I", "-c", "pass"]
PATIENCE = 30.0


class Bench:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(folder),
            "AGENTCTL_HOME": str(folder / "agentctl"),
            **{f"XDG_{name}_HOME": str(folder / name.lower()) for name in ("DATA", "STATE", "CACHE", "CONFIG")},
        }
        self.count = 0

    def directory(self) -> str:
        self.count += 1
        path = self.folder / f"work{self.count}"
        path.mkdir()
        return str(path)

    def timed(self, command: list[str]) -> tuple[float, float, str]:
        """CPU seconds, wall seconds and stdout of one command, which succeeds."""
        begun = time.perf_counter()
        child = subprocess.Popen(
            command,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert child.stdout is not None
        text = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - begun
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            raise SystemExit(f"{command}: exit {child.returncode}")
        return usage.ru_utime + usage.ru_stime, wall, text.strip()

    def agent_alone(self) -> tuple[float, float]:
        """Seconds from the start of the agent to its id, and from SIGTERM to its end."""
        begun = time.perf_counter()
        child = subprocess.Popen(
            [*DEMO, "-p", "[[sleep:60]]"],
            env=self.env,
            cwd=self.directory(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        assert child.stdout is not None
        if not select.select([child.stdout], [], [], PATIENCE)[0]:
            raise SystemExit("the agent says nothing")
        child.stdout.readline()
        to_id = time.perf_counter() - begun
        time.sleep(0.1)
        begun = time.perf_counter()
        child.send_signal(signal.SIGTERM)
        child.wait(PATIENCE)
        child.stdout.close()
        return to_id, time.perf_counter() - begun

    def runner_memory(self, id: str) -> int:
        """KiB of memory that is the runner's own."""
        launches = self.folder / "agentctl" / "launches"
        for path in launches.glob("*/launch.json"):
            launch = json.loads(path.read_text())
            if launch["session_id"] == id:
                pid = launch["runner"].rsplit(":", 2)[1]
                for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                    if line.startswith("RssAnon:"):
                        return int(line.split()[1])
        raise SystemExit(f"{id}: no runner")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="agentctl-bench-") as folder:
        bench = Bench(Path(folder))
        bare: list[float] = []
        cpu, wall, stop_cpu, stop_wall, alone, alone_stop, memory = ([*bare] for _ in range(7))
        for _ in range(ROUNDS):
            bare.append(bench.timed(BARE)[0])
            to_id, to_end = bench.agent_alone()
            alone.append(to_id)
            alone_stop.append(to_end)
            launch = [AGENTCTL, "launch", "demo", "-p", "[[sleep:60]]", "--cwd", bench.directory()]
            used, took, id = bench.timed(launch)
            cpu.append(used)
            wall.append(took)
            memory.append(bench.runner_memory(id))
            used, took, _ = bench.timed([AGENTCTL, "stop", id])
            stop_cpu.append(used)
            stop_wall.append(took)
    rows = (
        ("launch: CPU against bare python", f"{min(cpu) / min(bare):.1f}", "at most 12"),
        ("launch: ms over the agent to its id", f"{(min(wall) - min(alone)) * 1000:.0f}", f"of {min(wall) * 1000:.0f}"),
        ("runner: memory of its own, KiB (most)", f"{max(memory):.0f}", "at most 6144"),
        ("stop: CPU against bare python", f"{min(stop_cpu) / min(bare):.1f}", ""),
        (
            "stop: ms over the agent to its end",
            f"{(min(stop_wall) - min(alone_stop)) * 1000:.0f}",
            f"of {min(stop_wall) * 1000:.0f}",
        ),
    )
    print(f"launch and stop of the demo agent, least of {ROUNDS} rounds; load {os.getloadavg()[0]:.1f}")
    for name, figure, target in rows:
        print(f"{name:<40} {figure:>6}   {target}")


if __name__ == "__main__":
    main()
