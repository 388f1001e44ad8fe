"""Stored sessions of OpenCode, for the benchmarks."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any

from bench.stored import DAY, Kind, utc
from tests.agents.opencode.standin_files import LETTERS, LOG, PROJECT
from tests.agents.opencode.standin_files import Database as Schema

if TYPE_CHECKING:
    from pathlib import Path


class Sessions(Kind):
    SHARE = 0.05
    LIVE = 1
    HAS_LINES = False

    def store(self, count: int) -> None:
        root = self.make.folder / "data" / "opencode"
        root.mkdir(parents=True)
        Schema(str(root), "1.18.33")
        with sqlite3.connect(root / "opencode.db") as rows:
            for _ in range(count):
                self.one(rows)
        rows.execute("pragma wal_checkpoint(truncate)")
        rows.close()
        self.log(root / "log")
        self.make.bytes += sum(path.stat().st_size for path in root.iterdir())

    def log(self, folder: Path) -> None:
        """Write what an earlier run has left in the log: whoever stored these sessions did not begin it today."""
        folder.mkdir()
        line = f'timestamp={utc(self.make.now - DAY)} level=INFO run=0badcafe message="creating instance"\n'
        (folder / LOG).write_text(line)

    def new_id(self, kind: str, moment: float) -> str:
        bits = int(moment * 1000) << 12 & (1 << 48) - 1
        bits = bits ^ (1 << 48) - 1 if kind == "ses" else bits
        return f"{kind}_{bits:012x}" + "".join(self.make.random.choices(LETTERS, k=14))

    def one(self, rows: sqlite3.Connection) -> None:
        written = self.make.now - self.make.age()
        began = written - 3600
        id = self.new_id("ses", began)
        model = {"providerID": "fake", "modelID": "fake-1"}
        session = {
            "id": id,
            "project_id": PROJECT,
            "slug": "quiet-falcon",
            "directory": self.make.project(),
            "path": "",
        }
        session |= {"title": self.make.text(40), "version": "1.18.33", "model": json.dumps({**model, "id": "fake-1"})}
        insert(rows, "session", session, began, written)
        steps = 2 + min(int(self.make.random.lognormvariate(2.0, 0.9)), 120)
        for number in range(steps):
            at = began + (written - began) * number / steps
            name = self.new_id("msg", at)
            role = "user" if number % 8 == 0 and number + 1 < steps else "assistant"
            times = {"created": int(at * 1000), "completed": int(at * 1000)}
            finish = "stop" if number + 1 == steps else "tool-calls"
            data = {"role": role, "time": times, **model, "finish": finish, "tokens": {"input": 800, "output": 40}}
            insert(rows, "message", {"id": name, "session_id": id, "data": json.dumps(data)}, at, at)
            state = {"status": "completed", "input": {"command": "ls"}, "output": self.make.output()}
            parts: list[dict[str, Any]] = [{"type": "text", "text": self.make.text(200)}]
            if role == "assistant":
                parts = [
                    {"type": "step-start"},
                    {"type": "tool", "tool": "bash", "callID": "c", "state": state},
                    *parts,
                ]
            for part in parts:
                row = {"id": self.new_id("prt", at), "message_id": name, "session_id": id}
                insert(rows, "part", {**row, "data": json.dumps(part)}, at, at)
        self.make.ids[self.name].append(id)


def insert(rows: sqlite3.Connection, table: str, row: dict[str, Any], created: float, updated: float) -> None:
    row = {**row, "time_created": int(created * 1000), "time_updated": int(updated * 1000)}
    marks = ", ".join("?" * len(row))
    rows.execute(f"insert into {table} ({', '.join(row)}) values ({marks})", list(row.values()))
