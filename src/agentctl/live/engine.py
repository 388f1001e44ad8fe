"""Looks again whenever something may have changed, and turns the looks into events.

    for look in Engine(scope).looks(): ...          # list --watch
    for step in follow(Engine(scope)): ...          # events -f

A wake-up proves nothing, it only causes a look (the one query). What wakes: the end of a process (at once), a file that
a store names (at most twice a second), a new process that an agent recognises (the set of pids is compared once a
second). Without any, there is a look every 15 s, so a lost wake-up is a delay.
"""

from __future__ import annotations

import os
import time

from agentctl.agents import chosen, load_all
from agentctl.agents.guard import despite_faults
from agentctl.kernel.newcomers import Newcomers, table_of
from agentctl.kernel.stall_guard import gather
from agentctl.kernel.watch import CLOSED, DUE, Watch
from agentctl.launches.records import OWNER
from agentctl.live.difference import REMOVED, Seen, carried, difference
from agentctl.live.pace import BLIND_PAUSE, Bursts, Rests
from agentctl.model import ALIVE, GONE, UNKNOWN, Problem, ProcessKey, Value
from agentctl.query.candidates import claim_all
from agentctl.query.sessions import SECOND_LOOK, settled_look
from agentctl.query.store_reader import watched_paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from agentctl.live.difference import Event, Name
    from agentctl.model import Session
    from agentctl.query.reading import Scope
    from agentctl.query.sessions import Look

CHECK_PIDS = 1.0  # seconds
LOOKS_IN_A_ROW, BREATH = 3, 0.2  # looks at what was not watched before; then a rest, however much is new
FORGET_STALLED = 60.0  # seconds after which a store that did not answer is tried again
TRY_AGAIN = 60.0  # seconds after which we ask the kernel for room for watches again
ENDED_KEPT = 50  # sessions that have ended and are still looked at: how they ended may be recorded late
NO_ROOM = (
    "the kernel has no room for more inotify watches of this user (fs.inotify.max_user_watches, max_user_instances), "
    f"so agentctl looks every {BLIND_PAUSE:g} s"
)
BORN = "born"  # beside the words of Watch.sleep: a process that may be an agent's


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
        self._reader, self._tick = reader, tick
        self._rests, self._stalled = Rests(), Stalled()
        self._newcomers = Newcomers()
        self._checked = time.monotonic()  # the pids
        self._claimed: frozenset[ProcessKey] = frozenset()
        self._full_since: float | None = None
        # Whoever takes the looks says here whether the last one differs from the one before, or one more is wanted.
        self.changed = True
        self.again = False

    @property
    def hints(self) -> dict[tuple[str, str | None], Problem]:
        """What hinders the engine itself."""
        return {} if self._full_since is None else {(OWNER, "inotify"): Problem(OWNER, NO_ROOM, "inotify")}

    def looks(self) -> Iterator[Look]:
        in_a_row = 0
        pace = Bursts()
        with Watch(pace, self._reader) as watch:
            while True:
                look = self.look()
                yield look
                new = self._cover(watch, look)
                in_a_row = in_a_row + 1 if new else 0
                if self.again or 0 < in_a_row < LOOKS_IN_A_ROW:
                    time.sleep(SECOND_LOOK if self.again else 0.0)
                    self.again = False
                    continue
                pause = self._rests.after(changed=self.changed, unsettled=is_unsettled(look), blind=watch.blind)
                why = self._sleep(watch, pace, time.monotonic() + (BREATH if new else pause))
                if why == CLOSED:
                    return
                self.changed = why != DUE

    def look(self) -> Look:
        """Look once, by the one query."""
        self._check_pids()  # what is born from now on is new
        now = time.monotonic()
        look = settled_look(self.scope, self._env, self._stalled.known(now))
        self._stalled.note(look, now)
        self._claimed = look.claimed
        return look

    def _sleep(self, watch: Watch, pace: Bursts, due: float) -> str:
        """Sleep until something happens or a look is due. Return which. A check of the pids never cuts the rest short
        that files which change all the time have to take."""
        while True:
            check = max(self._checked + CHECK_PIDS, pace.earliest())
            why = watch.sleep(min(due, check))
            if why != DUE or time.monotonic() >= due:
                return why
            if self._is_agent_among(self._check_pids()):
                return BORN
            self._tick()

    def _check_pids(self) -> frozenset[int]:
        self._checked = time.monotonic()
        return self._newcomers.check()

    def _is_agent_among(self, pids: frozenset[int]) -> bool:
        """Is one of these processes an agent's that the last look did not see?"""
        if not pids:
            return False
        table = table_of(pids)
        claims = despite_faults(load_all(chosen(self.scope.agents)), lambda agents: claim_all(agents, table))
        return any(claim.process.key not in self._claimed for claim in claims)

    def _cover(self, watch: Watch, look: Look) -> bool:
        """Watch all whose change may change an answer. True: some of it was not watched before."""
        now = time.monotonic()
        if self._full_since is not None and now - self._full_since >= TRY_AGAIN:
            self._full_since = None
            watch.try_again()
        paths, complete = paths_of(look)
        new = watch.cover(keys_of(look), paths, blind=self._newcomers.blind or not complete)
        if watch.full and self._full_since is None:
            self._full_since = now
        return new


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
    paths, complete = paths_in_stores(look, live)
    launched = {session.launch_id for session in live if session.launch_id is not None}
    records = (ours.launch.path for ours in look.world.launches if ours.launch.id in launched)
    return paths | {os.path.dirname(path) for path in records if path is not None}, complete


def paths_in_stores(look: Look, live: Iterable[Session]) -> tuple[set[str], bool]:
    """Return what the stores of live sessions name, and the stores that could not be read."""
    ids: dict[Name, list[str]] = {}
    for session in live:
        ids.setdefault((session.agent, session.store or ""), []).append(session.id)
    there = [reading for reading in look.readings if not reading.absent]
    asked = [reading for reading in there if reading.usable and reading.name in ids]
    outcomes = gather([watched_paths(reading, ids[reading.name]) for reading in asked])
    paths = {path for found, _ in outcomes for path in found}
    paths |= {reading.store.root for reading in there if not reading.usable}
    complete = not any(reading.incomplete for reading in asked) and not any(failure for _, failure in outcomes)
    return paths, complete


class Stalled:
    """The stores that did not answer. Each try leaves a thread behind, so they are not tried at each look."""

    def __init__(self) -> None:
        self._stores: dict[Name, str] = {}
        self._since = 0.0

    def known(self, now: float) -> dict[Name, str]:
        if now - self._since >= FORGET_STALLED:
            self._stores = {}
        return dict(self._stores)

    def note(self, look: Look, now: float) -> None:
        if look.stalled and not self._stores:
            self._since = now
        self._stores.update(look.stalled)


# Events


class Step(Value):
    """What a look brought: the events, and how things are after them. The first step is the checkpoint: no events."""

    events: tuple[Event, ...]
    seen: Seen
    first: bool = False


def follow(engine: Engine) -> Iterator[Step]:
    """Yield a checkpoint, then a step for each look that differs from the one before."""
    scope, ended = engine.scope, Ended()
    before: Seen | None = None
    doubted = False
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
            if events:
                yield Step(events, before)
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
