"""What was counted of each source, in a file of the cache: so that only what is new has to be read.

Derived from the transcripts, and never more than they say: it may be deleted at any time, and whatever is wrong with
it, it is made anew. Who cannot write it (another one does, or the disk is full) works on a copy in memory: nobody waits
for anybody, and every answer is whole. docs/decisions/012-usage-index.md says why it is SQLite.
"""

from __future__ import annotations

from agentctl import jsontext
from agentctl.agents.counting import OPEN, PAID, SPENT_FIELDS, Facts, Spent, settle
from agentctl.model import Problem, Value
from agentctl.usage_file import CALLS_BY_KEY, REFUSED, in_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from agentctl.agents.counting import Counted, Source, Stamp

SLOT = 900  # seconds: all time zones are whole quarters of an hour apart, so days can be cut in any of them
SLOTS_A_DAY = 86400 // SLOT
NO_SLOT = -1  # of what has no time
LAST_SLOT = 10**9
MANY_KEYS = 5000

COLUMNS = ", ".join(SPENT_FIELDS)
SUMS = ", ".join(f"sum({name})" for name in (*SPENT_FIELDS, "cost"))
AMONG = "(select value from json_each(?))"  # of str() of a list of integers


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
        self._related = False  # one was noted that is another's sub-agent
        self._empty = False  # nothing was counted yet

    # Filling it: begin, any number of add, forget and mark, commit

    def begin(self) -> bool:
        """Be alone in writing; if another one is, then on a copy. Has another one written since we looked last?"""
        moved = False
        try:
            before = self._version()
            self._connection.execute("begin immediate")
            moved = self._version() != before
        except REFUSED:
            copy = in_memory(self._connection)
            self._connection.close()
            self._connection = copy
            self._connection.execute("begin immediate")
            moved = True
        self._sessions, self._stale, self._keys, self._related = {}, set(), set(), False
        self._empty = self._connection.execute("select 1 from call limit 1").fetchone() is None
        if self._empty:  # an index over all of them is made at once, from what is sorted
            self._connection.execute("drop index call_key")
        return moved

    def _version(self) -> object:
        return self._connection.execute("pragma data_version").fetchone()

    def commit(self) -> None:
        self._elect()
        if self._empty:
            self._connection.execute(CALLS_BY_KEY)
        self._add_up()
        self._connection.execute("commit")

    def close(self) -> None:
        self._connection.close()

    def marks(self, agents: Sequence[str]) -> dict[tuple[str, str], dict[str, bytes | None]]:
        """(agent, root) -> its folders, each with its mark when all of it was counted."""
        found: dict[tuple[str, str], dict[str, bytes | None]] = {}
        for agent, root, path, mark in self._connection.execute("select agent, root, path, mark from folder"):
            if agent in agents:
                found.setdefault((agent, root), {})[path] = mark
        return found

    def stamps(self, folder: str) -> dict[str, Stamp]:
        """The sources of a folder, as they were when they were counted."""
        rows = self._connection.execute(
            "select path, inode, size, written from source where folder = (select id from folder where path = ?)",
            (folder,),
        )
        return {path: (inode, size, written) for path, inode, size, written in rows}

    def problems(self, agents: Sequence[str]) -> list[Problem]:
        """What was wrong with sources when they were counted."""
        rows = self._connection.execute(
            "select f.agent, s.problem, s.path from source s join folder f on f.id = s.folder "
            "where s.problem is not null"
        )
        found = [Problem(agent, problem, path) for agent, problem, path in rows if agent in agents]
        return sorted(found, key=lambda one: one.path or "")

    def slots(self) -> tuple[int, int]:
        """The first and the last in which anything was spent."""
        first = self._number("select min(slot) from sum where slot >= 0", ())
        last = self._number("select max(slot) from sum where slot >= 0", ())
        return (first, last) if first is not None and last is not None else (0, 0)

    def state(self, path: str) -> dict[str, Any] | None:
        """Where counting a source was left."""
        for (text,) in self._connection.execute("select state from source where path = ?", (path,)):
            state = jsontext.whole(text)
            return state if isinstance(state, dict) else None
        return None

    def add(self, agent: str, root: str, found: Sequence[tuple[Source, Counted]]) -> None:
        """What sources have more than before, or all of it. Wholly, or not at all."""
        self._connection.execute("savepoint portion")
        try:
            folders = {path: self._folder(agent, root, path) for path in {source.folder for source, _ in found}}
            rows: list[tuple[object, ...]] = []
            for source, counted in found:
                rows += self._add(folders[source.folder], agent, source, counted)
            self._put(rows)
        except BaseException:
            self._connection.execute("rollback to portion")
            self._sessions.clear()
            raise
        finally:
            self._connection.execute("release portion")

    def mark(self, agent: str, root: str, folder: str, mark: bytes) -> None:
        """All of a folder was counted as it was when it had this mark, and nothing in it needs another look."""
        self._folder(agent, root, folder, mark)

    def _folder(self, agent: str, root: str, path: str, mark: bytes | None = None) -> int:
        self._connection.execute(
            "insert into folder (agent, root, path, mark) values (?, ?, ?, ?) on conflict (path) do update set "
            "agent = excluded.agent, root = excluded.root, mark = excluded.mark",
            (agent, root, path, mark),
        )
        return self._number("select id from folder where path = ?", (path,)) or 0

    def _add(self, folder: int, agent: str, source: Source, counted: Counted) -> list[tuple[object, ...]]:
        """Gives the rows of its calls."""
        values = (folder, *source.stamp, jsontext.compact(counted.state), counted.problem, source.path)
        done = self._connection.execute(
            "insert or ignore into source (folder, inode, size, written, state, problem, path) "
            "values (?, ?, ?, ?, ?, ?, ?)",
            values,
        )
        number, new = done.lastrowid or 0, done.rowcount == 1
        if not new:
            number = self._number("select id from source where path = ?", (source.path,)) or 0
            self._connection.execute(
                "update source set (folder, inode, size, written, state, problem) = (?, ?, ?, ?, ?, ?) where path = ?",
                values,
            )
            if counted.anew:
                self._clear(number)
        for name, facts in counted.sessions.items():
            self._note_session(agent, name, facts)
        if not counted.spent:
            return []
        known = {}
        if not counted.anew:
            known = self._known(number, [item.key for item in counted.spent if isinstance(item, Spent)])
        calls = settle(counted.spent, known)
        self._stale.add(number)
        self._keys.update(calls)
        return [
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

    def _put(self, rows: list[tuple[object, ...]]) -> None:
        changed = ", ".join(f"{name} = excluded.{name}" for name in ("model", "slot", "paid", *SPENT_FIELDS, "cost"))
        self._connection.executemany(
            f"insert into call (source, key, session, model, slot, paid, {COLUMNS}, cost, counts) "
            f"values ({'?, ' * (7 + len(SPENT_FIELDS))} 1) on conflict (source, key) do update set {changed}",
            rows,
        )

    def _number(self, query: str, values: tuple[object, ...]) -> int | None:
        row = self._connection.execute(query, values).fetchone()
        return None if row is None or row[0] is None else int(row[0])

    def _session(self, agent: str, name: str) -> int:
        if (agent, name) not in self._sessions:
            self._note_session(agent, name, Facts())
        return self._sessions[agent, name]

    def _note_session(self, agent: str, name: str, facts: Facts) -> None:
        parent = self._session(agent, facts.parent) if facts.parent and facts.parent != name else None
        self._related = self._related or parent is not None
        done = self._connection.execute(
            f"insert or ignore into session (agent, name, parent, cwd, paid_until) values (?, ?, ?, ?, {NO_SLOT})",
            (agent, name, parent, facts.cwd),
        )
        number = done.lastrowid
        if done.rowcount != 1:
            number = self._number("select id from session where agent = ? and name = ?", (agent, name))
            self._connection.execute(
                "update session set parent = coalesce(?1, parent), cwd = coalesce(?2, cwd) where id = ?3 and "
                "(parent is not coalesce(?1, parent) or cwd is not coalesce(?2, cwd))",
                (parent, facts.cwd, number),
            )
        self._sessions[agent, name] = number or 0

    def _known(self, number: int, keys: list[int]) -> dict[int, Spent]:
        rows = self._connection.execute(
            f"select key, s.name, model, slot, paid, {COLUMNS}, cost from call join session s on s.id = session "
            f"where source = ? and (paid = ? or key in {AMONG})",
            (number, OPEN, str(keys)),
        )
        return {
            key: Spent(key, session, model, time_of(slot), (a, b, c, d, e), fresh, said, cost, paid)
            for key, session, model, slot, paid, a, b, c, d, e, fresh, said, cost in rows
        }

    def forget(self, paths: Iterable[str]) -> None:
        """These are sources no more."""
        for path in paths:
            number = self._number("select id from source where path = ?", (path,))
            if number is not None:
                self._clear(number)
                self._connection.execute("delete from source where id = ?", (number,))

    def forget_folder(self, path: str) -> None:
        self.forget(self.stamps(path))
        self._connection.execute("delete from folder where path = ?", (path,))

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
        many = len(self._keys) > MANY_KEYS  # then all are looked at
        among = "" if many else f"where key in {AMONG}"
        rows = self._connection.execute(
            "select elected, source, key from (select c.source, c.key, c.counts, row_number() over (partition by c.key "
            "order by c.fresh + c.said + coalesce(c.cache_read, 0) + coalesce(c.cache_write, 0) desc, s.path) = 1 "
            "as elected from call c join source s on s.id = c.source where c.key in (select key from call "
            f"{among} group by key having count(*) > 1 or max(counts) = 0)) where elected is not counts",
            () if many else (str(list(self._keys)),),
        )
        changed = sorted(rows.fetchall(), key=lambda row: row[1:])  # as they lie in the file
        self._connection.executemany("update call set counts = ? where source = ? and key = ?", changed)
        self._stale.update(source for _, source, _ in changed)
        self._keys = set()

    def _add_up(self) -> None:
        """The sums of what has changed, and of the sub-agents of whom it has changed up to when it is on record what
        they cost."""
        if self._related:
            self._find_tops()
        self._sum(self._stale)
        self._sum(self._settle_children())
        self._stale = set()

    def _sum(self, sources: set[int]) -> None:
        if not sources:
            return
        among = (str(sorted(sources)),)
        self._connection.execute(f"delete from sum where source in {AMONG}", among)
        self._connection.execute(
            "insert into sum select slot, source, session, model, paid, n.agent, coalesce(n.top, n.id), "
            f"paid = {PAID} or (paid = {OPEN} and slot between 0 and n.paid_until), {SUMS} "
            "from call join session n on n.id = session "
            f"where counts = 1 and source in {AMONG} group by source, session, model, slot, paid",
            among,
        )

    def _find_tops(self) -> None:
        """Who is whose sub-agent, at any depth."""
        rows = self._connection.execute("select id, parent, top from session where parent is not null").fetchall()
        parents = {number: parent for number, parent, _ in rows}
        moved = [(top, number) for number, _, before in rows if (top := top_of(number, parents)) != before]
        self._connection.executemany("update session set top = ? where id = ?", moved)
        self._stale |= self._sources_of([number for _, number in moved])

    def _settle_children(self) -> set[int]:
        """Sub-agents run inside their parent, whose running total has what they cost. The sources of those of whom it
        is known up to another time than before."""
        rows = self._connection.execute(
            "select n.id, n.paid_until, max(s.slot) from session n "
            f"left join sum s on s.session = n.parent and s.paid = {PAID} where n.parent is not null group by n.id"
        )
        moved = [
            (now, number)
            for number, before, newest in rows.fetchall()
            if (now := NO_SLOT if newest is None else newest) != before
        ]
        self._connection.executemany("update session set paid_until = ? where id = ?", moved)
        return self._sources_of([number for _, number in moved])

    def _sources_of(self, sessions: list[int]) -> set[int]:
        rows = self._connection.execute(f"select distinct source from sum where session in {AMONG}", (str(sessions),))
        return {source for (source,) in rows}

    # Asking it

    def sums(self, by: str, span: Span, offsets: Sequence[tuple[int, int]] = ((LAST_SLOT, 0),)) -> list[Sum]:
        """By day, agent, model or session. `offsets`: (slot, slots that are to be added before it) of the time zone."""
        where, values = asked(span)
        rows = self._connection.execute(
            f"select {heading(by, offsets)}, agent, model, settled, {SUMS} from sum where {where} group by 1, 2, 3, 4",
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
            f"select {heading(by, offsets)}, count(distinct top) from sum where {where} group by 1",
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
        return {"agent": "agent", "model": "nullif(model, '')", "session": "session", "all": "0"}[by]
    shifts = " ".join(f"when slot < {int(slot)} then {int(shift)}" for slot, shift in offsets)
    return f"case when slot >= 0 then (slot + case {shifts} end) / {SLOTS_A_DAY} end"


def asked(span: Span) -> tuple[str, list[object]]:
    where = [f"agent in ({', '.join('?' * len(span.agents))})"]
    values: list[object] = [*span.agents]
    if span.first is not None or span.end is not None:
        where.append("slot >= ? and slot < ?")
        values += [span.first or 0, LAST_SLOT if span.end is None else span.end]
    if span.left_out:
        where.append(
            "source not in (select s.id from source s join folder f on f.id = s.folder "
            f"where f.root in ({', '.join('?' * len(span.left_out))}))"
        )
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
