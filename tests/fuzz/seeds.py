"""Files that agentctl itself writes, as they really look: to be damaged."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Any

from agentctl.launches.records import MARKER
from agentctl.model import Details
from tests import agents
from tests.support.worlds import BOOT, FIXTURES, FixtureWorld, Table

if TYPE_CHECKING:
    from pathlib import Path

    from tests.agents.base import Description

AT = "2026-11-15T18:36:49.146Z"
LIVE, RUNNER = 500, 490  # the pid of a session that we launched, and of its runner
CONFIG = """\
agent = "{own}"
cwd = "~/work"
retention = "7d"
output_limit = 104857600

[stores]
{own} = ["~/elsewhere", "/nowhere/else"]
{other} = "~/other"

[agents.{own}]
model = "{own}-1"
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


def our_home(home: Path) -> FixtureWorld:
    """Return a home with live sessions of our own agent, and our own files of a launch of each agent."""
    env, table = environment(home), Table()
    own = agents.load(agents.OWN).fuzz()
    assert own is not None and own.live is not None
    session = own.live(home, table, env)
    add(table, RUNNER, 6990, 1, "python3", ("python3", "-I", "-S", "/x/agentctl/runner.py", launch_id(0)), env, "/")
    for number, one in enumerate((agents.load(agents.OWN), *others())):
        id, mine = launch_id(number), session if number == 0 else None
        our_launch(home / "state" / "launches" / id, id, one.NAME, mine, number, one.OUTPUT)
    (home / "state").chmod(0o700)
    our_other_files(home)
    return FixtureWorld(table.processes(env_names=frozenset({MARKER})), env)


def others() -> list[Description]:
    return [one for one in agents.every() if one.NAME != agents.OWN]


def launch_id(number: int) -> str:
    return f"mi0a1b2cabc{'defghijklmnopqrstuvwxyz'[number]}"


def add(
    table: Table, pid: int, start: int, parent: int, comm: str, argv: tuple[str, ...], env: dict[str, str], cwd: str
) -> None:
    table.add(pid, start, parent, comm, "S", Details(argv, f"/usr/bin/{comm}", cwd, env, os.getuid(), (pid,)))


def launch_facts(id: str, agent: str, session: str | None, number: int) -> dict[str, Any]:
    """launch.json, as a runner writes it."""
    pid, start = LIVE + number, 7000 + number
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


def our_objects() -> list[dict[str, Any]]:
    """Return one of each kind of object that we write ourselves."""
    lock = {"directory": "/w", "by": "me", "reason": None, "created_at": AT, "expires_at": AT}
    usage = {"utime": 0.1, "stime": 0.2, "maxrss": 5}
    ended = {"key": "b:1:2", "comm": "x", "exit_code": 0, "at": AT, "rusage": usage, "direct": True}
    ran = {"name": "on-create", "exit_code": 1, "timed_out": False, "last_lines": ["x"], "at": AT}
    return [lock, ended, ran, launch_facts("x", agents.OWN, None, 0)]


def our_launch(folder: Path, id: str, agent: str, session: str | None, number: int, output: str | None) -> None:
    usage = {"utime": 0.2, "stime": 0.1, "maxrss": 9000}
    ended: dict[str, Any] = {"key": f"{BOOT}:{LIVE + number}:{7000 + number}", "comm": agent, "at": AT, "rusage": usage}
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
    own, other = agents.OWN, others()[0]
    put(home / "config" / "agentctl" / "config.toml", CONFIG.format(own=own, other=other.NAME))
    put(home / "cache" / "agentctl" / "roots.json", {own: [str(home / "seen")], other.NAME: ["/nowhere/other"]})
    program = other.PROGRAM
    put(home / "package" / "package.json", {"name": program, "version": "2.1.325"})
    put(home / "package" / "bin" / program, "#!/bin/sh\n")
    (home / "package" / "bin" / program).chmod(0o755)
    (home / "bin").mkdir()
    (home / "bin" / program).symlink_to(f"../package/bin/{program}")
