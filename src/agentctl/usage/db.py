"""The database file of the usage index: open it, and make it again if it is damaged or of another version."""

from __future__ import annotations

import os
import stat

from agentctl import config
from agentctl.agents.usage_base import SPENT_FIELDS
from agentctl.fast import sqlite as fast_sqlite

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = "usage.db"
# agentctl believes an index only if the code that wrote it counts as this code does. Raise the number whenever that
# code changes what it counts; a test compares it with the code.
VERSION = 13
BUSY = 0.05  # seconds to wait for another process that writes
CACHE = 16 * 1024  # KiB of memory
# The exceptions for a database that is torn, full of nonsense, or cannot grow.
BROKEN = (fast_sqlite.Error, TypeError, ValueError, OverflowError)
REFUSED = fast_sqlite.OperationalError  # locked by another process, disk full, or read-only

TYPED = ", ".join(f"{name} integer" for name in SPENT_FIELDS) + ", cost real"
CALLS_BY_KEY = "create index call_key on call (key, counts)"
SCHEMA = (
    # mark: of everything in the folder; null if one of its sources has to be counted again.
    "create table folder (id integer primary key, agent text, root text, path text unique, mark blob)",
    "create table source (id integer primary key, folder integer, path text unique, inode integer, size integer, "
    "written integer, changed integer, state text, problem text)",
    "create index source_folder on source (folder)",
    "create index source_problem on source (problem) where problem is not null",
    # top: the session that it is a sub-agent of, at any depth; null: it is none. paid_until: the slot up to which the
    # record of its parent has its cost.
    "create table session (id integer primary key, agent text, name text, parent integer, top integer, cwd text, "
    "paid_until integer, unique (agent, name))",
    "create index session_parent on session (parent) where parent is not null",
    # Every mention of a call; only one mention of each call counts.
    "create table call (source integer, key integer, session integer, model text, slot integer, paid integer, "
    f"{TYPED}, counts integer, primary key (source, key)) without rowid",
    CALLS_BY_KEY,
    # By slot, because most questions are about the last days; with every column that a question needs, to avoid joins.
    # top: that of its session, or the session itself. settled: its cost is on record.
    "create table sum (slot integer, source integer, session integer, model text, paid integer, agent text, "
    f"top integer, settled integer, {TYPED}, primary key (slot, source, session, model, paid)) without rowid",
    "create index sum_source on sum (source)",
    # The same for all sources and sessions together. tops: the numbers of the sessions, as a text.
    f"create table slice (slot integer, agent text, model text, settled integer, {TYPED}, tops text, "
    "primary key (slot, agent, model, settled)) without rowid",
    "create index sum_session on sum (session, paid)",
)


def bound(text: str) -> str:
    """Return a name as SQLite takes it. One that is not Unicode (a path in other bytes, a lone surrogate in JSON)
    becomes hexadecimal behind a NUL."""
    if text.isascii() and not text.startswith("\0"):
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return "\0" + text.encode("utf-8", "surrogatepass").hex()
    return "\0" + text.encode().hex() if text.startswith("\0") else text


def unbound(text: str) -> str:
    return bytes.fromhex(text[1:]).decode("utf-8", "surrogatepass") if text.startswith("\0") else text


def index_path(env: Mapping[str, str]) -> str:
    return os.path.join(config.cache_folder(env), NAME)


def opened(path: str) -> fast_sqlite.Connection:
    """Open the index in the cache; make it again if it is damaged. If it cannot be used now (another process makes it,
    it is not ours, the disk is full), return an empty one in memory."""
    for _ in range(2):
        connection = None
        try:
            make_file(path)
            connection = fast_sqlite.connect(path, timeout=BUSY, isolation_level=None)
            prepare(connection)
            return connection
        except (*BROKEN, OSError) as error:
            if connection is not None:
                connection.close()
            if isinstance(error, (REFUSED, OSError)):
                break
            remove(path)
    return in_memory()


def is_busy(error: Exception) -> bool:
    """Has another process locked the index for longer than we wait?"""
    return isinstance(error, fast_sqlite.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF in (
        fast_sqlite.SQLITE_BUSY,
        fast_sqlite.SQLITE_LOCKED,
    )


def prepare(connection: fast_sqlite.Connection) -> None:
    connection.execute(f"pragma cache_size = -{CACHE}")
    found = tables(connection)
    if not found:
        connection.execute("pragma journal_mode = wal")
        connection.execute("begin immediate")
        if not tables(connection):
            make_tables(connection)
        connection.execute("commit")
    elif found != expected_tables():
        raise fast_sqlite.DatabaseError("of another version, or not ours")
    connection.execute("pragma synchronous = normal")


def make_tables(connection: fast_sqlite.Connection) -> None:
    for sql in SCHEMA:
        connection.execute(sql)
    connection.execute(f"pragma user_version = {VERSION}")


def tables(connection: fast_sqlite.Connection) -> tuple[object, ...]:
    """Return the version of a database and everything that is defined in it."""
    rows = connection.execute("select type, name, sql from sqlite_master order by name").fetchall()
    return (connection.execute("pragma user_version").fetchone(), rows) if rows else ()


def expected_tables() -> tuple[object, ...]:
    connection = in_memory()
    try:
        return tables(connection)
    finally:
        connection.close()


def in_memory(original: fast_sqlite.Connection | None = None) -> fast_sqlite.Connection:
    connection = fast_sqlite.connect(":memory:", isolation_level=None)
    if original is not None:
        original.backup(connection)
    if not tables(connection):
        make_tables(connection)
    return connection


def make_file(path: str) -> None:
    """Make the file, private to this user. Raises OSError, and touches nothing, if it is not our own regular file."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    for name in (path, f"{path}-wal", f"{path}-shm"):
        try:
            found = os.lstat(name)
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            raise OSError(f"not a file of ours: {name}")
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        # SQLite would take missing pages for empty ones. While it is open, the newest pages may be in its log.
        header, size = os.pread(fd, 100, 0), os.fstat(fd).st_size
        page = int.from_bytes(header[16:18], "big")
        whole = int.from_bytes(header[28:32], "big") * (65536 if page == 1 else page)
        if size and size < whole and not os.path.exists(f"{path}-wal"):
            raise fast_sqlite.DatabaseError("it was cut off")
    finally:
        os.close(fd)


def remove(path: str) -> None:
    for name in (f"{path}-wal", f"{path}-shm", path):
        try:
            os.unlink(name)
        except OSError:
            pass
