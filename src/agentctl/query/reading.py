"""One store as far as it was read, and the threads that read it: none of them can hold up the others.

A store on a dead mount blocks every thread that touches it, even if it only asks for the real path. So the code in this
room and in the agents touches paths below a store only in these threads.
"""

from __future__ import annotations

import os

from agentctl.agents.base import Store
from agentctl.files.bounded import check_absent
from agentctl.files.reader import is_below
from agentctl.kernel.stall_guard import gather
from agentctl.model import Problem, Record, Value
from agentctl.query import roots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
    from typing import TypeVar

    from agentctl.agents.base import Agent
    from agentctl.kernel.stall_guard import Failure
    from agentctl.model import Gap, Link, ProcessKey, Supervisor
    from agentctl.query.strangers import Doubt

    T = TypeVar("T")
    Readings = tuple["Reading", ...]

RECENT = 7 * 24 * 60 * 60
Stamp = tuple[int, int]  # (when it was written in ns, size) of a record


class Scope(Value):
    """What is asked for. It chooses what is shown and read, never what is true."""

    agents: tuple[str, ...] | None = None
    since: float | None = None  # None: only what is alive or unknown
    prefix: str | None = None
    ids: tuple[str, ...] | None = None  # exactly these sessions
    also: frozenset[tuple[str, str]] = frozenset()  # (agent, id): sessions that are shown whenever they ended
    children: bool = False
    tokens: bool = False
    brief: bool = False  # of stored sessions only what the row of a table shows
    strict: bool = False  # however old: read every session that may be alive without a process that we see
    related_launches_only: bool = False  # leave out launches of no live process and no judged session: faster


class Unopened(Store):
    """A store that nobody has opened yet, or that is not there: its module is not even imported."""

    def recent(self, since: float) -> Iterable[str]:
        return ()

    def record(self, id: str, *, tokens: bool = False) -> Record | None:
        return None


class Options(Value):
    """What a store says of a live process: its role, and the sessions that it can be on."""

    role: str
    ids: tuple[str, ...] | None  # None: they cannot be narrowed down
    sole: bool  # may a single candidate be taken for its session?
    why: str
    shows: frozenset[str] = frozenset()  # those that its screen may show without a trace
    unlikely: frozenset[str] = frozenset()  # those that only hints speak against: see `Claim.unlikely`


class Reading(Value):
    """One store of one agent, as far as it was read."""

    agent: Agent
    store: Store
    expected: str | None = None  # why it is a problem if it is not there; None: an agent that was never used has none
    absent: bool = False  # the agent was never used here
    unread: str | None = None  # why it could not be read, or not to the end
    stalled: bool = False  # it did not answer in time
    ignored: tuple[str, ...] = ()  # paths below which a person accepts every gap
    noted: tuple[int, int] | None = None  # which folder it was when it was seen with sessions: device and inode
    identity: tuple[int, int] | None = None  # of its folder: two paths may lead to one store
    elsewhere: tuple[str, ...] = ()  # what its files name as the store of its agent's processes
    incomplete: str | None = None  # why a missing process proves nothing here
    links: tuple[Link, ...] = ()
    supervisors: tuple[Supervisor, ...] = ()
    options: Mapping[ProcessKey, Options] = {}  # of the live processes that may work here
    doubts: tuple[Doubt, ...] = ()  # live processes of no known name for which something speaks here
    has: bool = False  # the very session that is asked for, by its whole id
    records: Mapping[str, Record] = {}
    asked: frozenset[str] = frozenset()  # the sessions whose record was asked for
    stamps: Mapping[str, Stamp] = {}
    problems: tuple[Problem, ...] = ()  # what was wrong with its answers; the store has its own

    @property
    def usable(self) -> bool:
        return not self.absent and self.unread is None

    @property
    def gaps(self) -> tuple[Gap, ...]:
        return self.store.reader.gaps

    @property
    def name(self) -> tuple[str, str]:
        return (self.agent.NAME, self.store.root)


def ask(
    readings: Iterable[Reading],
    job: Callable[[Reading], Iterator[T]],
    add: Callable[[Reading, Sequence[T]], Reading],
    tell: Callable[[], None] | None = None,
) -> Readings:
    """Run the job for every usable store, in threads. Return all readings, each with what its job has yielded added,
    and with why the job failed if it did. `tell` is called again and again meanwhile."""
    readings = tuple(readings)
    outcomes = iter(gather([job(reading) for reading in readings if reading.usable], tell))
    return tuple(after(reading, add, *next(outcomes)) if reading.usable else reading for reading in readings)


def after(
    reading: Reading, add: Callable[[Reading, Sequence[T]], Reading], items: Sequence[T], failure: Failure | None
) -> Reading:
    reading = add(reading, items)
    if failure is None:
        return reading
    if is_below(reading.store.root, reading.ignored):
        return reading._replace(absent=True, stalled=failure.stalled)  # a person accepts that
    of_all = f"; {len(reading.records)} of {len(reading.asked)} sessions were read" if reading.asked else ""
    return reading._replace(unread=failure.why + of_all, stalled=failure.stalled)


def latest(reading: Reading, steps: Sequence[Reading]) -> Reading:
    """Return the last step. For jobs that yield the reading itself after each step."""
    return steps[-1] if steps else reading


# Opening the stores


def survey(
    agents: list[Agent],
    known: Mapping[str, list[str]],
    stalled: Mapping[tuple[str, str], str],
    expected: Mapping[str, str] = {},
    ignored: tuple[str, ...] = (),
    folders: Mapping[tuple[str, str], tuple[int, int]] = {},
) -> Readings:
    """Open every store and read what names processes. `stalled`: those that did not answer a moment ago, and why.
    `expected`: the roots that must be there, and what to say of one that is not. `ignored`: paths below which a person
    accepts that something cannot be read. `folders`: by (agent, root), which folder each was with sessions in it."""
    readings = [
        Reading(
            agent,
            Unopened(root),
            expected=expected.get(root),
            ignored=ignored,
            noted=folders.get((agent.NAME, root)),
        )
        for agent in agents
        for root in known.get(agent.NAME, ())
    ]
    return ask([given_up(reading, stalled.get(reading.name)) for reading in readings], open_store, latest)


def given_up(reading: Reading, why: str | None) -> Reading:
    return reading if why is None else reading._replace(unread=why, stalled=True)


def open_store(reading: Reading) -> Iterator[Reading]:
    root = reading.store.root
    try:
        os.stat(root)
    except FileNotFoundError:
        check_absent(root)  # a link that leads nowhere: somebody has a store there, on a disk that is not mounted now
        if reading.noted is not None and roots.device_above(root) not in (None, reading.noted[0]):
            raise OSError(reading.expected or roots.away(root)) from None
        yield not_there(reading)
        return
    reading = reading._replace(identity=roots.identity(root))
    yield reading
    store = reading.agent.open_store(root)
    store.reader.agent, store.reader.ignored = reading.agent.NAME, reading.ignored
    reading = reading._replace(store=store)
    yield reading
    try:
        reading.store.survey()
    except FileNotFoundError:
        if os.path.lexists(root):
            raise
        yield not_there(reading)  # it was removed at this moment
        return
    if is_on_another_disk(reading) and next(iter(store.recent(0.0)), None) is None:
        raise OSError(roots.away(root))
    yield reading._replace(elsewhere=tuple(path for path in store.elsewhere if os.path.isabs(path)))


def is_on_another_disk(reading: Reading) -> bool:
    """Return whether a store was seen with sessions on another device. Its number may change when the machine boots, so
    that alone says nothing."""
    return reading.noted is not None and reading.identity is not None and reading.identity[0] != reading.noted[0]


def with_new_names(readings: Iterable[Reading]) -> Readings:
    """Return the readings, in which a store that is missing and whose very folder has another known name is absent: it
    was renamed for a while, and is read under its name."""
    readings = tuple(readings)
    there = {(reading.agent.NAME, reading.identity) for reading in readings if reading.identity is not None}
    return tuple(
        reading._replace(absent=True, unread=None) if is_renamed(reading, there) else reading for reading in readings
    )


def is_renamed(reading: Reading, there: Container[tuple[str, tuple[int, int] | None]]) -> bool:
    if reading.noted is None or reading.identity is not None or reading.unread != reading.expected:
        return False
    return reading.expected is not None and (reading.agent.NAME, reading.noted) in there


def not_there(reading: Reading) -> Reading:
    """Return the reading of a store that is not there. Raises OSError if it must be there: that is no absence."""
    if reading.expected is not None:
        raise OSError(reading.expected)
    return reading._replace(absent=True)


def without_copies(readings: Iterable[Reading]) -> Readings:
    """Return each store once: two paths may lead to one store."""
    seen: set[tuple[str, tuple[int, int]]] = set()
    distinct = []
    for reading in readings:
        if reading.identity is None or (reading.agent.NAME, reading.identity) not in seen:
            distinct.append(reading)
        if reading.identity is not None:
            seen.add((reading.agent.NAME, reading.identity))
    return tuple(distinct)
