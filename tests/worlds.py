"""Rebuilds the world of a fixture: its files as they are, and the process table that was noted with them."""

from __future__ import annotations

import ast
import json
import re
import shutil
from pathlib import Path
from typing import Any, NamedTuple

from agentctl.model import Details, Process, ProcessKey
from agentctl.processes import Processes

FIXTURES = Path(__file__).parent / "fixtures"
EXPECTED: dict[str, dict[str, dict[str, Any]]] = json.loads((FIXTURES / "expected.json").read_text())["expected"]

# Which daemons live, by expected.json's own words.
LIVING_DAEMONS = {
    "claude-2.1.325/bg_running_mid_tool": 2967,
    "claude-2.1.325/bg_worker_killed9_before_respawn": 2967,
    "claude-2.1.325/bg_worker_respawned": 2967,
    "claude/bg_running_mid_tool": 2855,
    "claude/bg_done_idle": 2855,
    "claude/bg_waiting_permission": 2855,
}
BOOT = "42a28f7f-2162-4eec-9f41-11cd1652155b"
BOOT_TIME = 1794766324.0


class FixtureWorld(NamedTuple):
    processes: Processes
    env: dict[str, str]
    pid_domain: str = ""
    answers: dict[str, dict[str, Any]] | None = None  # what the agent's own daemon answered
    daemon: int | None = None


def states() -> list[tuple[str, str]]:
    return [(agent, state) for agent in EXPECTED for state in EXPECTED[agent] if (FIXTURES / agent / state).is_dir()]


def rebuild(agent: str, state: str, folder: Path) -> FixtureWorld:
    source = FIXTURES / agent / state
    home = folder / "home"
    shutil.copytree(source, home)
    if agent == "opencode":
        return opencode_world(home)
    return codex_world(home) if agent == "codex" else claude_world(home, f"{agent}/{state}")


class Table:
    def __init__(self) -> None:
        self.rows: dict[int, Process] = {}
        self.details: dict[int, Details] = {}

    def add(self, pid: int, start: int, parent: int, comm: str, state: str, details: Details) -> None:
        self.rows[pid] = Process(ProcessKey(BOOT, pid, start), parent, comm, state)
        self.details[pid] = details

    def processes(self, boot_time: float = BOOT_TIME, **options: Any) -> Processes:
        return Processes(
            BOOT,
            self.rows.values(),
            boot_time=boot_time,
            read_details=lambda process: self.details.get(process.pid),
            **options,
        )


LIVE_LINE = re.compile(
    r"pid (\d+) session \S+ ALIVE state=(\S) ppid=(\d+) starttime_ticks=(\d+) .*comm=(\S+) exe=(\S+) cmdline=(\[.*\])"
)
CHILD_LINE = re.compile(r"  child (\d+) comm=(\S+) cmdline=(\[.*\])")


def claude_world(home: Path, name: str) -> FixtureWorld:
    root = home / ".claude"
    env = {"HOME": str(home), "CLAUDE_CONFIG_DIR": str(root)}
    table = Table()
    parent = 1
    for line in (home / "NOTES.md").read_text().splitlines():
        if found := LIVE_LINE.match(line):
            pid, state, ppid, start, comm, exe, argv = found.groups()
            cwd = json.loads((root / "sessions" / f"{pid}.json").read_text())["cwd"]
            details = Details(tuple(ast.literal_eval(argv)), exe, cwd, env, 0, (int(pid),))
            parent = int(pid)
            table.add(parent, int(start), int(ppid), comm, state, details)
        elif found := CHILD_LINE.match(line):
            pid, comm, argv = found.groups()
            start = str(table.rows[parent].key.start + 100)
            details = Details(tuple(ast.literal_eval(argv)), f"/bin/{comm}", None, env, 0, (int(pid),))
            table.add(int(pid), int(start), parent, comm, "S", details)
    if name in LIVING_DAEMONS:
        lock = json.loads((root / "daemon.lock").read_text())
        assert lock["pid"] == LIVING_DAEMONS[name]
        argv = (lock["launchTarget"], "daemon", "run", "--origin", "transient")
        details = Details(argv, lock["launchTarget"], "/", env, 0, (lock["pid"],))
        table.add(lock["pid"], int(lock["procStart"]), 1, "claude.exe", "S", details)
    domains = {json.loads(file.read_text()).get("pidDomain") for file in sorted(root.glob("sessions/*.json"))} - {None}
    return FixtureWorld(table.processes(), env, domains.pop() if domains else "")


def codex_world(home: Path) -> FixtureWorld:
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
        if Path(path).name not in inodes:
            return None
        device, inode = inodes[Path(path).name]
        major, minor = device.split(":")
        return int(major, 16), int(minor, 16), inode

    answers, daemon = None, None
    if (home / "api.txt").exists():
        (root / "app-server-control" / "app-server-control.sock").touch()
        text = (home / "api.txt").read_text()
        listed = json.loads(text.split("== thread/list", 1)[1].splitlines()[1])
        answers = {thread["id"]: thread["status"] for thread in listed["result"]["data"]}
        daemon = json.loads((root / "app-server-daemon" / "daemon.pid").read_text())["pid"]
    return FixtureWorld(table.processes(locks=locks, lock_identity=identity), env, answers=answers, daemon=daemon)


def opencode_world(home: Path) -> FixtureWorld:
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
        read_open_files=lambda process: open_files[process.pid],
        read_positions=lambda process, path: positions[process.pid] if path.endswith("/opencode.log") else [],
    )
    return FixtureWorld(processes, env)
