"""OpenCode's sessions in its SQLite database (1.2 and later), read only.

Opened with mode=ro, never as immutable: all of the newest rows are in the write-ahead log. Each query is a transaction
of its own. Its tables account, control_account, credential and session_share hold secrets: none is ever selected from.
A column of SQLite can hold anything, whatever its type: an odd value is the matter of its own row.
"""

from __future__ import annotations

import os
import time

from agentctl.agents.opencode_turn import Message, Part, Row, StoredMessage, decoded, model_of
from agentctl.stores import moment, read_bytes, text_or_none

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence
    from tempfile import TemporaryDirectory
    from typing import Any

BUSY = 0.2  # seconds to wait for a writer; readers of a write-ahead log hardly ever do
HEADER = 100  # bytes, of every database
MAGIC = b"SQLite format 3\0"
PAGE_SIZE = slice(16, 18)  # of these, where it stands
PAGE_SIZES = tuple(2**n for n in range(9, 16))
COPY_LIMIT = 256 * 1024 * 1024
PARTS = 400  # of one message
RECENT_MESSAGES = 64
LARGEST = 1e15  # of all that can be counted here
PATIENCE = 1.0  # seconds for one query
STEPS = 20_000  # of SQLite's machine, between two looks at the clock
MOST_ROWS = 100_000
LONGEST = 64 * 1024 * 1024  # bytes of one value
OUT_OF_REACH = (5, 6, 8, 14)  # SQLITE_BUSY, SQLITE_LOCKED, SQLITE_READONLY, SQLITE_CANTOPEN
LAST_ID = "\U0010ffff"
SESSION = ("id", "parent_id", "directory", "title", "version", "model", "time_created", "time_updated")
# Of a large value only what is never looked at is left out: whole files before and after, outputs, attachments.
LARGE = 64 * 1024
SMALLER = f"case when length(data) < {LARGE} then data when json_valid(data) then json_remove(data, {{}}) end"
MESSAGE = SMALLER.format("'$.summary.diffs', '$.system'")
PART = SMALLER.format("'$.state.output', '$.state.attachments', '$.state.metadata.diff', '$.url'")


class Unreadable(OSError):
    """The database is there and cannot be read: a problem, never an absence of sessions."""


class Database:
    def __init__(self, path: str) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None
        self._columns: frozenset[str] = frozenset()
        self._copy: TemporaryDirectory[str] | None = None
        self._limit = Limit()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._copy is not None:
            self._copy.cleanup()
            self._copy = None

    # Sessions

    def session(self, id: str) -> Row | None:
        found = self._sessions("id = ?", (id,))
        return found[0] if found else None

    def recent(self, since: float) -> list[str]:
        """The sessions that were written since, without sub-agents."""
        rows = self._rows("select id from session where +parent_id is null and time_updated >= ?", (int(since * 1000),))
        return texts(rows)

    def begun_since(self, since: float) -> list[Row]:
        """Sessions, without sub-agents, that were written since. There is no index for that: one pass over all of them.

        A session's own time lags behind its messages for a moment; such a message is among the last ones stored.
        """
        where = "+parent_id is null and time_updated >= ?"
        rows = {row.id: row for row in self._sessions(where, (int(since * 1000),))}
        newest = "select session_id, time_created from message order by rowid desc limit ?"
        for id, stored in self._rows(newest, (RECENT_MESSAGES,)):
            created = moment(stored) or 0.0
            row = rows.get(id) or (self.session(id) if created >= since else None)
            if row is not None and row.parent is None:
                rows[id] = row._replace(updated=max(row.updated or 0.0, created))
        return list(rows.values())

    def of_directory(self, directory: str, limit: int) -> list[Row]:
        """The sessions of a directory that were changed last."""
        return self._sessions(
            "+parent_id is null and directory = ? order by time_updated desc limit ?", (directory, limit)
        )

    def find(self, prefix: str) -> list[str]:
        return texts(self._rows("select id from session where id >= ? and id < ?", (prefix, prefix + LAST_ID)))

    def children(self, id: str) -> list[str]:
        return texts(self._rows("select id from session where parent_id = ? order by id", (id,)))

    def _sessions(self, where: str, values: Sequence[object]) -> list[Row]:
        self._open()
        columns = ", ".join(name if name in self._columns else f"null as {name}" for name in SESSION)
        return [
            Row(
                id,
                self.path,
                text_or_none(parent),
                text_or_none(directory),
                text_or_none(title),
                text_or_none(version),
                model_of(decoded(model)),
                moment(created),
                moment(updated),
            )
            for id, parent, directory, title, version, model, created, updated in self._rows(
                f"select {columns} from session where {where}", values
            )
            if isinstance(id, str)
        ]

    # What is in a session

    def messages(self, row: Row, limit: int) -> list[StoredMessage]:
        """The newest ones, the newest first."""
        return self._messages(row.id, "order by time_created desc, id desc limit ?", limit)

    def first_messages(self, row: Row, limit: int) -> list[StoredMessage]:
        return self._messages(row.id, "order by time_created, id limit ?", limit)

    def _messages(self, id: str, order: str, limit: int) -> list[StoredMessage]:
        rows = self._rows(
            f"select id, time_created, time_updated, {MESSAGE} from message where session_id = ? {order}",
            (id, limit),
        )
        return [StoredMessage(*row) for row in rows]

    def parts(self, message: str) -> list[Part]:
        rows = self._rows(
            f"select time_created, time_updated, {PART} from part where message_id = ? order by id limit ?",
            (message, PARTS),
        )
        return [
            Part(moment(created) or 0.0, moment(written) or 0.0, decoded(data) or {}) for created, written, data in rows
        ]

    # All that models wrote, in the order in which it was stored

    def place(self) -> list[Any]:
        """How many messages there are, and the last one of them: only_grew() tells whether more came, and no less."""
        count = self._rows("select count(*) from message", ())
        last = self._rows("select rowid, id from message order by rowid desc limit 1", ())
        return [count[0][0], *last[0]] if count and last else [0, 0, ""]

    def only_grew(self, place: Sequence[Any]) -> bool:
        count, last, name = place
        rows = self._rows("select id from message where rowid = ?", (last,))
        newer = self._rows("select count(*) from message where rowid > ?", (last,))
        return [name] == texts(rows) and bool(newer) and self.place()[0] - newer[0][0] == count

    def written(self, after: int, names: Sequence[str]) -> Iterator[tuple[str, Message]]:
        """(session, message) of those with tokens that were stored behind a row, and of those with these ids."""
        columns = f"select session_id, id, time_created, time_updated, {MESSAGE} from message"
        queries: list[tuple[str, tuple[object]]] = [
            (f"{columns} where rowid > ? and instr(data, '\"tokens\"')", (after,))
        ]
        queries += [(f"{columns} where id = ?", (name,)) for name in names]
        for query, values in queries:
            for session, name, created, updated, data in self._each(query, values):
                if isinstance(session, str) and isinstance(name, str):
                    yield session, Message(name, moment(created) or 0.0, moment(updated) or 0.0, decoded(data))

    def of_session(self, id: str) -> Iterator[Message]:
        rows = self._each(
            f"select id, time_created, time_updated, {MESSAGE} from message where session_id = ? and "
            "instr(data, '\"tokens\"')",
            (id,),
        )
        for name, created, updated, data in rows:
            if isinstance(name, str):
                yield Message(name, moment(created) or 0.0, moment(updated) or 0.0, decoded(data))

    # The file

    def _rows(self, query: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        connection = self._open()
        if connection is None or not self._columns:
            return []  # it was created this moment, and has no tables yet
        self._limit.until = time.monotonic() + PATIENCE
        try:
            return connection.execute(query, [bound(value) for value in values]).fetchmany(MOST_ROWS)
        except broken() as error:
            raise Unreadable(f"{self.path}: {error or type(error).__name__}") from error

    def _each(self, query: str, values: Sequence[object]) -> Iterator[tuple[Any, ...]]:
        """One by one: there may be more than fit into memory."""
        connection = self._open()
        if connection is None or not self._columns:
            return
        try:
            yield from connection.execute(query, values)
        except sqlite().Error as error:
            raise Unreadable(f"{self.path}: {error}") from error

    def _open(self) -> sqlite3.Connection | None:
        """None: there is nothing in it yet. Then it is not touched: to make it one with a write-ahead log its agent has
        to be alone with it for a moment, and ends with "database is locked" if it is not."""
        if self._connection is None:
            if not is_begun(self.path):
                return None
            try:
                self._connection, self._columns = connect(self.path, "ro")
            except broken() as first:
                if not is_out_of_reach(first):
                    raise Unreadable(f"{self.path}: {first}") from first
                # A write-ahead log needs its index, and this folder cannot be written: read a copy of both elsewhere.
                try:
                    self._copy = copied(self.path)
                    self._connection, self._columns = connect(os.path.join(self._copy.name, "copy.db"), "rw")
                except broken() as error:
                    raise Unreadable(f"{self.path}: {first}, and a copy of it: {error}") from error
            self._connection.set_progress_handler(self._limit.is_over, STEPS)
        return self._connection


class Limit:
    """A view can have rows without an end, and a damaged page a cycle: then the query is ended. On its own: a handler
    that knows its database would keep that open until somebody looks for rubbish."""

    until = 0.0

    def is_over(self) -> bool:
        return time.monotonic() > self.until


def sqlite() -> Any:
    """The module in C. The package around it adds what dates need, which are in none of our queries, and takes half as
    long again to import: 3 % of a list."""
    try:
        import _sqlite3
    except ImportError:
        import sqlite3

        return sqlite3
    return _sqlite3


def broken() -> tuple[type[Exception], ...]:
    """What SQLite raises for a damaged file. Also while it puts its message together from what stands in there."""
    return (sqlite().Error, UnicodeError, MemoryError, OverflowError)


def is_begun(path: str) -> bool:
    """Can a table be in it? Each has a page of its own behind the first one, or is in the log. (What is no database
    can be anything: to be opened, and told.)"""
    header = read_bytes(path, HEADER)
    page = int.from_bytes(header[PAGE_SIZE], "big") if header.startswith(MAGIC) else 0
    if header and (page not in PAGE_SIZES or os.stat(path).st_size > page):
        return True
    try:
        return os.stat(f"{path}-wal").st_size > 0
    except FileNotFoundError:
        return False


def is_out_of_reach(error: Exception) -> bool:
    """Not damaged, but on a disk that cannot be written, or kept by somebody."""
    code = getattr(error, "sqlite_errorcode", OUT_OF_REACH[0])
    return isinstance(error, sqlite().OperationalError) and code & 0xFF in OUT_OF_REACH


def bound(value: object) -> object:
    """A value as SQLite takes it. What is no Unicode (half a character in somebody's JSON, a byte in the name of a
    folder) is in no row of it."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


def connect(path: str, mode: str) -> tuple[sqlite3.Connection, frozenset[str]]:
    """A connection that was tried, and the columns of its table of sessions: they differ by version."""
    module = sqlite()
    name = quoted(path)
    # Several threads of one query use it, one after the other.
    connection: sqlite3.Connection = module.connect(
        f"file:{name}?mode={mode}", uri=True, timeout=BUSY, check_same_thread=False
    )
    connection.text_factory = lambda text: text.decode(errors="replace")
    connection.setlimit(module.SQLITE_LIMIT_LENGTH, LONGEST)
    try:
        connection.execute("pragma cell_size_check = on")
        connection.execute("pragma trusted_schema = off")
        columns = connection.execute("select name from pragma_table_info('session')").fetchall()
    except broken():
        connection.close()
        raise
    return connection, frozenset(name for (name,) in columns)


def copied(path: str) -> TemporaryDirectory[str]:
    """A copy of a database and its write-ahead log, taken while neither changed."""
    from shutil import copyfile
    from tempfile import TemporaryDirectory

    folder = TemporaryDirectory(prefix="agentctl-")
    try:
        for _ in range(3):
            before = stamps(path)
            if sum(size for _, size in before) > COPY_LIMIT:
                raise Unreadable(f"{path}: it can only be read as a copy, and is too large for that")
            copyfile(path, f"{folder.name}/copy.db")
            if len(before) > 1:
                copyfile(f"{path}-wal", f"{folder.name}/copy.db-wal")
            if stamps(path) == before:
                return folder
        raise Unreadable(f"{path}: it can only be read as a copy, and changes all the time")
    except OSError:
        folder.cleanup()
        raise


def stamps(path: str) -> list[tuple[int, int]]:
    files = [path, f"{path}-wal"] if os.path.exists(f"{path}-wal") else [path]
    return [(found.st_mtime_ns, found.st_size) for found in map(os.stat, files)]


def quoted(path: str) -> str:
    """As the path of a URI, byte by byte: a folder may have a name that is no Unicode."""
    plain = b"/-._~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    return "".join(chr(byte) if byte in plain else f"%{byte:02x}" for byte in os.fsencode(path))


def texts(rows: list[tuple[Any, ...]]) -> list[str]:
    return [value for (value,) in rows if isinstance(value, str)]
