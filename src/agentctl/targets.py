"""Whom a stop may touch. Pure: from one reading of the world to the processes that are meant, those that go with them,
and those that are left alone, each with its reason. No I/O, no clock, no agent names.

Only what is proved is ended: the processes of the session itself, and what descends from them. Never an agent's daemon,
another session's process, another launch's runner, agentctl's own daemon, another user's process, our own ancestors,
nor anything below one of these.
"""

from __future__ import annotations

from agentctl.errors import Refused
from agentctl.judge import homes_of, may_be_on, may_be_on_any
from agentctl.launched import child_of
from agentctl.launches import is_id
from agentctl.model import AGENT, ALIVE, DAEMON, GONE, SOLE, SPARE, WRAPPER, ProcessKey, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from agentctl.model import Claim, Launch, Process, Session
    from agentctl.processes import Processes
    from agentctl.world import Launched, World

# Why a process is left alone. Only the first two can be ended by themselves (--tree).
SESSION, LAUNCH = "session", "launch"
DAEMON_OF_AN_AGENT, OURS, ANOTHER_USER, UNCLEAR, ADOPTED = "daemon", "ours", "user", "unclear", "adopted"
INNER = (SESSION, LAUNCH)


class Ground(Value):
    """Who is whose at one moment."""

    processes: Processes
    roles: Mapping[ProcessKey, tuple[str, str]]  # agent and role of what the agents claim
    on: Mapping[ProcessKey, tuple[str, ...]]  # the sessions that each process holds
    runners: Mapping[ProcessKey, str]  # their launches
    ourselves: frozenset[ProcessKey]  # this command and all its ancestors
    uid: int
    unclear: frozenset[ProcessKey] = frozenset()  # in the middle of exec: perhaps an agent's


class Left(Value):
    """A process that is not touched."""

    key: ProcessKey
    comm: str
    why: str
    what: str
    agent: str | None = None
    id: str | None = None  # of its session, or of its launch


class Tree(Value):
    tools: tuple[Process, ...] = ()  # what is ended with the agent
    left: tuple[Left, ...] = ()


class Targets(Value):
    """The processes that a session is in."""

    keys: tuple[ProcessKey, ...] = ()
    wrappers: tuple[ProcessKey, ...] = ()
    resident: str | None = None  # why its process is not to be ended, whoever asks
    over: bool = False  # it has ended already
    supervised: bool = False  # it has no process, and its agent's daemon may bring it back


# What is meant


def targets_of(session: Session, world: World, ground: Ground, *, force: bool) -> Targets:
    """Raises Refused where the identity of a process is not proved, or where it must not be ended."""
    short = f"session {session.id}"
    if session.process == GONE:
        if blockers := blockers_of(session, world):
            pids = ", ".join(str(claim.key.pid) for claim in blockers)
            raise Refused(
                f"{short} seems to have ended, but pid {pids} may be on it, and that cannot be told; "
                f"`agentctl why {session.id}` shows what is known"
            )
        return Targets(over=True)
    if session.parent is not None:
        top = top_of(session, world)
        raise Refused(f"{short} is a sub-agent in the process of {top}; to end both: agentctl stop {top}")
    if session.process != ALIVE:
        if session.rule == "supervised":
            return Targets(supervised=True)
        doubt = session.reason or "its state is not known"
        raise Refused(f"{short}: {doubt}; nothing is signalled; `agentctl why {session.id}` shows what is known")
    entries = [(ProcessKey.parse(entry["key"]), entry["role"], entry["link"]) for entry in session.processes]
    keys = [key for key, role, _ in entries if role == AGENT and key is not None]
    wrappers = [key for key, role, _ in entries if role == WRAPPER and key is not None]
    if not keys:
        raise Refused(f"{short}: it lives, but its process cannot be named; `agentctl why {session.id}` shows more")
    for key in keys:
        check(key, short, ground)
        if not force and any(link == SOLE for _, role, link in entries if role == AGENT):
            raise Refused(
                f"{short}: that pid {key.pid} is on it is inferred, not proved: it is the only process that can be; "
                f"to end pid {key.pid}: agentctl stop {session.id} --force"
            )
        if key not in ground.roles and not force:
            raise Refused(
                f"{short}: its store names pid {key.pid} ({comm_of(key, ground)}), which is no process of "
                f"{session.agent} by its arguments; if it is: agentctl stop {session.id} --force"
            )
    resident = next((why for key in keys if (why := resident_of(key, session, world, ground))), None)
    return Targets(tuple(dict.fromkeys(keys)), tuple(dict.fromkeys(wrappers)), resident)


def check(key: ProcessKey, short: str, ground: Ground) -> None:
    """What is never signalled, not even with --force."""
    if key.pid <= 1:
        raise Refused(f"{short}: pid {key.pid} is never signalled")
    if key in ground.ourselves:
        raise Refused(f"{short}: this command runs inside of it (pid {key.pid}); stop it from outside")
    if key in ground.runners:
        raise Refused(f"{short}: pid {key.pid} is the runner of launch {ground.runners[key]}, and no agent")
    owner = uid_of(key, ground)
    if owner != ground.uid:
        whose = "a user who cannot be told" if owner is None else f"another user (uid {owner})"
        raise Refused(f"{short}: pid {key.pid} belongs to {whose}; ask them, or run agentctl as that user")


def blockers_of(session: Session, world: World) -> list[Claim]:
    """Live processes that may be on a session which no process is proved to be on."""
    held = {link.key for link in world.links if world.processes.alive(link.key)}
    name = (session.agent, session.id)
    roots = homes_of(world).get(name, set())
    possible = [claim for claim in world.claims if may_be_on_any(claim, held, world.processes)]
    return [claim for claim in possible if may_be_on(claim, name, roots)]


def is_vague(claim: Claim) -> bool:
    """Its arguments could not be read: it is starting or ending."""
    return claim.store is None and claim.candidates is None


def parents(world: World) -> dict[tuple[str, str], str]:
    return {(record.agent, record.id): record.parent for record in world.records if record.parent is not None}


def top_of(session: Session, world: World) -> str:
    above, id = parents(world), session.id
    passed: list[str] = []
    while (session.agent, id) in above and id not in passed:
        passed.append(id)
        id = above[session.agent, id]
    return id if id != session.id else session.parent or id


def is_below(id: str, top: str, agent: str, above: Mapping[tuple[str, str], str]) -> bool:
    passed: set[str] = set()
    while id != top:
        if id in passed or (agent, id) not in above:
            return False
        passed.add(id)
        id = above[agent, id]
    return True


def resident_of(key: ProcessKey, session: Session, world: World, ground: Ground) -> str | None:
    """Why this process is not to be ended for the sake of one session."""
    agent, role = ground.roles.get(key, (session.agent, AGENT))
    if role == DAEMON:
        return f"it lives in {agent}'s daemon (pid {key.pid})"
    above = parents(world)
    held = {link.id for link in world.links if link.key == key and link.agent == session.agent}
    others = sorted(id for id in held if not is_below(id, session.id, session.agent, above))
    strangers = sorted(link.id for link in world.links if link.key == key and link.agent != session.agent)
    if others or strangers:
        return f"its process (pid {key.pid}) also holds {', '.join(dict.fromkeys([*others, *strangers]))}"
    return None


def targets_of_launch(one: Launched, ground: Ground, *, tree: bool) -> Targets:
    """Of a launch that has no session yet: the agent that it started, or what was started in place of it."""
    launch = one.launch
    first = child_of(launch, ground.processes)
    short = f"launch {launch.id}"
    if first is None:
        return strays_of(launch, ground, tree=tree)
    keys = one.agents or (first.key,)
    wrappers = tuple(key for key in between(first.key, keys, ground.processes) if key not in keys)
    for key in (*keys, *wrappers):
        check(key, short, ground)
    roles = {ground.roles.get(key, ("", ""))[1] for key in keys}
    resident = f"its process (pid {keys[0].pid}) is a daemon of {launch.agent}" if DAEMON in roles else None
    return Targets(keys, wrappers, resident)


def strays_of(launch: Launch, ground: Ground, *, tree: bool) -> Targets:
    """Its first process has ended. What that left behind may be its agent, or an agent that was a tool of it."""
    rows = [row for row in adopted(launch.runner, ground, frozenset()) if row.key in ground.roles]
    if rows and not tree:
        pids = ", ".join(f"{row.pid} ({ground.roles[row.key][0]})" for row in rows)
        raise Refused(
            f"launch {launch.id}: the process that it started has ended, and left pid {pids} behind, which may be its "
            f"agent or a tool of it; `agentctl list` shows what is known; to end all: agentctl stop {launch.id} --tree"
        )
    keys = tuple(row.key for row in rows if ground.roles[row.key] == (launch.agent, AGENT) and row.key not in ground.on)
    for key in keys:
        check(key, f"launch {launch.id}", ground)
    return Targets(keys, over=not keys)


def between(top: ProcessKey, keys: Iterable[ProcessKey], processes: Processes) -> list[ProcessKey]:
    """From above these processes up to `top`, the lowest first."""
    found: dict[ProcessKey, None] = {}
    for key in keys:
        row = processes.alive(key)
        path: list[ProcessKey] = []
        while row is not None and row.key != top and row.key not in path:
            path.append(row.key)
            row = processes.get(row.parent)
        if row is not None and row.key == top:
            found.update(dict.fromkeys([*path[1:], top]))
    return list(found)


# What goes with it, and what does not


def collect(roots: Iterable[ProcessKey], ground: Ground, mine: frozenset[ProcessKey]) -> Tree:
    """What descends from these processes. `mine` are passed through: they are ended in their own way."""
    tools: list[Process] = []
    left: list[Left] = []
    front = list(dict.fromkeys(roots))
    seen = set(front)
    for one in front:  # grows
        for child in children_of(one, ground.processes):
            if child.key in seen:
                continue
            seen.add(child.key)
            why = None if child.key in mine else kept(child, ground)
            if why is not None:
                left.append(why)
                continue
            front.append(child.key)
            if child.key not in mine:
                tools.append(child)
    return Tree(tuple(tools), tuple(left))


def children_of(key: ProcessKey, processes: Processes) -> Iterator[Process]:
    """Nobody is older than its parent: a row that says so was read before its pid had another owner."""
    if processes.alive(key) is None:
        return iter(())
    return (child for child in processes.children(key.pid) if child.key.start >= key.start)


def adopted(runner: ProcessKey, ground: Ground, mine: frozenset[ProcessKey]) -> tuple[Process, ...]:
    """What the agents of a launch left behind: now children of its runner. Not the commands that it runs itself."""
    return tuple(
        child
        for child in children_of(runner, ground.processes)
        if child.key not in mine
        and child.key not in ground.ourselves
        and command_of_ours(argv_of(child, ground)) is None
    )


def collect_adopted(runner: ProcessKey, ground: Ground, mine: frozenset[ProcessKey], *, tree: bool) -> Tree:
    """Of what was left behind nobody can tell whose tool it was: it is named, and ended only if that is asked for."""
    tools: list[Process] = []
    left: list[Left] = []
    for child in adopted(runner, ground, mine):
        why = kept(child, ground)
        if why is None and tree:
            below = collect([child.key], ground, mine)
            tools += [child, *below.tools]
            left += below.left
        else:
            left.append(why or Left(child.key, child.comm, ADOPTED, "left behind by this launch before"))
    return Tree(tuple(tools), tuple(left))


def kept(row: Process, ground: Ground) -> Left | None:
    """Why this process is left alone, with everything below it; None: it is a tool."""

    def left(why: str, what: str, agent: str | None = None, id: str | None = None) -> Left:
        return Left(row.key, row.comm, why, what, agent, id)

    if row.pid <= 1 or row.key in ground.ourselves:
        return left(OURS, "this command, or what it runs in")
    details = ground.processes.details(row)
    if row.key in ground.unclear or details is None:
        return left(UNCLEAR, "starting or ending: whose it is cannot be told")
    if details.uid != ground.uid:
        return left(ANOTHER_USER, "of another user" if details.uid is not None else "of a user who cannot be told")
    words = details.argv or ()
    launch = ground.runners.get(row.key) or runner_in(words)
    if launch is not None:
        return left(LAUNCH, f"the runner of launch {launch}", id=launch)
    if command_of_ours(words) == "daemon":
        return left(OURS, "agentctl's own daemon")
    agent, role = ground.roles.get(row.key, ("", ""))
    if role == DAEMON:
        return left(DAEMON_OF_AN_AGENT, f"{agent}'s daemon", agent)
    if role in (AGENT, SPARE):
        ids = ground.on.get(row.key, ())
        what = f"{agent} session {', '.join(ids)}" if ids else f"{agent}, on no session that is known"
        return left(SESSION, what, agent, ids[0] if ids else None)
    if role == WRAPPER:
        # It hands signals on to what it holds, so it is left with it, and named by it.
        below = ground.processes.descendants(row.pid)
        ids = tuple(dict.fromkeys(id for one in below for id in ground.on.get(one.key, ())))
        what = f"{agent} session {', '.join(ids)}" if ids else f"{agent}, on no session that is known"
        return left(SESSION, f"around {what}", agent, ids[0] if ids else None)
    return None


def alone(wrapper: ProcessKey, ground: Ground, mine: frozenset[ProcessKey]) -> bool:
    """Does this wrapper hold nobody but the processes that are ended?"""
    front = [wrapper]
    for one in front:  # grows
        for child in children_of(one, ground.processes):
            if child.key in mine:
                continue
            if kept(child, ground) is not None:
                return False
            front.append(child.key)
    return True


def uid_of(key: ProcessKey, ground: Ground) -> int | None:
    row = ground.processes.alive(key)
    details = ground.processes.details(row) if row is not None else None
    return details.uid if details is not None else None


def argv_of(row: Process, ground: Ground) -> tuple[str, ...]:
    details = ground.processes.details(row)
    return (details.argv or ()) if details is not None else ()


def comm_of(key: ProcessKey, ground: Ground) -> str:
    row = ground.processes.alive(key)
    return row.comm if row is not None else "gone"


def runner_in(argv: tuple[str, ...]) -> str | None:
    """The launch that a runner is for, by its arguments: also one of another state folder is no tool."""
    ours = argv[1:3] == ("-I", "-S") and len(argv) > 4 and argv[3].endswith("/agentctl/runner.py")
    return argv[4] if ours and is_id(argv[4]) else None


def command_of_ours(argv: tuple[str, ...]) -> str | None:
    """The verb of a command of ours."""
    for index, word in enumerate(argv[:6]):
        if word.rpartition("/")[2] == "agentctl" and (argv[index - 1] == "-m" or index < 2):
            return argv[index + 1] if index + 1 < len(argv) else ""
    return None


def ancestors(pid: int, processes: Processes) -> frozenset[ProcessKey]:
    """A process and all above it."""
    found: dict[ProcessKey, None] = {}
    row = processes.get(pid)
    while row is not None and row.key not in found:
        found[row.key] = None
        row = processes.get(row.parent)
    return frozenset(found)


def launch_of(session: Session, world: World) -> Launch | None:
    return next((one.launch for one in world.launches if one.launch.id == session.launch_id), None)
