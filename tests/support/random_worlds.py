"""Random worlds for the judge: first what is really so, then what an observer would see of it.

The truth has processes (born, dead, zombies, recycled pids, in other PID namespaces, born after the table was read)
and sessions that they are really on. The observation lags, is torn, is stale or is missing, within what agentctl
assumes of a store and of the kernel:

  - a complete table has every process that was alive when it was read; a hidden one may lack any of them
  - a process in another PID namespace or machine works only in a store that is known to be incomplete, or its link
    says that it is elsewhere
  - an exact link to a live key is never wrong; a link was written before its process began to work
  - the links of daemons, adopted spares and processes elsewhere are never lost: only an agent's own file is torn,
    and not while its process is hidden and a predecessor's file proves a death
  - the candidates of a live process without a link include the session it is on; `sole` is said only of such a one
  - a turn that a record has as closed was closed when it was written; a record of a dead process is its last word,
    or is torn or missing; the word in a link was read before the process table, and may be older
  - another store may have an older copy of what was written
  - a record whose writer was born after the table was read is fresh
  - a sub-agent runs in its parent's process; not while that process itself says that it is at its prompt; a record
    that is between it and the top is not lost
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from agentctl.kernel.processes import Processes
from agentctl.model import (
    AGENT,
    CLIENT,
    CLOSED_TURNS,
    DAEMON,
    EXACT,
    HELPER,
    IDLE,
    SOLE,
    SPARE,
    UNKNOWN,
    WAITING,
    WORKING,
    WRAPPER,
    Claim,
    Evidence,
    Judgement,
    Link,
    Process,
    ProcessKey,
    Record,
    StoreView,
    Supervisor,
)
from agentctl.query.world import World
from tests.support.table import source

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

BOOT, EARLIER_BOOT, OTHER_MACHINE = "boot-1", "boot-0", "boot-of-another-machine"
NOW = 1_800_000_000.0
Name = tuple[str, str]
T = TypeVar("T")

WEIGHTS = {"ended": 8, "own": 6, "daemon": 2, "wrapped": 2, "spare": 1, "elsewhere": 1, "two writers": 1, "late": 1}
KINDS = tuple(kind for kind, weight in WEIGHTS.items() for _ in range(weight))
LIVE_TURNS = (*(WORKING,) * 5, WAITING, *CLOSED_TURNS, IDLE)
LAST_TURNS = (*(WORKING,) * 4, *CLOSED_TURNS, IDLE)


@dataclass(slots=True, eq=False)
class Actor:
    """A process of an agent that lives or lived."""

    key: ProcessKey
    agent: str
    role: str
    store: str
    parent: int = 1
    alive: bool = True
    here: bool = True  # in our PID namespace, on our machine
    zombie: bool = False
    late: bool = False  # born after the table was read
    linked: bool = False
    on: list[Tale] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Tale:
    """What is really so of one session."""

    agent: str
    id: str
    store: str
    turn: str  # how it stands, or stood when its last process ended
    parent: Tale | None = None
    holders: list[Actor] = field(default_factory=list)  # alive
    past: list[Actor] = field(default_factory=list)  # dead

    @property
    def name(self) -> Name:
        return (self.agent, self.id)

    @property
    def open(self) -> bool:
        return self.turn in (WORKING, WAITING)


class RandomWorld(NamedTuple):
    world: World
    on: dict[Name, frozenset[ProcessKey]]  # the live processes that are really on it, seen or not
    open: dict[Name, bool]  # is its turn really open, or was it when its last process ended
    copied: frozenset[Name]  # a store has an older copy of it


def make(rng: Random) -> RandomWorld:
    maker = Maker(rng)
    for number in range(1 + rng.randrange(5)):
        maker.add_session(f"s{number}")
    for number in rng.sample(range(9), rng.randrange(4)):  # a parent's id may come after its child's
        maker.add_child(f"c{number}")
    maker.add_bystanders()
    return maker.observe()


class Maker:
    """Draws 0 for the plain choice, so that a failing world shrinks to a plain one."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        agents = ("amber", "birch")[: 1 + self.chance(0.3)]
        self.roots = {agent: [f"/{agent}/0", f"/{agent}/1"][: 1 + self.chance(0.4)] for agent in agents}
        self.hidden = "some of /proc could not be read" if self.chance(0.15) else None
        self.incomplete = {
            root: self.hidden or ("its store is shared" if self.chance(0.2) else None)
            for roots in self.roots.values()
            for root in roots
        }
        self.unread = {root: self.chance(0.04) for root in self.incomplete}
        self.actors: list[Actor] = []
        self.tales: list[Tale] = []
        self.rows: dict[int, Process] = {}  # who really has this pid, dead ones that are not reaped included
        self.daemons: dict[str, Actor] = {}
        self.tick = 1000
        self.next_pid = 100
        self.records: list[Record] = []
        self.links: list[Link] = []
        self.claims: list[Claim] = []
        self.supervisors: list[Supervisor] = []
        self.copied: set[Name] = set()

    def chance(self, probability: float) -> bool:
        return self.rng.random() >= 1 - probability

    def pick(self, options: Sequence[T]) -> T:
        return options[self.rng.randrange(len(options))]

    # The truth

    def born(self, agent: str, role: str, store: str, parent: int = 1) -> Actor:
        """A process here. The pids of dead and reaped ones are given out again."""
        self.tick += 1 + self.rng.randrange(40)
        reused = [actor.key.pid for actor in self.actors if actor.here and actor.key.pid not in self.rows]
        if reused and self.chance(0.4):
            pid = self.pick(reused)
        else:
            self.next_pid += 1
            pid = self.next_pid
        actor = Actor(ProcessKey(BOOT, pid, self.tick), agent, role, store, parent)
        state = "T" if self.chance(0.05) else "S"
        tty = 0x8800 + pid if self.chance(0.3) else 0
        self.rows[pid] = Process(actor.key, parent, f"{agent}-{role}", state, False, tty)
        self.actors.append(actor)
        return actor

    def bury(self, actor: Actor) -> None:
        actor.alive = False
        row = self.rows.pop(actor.key.pid)
        if self.chance(0.2):
            actor.zombie = True
            self.rows[actor.key.pid] = row._replace(state="Z", dead=True)

    def far(self, agent: str, store: str, *, alive: bool) -> Actor:
        """A process in another PID namespace (of this boot) or on another machine; its pid may be one of ours, too."""
        self.tick += 1
        pid = self.pick([*self.rows, 7])
        key = ProcessKey(BOOT, pid, self.tick) if self.chance(0.5) else self.twin(OTHER_MACHINE, pid)
        actor = Actor(key, agent, AGENT, store, alive=alive, here=False)
        self.actors.append(actor)
        return actor

    def twin(self, boot: str, pid: int) -> ProcessKey:
        """The key of another boot or machine, with the pid and the ticks of one of ours."""
        row = self.rows.get(pid)
        return ProcessKey(boot, pid, row.key.start if row else self.tick)

    def daemon(self, agent: str, store: str) -> Actor:
        if store not in self.daemons:
            self.daemons[store] = self.born(agent, DAEMON, store)
        return self.daemons[store]

    def add_session(self, id: str) -> None:
        agent = self.pick(list(self.roots))
        store = self.pick(self.roots[agent])
        kind = self.pick(KINDS)
        tale = Tale(agent, id, store, self.pick(LAST_TURNS if kind == "ended" else LIVE_TURNS))
        for _ in range(self.rng.randrange(3) if kind != "ended" else 1 + self.rng.randrange(2)):
            tale.past.append(self.predecessor(agent, store))
        tale.holders = self.holders_of(kind, agent, store)
        for actor in tale.holders:
            actor.on.append(tale)
        self.tales.append(tale)

    def predecessor(self, agent: str, store: str) -> Actor:
        if self.chance(0.05):
            return self.far(agent, store, alive=False)
        actor = self.born(agent, AGENT, store)
        self.bury(actor)
        if not actor.zombie and self.chance(0.1):
            actor.key = self.twin(EARLIER_BOOT, self.pick([actor.key.pid, *self.rows]))
        return actor

    def holders_of(self, kind: str, agent: str, store: str) -> list[Actor]:
        match kind:
            case "ended":
                return []
            case "daemon":
                return [self.daemon(agent, store)]
            case "wrapped":
                wrapper = self.born(agent, WRAPPER, store)
                return [self.born(agent, AGENT, store, wrapper.key.pid)]
            case "spare":
                return [self.born(agent, SPARE, store, self.daemon(agent, store).key.pid)]
            case "elsewhere":
                return [self.far(agent, store, alive=True)]
            case "late":
                self.tick += 1
                key = ProcessKey(BOOT, self.next_pid + 1000, self.tick)
                return [Actor(key, agent, AGENT, store, late=True)]
            case _:
                return [self.born(agent, AGENT, store) for _ in range(2 if kind == "two writers" else 1)]

    def add_child(self, id: str) -> None:
        begun = [tale for tale in self.tales if tale.turn != IDLE]
        if not begun:
            return
        parent = self.pick(begun)
        child = Tale(parent.agent, id, parent.store, self.pick((WORKING, *CLOSED_TURNS)), parent)
        if child.turn == WORKING and (parent.open or self.chance(0.5)):
            child.holders = list(parent.holders)  # also in the background, after its parent's turn
            if parent.parent is not None and not parent.open:
                child.holders = []
        elif self.chance(0.1):
            child.past.append(self.predecessor(child.agent, child.store))
        self.tales.append(child)

    def add_bystanders(self) -> None:
        for role in (AGENT, CLIENT, HELPER, SPARE, WRAPPER, DAEMON):
            if self.chance(0.25):
                agent = self.pick(list(self.roots))
                self.born(agent, role, self.pick(self.roots[agent]))
        for actor in list(self.actors):  # strangers that were given the pid of a dead process
            if not actor.alive and actor.here and actor.key.pid not in self.rows and self.chance(0.3):
                self.tick += 1
                self.rows[actor.key.pid] = Process(ProcessKey(BOOT, actor.key.pid, self.tick), 1, "stranger", "S")

    # What is seen of it

    def observe(self) -> RandomWorld:
        seen = [row for row in self.rows.values() if self.hidden is None or not self.chance(0.4)]
        self.seen = {row.key for row in seen if not row.dead}
        taken = frozenset(self.rows)
        knows_absence = self.chance(0.5)
        for tale in self.tales:
            self.observe_record(tale)
            self.observe_links(tale)
        for root, unread in self.unread.items():
            if unread:
                self.forget(root)
        for actor in self.actors:
            if actor.key in self.seen:
                self.observe_process(actor)
        for tale in self.tales:
            self.observe_supervisors(tale)
        processes = Processes(
            BOOT,
            seen,
            source(
                absent=lambda pid: knows_absence and pid not in taken,
                incomplete_for=self.incomplete.get,
            ),
            boot_time=NOW - 1000,
            hidden=self.hidden,
        )
        stores = tuple(
            StoreView(agent, root, self.incomplete[root], "it did not answer" if self.unread[root] else None)
            for agent, roots in self.roots.items()
            for root in roots
        )
        written = {(one.agent, one.id) for one in self.records if one.fresh}
        on = {
            tale.name: frozenset(actor.key for actor in tale.holders if not actor.late or tale.name in written)
            for tale in self.tales
        }
        world = World(
            processes, stores, tuple(self.records), tuple(self.links), tuple(self.claims), tuple(self.supervisors)
        )
        return RandomWorld(
            world,
            on,
            {tale.name: tale.open for tale in self.tales},
            frozenset(self.copied),
        )

    def observe_record(self, tale: Tale) -> None:
        late = any(actor.late for actor in tale.holders)
        turn = WORKING if tale.turn == WAITING else tale.turn
        luck = self.rng.random()
        if luck > 0.9 and not late and not self.between(tale):
            return  # not written yet, or lost
        if luck > 0.8:
            self.write(tale, UNKNOWN, updated_at=self.pick((None, NOW)), fresh=late)
        elif luck > 0.65 and tale.holders and tale.parent is None:
            # Older than the truth.
            self.write(tale, self.pick((*CLOSED_TURNS, IDLE)) if tale.open else WORKING, fresh=late)
        else:
            self.write(tale, turn, fresh=late or (bool(tale.holders) and self.chance(0.1)))
        others = [root for root in self.roots[tale.agent] if root != tale.store]
        readable = not self.unread[tale.store] and (tale.parent is None or luck <= 0.8)
        if others and readable and self.chance(0.35):
            self.copied.add(tale.name)
            turn = self.pick((*CLOSED_TURNS, IDLE, WORKING, UNKNOWN))
            self.write(tale, turn, store=others[0], updated_at=NOW - 5000)

    def between(self, tale: Tale) -> bool:
        return tale.parent is not None and any(child.parent is tale for child in self.tales)

    def write(
        self, tale: Tale, turn: str, *, store: str | None = None, updated_at: float | None = NOW, fresh: bool = False
    ) -> None:
        root = store or tale.store
        reason = self.pick((None, "what the store says"))
        path = f"{root}/{tale.id}.jsonl"
        self.records.append(
            Record(
                tale.agent,
                tale.id,
                root,
                turn,
                reason,
                "an error" if self.chance(0.1) else None,
                ending="killed hard" if self.chance(0.1) else None,
                inferred=self.chance(0.05),
                path=None if self.chance(0.05) else path,
                updated_at=None if updated_at is None else updated_at - len(self.records),
                parent=tale.parent.id if tale.parent else None,
                fresh=fresh,
                evidence=(Evidence("store", f"turn {turn}", path),),
            )
        )

    def observe_links(self, tale: Tale) -> None:
        background = any(child.parent is tale and child.holders for child in self.tales)
        proof = False
        for actor in tale.past:
            if self.chance(0.6):
                here = self.here(actor)
                proof = proof or here is True
                self.link(tale, actor, here, self.pick((None, WORKING, WAITING, IDLE, UNKNOWN)))
        own_links = tale.parent is None or self.chance(0.2)  # some agents lock each sub-agent's session, too
        for actor in tale.holders:
            sure = actor.role in (DAEMON, SPARE) or not actor.here or (proof and actor.key not in self.seen)
            if actor.late or not own_links or not (sure or self.chance(0.75)):
                continue
            if tale.parent is not None and not actor.linked:
                continue  # its parent's file is torn: its own would be, too
            word = tale.turn if tale.turn in (WORKING, WAITING) else IDLE
            words = (None, UNKNOWN) if background and word == IDLE else (word, None, UNKNOWN)
            actor.linked = True
            self.link(tale, actor, self.here(actor), self.pick(words))

    def here(self, actor: Actor) -> bool | None:
        """Whether the link can tell that its process was one of ours. No link is wrong about it."""
        if actor.here:
            return self.pick((None, True)) if actor.key.boot == BOOT else None
        return self.pick((None, False)) if self.incomplete[actor.store] else False

    def link(self, tale: Tale, actor: Actor, here: bool | None, turn: str | None) -> None:
        strength = SOLE if actor.alive and self.chance(0.05) else EXACT
        path = f"{actor.store}/run/{actor.key.pid}"
        link = Link(
            tale.agent,
            tale.id,
            actor.store,
            actor.key,
            "its own file",
            strength,
            path,
            here=here,
            turn=turn,
            waiting_for="an answer" if turn == WAITING else None,
            inferred=self.chance(0.05),
            evidence=(Evidence("store", f"names pid {actor.key.pid}", path),),
        )
        self.links.append(link)
        others = [root for root in self.roots[tale.agent] if root != actor.store and not self.incomplete[root]]
        if others and self.chance(0.05) and actor.here and not self.unread[actor.store]:  # one folder under two names
            self.links.append(link._replace(store=others[0], path=f"{others[0]}/run/{actor.key.pid}", how="again"))

    def forget(self, root: str) -> None:
        """A store that stopped answering: nothing of it is known, or all of its links and some of its records."""
        everything = self.chance(0.5)
        between = {tale.name for tale in self.tales if self.between(tale)}
        lost = [
            one
            for one in self.records
            if one.store == root and (everything or ((one.agent, one.id) not in between and self.chance(0.5)))
        ]
        self.records = [one for one in self.records if one not in lost]
        if everything:
            self.links = [one for one in self.links if one.store != root]
            held = {one.key for one in self.links}
            for actor in self.actors:
                actor.linked = actor.key in held

    def observe_process(self, actor: Actor) -> None:
        claim = Claim(
            actor.agent,
            actor.key,
            actor.role,
            None if self.chance(0.1) else actor.store,
            shown=not self.chance(0.1),
            why=f"a {actor.role} without a link",
        )
        if actor.role == AGENT and not actor.linked:
            claim = self.with_candidates(claim, actor)
        self.claims.append(claim)

    def with_candidates(self, claim: Claim, actor: Actor) -> Claim:
        if self.unread[actor.store] or self.chance(0.15):
            return claim._replace(candidates=None)
        here = {record.id for record in self.records if claim.store in (None, record.store)}
        stored = [tale for tale in self.tales if tale.agent == actor.agent and tale not in actor.on and tale.id in here]
        others = [tale.id for tale in stored if (tale.parent is None or self.chance(0.3)) and self.chance(0.3)]
        ids = [*(tale.id for tale in actor.on), *others]
        self.rng.shuffle(ids)
        return claim._replace(candidates=tuple(ids), sole=bool(actor.on) and self.chance(0.5))

    def observe_supervisors(self, tale: Tale) -> None:
        daemons = [actor for actor in self.actors if actor.agent == tale.agent and actor.role in (DAEMON, AGENT)]
        if daemons and self.chance(0.12):
            key = self.pick(daemons).key
            why = f"its daemon (pid {key.pid}) has it as unfinished"
            self.supervisors.append(Supervisor(tale.agent, tale.id, key, why, f"{tale.store}/roster"))


# A failing world, on one screen


def show(case: RandomWorld, judged: Judgement | None = None) -> str:
    world = case.world
    lines = ["", f"table{f' ({world.processes.hidden})' if world.processes.hidden else ''}:"]
    for row in world.processes.by_pid.values():
        lines.append(f"  {brief(row.key)} {row.comm} {row.state}{' dead' if row.dead else ''} parent {row.parent}")
    lines.append("stores:")
    lines += [f"  {one.root} incomplete={one.incomplete!r} unread={one.unread!r}" for one in world.stores]
    lines.append("records:")
    for record in world.records:
        extra = f"{' fresh' if record.fresh else ''}{f' parent={record.parent}' if record.parent else ''}"
        lines.append(f"  {record.agent} {record.id} in {record.store} {record.turn} at {record.updated_at}{extra}")
    lines.append("links:")
    for link in world.links:
        lines.append(
            f"  {link.agent} {link.id} in {link.store} {brief(link.key)} here={link.here} {link.turn} {link.strength}"
        )
    lines.append("claims:")
    for claim in world.claims:
        flags = f"{' sole' if claim.sole else ''}{'' if claim.shown else ' not shown'}"
        lines.append(f"  {claim.agent} {brief(claim.key)} {claim.role} in {claim.store} on {claim.candidates}{flags}")
    lines += [f"supervisor: {one.agent} {one.id} {brief(one.key)}" for one in world.supervisors]
    lines.append("truth:")
    for name, keys in case.on.items():
        held = ", ".join(brief(key) for key in sorted(keys)) or "nobody"
        lines.append(f"  {' '.join(name)}: {held}; turn {'open' if case.open[name] else 'closed'}")
    for one in judged.sessions if judged else ():
        shown = f"pid {one.pid} link {one.link}{' inferred' if one.inferred else ''}"
        lines.append(f"answer: {one.agent} {one.id} {one.status} ({one.process}, {one.turn}) {shown}")
        lines += [f"    {fact.source}: {fact.fact}" for fact in one.evidence]
        lines += [f"    not: {text}" for text in one.rejected]
    for line in judged.unattached if judged else ():
        lines.append(f"unattached: {line.agent} {line.pid} {line.candidates}")
    return "\n".join(lines)


def brief(key: ProcessKey) -> str:
    return f"{key.pid}@{key.start}" + ("" if key.boot == BOOT else f"/{key.boot}")
