"""Rebuilds the world of a Codex fixture: proc.json has its process table and locks, api.txt what its daemon said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agentctl.agents.codex import socket
from agentctl.model import Details
from tests.support.worlds import FixtureWorld, Swap, Table


def rebuild(home: Path) -> FixtureWorld:
    root = home / "codex_home"
    env = {"HOME": str(home), "CODEX_HOME": str(root)}
    facts = json.loads((home / "proc.json").read_text())
    table = Table()

    def add(entry: dict[str, Any]) -> None:
        if "gone" in entry:
            return
        pid = entry["pid"]
        details = Details(tuple(entry["argv"]), entry["exe"], entry["cwd"], {**entry["env"], **env}, 0, (pid,))
        table.add(pid, entry["starttime_ticks"], entry["ppid"], entry["comm"], entry["state"], details)
        for child in entry.get("children", ()):
            add(child)

    for entry in facts["processes"]:
        add(entry)
    inodes = {file["name"]: (file["dev"], file["inode"]) for file in facts["lock_files"]}
    locks: dict[tuple[int, int, int], tuple[int, ...]] = {}
    for line in facts["proc_locks"]:
        fields = line.split()
        if fields[1] == "FLOCK":
            major, minor, inode = fields[5].split(":")
            locks[int(major, 16), int(minor, 16), int(inode)] = (int(fields[4]),)

    def identity(path: str) -> tuple[int, int, int] | None:
        if Path(path).is_dir():
            return 0, 0, 0
        if Path(path).name not in inodes:
            return None
        device, inode = inodes[Path(path).name]
        major, minor = device.split(":")
        return int(major, 16), int(minor, 16), inode

    if (home / "api.txt").exists():
        (root / "app-server-control" / "app-server-control.sock").touch()
    daemon, answers = said_by_daemon(home)
    told = {id: socket.Told(status) for id, status in answers.items()}
    swap = Swap(socket, "ask", lambda path, ids, screens: (daemon, told))
    holds = {(pid, where) for where, pids in locks.items() for pid in pids}
    processes = table.processes(
        locks=locks,
        lock_identity=identity,
        holds_lock=lambda process, where, name: (process.pid, where) in holds,
    )
    return FixtureWorld(processes, env, (swap,))


def said_by_daemon(home: Path) -> tuple[int | None, dict[str, dict[str, Any]]]:
    """Return the pid of its daemon and the status of each thread, as the daemon told it; None if there was none."""
    if not (home / "api.txt").exists():
        return None, {}
    listed = json.loads((home / "api.txt").read_text().split("== thread/list", 1)[1].splitlines()[1])
    pid: int = json.loads((home / "codex_home" / "app-server-daemon" / "daemon.pid").read_text())["pid"]
    return pid, {thread["id"]: thread["status"] for thread in listed["result"]["data"]}
