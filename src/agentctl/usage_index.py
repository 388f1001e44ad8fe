"""What was counted of each source, in a file of the cache: so that only what is new has to be read.

Derived from the transcripts, and never more than they say: it may be deleted at any time, and whatever is wrong with
it, it is made anew. Who cannot write it (another one does, or the disk is full) works on a copy in memory: nobody waits
for anybody, and every answer is whole. docs/decisions/012-usage-index.md says why it is SQLite.
"""

from __future__ import annotations

import json
import os
import sqlite3
import stat

from agentctl import config
from agentctl.agents.counting import OPEN, PAID, SPENT_FIELDS, Spent, settle
from agentctl.model import Problem, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from agentctl.agents.counting import Counted, Facts, Source, Stamp

NAME = "usage.db"
VERSION = 1
BUSY = 0.05  # seconds to wait for another one that writes
CACHE = 16 * 1024  # KiB of memory
SLOT = 900  # seconds: all time zones are whole quarters of an hour apart, so days can be cut in any of them
SLOTS_A_DAY = 86400 // SLOT
NO_SLOT = -1  # of what has no time
LAST_SLOT = 10**9
MANY_KEYS = 5000
# What a file raises that is torn, full of nonsense, or cannot grow.
BROKEN = (sqlite3.Error, TypeError, ValueError, OverflowError)

COLUMNS = ", ".join(SPENT_FIELDS)
TYPED = ", ".join(f"{name} integer" for name in SPENT_FIELDS) + ", cost real"
SUMS = ", ".join(f"sum({name})" for name in (*SPENT_FIELDS, "cost"))
SCHEMA = (
    "create table source (id integer primary key, agent text, root text, path text unique, inode integer, "
    "size integer, written integer, state text, problem text)",
    # top: the session that it is a sub-agent of, at any depth, or itself. paid_until: the slot up to which what it and
    # its sub-agents have cost is on record.
    "create table session (id integer primary key, agent text, name text, parent integer, top integer, cwd text, "
    "paid_until integer, unique (agent, name))",
    # Every mention of a call; one of them counts.
    "create table call (source integer, key integer, session integer, model text, slot integer, paid integer, "
    f"{TYPED}, counts integer, primary key (source, key)) without rowid",
    "create index call_key on call (key, counts)",
    "create index source_problem on source (problem) where problem is not null",
    f"create table sum (source integer, session integer, model text, slot integer, paid integer, {TYPED}, "
    "primary key (source, session, model, slot, paid)) without rowid",
)
# Sub-agents run inside their parent, whose running total has what they cost.
SETTLED = f"(s.paid = {PAID} or (s.paid = {OPEN} and s.slot >= 0 and s.slot <= coalesce(p.paid_until, {NO_SLOT})))"


class Sum(Value):
    """What was spent under one heading with one model."""

    heading: int | str | None  # a day (since 1970, local), an agent, a model, or the number of a session
    agent: str
    model: str | None
    settled: bool  # what it cost is on record
    counts: tuple[int | None, ...]  # SPENT_FIELDS
    cost: float | None


class Known(Value):
    """What the index knows of a session."""

    agent: str
    id: str
    parent: str | None
    top: str
    cwd: str | None


class Span(Value):
    """What is asked for: the slots from `first` to before `end`; None and None: all, also what has no time."""

    agents: tuple[str, ...]
    first: int | None = None
    end: int | None = None
    left_out: tuple[str, ...] = ()  # roots that cannot be read now


class Index:
    """Every method raises one of BROKEN where the file is not as it should be, or cannot be written: then it is time
    for another one, made anew or in memory."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._sessions: dict[tuple[str, str], int] = {}
        self._stale: set[int] = set()  # sources whose sums have to be made anew
        self._keys: set[int] = set()  # calls of which another mention may have to count

    # Filling it: begin, any number of add and forget, commit

    def begin(self) -> bool:
        """Be alone in writing; if another one is, then on a copy. Has another one written since we looked last?"""
        self._sessions, self._stale, self._keys = {}, set(), set()
        try:
            before = self._version()
            self._connection.execute("begin immediate")
            return self._version() != before
        except sqlite3.OperationalError:
            copy = in_memory(self._connection)
            self._connection.close()
            self._connection = copy
            self._connection.execute("begin immediate")
            return True

    def _version(self) -> object:
        return self._connection.execute("pragma data_version").fetchone()

    def commit(self) -> None:
        self._add_up()
        self._connection.execute("commit")

    def close(self) -> None:
        self._connection.close()

    def noted(self, agents: Sequence[str]) -> dict[tuple[str, str], dict[str, Stamp]]:
        """(agent, root) -> its sources, as they were when they were counted."""
        found: dict[tuple[str, str], dict[str, Stamp]] = {}
        for agent in agents:
            rows = self._connection.execute(
                "select root, path, inode, size, written from source where agent = ?", (agent,)
            )
            for root, path, inode, size, written in rows:
                place = (agent, root)
                if place not in found:
                    found[place] = {}
                found[place][path] = (inode, size, written)
        return found

    def problems(self, agents: Sequence[str]) -> list[Problem]:
        """What was wrong with sources when they were counted."""
        rows = self._connection.execute(
            "select agent, problem, path from source where problem is not null order by path"
        )
        return [Problem(agent, problem, path) for agent, problem, path in rows if agent in agents]

    def slots(self) -> tuple[int, int]:
        """The first and the last in which anything was spent."""
        first, last = self._connection.execute("select min(slot), max(slot) from sum where slot >= 0").fetchone()
        return (first, last) if first is not None else (0, 0)

    def state(self, path: str) -> dict[str, Any] | None:
        """Where counting a source was left."""
        for (text,) in self._connection.execute("select state from source where path = ?", (path,)):
            state = json.loads(text)
            return state if isinstance(state, dict) else None
        return None

    def add(self, agent: str, root: str, found: Iterable[tuple[Source, Counted]]) -> None:
        """What sources have more than before, or all of it. Wholly, or not at all."""
        self._connection.execute("savepoint portion")
        try:
            for source, counted in found:
                self._add(agent, root, source, counted)
        except BaseException:
            self._connection.execute("rollback to portion")
            self._sessions.clear()
            raise
        finally:
            self._connection.execute("release portion")

    def _add(self, agent: str, root: str, source: Source, counted: Counted) -> None:
        state = json.dumps(counted.state, separators=(",", ":"))
        values = (agent, root, *source.stamp, state, counted.problem, source.path)
        done = self._connection.execute(
            "insert or ignore into source (agent, root, inode, size, written, state, problem, path) "
            "values (?, ?, ?, ?, ?, ?, ?, ?)",
            values,
        )
        number, new = done.lastrowid or 0, done.rowcount == 1
        if not new:
            number = self._number("select id from source where path = ?", (source.path,)) or 0
            self._connection.execute(
                "update source set (agent, root, inode, size, written, state, problem) = (?, ?, ?, ?, ?, ?, ?) "
                "where path = ?",
                values,
            )
            if counted.anew:
                self._clear(number)
        for name, facts in counted.sessions.items():
            self._note_session(agent, name, facts)
        if counted.spent:
            known = {}
            if not counted.anew:
                known = self._known(number, [item.key for item in counted.spent if isinstance(item, Spent)])
            self._put(number, agent, settle(counted.spent, known))

    def _number(self, query: str, values: tuple[object, ...]) -> int | None:
        row = self._connection.execute(query, values).fetchone()
        return None if row is None else int(row[0])

    def _session(self, agent: str, name: str, parent: int | None = None, cwd: str | None = None) -> int:
        if (agent, name) not in self._sessions:
            done = self._connection.execute(
                f"insert or ignore into session (agent, name, parent, cwd, paid_until) values (?, ?, ?, ?, {NO_SLOT})",
                (agent, name, parent, cwd),
            )
            found = done.lastrowid
            if done.rowcount != 1:
                found = self._number("select id from session where agent = ? and name = ?", (agent, name))
            self._sessions[agent, name] = found or 0
        return self._sessions[agent, name]

    def _note_session(self, agent: str, name: str, facts: Facts) -> None:
        parent = self._session(agent, facts.parent) if facts.parent and facts.parent != name else None
        number = self._session(agent, name, parent, facts.cwd)
        self._connection.execute(
            "update session set parent = coalesce(?1, parent), cwd = coalesce(?2, cwd) where id = ?3 and "
            "(parent is not coalesce(?1, parent) or cwd is not coalesce(?2, cwd))",
            (parent, facts.cwd, number),
        )

    def _known(self, number: int, keys: list[int]) -> dict[int, Spent]:
        rows = self._connection.execute(
            f"select key, s.name, model, slot, paid, {COLUMNS}, cost from call join session s on s.id = session "
            "where source = ? and (paid = ? or key in (select value from json_each(?)))",
            (number, OPEN, json.dumps(keys)),
        )
        return {
            key: Spent(key, session, model, time_of(slot), (a, b, c, d, e), fresh, said, cost, paid)
            for key, session, model, slot, paid, a, b, c, d, e, fresh, said, cost in rows
        }

    def _put(self, number: int, agent: str, calls: dict[int, Spent]) -> None:
        rows = [
            (
                number,
                call.key,
                self._session(agent, call.session),
                call.model or "",
                slot_of(call.at),
                call.paid,
                call.input,
                call.output,
                call.cache_read,
                call.cache_write,
                call.reasoning,
                call.fresh,
                call.said,
                call.cost,
            )
            for call in calls.values()
        ]
        changed = ", ".join(f"{name} = excluded.{name}" for name in ("model", "slot", "paid", *SPENT_FIELDS, "cost"))
        self._connection.executemany(
            f"insert into call (source, key, session, model, slot, paid, {COLUMNS}, cost, counts) "
            f"values ({'?, ' * (7 + len(SPENT_FIELDS))} 1) on conflict (source, key) do update set {changed}",
            rows,
        )
        self._stale.add(number)
        self._keys.update(calls)

    def forget(self, paths: Iterable[str]) -> None:
        """These are none any more."""
        for path in paths:
            number = self._number("select id from source where path = ?", (path,))
            if number is not None:
                self._clear(number)
                self._connection.execute("delete from source where id = ?", (number,))

    def _clear(self, number: int) -> None:
        """What others have of the same calls may count now."""
        self._keys.update(
            key for (key,) in self._connection.execute("select key from call where source = ?", (number,))
        )
        self._connection.execute("delete from call where source = ?", (number,))
        self._stale.add(number)

    def _elect(self) -> None:
        """Of several mentions of one call (a fork repeats another's) one counts: that with the most tokens (a fork in
        mid-answer has but the beginning), then that of the first path. No rule that asks which was read first: the
        answer must not depend on what an index has seen."""
        many = len(self._keys) > MANY_KEYS  # then all are looked at, along the index
        among = "" if many else "where key in (select value from json_each(?))"
        rows = self._connection.execute(
            "select c.key, c.source, c.counts from call c join source s on s.id = c.source where c.key in (select key "
            f"from call {among} group by key having count(*) > 1 or max(counts) = 0) "
            "order by c.key, c.fresh + c.said + coalesce(c.cache_read, 0) + coalesce(c.cache_write, 0) desc, s.path",
            () if many else (json.dumps(list(self._keys)),),
        )
        changed, previous = [], None
        for key, source, counts in rows.fetchall():
            elected = int(key != previous)
            previous = key
            if elected != counts:
                changed.append((elected, source, key))
        self._connection.executemany("update call set counts = ? where source = ? and key = ?", changed)
        self._stale.update(source for _, source, _ in changed)
        self._keys = set()

    def _add_up(self) -> None:
        """The sums of what has changed; who is whose sub-agent; and up to when what they cost is on record."""
        if not self._stale:
            return
        self._elect()
        run, stale = self._connection.execute, (json.dumps(sorted(self._stale)),)
        run("delete from sum where source in (select value from json_each(?))", stale)
        run(
            f"insert into sum select source, session, model, slot, paid, {SUMS} from call where counts = 1 and "
            "source in (select value from json_each(?)) group by source, session, model, slot, paid",
            stale,
        )
        run("update session set top = id where parent is null and top is not id")
        parents = dict(run("select id, parent from session where parent is not null").fetchall())
        tops = [(top_of(number, parents), number) for number in parents]
        self._connection.executemany("update session set top = ?1 where id = ?2 and top is not ?1", tops)
        if parents:
            newest = dict(run("select session, max(slot) from sum where paid = ? group by session", (PAID,)).fetchall())
            until = [(newest.get(number, NO_SLOT), number) for number in set(parents.values())]
            self._connection.executemany("update session set paid_until = ? where id = ?", until)
        self._stale = set()

    # Asking it

    def sums(self, by: str, span: Span, offsets: Sequence[tuple[int, int]] = ((LAST_SLOT, 0),)) -> list[Sum]:
        """By day, agent, model or session. `offsets`: (slot, slots that are to be added before it) of the time zone."""
        where, values = asked(span)
        rows = self._connection.execute(
            f"select {heading(by, offsets)}, n.agent, s.model, {SETTLED}, {SUMS} from sum s join session n "
            f"on n.id = s.session left join session p on p.id = n.parent where {where} group by 1, 2, 3, 4",
            values,
        )
        return [
            Sum(head, agent, model or None, bool(settled), tuple(counts), cost)
            for head, agent, model, settled, *counts, cost in rows
        ]

    def session_counts(
        self, by: str, span: Span, offsets: Sequence[tuple[int, int]] = ((LAST_SLOT, 0),)
    ) -> dict[int | str | None, int]:
        """How many sessions are under each heading: a sub-agent is a part of its parent."""
        where, values = asked(span)
        rows = self._connection.execute(
            f"select {heading(by, offsets)}, count(distinct n.top) from sum s join session n on n.id = s.session "
            f"where {where} group by 1",
            values,
        )
        return dict(rows.fetchall())

    def sessions(self) -> dict[int, Known]:
        rows = self._connection.execute(
            "select n.id, n.agent, n.name, p.name, t.name, n.cwd from session n left join session p on p.id = n.parent "
            "left join session t on t.id = n.top"
        )
        return {number: Known(agent, name, parent, top or name, cwd) for number, agent, name, parent, top, cwd in rows}


def heading(by: str, offsets: Sequence[tuple[int, int]]) -> str:
    if by != "day":
        return {"agent": "n.agent", "model": "nullif(s.model, '')", "session": "s.session", "all": "0"}[by]
    shifts = " ".join(f"when s.slot < {int(slot)} then {int(shift)}" for slot, shift in offsets)
    return f"case when s.slot >= 0 then (s.slot + case {shifts} end) / {SLOTS_A_DAY} end"


def asked(span: Span) -> tuple[str, list[object]]:
    where = [f"n.agent in ({', '.join('?' * len(span.agents))})"]
    values: list[object] = [*span.agents]
    if span.first is not None or span.end is not None:
        where.append("s.slot >= ? and s.slot < ?")
        values += [span.first or 0, LAST_SLOT if span.end is None else span.end]
    if span.left_out:
        where.append(f"s.source not in (select id from source where root in ({', '.join('?' * len(span.left_out))}))")
        values += span.left_out
    return " and ".join(where), values


def slot_of(at: float | None) -> int:
    return NO_SLOT if at is None else int(at // SLOT)


def time_of(slot: int) -> float | None:
    return None if slot == NO_SLOT else float(slot * SLOT)


def top_of(number: int, parents: Mapping[int, int]) -> int:
    seen: set[int] = set()
    while number in parents and number not in seen:
        seen.add(number)
        number = parents[number]
    return number


# The file


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
            if isinstance(error, (sqlite3.OperationalError, OSError)):
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
