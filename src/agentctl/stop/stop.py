"""Stops a session: judges, proves, acts in its agent's own orderly way, and judges again. It says "stopped" only if it
is: its process is gone, or, if the process must not end, no turn is active.

It stores nothing: a stop that is killed in the middle leaves a world that is judged as any other, and can be repeated.
"""

from __future__ import annotations

import os
import time

from agentctl.agents import load_control
from agentctl.agents.recipes import Held, Way
from agentctl.errors import AgentctlError, NotFound, Refused
from agentctl.launches import lineage, records
from agentctl.model import (
    ALIVE,
    GONE,
    UNKNOWN,
    WAITING,
    WORKING,
    WRAPPER,
    Details,
    Launch,
    ProcessKey,
    Value,
)
from agentctl.query.attribution import child_of, may_live, why_unseen
from agentctl.query.resolve import group_in, launch_named, refuse_if_short_for_another, unread_launches
from agentctl.query.sessions import Look, Scope, examine, not_found, settled_look, unread_words
from agentctl.stop.above import why_launch_is_above, why_session_is_above
from agentctl.stop.behind import end_behind, orphans_of
from agentctl.stop.ground import around, ground_of, look_past_a_wrapper
from agentctl.stop.of_launch import goes_on_elsewhere, is_on, meant_by, processes_of, sessions_of, who_else
from agentctl.stop.own_command import run_command
from agentctl.stop.plan import (
    INNER,
    LAUNCH,
    Targets,
    blockers_of,
    is_vague,
    keys_of,
    launch_of,
    may_show_others,
    targets_of,
    targets_of_launch,
)
from agentctl.stop.screens import said_of_screens, screens_of
from agentctl.stop.terminate import Ending, as_they_are
from agentctl.stop.writers import narrowed, refuse_if_only_files_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agentctl.model import Session
    from agentctl.query.world import Launched, World
    from agentctl.stop.plan import Left, Name
    from agentctl.stop.terminate import Ended, Living

GRACE = 10.0
PROOF_PATIENCE = 5.0  # for a store to say what has happened
GLANCE, LOOKS = 0.1, 5
COMMAND_PATIENCE = 30.0  # for an agent's own command, at the least
# What a look cannot tell, though the process that held it is gone; the other doubts are about a process that may live.
OVER_ALL_THE_SAME = ("unseen", "unread", "stranger")
MOVING = ("newer", "supervised", "candidate")
NOTHING_KEPT = "its agent kept nothing of it"

STOPPED, OVER, NOT_STOPPED, ERROR = "stopped", "gone", "alive", "error"
OPEN = "open"  # no turn of it is active any more, and it stays open in a process that must not end


class Options(Value):
    grace: float = GRACE
    force: bool = False
    tree: bool = False  # also the sessions that run inside of it, and what its launch left behind
    screen: bool = False  # of a session that stays open in a daemon: end the screen that shows it
    pid: int | None = None  # of several processes on a session: end only this one


class Outcome(Value):
    """What came of one session, or of a launch that has none."""

    id: str | None
    agent: str | None
    outcome: str  # STOPPED; OVER: it had ended before; OPEN; NOT_STOPPED: something lives; ERROR: `said` why
    launch_id: str | None = None
    ended: tuple[Ended, ...] = ()
    left: tuple[Left, ...] = ()
    living: tuple[Living, ...] = ()
    seconds: float | None = None
    said: str | None = None
    exit_code: int = 0


class Asked(Value):
    """What to stop: as a person typed it; or, with its agent, a session by its whole id, and only as far as it is of
    this launch."""

    text: str
    agent: str | None = None
    launch: str | None = None


def stop(
    asked: str | Asked,
    options: Options,
    env: Mapping[str, str] | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> list[Outcome]:
    """Return what came of it; with `tree` also of the sessions inside. Raises AgentctlError if nothing was done. `tell`
    is called with what a person should know before a process ends."""
    one = Asked(asked) if isinstance(asked, str) else asked
    work = Stop(options, dict(os.environ if env is None else env), tell)
    if one.agent is None:
        return work.named(one.text)
    launch = launch_named(one.launch, work._env) if one.launch is not None else None
    return work.session((one.agent, one.text), of=launch)


def members(group: str, tell: Callable[[str], None], env: Mapping[str, str] | None = None) -> list[Asked]:
    """Return the live sessions of a group, and its launches that have no session yet."""
    look = settled_look(Scope(), env)
    meant = group_in(group, look)
    for store in look.world.stores:
        if store.unread:
            tell(f"{store.agent}: {store.unread}; it is not known whether a session of group {group!r} lives there")
    for one in unread_launches(look):
        tell(f"{one.path}: {one.problem}; it may be a launch of group {group!r}, and is left alone")
    alive = [one for one in meant.sessions if one.process == ALIVE and one.parent is None]
    starting = meant._replace(sessions=tuple(alive)).without_session()
    table = look.world.processes
    running = [one for one in starting if child_of(one, table) is not None or why_unseen(one, table) is not None]
    return [*(Asked(one.id, one.agent, one.launch_id) for one in alive), *(Asked(one.id) for one in running)]


class Stop:
    def __init__(self, options: Options, env: dict[str, str], tell: Callable[[str], None] = lambda _: None) -> None:
        self._options = options
        self._tell = tell
        self._env = env
        self._lineage = lineage.above(env)
        self._done: set[Name | str] = set()  # with `tree`: sessions, and ids of launches, that had their turn

    def named(self, text: str) -> list[Outcome]:
        launch = launch_named(text, self._env)
        if launch is not None:
            return self.launch(launch)
        look = examine(text, self._env)
        session = look.answer.sessions[0]
        refuse_if_short_for_another(text, look)
        return self.session((session.agent, session.id), look=look)

    # A launch

    def launch(self, launch: Launch) -> list[Outcome]:
        if launch.id in self._done:
            return []
        self._done.add(launch.id)
        if (why := why_launch_is_above(launch.id, self._lineage)) is not None:
            raise Refused(f"launch {launch.id}: {why}")
        look = look_past_a_wrapper(launch, self._env, self._tell)
        if (elsewhere := goes_on_elsewhere(launch, look)) is not None:
            return [Outcome(None, launch.agent, OVER, launch.id, said=elsewhere)]
        if (unseen := why_unseen(launch, look.world.processes)) is not None:
            # Whoever is on its session here need not be of this launch.
            raise Refused(f"launch {launch.id}: {unseen}; nothing is signalled: run agentctl where it was launched")
        this = next((one for one in look.world.launches if one.launch.id == launch.id), None)
        sessions = sessions_of(launch, look)
        if sessions:
            own = frozenset(this.agents) if this is not None else frozenset()
            return [outcome for name in sessions for outcome in self.session(name, own, of=launch)]
        if this is None:
            raise Refused(f"launch {launch.id}: it is not to be seen among the launches; ask again")
        return self._launch_without_session(this, look.world)

    def _launch_without_session(self, this: Launched, world: World) -> list[Outcome]:
        launch, first = this.launch, child_of(this.launch, world.processes)
        launch = launch._replace(runner=world.processes.own(launch.runner))
        roots = (launch.runner, *this.agents, *([first.key] if first is not None else []))
        targets = targets_of_launch(this, first, ground_of(world, roots), tree=self._options.tree)
        if targets.resident is not None:
            raise Refused(
                f"launch {launch.id}: {targets.resident}, and no session of it is known; nothing is signalled"
            )
        unread = world.why_unread(launch.agent)
        if targets.over and unread and may_live(world, launch.agent, launch.child, launch.runner):
            raise Refused(f"launch {launch.id}: whether its agent lives cannot be told: {unread}; nothing is signalled")
        if targets.over and not self._options.tree:
            return [Outcome(None, launch.agent, OVER, launch.id, said=how_it_ended(launch, self._env))]
        outcome = self._by_signals(targets, dict.fromkeys(targets.keys, Way().signals), launch, world)
        outcome = outcome._replace(agent=launch.agent, launch_id=launch.id)
        again = settled_look(Scope(), self._env)
        outcome = outcome._replace(left=(*outcome.left, *orphans_of(launch, again.world)))
        own = processes_of(this.launch, again.world)
        if held := [one for one in again.answer.sessions if one.launch_id == launch.id and is_on(one, own)]:
            said = f"pid {held[0].pid} is on session {held[0].id} now: agentctl stop {held[0].id}"
            outcome = outcome._replace(outcome=NOT_STOPPED, said=said, exit_code=1)
        elif targets.over and outcome.outcome == STOPPED and not outcome.ended:
            outcome = outcome._replace(outcome=OVER, said=how_it_ended(launch, self._env))
        return [outcome, *self._inner(outcome)]

    # A session

    def session(
        self,
        name: Name,
        meant: frozenset[ProcessKey] = frozenset(),
        *,
        look: Look | None = None,
        of: Launch | ProcessKey | None = None,
    ) -> list[Outcome]:
        """Stop a session. `meant`: processes that were asked for themselves, as those of a launch are: that they are on
        this session need not be proved. `look`: a look at it, if there was one just now. `of`: a launch, or a process:
        then only what is of it is meant, and not who else is on the session."""
        if name in self._done:
            return []
        self._done.add(name)
        session, world = self._examine(name, look)
        keys = frozenset(keys_of(session))
        if session.process != GONE and (why := why_session_is_above(name, session.launch_id, keys, self._lineage)):
            raise Refused(f"session {session.id}: {why}")
        only = meant_by(of, session, world)
        if (others := who_else(session, of, only)) is not None:
            return [outcome_of(session, OVER, said=others)]
        only = narrowed(self._options.pid, session, only, world)
        force = self._options.force or (bool(keys) and keys & only <= meant)
        refuse_if_only_files_name(session, () if force else only, world)
        ground = ground_of(world, (*keys, *keys_of(session, WRAPPER)))
        targets = targets_of(session, world, ground, force=force, only=only)
        if targets.over:
            behind = end_behind(session, of, world, self._launch_without_session) if self._options.tree else []
            return [outcome_of(session, OVER, said=session.reason), *behind]
        if targets.supervised:
            return [self._bring_to_rest(session, world)]
        ways = {key: self._way(session, key, world) for key in targets.keys}
        command = next((way.command for way in ways.values() if way.command), None)
        if targets.resident is None and command is None and not all(way.signals for way in ways.values()):
            targets = targets._replace(
                resident=f"{session.agent} does not let its process (pid {session.pid}) be ended"
            )
        if targets.resident is not None:
            return [self._interrupt(session, targets, next(iter(ways.values())), world)]
        if (others := may_show_others(session, targets.keys, world)) is not None:
            self._tell(f"session {session.id}: {others}; it ends now")
        outcome = self._by_ways(targets, ways, command, launch_of(session, world), world)
        outcome = outcome._replace(id=session.id, agent=session.agent, launch_id=session.launch_id)
        outcome = self._prove(outcome, name, keys - frozenset(targets.keys))
        outcome = outcome._replace(left=as_they_are(outcome.left))  # also what has ended since
        return [outcome, *self._inner(outcome)]

    def _examine(self, name: Name, look: Look | None) -> tuple[Session, World]:
        """Judge a session. A process in the middle of exec may be on anything, for some milliseconds: look again."""
        for _ in range(LOOKS):
            look = look or look_at(name, self._env)
            if not look.answer.sessions:
                next = "`agentctl list -a --since all` shows the ids"
                raise not_found(f"no session {name[1]!r}", look.answer.problems, next)
            session, world = look.answer.sessions[0], look.world
            if session.process == ALIVE or not any(is_vague(claim) for claim in blockers_of(session, world)):
                break
            look = None
            time.sleep(GLANCE)
        return session, world

    def _way(self, session: Session, key: ProcessKey, world: World) -> Way:
        process = world.processes.alive(key)
        if process is None:
            raise Refused(f"session {session.id}: pid {key.pid} is not in the process table; ask again")
        details = world.processes.details(process) or Details()
        return load_control(session.agent).way_to_stop(Held(session, process, details, self._env))

    def _by_ways(
        self,
        targets: Targets,
        ways: Mapping[ProcessKey, Way],
        command: tuple[str, ...] | None,
        launch: Launch | None,
        world: World,
    ) -> Outcome:
        if command is not None:
            return self._by_command(targets, command, launch, world)
        return self._by_signals(targets, {key: way.signals for key, way in ways.items()}, launch, world)

    def _by_signals(
        self,
        targets: Targets,
        signals: Mapping[ProcessKey, tuple[str, ...]],
        launch: Launch | None,
        world: World,
        *,
        alone: bool = False,
    ) -> Outcome:
        with Ending(targets, around(world, self._env), alone=alone) as ending:
            ending.prepare(world.processes.own(launch.runner) if launch else None, tree=self._options.tree)
            ending.signal_agents(signals, self._options.grace)
            ending.end_tools()
            ending.end_wrappers()
            return ended_by(ending)

    def _by_command(self, targets: Targets, command: tuple[str, ...], launch: Launch | None, world: World) -> Outcome:
        """Run the agent's own command. What that does not end is left to it: its daemon would restart what we kill."""
        with Ending(targets, around(world, self._env)) as ending:
            ending.prepare(world.processes.own(launch.runner) if launch else None, tree=self._options.tree)
            began = time.monotonic()
            said = run_command(command, max(self._options.grace, COMMAND_PATIENCE), self._env)
            ending.wait_for_agents(self._options.grace)
            ending.seconds = time.monotonic() - began
            if not ending.living_agents():
                ending.end_tools()
                ending.wait_for_wrappers()
            return ended_by(ending)._replace(said=said)

    def _bring_to_rest(self, session: Session, world: World) -> Outcome:
        """End a session that has no process, and that its agent's daemon still has as unfinished."""
        bosses = [one for one in world.supervisors if (one.agent, one.id) == (session.agent, session.id)]
        process = next((row for one in bosses if (row := world.processes.alive(one.key)) is not None), None)
        way = self._way(session, process.key, world) if process is not None else Way()
        if way.command is None:
            raise Refused(
                f"session {session.id}: it has no process, and {session.reason}; nothing can be signalled; "
                f"`agentctl why {session.id}` shows what is known"
            )
        said = run_command(way.command, max(self._options.grace, COMMAND_PATIENCE), self._env)
        return self._prove(outcome_of(session, STOPPED, said=said), (session.agent, session.id))

    def _interrupt(self, session: Session, targets: Targets, way: Way, world: World) -> Outcome:
        """End only the turn of a session: its process must not end. The session stays open there, and says so; with
        --screen, the screen that shows it ends, if that is proved."""
        where = f"{targets.resident}, which lives on"
        if session.turn not in (WORKING, WAITING, UNKNOWN):
            return self._left_open(session, targets, f"no turn is active; {where}", world)
        if way.interrupt is None and way.command is None:
            raise Refused(
                f"session {session.id}: {targets.resident}, and {session.agent} offers no way to end a turn there; "
                f"pid {targets.keys[0].pid} is never signalled for it: interrupt it in its own window"
            )
        began = time.monotonic()
        if way.interrupt is not None:
            way.interrupt(self._options.grace)
        elif way.command is not None:
            run_command(way.command, max(self._options.grace, COMMAND_PATIENCE), self._env)
        now, missing = self._judge_until((session.agent, session.id), at_rest, self._options.grace)
        seconds = time.monotonic() - began
        if now is None:
            return outcome_of(session, STOPPED, said=f"{missing}; {where}", seconds=seconds)
        if now.process == GONE:
            return outcome_of(now, STOPPED, said=f"its turn was ended; {where}", seconds=seconds)
        if at_rest(now):
            said = f"its turn was ended; {where}"
            return self._left_open(now, targets, said, world)._replace(seconds=seconds)
        said = f"its turn is {now.turn} after it was told to end; {where}"
        return outcome_of(now, NOT_STOPPED, said=said, seconds=seconds, exit_code=1)

    def _left_open(self, session: Session, targets: Targets, said: str, world: World) -> Outcome:
        """Say that a session stays open, and where; with --screen, end the screen that shows it."""
        screens = screens_of(session, targets.keys, world)
        if not self._options.screen:
            shown = said_of_screens(screens)
            way_out = f"{shown}; to end that screen: agentctl stop {session.id} --screen" if shown else ""
            said = "; ".join(filter(None, (said, way_out)))
            return outcome_of(session, OPEN, said=said, exit_code=1)
        if not screens:
            return outcome_of(session, OPEN, said=f"{said}; no screen is proved to show it", exit_code=1)
        ending = Targets(tuple(process.key for process in screens))
        signals = dict.fromkeys(ending.keys, Way().signals)
        outcome = self._by_signals(ending, signals, None, world, alone=True)
        said = f"{said}, and lets the session go soon after its screen has ended"
        return outcome._replace(
            id=session.id, agent=session.agent, launch_id=session.launch_id, said=said,
            outcome=OPEN if outcome.outcome == STOPPED else NOT_STOPPED,
        )  # fmt: skip

    # Proving

    def _prove(self, outcome: Outcome, name: Name, spared: frozenset[ProcessKey] = frozenset()) -> Outcome:
        """Add what the judge says now, from a new look at everything. `spared`: who was on it, and not meant."""
        living = [one for one in outcome.living if one.part != "tool"]
        now, missing = self._judge_until(name, settled, 0.0 if living else PROOF_PATIENCE)
        said = outcome.said
        if now is None:
            over, said = not living, f"{said}; {missing}" if said else missing
        else:
            over = now.process == GONE or (now.process == UNKNOWN and now.rule in OVER_ALL_THE_SAME)
        if over and not outcome.living:
            if now is not None and now.process == UNKNOWN and said is None:
                said = f"its process has ended; its last turn is not known: {now.reason}"
            return outcome._replace(outcome=STOPPED, said=said)
        if now is not None and now.process == ALIVE and not living:
            said = f"pid {now.pid} is on it now: it was taken up again"
            if is_on(now, spared):
                said = f"it goes on in pid {now.pid}, which was not meant: agentctl stop {now.id}"
        elif now is not None and not over and not living:
            said = f"its process has ended, but {now.reason or 'its state is not known'}"
        return outcome._replace(outcome=NOT_STOPPED, said=said, exit_code=1)

    def _judge_until(
        self, name: Name, condition: Callable[[Session], bool], seconds: float
    ) -> tuple[Session | None, str]:
        """Return the session as it is judged now, once that meets the condition or the time is up. If there is none,
        return why: its agent has written nothing of it, or its store cannot be read."""
        deadline = time.monotonic() + seconds
        while True:
            look = look_at(name, self._env)
            session = next(iter(look.answer.sessions), None)
            if session is None:
                return None, why_missing(look, name[0])
            if condition(session) or time.monotonic() >= deadline:
                return session, ""
            time.sleep(GLANCE)

    # What runs inside

    def _inner(self, outer: Outcome) -> list[Outcome]:
        """Stop the sessions and launches that were left, each judged and proved like any other."""
        outcomes: list[Outcome] = []
        for left in outer.left if self._options.tree else ():
            if left.why not in INNER or left.id is None:
                continue
            try:
                outcomes += self._inner_launch(left.id) if left.why == LAUNCH else self._inner_session(left, left.id)
            except AgentctlError as error:
                outcomes.append(failed(left.id, left.agent, error))
        return outcomes

    def _inner_launch(self, id: str) -> list[Outcome]:
        launch = launch_named(id, self._env)
        if launch is None:
            raise NotFound(f"launch {id}: its record is not here; another AGENTCTL_HOME may have it")
        return self.launch(launch)

    def _inner_session(self, left: Left, id: str) -> list[Outcome]:
        return self.session((left.agent or "", id), of=left.key)


# Looking


def look_at(name: Name, env: Mapping[str, str]) -> Look:
    """Look at one session by its agent and its whole id: another one's id may begin with it."""
    look = settled_look(Scope(ids=(name[1],), children=True), env)
    session = tuple(one for one in look.answer.sessions if (one.agent, one.id) == name)
    return look._replace(answer=look.answer._replace(sessions=session))


def unread_in(look: Look, agent: str | None = None) -> str:
    """Return what a look could not read, for people: of this agent, or of all."""
    return unread_words(one for one in look.answer.problems if agent in (None, one.agent))


def why_missing(look: Look, agent: str) -> str:
    """Return why a look shows nothing of a session: "could not look" is not "nothing there"."""
    unread = unread_in(look, agent)
    return f"its store could not be read{unread}" if unread else NOTHING_KEPT


# What came of it


def settled(session: Session) -> bool:
    """Is there nothing to wait for? A store may need a moment to say what has happened."""
    return session.process != UNKNOWN or session.rule not in MOVING


def at_rest(session: Session) -> bool:
    return session.process == GONE or session.turn not in (WORKING, WAITING, UNKNOWN)


def outcome_of(
    session: Session, outcome: str, *, said: str | None = None, seconds: float | None = None, exit_code: int = 0
) -> Outcome:
    return Outcome(
        session.id, session.agent, outcome, session.launch_id, seconds=seconds, said=said, exit_code=exit_code
    )


def failed(asked: str, agent: str | None, error: AgentctlError) -> Outcome:
    return Outcome(asked, agent, ERROR, said=str(error), exit_code=error.exit_code)


def ended_by(ending: Ending) -> Outcome:
    living = ending.living()
    return Outcome(
        None,
        None,
        NOT_STOPPED if living else STOPPED,
        ended=ending.ended(),
        left=ending.left_now(),
        living=living,
        seconds=ending.seconds,
        exit_code=1 if living else 0,
    )


def how_it_ended(launch: Launch, env: Mapping[str, str]) -> str:
    end = next((one for one in records.exits(launch.id, env) if one.direct), None)
    if end is None:
        return "the process that it started has ended; its exit status was not recorded"
    return f"the process that it started ended by {end.signal}" if end.signal else f"it ended with {end.exit_code}"
