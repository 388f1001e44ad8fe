"""Rebuilds the world of an OpenCode fixture: proc.json has its process table, open files and places in the log."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from agentctl.model import Details
from tests.support.worlds import BOOT_TIME, FixtureWorld, Table

if TYPE_CHECKING:
    from pathlib import Path


def rebuild(home: Path) -> FixtureWorld:
    env = {"HOME": str(home), "XDG_DATA_HOME": str(home / "xdg_data")}
    table = Table()
    open_files: dict[int, list[str]] = {}
    positions: dict[int, list[int]] = {}

    def add(entry: dict[str, Any]) -> None:
        pid = entry["pid"]
        details = Details(tuple(entry["argv"]), entry["exe"], entry["cwd"], {**entry["env"], **env}, 0, (pid,))
        table.add(pid, int(entry["starttime"]), int(entry["ppid"]), entry["comm"], entry["state"], details)
        data = f"{entry['env'].get('XDG_DATA_HOME')}/"
        open_files[pid] = [path.replace(data, f"{home}/xdg_data/") for _, path in entry["fds"] if path.startswith(data)]
        positions[pid] = entry.get("log_positions", [])
        for child in entry["children"]:
            add(child)

    facts = home / "proc.json"
    if facts.exists():
        read = json.loads(facts.read_text())
        for entry in read if isinstance(read, list) else [read]:
            add(entry)
    notes = home / "facts.json"
    processes = table.processes(
        json.loads(notes.read_text())["btime"] if notes.exists() else BOOT_TIME,
        open_files=lambda process: open_files[process.pid],
        positions=lambda process, path: positions[process.pid] if path.endswith("/opencode.log") else [],
    )
    return FixtureWorld(processes, env)
