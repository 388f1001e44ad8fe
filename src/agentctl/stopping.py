"""Stopping a session: judge, prove, act in its agent's own orderly way, and judge again. "Stopped" is said only when it
is true: its process is gone, or, in a process that is not to be ended, no turn is active.

Nothing is stored: a stop that is killed in the middle leaves a world that is judged as any other, and can be repeated.
"""

from __future__ import annotations

import os
import time

from agentctl import launches
from agentctl.agents import load_all, load_control
from agentctl.claims import claim_all
from agentctl.ending import Ending
from agentctl.errors import AgentctlError, NotFound, Refused
from agentctl.launched import child_of
from agentctl.model import AGENT, ALIVE, GONE, UNKNOWN, WAITING, WORKING, Details, Launch, ProcessKey, Value
from agentctl.recipes import Held, Way
from agentctl.sessions import Scope, examine, settled_look, snapshot
from agentctl.targets import (
    INNER,
    Ground,
    Targets,
    ancestors,
    blockers_of,
    is_vague,
    launch_of,
    targets_of,
    targets_of_launch,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agentctl.ending import Ended, Living
    from agentctl.model import Session
    from agentctl.processes import Processes
    from agentctl.targets import Left
    from agentctl.world import World

GRACE = 10.0
PROOF_PATIENCE = 5.0  # for a store to say what has happened
GLANCE, LOOKS = 0.1, 5
COMMAND_PATIENCE = 30.0  # for an agent's own command, at the least
# What a look cannot tell, though the process that held it is gone; the other doubts are about a process that may live.
OVER_ALL_THE_SAME = ("unseen", "unread")
MOVING = ("newer", "supervised", "candidate")
NOTHING_KEPT = "its agent kept nothing of it"

STOPPED, OVER, NOT_STOPPED, ERROR = "stopped", "gone", "alive", "error"


class Options(Value):
    grace: float = GRACE
    force: bool = False
    tree: bool = False  # also the sessions that run inside of it, and what its launch left behind


class Outcome(Value):
    """What came of one session, or of a launch that has none."""

    id: str | None
    agent: str | None
    outcome: str  # STOPPED; OVER: it had ended before; NOT_STOPPED: something lives; ERROR: `said` why
    launch_id: str | None = None
    ended: tuple[Ended, ...] = ()
    left: tuple[Left, ...] = ()
    living: tuple[Living, ...] = ()
    seconds: float | None = None
    said: str | None = None
    exit_code: int = 0


def stop(asked: str, options: Options, env: Mapping[str, str] | None = None) -> list[Outcome]:
    """What came of it; with `tree` also of the sessions inside. Raises AgentctlError where nothing was done."""
    return Stop(options, dict(os.environ if env is None else env)).named(asked)


def members(group: str, env: Mapping[str, str] | None = None) -> list[str]:
    """The live sessions of a group; of a launch that has no session yet, its launch id."""
    launches.check_group(group, os.environ if env is None else env)
    found = settled_look(Scope(), env)
    known = [one for one in found.world.launches if one.launch.group == group]
    alive = [one for one in found.answer.sessions if one.process == ALIVE and one.parent is None]
    with_session = {session.launch_id for session in alive}
    starting = [
        one.launch.id
        for one in known
        if one.launch.id not in with_session and child_of(one.launch, found.world.processes) is not None
    ]
    return [session.id for session in alive if session.group == group] + starting


class Stop:
    def __init__(self, options: Options, env: dict[str, str]) -> None:
        self._options = options
        self._env = env
        self._done: set[str] = set()  # with `tree`: sessions and launches that had their turn

    def named(self, text: str) -> list[Outcome]:
        if launches.is_id(text):
            try:
                found = launches.read(text, self._env)
            except NotFound:
                return self.session(text)
            if not isinstance(found, Launch):
                raise Refused(f"{found.path}: {found.problem}; without it nobody can tell what was launched")
            return self.launch(found)
        return self.session(text)

    # A launch

    def launch(self, launch: Launch) -> list[Outcome]:
        if launch.id in self._done:
            return []
        self._done.add(launch.id)
        look = settled_look(Scope(), self._env)
        mine = [one for one in look.answer.sessions if one.launch_id == launch.id and one.parent is None]
        alive = [one.id for one in mine if one.process == ALIVE]
        world = look.world
        this = next((one for one in world.launches if one.launch.id == launch.id), None)
        if alive or this is None or (mine and child_of(launch, world.processes) is None):
            ids = alive or [one.id for one in mine]
            if not ids:
                raise Refused(f"launch {launch.id}: it is not to be seen among the launches; ask again")
            own = frozenset(this.agents) if this is not None else frozenset()
            return [outcome for id in ids for outcome in self.session(id, own)]
        ground = ground_of(world, self._ours(world.processes))
        targets = targets_of_launch(this, ground, tree=self._options.tree)
        if targets.resident is not None:
            raise Refused(
                f"launch {launch.id}: {targets.resident}, and no session of it is known; nothing is signalled"
            )
        if targets.over and not self._options.tree:
            return [Outcome(None, launch.agent, OVER, launch.id, said=how_it_ended(launch, self._env))]
        signals = dict.fromkeys(targets.keys, Way().signals)
        outcome = self._by_signals(targets, signals, launch, world)
        outcome = outcome._replace(agent=launch.agent, launch_id=launch.id)
        again = settled_look(Scope(), self._env).answer.sessions
        if held := [one for one in again if one.launch_id == launch.id and one.process == ALIVE]:
            said = f"pid {held[0].pid} is on session {held[0].id} now: agentctl stop {held[0].id}"
            outcome = outcome._replace(outcome=NOT_STOPPED, said=said, exit_code=1)
        elif targets.over and outcome.outcome == STOPPED and not outcome.ended:
            outcome = outcome._replace(outcome=OVER, said=how_it_ended(launch, self._env))
        return [outcome, *self._inner(outcome)]

    # A session

    def session(self, text: str, meant: frozenset[ProcessKey] = frozenset()) -> list[Outcome]:
        """`meant`: processes that were asked for themselves, as those of a launch are: that they are on this session
        need not be proved."""
        session, world = self._examine(text)
        if session.id in self._done:
            return []
        self._done.add(session.id)
        ground = ground_of(world, self._ours(world.processes))
        force = self._options.force or (bool(keys_of(session)) and keys_of(session) <= meant)
        targets = targets_of(session, world, ground, force=force)
        launch = launch_of(session, world)
        if targets.over:
            return [outcome_of(session, OVER, said=session.reason)]
        if targets.supervised:
            return [self._bring_to_rest(session, world)]
        ways = {key: self._way(session, key, world) for key in targets.keys}
        command = next((way.command for way in ways.values() if way.command), None)
        if targets.resident is None and command is None and not all(way.signals for way in ways.values()):
            targets = targets._replace(
                resident=f"{session.agent} does not let its process (pid {session.pid}) be ended"
            )
        if targets.resident is not None:
            return [self._interrupt(session, targets, next(iter(ways.values())))]
        if command is not None:
            outcome = self._by_command(session, targets, command, launch, world)
        else:
            outcome = self._by_signals(targets, {key: way.signals for key, way in ways.items()}, launch, world)
        outcome = outcome._replace(id=session.id, agent=session.agent, launch_id=session.launch_id)
        outcome = self._prove(outcome)
        return [outcome, *self._inner(outcome)]

    def _examine(self, text: str) -> tuple[Session, World]:
        """A process in the middle of exec may be on anything, for some milliseconds: look again."""
        for _ in range(LOOKS):
            look = examine(text, self._env)
            session, world = look.answer.sessions[0], look.world
            if session.process == ALIVE or not any(is_vague(claim) for claim in blockers_of(session, world)):
                break
            time.sleep(GLANCE)
        return session, world

    def _way(self, session: Session, key: ProcessKey, world: World) -> Way:
        process = world.processes.alive(key)
        if process is None:
            raise Refused(f"session {session.id}: pid {key.pid} is not in the process table; ask again")
        details = world.processes.details(process) or Details()
        return load_control(session.agent).way_to_stop(Held(session, process, details, self._env))

    def _by_signals(
        self,
        targets: Targets,
        signals: Mapping[ProcessKey, tuple[str, ...]],
        launch: Launch | None,
        world: World,
    ) -> Outcome:
        with Ending(targets, self._around(world)) as ending:
            ending.prepare(launch.runner if launch else None, tree=self._options.tree)
            ending.signal_agents(signals, self._options.grace)
            ending.end_tools()
            ending.end_wrappers()
            return told(ending)

    def _by_command(
        self, session: Session, targets: Targets, command: tuple[str, ...], launch: Launch | None, world: World
    ) -> Outcome:
        """What is not ended by the agent's own command is left to it: its daemon would bring back what we kill."""
        with Ending(targets, self._around(world)) as ending:
            ending.prepare(launch.runner if launch else None, tree=self._options.tree)
            began = time.monotonic()
            said = run_command(command, max(self._options.grace, COMMAND_PATIENCE), self._env)
            ending.wait_for_agents(self._options.grace)
            ending.seconds = time.monotonic() - began
            if not ending.living_agents():
                ending.end_tools()
                ending.wait_for_wrappers()
            return told(ending)._replace(said=said)

    def _bring_to_rest(self, session: Session, world: World) -> Outcome:
        """It has no process, and its agent's daemon still has it as unfinished."""
        bosses = [one for one in world.supervisors if (one.agent, one.id) == (session.agent, session.id)]
        process = next((row for one in bosses if (row := world.processes.alive(one.key)) is not None), None)
        way = self._way(session, process.key, world) if process is not None else Way()
        if way.command is None:
            raise Refused(
                f"session {session.id}: it has no process, and {session.reason}; nothing can be signalled; "
                f"`agentctl why {session.id}` shows what is known"
            )
        said = run_command(way.command, max(self._options.grace, COMMAND_PATIENCE), self._env)
        return self._prove(outcome_of(session, STOPPED, said=said))

    def _interrupt(self, session: Session, targets: Targets, way: Way) -> Outcome:
        """In a process that is not to be ended: only its turn is."""
        where = f"{targets.resident}, which lives on"
        if session.turn not in (WORKING, WAITING, UNKNOWN):
            return outcome_of(session, STOPPED, said=f"no turn is active; {where}")
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
        now = self._judge_until(session.id, at_rest, self._options.grace)
        seconds = time.monotonic() - began
        if now is None:
            return outcome_of(session, STOPPED, said=f"{NOTHING_KEPT}; {where}", seconds=seconds)
        if at_rest(now):
            return outcome_of(now, STOPPED, said=f"its turn was ended; {where}", seconds=seconds)
        said = f"its turn is {now.turn} after it was told to end; {where}"
        return outcome_of(now, NOT_STOPPED, said=said, seconds=seconds, exit_code=1)

    # Proving

    def _prove(self, outcome: Outcome) -> Outcome:
        """What the judge says now, from a new look at everything."""
        living = [one for one in outcome.living if one.part != "tool"]
        now = self._judge_until(outcome.id or "", settled, 0.0 if living else PROOF_PATIENCE)
        said = outcome.said
        if now is None:
            over, said = not living, said or NOTHING_KEPT
        else:
            over = now.process == GONE or (now.process == UNKNOWN and now.rule in OVER_ALL_THE_SAME)
        if over and not outcome.living:
            return outcome._replace(outcome=STOPPED, said=said)
        if now is not None and now.process == ALIVE and not living:
            said = f"pid {now.pid} is on it now: it was taken up again"
        elif now is not None and not over and not living:
            said = f"its process has ended, but {now.reason or 'its state is not known'}"
        return outcome._replace(outcome=NOT_STOPPED, said=said, exit_code=1)

    def _judge_until(self, id: str, condition: Callable[[Session], bool], seconds: float) -> Session | None:
        """The session as it is judged now; None: an agent that had written nothing of it keeps nothing of it."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                session = examine(id, self._env).answer.sessions[0]
            except NotFound:
                return None
            if condition(session) or time.monotonic() >= deadline:
                return session
            time.sleep(GLANCE)

    # What runs inside

    def _inner(self, outer: Outcome) -> list[Outcome]:
        """The sessions and launches that were left, each judged and proved like any other."""
        found: list[Outcome] = []
        for left in outer.left if self._options.tree else ():
            if left.why not in INNER or left.id is None or left.id in self._done:
                continue
            try:
                found += self.named(left.id)
            except AgentctlError as error:
                found.append(failed(left.id, left.agent, error))
        return found

    # The ground

    def _ours(self, processes: Processes) -> frozenset[ProcessKey]:
        return ancestors(os.getpid(), processes)

    def _around(self, world: World) -> Callable[[], Ground]:
        """A look at who is whose now: cheaper than a judgement, and with what was started since."""
        agents = load_all()

        def look() -> Ground:
            processes = snapshot(agents)
            claimed = claim_all(agents, processes)
            ground = ground_of(world._replace(processes=processes), self._ours(processes))
            return ground._replace(
                roles={one.process.key: (one.agent.NAME, one.role) for one in claimed if not one.vague},
                unclear=frozenset(one.process.key for one in claimed if one.vague),
            )

        return look


def ground_of(world: World, ourselves: frozenset[ProcessKey]) -> Ground:
    on: dict[ProcessKey, tuple[str, ...]] = {}
    for link in world.links:
        if world.processes.alive(link.key) is not None and link.id not in on.get(link.key, ()):
            on[link.key] = (*on.get(link.key, ()), link.id)
    return Ground(
        world.processes,
        roles={claim.key: (claim.agent, claim.role) for claim in world.claims},
        on=on,
        runners={one.launch.runner: one.launch.id for one in world.launches},
        ourselves=ourselves,
        uid=os.getuid(),
    )


def keys_of(session: Session) -> set[ProcessKey | None]:
    return {ProcessKey.parse(entry["key"]) for entry in session.processes if entry["role"] == AGENT}


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


def told(ending: Ending) -> Outcome:
    living = ending.living()
    return Outcome(
        None,
        None,
        NOT_STOPPED if living else STOPPED,
        ended=ending.ended(),
        left=tuple(ending.left.values()),
        living=living,
        seconds=ending.seconds,
        exit_code=1 if living else 0,
    )


def how_it_ended(launch: Launch, env: Mapping[str, str]) -> str:
    end = next((one for one in launches.exits(launch.id, env) if one.direct), None)
    if end is None:
        return "the process that it started has ended; how, was seen by nobody"
    return f"the process that it started ended by {end.signal}" if end.signal else f"it ended with {end.exit_code}"


def run_command(argv: tuple[str, ...], seconds: float, env: Mapping[str, str]) -> str:
    """The agent's own command, and what is to be said of it. Whether it did its work is judged afterwards."""
    import subprocess

    words = " ".join(argv)
    try:
        done = subprocess.run(
            argv, env=dict(env), stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise AgentctlError(f"`{words}` did not end within {seconds:g} s; run it yourself and look") from error
    except OSError as error:
        raise AgentctlError(f"`{words}` could not be run: {error.strerror}; is it in your PATH?") from error
    if done.returncode == 0:
        return f"by `{words}`"
    last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    return f"`{words}` failed with {done.returncode}: {last or 'it said nothing'}"
