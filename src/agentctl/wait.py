"""Wait for sessions. A wait follows the session, not a process, and is woken by changes, not by a clock.

What wakes it, and how often it looks, is the matter of live/rounds.py. Each round judges again, by the one query path;
here it is decided what a look says about a target, and whether the wait for it is over.

| until | over when the session is | exit code |
|---|---|---|
| nothing | no longer running: waiting, idle or ended | 0; 6 if its last turn failed; 7 if it was stopped |
| idle, waiting | that, or ended | the same |
| ended | ended | the same |

If the time limit of its launch stopped it, the exit code is 124. The wait goes on while a session is `alive` (what it
does cannot be known). `unknown` ends the wait with 5; if it may pass, only after it has lasted for UNSURE seconds. For
several sessions the worst exit code counts: WORST.
"""

from __future__ import annotations

import os
import time

from agentctl.agents import canonical_name
from agentctl.errors import NotFound
from agentctl.kernel import processes
from agentctl.launches import records
from agentctl.live.looking import Stalled, paths_in_stores
from agentctl.live.rounds import Interest, Rounds
from agentctl.model import ALIVE, FAILED, GONE, IDLE, INTERRUPTED, UNKNOWN, WAITING, Launch, ProcessKey, Session, Value
from agentctl.query.attribution import BECOMES_AGENT, child_of, left_behind, may_live, why_unseen
from agentctl.query.elsewhere import why_apart
from agentctl.query.reading import RECENT, Scope
from agentctl.query.resolve import group_in, launch_named, resolve
from agentctl.query.sessions import query, settled_look

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from agentctl.kernel.processes import Processes
    from agentctl.model import Exit
    from agentctl.query.reading import Reading
    from agentctl.query.sessions import Look

UNTIL = ("ended", IDLE, WAITING)
OK, CANNOT_KNOW, TURN_FAILED, STOPPED, TIMED_OUT = 0, 5, 6, 7, 124
WORST = (TIMED_OUT, CANNOT_KNOW, TURN_FAILED, STOPPED, OK)  # of several codes, the first of these that occurs
ENDS = {"done": OK, "failed": TURN_FAILED, "stopped": STOPPED}

UNSURE = 5.0  # seconds that an unknown which may pass must last
FINISHING = 0.5  # seconds: an agent that was stopped and is about to end looks like one at its prompt
PASSING = frozenset(("newer", "candidate", "supervised", "unread", "parent"))  # rules whose unknown may pass
UNREAD: dict[str, object] = {  # of a session whose record is gone
    "process": UNKNOWN,
    "turn": UNKNOWN,
    "pid": None,
    "process_key": None,
    "processes": (),
    "link": None,
    "waiting_for": None,
    "questions": (),
    "suspended": False,
    "terminal": None,
}


class Seen(Value):
    """What a look says about a target."""

    status: str
    why: str | None = None
    key: ProcessKey | None = None
    code: int | None = None  # the exit code, if the wait for it is over
    patience: float = 0.0  # seconds that it must stay so before the wait is over


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
    """A target at the end of the wait."""

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
    gave_up: bool = False  # the wait itself: its time was over


class Target:
    """What is waited for: a session, or a launch of ours that has no session yet."""

    def __init__(self, session: Session | None, launch: Launch | None = None) -> None:
        self.session = session
        self.launch = launch
        self.exit: Exit | None = None  # of the launch's own child, as recorded before the last look
        self.seen: Seen | None = None
        self.reported: Seen | None = None  # the last that lasted long enough
        self.key: ProcessKey | None = None  # the last process that was on it
        self.since = 0.0  # when its exit code became what it is
        self.over = False

    @property
    def agent(self) -> str:
        return self.session.agent if self.session else self.launch.agent if self.launch else ""

    @property
    def id(self) -> str | None:
        """The id of its session, or of the session that its launch will begin; None: not known yet."""
        return self.session.id if self.session else self.launch.session_id if self.launch else None

    @property
    def session_id(self) -> str | None:
        return self.session.id if self.session else None

    @property
    def launch_id(self) -> str | None:
        return self.launch.id if self.launch else self.session.launch_id if self.session else None

    def learn_exit(self, env: Mapping[str, str]) -> None:
        """Read how the launch's child ended. Call it before the look, so that the look is newer than this record."""
        if self.launch is None and self.session is not None and self.session.launch_id:
            try:
                launch = records.read(self.session.launch_id, env)
            except NotFound:
                return
            self.launch = launch if isinstance(launch, Launch) else None
        if self.launch is not None and self.exit is None:
            exits = records.exits(self.launch.id, env, self.launch.pid_namespace)
            self.exit = next((exit for exit in exits if exit.key == self.launch.child), None)

    def settle(self, seen: Seen, now: float) -> None:
        if self.seen is None or self.seen.code != seen.code:
            self.since = now
        self.seen = seen
        self.over = seen.code is not None and now - self.since >= seen.patience

    def meets_the_condition(self) -> bool:
        """Take the last look for an answer when the time is up: what it shows may pass, but it is no timeout."""
        code = self.seen.code if self.seen else None
        self.over = self.over or code not in (None, CANNOT_KNOW)
        return self.over

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
    report: Callable[[Transition], None] = lambda transition: None,
) -> Result:
    """Wait for all of these, or for the `first` of them. Calls `begun` once if there is anything to wait for, and
    `report` for each change. Raises NotFound and Ambiguous."""
    environment = dict(os.environ if env is None else env)
    deadline = None if timeout is None else time.monotonic() + timeout
    targets = find(ids, group, environment)
    announced, stalled = False, Stalled()
    with Rounds() as rounds:
        while True:
            started = time.monotonic()
            looked = look_at(still_waiting(targets), environment, stalled)
            changes = observe_all(still_waiting(targets), looked, until)
            for change in changes:
                report(change)
            left = still_waiting(targets)
            late = deadline is not None and started >= deadline
            if late:
                left = [target for target in left if not target.meets_the_condition()]
            over = is_over(targets, left, first)
            if late or over:
                return result(targets, first)._replace(gave_up=not over)
            if not announced:
                announced = True
                begun(left)
            rounds.rest(interest_of(left, looked, deadline), changed=bool(changes))


def still_waiting(targets: Sequence[Target]) -> list[Target]:
    return [target for target in targets if not target.over]


def is_over(targets: Sequence[Target], left: Sequence[Target], first: bool) -> bool:
    return not left or (first and len(left) < len(targets))


def next_look_at(targets: Sequence[Target], deadline: float | None) -> float:
    """The latest moment of the next look, if nothing else calls for one."""
    moments = [deadline, *(target.settles_at() for target in targets)]
    return min((moment for moment in moments if moment is not None), default=float("inf"))


def observe_all(targets: Sequence[Target], looked: Looked, until: str | None) -> list[Transition]:
    changes = [observe(target, looked, until) for target in targets]
    return [change for change in changes if change is not None]


def observe(target: Target, looked: Looked, until: str | None) -> Transition | None:
    """Note what this look says about a target; return the change, if there is one to report. What may pass is reported
    once it has lasted."""
    session = looked.session_of(target)
    if session is not None or target.session is not None:
        seen = session_seen(target, session, looked, until)
        target.session = session or target.session
    else:
        seen = launch_seen(target, looked)
    target.settle(seen, time.monotonic())
    if seen.patience and not target.over:
        return None
    before, last = target.reported, target.key
    target.reported, target.key = seen, seen.key or last
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
        return Seen(UNKNOWN, "its record is not to be found now", code=CANNOT_KNOW, patience=UNSURE)
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
    """The exit code if the wait for it is over, and the seconds for which it must stay so. Pure."""
    if session.status == UNKNOWN and session.rule == "wrapped":
        return None, 0.0  # what was launched lives: its end is an event
    if session.status == UNKNOWN:
        passing = session.process == UNKNOWN and session.rule in PASSING
        return CANNOT_KNOW, UNSURE if passing else 0.0
    if session.status in ENDS:
        return TIMED_OUT if session.timed_out else ENDS[session.status], 0.0
    if session.status == IDLE and until in (None, IDLE):
        # A failed run may still be finishing, or may have ended a moment ago: a script need not care.
        if session.last_turn == FAILED:
            return TURN_FAILED, 0.0
        return OK, FINISHING if session.last_turn == INTERRUPTED else 0.0
    if session.status == WAITING and until in (None, WAITING):
        return OK, 0.0
    return None, 0.0


def words_of(session: Session) -> str | None:
    return session.waiting_for or session.error or session.reason


def launch_seen(target: Target, looked: Looked) -> Seen:
    """A launch that has no session: how its child ended, as its runner recorded it."""
    launch, end = target.launch, target.exit
    if launch is None or (child := child_of(launch, looked.processes)) is not None:
        return Seen(ALIVE, "no session yet", child.key if launch and child else None)
    if (unseen := why_unseen(launch, looked.processes)) is not None:
        return Seen(UNKNOWN, unseen, code=CANNOT_KNOW)
    if any(may_live(look.world, target.agent, launch.child, launch.runner) for look in looked.looks):
        return Seen(ALIVE, "no session is known; its first process has ended, and what that started lives")
    if (why_unread := looked.why_unread(target.agent)) is not None:
        why = f"its process has ended, and its session cannot be looked for: {why_unread}"
        return Seen(UNKNOWN, why, code=CANNOT_KNOW, patience=UNSURE)
    if (apart := looked.why_apart(launch)) is not None:
        return Seen(UNKNOWN, f"its process has ended, and its session cannot be looked for: {apart}", code=CANNOT_KNOW)
    if end is None:
        why = "it ended without a session, and how is not known"
        # Even if the runner is gone: it may have recorded the end after we read the record for this look.
        patience = UNSURE if looked.processes.alive(looked.processes.own(launch.runner)) else FINISHING
        return Seen(UNKNOWN, why, code=CANNOT_KNOW, patience=patience)
    left = any(left_behind(look.world, launch.id, launch.child, launch.runner) for look in looked.looks)
    return how_it_ended(end)._replace(patience=BECOMES_AGENT if left else 0.0)


def how_it_ended(end: Exit) -> Seen:
    if end.time_limit is not None:
        return Seen("stopped", f"its time limit of {end.time_limit:g} s was over, without a session", code=TIMED_OUT)
    if end.signal is not None:
        return Seen("stopped", f"it was ended by {end.signal}, without a session", code=STOPPED)
    why = end.error or f"it exited with {end.exit_code}, without a session"
    code = OK if end.exit_code == 0 else TURN_FAILED
    return Seen("done" if code == OK else "failed", why, code=code)


def result(targets: list[Target], first: bool) -> Result:
    waited = tuple(map(waited_of, targets))
    over = [one.exit_code for one, target in zip(waited, targets, strict=True) if target.over]
    codes = over[:1] if first and over else [one.exit_code for one in waited]
    return Result(waited, next(code for code in WORST if code in codes))


def waited_of(target: Target) -> Waited:
    seen = target.seen or Seen(UNKNOWN)
    session = target.session
    if session is not None and session.status != seen.status:  # its record is gone
        session = session._replace(status=seen.status, reason=seen.why, **UNREAD)
    unsettled = CANNOT_KNOW if seen.status == UNKNOWN else TIMED_OUT
    code = seen.code if target.over and seen.code is not None else unsettled
    exit = target.exit if session is None else None
    return Waited(target.session_id, target.launch_id, target.agent, seen.status, seen.why, code, session, exit)


# One look at all of them


class Looked:
    def __init__(self, looks: list[Look]) -> None:
        self.looks = looks
        self.processes: Processes = looks[0].world.processes if looks else processes.snapshot()

    def session_of(self, target: Target) -> Session | None:
        sessions = (session for look in self.looks for session in look.answer.sessions)
        mine = (session for session in sessions if session.agent == target.agent)
        if target.id is not None:
            return next((session for session in mine if session.id == target.id), None)
        return next((session for session in mine if session.launch_id == target.launch_id), None)

    def why_unread(self, agent: str) -> str | None:
        """Return why a store of this agent could not be read; None if all of them were."""
        return next((why for look in self.looks if (why := look.world.why_unread(agent)) is not None), None)

    def why_apart(self, launch: Launch) -> str | None:
        """Return why no look has read the store of a launch; None if one has."""
        whys = [why_apart(launch, look) for look in self.looks]
        return whys[0] if whys and all(whys) else None

    def expects_exit(self, target: Target) -> bool:
        """Has the launch's child ended, while its runner lives and is about to record how?"""
        launch = target.launch
        if launch is None or target.exit is not None or child_of(launch, self.processes) is not None:
            return False
        return self.processes.alive(self.processes.own(launch.runner)) is not None

    def moved_to(self, target: Target) -> str | None:
        """The id of the session that the last process of this one is on now."""
        links = [link for look in self.looks for link in look.world.links if link.agent == target.agent]
        alive = target.key is not None and self.processes.alive(target.key) is not None
        return next((link.id for link in links if alive and link.key == target.key and link.id != target.id), None)

    def keys(self, target: Target) -> Iterable[ProcessKey]:
        """The processes whose end may change a target: those on it, those that may be on it, those that bring it back,
        and those of its launch."""
        session = target.session
        if session is not None:
            keys = (ProcessKey.parse(entry.get("key")) for entry in session.processes)
            yield from (key for key in keys if key is not None)
            for look in self.looks:
                mine = (target.agent, target.id)
                yield from (boss.key for boss in look.world.supervisors if (boss.agent, boss.id) == mine)
                for claim in look.world.claims if session.process == UNKNOWN else ():
                    if claim.agent == target.agent and (claim.candidates is None or session.id in claim.candidates):
                        yield claim.key
        if target.launch is not None:
            own = map(self.processes.own, (target.launch.child, target.launch.runner))
            yield from (key for key in own if self.processes.alive(key))


def look_at(targets: list[Target], env: Mapping[str, str], stalled: Stalled) -> Looked:
    for target in targets:
        target.learn_exit(env)
    now = time.monotonic()
    looked = Looked([settled_look(scope, env, stalled.known(now)) for scope in scopes_of(targets)])
    ours = {(target.agent, target.session.store or "") for target in targets if target.session}
    for look in looked.looks:
        stalled.note(look, now, needed=ours)
    return looked


def scopes_of(targets: list[Target]) -> list[Scope]:
    """What to query: the sessions whose ids are known, and everything since the first launch that has none yet."""
    known = [target for target in targets if canonical_name(target.agent)]
    ids = {target.id for target in known if target.id is not None}
    launches = [target.launch for target in known if target.id is None and target.launch]
    scopes = []
    if ids:
        agents = {target.agent for target in known if target.id is not None}
        scopes.append(Scope(agents=tuple(sorted(agents)), ids=tuple(sorted(ids))))
    if launches:
        since = min(launch.created_at for launch in launches)
        scopes.append(Scope(agents=tuple(sorted({launch.agent for launch in launches})), since=since))
    return scopes


def interest_of(targets: list[Target], looked: Looked, deadline: float | None) -> Interest:
    """Return the processes and files whose change may end the wait, and when to look at the latest."""
    keys = {key for target in targets for key in looked.keys(target)}
    readings = [reading for look in looked.looks for reading in look.readings]
    paths, complete = paths_in_stores([(reading, ids) for reading in readings if (ids := ids_in(reading, targets))])
    paths |= {os.path.dirname(target.launch.path) for target in targets if target.launch and target.launch.path}
    settling = any(target.settles_at() is not None for target in targets)
    due = next_look_at(targets, deadline)
    return Interest(frozenset(keys), frozenset(paths), complete and not settling, due=due)


def ids_in(reading: Reading, targets: list[Target]) -> list[str]:
    return [target.id for target in targets if target.id and concerns(reading, target)]


def concerns(reading: Reading, target: Target) -> bool:
    """Is the session, or was it, in this store? The session of a launch that has none yet may appear in any."""
    if target.agent != reading.agent.NAME:
        return False
    return target.session is None or target.session.store == reading.store.root or target.id in reading.records


# What to wait for


def find(ids: Sequence[str], group: str | None, env: Mapping[str, str]) -> list[Target]:
    targets: list[Target] = members(group, env) if group is not None else []
    exact: dict[str, list[Session]] = {}
    if len(ids) > 1:  # whole session ids in one query; beginnings of ids and launch ids each with its own
        plain = [text for text in ids if launch_named(text, env) is None]
        for session in query(Scope(ids=tuple(plain)), env).sessions:
            exact.setdefault(session.id, []).append(session)
    for text in ids:
        sessions = exact.get(text, [])
        targets.append(Target(sessions[0]) if len(sessions) == 1 else target_named(text, env))
    return list({(target.agent, target.id or target.launch_id): target for target in targets}.values())


def target_named(text: str, env: Mapping[str, str]) -> Target:
    named = resolve(text, env)
    return Target(named.session, None if named.session is not None else named.launch)


def members(group: str, env: Mapping[str, str]) -> list[Target]:
    """The sessions that the slots of a group are on now, and its launches that have no session yet."""
    meant = group_in(group, settled_look(Scope(since=time.time() - RECENT), env)).of_now()
    begun = meant.without_session()
    return [*(Target(session) for session in meant.sessions), *(Target(None, launch) for launch in begun)]
