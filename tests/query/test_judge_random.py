"""The judge on random worlds: what must hold in every one of them, whatever is seen, stale, torn or hidden."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentctl.model import (
    AGENT,
    ALIVE,
    CLOSED_TURNS,
    DONE,
    EXACT,
    GONE,
    IDLE,
    INTERRUPTED,
    SOLE,
    SPARE,
    TURN_WORDS,
    UNKNOWN,
    WORKING,
    Claim,
    Link,
    ProcessKey,
    Record,
    Session,
    Supervisor,
)
from agentctl.query.world import World
from tests.support.facts import judged
from tests.support.random_worlds import NOW, Name, RandomWorld, make, show

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")

WORLDS = 20_000
CHUNKS = 8

# The words of the two axes, as the table of the design has them.
WORDS = {
    ("alive", "working"): "running",
    ("alive", "waiting"): "waiting",
    ("alive", "idle"): "idle",
    ("gone", "done"): "done",
    ("gone", "failed"): "failed",
    ("gone", "interrupted"): "stopped",
}


class Facts:
    """One world, its answer, and what can be read off the world without the judge."""

    def __init__(self, case: RandomWorld, rng: random.Random) -> None:
        world = case.world
        self.case, self.world, self.rng = case, world, rng
        self.judged = judged(world)
        self.sessions: dict[Name, Session] = {(one.agent, one.id): one for one in self.judged.sessions}
        self.records: dict[Name, list[Record]] = {}
        for record in world.records:
            self.records.setdefault((record.agent, record.id), []).append(record)
        self.links: dict[Name, list[Link]] = {}
        for link in world.links:
            self.links.setdefault((link.agent, link.id), []).append(link)
        rows = world.processes.by_pid.values()
        self.living = {row.key for row in rows if not row.dead and row.state != "Z"}
        self.dead = {row.key for row in rows if row.dead}
        self.held = {link.key for link in world.links if link.key in self.living}
        self.loose = [
            claim
            for claim in world.claims
            if claim.role in (AGENT, SPARE) and claim.key in self.living and claim.key not in self.held
        ]
        self.incomplete = {
            (store.agent, store.root) for store in world.stores if store.incomplete or world.processes.hidden
        }

    def newest(self, name: Name) -> Record | None:
        found = self.records.get(name, [])
        return max(found, key=lambda one: (one.updated_at or 0.0, one.path or "", one.store), default=None)

    def parent(self, name: Name) -> Name | None:
        record = self.newest(name)
        return (name[0], record.parent) if record and record.parent else None

    def family(self, name: Name) -> Iterator[Name]:
        """The session, and those above it."""
        above: Name | None = name
        while above is not None:
            yield above
            above = self.parent(above)

    def linked_live(self, name: Name) -> bool:
        return any(link.key in self.living for link in self.links.get(name, ()))

    def mid_turn(self, name: Name) -> bool:
        record = self.newest(name)
        return record is not None and record.turn == WORKING


def alive_while_a_linked_process_lives(facts: Facts) -> Iterator[str]:
    for name in facts.links:
        if facts.linked_live(name) and facts.sessions[name].process != ALIVE:
            yield f"{name}: a linked process lives, and it is {facts.sessions[name].process}"


def alive_only_by_a_live_process(facts: Facts) -> Iterator[str]:
    keys = {str(key): key for key in facts.living}
    for name, one in facts.sessions.items():
        if (one.process == ALIVE) != (one.pid is not None) or (one.pid is None) != (one.process_key is None):
            yield f"{name}: process {one.process}, pid {one.pid}, key {one.process_key}"
        if (one.pid is None) != (one.link is None):
            yield f"{name}: pid {one.pid}, link {one.link}"
        for key, pid in [(one.process_key, one.pid)] + [(entry["key"], entry["pid"]) for entry in one.processes]:
            if key is not None and (str(key) not in keys or keys[str(key)].pid != pid):
                yield f"{name}: pid {pid} ({key}) is shown and is not alive"
        if one.process == ALIVE and not one.processes:
            yield f"{name}: alive, and no process is shown"


def no_pid_of_a_stranger(facts: Facts) -> Iterator[str]:
    """A recycled pid or a zombie is never shown: the key is one that a link of it, or of a parent, or a claim names."""
    dead = {str(key) for key in facts.dead}
    for name, one in facts.sessions.items():
        if one.process_key is None:
            continue
        named = {str(link.key) for above in facts.family(name) for link in facts.links.get(above, ())}
        ids = {above[1] for above in facts.family(name)}
        named |= {str(claim.key) for claim in facts.loose if set(claim.candidates or ()) <= ids and claim.sole}
        if one.process_key not in named:
            yield f"{name}: {one.process_key} is nobody that was named for it"
        if one.process_key in dead:
            yield f"{name}: {one.process_key} is a zombie"


def the_word_is_the_function_of_the_axes(facts: Facts) -> Iterator[str]:
    for name, one in facts.sessions.items():
        other = "alive" if one.process == ALIVE else "unknown"
        if one.status != WORDS.get((one.process, one.turn), other) or one.turn not in TURN_WORDS:
            yield f"{name}: {one.status} for {one.process}, {one.turn}"
        if one.rule == "" or not one.evidence:
            yield f"{name}: no rule or no evidence"


def one_row_for_each_session(facts: Facts) -> Iterator[str]:
    if len(facts.sessions) != len(facts.judged.sessions):
        yield "two rows of one session"
    if set(facts.sessions) != set(facts.records) | set(facts.links):
        yield "a session is dropped or invented"


def the_incomplete_ends_nothing(facts: Facts) -> Iterator[str]:
    """In a store that is not wholly seen a missing process proves nothing, unless its key is proved ours and gone."""
    for name, one in facts.sessions.items():
        stores = {(name[0], record.store) for record in facts.records.get(name, ())}
        stores |= {(name[0], link.store) for link in facts.links.get(name, ())}
        closed = (record := facts.newest(name)) is not None and record.turn != WORKING
        if one.process != GONE or closed or not stores & facts.incomplete:
            continue
        links = [link for above in facts.family(name) for link in facts.links.get(above, ())]
        if not any(link.here is True and facts.world.processes.gone(link.key) for link in links):
            yield f"{name}: ended in mid-turn, in a store that is not wholly seen"


def a_live_supervisor_keeps_it_open(facts: Facts) -> Iterator[str]:
    for one in facts.world.supervisors:
        session = facts.sessions.get((one.agent, one.id))
        if session is not None and one.key in facts.living and session.process == GONE:
            yield f"{one.agent} {one.id}: ended, and its daemon {one.key} lives"
        if session is not None and one.key in facts.living and session.link is None and session.process != UNKNOWN:
            yield f"{one.agent} {one.id}: {session.process} with a live supervisor and no live link"


def a_guess_is_labelled(facts: Facts) -> Iterator[str]:
    for name, one in facts.sessions.items():
        if one.link == SOLE and not one.inferred:
            yield f"{name}: sole, and not inferred"
        record = facts.newest(name)
        if one.process == GONE and one.turn != UNKNOWN and record and record.inferred and not one.inferred:
            yield f"{name}: ended by a record that guesses, and not inferred"
        exact = [link for link in facts.links.get(name, ()) if link.strength == EXACT and link.key in facts.living]
        if one.process == ALIVE and not exact and not one.inferred:
            yield f"{name}: alive without an exact link, and not inferred"


def a_candidate_is_not_ended(facts: Facts) -> Iterator[str]:
    """A live process that may be on it: in mid-turn it is unknown, closed it keeps its word, inferred."""
    for claim in facts.loose:
        for id in claim.candidates or () if claim.role == AGENT else ():
            one = facts.sessions.get((claim.agent, id))
            if one is None or one.process != GONE:
                continue
            if facts.mid_turn((claim.agent, id)):
                yield f"{claim.agent} {id}: ended in mid-turn, and {claim.key} may be on it"
            elif not one.inferred:
                yield f"{claim.agent} {id}: firmly {one.status}, and {claim.key} may be on it"


def every_loose_process_is_shown_once(facts: Facts) -> Iterator[str]:
    lines = [(line.agent, line.pid) for line in facts.judged.unattached]
    shown = {claim.key for claim in facts.loose if claim.shown}
    for claim in facts.loose:
        line = lines.count((claim.agent, claim.key.pid))
        rows = [one for one in facts.sessions.values() if one.rule == "alive" and has(one, claim.key)]
        for one in rows:
            rivals = [other for other in facts.loose if one.id in (other.candidates or ()) and other.agent == one.agent]
            if rivals != [claim] or facts.linked_live((one.agent, one.id)):
                yield f"{one.agent} {one.id}: {claim.key} is taken for it, and is not the only one"
        if line + len(rows) != (1 if claim.shown or rows else 0):
            yield f"{claim.agent} {claim.key}: {line} lines and {len(rows)} sessions"
    if len(lines) != len({pid for _, pid in lines} & {key.pid for key in shown}):
        yield "a line of a process that is not loose"


def has(session: Session, key: ProcessKey) -> bool:
    return any(entry["key"] == str(key) for entry in session.processes)


def a_fresh_record_never_ends(facts: Facts) -> Iterator[str]:
    for name, records in facts.records.items():
        if any(record.fresh for record in records) and facts.sessions[name].process == GONE:
            yield f"{name}: ended, and it was written after the table was read"


def the_elsewhere_is_unknown(facts: Facts) -> Iterator[str]:
    for name, links in facts.links.items():
        far = any(link.here is False and link.key not in facts.living for link in links)
        if far and facts.sessions[name].process == GONE:
            yield f"{name}: ended, and its process is where we cannot look"


def what_is_proved_is_said(facts: Facts) -> Iterator[str]:
    """Unknown is no way out: where nothing is hidden and no live process can be on it, it has ended, firmly."""
    bosses = {(one.agent, one.id) for one in facts.world.supervisors if one.key in facts.living}
    for name, one in facts.sessions.items():
        record, links = facts.newest(name), facts.links.get(name, [])
        if record is None or record.turn == UNKNOWN or record.parent or name in bosses or facts.linked_live(name):
            continue
        stores = {(name[0], found.store) for found in facts.records[name]} | {(name[0], link.store) for link in links}
        free = not any(
            claim.agent == name[0]
            and (claim.candidates is None or name[1] in claim.candidates)
            and (claim.store is None or (name[0], claim.store) in stores)
            for claim in facts.loose
        )
        fresh = any(found.fresh for found in facts.records[name])
        if free and not fresh and not stores & facts.incomplete and all(link.here is not False for link in links):
            turn = {WORKING: INTERRUPTED, IDLE: DONE}.get(record.turn, record.turn)
            if (one.process, one.turn, one.inferred) != (GONE, turn, record.inferred):
                yield f"{name}: {one.process}, {one.turn}, inferred={one.inferred}; it is proved to be {turn}"


def the_truth_is_not_contradicted(facts: Facts) -> Iterator[str]:
    """Against what is really so, which the judge has never seen."""
    case = facts.case
    for name, one in facts.sessions.items():
        on = case.on[name]
        closed = (record := facts.newest(name)) is not None and record.turn != WORKING
        if one.process == GONE and on and one.status == "stopped" and not closed:
            yield f"{name}: stopped in mid-turn, and {sorted(on)} works on it"
        if one.process == GONE and on and not one.inferred:
            yield f"{name}: firmly {one.status}, and {sorted(on)} is on it"
        if one.process == ALIVE:
            above = {str(key) for other in facts.family(name) for key in case.on[other]}
            if one.process_key not in above:
                yield f"{name}: alive by {one.process_key}, which is not on it"
        interrupted = one.process == GONE and one.turn == INTERRUPTED and one.rule != "closed"
        if interrupted and not case.open[name] and name not in case.copied:
            yield f"{name}: ended in mid-turn, and its turn was closed"


def the_order_does_not_matter(facts: Facts) -> Iterator[str]:
    def shuffled(values: tuple[T, ...]) -> tuple[T, ...]:
        return tuple(facts.rng.sample(values, len(values)))

    world = facts.world
    mixed = World(
        world.processes,
        shuffled(world.stores),
        shuffled(world.records),
        shuffled(world.links),
        shuffled(world.claims),
        shuffled(world.supervisors),
    )
    if judged(mixed) != facts.judged:
        yield "a second reading, in another order, changes the answer"


class More(NamedTuple):
    records: list[Record]
    claims: list[Claim]
    supervisors: list[Supervisor]


def more_evidence(facts: Facts) -> More:
    """Anything but a process event or a link: it need not even be true."""
    rng, world = facts.rng, facts.world
    more = More([], [], [])
    names = list(facts.sessions) or [("amber", "s0")]
    claimed = {claim.key for claim in world.claims}
    for _ in range(rng.randrange(4)):
        agent, id = rng.choice(names)
        store = rng.choice([one.root for one in world.stores if one.agent == agent])
        id = rng.choice((id, "new"))
        turn = rng.choice((WORKING, *CLOSED_TURNS, UNKNOWN))
        updated_at = NOW + rng.randrange(-9, 9)
        fresh = rng.random() > 0.8
        more.records.append(
            Record(agent, id, store, turn, path=f"{store}/more-{len(more.records)}", updated_at=updated_at, fresh=fresh)
        )
        key = rng.choice(sorted(facts.living) or [ProcessKey("boot-1", 9999, 1)])
        if key not in claimed and rng.random() > 0.5:
            claimed.add(key)
            more.claims.append(Claim(agent, key, AGENT, store, rng.choice(((id,), None)), sole=True))
        more.supervisors.append(Supervisor(agent, id, key, "it has it"))
    return more


def more_evidence_ends_nothing(facts: Facts) -> Iterator[str]:
    world, more = facts.world, more_evidence(facts)
    again = judged(
        world._replace(
            records=(*world.records, *more.records),
            claims=(*world.claims, *more.claims),
            supervisors=(*world.supervisors, *more.supervisors),
        )
    )
    changed = {(record.agent, record.id) for record in more.records}
    for after in again.sessions:
        name = (after.agent, after.id)
        before = facts.sessions.get(name)
        if before is None or before.process != ALIVE:
            continue
        if before.rule == "parent" and changed & set(facts.family(name)):
            continue  # a record that may release it
        if before.link == SOLE and (more.claims or name in changed) and not facts.linked_live(name):
            if after.process == GONE and (not after.inferred or after.rule != "closed"):
                yield f"{name}: a rival ends it: {after.process} {after.rule}"
        elif (after.process, after.pid) != (before.process, before.pid):
            yield f"{name}: was alive by {before.pid}, and with more evidence {after.process} by {after.pid}"


INVARIANTS = (
    alive_while_a_linked_process_lives,
    alive_only_by_a_live_process,
    no_pid_of_a_stranger,
    the_word_is_the_function_of_the_axes,
    one_row_for_each_session,
    the_incomplete_ends_nothing,
    a_live_supervisor_keeps_it_open,
    a_guess_is_labelled,
    a_candidate_is_not_ended,
    every_loose_process_is_shown_once,
    a_fresh_record_never_ends,
    the_elsewhere_is_unknown,
    what_is_proved_is_said,
    the_truth_is_not_contradicted,
    the_order_does_not_matter,
    more_evidence_ends_nothing,
)


def check(rng: random.Random) -> None:
    facts = Facts(make(rng), rng)
    broken = [f"{rule.__name__}: {what}" for rule in INVARIANTS for what in rule(facts)]
    assert not broken, "\n".join([*broken, show(facts.case, facts.judged)])


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_invariant_holds_in_every_world(chunk: int) -> None:
    for seed in range(chunk, WORLDS, CHUNKS):
        try:
            check(random.Random(seed))
        except AssertionError as error:
            pytest.fail(f"seed {seed}: {error}", pytrace=False)


@pytest.mark.bulk
@pytest.mark.stress
@settings(max_examples=1000, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_a_broken_invariant_shrinks_to_a_small_world(rng: random.Random) -> None:
    check(rng)
