"""OpenCode's sessions in its SQLite database (1.2 and later), read only.

Opened with mode=ro, never as immutable: all of the newest rows are in the write-ahead log. Each query is a transaction
of its own. Its tables account, control_account, credential and session_share hold secrets: none is ever selected from.
A column of SQLite can hold anything, whatever its type: an odd value is the matter of its own row.
"""

from __future__ import annotations

import os
import time
from stat import S_ISREG

from agentctl.agents.opencode.screen import places_of
from agentctl.agents.opencode.turn import Message, Part, Row, StoredMessage, decoded, model_of
from agentctl.files.bounded import moment, read_bytes, text_or_none

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator, Sequence
    from tempfile import TemporaryDirectory
    from typing import Any

BUSY = 0.2  # seconds to wait for a writer; readers of a write-ahead log hardly ever do
HEADER = 100  # bytes, of every database
MAGIC = b"SQLite format 3\0"
LOG_MAGIC = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
LOGS = ("-wal", "-journal")  # what belongs to a database: a copy without them is another database
PAGE_SIZE, CHANGES, PAGES, VALID_FOR = slice(16, 18), slice(24, 28), slice(28, 32), slice(92, 96)  # of the header
PAGE_SIZES = tuple(2**n for n in range(9, 16))
COPY_LIMIT = 256 * 1024 * 1024
PARTS = 400  # of one message
RECENT_MESSAGES = 64
LARGEST = 1e15  # no count here is larger
PATIENCE = 1.0  # seconds for one query
STEPS = 20_000  # of SQLite's virtual machine, between two looks at the clock
MOST_ROWS = 100_000
TOO_MANY = f"only the first {MOST_ROWS} rows were read of an answer that has more"
LONGEST = 64 * 1024 * 1024  # bytes of one value
BEGINNING = 60.0  # seconds after its start in which a process may be about to fill a new database
EMPTY = "it is empty, and no process is about to fill it: it is damaged, or its agent ended as it made it"
OUT_OF_REACH = (5, 6, 8, 14)  # SQLITE_BUSY, SQLITE_LOCKED, SQLITE_READONLY, SQLITE_CANTOPEN
FIRST_TABLES = ("__drizzle_migrations", "migration", "sqlite_sequence")  # made before all others
LAST_ID = "\U0010ffff"
SESSION = ("id", "parent_id", "directory", "title", "version", "model", "time_created", "time_updated")
# Of a large value only what is never looked at is left out: whole files before and after, outputs, attachments.
LARGE = 64 * 1024
SMALLER = f"case when length(data) < {LARGE} then data when json_valid(data) then json_remove(data, {{}}) end"
MESSAGE = SMALLER.format("'$.summary.diffs', '$.system'")
# It has tokens, or may have had some: what cannot be decoded does not say.
MAY_COUNT = "(instr(data, '\"tokens\"') or json_valid(data) is not 1)"
PART = SMALLER.format("'$.state.output', '$.state.attachments', '$.state.metadata.diff', '$.url'")
NEWER_TABLES = ("session_message", "session_input")
NOT_READ = "session_id not in (select session_id from message where session_id is not null)"


class Unreadable(OSError):
    """The database is there and cannot be read: a problem, never an absence of sessions."""


class Database:
    def __init__(self, path: str, tell: Callable[[str], None] | None = None) -> None:
        """`tell` is told if not all rows of an answer were read. Without it, that raises Unreadable."""
        self.path = path
        self._tell = tell
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
        rows = self._sessions("id = ?", (id,))
        return rows[0] if rows else None

    def recent(self, since: float) -> list[str]:
        """Return the ids of the sessions, without sub-agents, that were written since."""
        rows = self._rows("select id from session where +parent_id is null and time_updated >= ?", (int(since * 1000),))
        return texts(rows)

    def begun_since(self, since: float) -> list[Row]:
        """Return the sessions, without sub-agents, that were written since. There is no index for that: it reads all.

        A session's own time lags behind its messages for a moment; such a message is among the last that were stored.
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
        """Return the sessions of a directory that were changed last."""
        return self._sessions(
            "+parent_id is null and directory = ? order by time_updated desc limit ?", (directory, limit)
        )

    def offered(self, directory: str, *, whole: bool) -> list[str]:
        """Return the sessions, sub-agents included, that a screen in this directory can show. `whole`: also those of
        its project that are in other places."""
        found: list[str] = []
        for project, place in places_of(directory, self._project_roots()).items():
            where, values = "project_id = ?", [project]
            if place and not whole and "path" in self._columns:
                below = f"{place}/"
                where += f" and (path = ? or substr(path, 1, {len(below)}) = ? or (path is null and directory = ?))"
                values += [place, below, directory]
            found += texts(self._rows(f"select id from session where {where}", values))
        return found

    def _project_roots(self) -> list[tuple[str, str]]:
        """Return (project, folder) for the folders that a version of it says a project is in: worktrees, clones."""
        tables = texts(self._rows("select name from sqlite_master where type = 'table'", ()))
        rows: list[tuple[Any, ...]] = []
        if "project" in tables:
            rows += self._rows("select id, worktree from project", ())
        if "project_directory" in tables:
            rows += self._rows("select project_id, directory from project_directory", ())
        return [(project, root) for project, root in rows if isinstance(project, str) and isinstance(root, str)]

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
        """Return the newest messages of a session, the newest first."""
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

    def has_newer_messages(self, id: str | None = None) -> bool:
        """Return whether a session without messages (this one, or any) has some in the tables of a newer interface of
        its agent, which are not read. Tables that cannot be asked may hold some."""
        found = self._rows("select name from sqlite_master where type = 'table'", ())
        where, values = ("session_id = ?", (id,)) if id is not None else (NOT_READ, ())
        queries = (f"select 1 from {table} where {where} limit 1" for table in NEWER_TABLES if table in texts(found))
        try:
            return any(self._rows(query, values) for query in queries)
        except Unreadable:
            return True

    # All that models wrote, in the order in which it was stored

    def place(self) -> list[Any]:
        """Return how many messages there are, and the last of them. only_grew() tells whether messages were only
        added."""
        count = self._rows("select count(*) from message", ())
        last = self._rows("select rowid, id from message order by rowid desc limit 1", ())
        return [count[0][0], *last[0]] if count and last else [0, 0, ""]

    def only_grew(self, place: Sequence[Any]) -> bool:
        count, last, name = place
        rows = self._rows("select id from message where rowid = ?", (last,))
        newer = self._rows("select count(*) from message where rowid > ?", (last,))
        return [name] == texts(rows) and bool(newer) and self.place()[0] - newer[0][0] == count

    def written(self, after: int, names: Sequence[str]) -> Iterator[tuple[str, Message]]:
        """Yield (session, message) of the messages with tokens that were stored behind a row, and of those with these
        ids. One that cannot be read may have had tokens: it is yielded, too, perhaps without its names."""
        columns = f"select session_id, id, time_created, time_updated, {MESSAGE} from message"
        queries: list[tuple[str, tuple[object]]] = [(f"{columns} where rowid > ? and {MAY_COUNT}", (after,))]
        queries += [(f"{columns} where id = ?", (name,)) for name in names]
        for query, values in queries:
            for session, name, created, updated, data in self._each(query, values):
                if isinstance(session, str) and isinstance(name, str):
                    yield session, Message(name, moment(created) or 0.0, moment(updated) or 0.0, decoded(data))
                else:
                    yield "", Message("", 0.0, 0.0, None)

    def of_session(self, id: str) -> Iterator[Message]:
        rows = self._each(
            f"select id, time_created, time_updated, {MESSAGE} from message where session_id = ? and {MAY_COUNT}",
            (id,),
        )
        for name, created, updated, data in rows:
            known = isinstance(name, str)
            yield Message(
                name if known else "", moment(created) or 0.0, moment(updated) or 0.0, decoded(data) if known else None
            )

    # The file

    def _rows(self, query: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        connection = self._open()
        if connection is None or not self._columns:
            return []  # it was created this moment, and has no tables yet
        self._limit.until = time.monotonic() + PATIENCE
        try:
            rows = connection.execute(query, [bound(value) for value in values]).fetchmany(MOST_ROWS + 1)
        except broken() as error:
            raise Unreadable(f"{self.path}: {error or type(error).__name__}") from error
        if len(rows) > MOST_ROWS:
            if self._tell is None:
                raise Unreadable(f"{self.path}: {TOO_MANY}")
            self._tell(TOO_MANY)
        return rows[:MOST_ROWS]

    def _each(self, query: str, values: Sequence[object]) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query: there may be more than fit into memory."""
        connection = self._open()
        if connection is None or not self._columns:
            return
        try:
            yield from connection.execute(query, values)
        except sqlite().Error as error:
            raise Unreadable(f"{self.path}: {error}") from error

    def _open(self) -> sqlite3.Connection | None:
        """Return the connection; None if the database is new and still empty. Then it is not touched: its agent needs
        it for itself for a moment to switch it to a write-ahead log, and would end with "database is locked"."""
        if self._connection is None:
            if is_empty(self.path):
                # Never opened: SQLite would delete its log, which may hold all that is left.
                if is_lost(self.path):
                    raise Unreadable(f"{self.path}: {EMPTY}")
                return None
            if not is_begun(self.path):
                return None
            check_log(f"{self.path}-wal")
            check_log(f"{self.path}-journal")
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
            if not self._columns:
                self._check_empty(self._connection)
        return self._connection

    def _check_empty(self, connection: sqlite3.Connection) -> None:
        """Raise Unreadable if a database without a table of sessions has others: then it is not a new one."""
        self._limit.until = time.monotonic() + PATIENCE
        try:
            tables = texts(connection.execute("select name from sqlite_master where type = 'table'").fetchmany(1000))
        except broken() as error:
            self.close()
            raise Unreadable(f"{self.path}: {error}") from error
        if not set(tables) <= set(FIRST_TABLES):
            self.close()
            raise Unreadable(f"{self.path}: it has no table of sessions: damaged, or of a version unknown to us")


class Limit:
    """Ends a query that takes too long: a view can yield rows for ever, and damaged pages can form a cycle.

    It does not know its database: SQLite keeps the handler, and a handler that refers to the database would keep it
    open until the garbage collector runs.
    """

    until = 0.0

    def is_over(self) -> bool:
        return time.monotonic() > self.until


def sqlite() -> Any:
    """Import SQLite when a database is opened: a `list` opens none if no process of this agent lives."""
    from agentctl.fast import sqlite

    return sqlite


def broken() -> tuple[type[Exception], ...]:
    """Return what SQLite raises for a damaged file, also while it builds an error message from the file's content."""
    return (sqlite().Error, UnicodeError, MemoryError, OverflowError)


def is_empty(path: str) -> bool:
    found = os.stat(path)
    return found.st_size == 0 and S_ISREG(found.st_mode)


def is_lost(path: str) -> bool:
    """Return whether an empty database is no new one. Its agent makes it, keeps it open, and fills it soon after its
    own start; only then it writes a log."""
    log = size_of(f"{path}-wal")
    return (log > 0 or not is_being_made(path)) and is_empty(path)  # it may have been filled meanwhile


def is_being_made(path: str) -> bool:
    """Return whether a process that has just been started has this file open."""
    from agentctl.kernel import processes

    table, real = processes.snapshot(), os.path.realpath(path)
    young = (each for each in table.living() if table.taken_at - table.started_at(each.key) < BEGINNING)
    return any(real in table.open_files(process) for process in young)


def size_of(path: str) -> int:
    """Return the size of a file; 0 if there is none."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def check_log(path: str) -> None:
    """Raise Unreadable if the log beside a database is there and cannot be used: SQLite would take it for none, and
    what is only in there would be missing without a word."""
    try:
        head = read_bytes(path, len(LOG_MAGIC[0]))
    except FileNotFoundError:
        return
    except OSError as error:
        raise Unreadable(f"{path}: {error.strerror or error}") from error
    if path.endswith("-wal") and len(head) == len(LOG_MAGIC[0]) and head not in LOG_MAGIC:
        raise Unreadable(f"{path}: it is no write-ahead log, so what was written last is lost or elsewhere")


def is_begun(path: str) -> bool:
    """Return whether a table can be in it: each table has a page behind the first one, or is in the log. A file that is
    no database counts as begun, so that it is opened and reported."""
    header = read_bytes(path, HEADER)
    page = int.from_bytes(header[PAGE_SIZE], "big") if header.startswith(MAGIC) else 0
    if header and (page not in PAGE_SIZES or os.stat(path).st_size > page or pages_in(header) > 1):
        return True
    return size_of(f"{path}-wal") > 0


def pages_in(header: bytes) -> int:
    """Return how many pages a database had when its header was written; 0 if the header does not say. A file that has
    fewer was cut: SQLite reports it as damaged."""
    valid = len(header) == HEADER and header[CHANGES] == header[VALID_FOR]
    return int.from_bytes(header[PAGES], "big") if valid else 0


def is_out_of_reach(error: Exception) -> bool:
    """Return whether a database is not damaged, but on a read-only disk, or locked."""
    code = getattr(error, "sqlite_errorcode", OUT_OF_REACH[0])
    return isinstance(error, sqlite().OperationalError) and code & 0xFF in OUT_OF_REACH


def bound(value: object) -> object:
    """Return a value as SQLite takes it. A text that is not Unicode (half a character in some JSON, a byte in the name
    of a folder) is in no row."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


def connect(path: str, mode: str) -> tuple[sqlite3.Connection, frozenset[str]]:
    """Return a connection that works, and the columns of its table of sessions: they differ by version."""
    from agentctl.fast.url import quote

    module = sqlite()
    name = quote(os.fsencode(path))  # the name of a folder may not be Unicode
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
    """Return a folder with a copy of a database and its logs, taken while none of them changed. SQLite then rolls back
    in the copy what a killed process left half done."""
    from shutil import copyfile
    from tempfile import TemporaryDirectory

    folder = TemporaryDirectory(prefix="agentctl-")
    try:
        for _ in range(3):
            before = stamps(path)
            if sum(size for _, size in before.values()) > COPY_LIMIT:
                raise Unreadable(f"{path}: it can only be read as a copy, and is too large for that")
            for end in before:
                copyfile(path + end, f"{folder.name}/copy.db{end}")
            if stamps(path) == before:
                return folder
        raise Unreadable(f"{path}: it can only be read as a copy, and changes all the time")
    except OSError:
        folder.cleanup()
        raise


def stamps(path: str) -> dict[str, tuple[int, int]]:
    """Return time and size of a database and its logs, by what their names end with."""
    ends = ["", *(end for end in LOGS if os.path.exists(path + end))]
    found = {end: os.stat(path + end) for end in ends}
    return {end: (one.st_mtime_ns, one.st_size) for end, one in found.items()}


def texts(rows: list[tuple[Any, ...]]) -> list[str]:
    return [value for (value,) in rows if isinstance(value, str)]
