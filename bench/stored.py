"""Stored sessions as years of work leave them: seeded, of sizes as in life, generated cheaply and kept between runs.

Bodies are cut from one generated conversation, by whole lines, so that a gigabyte takes seconds; the ends of each file
are its own. Kept in build/bench, by what it was made from, for a day: the ages of sessions are part of it.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import time
import uuid
from pathlib import Path
from typing import Any, NamedTuple

from tests.torture.standins.opencode_files import LETTERS, PROJECT
from tests.torture.standins.opencode_files import Database as Schema

VERSION = 4
CACHE = Path(__file__).parent.parent / "build" / "bench"
DAY = 86400
FRESH = 20 * 3600  # an older one has other sessions in the last week
YEARS = 2 * 365 * DAY
LAST_WEEK = 0.05  # of the sessions
MEDIAN, SIGMA, LARGEST = 64 * 1024, 1.55, 60 * 1024 * 1024
SHARES = {"claude": 0.80, "codex": 0.15, "opencode": 0.05}
RESTAMP = 32 * 1024  # bytes: so often Claude Code writes its title and mode again, so that they are near the end
INTERACTIVE = 0.7  # of its sessions: only these get a title
MODELS = ("claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5")
WORDS = "the parser fails when a header is folded over two lines so split it first and keep the offsets of both".split()


class Stored(NamedTuple):
    """A folder with home/ and data/ as they were left, and what is in them."""

    folder: Path
    ids: dict[str, list[str]]  # agent -> its sessions
    bytes: int


def stored(count: int, seed: int = 1) -> Stored:
    """From the cache, or made now."""
    folder = CACHE / f"stored-{VERSION}-{seed}-{count}"
    index = folder / "index.json"
    if not index.exists() or time.time() - index.stat().st_mtime > FRESH:
        shutil.rmtree(folder, ignore_errors=True)
        maker = Maker(folder, random.Random(f"{seed} {count}"))
        maker.make(count)
        index.write_text(json.dumps({"ids": maker.ids, "bytes": maker.bytes}))
        os.sync()
    found = json.loads(index.read_text())
    return Stored(folder, found["ids"], found["bytes"])


def utc(moment: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment)) + f".{int(moment % 1 * 1000):03d}Z"


def compact(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


class Maker:
    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder = folder
        self.random = chance
        self.now = time.time()
        self.ids: dict[str, list[str]] = {agent: [] for agent in SHARES}
        self.bytes = 0
        self.bodies = {"claude": self.body(self.claude_turn), "codex": self.body(self.codex_turn)}

    def make(self, count: int) -> None:
        shares = {agent: round(count * share) for agent, share in SHARES.items()}
        for _ in range(shares["claude"]):
            self.claude()
        for _ in range(shares["codex"]):
            self.codex()
        self.opencode(shares["opencode"])

    # Chance, as in life

    def age(self) -> float:
        return self.random.random() * (7 * DAY if self.random.random() < LAST_WEEK else YEARS) + 300

    def size(self) -> int:
        return min(int(self.random.lognormvariate(0, SIGMA) * MEDIAN), LARGEST)

    def text(self, length: int) -> str:
        words = self.random.choices(WORDS, k=max(1, length // 5))
        return " ".join(words)[:length]

    def output(self) -> str:
        """Of a tool: mostly a screen or two, sometimes a whole file."""
        return self.text(min(int(self.random.lognormvariate(7.2, 1.3)), 200_000)).replace(" so ", "\n")

    def uuid(self) -> str:
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    def timed(self, moment: float) -> str:
        """A UUID that begins with its time."""
        digits = f"{int(moment * 1000):012x}7{self.random.getrandbits(76):019x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-8{digits[17:20]}-{digits[20:]}"

    def project(self) -> str:
        return f"/home/person/work/project-{int(self.random.paretovariate(0.7)) % 60}"

    def body(self, turn: Any) -> list[bytes]:
        """The lines of a long conversation, from which all are cut."""
        lines: list[bytes] = []
        while sum(map(len, lines)) < 8 * 1024 * 1024:
            lines += turn(self.now, "body", "/home/person/work/project-1")
        return lines

    def write(
        self,
        path: Path,
        head: list[bytes],
        agent: str,
        tail: list[bytes],
        written: float,
        stamps: tuple[bytes, ...] = (),
    ) -> None:
        """`stamps`: lines that stand there again after every so many bytes."""
        wanted = self.size()
        body = self.bodies[agent]
        at = self.random.randrange(len(body))
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "wb") as file:
            size = file.write(b"\n".join(head) + b"\n")
            stamped = size
            while size < wanted:
                size += file.write(body[at] + b"\n")
                at = (at + 1) % len(body)
                if stamps and size - stamped >= RESTAMP:
                    size += file.write(b"\n".join(stamps) + b"\n")
                    stamped = size
            size += file.write(b"\n".join(tail) + b"\n")
        self.bytes += size
        os.utime(path, (written, written))

    # Claude Code

    def claude(self) -> None:
        id, cwd, written = self.uuid(), self.project(), self.now - self.age()
        began = written - self.random.random() * DAY / 4
        stamps = [compact({"type": "last-prompt", "lastPrompt": "go on", "leafUuid": self.uuid(), "sessionId": id})]
        if self.random.random() < INTERACTIVE:
            stamps.append(compact({"type": "ai-title", "aiTitle": self.text(40), "sessionId": id}))
        stamps.append(compact({"type": "mode", "mode": "normal", "sessionId": id}))
        head = [compact({"type": "mode", "mode": "normal", "sessionId": id}), *self.claude_turn(began, id, cwd)]
        tail = self.claude_turn(written, id, cwd)
        if self.random.random() < 0.15:
            del tail[-1:]  # killed in mid-turn
        else:
            tail += [*stamps, compact({"type": "cost-state", "totalCostUSD": 0.25, "sessionId": id})]
        folder = self.folder / "home/.claude/projects" / cwd.replace("/", "-")
        self.write(folder / f"{id}.jsonl", head, "claude", tail, written, tuple(stamps))
        self.ids["claude"].append(id)
        if self.random.random() < 0.08:
            for _ in range(self.random.randint(1, 4)):
                sub = folder / id / "subagents" / f"agent-{self.random.getrandbits(64):016x}.jsonl"
                self.write(sub, self.claude_turn(began, id, cwd, sidechain=True), "claude", tail, written)

    def claude_turn(self, at: float, id: str, cwd: str, *, sidechain: bool = False) -> list[bytes]:
        """A prompt, some calls with their results, an answer."""
        lines = []
        parent: str | None = None

        def add(kind: str, **fields: Any) -> None:
            nonlocal parent
            own = self.uuid()
            common = {"uuid": own, "timestamp": utc(at), "userType": "external", "entrypoint": "cli", "cwd": cwd}
            common |= {"sessionId": id, "version": "2.1.325", "gitBranch": "trunk"}
            lines.append(compact({"parentUuid": parent, "isSidechain": sidechain, **fields, "type": kind, **common}))
            parent = own

        def assistant(stop: str, **block: Any) -> None:
            message = {"id": f"msg_{own_id}", "type": "message", "role": "assistant", "model": model}
            usage = {"input_tokens": 11, "cache_creation_input_tokens": 7, "output_tokens": 42}
            add("assistant", message={**message, "content": [block], "stop_reason": stop, "usage": usage})

        model = self.random.choice(MODELS)
        own_id = f"{self.random.getrandbits(64):016x}"
        add("user", message={"role": "user", "content": self.text(self.random.randint(20, 400))}, promptSource="typed")
        for _ in range(min(int(self.random.lognormvariate(2.0, 0.9)), 120)):
            own_id = call = f"{self.random.getrandbits(64):016x}"
            assistant("tool_use", type="text", text=self.text(120))
            given = {"command": self.text(60), "description": "run it"}
            assistant("tool_use", type="tool_use", id=f"toolu_{call}", name="Bash", input=given)
            said = self.output()
            block = {"type": "tool_result", "tool_use_id": f"toolu_{call}", "content": said, "is_error": False}
            result = {"stdout": said, "stderr": "", "interrupted": False}
            add("user", message={"role": "user", "content": [block]}, toolUseResult=result)
        own_id = f"{self.random.getrandbits(64):016x}"
        assistant("end_turn", type="text", text=self.text(600))
        return lines

    # Codex

    def codex(self) -> None:
        written = self.now - self.age()
        began = written - self.random.random() * DAY / 4
        id, cwd = self.timed(began), self.project()
        meta: dict[str, Any] = {
            "id": id,
            "session_id": id,
            "timestamp": utc(began),
            "cwd": cwd,
            "cli_version": "0.166.0",
        }
        meta |= {"source": "exec", "git": {"branch": "trunk"}, "base_instructions": {"text": self.text(12_000)}}
        head = [self.rollout_line(began, "session_meta", **meta), *self.codex_turn(began, id, cwd)]
        tail = self.codex_turn(written, id, cwd)
        if self.random.random() < 0.15:
            del tail[-1:]
        local = time.localtime(began)
        name = f"rollout-{time.strftime('%Y-%m-%dT%H-%M-%S', local)}-{id}.jsonl"
        folder = self.folder / "home/.codex/sessions" / time.strftime("%Y/%m/%d", local)
        self.write(folder / name, head, "codex", tail, written)
        self.ids["codex"].append(id)

    def rollout_line(self, at: float, kind: str, /, **payload: Any) -> bytes:
        return compact({"timestamp": utc(at), "ordinal": 1, "type": kind, "payload": payload})

    def codex_turn(self, at: float, id: str, cwd: str) -> list[bytes]:
        turn = self.timed(at)

        def message(role: str, text: str) -> bytes:
            content = [{"type": "input_text", "text": text}]
            return self.rollout_line(at, "response_item", type="message", role=role, content=content)

        lines = [
            self.rollout_line(at, "event_msg", type="task_started", turn_id=turn),
            message("developer", f"<permissions instructions>{self.text(2000)}"),
            message("user", f"<environment_context><cwd>{cwd}</cwd></environment_context>"),
            self.rollout_line(
                at, "turn_context", turn_id=turn, cwd=cwd, approval_policy="never", model="gpt-5-codex"
            ),
            message("user", self.text(self.random.randint(20, 400))),
        ]  # fmt: skip
        for _ in range(min(int(self.random.lognormvariate(2.0, 0.9)), 120)):
            call = f"call_{self.random.getrandbits(64):016x}"
            given = json.dumps({"cmd": self.text(60)})
            named = {"name": "exec_command", "arguments": given, "call_id": call}
            lines.append(self.rollout_line(at, "response_item", type="function_call", **named))
            usage = {"input_tokens": 1000, "cached_input_tokens": 400, "output_tokens": 50}
            lines.append(self.rollout_line(at, "token_usage_record", thread_id=id, response_id=call, usage=usage))
            output = self.output()
            lines.append(
                self.rollout_line(at, "response_item", type="function_call_output", call_id=call, output=output)
            )
            lines.append(self.rollout_line(at, "event_msg", type="token_count", info={"total_token_usage": usage}))
        lines.append(message("assistant", self.text(600)))
        lines.append(self.rollout_line(at, "event_msg", type="task_complete", turn_id=turn))
        return lines

    # OpenCode

    def opencode(self, count: int) -> None:
        root = self.folder / "data" / "opencode"
        root.mkdir(parents=True)
        Schema(str(root), "1.18.33")
        with sqlite3.connect(root / "opencode.db") as rows:
            for _ in range(count):
                self.opencode_session(rows)
        rows.execute("pragma wal_checkpoint(truncate)")
        rows.close()
        self.bytes += sum(path.stat().st_size for path in root.iterdir())

    def opencode_id(self, kind: str, moment: float) -> str:
        bits = int(moment * 1000) << 12 & (1 << 48) - 1
        bits = bits ^ (1 << 48) - 1 if kind == "ses" else bits
        return f"{kind}_{bits:012x}" + "".join(self.random.choices(LETTERS, k=14))

    def opencode_session(self, rows: sqlite3.Connection) -> None:
        written = self.now - self.age()
        began = written - 3600
        id = self.opencode_id("ses", began)
        model = {"providerID": "fake", "modelID": "fake-1"}
        session = {"id": id, "project_id": PROJECT, "slug": "quiet-falcon", "directory": self.project(), "path": ""}
        session |= {"title": self.text(40), "version": "1.18.33", "model": json.dumps({**model, "id": "fake-1"})}
        insert(rows, "session", session, began, written)
        steps = 2 + min(int(self.random.lognormvariate(2.0, 0.9)), 120)
        for number in range(steps):
            at = began + (written - began) * number / steps
            name = self.opencode_id("msg", at)
            role = "user" if number % 8 == 0 and number + 1 < steps else "assistant"
            times = {"created": int(at * 1000), "completed": int(at * 1000)}
            finish = "stop" if number + 1 == steps else "tool-calls"
            data = {"role": role, "time": times, **model, "finish": finish, "tokens": {"input": 800, "output": 40}}
            insert(rows, "message", {"id": name, "session_id": id, "data": json.dumps(data)}, at, at)
            state = {"status": "completed", "input": {"command": "ls"}, "output": self.output()}
            parts: list[dict[str, Any]] = [{"type": "text", "text": self.text(200)}]
            if role == "assistant":
                parts = [
                    {"type": "step-start"},
                    {"type": "tool", "tool": "bash", "callID": "c", "state": state},
                    *parts,
                ]
            for part in parts:
                row = {"id": self.opencode_id("prt", at), "message_id": name, "session_id": id}
                insert(rows, "part", {**row, "data": json.dumps(part)}, at, at)
        self.ids["opencode"].append(id)


def insert(rows: sqlite3.Connection, table: str, row: dict[str, Any], created: float, updated: float) -> None:
    row = {**row, "time_created": int(created * 1000), "time_updated": int(updated * 1000)}
    marks = ", ".join("?" * len(row))
    rows.execute(f"insert into {table} ({', '.join(row)}) values ({marks})", list(row.values()))
