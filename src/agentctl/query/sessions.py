"""The one query path. list, status, why and the Python API all come through here, so they cannot disagree.

The order of reading matters (docs/architecture.md): first the small files that name processes, then the process table,
then the records. So the judge decides how a session ended from bytes that were read after its process was gone.
"""

from __future__ import annotations

import os
import time

from agentctl import config
from agentctl.agents import chosen, load, load_all
from agentctl.agents.guard import despite_faults
from agentctl.errors import Ambiguous, NotFound, TruthUnavailable, UsageError
from agentctl.files.reader import is_below
from agentctl.files.redaction import redact_text
from agentctl.kernel import processes as process_table
from agentctl.kernel.stall_guard import gather
from agentctl.model import AGENT, DAEMON, GONE, UNKNOWN, Answer, Elsewhere, Problem, Session, StoreView, Value
from agentctl.query import attribution, folders, remembered, roots, strangers
from agentctl.query.candidates import claim_all, is_of_another, place, unknown_roots, unmade_roots, unplaced
from agentctl.query.gaps import unseen_sessions, why_unseen
from agentctl.query.judge import judge, sole_links
from agentctl.query.link_check import checked
from agentctl.query.locating import locate
from agentctl.query.reading import RECENT, Scope, survey, with_new_names, without_copies
from agentctl.query.store_reader import (
    Question,
    doubt_stores,
    link_stores,
    look_for,
    observe_links,
    observe_sole_links,
    read_copies,
    read_records,
    stored_ids,
)
from agentctl.query.world import World

__all__ = ["RECENT", "Scope", "count_stored", "open_store_of", "query", "query_session"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from agentctl.agents.base import Agent, Store
    from agentctl.errors import AgentctlError
    from agentctl.kernel.processes import Processes
    from agentctl.model import Claim, Judgement, Link, ProcessKey
    from agentctl.query.candidates import Claimed
    from agentctl.query.reading import Reading, Readings, Stamp
    from agentctl.query.world import Launched

    Tell = Callable[[int, int], None]

SECOND_LOOK = 0.15
LOOKS = 3
CORE_ENV = ("HOME", "TMUX", "AGENTCTL_LAUNCH")


def query(scope: Scope, env: Mapping[str, str] | None = None) -> Answer:
    """Return what is asked for, as it is judged now."""
    return settled_look(scope._replace(related_launches_only=True), env).answer


def settled_look(
    scope: Scope,
    env: Mapping[str, str] | None = None,
    silent: Mapping[tuple[str, str], str] | None = None,
    tell: Tell | None = None,
) -> Look:
    """Look, and look again if a single moment cannot tell. Return the last look; commands that act use its world.
    `silent`: stores (agent, root) that are known not to answer, and why. `tell` is told how many records were read, and
    of how many."""
    environment = dict(os.environ if env is None else env)
    return despite_faults(
        load_all(chosen(scope.agents)), lambda agents: settle(agents, scope, environment, silent, tell)
    )


def settle(
    agents: list[Agent],
    scope: Scope,
    environment: Mapping[str, str],
    silent: Mapping[tuple[str, str], str] | None,
    tell: Tell | None = None,
) -> Look:
    """Look until nothing moves, at most LOOKS times."""
    stamps: Mapping[str, Stamp] = {}
    stalled: Mapping[tuple[str, str], str] = silent or {}
    claimed: frozenset[ProcessKey] | None = None
    for attempt in range(LOOKS):
        latest = look(agents, scope, environment, stamps, stalled, claimed, tell)
        # Look again if two states look alike for a moment (once), or if a session was written while we looked.
        if not (latest.moving or (latest.doubtful and attempt == 0)):
            break
        if any(reading.stalled and reading.records for reading in latest.readings):
            break  # the next look would not ask that store again: what it has said would be lost
        stamps, stalled, claimed = latest.stamps, latest.stalled, latest.claimed
        time.sleep(SECOND_LOOK)
    return latest


def query_session(prefix: str, env: Mapping[str, str] | None = None, *, tokens: bool = True) -> Answer:
    """Return an answer with the one session of this id, or whose id begins like this; it may be a sub-agent. Raises
    NotFound and Ambiguous; TruthUnavailable if it was not found, and not everything could be read."""
    return examine(prefix, env, tokens=tokens, related_launches_only=True).answer


def examine(
    prefix: str, env: Mapping[str, str] | None = None, *, tokens: bool = False, related_launches_only: bool = False
) -> Look:
    """Do what `query_session` does, and return the whole look: `answer.sessions` has only that session."""
    if not prefix:
        raise UsageError("an empty session id; `agentctl list -a` shows the ids")
    scope = Scope(prefix=prefix, children=True, tokens=tokens, related_launches_only=related_launches_only)
    look = settled_look(scope, env)
    sessions, problems = look.answer.sessions, look.answer.problems
    exact = [session for session in sessions if session.id == prefix]
    matching = exact or [session for session in sessions if session.id.startswith(prefix)]
    if not matching:
        from agentctl.query import elsewhere

        elsewhere.check(prefix, look, os.environ if env is None else env)
        raise not_found(f"no session {prefix!r}", problems, "`agentctl list -a --since all` shows the ids")
    if len(matching) > 1:
        raise Ambiguous(prefix, [f"{session.id}  {session.agent}  {session.status}" for session in matching])
    return look._replace(answer=look.answer._replace(sessions=(matching[0],)))


def not_found(what: str, problems: Iterable[Problem], next: str) -> AgentctlError:
    """Return the error for something that a look does not show. It is firm only if everything could be read."""
    if unread := unread_words(problems):
        return TruthUnavailable(f"{what} in what could be read{unread}; {next}")
    return NotFound(f"{what}; {next}")


def unread_words(problems: Iterable[Problem]) -> str:
    """Return what could not be read, for the middle of a message."""
    return "".join(f"; not read: {each.path or each.agent} ({each.problem})" for each in problems)


def store_of(look: Look) -> Store:
    """Return the store that `examine` read the session from, as it was then. To follow one, use `open_store_of`."""
    (session,) = look.answer.sessions
    for reading in look.readings:
        if reading.usable and reading.name == (session.agent, session.store):
            return reading.store
    return open_store_of(session)


def open_store_of(session: Session) -> Store:
    """Return the store that a judged session came from, ready to read its messages."""
    store = load(session.agent).open_store(session.store or "")
    store.survey()
    return store


class Look(Value):
    """One look: the answer, and all that it was judged from."""

    answer: Answer
    world: World  # what it was judged from
    doubtful: bool  # two states look alike at this moment
    moving: bool  # a session was written after the process table was read
    stamps: Mapping[str, Stamp]  # of the records, as they were when this look read them
    stalled: Mapping[tuple[str, str], str]  # by (agent, root): why a store did not answer
    readings: Readings = ()  # the stores, as they were read
    claimed: frozenset[ProcessKey] = frozenset()  # the processes that may be an agent's


def look(
    agents: list[Agent],
    scope: Scope,
    env: Mapping[str, str],
    stamps: Mapping[str, Stamp],
    stalled: Mapping[tuple[str, str], str],
    claimed: frozenset[ProcessKey] | None = None,
    tell: Tell | None = None,
) -> Look:
    """Read everything once, phase by phase, and judge it. `stamps`: the records as an earlier look saw them; if one is
    still the same, it was not written after this look's process table. `stalled`: stores that did not answer an earlier
    look: they are not tried again. `claimed`: the processes that an earlier look took for an agent's; None: there was
    no earlier look."""
    cache = config.cache_folder(env)
    places = roots.places(agents, env)
    readings, processes, located, forgotten = find_processes(agents, env, places, stalled)
    located = without_passers(located, claimed)
    readings = checked(link_stores(readings, located, processes), located, processes, env)
    launches = attribution.read(env, located, processes, cache if scope.related_launches_only else None)
    readings = doubt_stores(readings, strangers.find(agents, located, readings, launches, processes, env), processes)
    readings = attribution.with_launch_links(readings, launches, located)
    claims, doubtful = tuple(place(located, readings)), strangers.claims_of(readings)
    question = Question(scope, (*claims, *doubtful), processes, stamps, cache, tell, attribution.handed_on(launches))
    if scope.prefix is not None:
        readings = look_for(readings, scope.prefix)
    readings = read_records(readings, question)
    readings = observe_links(read_copies(readings, question), processes)
    folders.note(folders_of(readings, places), places.folders, env)
    launches = attribution.with_ends(launches, attribution.judged_names(readings), located, processes)
    world = world_of(readings, processes, claims, launches.in_order())._replace(strangers=doubtful)
    problems = (*launches.problems, *places.problems, *forgotten, *unplaced(located, readings))
    answer = answer_of(judge(world), readings, processes, problems, scope)
    answer = answer._replace(not_shown=not_shown(located, world, answer))
    ids = {session.id for session in answer.sessions}
    newer = {record.id for record in world.records if record.fresh}
    return Look(
        answer,
        world,
        doubtful=any(link.doubt and link.id in ids for link in world.links) or any(claim.vague for claim in located),
        moving=any(session.process == UNKNOWN and session.id in newer for session in answer.sessions),
        stamps={path: stamp for reading in readings for path, stamp in reading.stamps.items()},
        stalled={reading.name: reading.unread or "" for reading in readings if reading.stalled},
        readings=readings,
        claimed=frozenset({claim.process.key for claim in located}),
    )


def find_processes(
    agents: list[Agent], env: Mapping[str, str], places: roots.Places, stalled: Mapping[tuple[str, str], str]
) -> tuple[Readings, Processes, tuple[Claimed, ...], tuple[Problem, ...]]:
    """Return the opened stores, the process table, the agents' processes in it, each with the store it works in, and a
    problem for each store that cannot be remembered."""
    forgotten: tuple[Problem, ...] = ()
    opened = survey(agents, places.roots, stalled, places.expected, places.ignored, places.folders)
    if made := [reading.name for reading in opened if reading.name in places.unmade and not reading.absent]:
        forgotten = remembered.remember(by_agent(made), env)
    readings = without_copies(with_new_names(opened))
    if named := named_roots(readings):
        more = survey(agents, named, stalled, ignored=places.ignored)
        forgotten += remembered.remember(by_agent(reading.name for reading in more if not reading.absent), env)
        readings = without_copies((*readings, *more))
    processes = snapshot(agents)
    located = locate(claim_all(agents, processes), readings, env, processes)
    fresh, unmade = unknown_roots(located, readings), unmade_roots(located, readings)
    if fresh or unmade:
        # A live agent of this HOME keeps its store elsewhere: open that, too, and then look at the processes again. One
        # that is not there yet may never be made: only once it was seen is it a problem if it is gone.
        forgotten += remembered.remember(fresh, env)
        forgotten += remembered.expect(unmade, env)
        readings = without_copies((*readings, *survey(agents, fresh, stalled, ignored=places.ignored)))
        readings = without_copies((*readings, *survey(agents, unmade, stalled, ignored=places.ignored)))
        processes = snapshot(agents)
        located = locate(claim_all(agents, processes), readings, env, processes)
    return readings, processes, located, forgotten


def folders_of(readings: Readings, places: roots.Places) -> dict[tuple[str, str], tuple[int, int]]:
    """Return which folders the stores are that have sessions, as far as this look has seen, or that only our list
    names."""
    return {
        reading.name: reading.identity
        for reading in readings
        if reading.identity is not None
        if reading.records or reading.links or (reading.expected is not None and reading.name not in places.folders)
    }


def named_roots(readings: Readings) -> dict[str, list[str]]:
    """Return the stores that the files of other stores name, by agent."""
    known = {reading.name for reading in readings}
    named = ((reading.agent.NAME, path) for reading in readings for path in reading.elsewhere)
    return by_agent(name for name in named if name not in known)


def by_agent(names: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for agent, root in names:
        found.setdefault(agent, []).append(root)
    return found


def without_passers(located: tuple[Claimed, ...], before: frozenset[ProcessKey] | None) -> tuple[Claimed, ...]:
    """Leave out the processes that are starting or ending at this moment, and were no agent's in an earlier look: such
    a process runs no agent yet, or never did. One that was an agent's may be between two of its programs: it stays."""
    if before is None:
        return located
    return tuple(claim for claim in located if not claim.vague or claim.process.key in before)


def snapshot(agents: list[Agent]) -> Processes:
    return process_table.snapshot({*CORE_ENV, *(name for agent in agents for name in agent.ENV)})


def world_of(
    readings: Readings, processes: Processes, claims: tuple[Claim, ...], launches: Iterable[Launched]
) -> World:
    """Return all that was read as one value: what the judge needs, and what it must not ask for itself."""
    world = World(
        processes,
        tuple(
            StoreView(
                reading.agent.NAME,
                reading.store.root,
                reading.incomplete or why_unseen(reading.gaps),  # also what was found since the links were made
                reading.unread,
                unseen_sessions(reading.gaps),
            )
            for reading in readings
            if not reading.absent
        ),
        tuple(record for reading in readings for record in reading.records.values()),
        tuple(link for reading in readings for link in reading.links if link.left is None),
        claims,
        tuple(supervisor for reading in readings for supervisor in reading.supervisors),
        tuple(launches),
        os.uname().nodename,
    )
    links = (*world.links, *observe_sole_links(sole_links(world), readings, processes))
    left = tuple(link for reading in readings for link in reading.links if link.left is not None)
    return world._replace(links=links, ended=ended_of(links, processes), left=left, frozen=frozen_of(links, processes))


def ended_of(links: Iterable[Link], processes: Processes) -> frozenset[ProcessKey]:
    """Return the processes of these links that are proved to have ended. It may ask the kernel; the judge must not."""
    return frozenset({link.key for link in links if processes.gone(link.key)})


def frozen_of(links: Iterable[Link], processes: Processes) -> frozenset[ProcessKey]:
    """Return the live processes of these links that their cgroup keeps from running."""
    rows = {row.key: row for link in links if (row := processes.alive(link.key)) is not None}
    return frozenset(key for key, row in rows.items() if processes.is_frozen(row))


# What is shown


def answer_of(
    judged: Judgement, readings: Readings, processes: Processes, problems: Iterable[Problem], scope: Scope
) -> Answer:
    """Return what was judged and is asked for, and all that could not be read."""
    redacted = Redacted()
    shown = tuple(without_secrets(session, redacted) for session in judged.sessions if in_scope(session, scope))
    unread = tuple(dict.fromkeys([*problems_of(readings), *problems]))
    return Answer(shown, judged.unattached, unread, tuple(sources(readings, processes)))


def not_shown(located: Iterable[Claimed], world: World, answer: Answer) -> tuple[Elsewhere, ...]:
    """Return the agents' processes that work for another HOME or another user, and so appear nowhere."""
    others = [claim for claim in located if claim.role in (AGENT, DAEMON) and is_of_another(claim)]
    if not others:
        return ()
    shown = {link.key.pid for link in world.links} | {process.pid for process in answer.unattached}
    found = {claim.process.pid: claim.agent.NAME for claim in others if claim.process.pid not in shown}
    return tuple(Elsewhere(agent, pid) for pid, agent in sorted(found.items()))


def in_scope(session: Session, scope: Scope) -> bool:
    if scope.ids is not None:
        return session.id in scope.ids
    if scope.prefix is not None:
        return session.id.startswith(scope.prefix)
    if (session.agent, session.id) in scope.also:
        return True
    if session.parent is not None and not scope.children:
        return False
    if session.process != GONE:
        return True
    # One whose time is not known may have been written since.
    return scope.since is not None and (session.updated_at is None or session.updated_at >= scope.since)


class Redacted(dict[str, str]):
    """Texts without the keys in them. Thousands of sessions say the same few things."""

    def __missing__(self, text: str) -> str:
        self[text] = redact_text(text)
        return self[text]


def without_secrets(session: Session, redacted: Redacted) -> Session:
    """Return the session without keys in the texts that come from a transcript."""
    changed: dict[str, object] = {}
    for name, text in (
        ("reason", session.reason),
        ("error", session.error),
        ("waiting_for", session.waiting_for),
        ("doing", session.doing),
    ):
        if text and redacted[text] != text:
            changed[name] = redacted[text]
    for fact in session.evidence:
        if redacted[fact.fact] != fact.fact:
            changed["evidence"] = tuple(fact._replace(fact=redacted[fact.fact]) for fact in session.evidence)
    if session.questions:
        from agentctl.query.asked import shown

        changed["questions"] = tuple(shown(question, redact_text) for question in session.questions)
    return session._replace(**changed) if changed else session


def problems_of(readings: Readings) -> Iterable[Problem]:
    """Yield what could not be read, each store's own failure first."""
    for reading in readings:
        if reading.unread:
            yield Problem(reading.agent.NAME, reading.unread, reading.store.root)
    for reading in readings:
        yield from problems_in(reading)


def problems_in(reading: Reading) -> Iterable[Problem]:
    """Yield what could not be read of one store that was opened."""
    yield from reading.store.told()
    yield from reading.problems


def sources(readings: Readings, processes: Processes) -> Iterable[str]:
    """Yield every source that was consulted, and its state, for `why`."""
    table = f"the kernel's process table: {processes.count()} processes"
    yield f"{table}, not complete: {processes.hidden}" if processes.hidden else table
    for reading in readings:
        state = "not there" if reading.absent else reading.unread or reading.incomplete or "read"
        yield f"{reading.agent.NAME}: {reading.store.root}: {state}"


def readable(reading: Reading) -> str:
    """Return how far a store could be read, for people."""
    gaps = reading.gaps
    if not gaps:
        return "readable"
    others = f" (and {len(gaps) - 1} more)" if len(gaps) > 1 else ""
    return f"not all of it could be read: {gaps[0].path}: {gaps[0].why}{others}"


def count_stored(agents: list[Agent], places: roots.Places) -> dict[str, list[dict[str, object]]]:
    """Return every store of each agent, its state, and how many sessions it has, for `agents`. How many is not known if
    a part of the store could not be read."""
    readings = with_new_names(survey(agents, places.roots, {}, places.expected, folders=places.folders))
    usable = [reading for reading in readings if reading.usable]
    outcomes = gather([stored_ids(reading) for reading in usable])
    counts: dict[tuple[str, str], int] = {}
    failures: dict[tuple[str, str], str] = {}
    for reading, (ids, failure) in zip(usable, outcomes, strict=True):
        if failure is None:
            counts[reading.name] = len({*ids})
        else:
            failures[reading.name] = failure.why
    table: dict[str, list[dict[str, object]]] = {agent.NAME: [] for agent in agents}
    for reading in readings:
        state = "not there" if reading.absent else reading.unread or failures.get(reading.name) or readable(reading)
        root = reading.store.root
        entry: dict[str, object] = {
            "root": root,
            "state": state,
            "sessions": counts.get(reading.name) if state == "readable" else None,
            "ignored": is_below(root, places.ignored),
            "problems": [problem._asdict() for problem in problems_in(reading)],
        }
        table[reading.agent.NAME].append(entry)
    return table
