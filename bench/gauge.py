"""Runs commands and says what each cost. A small process of its own, because a child begins with its parent's peak of
memory; so nothing of ours is imported here.

One order per line on stdin: {"argv": [...], "times": 1}. One answer per line: CPU of the command and its children, wall
time, peak memory, bytes read. `Gauge` is the caller's side.
"""

from __future__ import annotations

import json
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def run(argv: list[str], times: int) -> dict[str, float]:
    """Of several at once: CPU and bytes of one on average, wall time of all, memory of the largest."""
    null = os.open(os.devnull, os.O_RDWR)
    streams = [(os.POSIX_SPAWN_DUP2, null, fd) for fd in (0, 1, 2)]
    begun = time.perf_counter()
    pids = [os.posix_spawn(argv[0], argv, os.environ, file_actions=streams) for _ in range(times)]
    os.close(null)
    cpu = rss = read = 0.0
    for pid in pids:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        read += bytes_read(pid)
        _, status, usage = os.wait4(pid, 0)
        if os.waitstatus_to_exitcode(status) != 0:
            raise SystemExit(f"{argv}: exit {os.waitstatus_to_exitcode(status)}")
        cpu += usage.ru_utime + usage.ru_stime
        rss = max(rss, usage.ru_maxrss * 1024)
    wall = time.perf_counter() - begun
    return {"cpu": cpu / times, "wall": wall, "rss": rss, "read": read / times}


def bytes_read(pid: int) -> int:
    """Of a process that has ended and was not reaped yet; it was read() that gave them, from any kind of file."""
    with open(f"/proc/{pid}/io") as file:
        return int(file.readline().split()[1])


def main() -> None:
    for line in sys.stdin:
        order = json.loads(line)
        print(json.dumps(run(order["argv"], order["times"])), flush=True)


class Gauge:
    """`with Gauge(env) as gauge: gauge.cost(["agentctl", "list"])`"""

    def __init__(self, env: Mapping[str, str]) -> None:
        import subprocess

        pipe = subprocess.PIPE
        command = [sys.executable, "-I", "-S", __file__]
        self._process = subprocess.Popen(command, env=dict(env), stdin=pipe, stdout=pipe, text=True)

    def __enter__(self) -> Gauge:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)

    def cost(self, argv: list[str], times: int = 1) -> dict[str, float]:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps({"argv": argv, "times": times}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("the gauge has ended: its words are above")
        found: dict[str, float] = json.loads(line)
        return found


if __name__ == "__main__":
    main()
