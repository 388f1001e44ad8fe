"""The usage index: what was counted in each source, in a database in the cache, so that only new lines are read.

It is derived from the transcripts. You can delete it at any time, and agentctl makes it again if it is damaged. A
process that cannot write it (another one does, or the disk is full) works on a copy in memory: no process waits for
another, and every answer is complete. docs/decisions/012-usage-index.md says why it is SQLite.
"""

from __future__ import annotations

from agentctl.agents.usage_base import OPEN, SPENT_FIELDS, Facts, Spent, settle
from agentctl.fast import json as fast_json
from agentctl.model import Problem
from agentctl.usage.db import CALLS_BY_KEY, REFUSED, bound, in_memory, unbound
from agentctl.usage.sums import AMONG, NO_SLOT, Sums, slot_of, time_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence
    from typing import Any

    from agentctl.agents.usage_base import Counted, Source, Stamp

MANY_KEYS = 5000

COLUMNS = ", ".join(SPENT_FIELDS)
WEIGHT = "c.fresh + c.said + coalesce(c.cache_read, 0) + coalesce(c.cache_write, 0)"
CHANGED = ", ".join(f"{name} = excluded.{name}" for name in ("model", "slot", "paid", *SPENT_FIELDS, "cost"))


class Noted:
    """A session in the index."""

    __slots__ = ("cwd", "number", "parent")

    def __init__(self, number: int, parent: int | None = None, cwd: str | None = None) -> None:
        self.number, self.parent, self.cwd = number, parent, cwd


class Index(Sums):
    """Every method raises one of BROKEN if the file is damaged or cannot be written: then make a new index, or one in
    memory."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection)
        self._start_afresh()

    def _start_afresh(self) -> None:
        self._paths: dict[str, int] = {}  # the numbers of the sources in the folders that were asked for, by path
        self._sessions: dict[tuple[str, str], Noted] = {}
        self._changed: dict[tuple[str, str], Noted] = {}  # those sessions that are not written yet
        self._stale: set[int] = set()  # sources whose sums have to be made again
        self._keys: set[int] = set()  # calls for which another mention may have to count now
        self._related = False  # a sub-agent was noted
        self._empty = False  # nothing was counted before
        self._last_source = self._last_session = 0  # their numbers
        self._no_sessions = False  # the file had no sessions

    # Writing: begin, then any number of add, forget and mark, then commit

    def begin(self) -> bool:
        """Begin to write, on a copy in memory if another process is writing. True: another process has written since
        our last look."""
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
        self._start_afresh()
        self._last_source = self._number("select max(id) from source", ()) or 0
        self._last_session = self._number("select max(id) from session", ()) or 0
        self._no_sessions = self._last_session == 0
        self._empty = self._connection.execute("select 1 from call limit 1").fetchone() is None
        if self._empty:  # faster: make this index at the end, over all calls at once
            self._connection.execute("drop index call_key")
        return moved

    def _version(self) -> object:
        return self._connection.execute("pragma data_version").fetchone()

    def commit(self) -> None:
        self._elect()
        if self._empty:
            self._connection.execute(CALLS_BY_KEY)
        self._add_up(None if self._empty else self._stale, related=self._related)
        self._connection.execute("commit")

    def close(self) -> None:
        self._connection.close()

    def marks(self, agents: Sequence[str]) -> dict[tuple[str, str], dict[str, bytes | None]]:
        """Return the folders of each (agent, root), each with the mark that it had when all of it was counted."""
        found: dict[tuple[str, str], dict[str, bytes | None]] = {}
        for agent, root, path, mark in self._connection.execute("select agent, root, path, mark from folder"):
            if agent in agents:
                found.setdefault((agent, unbound(root)), {})[unbound(path)] = mark
        return found

    def stamps(self, folder: str) -> dict[str, Stamp]:
        """Return the stamps that the sources of a folder had when they were counted. A writer calls this first, for
        every folder with changes: only sources returned here count as known."""
        found = {}
        for number, path, inode, size, written, changed in self._connection.execute(
            "select id, path, inode, size, written, changed from source "
            "where folder = (select id from folder where path = ?)",
            (bound(folder),),
        ):
            path = unbound(path)
            found[path] = inode, size, written, changed
            self._paths[path] = number
        return found

    def problems(self, agents: Sequence[str]) -> list[Problem]:
        """Return the problems of sources, as noted when they were counted."""
        rows = self._connection.execute(
            "select f.agent, s.problem, s.path from source s join folder f on f.id = s.folder "
            "where s.problem is not null"
        )
        found = [Problem(agent, unbound(problem), unbound(path)) for agent, problem, path in rows if agent in agents]
        return sorted(found, key=lambda one: one.path or "")

    def state(self, path: str) -> dict[str, Any] | None:
        """Return the state in which counting of a source stopped."""
        if path not in self._paths:
            return None
        rows = self._connection.execute("select state from source where id = ?", (self._paths[path],))
        state = fast_json.loads(rows.fetchone()[0])
        return state if isinstance(state, dict) else None

    def add(self, agent: str, root: str, found: Sequence[tuple[Source, Counted]]) -> None:
        """Add what was counted in these sources: what is new in them, or everything. All of it, or nothing."""
        self._connection.execute("savepoint portion")
        try:
            folders = {path: self._folder(agent, root, path) for path in {source.folder for source, _ in found}}
            new: list[tuple[object, ...]] = []
            grown: list[tuple[object, ...]] = []
            calls: list[tuple[object, ...]] = []
            for source, counted in found:
                number = self._paths.get(source.path)
                problem = counted.problem and bound(counted.problem)
                state = fast_json.dumps(counted.state, separators=(",", ":"))
                values = (folders[source.folder], *source.stamp, state, problem)
                if number is None:
                    self._last_source = number = self._paths[source.path] = self._last_source + 1
                    new.append((*values, bound(source.path), number))
                else:
                    grown.append((*values, number))
                    if counted.anew:
                        self._clear(number)
                calls += self._calls(number, agent, counted)
            self._write(new, grown, calls)
        except BaseException:
            self._connection.execute("rollback to portion")
            self._paths, self._sessions, self._changed, self._no_sessions = {}, {}, {}, False
            raise
        finally:
            self._connection.execute("release portion")

    def _write(
        self,
        new: list[tuple[object, ...]],
        grown: list[tuple[object, ...]],
        calls: list[tuple[object, ...]],
    ) -> None:
        """Write many rows per statement: one statement per source took an eighth of a first count of ten thousand."""
        write = self._connection.executemany
        write(
            "insert into source (folder, inode, size, written, changed, state, problem, path, id) "
            "values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            new,
        )
        write(
            "update source set (folder, inode, size, written, changed, state, problem) = (?, ?, ?, ?, ?, ?, ?) "
            "where id = ?",
            grown,
        )
        write(
            f"insert into session (id, agent, name, parent, cwd, paid_until) values (?, ?, ?, ?, ?, {NO_SLOT}) "
            "on conflict (id) do update set parent = excluded.parent, cwd = excluded.cwd",
            [
                (one.number, agent, bound(name), one.parent, one.cwd and bound(one.cwd))
                for (agent, name), one in self._changed.items()
            ],
        )
        self._changed.clear()
        write(
            f"insert into call (source, key, session, model, slot, paid, {COLUMNS}, cost, counts) "
            f"values ({'?, ' * (7 + len(SPENT_FIELDS))} 1) on conflict (source, key) do update set {CHANGED}",
            calls,
        )

    def mark(self, agent: str, root: str, folder: str, mark: bytes) -> None:
        """Note that all of a folder was counted when it had this mark, and that nothing in it needs another look."""
        self._folder(agent, root, folder, mark)

    def _folder(self, agent: str, root: str, path: str, mark: bytes | None = None) -> int:
        self._connection.execute(
            "insert into folder (agent, root, path, mark) values (?, ?, ?, ?) on conflict (path) do update set "
            "agent = excluded.agent, root = excluded.root, mark = excluded.mark",
            (agent, bound(root), bound(path), mark),
        )
        return self._number("select id from folder where path = ?", (bound(path),)) or 0

    def _calls(self, number: int, agent: str, counted: Counted) -> list[tuple[object, ...]]:
        """Note the sessions of a source, and return the rows of its calls."""
        for name, facts in counted.sessions.items():
            self._note_session(agent, name, facts)
        if not counted.spent:
            return []
        known = {}
        if not counted.anew:
            known = self._known(number, [item.key for item in counted.spent if isinstance(item, Spent)])
        calls = settle(counted.spent, known)
        self._stale.add(number)
        if not self._empty:
            self._keys.update(calls)
        numbers = {name: self._session(agent, name).number for name in {call.session for call in calls.values()}}
        return [
            (
                number,
                call.key,
                numbers[call.session],
                bound(call.model or ""),
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

    def _session(self, agent: str, name: str) -> Noted:
        if (found := self._sessions.get((agent, name))) is None:
            found = self._session_in_file(agent, name)
            if found is None:
                self._last_session += 1
                found = self._changed[agent, name] = Noted(self._last_session)
            self._sessions[agent, name] = found
        return found

    def _session_in_file(self, agent: str, name: str) -> Noted | None:
        if self._no_sessions:
            return None  # all sessions are from this transaction
        row = self._connection.execute(
            "select id, parent, cwd from session where agent = ? and name = ?", (agent, bound(name))
        ).fetchone()
        return None if row is None else Noted(row[0], row[1], row[2] and unbound(row[2]))

    def _note_session(self, agent: str, name: str, facts: Facts) -> None:
        session = self._session(agent, name)
        parent, cwd = session.parent, facts.cwd or session.cwd
        if facts.parent and facts.parent != name:
            parent, self._related = self._session(agent, facts.parent).number, True
        if (parent, cwd) != (session.parent, session.cwd):
            session.parent, session.cwd = parent, cwd
            self._changed[agent, name] = session

    def _known(self, number: int, keys: list[int]) -> dict[int, Spent]:
        rows = self._connection.execute(
            f"select key, s.name, model, slot, paid, {COLUMNS}, cost from call join session s on s.id = session "
            f"where source = ? and (paid = ? or key in {AMONG})",
            (number, OPEN, str(keys)),
        )
        return {
            key: Spent(key, unbound(session), unbound(model), time_of(slot), (a, b, c, d, e), fresh, said, cost, paid)
            for key, session, model, slot, paid, a, b, c, d, e, fresh, said, cost in rows
        }

    def forget(self, paths: Iterable[str]) -> None:
        """Remove these sources."""
        for path in paths:
            number = self._paths.pop(path, None)
            if number is not None:
                self._clear(number)
                self._connection.execute("delete from source where id = ?", (number,))

    def forget_folder(self, path: str) -> None:
        self.forget(self.stamps(path))
        self._connection.execute("delete from folder where path = ?", (bound(path),))

    def _clear(self, number: int) -> None:
        """Remove the calls of a source. Mentions of the same calls in other sources may count now."""
        self._keys.update(
            key for (key,) in self._connection.execute("select key from call where source = ?", (number,))
        )
        self._connection.execute("delete from call where source = ?", (number,))
        self._stale.add(number)

    def _elect(self) -> None:
        """Choose the mention of each call that counts (a fork repeats the calls of another session): the one with the
        most tokens (a fork in mid-answer has only the beginning), then the one with the first path. Which one was read
        first does not matter: the answer must not depend on the history of the index."""
        changed = self._copies() if self._empty else self._re_elected()
        changed.sort(key=lambda row: row[1:])  # in the order of the file
        self._connection.executemany("update call set counts = ? where source = ? and key = ?", changed)
        self._stale.update(source for _, source, _ in changed)
        self._keys = set()

    def _re_elected(self) -> list[tuple[int, int, int]]:
        """Return (does it count, source, key) for each mention for which that has changed."""
        many = len(self._keys) > MANY_KEYS  # then look at all of them
        among = "" if many else f"where key in {AMONG}"
        return self._connection.execute(
            "select elected, source, key from (select c.source, c.key, c.counts, row_number() over (partition by c.key "
            f"order by {WEIGHT} desc, s.path) = 1 "
            "as elected from call c join source s on s.id = c.source where c.key in (select key from call "
            f"{among} group by key having count(*) > 1 or max(counts) = 0)) where elected is not counts",
            () if many else (str(list(self._keys)),),
        ).fetchall()

    def _copies(self) -> list[tuple[int, int, int]]:
        """The same if nothing was counted before: all mentions of each call except one. SQLite would sort all of them
        twice, which takes 2.5 times as long."""
        paths = dict(self._connection.execute("select id, path from source"))
        elected: dict[int, tuple[int, int]] = {}
        found = []
        for source, key, weight in self._connection.execute(f"select source, key, {WEIGHT} from call c"):
            other = elected.get(key)
            if other is None or weight > other[0] or (weight == other[0] and paths[source] < paths[other[1]]):
                elected[key] = weight, source
            else:
                other = weight, source
            if other is not None:
                found.append((0, other[1], key))
        return found
