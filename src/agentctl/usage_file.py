"""The file of the usage index: how it is opened, and made anew where it is not as it should be."""

from __future__ import annotations

import os
import stat

from agentctl import config
from agentctl.agents.counting import SPENT_FIELDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping
else:
    try:
        import _sqlite3 as sqlite3  # what the package wraps, without datetime and the patterns of its conversions: 9 ms
    except ImportError:
        import sqlite3

NAME = "usage.db"
VERSION = 3
BUSY = 0.05  # seconds to wait for another one that writes
CACHE = 16 * 1024  # KiB of memory
# What a file raises that is torn, full of nonsense, or cannot grow.
BROKEN = (sqlite3.Error, TypeError, ValueError, OverflowError)
REFUSED = sqlite3.OperationalError  # locked by another one, no room, not to be written

TYPED = ", ".join(f"{name} integer" for name in SPENT_FIELDS) + ", cost real"
CALLS_BY_KEY = "create index call_key on call (key, counts)"
SCHEMA = (
    # mark: of all that is in it; null where one of them has to be looked at again.
    "create table folder (id integer primary key, agent text, root text, path text unique, mark blob)",
    "create table source (id integer primary key, folder integer, path text unique, inode integer, size integer, "
    "written integer, state text, problem text)",
    "create index source_folder on source (folder)",
    "create index source_problem on source (problem) where problem is not null",
    # top: the session that it is a sub-agent of, at any depth; null: of none. paid_until: the slot up to which what it
    # has cost is on record with its parent.
    "create table session (id integer primary key, agent text, name text, parent integer, top integer, cwd text, "
    "paid_until integer, unique (agent, name))",
    "create index session_parent on session (parent) where parent is not null",
    # Every mention of a call; one of them counts.
    "create table call (source integer, key integer, session integer, model text, slot integer, paid integer, "
    f"{TYPED}, counts integer, primary key (source, key)) without rowid",
    CALLS_BY_KEY,
    # By slot, because most questions are about the last days; with all that is asked for, so that nothing is joined.
    # top: of its session, or that itself. settled: what it cost is on record.
    "create table sum (slot integer, source integer, session integer, model text, paid integer, agent text, "
    f"top integer, settled integer, {TYPED}, primary key (slot, source, session, model, paid)) without rowid",
    "create index sum_source on sum (source)",
    # The same, of all sources and sessions together. tops: which sessions, as a text of their numbers.
    f"create table slice (slot integer, agent text, model text, settled integer, {TYPED}, tops text, "
    "primary key (slot, agent, model, settled)) without rowid",
    "create index sum_session on sum (session, paid)",
)


def bound(text: str) -> str:
    """A name as SQLite takes it. What is no Unicode (a path of other bytes, half a character in somebody's JSON) is
    written out, behind a NUL."""
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


def opened(path: str) -> sqlite3.Connection:
    """The index in the cache, or a copy of none where it cannot be had now: another one makes it, it is not ours, there
    is no room. One that is not as it should be is made anew."""
    for _ in range(2):
        connection = None
        try:
            make_file(path)
            connection = sqlite3.connect(path, timeout=BUSY, isolation_level=None)
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
    """Another one is at it, for longer than we wait."""
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF in (
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
    )


def prepare(connection: sqlite3.Connection) -> None:
    connection.execute(f"pragma cache_size = -{CACHE}")
    found = tables(connection)
    if not found:
        connection.execute("pragma journal_mode = wal")
        connection.execute("begin immediate")
        if not tables(connection):
            make_tables(connection)
        connection.execute("commit")
    elif found != expected_tables():
        raise sqlite3.DatabaseError("of another version, or not ours")
    connection.execute("pragma synchronous = normal")


def make_tables(connection: sqlite3.Connection) -> None:
    for sql in SCHEMA:
        connection.execute(sql)
    connection.execute(f"pragma user_version = {VERSION}")


def tables(connection: sqlite3.Connection) -> tuple[object, ...]:
    """All that is defined in a database."""
    rows = connection.execute("select type, name, sql from sqlite_master order by name").fetchall()
    return (connection.execute("pragma user_version").fetchone(), rows) if rows else ()


def expected_tables() -> tuple[object, ...]:
    connection = in_memory()
    try:
        return tables(connection)
    finally:
        connection.close()


def in_memory(original: sqlite3.Connection | None = None) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    if original is not None:
        original.backup(connection)
    if not tables(connection):
        make_tables(connection)
    return connection


def make_file(path: str) -> None:
    """For us alone. What is no file of ours is not touched: an OSError."""
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
        # SQLite takes pages that were cut off for empty ones. While it is open, the newest may be in the log beside it.
        header, size = os.pread(fd, 100, 0), os.fstat(fd).st_size
        page = int.from_bytes(header[16:18], "big")
        whole = int.from_bytes(header[28:32], "big") * (65536 if page == 1 else page)
        if size and size < whole and not os.path.exists(f"{path}-wal"):
            raise sqlite3.DatabaseError("it was cut off")
    finally:
        os.close(fd)


def remove(path: str) -> None:
    for name in (f"{path}-wal", f"{path}-shm", path):
        try:
            os.unlink(name)
        except OSError:
            pass
