"""The one query path. list, status, why and the Python API all come through here, so they cannot disagree.

The order of reading matters (docs/architecture.md): the small files that name processes, then the process table,
then the records. So how a session ended is judged only from bytes read after its process was seen to be gone.
"""

from __future__ import annotations

import os
import time

from agentctl import config, launched, roots
from agentctl import processes as process_table
from agentctl.agents import chosen, load, load_all
from agentctl.claims import claim_all, locate, of_store, place, unknown_roots
from agentctl.errors import Ambiguous, NotFound, UsageError
from agentctl.judge import judge, sole_links
from agentctl.model import GONE, UNKNOWN, Answer, Link, Problem, Session, StoreView, Value
from agentctl.readings import (
    RECENT,
    Reading,
    Scope,
    in_parallel,
    link_all,
    look_for,
    read_copies,
    read_records,
    survey,
    without_copies,
)
from agentctl.redaction import redact_text
from agentctl.world import World

__all__ = ["RECENT", "Scope", "count_stored", "one", "open_store_of", "query"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from agentctl.agents import Agent, Store
    from agentctl.processes import Processes
    from agentctl.readings import Stamp

SECOND_LOOK = 0.15
LOOKS = 3
CORE_ENV = ("HOME", "TMUX", "AGENTCTL_LAUNCH")


def query(scope: Scope, env: Mapping[str, str] | None = None) -> Answer:
    return settled_look(scope._replace(every_launch=False), env).answer


def settled_look(
    scope: Scope, env: Mapping[str, str] | None = None, silent: Mapping[tuple[str, str], str] | None = None
) -> Look:
    """Look, and look again at what cannot be told at one moment. For those who act on it there is the world, too.
    `silent`: stores (agent, root) that are known not to answer, and why."""
    environment = dict(os.environ if env is None else env)
    agents = load_all(chosen(scope.agents))
    stamps: dict[str, Stamp] = {}
    stalled = dict(silent or {})
    for attempt in range(LOOKS):
        found = look(agents, scope, environment, stamps, stalled)
        # Look again at two states that look alike for a moment (once), and at what was written while we looked.
        if not (found.moving or (found.doubtful and attempt == 0)):
            break
        stamps, stalled = found.stamps, found.stalled
        time.sleep(SECOND_LOOK)
    return found


def one(prefix: str, env: Mapping[str, str] | None = None, *, tokens: bool = True) -> Answer:
    """The session that this is the id, or the beginning of the id, of. Sub-agents are found, too."""
    return examine(prefix, env, tokens=tokens, every_launch=False).answer


def examine(
    prefix: str, env: Mapping[str, str] | None = None, *, tokens: bool = False, every_launch: bool = True
) -> Look:
    """The same, with all that it was judged from: `answer.sessions` has that one session."""
    if not prefix:
        raise UsageError("an empty session id; `agentctl list -a` shows the ids")
    found_look = settled_look(Scope(prefix=prefix, children=True, tokens=tokens, every_launch=every_launch), env)
    answer = found_look.answer
    exact = [session for session in answer.sessions if session.id == prefix]
    found = exact or [session for session in answer.sessions if session.id.startswith(prefix)]
    if not found:
        unread = "".join(f"; not read: {one.path or one.agent} ({one.problem})" for one in answer.problems)
        raise NotFound(f"no session {prefix!r}{unread}; `agentctl list -a --since all` shows the ids")
    if len(found) > 1:
        raise Ambiguous(prefix, [f"{session.id}  {session.agent}  {session.status}" for session in found])
    return found_look._replace(answer=answer._replace(sessions=(found[0],)))


def store_of(found: Look) -> Store:
    """The store that the session of `examine` was read from, as it was then: not for those who follow it."""
    (session,) = found.answer.sessions
    for reading in found.readings:
        if reading.usable and (reading.agent.NAME, reading.store.root) == (session.agent, session.store):
            return reading.store
    return open_store_of(session)


def open_store_of(session: Session) -> Store:
    """The store that a judged session came from, ready to read its messages."""
    store = load(session.agent).open_store(session.store or "")
    store.survey()
    return store


class Look(Value):
    answer: Answer
    world: World  # what it was judged from
    doubtful: bool  # two states look alike at this moment
    moving: bool  # a session was written after the process table was read
    stamps: dict[str, Stamp]  # of the records, as they were when this look read them
    stalled: dict[tuple[str, str], str]  # (agent, root) of the stores that did not answer, and what was said of them
    readings: tuple[Reading, ...] = ()  # the stores, as they were read


def look(
    agents: list[Agent],
    scope: Scope,
    env: Mapping[str, str],
    stamps: Mapping[str, Stamp],
    stalled: Mapping[tuple[str, str], str],
) -> Look:
    """Read everything once. `stamps`: the records as an earlier look saw them; one that is still the same was not
    written after this look's process table. `stalled`: stores that did not answer an earlier look: not tried again."""
    found = without_copies(survey(agents, roots.known(agents, env), stalled))
    processes = snapshot(agents)
    located = locate(claim_all(agents, processes), found, env)
    if fresh := unknown_roots(located, found):
        # A live agent of this HOME keeps its store elsewhere: read that too, and then look at the processes again.
        roots.remember(fresh, env)
        found = without_copies([*found, *survey(agents, fresh, stalled)])
        processes = snapshot(agents)
        located = locate(claim_all(agents, processes), found, env)

    in_parallel([(one, link_all(one, of_store(located, one), processes)) for one in found if one.usable])
    cache = config.cache_folder(env)
    kept = launched.read(env, located, processes, None if scope.every_launch else cache)
    launched.add_links(kept, found, located)
    claims = tuple(place(located, found))
    whole = scope.prefix is not None and is_whole_id(scope.prefix, found)
    readers = [(one, read_records(one, scope, claims, processes, stamps, cache, whole_id=whole)) for one in found]
    in_parallel([(one, read) for one, read in readers if one.usable])
    in_parallel([(one, read_copies(one, found, processes, stamps)) for one in found if one.usable])
    launches = launched.with_exits(kept, found)
    world = World(
        processes,
        tuple(StoreView(one.agent.NAME, one.store.root, one.incomplete, one.unread) for one in found if not one.absent),
        # Copies: a store that was given up on may still be filling its own in its thread.
        tuple(record for reading in found for record in list(reading.records.values())),
        tuple(link for reading in found for link in reading.links),
        claims,
        tuple(supervisor for reading in found for supervisor in reading.supervisors),
        tuple(launches),
        os.uname().nodename,
    )
    world = world._replace(links=(*world.links, *observed_sole_links(world, found)))
    judged = judge(world)
    told = Redacted()
    shown = tuple(without_secrets(session, told) for session in judged.sessions if in_scope(session, scope))
    problems = [Problem(one.agent.NAME, one.unread, one.store.root) for one in found if one.unread]
    problems += [problem for reading in found for problem in list(reading.store.problems)]
    problems += kept.problems
    answer = Answer(shown, judged.unattached, tuple(dict.fromkeys(problems)), tuple(sources(found, processes)))
    ids = {session.id for session in shown}
    newer = {record.id for record in world.records if record.fresh}
    return Look(
        answer,
        world,
        doubtful=any(link.doubt and link.id in ids for link in world.links) or any(one.vague for one in located),
        moving=any(session.process == UNKNOWN and session.id in newer for session in shown),
        stamps={path: stamp for reading in found for path, stamp in list(reading.stamps.items())},
        stalled={(one.agent.NAME, one.store.root): one.unread or "" for one in found if one.stalled},
        readings=tuple(found),
    )


def is_whole_id(prefix: str, found: list[Reading]) -> bool:
    """Mostly it is: then nothing has to be listed to see what begins like it."""
    in_parallel([(one, look_for(one, prefix)) for one in found if one.usable])
    return any(one.has for one in found)


def observed_sole_links(world: World, found: list[Reading]) -> list[Link]:
    """The links that are inferred from all claims together, with what their stores see of process and record."""
    inferred = sole_links(world)
    seen: dict[Link, Link] = {}

    def observe(reading: Reading, links: list[Link]) -> Callable[[], None]:
        def run() -> None:
            for link in links:
                seen[link] = reading.store.observe(link, reading.records.get(link.id), world.processes)
                reading.progress += 1

        return run

    jobs = []
    for reading in found:
        mine = [one for one in inferred if (one.agent, one.store) == (reading.agent.NAME, reading.store.root)]
        if mine and reading.usable:
            jobs.append((reading, observe(reading, mine)))
    in_parallel(jobs)
    return [seen.get(link, link) for link in inferred]


def snapshot(agents: list[Agent]) -> Processes:
    return process_table.snapshot({*CORE_ENV, *(name for agent in agents for name in agent.ENV)})


# What is shown


def in_scope(session: Session, scope: Scope) -> bool:
    if scope.ids is not None:
        return session.id in scope.ids
    if scope.prefix is not None:
        return session.id.startswith(scope.prefix)
    if session.parent is not None and not scope.children:
        return False
    if session.process != GONE:
        return True
    return scope.since is not None and (session.updated_at or 0.0) >= scope.since


class Redacted(dict[str, str]):
    """Texts without the keys in them. Thousands of sessions say the same few things."""

    def __missing__(self, text: str) -> str:
        self[text] = redact_text(text)
        return self[text]


def without_secrets(session: Session, told: Redacted) -> Session:
    changed: dict[str, object] = {}
    for name, text in (("reason", session.reason), ("error", session.error), ("waiting_for", session.waiting_for)):
        if text and told[text] != text:
            changed[name] = told[text]
    for fact in session.evidence:
        if told[fact.fact] != fact.fact:
            changed["evidence"] = tuple(fact._replace(fact=told[fact.fact]) for fact in session.evidence)
    return session._replace(**changed) if changed else session


def sources(found: list[Reading], processes: Processes) -> Iterable[str]:
    seen = f"the kernel's process table: {processes.count()} processes"
    yield f"{seen}, not complete: {processes.hidden}" if processes.hidden else seen
    for reading in found:
        state = "not there" if reading.absent else reading.unread or reading.incomplete or "read"
        yield f"{reading.agent.NAME}: {reading.store.root}: {state}"


def count_stored(agents: list[Agent], known: Mapping[str, list[str]]) -> dict[str, list[dict[str, object]]]:
    """For `agents`: every store, its state, and how many sessions it has."""
    found = survey(agents, known, {})
    counts: dict[str, int] = {}

    def count(reading: Reading) -> Callable[[], None]:
        def run() -> None:
            ids = set()
            for id in reading.store.recent(0.0):
                ids.add(id)
                reading.progress += 1
            counts[reading.store.root] = len(ids)

        return run

    in_parallel([(reading, count(reading)) for reading in found if reading.usable])
    table: dict[str, list[dict[str, object]]] = {agent.NAME: [] for agent in agents}
    for reading in found:
        state = "not there" if reading.absent else reading.unread or "readable"
        entry: dict[str, object] = {
            "root": reading.store.root,
            "state": state,
            "sessions": counts.get(reading.store.root),
        }
        table[reading.agent.NAME].append(entry)
    return table
