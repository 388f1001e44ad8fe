"""Looks again whenever something may have changed, and turns the looks into events.

    for look in Engine(scope).looks(): ...          # list --watch
    for step in follow(Engine(scope)): ...          # events -f

A wake-up proves nothing, it only causes a look (the one query). live/rounds.py says what wakes: the end of a process,
a file that a store names, a new process that an agent recognises (the set of pids is compared once a second). Without
any, there is a look every 15 s, so a lost wake-up is a delay.
"""

from __future__ import annotations

import os
import time

from agentctl.kernel.watch import CLOSED, DUE
from agentctl.launches.records import OWNER
from agentctl.live.births import Births
from agentctl.live.difference import REMOVED, Seen, carried, difference
from agentctl.live.looking import Stalled, paths_in_stores
from agentctl.live.pace import BLIND_PAUSE, BURST
from agentctl.live.rounds import Interest, Rounds
from agentctl.model import ALIVE, GONE, UNKNOWN, Problem, ProcessKey, Value
from agentctl.query.sessions import SECOND_LOOK, settled_look

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from agentctl.live.difference import Event, Name
    from agentctl.query.reading import Scope
    from agentctl.query.sessions import Look

ENDED_KEPT = 50  # sessions that have ended and are still looked at: how they ended may be recorded late
NO_ROOM = (
    "the kernel has no room for more inotify watches of this user (fs.inotify.max_user_watches, max_user_instances), "
    f"so agentctl looks every {BLIND_PAUSE:g} s"
)


class Engine:
    """Yields looks. `reader`: a descriptor that we write to; once nobody reads it, the looks end. `tick` is called
    about once a second while nothing happens."""

    def __init__(
        self,
        scope: Scope,
        env: Mapping[str, str] | None = None,
        *,
        reader: int | None = None,
        tick: Callable[[], None] = lambda: None,
    ) -> None:
        self.scope = scope
        self._env = dict(os.environ if env is None else env)
        self._stalled, self._births = Stalled(), Births(scope.agents)
        self._rounds = Rounds(BURST, reader=reader, births=self._births, tick=tick)
        self.own_problems: dict[tuple[str, str | None], Problem] = {}  # of whoever takes the looks
        # Whoever takes the looks says here whether the last one differs from the one before, or one more is wanted.
        self.changed = True
        self.again = False

    @property
    def hints(self) -> dict[tuple[str, str | None], Problem]:
        """What hinders the engine itself."""
        found = dict(self.own_problems)
        if self._rounds.full:
            found[(OWNER, "inotify")] = Problem(OWNER, NO_ROOM, "inotify")
        return found

    def looks(self) -> Iterator[Look]:
        with self._rounds as rounds:
            while True:
                look = self.look()
                yield look
                if rounds.cover(interest_of(look)) or self.again:
                    time.sleep(SECOND_LOOK if self.again else 0.0)
                    self.again = False
                    continue
                why = rounds.sleep(changed=self.changed)
                if why == CLOSED:
                    return
                self.changed = why != DUE

    def look(self) -> Look:
        """Look once, by the one query."""
        self._births.before_look()
        now = time.monotonic()
        look = settled_look(self.scope, self._env, self._stalled.known(now))
        self._stalled.note(look, now)
        self._births.known = look.claimed
        return look


def interest_of(look: Look) -> Interest:
    """Return all whose change may change an answer."""
    paths, complete = paths_of(look)
    return Interest(frozenset(keys_of(look)), frozenset(paths), complete, is_unsettled(look))


def is_unsettled(look: Look) -> bool:
    """Return whether something is open that no wake-up may tell."""
    passing = any(session.status in (UNKNOWN, ALIVE) for session in look.answer.sessions)
    return passing or bool(look.answer.unattached) or look.doubtful or look.moving


def keys_of(look: Look) -> set[ProcessKey]:
    """Return the live processes whose end may change an answer."""
    world = look.world
    named = (ProcessKey.parse(entry.get("key")) for one in look.answer.sessions for entry in one.processes)
    keys = {key for key in named if key is not None}
    keys |= {claim.key for claim in world.claims} | {boss.key for boss in world.supervisors}
    return {key for key in keys if world.processes.alive(key) is not None}


def paths_of(look: Look) -> tuple[set[str], bool]:
    """Return the paths that change when live sessions do, and whether those are all."""
    live = [session for session in look.answer.sessions if session.process != GONE]
    ids: dict[Name, list[str]] = {}
    for session in live:
        ids.setdefault((session.agent, session.store or ""), []).append(session.id)
    there = [reading for reading in look.readings if not reading.absent]
    wanted = [reading for reading in there if reading.name in ids or not reading.usable]
    paths, complete = paths_in_stores([(reading, ids.get(reading.name, ())) for reading in wanted])
    launched = {session.launch_id for session in live if session.launch_id is not None}
    records = (ours.launch.path for ours in look.world.launches if ours.launch.id in launched)
    return paths | {os.path.dirname(path) for path in records if path is not None}, complete


# Events


class Step(Value):
    """What a look brought: the events, and how things are after them. The first step is the checkpoint: no events, but
    for those since `before`, if `follow` was given that."""

    events: tuple[Event, ...]
    seen: Seen
    first: bool = False


def follow(engine: Engine, before: Seen | None = None) -> Iterator[Step]:
    """Yield a checkpoint, then a step for each look that differs from the one before. `before`: what an earlier stream
    told last, if this one goes on with it."""
    scope, ended = engine.scope, Ended()
    first, doubted = True, False
    if before is not None:
        engine.scope = scope._replace(also=frozenset(before.sessions))
    for look in engine.looks():
        now = seen_in(look, engine.hints, time.time())
        if before is None:
            before = now
            yield Step((), before, first=True)
        else:
            events = difference(before, now)
            # A file that is being replaced is absent for a moment: only the second look in a row tells a removal.
            doubted = engine.again = not doubted and any(event.type == REMOVED for event in events)
            if doubted:
                continue
            engine.changed = engine.changed or bool(events)
            before = ended.without_oldest(carried(before, now))
            if events or first:
                yield Step(events, before, first)
        first = False
        engine.scope = scope._replace(also=frozenset(before.sessions))


def seen_in(look: Look, hints: Mapping[tuple[str, str | None], Problem], at: float) -> Seen:
    sessions = {(session.agent, session.id): session for session in look.answer.sessions}
    problems = {(problem.agent, problem.path): problem for problem in reversed(look.answer.problems)}
    unread = frozenset((store.agent, store.root) for store in look.world.stores if store.unread is not None)
    return Seen(sessions, problems, unread, at, hints)


class Ended:
    """Which sessions have ended, in this order. The oldest are forgotten: a daemon may see very many."""

    def __init__(self) -> None:
        self._names: dict[Name, None] = {}

    def without_oldest(self, seen: Seen) -> Seen:
        now = {name for name, session in seen.sessions.items() if session.process == GONE}
        kept = [name for name in self._names if name in now]
        self._names = dict.fromkeys([*kept, *sorted(now - {*kept})][-ENDED_KEPT:])
        if len(now) == len(self._names):
            return seen
        alive = {name: session for name, session in seen.sessions.items() if name not in now or name in self._names}
        return seen._replace(sessions=alive)
