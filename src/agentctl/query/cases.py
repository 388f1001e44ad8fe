"""The case of each session: what one look has read, sorted by the session that it is about. Pure, like the judge."""

from __future__ import annotations

from agentctl.model import (
    AGENT,
    DAEMON,
    EXACT,
    IDLE,
    SPARE,
    UNKNOWN,
    WAITING,
    WORKING,
    Claim,
    Link,
    ProcessKey,
    Record,
    Supervisor,
    Value,
)
from agentctl.query.world import Case, Launched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from agentctl.kernel.processes import Processes
    from agentctl.query.world import Name, World

AGES_DIFFER = 2.0  # seconds: times are rounded, and a leap second may be between them


class Sorted(Value):
    """The facts of a world by the session (or process) that they are about: thousands of sessions are judged at once,
    and each looks up its own."""

    processes: Processes
    records: Mapping[Name, Record]
    links: Mapping[Name, list[Link]]
    supervisors: Mapping[Name, list[Supervisor]]  # those that live
    launches: Mapping[Name, list[Launched]]
    started: Mapping[tuple[str, ProcessKey], list[Launched]]  # by the processes that they started
    possible: Mapping[str, list[Claim]]  # by agent: the live processes that may be on a session without a proof
    strangers: Mapping[str, list[Claim]]  # by agent: live processes of no known name that may be on a session
    screens: Mapping[str, list[Claim]]  # by agent: the live processes whose screen may show a session without a trace
    unlikely: Mapping[str, list[Claim]]  # by agent: the live processes that can be on a session, against hints
    incomplete: Sequence[tuple[str, str, str, str]]  # agent, root, session ("": any): why a missing process is no proof
    concerned: frozenset[Name]  # the sessions that a link, a supervisor or a launch names


def sort(world: World) -> Sorted:
    """Sort the facts of the world by session."""
    alive, held = world.processes.alive, held_keys(world)
    links = group(((link.agent, link.id), link) for link in (*world.links, *world.left))
    supervisors = group(((boss.agent, boss.id), boss) for boss in world.supervisors if alive(boss.key))
    launches = group(((ours.record.agent, ours.session_id), ours) for ours in world.launches if ours.session_id)
    possible = [claim for claim in world.claims if may_be_on_any(claim, held, world.processes)]
    return Sorted(
        world.processes,
        newest(world.records),
        links,
        supervisors,
        launches,
        started=group(((ours.launch.agent, key), ours) for ours in world.launches for key in ours.agents),
        possible=group((claim.agent, claim) for claim in possible),
        strangers=group((claim.agent, claim) for claim in world.strangers if alive(claim.key)),
        screens=group((claim.agent, claim) for claim in world.claims if claim.shows and alive(claim.key)),
        unlikely=group((claim.agent, claim) for claim in world.claims if claim.unlikely and alive(claim.key)),
        incomplete=sorted(incomplete_in(world)),
        concerned=frozenset({*links, *supervisors, *launches}),
    )


def incomplete_in(world: World) -> Iterable[tuple[str, str, str, str]]:
    """Yield where a missing process proves nothing: agent, root, session (or none, for all of the store), and why."""
    for store in world.stores:
        if store.incomplete:
            yield store.agent, store.root, "", store.incomplete
        yield from ((store.agent, store.root, id, why) for id, why in store.unseen)


def group(entries: Iterable[tuple[Hashable, object]]) -> dict:  # type: ignore[type-arg]
    groups: dict[Hashable, list[object]] = {}
    for key, value in entries:
        groups.setdefault(key, []).append(value)
    return groups


def held_keys(world: World) -> set[ProcessKey]:
    """Return the live processes that are on a session."""
    return {link.key for link in world.links if world.processes.alive(link.key)}


def newest(records: Iterable[Record]) -> dict[Name, Record]:
    """Return one record per session. If two files hold a session, the one that was written last counts; the record is
    fresh if any of them is."""
    latest: dict[Name, Record] = {}
    for record in records:
        name = (record.agent, record.id)
        other = latest.get(name)
        if other is not None:
            record = max(record, other, key=age_order)._replace(fresh=record.fresh or other.fresh)
        latest[name] = record
    return latest


def age_order(record: Record) -> tuple[float, str, str]:
    return (record.updated_at or 0.0, record.path or "", record.store)


def homes_of(world: World) -> dict[Name, set[str]]:
    """Return the stores that have each session."""
    homes: dict[Name, set[str]] = {}
    named: tuple[Record | Link, ...] = (*world.records, *world.links, *world.left)
    for fact in named:
        homes.setdefault((fact.agent, fact.id), set()).add(fact.store)
    return homes


# How old


def younger_by(record: Record | None, link: Link, processes: Processes) -> float:
    """Return how many seconds after the last that this record says the process of the link began; 0: not after it, or
    that is not known."""
    if record is None or record.path is None or record.updated_at is None:
        return 0.0
    began = processes.started_at(link.key)
    if link.lived_at is not None:
        began = min(began, link.lived_at)
    return max(0.0, began - record.updated_at)


def is_older(record: Record | None, link: Link, processes: Processes) -> bool:
    """Return whether all that this record says is older than the process of the link, whatever the clocks."""
    return younger_by(record, link, processes) > AGES_DIFFER


# The case of a session


def case_of(name: Name, roots: set[str], facts: Sorted) -> Case:
    """Return what concerns this session, which the stores at `roots` have."""
    agent, id = name
    record = facts.records.get(name)
    incomplete = why_incomplete_in(name, roots, facts) if facts.incomplete else None
    blockers = blockers_of(name, roots, facts.possible[agent]) if agent in facts.possible else ()
    strangers = strangers_of(name, roots, record, facts.strangers[agent]) if agent in facts.strangers else ()
    screens = screens_of(name, roots, facts.screens[agent]) if agent in facts.screens else ()
    unlikely = unlikely_of(name, roots, facts.unlikely.get(agent, ()), facts.links.get(name, ()), facts.processes)
    if name not in facts.concerned:  # as nearly all of them: there is only a record
        return Case(
            agent, id, record, (), (), incomplete, blockers, (), strangers=strangers, screens=screens, unlikely=unlikely
        )
    links = sorted(facts.links.get(name, ()), key=link_order)
    live = tuple(link for link in links if link.left is None and facts.processes.alive(link.key))
    keys = {link.key for link in live}
    return Case(
        agent,
        id,
        record,
        live,
        tuple(link for link in links if link.key not in keys),
        incomplete,
        tuple(claim for claim in blockers if claim.key not in keys),
        tuple(sorted(facts.supervisors.get(name, ()), key=supervisor_order)),
        newest_launch(name, keys, facts),
        strangers=tuple(claim for claim in strangers if claim.key not in keys),
        screens=tuple(claim for claim in screens if claim.key not in keys),
        unlikely=unlikely,
        unseen=next((launched.unseen for launched in facts.launches.get(name, ()) if launched.unseen), None),
    )


def why_incomplete_in(name: Name, roots: set[str], facts: Sorted) -> str | None:
    """Return why a missing process proves nothing for this session."""
    agent, session = name
    reasons = (why for of, root, id, why in facts.incomplete if of == agent and root in roots and id in ("", session))
    return next(reasons, None)


def blockers_of(name: Name, roots: set[str], possible: Iterable[Claim]) -> tuple[Claim, ...]:
    """Return the live processes that may be on this session."""
    blockers = [claim for claim in possible if may_be_on(claim, name, roots)]
    return tuple(sorted(blockers, key=claim_order)) if blockers else ()


def strangers_of(name: Name, roots: set[str], record: Record | None, strangers: Iterable[Claim]) -> tuple[Claim, ...]:
    """Return the live processes of no known name that may be on this session. If its last turn is closed, only those
    count that have a file of the store open for writing, or say that they are this agent: an idle program that could be
    anything must not make every session doubtful."""
    is_open = record is None or record.turn in (WORKING, UNKNOWN)
    able = [
        claim
        for claim in strangers
        if (is_open or claim.proof or claim.says_so) and claim.store in roots and can_be(claim, name[1])
    ]
    return tuple(sorted(able, key=claim_order)) if able else ()


def can_be(claim: Claim, id: str) -> bool:
    return claim.candidates is None or id in claim.candidates


def screens_of(name: Name, roots: set[str], screens: Iterable[Claim]) -> tuple[Claim, ...]:
    """Return the live processes whose screen may show this session, though nothing says that it does."""
    able = [claim for claim in screens if name[1] in claim.shows and claim.store in (None, *roots)]
    return tuple(sorted(able, key=claim_order)) if able else ()


def unlikely_of(
    name: Name, roots: set[str], claims: Iterable[Claim], links: Iterable[Link], processes: Processes
) -> tuple[Claim, ...]:
    """Return the live processes that can be on this session, that only hints speak against, and that no link puts on
    it."""
    able = [claim for claim in claims if name[1] in claim.unlikely and claim.store in (None, *roots)]
    if not able:
        return ()
    on_it = {link.key for link in links if link.left is None and processes.alive(link.key)}
    return tuple(sorted((claim for claim in able if claim.key not in on_it), key=claim_order))


def newest_launch(name: Name, keys: set[ProcessKey], facts: Sorted) -> Launched | None:
    """Return the newest launch of this session, by its id or by a live process that the launch started."""
    launches = [*facts.launches.get(name, ())]
    for key in keys:
        launches += facts.started.get((name[0], key), ())
    return max(launches, key=launch_order, default=None)


def link_order(link: Link) -> tuple[bool, int, ProcessKey, str, str]:
    """Put the link that speaks for the session first: exact before sole, then the one that needs a person."""
    urgency = {WAITING: 0, WORKING: 1, IDLE: 2}.get(link.turn or "", 3)
    return (link.strength != EXACT, urgency, link.key, link.store, link.path or "")


def launch_order(launched: Launched) -> tuple[float, str]:
    return (launched.launch.created_at, launched.launch.id)


def claim_order(claim: Claim) -> tuple[str, ProcessKey]:
    return (claim.agent, claim.key)


def supervisor_order(supervisor: Supervisor) -> tuple[ProcessKey, str]:
    return (supervisor.key, supervisor.why)


# Live processes without a proof


def is_loose(claim: Claim, held: set[ProcessKey], processes: Processes) -> bool:
    """Return whether this is a live process that can be on a session, and is on none."""
    return claim.role in (AGENT, SPARE) and claim.key not in held and processes.alive(claim.key) is not None


def may_be_on_any(claim: Claim, held: set[ProcessKey], processes: Processes) -> bool:
    """Return whether this is a live process that may be on a session without a proof of it."""
    if processes.alive(claim.key) is None:
        return False
    return claim.many if claim.role == DAEMON else claim.role == AGENT and (claim.many or claim.key not in held)


def may_be_on(claim: Claim, name: Name, roots: set[str]) -> bool:
    """Return whether this process may be on this session, which the stores at `roots` have."""
    if claim.agent != name[0] or claim.role not in (AGENT, DAEMON):
        return False
    if claim.store is not None and claim.store not in roots:
        return False
    return can_be(claim, name[1])
