"""Files that agentctl itself writes, and those of the demo agent and of /proc, as they really look: to be damaged."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Any

from agentctl.launches import MARKER
from agentctl.model import Details
from tests.worlds import BOOT, FIXTURES, FixtureWorld, Table

if TYPE_CHECKING:
    from pathlib import Path

AT = "2026-11-15T18:36:49.146Z"
DEMO_IDS = ("3f2a0000-0000-4000-8000-000000000001", "3f2b0000-0000-4000-8000-000000000002", "4a" * 4 + "-1-4-8-1")
THREAD = "01a1e088-0a83-7532-a8bd-0c9c4bdcef5d"
# (launch id, agent, session, output): one per agent, the ids of the moment above.
LAUNCHES = (
    ("mi0a1b2cabcd", "demo", DEMO_IDS[0], None),
    ("mi0a1b2cabce", "codex", None, "codex-0.166.0.log"),
    ("mi0a1b2cabcf", "opencode", None, "opencode-1.18.33.log"),
    ("mi0a1b2cabcg", "claude-code", None, "claude-code-2.1.325.log"),
)
CONFIG = """\
agent = "demo"
cwd = "~/work"
retention = "7d"
output_limit = 104857600

[stores]
demo = ["~/elsewhere", "/nowhere/else"]
codex = "~/codex"

[agents.demo]
model = "demo-1"
permissions = "default"
unset = ["SECRET"]
"""


def environment(home: Path) -> dict[str, str]:
    return {
        "PATH": str(home / "bin"),
        "HOME": str(home),
        "XDG_DATA_HOME": str(home / "data"),
        "XDG_CACHE_HOME": str(home / "cache"),
        "TMUX_TMPDIR": str(home),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_STATE_HOME": str(home / "xdg_state"),
        "AGENTCTL_HOME": str(home / "state"),
        "COLUMNS": "160",
        "LANG": "C.UTF-8",
    }


def put(path: Path, content: str | bytes | dict[str, Any] | list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if isinstance(content, list):
        content = "".join(json.dumps(line) + "\n" for line in content)
    elif isinstance(content, dict):
        content = json.dumps(content, indent=1) + "\n"
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def demo_events(model: str = "demo-1") -> list[dict[str, Any]]:
    setting = {"cwd": "/work", "version": "1.0", "model": model}
    return [
        {"at": AT, "event": "session", **setting},
        {"at": AT, "event": "prompt", "text": "count the files", **setting},
        {"at": AT, "event": "text", "text": "I will look."},
        {"at": AT, "event": "tool", "command": "ls"},
        {"at": AT, "event": "tool_result", "exit": 0, "output": "a\nb\n"},
        {"at": AT, "event": "usage", "input": 120, "output": 30},
        {"at": AT, "event": "turn_end", "result": "done", "error": None, "reason": None, "refused": ["rm a"]},
        {"at": AT, "event": "prompt", "text": "and remove them", **setting},
        {"at": AT, "event": "ask", "command": "rm a b"},
    ]


def demo_home(home: Path) -> FixtureWorld:
    """Three sessions: one that waits, one that was killed, one that failed; and our own files of four launches."""
    env, table = environment(home), Table()
    sessions = home / "data" / "agentctl-demo" / "sessions"
    for number, (id, status) in enumerate(zip(DEMO_IDS, ("waiting", "busy", None), strict=True)):
        events = demo_events()
        if status is None:
            events[-1:] = [{"at": AT, "event": "turn_end", "result": "failed", "error": "no model"}]
        put(sessions / id / "events.jsonl", events)
        if status is not None:
            who = {"pid": 500 + number, "start_ticks": 7000 + number, "boot_id": BOOT}
            put(sessions / id / "process.json", {**who, "status": status, "waiting_for": "permission to run: rm a b"})
    argv = ("python3", "-m", "agentctl.demo", "--session-id", DEMO_IDS[0], "-p", "-")
    add(table, 500, 7000, 490, "python3", argv, env, "/work")
    add(table, 490, 6990, 1, "python3", ("python3", "-I", "-S", "/x/agentctl/runner.py", LAUNCHES[0][0]), env, "/")
    for number, (id, agent, session, output) in enumerate(LAUNCHES):
        our_launch(home / "state" / "launches" / id, id, agent, session, number, output)
    (home / "state").chmod(0o700)
    our_other_files(home)
    return FixtureWorld(table.processes(env_names=frozenset({MARKER})), env)


def add(
    table: Table, pid: int, start: int, parent: int, comm: str, argv: tuple[str, ...], env: dict[str, str], cwd: str
) -> None:
    table.add(pid, start, parent, comm, "S", Details(argv, f"/usr/bin/{comm}", cwd, env, os.getuid(), (pid,)))


def launch_facts(id: str, agent: str, session: str | None, number: int) -> dict[str, Any]:
    """launch.json, as a runner writes it."""
    pid, start = 500 + number, 7000 + number
    return {
        "id": id,
        "agent": agent,
        "argv": [agent, "-p", "-"],
        "env_names": ["HOME", "PATH"],
        "cwd": "/work",
        "prompt": "count the files",
        "group": "night",
        "spec": None,
        "hooks": {"on-complete": "echo over"},
        "worktree": "/work-x",
        "branch": "x",
        "base": "0" * 40,
        "repository": "/work/.git",
        "slot": "x",
        "session_id": session,
        "headless": True,
        "one_shot": True,
        "time_limit": 60.0,
        "created_at": AT,
        "runner": f"{BOOT}:{pid - 10}:{start - 10}",
        "child": f"{BOOT}:{pid}:{start}",
        "pid_namespace": "pid:[4026531836]",
    }


def our_launch(folder: Path, id: str, agent: str, session: str | None, number: int, output: str | None) -> None:
    usage = {"utime": 0.2, "stime": 0.1, "maxrss": 9000}
    ended: dict[str, Any] = {"key": f"{BOOT}:{500 + number}:{7000 + number}", "comm": agent, "at": AT, "rusage": usage}
    put(folder / "launch.json", launch_facts(id, agent, session, number))
    put(folder / "exits.jsonl", [{**ended, "exit_code": 0, "direct": False}, {**ended, "signal": "SIGKILL"}])
    if number:
        put(folder / "exits.jsonl", [{**ended, "exit_code": 3, "direct": True, "error": None}])
    put(folder / "output.log", (FIXTURES / "outputs" / output).read_bytes() if output else "some words\n")
    ran = {"name": "on-complete", "exit_code": 1, "timed_out": False, "seconds": 0.1, "last_lines": ["over"], "at": AT}
    put(folder / "hooks.jsonl", [ran, {**ran, "exit_code": None, "timed_out": True}])


def our_other_files(home: Path) -> None:
    for directory, until in (("/work", None), (str(home), "2099-01-01T00:00:00.000Z"), ("/old", AT)):
        lock = {"directory": directory, "by": "me@here", "reason": "by hand", "created_at": AT, "expires_at": until}
        put(home / "state" / "locks" / f"{hashlib.sha256(directory.encode()).hexdigest()}.json", lock)
    put(home / "config" / "agentctl" / "config.toml", CONFIG)
    put(home / "cache" / "agentctl" / "roots.json", {"demo": [str(home / "seen")], "codex": ["/nowhere/codex"]})
    put(home / "package" / "package.json", {"name": "claude", "version": "2.1.325"})
    put(home / "package" / "bin" / "claude", "#!/bin/sh\n")
    (home / "package" / "bin" / "claude").chmod(0o755)
    (home / "bin").mkdir()
    (home / "bin" / "claude").symlink_to("../package/bin/claude")
