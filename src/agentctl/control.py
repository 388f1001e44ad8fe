"""Launch and resume: prove that it may be started, make its worktree, start it, and find out which session it is.

prepare    everything is checked, nothing is made
begin      the worktree is made, the agent is started; what fails before that is taken back
await_sessions (awaiting.py)     of one launch, or of many at once
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import ExitStack

from agentctl import busy, git, hooks, launches, launching, locks, processes, screens, worktrees
from agentctl.agents import load_control
from agentctl.awaiting import ID_PATIENCE, Begun, await_sessions, unnamed
from agentctl.errors import AgentctlError, Interrupted, LaunchFailed, Refused
from agentctl.model import ALIVE, GONE, Launch, Value
from agentctl.recipes import Recipe, Task
from agentctl.sessions import Scope, examine, settled_look

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeVar

    from agentctl.agents import Control
    from agentctl.hooks import HookResult
    from agentctl.launching import Started
    from agentctl.model import Process, Session
    from agentctl.processes import Processes
    from agentctl.screens import Screen

    Tell = Callable[[str], None]
    S = TypeVar("S", Started, Screen)

COMMAND = (sys.executable, "-P", "-m", "agentctl")  # ourselves, for the runner
OVER = "_over"  # the verb that the runner asks: cli/over.py
RUNNER_LEAVES, OTHERS_LEAVE, GLANCE = 10.0, 1.0, 0.05  # seconds after the end of an agent


class Request(Value):
    """What a person wants to have run."""

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
    session: Session | None = None  # the one to go on with
    worktree: worktrees.Plan | None = None  # to be made for it; then `cwd` is in there
    slot: str | None = None  # its name among the launches of its group
    interactive: bool = False  # its screen, in tmux; then the prompt may be empty


class Prepared(Value):
    """A request that nothing is known to stand against."""

    request: Request
    recipe: Recipe


def launch(request: Request, env: Mapping[str, str], tell: Tell) -> Session:
    """`env` is our own. Raises LaunchFailed, TimedOut and NoSessionYet (the agent is left running), Refused, NotFound,
    UsageError."""
    prepared = prepare(request, env)
    begun = begin(prepared, env, tell)
    found: Session | AgentctlError | None = None
    try:
        if prepared.recipe.late is not None:
            raise unnamed(begun, prepared.recipe.late)
        (_, found), *_ = await_sessions([begun], env, tell)
    finally:
        if begun.screen is not None:
            begun.screen.leave(dead=isinstance(found, LaunchFailed))
    if isinstance(found, LaunchFailed):
        give_back(request, found, env, tell)
    if isinstance(found, AgentctlError):
        raise found
    if begun.screen is not None and begun.session_id is None:
        launches.note_session(begun.started.folder, found.id)
    if begun.session_id is not None and found.id != begun.session_id:
        tell(f"{request.agent} took another id than {begun.session_id}: it is on {found.id}")
    return found


def prepare(request: Request, env: Mapping[str, str]) -> Prepared:
    """Raises UsageError and NotFound for what can be known to go wrong before anything is made."""
    if request.interactive:
        screens.require(env)
    recipe = load_control(request.agent).start(task_of(request))
    launching.executable(recipe.argv[0], {**request.env, **(recipe.env or {})}, request.cwd)
    if request.worktree is None and not os.path.isdir(request.cwd):
        raise AgentctlError(f"{request.cwd}: not a directory; --cwd says where the agent is to work")
    return Prepared(request, recipe)


def begin(
    prepared: Prepared, env: Mapping[str, str], tell: Tell, called_off: Callable[[], bool] = lambda: False
) -> Begun:
    """What was made for an agent that could not be started is taken back. `called_off` is asked before it is."""
    request, recipe = prepared.request, prepared.recipe
    if recipe.said:
        tell(recipe.said)
    with ExitStack() as stack:
        # Until others can see that somebody is there, the worktree is not taken away.
        for hold in worktrees.kept(request.worktree.repository if request.worktree else request.cwd):
            stack.enter_context(hold)
        if request.worktree is not None:
            worktrees.make(request.worktree, env)
        try:
            if called_off():
                raise Interrupted("interrupted before it was started")
            started, screen = start(request, recipe, env, tell)
        except AgentctlError as error:  # not Ctrl-C: then it may have been started
            give_back(request, error, env, tell)
            raise
    return Begun(request.agent, request.cwd, request.env, recipe.session_id, request.id_patience, started, screen)


def give_back(request: Request, error: AgentctlError, env: Mapping[str, str], tell: Tell) -> None:
    """The worktree of an agent that does not run, unless there is work in it, or somebody who may be at work. What may
    still run keeps it."""
    if request.worktree is None or (isinstance(error, LaunchFailed) and error.perhaps):
        return
    why = whom_it_left(error.launch_id, env) if isinstance(error, LaunchFailed) else None
    try:
        why = why or worktrees.undo(request.worktree, env)
    except AgentctlError as failed:
        why = str(failed)
    if why is not None:
        tell(f"the worktree is left: {why}")


def whom_it_left(launch_id: str, env: Mapping[str, str]) -> str | None:
    """Its agent has ended. Its runner may be about to run the hook there, and what it started may go on."""
    launch = launches.read_folder(launch_id, os.path.join(launches.launches_folder(env), launch_id))
    begun = time.monotonic()
    while True:
        table = processes.snapshot({launches.MARKER})
        runner = table.alive(launch.runner) if isinstance(launch, Launch) else None
        there = [runner] if runner is not None else descendants(launch_id, table)
        if not there:
            return None
        if time.monotonic() - begun >= (RUNNER_LEAVES if runner is not None else OTHERS_LEAVE):
            pids = ", ".join(str(process.pid) for process in there)
            return f"pid {pids} of launch {launch_id} may be at work there"
        time.sleep(GLANCE)


def descendants(launch_id: str, table: Processes) -> list[Process]:
    found = []
    for process in table.living():
        details = table.details(process)
        if details is not None and details.env and details.env.get(launches.MARKER) == launch_id:
            found.append(process)
    return found


def resume(id: str, request_of: Callable[[Session], Request], env: Mapping[str, str], tell: Tell) -> Session:
    """`request_of` makes the request from the session that the id names, after that is known."""
    session = examine(id, env).answer.sessions[0]
    request = request_of(session)
    why = why_not_to_go_on(session, load_control(session.agent), force=request.force)
    if why is not None:
        raise Refused(why)
    return launch(request, env, tell)


def why_not_to_go_on(session: Session, control: Control, *, force: bool) -> str | None:
    if session.parent is not None:
        return f"{session.id} is a sub-agent; go on with its parent: agentctl resume {session.parent}"
    if session.process == GONE:
        return None
    if session.process == ALIVE and not control.SECOND_WRITER:
        return f"{session.id} is {session.status} (pid {session.pid}); {session.agent} allows one process on a session"
    if force:
        return None
    if session.process == ALIVE:
        return f"{session.id} is {session.status} (pid {session.pid}); stop it first, or --force a second one onto it"
    return f"{session.id}: it cannot be told whether it still runs ({session.reason}); --force goes on all the same"


def task_of(request: Request) -> Task:
    return Task(
        request.prompt,
        request.cwd,
        request.env,
        request.model,
        request.permissions,
        request.flags,
        request.session,
        request.interactive,
    )


# Starting


def start(
    request: Request, recipe: Recipe, env: Mapping[str, str], tell: Tell
) -> tuple[Started, screens.Watcher | None]:
    if not request.interactive:
        return start_by(launching.start, request, recipe, env, tell), None
    screen = start_by(lambda reserved, order: screens.start(reserved, order, env), request, recipe, env, tell)
    tell(f"its screen is in tmux session {screen.pane.name}: agentctl attach {screen.started.launch_id}")
    return screen.started, screens.Watcher(screen.pane, env)


def start_by(
    starter: Callable[[launches.Reserved, launching.Order], S],
    request: Request,
    recipe: Recipe,
    env: Mapping[str, str],
    tell: Tell,
) -> S:
    """The directory is ours alone from the look at who works there until our launch can be seen by others."""
    with locks.gate(env, request.cwd):
        check_directory(request, env, tell)
        reserved = launches.reserve(env)
        order = launching.Order(
            agent=request.agent,
            argv=recipe.argv,
            cwd=request.cwd,
            env={**request.env, **(recipe.env or {})},
            input=recipe.input,
            prompt=request.prompt or None,
            group=request.group,
            spec=request.spec,
            hooks=request.hooks,
            worktree=request.worktree,
            slot=request.slot,
            session_id=recipe.session_id,
            one_shot=not request.interactive,
            time_limit=request.time_limit,
            ask=(*COMMAND, OVER, reserved.id),
            stop=(*COMMAND, "stop", reserved.id),
            commands_env=env,
        )
        return starter(reserved, order)


def check_directory(request: Request, env: Mapping[str, str], tell: Tell) -> None:
    """Who else is there? The session that is to go on is not in its own way."""
    look = settled_look(Scope(), env)
    directory = os.path.realpath(request.cwd)
    manual, unread = locks.read_all(env)
    torn = next((one for one in unread if one.path == locks.lock_path(env, directory)), None)
    if torn is not None and not request.force:
        raise Refused(
            f"{torn.path}: {torn.problem}; it may be a lock: `agentctl unlock --force {directory}` removes it"
        )
    table = look.world.processes
    found = locks.conflicts(
        directory,
        look.answer,
        manual,
        busy.launches_that_live([one.launch for one in look.world.launches], table),
        busy.ancestors_of(os.getpid(), table),
    )
    own = request.session.id if request.session else None
    for conflict in [one for one in found if one.who != own]:
        if conflict.kind != locks.WARNS and not request.force:
            raise Refused(f"{directory}: {conflict.why}; wait for it, use another directory, or --force")
        tell(f"{directory}: {conflict.why}")


# Hooks


def run_hook(name: str, launch: Launch, session: Session | None, env: Mapping[str, str]) -> HookResult | None:
    """The command that was given with a launch; None where there was none. What became of it is noted in the launch's
    folder, where its words are, too."""
    command = dict(launch.hooks).get(name)
    if command is None:
        return None
    facts = hooks.Facts(
        session_id=session.id if session else None,
        cwd=(session.cwd if session else None) or launch.cwd,
        agent=launch.agent,
        branch=(session.branch if session else None) or launch.branch,
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
    result = hooks.run(name, command, facts, os.path.join(folder, launches.COMMANDS), launch.cwd, env=env)
    hooks.note(folder, name, result)
    return result
