"""Builds OpenCode homes for tests: a database with the real schema, filled row by row, and the processes beside it."""

from __future__ import annotations

import json
import shutil
import sqlite3
from typing import TYPE_CHECKING, Any

from agentctl.model import Details
from tests.support.worlds import BOOT_TIME, FIXTURES, FixtureWorld, Table

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = FIXTURES / "opencode" / "tui_no_session" / "xdg_data" / "opencode" / "opencode.db"
STEP_START = {"type": "step-start"}


def at(second: float) -> int:
    """Milliseconds, as it stores them, of a second after the machine was booted."""
    return int((BOOT_TIME + second) * 1000)


def line(second: float, run: str, text: str, level: str = "INFO") -> str:
    from datetime import UTC, datetime

    moment = datetime.fromtimestamp(BOOT_TIME + second, UTC).isoformat(timespec="milliseconds")
    return f"timestamp={moment.replace('+00:00', 'Z')} level={level} run={run} message={text}\n"


def tool(status: str = "running", what: str = "sleep 9", name: str = "bash", **state: Any) -> dict[str, Any]:
    return {
        "type": "tool",
        "tool": name,
        "callID": "call_1",
        "state": {"status": status, "input": {"command": what}, **state},
    }


class Home:
    """One home. Times are in seconds after boot."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data" / "opencode"
        (self.data / "log").mkdir(parents=True)
        self.path = self.data / "opencode.db"
        shutil.copy(SCHEMA, self.path)
        self.log = self.data / "log" / "opencode.log"
        self.log.write_text(line(0, "00", "an earlier run"))  # so it was not emptied since the processes started
        self.env = {"HOME": str(folder), "XDG_DATA_HOME": str(folder / "data")}
        self.env |= {"XDG_CACHE_HOME": str(folder / "cache"), "XDG_CONFIG_HOME": str(folder / "config")}
        self.table = Table()
        self._files: dict[int, list[str]] = {}
        self._positions: dict[int, list[int]] = {}
        self._ports: dict[int, list[int]] = {}
        self._count = 0
        self._do(
            "insert into project (id, worktree, time_created, time_updated, sandboxes) values ('p', '/', 0, 0, '[]')"
        )

    def _do(self, query: str, *values: object) -> None:
        with sqlite3.connect(self.path) as connection:
            connection.execute(query, values)
        connection.close()

    def session(self, id: str, second: float, directory: str = "/work", *, parent: str | None = None) -> str:
        columns = "id, project_id, parent_id, slug, directory, title, version, time_created, time_updated"
        values = (id, "p", parent, id, directory, f"New session - {id}", "1.18.33", at(second), at(second))
        self._do(f"insert into session ({columns}) values (?, ?, ?, ?, ?, ?, ?, ?, ?)", *values)
        return id

    def message(self, session: str, second: float, role: str, *parts: dict[str, Any], **data: Any) -> None:
        self._count += 1
        name, data = f"msg_{self._count:04}", {"role": role, **data}
        self._do("insert into message values (?, ?, ?, ?, ?)", name, session, at(second), at(second), json.dumps(data))
        for index, part in enumerate(parts):
            values = (f"{name}_{index}", name, session, at(second), at(second), json.dumps(part))
            self._do("insert into part values (?, ?, ?, ?, ?, ?)", *values)
        self._do("update session set time_updated = ? where id = ?", at(second), session)

    def prompt(self, session: str, second: float, text: str = "do it") -> None:
        self.message(session, second, "user", {"type": "text", "text": text})

    def step(self, session: str, second: float, *parts: dict[str, Any], end: float | None = None, **data: Any) -> None:
        time = {"created": at(second)} | ({"completed": at(end)} if end else {})
        self.message(session, second, "assistant", STEP_START, *parts, time=time, **data)

    def process(self, pid: int, second: float, *argv: str, cwd: str = "/work", parent: int = 1, **more: Any) -> None:
        env = {**self.env, **more.pop("env", {})}
        details = Details(("opencode", *argv), "/opt/opencode", cwd, env, 0, (pid,))
        self.table.add(pid, int(second * 100), parent, more.get("comm", "opencode"), more.get("state", "S"), details)
        self._files[pid] = [str(self.path), str(self.log)]
        self._ports[pid] = more.get("ports", [])
        self._positions[pid] = []

    def logs(self, pid: int, *lines: str) -> None:
        """What a process appends to the log that all share."""
        with self.log.open("a") as file:
            file.write("".join(lines))
        self._positions[pid] = [0, self.log.stat().st_size]

    def world(self, taken_at: float = float("inf")) -> FixtureWorld:
        """`taken_at`: the second in which the process table was read."""
        processes = self.table.processes(
            taken_at=BOOT_TIME + taken_at,
            open_files=lambda process: self._files.get(process.pid, []),
            positions=lambda process, path: self._positions.get(process.pid, []),
            ports=lambda process: self._ports.get(process.pid, []),
        )
        return FixtureWorld(processes, self.env)
