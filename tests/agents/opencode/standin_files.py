"""What OpenCode writes: its database, the JSON files of its older versions, and the log that its processes share."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import time
from pathlib import Path

from tests.torture.standins import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VERSIONS = {"database": "1.18.33", "older database": "1.2.27", "json": "1.0.185"}
DATABASE = "opencode.db"
LOG = "opencode.log"
SCHEMA = Path(__file__).parents[2] / "fixtures/opencode/tui_no_session/xdg_data/opencode" / DATABASE
PROJECT = "global"
TIMEOUT = 10.0
LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
USAGE = ("input", "output", "reasoning", "cache_read", "cache_write")

_last = [0, 0]  # the millisecond of the last id, and how many it has had


def timed_id(kind: str) -> str:
    """48 bits of time and a counter, then chance. Those of sessions run backwards."""
    now = files.milliseconds()
    _last[:] = [now, _last[1] + 1 if _last[0] == now else 1]
    bits = (now << 12 | _last[1]) & (1 << 48) - 1
    bits = bits ^ (1 << 48) - 1 if kind == "ses" else bits
    return f"{kind}_{bits:012x}" + "".join(random.choices(LETTERS, k=14))


class Session:
    """One session that a process has in its memory."""

    def __init__(self, id: str, directory: str, parent: str | None = None) -> None:
        self.id = id
        self.directory = directory
        self.parent = parent
        self.created = files.milliseconds()
        self.title = f"New session - {files.utc()}"
        self.tokens = dict.fromkeys(USAGE, 0)
        self.cost = 0.0
        self.prompt = ""  # the id of the newest prompt
        self.step: Item | None = None  # the model step that has no end yet
        self.started = False  # the first byte of that step is there
        self.tool: Item | None = None


class Item:
    """A message or a part: rewritten whole at every change."""

    def __init__(self, kind: str, **data: Any) -> None:
        self.id = timed_id(kind)
        self.created = files.milliseconds()
        self.data = data


class Database:
    """Write-ahead logged, each change a transaction of its own, and never put into the file itself."""

    def __init__(self, root: str, version: str, *, exclusive: bool = False) -> None:
        self.version = version
        self._connection = sqlite3.connect(f"{root}/{DATABASE}", timeout=TIMEOUT, isolation_level=None)
        if exclusive:
            self._do("pragma locking_mode = exclusive")
        self._keep_a_log()
        self._do("pragma wal_autocheckpoint = 0")
        self._do("begin immediate")
        if not self._connection.execute("select 1 from sqlite_master where name = 'session'").fetchone():
            self._create()
        self._do("commit")

    def _keep_a_log(self) -> None:
        """Of several that create it at one moment SQLite refuses all but one, without waiting."""
        deadline = time.monotonic() + TIMEOUT
        while True:
            try:
                return self._do("pragma journal_mode = wal")
            except sqlite3.OperationalError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.01)

    def _create(self) -> None:
        with sqlite3.connect(f"file:{SCHEMA}?immutable=1", uri=True) as real:
            for (text,) in real.execute(
                "select sql from sqlite_master where sql is not null and name not like 'sqlite%'"
            ):
                self._do(text)
        real.close()
        columns = "id, worktree, time_created, time_updated, sandboxes"
        self._do(f"insert into project ({columns}) values (?, '/', 0, 0, '[]')", PROJECT)
        if self.version != VERSIONS["database"]:
            for name in (*USAGE, "cost"):
                self._do(f"alter table session drop column {name if name == 'cost' else 'tokens_' + name}")

    def _do(self, query: str, *values: object) -> None:
        self._connection.execute(query, values)

    def session(self, one: Session) -> None:
        row: dict[str, object] = {
            "id": one.id, "project_id": PROJECT, "parent_id": one.parent, "slug": "quiet-falcon",
            "version": self.version, "directory": one.directory, "path": one.directory[1:], "title": one.title,
            "agent": "build", "model": json.dumps(MODEL_OF_SESSION), "time_created": one.created,
            "time_updated": files.milliseconds(),
        }  # fmt: skip
        if self.version == VERSIONS["database"]:
            row |= {f"tokens_{name}": count for name, count in one.tokens.items()} | {"cost": one.cost}
        self._put("session", row)

    def message(self, session: Session, one: Item) -> None:
        self._put("message", {"session_id": session.id, **self._row(one)})

    def part(self, session: Session, message: Item, one: Item) -> None:
        self._put("part", {"message_id": message.id, "session_id": session.id, **self._row(one)})

    def load(self, one: Session) -> None:
        """What is stored of a session that another process has begun."""
        columns = ", ".join(("time_created", "title", "cost", *(f"tokens_{name}" for name in USAGE)))
        query = f"select {columns} from session where id = ?"
        one.created, one.title, one.cost, *spent = self._connection.execute(query, [one.id]).fetchone()
        one.tokens = dict(zip(USAGE, spent, strict=True))

    def write_slowly(self, one: Session, pause: float) -> None:
        """For `pause` seconds it is in the middle of a change: whoever reads has what was there before."""
        self._do("begin immediate")
        try:
            self.session(one)
            self._do("update message set data = '{' where session_id = ?", one.id)
            time.sleep(pause)
        finally:
            self._do("rollback")

    def copy(self, source: str, target: Session) -> None:
        """What a fork takes along: all messages and parts, with ids of their own and the old times."""
        query = "select id, time_created, time_updated, data from {} where {} = ? order by time_created, id"
        for id, created, updated, data in self._connection.execute(query.format("message", "session_id"), [source]):
            message = timed_id("msg")
            row = {"session_id": target.id, "time_created": created, "time_updated": updated, "data": data}
            self._put("message", {"id": message, **row})
            for _, began, written, part in self._connection.execute(query.format("part", "message_id"), [id]):
                row |= {"message_id": message, "time_created": began, "time_updated": written, "data": part}
                self._put("part", {"id": timed_id("prt"), **row})

    def _row(self, one: Item) -> dict[str, object]:
        now = files.milliseconds()
        return {"id": one.id, "time_created": one.created, "time_updated": now, "data": json.dumps(one.data)}

    def _put(self, table: str, row: dict[str, object]) -> None:
        names = ", ".join(row)
        change = ", ".join(f"{name} = excluded.{name}" for name in row if name not in ("id", "time_created"))
        marks = ", ".join("?" * len(row))
        self._do(
            f"insert into {table} ({names}) values ({marks}) on conflict (id) do update set {change}", *row.values()
        )


class Folder:
    """storage/{session,message,part}: a file each."""

    def __init__(self, root: str, version: str) -> None:
        self.path = f"{root}/storage"
        self.version = version

    def session(self, one: Session) -> None:
        times = {"created": one.created, "updated": files.milliseconds()}
        file = {"id": one.id, "version": self.version, "projectID": PROJECT, "directory": one.directory}
        file |= {"parentID": one.parent} if one.parent else {}
        self._put(f"session/{PROJECT}/{one.id}", {**file, "title": one.title, "time": times})

    def message(self, session: Session, one: Item) -> None:
        self._put(f"message/{session.id}/{one.id}", {"id": one.id, "sessionID": session.id, **one.data})

    def part(self, session: Session, message: Item, one: Item) -> None:
        ids = {"id": one.id, "sessionID": session.id, "messageID": message.id}
        self._put(f"part/{message.id}/{one.id}", {**ids, **one.data})

    def copy(self, source: str, target: Session) -> None:
        for name in sorted(os.listdir(f"{self.path}/message/{source}")):
            data = json.loads(Path(f"{self.path}/message/{source}/{name}").read_bytes())
            id = timed_id("msg")
            self._put(f"message/{target.id}/{id}", {**data, "id": id, "sessionID": target.id})

    def _put(self, name: str, value: dict[str, Any]) -> None:
        path = f"{self.path}/{name}.json"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            json.dump(value, file, indent=2)


MODEL = {"providerID": "fake", "modelID": "fake-1"}
MODEL_OF_SESSION = {"id": "fake-1", "providerID": "fake", "variant": "default"}


def older(text: str) -> str:
    """What an older version writes instead: the text at the end, behind what it is about."""
    words, _, rest = text.partition(" ")
    if text.startswith('"creating instance" directory='):
        return f"project directory={text.partition('=')[2]} fromDirectory"
    return f"session.prompt {rest} {words}" if rest.startswith("session.id=") else f"session {rest} {words}"


class Log:
    """Lines are written in batches, late, through an opening of the file that only this process has."""

    def __init__(self, root: str, name: str, openings: int, *, errors_only: bool = False) -> None:
        os.makedirs(f"{root}/log", exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._files = [os.open(f"{root}/log/{name}", flags, 0o600) for _ in range(openings)]
        self._run = os.urandom(4).hex()
        self._errors_only = errors_only
        self._late: list[bytes] | None = None
        self._older = name != LOG
        if self._older:
            run = f"version=1.14.41 args=[] process_role=main run_id={self._run} opencode"
            os.write(self._files[-1], f"INFO  {files.utc()[:19]} +310ms service=default {run}\n".encode())

    def write(self, text: str, level: str = "INFO") -> None:
        if self._errors_only and level != "ERROR":
            return
        if self._late is None:
            os.write(self._files[-1], self.line(text, level))
        else:
            self._late.append(self.line(text, level))

    def line(self, text: str, level: str = "INFO") -> bytes:
        if self._older:
            return f"{level:<5} {files.utc()[:19]} +1ms service={older(text)}\n".encode()
        return f"timestamp={files.utc()} level={level} run={self._run} message={text}\n".encode()

    def write_in_halves(self, text: str, pause: float) -> None:
        data = self.line(text)
        for part in (data[:30], data[30:]):
            os.write(self._files[-1], part)
            time.sleep(pause)

    def hold(self) -> None:
        if self._late is None:
            self._late = []

    def catch_up(self) -> None:
        late, self._late = self._late or [], None
        if late:
            os.write(self._files[-1], b"".join(late))
