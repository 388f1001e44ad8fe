"""Where the time of a command goes: its imports, its functions, its system calls."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

PROFILED = """\
import contextlib, cProfile, io, json, pstats, sys
from agentctl.fast.threads import Event
from agentctl.kernel import stall_guard

def one_after_the_other(jobs):  # a profiler sees one thread
    for errand, run in jobs:
        stall_guard.guarded(errand, run, Event())

stall_guard.in_parallel = one_after_the_other
from agentctl.cli import run

profile = cProfile.Profile()
with contextlib.redirect_stdout(io.StringIO()):
    profile.runcall(run, sys.argv[1:])
rows = []
for (path, _, name), (_, calls, own, total, _) in pstats.Stats(profile).stats.items():
    rows.append((path, name, calls, own, total))
print(json.dumps(rows))
"""
COMMAND = "import sys; from agentctl.__main__ import main; sys.argv[0] = 'agentctl'; main()"
OURS = "/agentctl/"


class Row(NamedTuple):
    name: str
    calls: int
    own: float  # seconds
    total: float


def functions(env: Mapping[str, str], words: list[str], count: int) -> list[Row]:
    """The functions of ours that take most, with what they call. A profiler makes all of it slower."""
    command = [sys.executable, "-c", PROFILED, *words]
    rows = json.loads(subprocess.run(command, env=dict(env), capture_output=True, check=True).stdout)
    ours = [
        Row(f"{path.partition(OURS)[2]}: {name}", calls, own, total)
        for path, name, calls, own, total in rows
        if OURS in path and not name.startswith("<")
    ]
    return sorted(ours, key=lambda row: -row.total)[:count]


def imports(env: Mapping[str, str], words: list[str], count: int) -> list[tuple[str, float]]:
    """Milliseconds of each module, with what it imports."""
    command = [sys.executable, "-X", "importtime", "-c", COMMAND, *words]
    found = subprocess.run(command, env=dict(env), capture_output=True, text=True, check=True).stderr
    lines = re.findall(r"import time:\s+\d+ \|\s+(\d+) \| (\s*)(\S+)", found)
    times = {name: int(total) / 1000 for total, _, name in lines}
    return sorted(times.items(), key=lambda item: -item[1])[:count]


def system_calls(env: Mapping[str, str], words: list[str], count: int) -> list[tuple[str, int]]:
    """How often the kernel was asked; nothing where there is no strace."""
    if shutil.which("strace") is None:
        return []
    command = ["strace", "-f", "-c", "-S", "calls", sys.executable, "-c", COMMAND, *words]
    found = subprocess.run(command, env=dict(env), capture_output=True, text=True, check=True).stderr
    rows = [line.split() for line in found.splitlines()]
    calls = [(row[-1], int(row[3])) for row in rows if len(row) in (5, 6) and row[3].isdigit() and row[-1] != "total"]
    return calls[:count]
