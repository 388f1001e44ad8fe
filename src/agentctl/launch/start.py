"""Starts one agent: checks that it may run, makes its worktree, and starts it.

prepare    checks everything and makes nothing: from a request to an order
begin      makes the worktree and starts the agent; takes back what it made if the agent could not be started

group.py does both for one agent or many, and finds out which sessions they are on.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import ExitStack

from agentctl.agents import load, load_control
from agentctl.agents.control_base import joined
from agentctl.agents.recipes import Task
from agentctl.errors import AgentctlError, LaunchFailed, Refused
from agentctl.kernel import places, processes
from agentctl.launch import interactive, own_store, spawn
from agentctl.launch.spawn import ID_PATIENCE, Order
from agentctl.launches import hooks, records
from agentctl.launches.lineage import launcher_of
from agentctl.model import ALIVE, GONE, Launch, Value
from agentctl.query import remembered, roots
from agentctl.query.attribution import child_of
from agentctl.query.resolve import resolve_session
from agentctl.query.sessions import Scope, settled_look
from agentctl.workspace import clean, git, locks, marks, occupancy, presence
from agentctl.workspace import worktree as worktrees

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agentctl.agents.control_base import Control
    from agentctl.kernel.processes import Processes
    from agentctl.launch.spawn import Started
    from agentctl.launches.hooks import HookResult
    from agentctl.model import Process, Session
    from agentctl.query.sessions import Look

    Tell = Callable[[str], None]

COMMAND = (sys.executable, "-P", "-m", "agentctl")  # ourselves, for the runner
OVER = "_over"  # the verb that the runner asks: cli/launch_over.py
STOP = "_stop"  # the verb that it runs at the time limit: `stop`, without the configuration
RUNNER_LEAVES, OTHERS_LEAVE, GLANCE = 10.0, 1.0, 0.05  # seconds after the end of an agent


class Request(Value):
    """What a person wants to run."""

    agent: str
    prompt: str
    cwd: str  # absolute
    env: Mapping[str, str]  # for the agent: the caller's, and what was added
    model: str | None = None
    permissions: str | None = None
    flags: tuple[str, ...] = ()
    group: str | None = None
    spec: str | None = None
    hooks: Mapping[str, str] | None = None
    time_limit: float | None = None
    id_patience: float = ID_PATIENCE
    force: bool = False
    even_if_open: bool = False  # resume a session that a screen may show
    session: Session | None = None  # the session to resume
    worktree: worktrees.Plan | None = None  # to be made for it; then `cwd` is in there
    slot: str | None = None  # its name among the launches of its group
    interactive: bool = False  # its screen, in tmux; then the prompt may be empty


# Preparing


def prepare(request: Request, env: Mapping[str, str]) -> Order:
    """Return the order for a request; nothing is made. Raises UsageError and MissingProgram for what is known to
    go wrong."""
    if request.interactive:
        interactive.require(env)
    note = None
    if request.session is not None:
        on_its_store, note = own_store.leading_to(request.session, request.env, request.cwd)
        request = request._replace(env=on_its_store)
    recipe = load_control(request.agent).start(task_of(request, env))
    of_agent = {**request.env, **(recipe.env or {})}
    spawn.executable(recipe.argv[0], of_agent, request.cwd)
    if request.worktree is None and not os.path.isdir(request.cwd):
        raise AgentctlError(f"{request.cwd}: not a directory; --cwd says where the agent is to work")
    return Order(
        agent=request.agent,
        argv=recipe.argv,
        cwd=request.cwd,
        env=of_agent,
        input=recipe.input,
        prompt=request.prompt or None,
        group=request.group,
        spec=request.spec,
        hooks=request.hooks,
        worktree=request.worktree,
        slot=request.slot,
        session_id=recipe.session_id,
        one_shot=not request.interactive,
        interactive=request.interactive,
        time_limit=request.time_limit,
        commands_env=able_to_find_us(env),
        model=request.model,
        resumes=request.session.id if request.session is not None else None,
        force=request.force,
        even_if_open=request.even_if_open,
        id_patience=request.id_patience,
        said=joined(note, recipe.said),
        late=recipe.late,
    )


def able_to_find_us(env: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment in which a runner can run agentctl. It runs in another directory, so if Python found us
    by the directory that it is in, or by a relative path, the environment names our folder."""
    folder = os.path.realpath(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))
    named = env.get("PYTHONPATH", "").split(os.pathsep)
    first, *rest = [os.path.realpath(entry) for entry in sys.path if isinstance(entry, str)] or [""]
    by_directory = not sys.flags.safe_path and first == folder and folder not in rest
    by_relative = any(entry and not os.path.isabs(entry) and os.path.realpath(entry) == folder for entry in named)
    if not (by_directory or by_relative):
        return env
    return {**env, "PYTHONPATH": os.pathsep.join([folder, *filter(None, named)])}


def task_of(request: Request, env: Mapping[str, str]) -> Task:
    return Task(
        request.prompt,
        request.cwd,
        request.env,
        request.model,
        request.permissions,
        request.flags,
        request.session,
        request.interactive,
        launched_as(request.session, env) if request.session is not None else (),
    )


def launched_as(session: Session, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the options of our last launch of a session."""
    mine = launches_of(session, env)
    words = mine[-1].argv if mine else ()
    return tuple(words[: words.index("--")] if "--" in words else words)  # behind it comes the prompt


def launches_of(session: Session, env: Mapping[str, str]) -> list[Launch]:
    """Return our launches of a session, oldest first."""
    launched, _ = records.read_all(env)
    mine = [
        one
        for one in launched
        if one.id == session.launch_id or (one.agent, one.session_id) == (session.agent, session.id)
    ]
    return sorted(mine, key=lambda one: one.created_at)


def prepare_resume(id: str, request_of: Callable[[Session], Request], env: Mapping[str, str]) -> Order:
    """Return the order to resume a session. `request_of` makes the request from the session that the id names.
    Raises NotFound, Ambiguous and Refused, too."""
    session = resolve_session(id, env).answer.sessions[0]
    request = request_of(session)
    control = load_control(session.agent)
    why = why_not_to_go_on(session, control, force=request.force, even_if_open=request.even_if_open)
    if why is not None:
        raise Refused(why)
    return prepare(request, env)._replace(given=given_to(session, request.cwd, env))


def given_to(session: Session, cwd: str, env: Mapping[str, str]) -> Launch | None:
    """Return the launch that the worktree of a session was made for, or our last one that went on there. None if there
    is none, or if that worktree is gone: another one at its path is not ours."""
    real = os.path.realpath(cwd)
    mine = [one for one in launches_of(session, env) if one.worktree is not None]
    here = [one for one in mine if clean.inside(real, os.path.realpath(one.worktree or ""))]
    return next((one for one in reversed(here) if clean.given_to(one, env)), None)


def why_not_to_go_on(session: Session, control: Control, *, force: bool, even_if_open: bool = False) -> str | None:
    """Return why a session must not be resumed; None if it may be."""
    if session.parent is not None:
        return f"{session.id} is a sub-agent; resume its parent instead: agentctl resume {session.parent}"
    if session.process == GONE and session.may_be_open_in and not even_if_open:
        pids = ", ".join(map(str, session.may_be_open_in))
        risk = "a second process on it would mix its turns with those that are typed there"
        return (
            f"{session.id} has ended, but pid {pids} may have it open; {risk}: close it there (agentctl why "
            f"{session.id} says more), or use --even-if-open to resume it anyway"
        )
    if session.process == GONE:
        return None
    live = f"{session.id} is {session.status} (pid {session.pid})"
    if session.process == ALIVE and not control.SECOND_WRITER:
        limit = f"{session.agent} allows only one process on a session"
        return f"{live}; {limit}: wait until it has ended, or stop it first: agentctl stop {session.id}"
    if force:
        return None
    if session.process == ALIVE:
        return f"{live}; stop it first, or use --force to start a second process on it"
    return f"{session.id}: agentctl cannot tell whether it still runs ({session.reason}); --force resumes it anyway"


# Starting


def begin(order: Order, env: Mapping[str, str], tell: Tell, go_on: Callable[[], None] = lambda: None) -> Started:
    """Make what an agent needs, and start it. If it cannot be started, take back what was made. `go_on` is called right
    before the start, and raises if the launch was interrupted."""
    if order.said:
        tell(order.said)
    with ExitStack() as stack:
        # Nobody may remove the worktree before others can see the agent in it.
        for hold in worktrees.keep_in_place(order.worktree.repository if order.worktree else order.cwd):
            stack.enter_context(hold)
        if order.worktree is not None:
            worktrees.make(order.worktree, env)
            marks.set_mark(order.worktree.repository, order.worktree.path, order.worktree.branch)
        try:
            return start(order, env, tell, go_on)
        except AgentctlError as error:  # not Ctrl-C: then it may have been started
            give_back(order, error, env, tell)
            raise


def start(order: Order, env: Mapping[str, str], tell: Tell, go_on: Callable[[], None]) -> Started:
    """Start an agent. It holds the directory's gate from the look at who works there until others can see this launch,
    so no other launch comes between."""
    with ExitStack() as gates:
        if order.resumes is not None:
            gates.enter_context(locks.gate_named(env, f"resume {order.agent} {order.resumes}", order.resumes))
        gates.enter_context(locks.gate(env, order.cwd))
        look = check_directory(order, env, tell)
        judge_again(order, look, env)
        go_on()
        reserved = records.reserve(env)
        note_store(order, env, tell)
        launcher = launcher_of(look.world.processes.ancestors(os.getpid()), look.answer.sessions, env)
        ask, stop = (*COMMAND, OVER, reserved.id), (*COMMAND, STOP, reserved.id)
        order = order._replace(launcher=launcher, ask=ask, stop=stop, store=stores_of(order)[0])
        return interactive.start(reserved, order, env) if order.interactive else spawn.start(reserved, order)


def judge_again(order: Order, look: Look, env: Mapping[str, str]) -> None:
    """Raise Refused if the session to resume has been taken up since it was judged: another `resume` may have held its
    gate meanwhile. Its agent may not have said so in its store yet. `look`: at all that lives."""
    if order.resumes is None:
        return
    control = load_control(order.agent)
    for one in look.world.launches:
        same = (one.launch.agent, one.launch.session_id) == (order.agent, order.resumes)
        process = child_of(one.launch, look.world.processes) if same else None
        if process is not None and not (order.force and control.SECOND_WRITER):
            raise Refused(
                f"{order.resumes}: launch {one.launch.id} has just taken it up (pid {process.pid}); wait until it has "
                f"ended, or stop it first: agentctl stop {order.resumes}"
            )
    sessions = settled_look(Scope(ids=(order.resumes,)), env).answer.sessions
    session = next((one for one in sessions if (one.agent, one.id) == (order.agent, order.resumes)), None)
    if session is None:
        raise Refused(f"{order.resumes}: it is not to be seen any more; nothing was started; ask again")
    why = why_not_to_go_on(session, control, force=order.force, even_if_open=order.even_if_open)
    if why is not None:
        raise Refused(why)


def note_store(order: Order, env: Mapping[str, str], tell: Tell) -> None:
    """Remember the store that the agent is about to use, whoever named it, unless it is the one of its own in our HOME:
    the agent may make it and end before a look, and the next person who asks may have another environment."""
    default = roots.of_home(load(order.agent), env)
    used = stores_of(order)
    there = [root for root in used if root not in default and os.path.exists(root)]
    unmade = [root for root in used[:1] if root not in default and root not in there]
    for problem in (
        *remembered.remember({order.agent: there}, env),
        *remembered.expect({order.agent: unmade}, env),
    ):
        tell(f"{problem.path}: {problem.problem}")


def stores_of(order: Order) -> list[str]:
    """Return where an agent keeps its store, by the environment that it will have; first the place that it uses."""
    return [places.plain(os.path.join(order.cwd, root)) for root in load(order.agent).roots(order.env)]


def check_directory(order: Order, env: Mapping[str, str], tell: Tell) -> Look:
    """Raise Refused if a lock or another session keeps the agent out of its directory; print what is only worth a
    warning. Return the look at who works there."""
    present = presence.look_around(env)
    look = present.look
    if (blind := look.world.processes.blind) is not None:
        raise Refused(f"{blind}; agentctl could not see what it starts: nothing was started")
    directory = os.path.realpath(order.cwd)
    manual, unread = locks.read_all(env)
    for problem in unread:
        mine = locks.may_keep_out(problem, env, directory)
        if mine and not order.force:
            raise Refused(f"{problem.path}: {problem.problem}; {locks.way_out(problem, directory)}, or use --force")
        tell(f"{problem.path}: {problem.problem}; {locks.way_out(problem, directory if mine else None)}")
    for store in look.world.stores:
        if store.unread:
            tell(f"{directory}: agentctl cannot tell whether {store.agent} works there: {store.unread}")
    for conflict in present.in_the_way(directory, manual):
        if conflict.who == order.resumes:
            continue  # a session is not in its own way
        if conflict.kind != occupancy.WARNS and not order.force:
            raise Refused(f"{directory}: {conflict.why}; wait for it, use another directory, or --force")
        tell(f"{directory}: {conflict.why}")
    return look


# Taking back


def give_back(order: Order, error: Exception, env: Mapping[str, str], tell: Tell) -> None:
    """Remove the worktree of an agent that does not run, unless there is work in it, or a process may be at work there.
    The worktree stays if the agent may still run."""
    if order.worktree is None or (isinstance(error, LaunchFailed) and error.perhaps):
        return
    why = whom_it_left(error.launch_id, env) if isinstance(error, LaunchFailed) else None
    try:
        why = why or clean.why_it_must_stay(order.worktree.repository, order.worktree.path, env)
        why = why or worktrees.undo(order.worktree, env)
    except AgentctlError as failed:
        why = str(failed)
    if why is not None:
        tell(f"the worktree is left: {why}")


def whom_it_left(launch_id: str, env: Mapping[str, str]) -> str | None:
    """Return which processes of a launch may be at work although its agent has ended: its runner, which may be about to
    run the hook, or what the agent started. None if none is left after a moment."""
    launch = records.read_folder(launch_id, os.path.join(records.launches_folder(env), launch_id))
    begun = time.monotonic()
    while True:
        table = processes.snapshot({records.MARKER})
        runner = table.alive(table.own(launch.runner)) if isinstance(launch, Launch) else None
        there = [runner] if runner is not None else descendants(launch_id, table)
        if not there:
            return None
        if time.monotonic() - begun >= (RUNNER_LEAVES if runner is not None else OTHERS_LEAVE):
            pids = ", ".join(str(process.pid) for process in there)
            return f"pid {pids} of launch {launch_id} may be at work there"
        time.sleep(GLANCE)


def descendants(launch_id: str, table: Processes) -> list[Process]:
    """Return the processes that carry the marker of this launch."""
    marked = []
    for process in table.living():
        details = table.details(process)
        if details is not None and details.env and details.env.get(records.MARKER) == launch_id:
            marked.append(process)
    return marked


# Hooks


def run_hook(name: str, launch: Launch, session: Session | None, env: Mapping[str, str]) -> HookResult | None:
    """Run a hook of a launch, and note its result in the launch's folder, beside what it printed. Return the result;
    None if the launch has no such hook. Directory and branch are those that agentctl launched into: what a transcript
    says of them, a model may have written."""
    command = dict(launch.hooks).get(name)
    if command is None:
        return None
    facts = hooks.Facts(
        session_id=session.id if session else None,
        cwd=launch.cwd,
        agent=launch.agent,
        branch=launch.branch or (session.branch if session else None),
        exit_code=session.exit_code if session else None,
        status=session.status if session else None,
        group=launch.group,
        model=session.model if session else None,
        launch=launch.id,
        slot=launch.slot,
        worktree=launch.worktree,
    )
    if launch.worktree is not None:
        env = git.of_its_directory(env)
    folder = os.path.dirname(launch.path or "")
    if places.is_another(launch.cwd, launch.directory):
        said = f"{name} was not run: {launch.cwd} is another directory than the one it was launched in; run it yourself"
        result = hooks.HookResult(None, False, 0.0, (said,))
    else:
        result = hooks.run(name, command, facts, os.path.join(folder, records.COMMANDS), launch.cwd, env=env)
    hooks.note(folder, name, result)
    return result
