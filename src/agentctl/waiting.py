"""Waiting for sessions: pinned to the session, not to a process, and woken by what changes, not by a clock.

Each turn of the loop judges anew, by the one query path. What a wake-up means is never guessed from the wake-up.

| asked for | over when it is | exit code |
|---|---|---|
| nothing | no longer running: waiting, idle or ended | 0; 6 if its last turn failed; 7 if it was stopped |
| idle, waiting | that, or ended | the same |
| ended | ended | the same |

`alive` (what it does cannot be told) is waited on. An unknown ends the wait with 5, if it is still one after UNSURE
seconds of looking, where that can help. Of several the worst counts: WORST.
"""

from __future__ import annotations

import os
import time

from agentctl import launches
from agentctl import processes as process_table
from agentctl.agents import resolve
from agentctl.errors import AgentctlError, Ambiguous, NotFound
from agentctl.model import ALIVE, FAILED, GONE, IDLE, INTERRUPTED, UNKNOWN, WAITING, Launch, ProcessKey, Session, Value
from agentctl.readings import RECENT, Scope, in_parallel
from agentctl.sessions import examine, query, settled_look
from agentctl.watching import Watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from agentctl.model import Exit
    from agentctl.processes import Processes
    from agentctl.readings import Reading
    from agentctl.sessions import Look

UNTIL = ("ended", IDLE, WAITING)
OK, UNTOLD, TURN_FAILED, STOPPED, TIMED_OUT = 0, 5, 6, 7, 124
WORST = (TIMED_OUT, UNTOLD, TURN_FAILED, STOPPED, OK)  # of several, the first of these that occurs
ENDS = {"done": OK, "failed": TURN_FAILED, "stopped": STOPPED}

UNSURE = 5.0  # seconds for an unknown that may pass
FINISHING = 0.5  # an agent that was stopped and is about to end looks like one at its prompt
PASSING = frozenset(("newer", "candidate", "supervised", "unread", "parent"))  # rules whose unknown may pass
LOOKS_IN_A_ROW, BREATH = 3, 0.2  # for what was not watched before; then a rest, however much is new
FORGET_STALLED = 60.0  # seconds after which a store that did not answer, and has none of ours, is tried again


class Seen(Value):
    """How one of those that are waited for stands."""

    status: str
    why: str | None = None
    key: ProcessKey | None = None
    code: int | None = None  # the exit code, if the wait for it is over
    patience: float = 0.0  # for how long it must stand so before it is


class Transition(Value):
    id: str | None  # None: a launch that has no session yet
    launch_id: str | None
    agent: str
    before: str
    after: str
    why: str | None
    pid: int | None
    at: float


class Waited(Value):
    """One that was waited for, as it stood at the end."""

    id: str | None
    launch_id: str | None
    agent: str
    status: str
    why: str | None
    exit_code: int
    session: Session | None = None
    exit: Exit | None = None  # of a launch without a session


class Result(Value):
    waited: tuple[Waited, ...]
    exit_code: int


class Target:
    """One that is waited for: a session, or a launch of ours that has none yet."""

    def __init__(self, session: Session | None, launch: Launch | None = None) -> None:
        self.session = session
        self.launch = launch
        self.exit: Exit | None = None  # of the launch's own child, as it was known before the last look
        self.seen: Seen | None = None
        self.told: Seen | None = None  # the last that stood
        self.key: ProcessKey | None = None  # the process that was on it last
        self.since = 0.0  # when its exit code became what it is
        self.over = False

    @property
    def agent(self) -> str:
        return self.session.agent if self.session else self.launch.agent if self.launch else ""

    @property
    def id(self) -> str | None:
        """Of its session, also of one that it is to have; None: nobody knows yet."""
        return self.session.id if self.session else self.launch.session_id if self.launch else None

    @property
    def session_id(self) -> str | None:
        return self.session.id if self.session else None

    @property
    def launch_id(self) -> str | None:
        return self.launch.id if self.launch else self.session.launch_id if self.session else None

    def learn_exit(self, env: Mapping[str, str]) -> None:
        """Before the look: so what it judges is newer than that line."""
        if self.launch is None and self.session is not None and self.session.launch_id:
            try:
                found = launches.read(self.session.launch_id, env)
            except NotFound:
                return
            self.launch = found if isinstance(found, Launch) else None
        if self.launch is not None and self.exit is None:
            ends = launches.exits(self.launch.id, env)
            self.exit = next((one for one in ends if one.key == self.launch.child), None)

    def settle(self, seen: Seen, now: float) -> None:
        if self.seen is None or self.seen.code != seen.code:
            self.since = now
        self.seen = seen
        self.over = seen.code is not None and now - self.since >= seen.patience

    def settles_at(self) -> float | None:
        return self.since + self.seen.patience if self.seen and self.seen.code is not None else None


def wait(
    ids: Sequence[str],
    until: str | None = None,
    timeout: float | None = None,
    *,
    group: str | None = None,
    first: bool = False,
    env: Mapping[str, str] | None = None,
    begun: Callable[[Sequence[Target]], None] = lambda targets: None,
    told: Callable[[Transition], None] = lambda transition: None,
) -> Result:
    """Wait for all of these, or for the `first` of them. Raises NotFound and Ambiguous for what there is not."""
    environment = dict(os.environ if env is None else env)
    deadline = None if timeout is None else time.monotonic() + timeout
    targets = find(ids, group, environment)
    looks, announced, stalled = 0, False, Stalled()
    with Watch() as watch:
        while True:
            started = time.monotonic()
            waiting = [target for target in targets if not target.over]
            looked = look_at(waiting, environment, stalled)
            for target in waiting:
                if (change := observe(target, looked, until)) is not None:
                    told(change)
            left = [target for target in targets if not target.over]
            late = deadline is not None and started >= deadline
            if not left or (first and len(left) < len(targets)) or late:
                return result(targets, first)
            if not announced:
                announced = True
                begun(left)
            new = cover(watch, left, looked)
            looks = looks + 1 if new else 0
            if 0 < looks < LOOKS_IN_A_ROW:
                continue
            breath = time.monotonic() + BREATH if new else None
            moments = [deadline, breath, *(target.settles_at() for target in left)]
            watch.sleep(min((moment for moment in moments if moment is not None), default=None))


def observe(target: Target, looked: Looked, until: str | None) -> Transition | None:
    """What this look says of it, and whether that is news. What may pass is told when it stands."""
    session = looked.session_of(target)
    if session is not None or target.session is not None:
        seen = session_seen(target, session, looked, until)
        target.session = session or target.session
    else:
        seen = launch_seen(target, looked)
    target.settle(seen, time.monotonic())
    if seen.patience and not target.over:
        return None
    before, last = target.told, target.key
    target.told, target.key = seen, seen.key or last
    if before is None:
        return None
    why = seen.why
    if seen.key is not None and last is not None and seen.key != last:
        run = f"a new run: pid {seen.key.pid}, before it was pid {last.pid}"
        why = f"{run}; {why}" if why else run
    elif before.status == seen.status:
        return None
    pid = seen.key.pid if seen.key else None
    return Transition(
        target.session_id, target.launch_id, target.agent, before.status, seen.status, why, pid, time.time()
    )


def session_seen(target: Target, session: Session | None, looked: Looked, until: str | None) -> Seen:
    if session is None:
        return Seen(UNKNOWN, "its record is not to be found now", code=UNTOLD, patience=UNSURE)
    key = ProcessKey.parse(session.process_key)
    code, patience = decide(session, until)
    seen = Seen(session.status, words_of(session), key, code, patience)
    if session.process != GONE:
        return seen
    if looked.expects_exit(target):
        seen = seen._replace(patience=max(patience, UNSURE))
    if target.key is not None and (other := looked.moved_to(target)) is not None:
        moved = f"its process (pid {target.key.pid}) went on to {other}; this session is at rest"
        seen = seen._replace(why=f"{moved}; {seen.why}" if seen.why else moved)
    return seen


def decide(session: Session, until: str | None) -> tuple[int | None, float]:
    """The exit code if the wait for it is over, and for how long it must stand so. Pure."""
    if session.status == UNKNOWN:
        passing = session.process == UNKNOWN and session.rule in PASSING
        return UNTOLD, UNSURE if passing else 0.0
    if session.status in ENDS:
        return ENDS[session.status], 0.0
    if session.status == IDLE and until in (None, IDLE):
        # Whether a failed run is still finishing or has ended is a matter of a moment: both are the same to a script.
        if session.last_turn == FAILED:
            return TURN_FAILED, 0.0
        return OK, FINISHING if session.last_turn == INTERRUPTED else 0.0
    if session.status == WAITING and until in (None, WAITING):
        return OK, 0.0
    return None, 0.0


def words_of(session: Session) -> str | None:
    return session.waiting_for or session.error or session.reason


def launch_seen(target: Target, looked: Looked) -> Seen:
    """A launch that has no session: how its child ended, by its runner's word."""
    launch, end = target.launch, target.exit
    if launch is None or looked.processes.alive(launch.child):
        return Seen(ALIVE, "no session yet", launch.child if launch else None)
    if end is None:
        why = "it ended without a session, and how is not known"
        # Also where the runner is gone: it may have noted the end, and gone, after the notes were read for this look.
        patience = UNSURE if looked.processes.alive(launch.runner) else FINISHING
        return Seen(UNKNOWN, why, code=UNTOLD, patience=patience)
    if end.signal is not None:
        return Seen("stopped", f"it was ended by {end.signal}, without a session", code=STOPPED)
    why = end.error or f"it exited with {end.exit_code}, without a session"
    code = OK if end.exit_code == 0 else TURN_FAILED
    return Seen("done" if code == OK else "failed", why, code=code)


def result(targets: list[Target], first: bool) -> Result:
    found = []
    for target in targets:
        seen = target.seen or Seen(UNKNOWN)
        session = target.session
        if session is not None and session.status != seen.status:  # its record went away
            unread: dict[str, object] = {
                "process": UNKNOWN,
                "turn": UNKNOWN,
                "pid": None,
                "process_key": None,
                "processes": (),
            }
            unread |= {"link": None, "waiting_for": None, "suspended": False, "terminal": None}
            session = session._replace(status=seen.status, reason=seen.why, **unread)
        unsettled = UNTOLD if seen.status == UNKNOWN else TIMED_OUT
        code = seen.code if target.over and seen.code is not None else unsettled
        end = target.exit if session is None else None
        found.append(
            Waited(target.session_id, target.launch_id, target.agent, seen.status, seen.why, code, session, end)
        )
    counted = [one.exit_code for one, target in zip(found, targets, strict=True) if target.over]
    codes = counted[:1] if first and counted else [one.exit_code for one in found]
    return Result(tuple(found), next(code for code in WORST if code in codes))


# One look at all of them


class Looked:
    def __init__(self, looks: list[Look]) -> None:
        self.looks = looks
        self.processes: Processes = looks[0].world.processes if looks else process_table.snapshot()

    def session_of(self, target: Target) -> Session | None:
        sessions = (one for look in self.looks for one in look.answer.sessions if one.agent == target.agent)
        if target.id is not None:
            return next((one for one in sessions if one.id == target.id), None)
        return next((one for one in sessions if one.launch_id == target.launch_id), None)

    def expects_exit(self, target: Target) -> bool:
        """The child of a live runner has ended, and the runner is about to say how."""
        launch = target.launch
        if launch is None or target.exit is not None or self.processes.alive(launch.child):
            return False
        return self.processes.alive(launch.runner) is not None

    def moved_to(self, target: Target) -> str | None:
        """The session that the process which was on this one is on now."""
        links = [link for look in self.looks for link in look.world.links if link.agent == target.agent]
        alive = target.key is not None and self.processes.alive(target.key) is not None
        return next((link.id for link in links if alive and link.key == target.key and link.id != target.id), None)

    def keys(self, target: Target) -> Iterable[ProcessKey]:
        """The processes whose end may change how it stands: those on it, those that may be, those that bring it back,
        and those of its launch."""
        session = target.session
        if session is not None:
            keys = (ProcessKey.parse(entry.get("key")) for entry in session.processes)
            yield from (key for key in keys if key is not None)
            for look in self.looks:
                yield from (
                    one.key for one in look.world.supervisors if (one.agent, one.id) == (target.agent, target.id)
                )
                for claim in look.world.claims if session.process == UNKNOWN else ():
                    if claim.agent == target.agent and (claim.candidates is None or session.id in claim.candidates):
                        yield claim.key
        if target.launch is not None:
            own = (target.launch.child, target.launch.runner)
            yield from (key for key in own if self.processes.alive(key))


class Stalled:
    """The stores that did not answer, as far as we do not wait for what is in them. Each try leaves a thread behind,
    and a wait may be long: so they are not tried at each look."""

    def __init__(self) -> None:
        self._stores: dict[tuple[str, str], str] = {}
        self._since = 0.0

    def known(self, now: float) -> dict[tuple[str, str], str]:
        if now - self._since >= FORGET_STALLED:
            self._stores = {}
        return dict(self._stores)

    def note(self, looked: Looked, targets: list[Target], now: float) -> None:
        ours = {(target.agent, target.session.store) for target in targets if target.session}
        found = {name: why for look in looked.looks for name, why in look.stalled.items() if name not in ours}
        if found and not self._stores:
            self._since = now
        self._stores.update(found)


def look_at(targets: list[Target], env: Mapping[str, str], stalled: Stalled) -> Looked:
    for target in targets:
        target.learn_exit(env)
    named = [target for target in targets if target.id is not None and resolve(target.agent)]
    others = [target.launch for target in targets if target.id is None and target.launch and resolve(target.agent)]
    scopes = []
    if named:
        agents, ids = {target.agent for target in named}, {target.id for target in named if target.id}
        scopes.append(Scope(agents=tuple(sorted(agents)), ids=tuple(sorted(ids))))
    if others:
        since = min(launch.created_at for launch in others)
        scopes.append(Scope(agents=tuple(sorted({launch.agent for launch in others})), since=since))
    now = time.monotonic()
    looked = Looked([settled_look(scope, env, stalled.known(now)) for scope in scopes])
    stalled.note(looked, targets, now)
    return looked


def cover(watch: Watch, targets: list[Target], looked: Looked) -> bool:
    keys = {key for target in targets for key in looked.keys(target)}
    found: dict[Reading, list[str]] = {}
    jobs = []
    blind = any(target.settles_at() is not None for target in targets)
    for look in looked.looks:
        for reading in look.readings:
            theirs = [target.id for target in targets if target.id and concerns(reading, target)]
            blind = blind or bool(theirs and reading.incomplete)
            if theirs and reading.usable:
                jobs.append((reading, note_paths(reading, theirs, found)))
            elif theirs:
                found[reading] = [reading.store.root]
    in_parallel(jobs)
    blind = blind or any(reading not in found for reading, _ in jobs)
    paths = {path for several in list(found.values()) for path in several}  # one that stalled may still come
    paths |= {os.path.dirname(target.launch.path) for target in targets if target.launch and target.launch.path}
    return watch.cover(keys, paths, blind=blind)


def concerns(reading: Reading, target: Target) -> bool:
    """Is the session, or was it, in this store? A launch of which there is nothing yet may come to be in any."""
    if target.agent != reading.agent.NAME:
        return False
    return target.session is None or target.session.store == reading.store.root or target.id in reading.records


def note_paths(reading: Reading, ids: list[str], found: dict[Reading, list[str]]) -> Callable[[], None]:
    def run() -> None:
        paths: list[str] = []
        for id in ids:
            paths += reading.store.watched(id)
            reading.progress += 1
        found[reading] = paths

    return run


# Whom to wait for


def find(ids: Sequence[str], group: str | None, env: Mapping[str, str]) -> list[Target]:
    found: list[Target] = members(group, env) if group is not None else []
    exact: dict[str, list[Session]] = {}
    if len(ids) > 1:  # all at once; what is not whole, one by one
        for session in query(Scope(ids=tuple(ids)), env).sessions:
            exact.setdefault(session.id, []).append(session)
    for text in ids:
        known = exact.get(text, [])
        found.append(Target(known[0]) if len(known) == 1 else find_one(text, env))
    return list({(one.agent, one.id or one.launch_id): one for one in found}.values())


def find_one(text: str, env: Mapping[str, str]) -> Target:
    try:
        return Target(examine(text, env).answer.sessions[0])
    except Ambiguous:
        raise
    except NotFound:
        folder = os.path.join(launches.launches_folder(env), text)
        launch = launches.read_folder(text, folder) if launches.is_id(text) else None
        if launch is None:
            raise
    if not isinstance(launch, Launch):
        raise AgentctlError(f"{launch.path}: {launch.problem}; `agentctl list` shows what there is")
    return Target(None, launch)


def members(group: str, env: Mapping[str, str]) -> list[Target]:
    """The sessions of a group, and its launches that have none yet, as they are now."""
    launches.check_group(group, env)
    sessions = [one for one in query(Scope(since=time.time() - RECENT), env).sessions if one.group == group]
    held = {session.launch_id for session in sessions}
    begun = [one for one in launches.read_all(env)[0] if one.group == group and one.id not in held]
    return [*(Target(session) for session in sessions), *(Target(None, launch) for launch in begun)]
