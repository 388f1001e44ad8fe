"""list, status and why agree on one frozen world: the query path over random worlds, by agents made of their facts."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from agentctl.agents.base import Candidates
from agentctl.files.reader import Reader
from agentctl.model import ALIVE, Details
from agentctl.query import roots, sessions
from agentctl.query.sessions import Scope, query, query_session
from tests.support.random_worlds import NOW, RandomWorld, make, show

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from agentctl.kernel.processes import Processes
    from agentctl.model import Link, Problem, Process, Record, Supervisor
    from agentctl.query.world import World

WORLDS = 400
CHUNKS = 4
HOME, ANOTHER_HOME = "/home-of-a-random-world", "/another-home"


class FactStore:
    """A store that says what the world says of it."""

    def __init__(self, agent: str, root: str, world: World) -> None:
        self.root = root
        self.reader = Reader(agent, root)
        self.derived = None
        self._unread = next(store.unread for store in world.stores if store.root == root)
        self._records = {record.id: record for record in world.records if record.store == root}
        self._links = [link for link in world.links if link.store == root]
        self._supervisors = [boss for boss in world.supervisors if boss.path == f"{root}/roster"]
        self._claims = {claim.key: claim for claim in world.claims if claim.agent == agent}

    def told(self) -> list[Problem]:
        return []

    def survey(self) -> None:
        if self._unread:
            raise OSError(5, self._unread)

    def links(self, processes: Processes) -> list[Link]:
        return list(self._links)

    def supervisors(self, processes: Processes) -> list[Supervisor]:
        return list(self._supervisors)

    def role(self, process: Process, details: Details, role: str, processes: Processes) -> str:
        return role

    def candidates(self, process: Process, details: Details, started_at: float) -> Candidates:
        claim = self._claims[process.key]
        return Candidates(claim.candidates, sole=claim.sole, why=claim.why)

    def recent(self, since: float) -> Iterable[str]:
        return [*(id for id, record in self._records.items() if not record.parent), *(link.id for link in self._links)]

    def find(self, prefix: str) -> Iterable[str]:
        return [
            id for id in dict.fromkeys([*self._records, *(link.id for link in self._links)]) if id.startswith(prefix)
        ]

    def has(self, id: str) -> bool:
        """Not of every one: what it does not know of at once has to be found."""
        return id in self._records and (sum(id.encode()) + len(self.root)) % 3 > 0

    def record(self, id: str, *, tokens: bool = False) -> Record | None:
        return self._records.get(id)

    def observe(self, link: Link, record: Record | None, processes: Processes) -> Link:
        return link

    def children(self, id: str) -> Sequence[str]:
        return sorted(child for child, record in self._records.items() if record.parent == id)


class FactAgent:
    """An agent that recognises the processes that the world says are its own."""

    ALIASES: tuple[str, ...] = ()
    BINARIES: tuple[str, ...] = ()
    ENV: tuple[str, ...] = ()
    RUNS_MANY = False
    CERTIFIED: tuple[str, ...] = ()

    def __init__(self, name: str, world: World) -> None:
        self.NAME = name
        self.stores = [store.root for store in world.stores if store.agent == name]
        self._world = world
        self._roles = {claim.key: claim.role for claim in world.claims if claim.agent == name}

    def looks_like(self, comm: str) -> bool:
        return comm.startswith(self.NAME)

    def claims(self, process: Process, details: Details) -> str | None:
        return self._roles.get(process.key)

    def roots(self, env: Mapping[str, str]) -> tuple[str, ...]:
        return (env.get("STORE", self.stores[0]),)

    def open_store(self, root: str) -> FactStore:
        return FactStore(self.NAME, root, self._world)


def install(world: World, patch: pytest.MonkeyPatch) -> None:
    claims = {claim.key: claim for claim in world.claims}

    def details(process: Process) -> Details:
        claim = claims.get(process.key)
        env = None
        if claim is not None and claim.store is not None:
            env = {"HOME": HOME if claim.shown else ANOTHER_HOME, "STORE": claim.store}
        return Details((str(process.pid),), None, None, env, os.getuid(), (process.pid,))

    agents = [FactAgent(name, world) for name in dict.fromkeys(store.agent for store in world.stores)]
    patch.setattr(world.processes._source, "details", details)
    patch.setattr(sessions, "load_all", lambda names: agents)
    patch.setattr(sessions, "snapshot", lambda agents: world.processes)
    patch.setattr(sessions, "SECOND_LOOK", 0.0)
    patch.setattr(
        roots,
        "places",
        lambda agents, env: roots.Places({agent.NAME: list(agent.stores) for agent in agents}),
    )


def frozen(case: RandomWorld) -> World:
    """The world as one that nobody writes to while we look."""
    world = case.world
    return world._replace(records=tuple(record._replace(fresh=False) for record in world.records))


def plain(world: World) -> World:
    """Every session in one file of one store, and no sub-agents of sub-agents."""
    older = NOW - 1000
    tops = {record.id for record in world.records if record.parent is None} | {
        link.id for link in world.links if link.id.startswith("s")
    }
    records = [record for record in world.records if record.updated_at is None or record.updated_at > older]
    kept = [record for record in records if record.parent is None or record.parent in tops]
    nested = {record.id for record in records} - {record.id for record in kept}
    links = tuple(link for link in world.links if link.how != "again" and link.id not in nested)
    return world._replace(records=tuple(kept), links=links)


def disagreements() -> Iterable[str]:
    env = {"HOME": HOME}
    everything, now = query(Scope(since=0.0, children=True), env), query(Scope(children=True), env)
    tops = query(Scope(since=0.0), env)
    if tops.sessions != tuple(session for session in everything.sessions if session.parent is None):
        yield "list -a and list -a --tree"
    if not (everything.unattached == now.unattached == tops.unattached):
        yield "the processes of no session"
    shown = {session.id: session for session in now.sessions}
    for session in everything.sessions:
        asked = query_session(session.id, env)
        if asked.sessions[0] != session:
            yield f"list -a and status {session.id}: {session.status} {session.rule}, {asked.sessions[0].rule}"
        if asked.unattached != everything.unattached:
            yield f"list -a and status {session.id}: the processes of no session"
        if session.id in shown and shown[session.id] != session:
            yield f"list and list -a: {session.id}"
        # `list` does not open what is stored: it may miss one that cannot be read and that nobody is on.
        at_rest = session.rule == "unread" or (session.parent is not None and session.process != ALIVE)
        ended = session.process != ALIVE and session.status != "unknown"
        if session.id in shown and ended:
            yield f"list shows {session.id}, which has ended"
        if session.id not in shown and not ended and not at_rest:
            yield f"list does not show {session.id}: {session.status} {session.rule}"


def check(seed: int, world: World, case: RandomWorld) -> None:
    with pytest.MonkeyPatch.context() as patch:
        install(world, patch)
        found = list(disagreements())
    assert not found, f"seed {seed}: {found}{show(case._replace(world=world))}"


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_list_and_status_and_why_agree(chunk: int) -> None:
    for seed in range(chunk, WORLDS, CHUNKS):
        case = make(random.Random(seed))
        check(seed, plain(frozen(case)), case)


@pytest.mark.bulk
def test_they_agree_on_copies_and_nested_subagents() -> None:
    for seed in range(WORLDS):
        case = make(random.Random(seed))
        check(seed, frozen(case), case)
