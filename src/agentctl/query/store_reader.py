"""Reads the stores, each in its own thread, so that none of them can hold up the others.

A store on a dead mount blocks every thread that touches it, even if it only asks for the real path. So the code here,
in the agents and in roots.py touches paths below a store only in these threads. Each phase takes the readings as the
phase before left them, and returns them with what it read. A store that failed in one phase keeps what it said before,
and is not asked again.
"""

from __future__ import annotations

import os
import time

from agentctl.agents.asking import words_for
from agentctl.files.bounded import is_session_id
from agentctl.kernel.stall_guard import gather
from agentctl.model import CLIENT, SESSIONS, UNKNOWN, WAITING, WORKING, WRAPPER, Problem, Record, Value
from agentctl.query import ages
from agentctl.query.candidates import processes_of
from agentctl.query.count import Count
from agentctl.query.gaps import unseen_sessions, why_unseen
from agentctl.query.reading import RECENT, Options, Reading, Scope, ask, latest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from agentctl.agents.base import Store
    from agentctl.kernel.processes import Processes
    from agentctl.model import Claim, Details, Link, Process
    from agentctl.query.candidates import Claimed
    from agentctl.query.reading import Readings, Stamp
    from agentctl.query.strangers import Stranger

    # What comes of reading records: the ids that are asked for; for each record (id, record, the name of its file, the
    # stamp of that), a plain tuple, for there are thousands; what is wrong with an answer; None, to show progress.
    Answer = list[str] | tuple[str, Record, str, Stamp | None] | Problem | None

MANY = 50  # records: fewer are read themselves at once
CLOCK_GRAIN = 0.02  # file times are taken from the kernel's coarse clock, up to a tick behind


# Who is on which session


def link_stores(readings: Readings, located: Sequence[Claimed], processes: Processes) -> Readings:
    """Ask each store which process is on which session, and which sessions the others can be on."""
    return ask(readings, lambda reading: link(reading, processes_of(reading, located), processes), latest)


def doubt_stores(readings: Readings, strangers: Sequence[Stranger], processes: Processes) -> Readings:
    """Ask each store what speaks for the processes that no agent recognises."""
    if not strangers:
        return readings
    from agentctl.query.strangers import doubts_in

    return ask(
        readings,
        lambda reading: doubts_in(reading, strangers, processes),
        lambda reading, doubts: reading._replace(doubts=(*reading.doubts, *doubts)),
    )


def link(reading: Reading, live: list[tuple[Process, Details, str]], processes: Processes) -> Iterator[Reading]:
    """Yield the reading after each answer of its store. `live`: (process, details, role) of the live processes that may
    work in this store."""
    store = reading.store
    reading = reading._replace(incomplete=processes.incomplete_for(store.root))
    yield reading
    links = store.links(processes)
    named = tuple(link for link in links if is_session_id(link.id))
    reading = with_bad_names(reading, (link.id for link in links))._replace(links=named)
    yield reading
    supervisors = store.supervisors(processes)
    bosses = tuple(boss for boss in supervisors if is_session_id(boss.id))
    reading = with_bad_names(reading, (boss.id for boss in supervisors))._replace(supervisors=bosses)
    yield reading
    for folder in store.session_folders():
        store.reader.check(folder)
    # What hides who is on which session: then a missing process proves nothing, and more sessions have to be looked at.
    reading = reading._replace(incomplete=reading.incomplete or why_unseen(reading.gaps))
    yield reading
    linked = {link.key for link in reading.links if link.left is None}
    for process, details, role in live:
        shows = frozenset() if role == WRAPPER else frozenset(store.screen(process, details))
        if role == CLIENT:
            options = Options(role, (), False, "", shows)
            reading = reading._replace(options={**reading.options, process.key: options}) if shows else reading
        elif process.key not in linked or reading.agent.RUNS_MANY:
            role = store.role(process, details, role, processes)
            options, ids = options_of(store, process, details, processes)
            options = options._replace(role=role, shows=shows)
            reading = with_bad_names(reading, ids)._replace(options={**reading.options, process.key: options})
        yield reading


def options_of(
    store: Store, process: Process, details: Details, processes: Processes
) -> tuple[Options, tuple[str, ...]]:
    """Return the sessions that a live process without a link can be on, and all that its store named."""
    started_at, failures = processes.started_at(process.key), store.reader.failures
    candidates = store.candidates(process, details, started_at)
    sole = candidates.sole and store.reader.failures == failures  # else another session may be hidden
    if candidates.ids is None:
        return Options("", None, sole, candidates.why), ()
    ids = tuple(id for id in candidates.ids if is_session_id(id))
    possible = {id for id in store.possible(process, started_at) if is_session_id(id)}
    return Options("", ids, sole, candidates.why, unlikely=frozenset(possible.difference(ids))), candidates.ids


def with_bad_names(reading: Reading, ids: Iterable[str]) -> Reading:
    """Return the reading with a problem for each of these that cannot be the id of a session. It is not followed."""
    problems = [bad_name(reading, id) for id in ids if not is_session_id(id)]
    return reading._replace(problems=(*reading.problems, *problems)) if problems else reading


def bad_name(reading: Reading, id: str) -> Problem:
    return Problem(reading.agent.NAME, f"no name for a session: {id[:80]!r}", reading.store.root)


# Records


class Question(Value):
    """What the records are read for."""

    scope: Scope
    claims: tuple[Claim, ...]
    processes: Processes
    stamps: Mapping[str, Stamp]  # of the records, as an earlier look saw them
    cache: str | None = None  # a folder for what can be derived from stored records
    tell: Callable[[int, int], None] | None = None  # is told how many records were read, and of how many
    handed_on: tuple[tuple[str, str], ...] = ()  # (agent, id): sessions whose agents may run where we cannot look


def look_for(readings: Readings, id: str) -> Readings:
    """Mark the stores that have the session of this very id. Usually one store has it, and then no store has to list
    the sessions whose ids begin like it."""

    def look(reading: Reading) -> Iterator[Reading]:
        yield reading._replace(has=reading.store.has(id))

    return ask(readings, look, latest) if is_session_id(id) else readings


def read_records(readings: Readings, question: Question) -> Readings:
    """Read the records that matter to the question."""
    whole_id = any(reading.has for reading in readings)
    count = Count(question.tell) if question.tell is not None else None

    def read(reading: Reading) -> Iterator[Answer]:
        found = answers(reading, question, whole_id=whole_id)
        return found if count is None else count.through(found)

    return ask(readings, read, with_answers, None if count is None else count.show)


def answers(reading: Reading, question: Question, *, whole_id: bool) -> Iterator[Answer]:
    """Yield what the store says of the sessions that matter: those that a process is or may be on, those that are asked
    for, their sub-agents, and the parents of all of them. `whole_id`: a store has the very session that is asked for,
    so it does not matter which others begin like it."""
    scope, store = question.scope, reading.store
    claims = [claim for claim in question.claims if claim.agent == reading.agent.NAME]
    claims = [claim for claim in claims if claim.store in (None, store.root)]
    matches = matches_in(reading, scope, whole_id=whole_id)
    asking = Asking(reading, question, tokens_of=with_tokens(scope, matches))
    alive = maybe_alive(reading, claims, question.processes)
    yield from asking.read((*alive, *handed_on_in(reading, question)))  # whatever a cache says of them
    stored: dict[str, None] = {}
    unsure = reading.incomplete is not None or any(claim.candidates is None for claim in claims)
    if scope.since is not None or unsure:
        for id in store.recent(oldest(scope, unsure=unsure)):
            stored[id] = None
            yield None
    if question.cache is not None and len(stored) >= MANY:
        from agentctl.files.record_cache import Derived

        derived = Derived(question.cache, reading.agent.NAME, store.root, brief=scope.brief)
        store.derived = derived if derived.load(len(stored)) else None
    yield from asking.read((*stored, *sorted(matches)))
    if store.derived is not None:
        store.derived.save(whole=scope.since == 0.0)
        store.derived = None
    if scope.children:
        yield from asking.read_children(scope.prefix or "")
    yield from asking.read_parents()


def handed_on_in(reading: Reading, question: Question) -> list[str]:
    """Return the sessions of this agent that may run where we cannot look."""
    return [id for agent, id in question.handed_on if agent == reading.agent.NAME]


def oldest(scope: Scope, *, unsure: bool) -> float:
    """Return since when sessions are read. `unsure`: any of them may be alive without a process that we see."""
    if unsure and scope.strict:
        return 0.0
    return time.time() - RECENT if scope.since is None else scope.since


def matches_in(reading: Reading, scope: Scope, *, whole_id: bool) -> set[str]:
    """Return the sessions of this store that are asked for by their id or the beginning of it."""
    matches = set(scope.ids or ())
    matches.update(id for agent, id in scope.also if agent == reading.agent.NAME)
    if scope.prefix is not None and whole_id:
        matches.update([scope.prefix] if reading.has else [])
    elif scope.prefix is not None:
        matches.update(reading.store.find(scope.prefix))
    return matches


def with_tokens(scope: Scope, matches: set[str]) -> set[str]:
    """Return the sessions whose tokens are counted, which takes long: only those that are surely meant."""
    if not scope.tokens:
        return set()
    return {*(scope.ids or ()), *(matches if len(matches) == 1 else ())}


def maybe_alive(reading: Reading, claims: list[Claim], processes: Processes) -> Iterable[str]:
    """Return the sessions that a process is on, or may be on. If its process is surely gone, a session has ended: it is
    read only if ended ones are asked for."""
    unsettled = [link for link in reading.links if not surely_gone(link, reading, processes)]
    ids = dict.fromkeys(link.id for link in unsettled)
    ids.update(dict.fromkeys(boss.id for boss in reading.supervisors if processes.alive(boss.key)))
    ids.update(dict.fromkeys(id for claim in claims for id in (*(claim.candidates or ()), *sorted(claim.unlikely))))
    ids.update(dict.fromkeys(id for id, _ in unseen_sessions(reading.gaps)))
    return ids


def surely_gone(link: Link, reading: Reading, processes: Processes) -> bool:
    return reading.incomplete is None and link.here is not False and processes.gone(link.key)


class Asking:
    """Asks one store for records, each once. It belongs to the thread that asks."""

    def __init__(self, reading: Reading, question: Question, tokens_of: Collection[str] = ()) -> None:
        self._reading = reading
        self._taken_at = question.processes.taken_at - CLOCK_GRAIN
        self._stamps = question.stamps
        self._tokens_of = tokens_of
        self._records: dict[str, Record] = {}
        self._asked: set[str] = set()
        self._linked = {link.id for link in reading.links}

    def read(self, ids: Iterable[str]) -> Iterator[Answer]:
        """Yield what the store says of these sessions."""
        store, records, tokens_of = self._reading.store, self._records, self._tokens_of
        taken_at, stamps = self._taken_at, self._stamps
        ids = list(ids)
        asked = [id for id in ids if is_session_id(id)]
        yield asked
        if len(asked) < len(ids):
            yield from [bad_name(self._reading, id) for id in ids if not is_session_id(id)]
        self._asked.update(asked)
        for id in asked:
            record = store.record(id, tokens=id in tokens_of) if id not in records else None
            if record is None or record.path is None:
                record = self._despite_gaps(id, record) if id not in records else None
            if record is None:
                yield None
                continue
            name, written, stamp = stamp_of(record)
            if stamp is not None and written >= taken_at and stamps.get(name) != stamp:
                record = record._replace(fresh=True)  # it was written after the process table was read
            records[id] = record
            yield id, record, name, stamp

    def _despite_gaps(self, id: str, record: Record | None) -> Record | None:
        """Return what can be said of a session whose transcript was not found: it may be where we could not look."""
        store = self._reading.store
        gap = next((gap for gap in store.reader.gaps if gap.hides == SESSIONS), None)
        if gap is None or (record is None and id not in self._linked):
            return record
        why = f"no transcript of it was found, and one may be hidden: {gap.path}: {gap.why}"
        record = record or Record(self._reading.agent.NAME, id, store.root)
        return record._replace(turn=UNKNOWN, reason=why)

    def read_children(self, prefix: str) -> Iterator[Answer]:
        """Yield what the store says of the sub-agents of the sessions that begin like this."""
        below = [id for id in self._records if id.startswith(prefix)]
        walked = set(below)
        for id in below:  # grows: sub-agents have sub-agents
            children = self._reading.store.children(id)
            yield from self.read(children)
            for child in children:
                if child not in walked:
                    walked.add(child)
                    below.append(child)

    def read_parents(self) -> Iterator[Answer]:
        """Yield what the store says of the sessions above those that were read."""
        above = list(self._records)
        for id in above:  # grows up to the top
            parent = self._records[id].parent if id in self._records else None
            if parent is not None and parent not in self._asked:
                yield from self.read((parent,))
                above.append(parent)


def stamp_of(record: Record) -> tuple[str, float, Stamp | None]:
    """Return what its file is called, when it was written, and its stamp; without a stamp if it cannot be looked up."""
    if record.path is None:
        return "", 0.0, None
    if record.stamp is not None:
        return record.path, record.stamp[0] / 1e9, record.stamp
    if record.written_at is not None:
        return f"{record.path}#{record.id}", record.written_at, (int(record.written_at * 1e9), 0)
    try:
        status = os.stat(record.path)  # after the reading: what was read is not newer than this
    except OSError:
        return "", 0.0, None
    return record.path, status.st_mtime, (status.st_mtime_ns, status.st_size)


def with_answers(reading: Reading, answers: Sequence[Answer]) -> Reading:
    """Return the reading with what its store said of sessions."""
    if not answers:
        return reading
    asked, records, stamps = set(reading.asked), {**reading.records}, {**reading.stamps}
    problems = list(reading.problems)
    for answer in answers:
        if type(answer) is tuple:  # as nearly all
            id, record, name, stamp = answer
            records[id] = record
            if stamp is not None:
                stamps[name] = stamp
        elif isinstance(answer, list):
            asked.update(answer)
        elif isinstance(answer, Problem):
            problems.append(answer)
    return reading._replace(records=records, asked=frozenset(asked), stamps=stamps, problems=tuple(problems))


# All stores of an agent together


def read_copies(readings: Readings, question: Question) -> Readings:
    """Read in each store what another store of its agent was asked for: a session is judged from all that there is."""
    missing = {reading.name: missing_in(reading, readings) for reading in readings}
    if not any(missing.values()):
        return readings

    def read(reading: Reading) -> Iterator[Answer]:
        return Asking(reading, question).read(missing[reading.name])

    return ask(readings, read, with_answers)


def missing_in(reading: Reading, readings: Readings) -> list[str]:
    """Return the sessions that other stores of this agent were asked for, and this one was not."""
    others = [other for other in readings if other.agent is reading.agent and other is not reading]
    return sorted({id for other in others for id in other.asked} - reading.asked)


def observe_links(readings: Readings, processes: Processes) -> Readings:
    """Let each store observe its links: it sees process and record together. Links to sessions that
    were not asked for are dropped."""

    def observe(reading: Reading) -> Iterator[Reading]:
        asked = [other.asked for other in readings if other.agent is reading.agent]
        links = [link for link in reading.links if any(link.id in ids for ids in asked)]
        yield reading._replace(links=tuple(observed(link, reading, processes) for link in links))

    return ask(readings, observe, latest)


def observed(link: Link, reading: Reading, processes: Processes) -> Link:
    if link.left is not None:
        return link
    record = reading.records.get(link.id)
    if not processes.alive(link.key):
        return reading.store.observe_ended(link, record) if link.turn == WORKING else link
    seen = ages.observe(reading.store, link, record, processes)
    if seen.turn != WAITING:
        return seen
    asks = reading.store.questions(seen, ages.as_found(record, link, processes))
    return seen._replace(asks=asks, waiting_for=words_for(seen, asks))


def observe_sole_links(links: list[Link], readings: Readings, processes: Processes) -> list[Link]:
    """Return these links, which the judge has inferred, with what their stores see of process and record."""
    sole = {reading.name: [link for link in links if (link.agent, link.store) == reading.name] for reading in readings}
    asked = [reading for reading in readings if reading.usable and sole[reading.name]]

    def observe(reading: Reading) -> Iterator[tuple[Link, Link]]:
        for link in sole[reading.name]:
            yield link, observed(link, reading, processes)

    seen = dict(pair for pairs, _ in gather([observe(reading) for reading in asked]) for pair in pairs)
    return [seen.get(link, link) for link in links]


# For commands that watch or count what is stored


def watched_paths(reading: Reading, ids: Iterable[str]) -> Iterator[str]:
    """Yield the paths whose change may mean that one of these sessions changed. To be run by `gather`."""
    for id in ids:
        yield from reading.store.watched(id)


def stored_ids(reading: Reading) -> Iterator[str]:
    """Yield the ids of all stored sessions. To be run by `gather`."""
    yield from reading.store.recent(0.0)
