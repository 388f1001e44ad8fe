"""Rebuilds the world of a Claude Code fixture: NOTES.md has its process table."""

from __future__ import annotations

import ast
import json
import os
import re
from typing import TYPE_CHECKING

from agentctl.agents.claude_code import files
from agentctl.model import Details
from tests.support.worlds import BOOT_TIME, FixtureWorld, Swap, Table

if TYPE_CHECKING:
    from pathlib import Path

# Which daemons live, by expected.json's own words.
LIVING_DAEMONS = {
    "claude-2.1.325/bg_running_mid_tool": 2967,
    "claude-2.1.325/bg_worker_killed9_before_respawn": 2967,
    "claude-2.1.325/bg_worker_respawned": 2967,
    "claude/bg_running_mid_tool": 2855,
    "claude/bg_done_idle": 2855,
    "claude/bg_waiting_permission": 2855,
}
LIVE_LINE = re.compile(
    r"pid (\d+) session \S+ ALIVE state=(\S) ppid=(\d+) starttime_ticks=(\d+) .*comm=(\S+) exe=(\S+) cmdline=(\[.*\])"
)
CHILD_LINE = re.compile(r"  child (\d+) comm=(\S+) cmdline=(\[.*\])(?: starttime_ticks=(\d+))?")
BOOT_LINE = re.compile(r"btime: (\d+)")
WRITTEN_LINE = re.compile(r"mtime (\S+): (\S+)")


def rebuild(home: Path, name: str) -> FixtureWorld:
    root = home / ".claude"
    env = {"HOME": str(home), "CLAUDE_CONFIG_DIR": str(root)}
    table = Table()
    parent, boot_time = 1, BOOT_TIME
    for line in (home / "NOTES.md").read_text().splitlines():
        if found := LIVE_LINE.match(line):
            pid, state, ppid, start, comm, exe, argv = found.groups()
            cwd = json.loads((root / "sessions" / f"{pid}.json").read_text())["cwd"]
            details = Details(tuple(ast.literal_eval(argv)), exe, cwd, env, 0, (int(pid),))
            parent = int(pid)
            table.add(parent, int(start), int(ppid), comm, state, details)
        elif found := CHILD_LINE.match(line):
            pid, comm, argv, ticks = found.groups()
            start = ticks or str(table.rows[parent].key.start + 100)
            details = Details(tuple(ast.literal_eval(argv)), f"/bin/{comm}", None, env, 0, (int(pid),))
            table.add(int(pid), int(start), parent, comm, "S", details)
        elif found := BOOT_LINE.match(line):
            boot_time = float(found[1])
        elif found := WRITTEN_LINE.match(line):
            for path in root.rglob(found[1].rpartition("/")[2]):
                os.utime(path, (float(found[2]), float(found[2])))
    if name in LIVING_DAEMONS:
        lock = json.loads((root / "daemon.lock").read_text())
        assert lock["pid"] == LIVING_DAEMONS[name]
        argv = (lock["launchTarget"], "daemon", "run", "--origin", "transient")
        details = Details(argv, lock["launchTarget"], "/", env, 0, (lock["pid"],))
        table.add(lock["pid"], int(lock["procStart"]), 1, "claude.exe", "S", details)
    domains = {json.loads(file.read_text()).get("pidDomain") for file in sorted(root.glob("sessions/*.json"))} - {None}
    domain = domains.pop() if domains else ""
    return FixtureWorld(table.processes(boot_time), env, (Swap(files, "pid_domain", lambda: domain),))
