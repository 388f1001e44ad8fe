"""Answer what was spent: count what is new in every store, then ask the index for the sums.

It looks at no process, and says nothing about a status.
"""

from __future__ import annotations

import os
import time

from agentctl.agents import faults_of, load_usage
from agentctl.agents.usage_base import Source
from agentctl.files.bounded import check_absent
from agentctl.files.reader import Reader, is_below
from agentctl.kernel.stall_guard import Errand, in_parallel
from agentctl.model import Problem, Value
from agentctl.query import roots
from agentctl.query.store_reader import CLOCK_GRAIN
from agentctl.usage import db
from agentctl.usage.db import BROKEN
from agentctl.usage.index import Index
from agentctl.usage.report import in_order, rows_of
from agentctl.usage.sums import LAST_SLOT, SLOT, Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from agentctl.agents.base import Agent
    from agentctl.agents.usage_base import Counted, Folder
    from agentctl.usage.report import Price, Row
    from agentctl.usage.sums import Known, Sum

    Marks = dict[tuple[str, str], dict[str, bytes | None]]
    Tell = Callable[[int, int], None]  # bytes counted, and of how many

AT_ONCE = 64 * 1024 * 1024  # bytes that are counted before the index gets them: their calls must fit into memory
MANY_AT_ONCE = 1000
DAY = 24 * 60 * 60


class Question(Value):
    by: str
    since: float | None = None  # to the quarter of an hour
    until: float | None = None


class Spending(Value):
    rows: tuple[Row, ...]
    total: Row
    problems: tuple[Problem, ...]


def spent(question: Question, agents: list[Agent], prices: list[Price], env: Mapping[str, str], tell: Tell) -> Spending:
    """Bring the index up to date and answer from it. If it is damaged, make a new one; if that fails, one in memory."""
    path = db.index_path(env)
    for _ in range(2):
        index = Index(db.opened(path))
        try:
            return answer(index, question, agents, prices, env, tell)
        except BROKEN as error:
            if db.is_busy(error):
                break  # it is not damaged: another process is using it
            db.remove(path)
        finally:
            index.close()
    index = Index(db.in_memory())
    try:
        return answer(index, question, agents, prices, env, tell)
    finally:
        index.close()


def answer(
    index: Index, question: Question, agents: list[Agent], prices: list[Price], env: Mapping[str, str], tell: Tell
) -> Spending:
    faults = faults_of(agents)
    failed = [fault.agent for fault in faults]  # what was counted of them is neither shown nor forgotten
    agents = [agent for agent in agents if agent.NAME not in failed]
    places = roots.places(agents, env)
    stores = look_through(agents, places)
    problems = [*(Problem(fault.agent, fault.why) for fault in faults), *places.problems]
    problems += bring_up_to_date(index, agents, stores, tell)
    groups: dict[tuple[str, str], str] = {}
    if question.by == "group":
        groups, more = groups_of(env)
        problems += more
    span = Span(
        tuple(agent.NAME for agent in agents),
        None if question.since is None else int(question.since // SLOT),
        None if question.until is None else -int(-question.until // SLOT),
        tuple(store.root for store in stores if store.unread),
    )
    rows, sums = rows_by(index, question.by, span, prices, groups)
    total = rows_of(sums, lambda one: None, prices, at_least_one=True)[0]
    told = [problem for problem in problems if not is_below(problem.path or "", places.ignored)]
    return Spending(tuple(in_order(rows, question.by)), total, tuple(dict.fromkeys(told)))


# Reading the stores


class Store(Errand):
    """One root of one agent, and what can be counted in it."""

    def __init__(self, agent: str, root: str, expected: str | None = None, ignored: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.agent, self.root = agent, root
        self.expected = expected  # why it is a problem if it is not there
        self.files = Reader(agent, root, ignored)
        self.usage = load_usage(agent)
        self.folders: dict[str, tuple[Folder, bytes]] = {}  # by path, with its mark
        self.problems: list[Problem] = []
        self.looked_at = 0.0

    def list_folders(self) -> None:
        self.looked_at = time.time()
        check_absent(self.root)  # a store behind a link that leads nowhere cannot be read
        if self.expected is not None and not os.path.lexists(self.root):
            raise OSError(self.expected)
        for folder in self.usage.folders(self.files, self.problems):
            self.folders[folder.path] = folder, folder.mark()
            self.progress += 1

    def tick(self) -> None:
        self.progress += 1

    def settled(self, source: Source) -> Source:
        """Return the source with a stamp that never matches if it was written a moment ago: it may be written again
        within the same tick of its clock, so it has to be counted again."""
        inode, size, written, _ = source.stamp
        if written / 1e9 < self.looked_at - CLOCK_GRAIN:
            return source
        return Source(source.path, (inode, size, 0, 0), source.session, source.parent, source.folder)


class Work(Value):
    """What has to be counted in a store."""

    store: Store
    folders: list[str]  # the paths of the folders with changes
    sources: list[Source]


def look_through(agents: list[Agent], places: roots.Places) -> list[Store]:
    """List the folders of all stores, each root in its own thread."""
    stores = [
        Store(agent.NAME, root, places.expected.get(root), places.ignored)
        for agent in agents
        for root in places.roots.get(agent.NAME, ())
    ]
    in_parallel([(store, store.list_folders) for store in stores])
    seen: set[str] = set()
    for store in stores:
        store.folders = {path: found for path, found in list(store.folders.items()) if path not in seen}
        seen.update(store.folders)
    return stores


def bring_up_to_date(index: Index, agents: list[Agent], stores: list[Store], tell: Tell) -> list[Problem]:
    """Count what is new, and return the problems. If nothing is new, nothing is written."""
    names = [agent.NAME for agent in agents]
    marks = index.marks(names)
    if any(changes(stores, marks)):
        if index.begin():
            marks = index.marks(names)  # another process was faster
        changed, gone = changes(stores, marks)
        for path in gone:
            index.forget_folder(path)
        try:
            count_all(index, [new_in(index, store, folders) for store, folders in changed], tell)
        except KeyboardInterrupt:
            index.commit()  # keep what was counted so far
            raise
        index.commit()
    found = [Problem(store.agent, store.unread, store.root) for store in stores if store.unread]
    found += [gap.problem for store in stores for gap in store.files.gaps]
    return [*found, *(problem for store in stores for problem in list(store.problems)), *index.problems(names)]


def changes(stores: list[Store], marks: Marks) -> tuple[list[tuple[Store, list[str]]], list[str]]:
    """Return the folders with changes, by store, and the paths of those that no longer exist."""
    changed, gone, here = [], [], set[tuple[str, str]]()
    for store in stores:
        here.add((store.agent, store.root))
        if store.unread:
            continue
        noted = marks.get((store.agent, store.root), {})
        found = [path for path, (_, mark) in store.folders.items() if noted.get(path) != mark]
        if found:
            changed.append((store, found))
        gone += [path for path in noted if path not in store.folders]
    gone += [path for place, noted in marks.items() if place not in here for path in noted]
    return changed, gone


def new_in(index: Index, store: Store, folders: list[str]) -> Work:
    """Return the sources that are new or have changed. Removes those that are gone from the index."""
    sources = []
    for path in folders:
        folder, _ = store.folders[path]
        noted = index.stamps(path)
        index.forget(noted.keys() - folder.paths())
        sources += folder.changed(noted)
    return Work(store, folders, sources)


def count_all(index: Index, work: list[Work], tell: Tell) -> None:
    """Count in portions: each in a thread, which is abandoned if the store stalls, and then into the index."""
    whole, done = sum(source.stamp[1] for one in work for source in one.sources), 0
    for one in work:
        store, unsure = one.store, set[str]()  # folders that have to be counted again
        for portion in portions(one.sources):
            tell(done, whole)
            states = {source.path: index.state(source.path) for source in portion}
            counted: list[tuple[Source, Counted | OSError]] = []
            in_parallel([(store, count_portion(store, portion, states, counted))])
            found = []
            for source, result in list(counted):
                as_noted = store.settled(source)
                if isinstance(result, OSError) or as_noted is not source:
                    unsure.add(source.folder)
                if not isinstance(result, OSError):
                    found.append((as_noted, result))
                    continue
                index.forget([source.path])
                if not isinstance(result, FileNotFoundError):
                    store.problems.append(Problem(store.agent, result.strerror or str(result), source.path))
            index.add(store.agent, store.root, found)
            if store.unread:
                break
            done += sum(source.stamp[1] for source in portion)
        for path in one.folders if not store.unread else ():
            if path not in unsure:
                index.mark(store.agent, store.root, path, store.folders[path][1])
    tell(whole, whole)


def portions(sources: list[Source]) -> Iterator[list[Source]]:
    portion: list[Source] = []
    size = 0
    for source in sources:
        portion.append(source)
        size += source.stamp[1]
        if size >= AT_ONCE or len(portion) >= MANY_AT_ONCE:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


def count_portion(
    store: Store,
    portion: list[Source],
    states: Mapping[str, dict[str, Any] | None],
    counted: list[tuple[Source, Counted | OSError]],
) -> Callable[[], None]:
    def run() -> None:
        for source in portion:
            try:
                counted.append((source, store.usage.count(source, states.get(source.path), store.tick)))
            except OSError as error:
                counted.append((source, error))
            store.tick()

    return run


# By day, agent, model, session, project or group


def rows_by(
    index: Index, by: str, span: Span, prices: list[Price], groups: Mapping[tuple[str, str], str]
) -> tuple[list[Row], list[Sum]]:
    """Return the rows, and the sums that they were made from."""
    if by in ("day", "agent", "model"):
        offsets = zone(*index.slots()) if by == "day" else []
        sums = index.sums(by, span, offsets)
        return rows_of(sums, lambda one: label(one.heading), prices), sums
    known, sums = index.sessions(), index.sums("session", span)
    keys = {one.heading: key_of(by, known[int(one.heading or 0)], groups) for one in sums}
    rows = rows_of(sums, lambda one: keys[one.heading], prices)
    if by == "session":
        named = {known[int(head or 0)].id: known[int(head or 0)] for head in keys}
        rows = [row._replace(session=named.get(row.key or "")) for row in rows]
    return rows, sums


def key_of(by: str, session: Known, groups: Mapping[tuple[str, str], str]) -> str | None:
    if by == "session":
        return session.id
    return session.cwd if by == "project" else groups.get((session.agent, session.top))


def label(head: int | str | None) -> str | None:
    """Return a heading as text; a number is a day since 1970."""
    return time.strftime("%Y-%m-%d", time.gmtime(head * DAY)) if isinstance(head, int) else head


def zone(first: int, last: int) -> list[tuple[int, int]]:
    """Return the offsets of the local time zone between two slots: (slot, the offset in slots that holds before it)."""
    found = []
    slot, step = first, DAY // SLOT
    shift = shift_at(slot)
    while slot < last:
        after = min(slot + step, last)
        if shift_at(after) != shift:
            while after - slot > 1:  # find the slot in which it changes
                middle = (slot + after) // 2
                slot, after = (middle, after) if shift_at(middle) == shift else (slot, middle)
            found.append((after, shift))
            shift = shift_at(after)
        slot = after
    return [*found, (LAST_SLOT, shift)]


def shift_at(slot: int) -> int:
    return time.localtime(slot * SLOT).tm_gmtoff // SLOT


def groups_of(env: Mapping[str, str]) -> tuple[dict[tuple[str, str], str], list[Problem]]:
    """Return the group of each (agent, session id) that was launched in one, and the problems."""
    import os

    from agentctl.launches import records
    from agentctl.query.attribution import printed_in

    kept, problems = records.read_all(env)
    found = {}
    for launch in kept:
        if launch.group:
            folder = os.path.dirname(launch.path or "")
            id = launch.session_id or (printed_in(folder, launch.agent, problems) if launch.one_shot else None)
            if id:
                found[launch.agent, id] = launch.group
    return found, problems
