"""Which processes a stop may touch. Pure: it takes one reading of the world and returns the processes that are meant,
those that end with them, and those that it leaves alone, each with its reason. No I/O, no clock, no agent names: the
look (stop.py) has read the details that it needs (`Ground.details`).

A stop ends only what is proved: the processes of the session itself, and their descendants. It never ends an agent's
daemon, another session's process, another launch's runner, agentctl's own daemon, another user's process, our own
ancestors, a server of terminals, or anything below one of these; nor what stands above one of these, for that may hold
its terminal. Another session's process is what its own link names, whatever its name is.
"""

from __future__ import annotations

from agentctl.errors import Refused
from agentctl.launches.records import is_id
from agentctl.model import AGENT, ALIVE, DAEMON, GONE, SOLE, SPARE, WRAPPER, ProcessKey, Value, terminal_of, top_of
from agentctl.query.cases import homes_of, may_be_on, may_be_on_any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from agentctl.kernel.processes import Processes
    from agentctl.model import Claim, Details, Launch, Process, Session
    from agentctl.query.world import Launched, World

    Name = tuple[str, str]  # agent and session id

# Why a process is left alone. Only the first two can be ended by themselves (--tree).
SESSION, LAUNCH = "session", "launch"
DAEMON_OF_AN_AGENT, OURS, ANOTHER_USER, UNCLEAR, ADOPTED = "daemon", "ours", "user", "unclear", "adopted"
TERMINALS, HOST = "terminals", "host"
INNER = (SESSION, LAUNCH)
NAMED = 5  # sessions that a screen may show, which are named; of more, only the number is said
# The names of servers that keep the terminals of whoever asks them to, people too.
TERMINAL_SERVERS = ("tmux: server", "screen", "dtach", "abduco", "zellij")
# Where the program of a runner lies, below the folder that agentctl is installed in: today, and before it had rooms.
RUNNERS = ("/agentctl/launch/runner.py", "/agentctl/runner.py")


class Ground(Value):
    """Which process belongs to whom at one moment."""

    processes: Processes  # only its rows are used here, never what it would have to read
    details: Mapping[ProcessKey, Details]  # of the processes that may be meant, and of all below them
    roles: Mapping[ProcessKey, tuple[str, str]]  # agent and role of what the agents claim
    on: Mapping[ProcessKey, tuple[str, ...]]  # the sessions that each process holds, by the links of their stores
    runners: Mapping[ProcessKey, str]  # their launches
    ourselves: frozenset[ProcessKey]  # this command and all its ancestors
    uid: int
    # First processes of containers: the agents of others that end with each.
    housemates: Mapping[ProcessKey, tuple[str, ...]] = {}
    unclear: frozenset[ProcessKey] = frozenset()  # in the middle of exec: perhaps an agent's
    of_agents: Mapping[ProcessKey, str] = {}  # the agents of those links


class Left(Value):
    """A process that is not touched."""

    key: ProcessKey
    comm: str
    why: str
    what: str
    agent: str | None = None
    id: str | None = None  # of its session, or of its launch


class Tree(Value):
    """What descends from the processes of a session."""

    tools: tuple[Process, ...] = ()  # what is ended with the agent
    left: tuple[Left, ...] = ()


class Targets(Value):
    """The processes that a session is in."""

    keys: tuple[ProcessKey, ...] = ()
    wrappers: tuple[ProcessKey, ...] = ()
    resident: str | None = None  # why its process must not end, whoever asks
    over: bool = False  # it has ended already
    supervised: bool = False  # it has no process, and its agent's daemon may bring it back


# What is meant


def targets_of(
    session: Session, world: World, ground: Ground, *, force: bool, only: Collection[ProcessKey] | None = None
) -> Targets:
    """Return the processes to end for a session; with `only`, those of them that are among these. Raises Refused if the
    identity of one is not proved, or if it must not be ended."""
    short = f"session {session.id}"
    if session.process == GONE:
        refuse_if_held(session, world)
        return Targets(over=True)
    if session.parent is not None:
        top = top_session(session, world)
        raise Refused(f"{short} is a sub-agent in the process of {top}; to end both: agentctl stop {top}")
    if session.process != ALIVE and session.rule == "supervised":
        return Targets(supervised=True)
    if session.process != ALIVE:
        doubt = session.reason or "its state is not known"
        raise Refused(f"{short}: {doubt}; nothing is signalled; `agentctl why {session.id}` shows what is known")
    keys, wrappers = (
        tuple(key for key in keys_of(session, role) if only is None or key in only) for role in (AGENT, WRAPPER)
    )
    if not keys:
        raise Refused(f"{short}: it lives, but its process cannot be named; `agentctl why {session.id}` shows more")
    for key in keys:
        check(key, short, ground)
        if not force:
            refuse_unproved(key, session, world, ground)
    resident = next((why for key in keys if (why := resident_of(key, session, world, ground))), None)
    return Targets(keys, wrappers, resident)


def keys_of(session: Session, role: str = AGENT) -> tuple[ProcessKey, ...]:
    """Return the processes of a session that have this role, each once."""
    keys = (ProcessKey.parse(entry["key"]) for entry in session.processes if entry["role"] == role)
    return tuple(dict.fromkeys(key for key in keys if key is not None))


def refuse_if_held(session: Session, world: World) -> None:
    """Raise Refused if a live process may be on a session that seems to have ended."""
    if blockers := blockers_of(session, world):
        pids = ", ".join(str(claim.key.pid) for claim in blockers)
        raise Refused(
            f"session {session.id} seems to have ended, but pid {pids} may be on it, and that cannot be told; "
            f"`agentctl why {session.id}` shows what is known"
        )


def refuse_unproved(key: ProcessKey, session: Session, world: World, ground: Ground) -> None:
    """Raise Refused if only --force may end this process for this session."""
    if others := ground.housemates.get(key):
        raise Refused(
            f"session {session.id}: pid {key.pid} is the first process of a container, and everything in it ends with "
            f"it, also {', '.join(others)}; to end all of it: agentctl stop {session.id} --force"
        )
    shown = may_show_others(session, (key,), world)
    links = [entry["link"] for entry in session.processes if entry["role"] == AGENT]
    if SOLE in links:
        raise Refused(
            f"session {session.id}: that pid {key.pid} is on it is inferred, not proved: it is the only process that "
            f"can be{f'; {shown}' if shown else ''}; to end pid {key.pid}: agentctl stop {session.id} --force"
        )
    if key not in ground.roles:
        raise Refused(
            f"session {session.id}: its store names pid {key.pid} ({comm_of(key, ground)}), which is no process of "
            f"{session.agent} by its arguments; if it is: agentctl stop {session.id} --force"
        )


def may_show_others(session: Session, keys: Iterable[ProcessKey], world: World) -> str | None:
    """Return which other sessions a person may have open on the screens that end with this one; None if none."""
    for key in keys:
        others = sorted({id for one in world.claims if one.key == key for id in one.shows} - {session.id})
        if others:
            more = f" and {len(others) - NAMED} more" if len(others) > NAMED else ""
            row = world.processes.alive(key)
            where = (terminal_of(row.tty) or {}).get("tty") if row is not None else None
            screen = f"pid {key.pid}" + (f" ({where})" if where else "")
            return f"{screen} is a screen that may show another session: {', '.join(others[:NAMED])}{more}"
    return None


def check(key: ProcessKey, short: str, ground: Ground) -> None:
    """Raise Refused for a process that agentctl never signals, not even with --force."""
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
    """Return the live processes that may be on a session that no process is proved to be on."""
    held = {link.key for link in world.links if world.processes.alive(link.key)}
    name = (session.agent, session.id)
    roots = homes_of(world).get(name, set())
    possible = [claim for claim in world.claims if may_be_on_any(claim, held, world.processes)]
    return [claim for claim in possible if may_be_on(claim, name, roots)]


def is_vague(claim: Claim) -> bool:
    """Could its arguments not be read? Then it is starting or ending."""
    return claim.store is None and claim.candidates is None


def parents(world: World) -> dict[Name, Name]:
    return {(one.agent, one.id): (one.agent, one.parent) for one in world.records if one.parent is not None}


def top_session(session: Session, world: World) -> str:
    """Return the id of the session in whose process a sub-agent runs."""
    id = top_of((session.agent, session.id), parents(world))[1]
    return id if id != session.id else session.parent or id


def is_below(name: Name, top: Name, above: Mapping[Name, Name]) -> bool:
    """Is this session `top` itself, or a sub-agent of it at any depth?"""
    passed: set[Name] = set()
    while name != top:
        if name in passed or name not in above:
            return False
        passed.add(name)
        name = above[name]
    return True


def resident_of(key: ProcessKey, session: Session, world: World, ground: Ground) -> str | None:
    """Return why this process must not end for the sake of one session; None if it may."""
    agent, role = ground.roles.get(key, (session.agent, AGENT))
    if role == DAEMON:
        return f"it lives in {agent}'s daemon (pid {key.pid})"
    above = parents(world)
    held = {link.id for link in world.links if link.key == key and link.agent == session.agent}
    itself = (session.agent, session.id)
    others = sorted(id for id in held if not is_below((session.agent, id), itself, above))
    strangers = sorted(link.id for link in world.links if link.key == key and link.agent != session.agent)
    if others or strangers:
        return f"its process (pid {key.pid}) also holds {', '.join(dict.fromkeys([*others, *strangers]))}"
    return None


def targets_of_launch(one: Launched, first: Process | None, ground: Ground, *, tree: bool) -> Targets:
    """Return the processes to end for a launch that has no session yet: the agent that it started, or what was started
    in place of it. `first`: the process that it started, if that lives. Raises Refused as `targets_of`."""
    launch = one.launch
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
    """Return the targets of a launch whose first process has ended. What that left behind may be its agent, or an agent
    that was a tool of it."""
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
    """Return the processes above these, up to `top`, the lowest first."""
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


def collect(roots: Iterable[ProcessKey], ground: Ground, mine: frozenset[ProcessKey], *, tree: bool = False) -> Tree:
    """Sort what descends from these processes into tools and what is left alone. `mine` are passed through: they are
    ended in their own way. `tree`: the sessions and launches below are ended next, so what holds them may end."""
    tools: list[Process] = []
    left: list[Left] = []
    front = list(dict.fromkeys(roots))
    seen = set(front)
    for one in front:  # grows
        for child in children_of(one, ground.processes):
            if child.key in seen:
                continue
            seen.add(child.key)
            reason = None if child.key in mine else why_left(child, ground)
            if reason is not None:
                left.append(reason)
                continue
            front.append(child.key)
            if child.key not in mine:
                tools.append(child)
    hosts = hosts_of(left, ground, tree=tree)
    held = [left_as(tool, HOST, hosts[tool.key]) for tool in tools if tool.key in hosts]
    return Tree(tuple(tool for tool in tools if tool.key not in hosts), (*left, *held))


def hosts_of(left: Iterable[Left], ground: Ground, *, tree: bool = False) -> dict[ProcessKey, str]:
    """Return what stands above the processes that are left alone, each with what it may hold: a terminal, a pipe. Its
    end could be theirs. Not above what just starts or ends: a tool that starts others all the time would never end."""
    hosts: dict[ProcessKey, str] = {}
    for one in left:
        if one.why == UNCLEAR or (tree and one.why in INNER):
            continue
        row = ground.processes.alive(one.key)
        passed: set[ProcessKey] = set()
        while row is not None and row.key not in passed:
            passed.add(row.key)
            row = ground.processes.get(row.parent)
            if row is not None:
                hosts.setdefault(row.key, f"above pid {one.key.pid} ({one.what})")
    return hosts


def children_of(key: ProcessKey, processes: Processes) -> Iterator[Process]:
    """Return the children of a process. None is older than its parent: a row that says so was read before its pid had
    another owner."""
    if processes.alive(key) is None:
        return iter(())
    return (child for child in processes.children(key.pid) if child.key.start >= key.start)


def adopted(runner: ProcessKey, ground: Ground, mine: frozenset[ProcessKey]) -> tuple[Process, ...]:
    """Return what the agents of a launch left behind: children of its runner now, but not the commands it runs."""
    return tuple(
        child
        for child in children_of(runner, ground.processes)
        if child.key not in mine
        and child.key not in ground.ourselves
        and command_of_ours(argv_of(child, ground)) is None
    )


def collect_adopted(runner: ProcessKey, ground: Ground, mine: frozenset[ProcessKey], *, tree: bool) -> Tree:
    """Sort what was left behind. Nobody can tell whose tool it was: it is named, and ended only with --tree."""
    tools: list[Process] = []
    left: list[Left] = []
    for child in adopted(runner, ground, mine):
        reason = why_left(child, ground)
        if reason is None and tree:
            below = collect([child.key], ground, mine, tree=tree)
            held = hosts_of(below.left, ground, tree=tree).get(child.key)
            tools += [*([child] if held is None else []), *below.tools]
            left += [*([left_as(child, HOST, held)] if held is not None else []), *below.left]
        else:
            left.append(reason or left_as(child, ADOPTED, "left behind by this launch before"))
    return Tree(tuple(tools), tuple(left))


def why_left(row: Process, ground: Ground) -> Left | None:
    """Return why this process is left alone, with everything below it; None if it is a tool."""
    if row.pid <= 1 or row.key in ground.ourselves:
        return left_as(row, OURS, "this command, or what it runs in")
    if (linked := left_by_link(row, ground)) is not None:
        return linked
    details = ground.details.get(row.key)
    if row.key in ground.unclear or details is None:
        return left_as(row, UNCLEAR, "starting or ending: whose it is cannot be told")
    if details.uid != ground.uid:
        return left_as(
            row, ANOTHER_USER, "of another user" if details.uid is not None else "of a user who cannot be told"
        )
    if row.comm.casefold() in TERMINAL_SERVERS:
        return left_as(row, TERMINALS, "a server of terminals: others may have theirs in it")
    return left_as_ours(row, details.argv or (), ground) or left_by_role(row, ground)


def left_as(row: Process, why: str, what: str, agent: str | None = None, id: str | None = None) -> Left:
    return Left(row.key, row.comm, why, what, agent, id)


def left_as_ours(row: Process, argv: tuple[str, ...], ground: Ground) -> Left | None:
    """Leave the runner of a launch, and agentctl's own daemon. Arguments do not prove whose runner it is."""
    if (launch := ground.runners.get(row.key)) is not None:
        return left_as(row, LAUNCH, f"the runner of launch {launch}", id=launch)
    if (named := runner_in(argv)) is not None:
        return left_as(row, OURS, f"by its arguments the runner of launch {named}, in another AGENTCTL_HOME")
    return left_as(row, OURS, "agentctl's own daemon") if command_of_ours(argv) == "daemon" else None


def left_by_link(row: Process, ground: Ground) -> Left | None:
    """Leave what is on another session, whatever its name and its arguments are: a link of a store, or a lock of the
    kernel, says more than they do."""
    ids = ground.on.get(row.key, ())
    agent = ground.of_agents.get(row.key) or ground.roles.get(row.key, ("an agent", ""))[0]
    return left_with_sessions(row, agent, ids) if ids else None


def left_by_role(row: Process, ground: Ground) -> Left | None:
    """Leave what an agent claims as its daemon, as the process of a session, or as a wrapper around one."""
    agent, role = ground.roles.get(row.key, ("", ""))
    if role == DAEMON:
        return left_as(row, DAEMON_OF_AN_AGENT, f"{agent}'s daemon", agent)
    if role in (AGENT, SPARE):
        return left_with_sessions(row, agent, ground.on.get(row.key, ()))
    if role == WRAPPER:
        # It hands signals on to what it holds, so it is left with it, and named by it.
        below = ground.processes.descendants(row.pid)
        ids = tuple(dict.fromkeys(id for one in below for id in ground.on.get(one.key, ())))
        return left_with_sessions(row, agent, ids, "around ")
    return None


def left_with_sessions(row: Process, agent: str, ids: tuple[str, ...], around: str = "") -> Left:
    what = f"{agent} session {', '.join(ids)}" if ids else f"{agent}, on no session that is known"
    return left_as(row, SESSION, f"{around}{what}", agent, ids[0] if ids else None)


def holds_nobody_else(wrapper: ProcessKey, ground: Ground, mine: frozenset[ProcessKey]) -> bool:
    """Does this wrapper hold only processes that are ended?"""
    front = [wrapper]
    for one in front:  # grows
        for child in children_of(one, ground.processes):
            if child.key in mine:
                continue
            if why_left(child, ground) is not None:
                return False
            front.append(child.key)
    return True


def uid_of(key: ProcessKey, ground: Ground) -> int | None:
    details = ground.details.get(key)
    return details.uid if details is not None else None


def argv_of(row: Process, ground: Ground) -> tuple[str, ...]:
    details = ground.details.get(row.key)
    return (details.argv or ()) if details is not None else ()


def comm_of(key: ProcessKey, ground: Ground) -> str:
    row = ground.processes.alive(key)
    return row.comm if row is not None else "gone"


def runner_in(argv: tuple[str, ...]) -> str | None:
    """Return the launch that a runner is for, by its arguments: one of another state folder is no tool either."""
    ours = argv[1:3] == ("-I", "-S") and len(argv) > 4 and argv[3].endswith(RUNNERS)
    return argv[4] if ours and is_id(argv[4]) else None


def command_of_ours(argv: tuple[str, ...]) -> str | None:
    """Return the verb of an agentctl command; None if it is none."""
    for index, word in enumerate(argv[:6]):
        if word.rpartition("/")[2] == "agentctl" and (argv[index - 1] == "-m" or index < 2):
            return argv[index + 1] if index + 1 < len(argv) else ""
    return None


def launch_of(session: Session, world: World) -> Launch | None:
    return next((one.launch for one in world.launches if one.launch.id == session.launch_id), None)
