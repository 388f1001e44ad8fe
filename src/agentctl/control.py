"""Launch and resume: prove that it may be started, start it, and find out which session it is.

There is no id but the agent's own. It is known once the agent's own store, or its output, shows it.
"""

from __future__ import annotations

import os
import sys
import time

from agentctl import busy, hooks, launched, launches, launching, locks, screens
from agentctl.agents import load, load_control
from agentctl.errors import AgentctlError, LaunchFailed, NoSessionYet, Refused, TimedOut
from agentctl.model import ALIVE, GONE, Value
from agentctl.recipes import Task
from agentctl.sessions import Scope, examine, settled_look
from agentctl.watching import Watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeVar

    from agentctl.agents import Control
    from agentctl.hooks import HookResult
    from agentctl.launching import Started
    from agentctl.model import Launch, Session
    from agentctl.recipes import Recipe
    from agentctl.screens import Screen
    from agentctl.sessions import Look
    from agentctl.world import World

    Tell = Callable[[str], None]
    S = TypeVar("S", Started, Screen)

ID_PATIENCE = 60.0
SAY_AFTER = 1.0  # seconds of silence before the person is told what is waited for
GLANCE = 0.5  # seconds between two looks at a screen
LAST_LINES, LAST_BYTES = 10, 4096
COMMAND = (sys.executable, "-P", "-m", "agentctl")  # ourselves, for the runner
OVER = "_over"  # the verb that the runner asks: cli/over.py


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
    interactive: bool = False  # its screen, in tmux; then the prompt may be empty


def launch(request: Request, env: Mapping[str, str], tell: Tell) -> Session:
    """`env` is our own. Raises LaunchFailed, TimedOut and NoSessionYet (the agent is left running), Refused, NotFound,
    UsageError."""
    control = load_control(request.agent)
    recipe = control.start(task_of(request))
    if request.interactive:
        found = launch_screen(request, recipe, env, tell)
    else:
        found = await_session(request, recipe, start(request, recipe, env, tell), env, tell)
    if recipe.session_id is not None and found.id != recipe.session_id:
        tell(f"{request.agent} took another id than {recipe.session_id}: it is on {found.id}")
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


def start(request: Request, recipe: Recipe, env: Mapping[str, str], tell: Tell) -> Started:
    return start_by(launching.start, request, recipe, env, tell)


def start_by(
    starter: Callable[[launches.Reserved, launching.Order], S],
    request: Request,
    recipe: Recipe,
    env: Mapping[str, str],
    tell: Tell,
) -> S:
    """The directory is ours alone from the look at who works there until our launch can be seen by others."""
    agent_env = {**request.env, **(recipe.env or {})}
    launching.executable(recipe.argv[0], agent_env, request.cwd)  # or NotFound, before anything is made
    if not os.path.isdir(request.cwd):
        raise AgentctlError(f"{request.cwd}: not a directory; --cwd says where the agent is to work")
    if recipe.said:
        tell(recipe.said)
    with locks.gate(env, request.cwd):
        check_directory(request, env, tell)
        reserved = launches.reserve(env)
        order = launching.Order(
            agent=request.agent,
            argv=recipe.argv,
            cwd=request.cwd,
            env=agent_env,
            input=recipe.input,
            prompt=request.prompt or None,
            group=request.group,
            spec=request.spec,
            hooks=request.hooks,
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
    processes = look.world.processes
    found = locks.conflicts(
        directory,
        look.answer,
        manual,
        busy.launches_that_live([one.launch for one in look.world.launches], processes),
        busy.ancestors_of(os.getpid(), processes),
    )
    own = request.session.id if request.session else None
    for conflict in [one for one in found if one.who != own]:
        if conflict.kind != locks.WARNS and not request.force:
            raise Refused(f"{directory}: {conflict.why}; wait for it, use another directory, or --force")
        tell(f"{directory}: {conflict.why}")


# Which session it is


def await_session(
    request: Request,
    recipe: Recipe,
    started: Started,
    env: Mapping[str, str],
    tell: Tell,
    screen: screens.Watcher | None = None,
) -> Session:
    begun = time.monotonic()
    deadline = begun + request.id_patience
    told = False
    written = [os.path.join(started.folder, name) for name in (launches.OUTPUT, launches.EXITS)]
    with Watch() as watch:
        while True:
            known = recipe.session_id or launched.printed_in(started.folder, request.agent)
            look = settled_look(Scope(agents=(request.agent,), prefix=known), env)
            id = id_in(look.world, started.launch_id)
            if id is not None:
                return session_in(look, id, env)
            if watch.cover([started.child, started.runner], [*written, *signs(request, known, look)]):
                continue
            if not launched.may_live(look.world, request.agent, started.child, started.runner):
                raise died(request, started, screen)
            if screen is not None and screen.is_still():
                raise unnamed(request, started, "what it shows does not change: it waits for a person", screen)
            now = time.monotonic()
            if now >= deadline:
                raise TimedOut(
                    f"{request.agent} (pid {started.child.pid}) has not named its session within "
                    f"{request.id_patience:g} s; it is left running: `agentctl stop {started.launch_id}` ends it"
                )
            if not told and now - begun >= SAY_AFTER:
                told = True
                tell(f"{request.agent} runs (pid {started.child.pid}); waiting for its session id")
            until = deadline if told else min(deadline, begun + SAY_AFTER)
            watch.sleep(until if screen is None else min(until, now + GLANCE))


def id_in(world: World, launch_id: str) -> str | None:
    """The session that a launch is on by the agent's own store. Our own record of the launch is no proof of it."""
    one = next((one for one in world.launches if one.launch.id == launch_id), None)
    if one is None:
        return None
    records = {record.id: record for record in world.records if record.agent == one.launch.agent}
    named = [
        link.id
        for link in world.links
        if link.agent == one.launch.agent and link.key in one.agents and link.path != one.launch.path
    ]
    if one.session_id in named:
        return one.session_id
    tops = [id for id in named if id not in records or records[id].parent is None]  # its sub-agents are its, too
    if tops:
        return tops[0]
    record = records.get(one.session_id or "")
    is_new = record is not None and (record.updated_at or 0.0) >= one.launch.created_at
    return one.session_id if is_new else None


def session_in(look: Look, id: str, env: Mapping[str, str]) -> Session:
    """As it was judged; anew if it is another one than was looked for."""
    found = next((session for session in look.answer.sessions if session.id == id), None)
    return found or examine(id, env).answer.sessions[0]


def signs(request: Request, known: str | None, look: Look) -> list[str]:
    """What changes when the agent writes who it is."""
    agent = load(request.agent)
    found: list[str] = []
    for root in agent.roots(request.env):
        path = os.path.normpath(os.path.join(request.cwd, root))
        if (request.agent, path) in look.stalled:
            continue  # nothing that touches it comes back
        store = agent.open_store(path)
        try:
            store.survey()
            found += store.watched(known or "")
        except OSError:
            found.append(path)  # it is not there yet
    return found


def launch_screen(request: Request, recipe: Recipe, env: Mapping[str, str], tell: Tell) -> Session:
    """The same in a terminal of its own. Its session may begin only when a person has typed something."""
    screens.require(env)
    screen = start_by(lambda reserved, order: screens.start(reserved, order, env), request, recipe, env, tell)
    watcher = screens.Watcher(screen.pane, env)
    dead = False
    try:
        tell(f"its screen is in tmux session {screen.pane.name}: agentctl attach {screen.started.launch_id}")
        if recipe.late is not None:
            raise unnamed(request, screen.started, recipe.late)
        found = await_session(request, recipe, screen.started, env, tell, watcher)
        if recipe.session_id is None:
            launches.note_session(screen.started.folder, found.id)
        return found
    except LaunchFailed:
        dead = True
        raise
    finally:
        (screens.close if dead else screens.settle)(screen.pane, env)


def unnamed(request: Request, started: Started, why: str, screen: screens.Watcher | None = None) -> NoSessionYet:
    shown = f"; it shows:\n{screens.told(screen.lines())}\n" if screen is not None else "; "
    go = f"`agentctl attach {started.launch_id}` goes there; attach, wait and stop take this launch id"
    what = f"{request.agent} (pid {started.child.pid}) runs and has no session yet: {why}"
    return NoSessionYet(f"{what}{shown}{go}", started.launch_id)


def died(request: Request, started: Started, screen: screens.Watcher | None = None) -> LaunchFailed:
    end = next((one for one in launches.exits_in(started.folder) if one.direct), None)
    how = "nobody saw how" if end is None else end.signal or f"exit code {end.exit_code}"
    lines = screen.lines() if screen is not None else last_lines(os.path.join(started.folder, launches.OUTPUT))
    lines = lines[-LAST_LINES:]
    said = "it printed nothing" if not lines else "its last lines:\n" + "\n".join(f"  {line}" for line in lines)
    return LaunchFailed(
        f"{request.agent} ended before its session was known ({how}); {said}", started.launch_id, step="session"
    )


def last_lines(path: str) -> list[str]:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LAST_BYTES))
            text = file.read(LAST_BYTES).decode(errors="replace")
    except OSError:
        return []
    return [line for line in text.splitlines() if line.strip()][-LAST_LINES:]


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
        branch=session.branch if session else None,
        exit_code=session.exit_code if session else None,
        status=session.status if session else None,
        group=launch.group,
        model=session.model if session else None,
        launch=launch.id,
    )
    folder = os.path.dirname(launch.path or "")
    result = hooks.run(name, command, facts, os.path.join(folder, launches.COMMANDS), launch.cwd, env=env)
    hooks.note(folder, name, result)
    return result
