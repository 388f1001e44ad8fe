"""The sums in the usage index: made from the calls, in the same transaction, and only for sources that have changed.

Every answer is made from sums; no call is read for it. `sum` has a row for each source, session, model and slot.
`slice` has one row for all sources and sessions of a slot, with the numbers of the sessions as a text: it answers the
questions by day, agent and model.
"""

from __future__ import annotations

from agentctl.agents.usage_base import OPEN, PAID, SPENT_FIELDS
from agentctl.model import Value, top_of
from agentctl.usage.db import bound, unbound

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

SLOT = 900  # seconds: all time zones are whole quarters of an hour apart, so days can be cut in any of them
SLOTS_A_DAY = 86400 // SLOT
NO_SLOT = -1  # for calls without a time
LAST_SLOT = 10**9

SUMS = ", ".join(f"sum({name})" for name in (*SPENT_FIELDS, "cost"))
AMONG = "(select value from json_each(?))"  # takes str() of a list of integers


class Sum(Value):
    """What was spent under one heading with one model."""

    heading: int | str | None  # a day (since 1970, local), an agent, a model, or the number of a session
    agent: str
    model: str | None
    settled: bool  # its cost is on record
    counts: tuple[int | None, ...]  # SPENT_FIELDS
    cost: float | None
    tops: str  # the numbers of its sessions; a sub-agent counts as its parent


class Known(Value):
    """What the index knows about a session."""

    agent: str
    id: str
    parent: str | None
    top: str
    cwd: str | None


class Span(Value):
    """What a question covers: the slots from `first` up to, but not including, `end`. Without both: everything, also
    calls without a time."""

    agents: tuple[str, ...]
    first: int | None = None
    end: int | None = None
    left_out: tuple[str, ...] = ()  # roots that cannot be read now


class Sums:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    # Making sums

    def _add_up(self, stale: set[int] | None, *, related: bool) -> None:
        """Sum these sources again (None: all), and those of sub-agents whose cost is on record up to another time than
        before. `related`: a sub-agent was noted."""
        if related:
            moved = self._find_tops()
            stale = None if stale is None else stale | self._sources_of(moved)
        touched = self._sum(stale)
        late = self._sum(self._settle_children())
        self._slice(None if touched is None or late is None else touched | late)

    def _sum(self, sources: set[int] | None) -> set[int] | None:
        """Sum these sources; return the slots with changes. None: perhaps all."""
        if sources is not None and not sources:
            return set()
        among = f" source in {AMONG}"
        values = () if sources is None else (str(sorted(sources)),)
        before = None if sources is None else self._sums_of(values)
        self._connection.execute(f"delete from sum{'' if sources is None else f' where{among}'}", values)
        self._connection.execute(
            "insert into sum select slot, source, session, model, paid, n.agent, coalesce(n.top, n.id), "
            f"paid = {PAID} or (paid = {OPEN} and slot between 0 and n.paid_until), {SUMS} "
            "from call join session n on n.id = session "
            f"where counts = 1{'' if sources is None else f' and{among}'} group by source, session, model, slot, paid",
            values,
        )
        return None if before is None else {row[0] for row in before ^ self._sums_of(values)}

    def _sums_of(self, sources: tuple[str, ...]) -> set[tuple[int, ...]]:
        return set(self._connection.execute(f"select * from sum where source in {AMONG}", sources))

    def _slice(self, slots: set[int] | None) -> None:
        where = "" if slots is None else f"where slot in {AMONG}"
        values = () if slots is None else (str(sorted(slots)),)
        self._connection.execute(f"delete from slice {where}", values)
        self._connection.execute(
            f"insert into slice select slot, agent, model, settled, {SUMS}, group_concat(distinct top) "
            f"from sum {where} group by slot, agent, model, settled",
            values,
        )

    def _find_tops(self) -> list[int]:
        """Find the top session of each sub-agent, at any depth; return the sessions for which it has changed."""
        rows = self._connection.execute("select id, parent, top from session where parent is not null").fetchall()
        parents = {number: parent for number, parent, _ in rows}
        moved = [(top, number) for number, _, before in rows if (top := top_of(number, parents)) != before]
        self._connection.executemany("update session set top = ? where id = ?", moved)
        return [number for _, number in moved]

    def _settle_children(self) -> set[int]:
        """Note up to when the cost of each sub-agent is on record: it runs inside its parent, whose running total
        includes it. Return the sources of the sub-agents for which that has changed."""
        rows = self._connection.execute(
            "select n.id, n.paid_until, max(s.slot) from session n indexed by session_parent "
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

    def _number(self, query: str, values: tuple[object, ...]) -> int | None:
        row = self._connection.execute(query, values).fetchone()
        return None if row is None or row[0] is None else int(row[0])

    # Reading sums

    def slots(self) -> tuple[int, int]:
        """Return the first and the last slot in which anything was spent."""
        first = self._number("select min(slot) from sum where slot >= 0", ())
        last = self._number("select max(slot) from sum where slot >= 0", ())
        return (first, last) if first is not None and last is not None else (0, 0)

    def sums(self, by: str, span: Span, offsets: Sequence[tuple[int, int]] = ((LAST_SLOT, 0),)) -> list[Sum]:
        """Return the sums by day, agent, model or session. `offsets`: of the time zone, as zone() returns them."""
        where, values = asked(span)
        table, tops = ("sum", "distinct top") if by == "session" or span.left_out else ("slice", "tops")
        rows = self._connection.execute(
            f"select {heading(by, offsets)}, agent, model, settled, group_concat({tops}), {SUMS} from {table} "
            f"where {where} group by 1, 2, 3, 4",
            values,
        )
        return [
            Sum(
                unbound(head) if by == "model" and head else head,
                agent,
                unbound(model) or None,
                bool(settled),
                tuple(counts),
                cost,
                tops,
            )
            for head, agent, model, settled, tops, *counts, cost in rows
        ]

    def sessions(self) -> dict[int, Known]:
        rows = self._connection.execute(
            "select n.id, n.agent, n.name, p.name, t.name, n.cwd from session n left join session p on p.id = n.parent "
            "left join session t on t.id = n.top"
        )
        return {
            number: Known(agent, unbound(name), parent and unbound(parent), unbound(top or name), cwd and unbound(cwd))
            for number, agent, name, parent, top, cwd in rows
        }


def heading(by: str, offsets: Sequence[tuple[int, int]]) -> str:
    if by != "day":
        return {"agent": "agent", "model": "nullif(model, '')", "session": "session"}[by]
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
        values += map(bound, span.left_out)
    return " and ".join(where), values


def slot_of(at: float | None) -> int:
    return NO_SLOT if at is None else int(at // SLOT)


def time_of(slot: int) -> float | None:
    return None if slot == NO_SLOT else float(slot * SLOT)
