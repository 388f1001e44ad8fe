"""agentctl attach ID: take over a session that sits in tmux, whoever started it; or say where it runs."""

from __future__ import annotations

import os
import sys

from agentctl import launches, tmux
from agentctl.agents import load_control
from agentctl.cli import output
from agentctl.errors import NotFound, Refused
from agentctl.launched import child_of
from agentctl.model import ALIVE, GONE, Details, Launch, Value
from agentctl.recipes import Held
from agentctl.sessions import Scope, examine, settled_look
from agentctl.terminals import process_of, seated, whereabouts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping

    from agentctl.model import Process, Session
    from agentctl.processes import Processes
    from agentctl.terminals import Seat

EPILOG = """\
ID is a session id, any unique beginning of one, or the id of a launch. Which pane of tmux it sits in is found out now,
and proved: its process has the pane's terminal, and the pane's own process stands above it. Inside the same tmux your
client switches to it; from outside tmux is attached (its own keys leave it again: prefix d). A session that an agent's
own daemon holds is shown by the agent's own command. Another terminal cannot be taken over: then it is said where the
session runs, with exit code 4.

examples:
  agentctl attach 3f2a
  agentctl attach 3f2a --print             the command, in place of running it
  agentctl launch --interactive demo && agentctl attach 3f2a
"""


class Target(Value):
    name: str  # for people
    process: Process
    processes: Processes
    session: Session | None = None


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="a session id, a unique beginning of one, or a launch id")
    parser.add_argument("--print", action="store_true", help="print the command, and run nothing")


def run(args: Namespace) -> int:
    env = dict(os.environ)
    command, cwd = command_for(target_of(args.id, env), env)
    if args.print:
        import shlex

        first = f"cd {shlex.quote(cwd)} && " if cwd and os.path.realpath(cwd) != os.path.realpath(".") else ""
        print(first + shlex.join(command))
        return 0
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Refused("attach needs a terminal; --print says the command for one")
    sys.stdout.flush()
    if cwd:
        os.chdir(cwd)
    try:
        os.execvpe(command[0], command, env)
    except FileNotFoundError as error:
        raise NotFound(tmux.MISSING if command[0] == tmux.PROGRAM else f"{command[0]}: not found in PATH") from error


def target_of(id: str, env: Mapping[str, str]) -> Target:
    if launches.is_id(id):
        try:
            launch = launches.read(id, env)
        except NotFound:
            return session_target(id, env)
        if isinstance(launch, Launch):
            return launch_target(launch, env)
    return session_target(id, env)


def session_target(id: str, env: Mapping[str, str]) -> Target:
    look = examine(id, env)
    session, processes = look.answer.sessions[0], look.world.processes
    if session.process == GONE:
        again = f"agentctl resume --interactive {session.id}"
        raise Refused(f"{session.id} has ended ({session.status}); to go on with it: {again}")
    process = process_of(session, processes)
    if process is None:
        doubt = session.reason or "no process of it is known"
        raise Refused(f"{session.id} is {session.status}: {doubt}; `agentctl why {session.id}` shows what is known")
    return Target(session.id, process, processes, session)


def launch_target(launch: Launch, env: Mapping[str, str]) -> Target:
    """Its session, or where it has none yet the process that was started."""
    look = settled_look(Scope(), env)
    mine = [one for one in look.answer.sessions if one.launch_id == launch.id and one.process == ALIVE]
    session = next((one for one in mine if one.parent is None), None)
    processes = look.world.processes
    process = process_of(session, processes) if session is not None else child_of(launch, processes)
    if process is None:
        raise Refused(
            f"launch {launch.id}: the process that it started has ended; `agentctl list -a` shows its session"
        )
    return Target(session.id if session else f"launch {launch.id}", process, processes, session)


def command_for(target: Target, env: Mapping[str, str]) -> tuple[list[str], str | None]:
    """And the directory to run it in, if that matters."""
    if target.session is not None:
        details = target.processes.details(target.process) or Details()
        held = Held(target.session, target.process, details, env)
        # First: the terminal that a daemon happens to have is that of whoever started it.
        if (own_screen := load_control(target.session.agent).own_screen(held)) is not None:
            cwd = target.session.cwd
            return list(own_screen), cwd if cwd and os.path.isdir(cwd) else None
    seat = seated(target.process, target.processes, env)
    if seat.pane is not None:
        if env.get("TMUX") and not tmux.is_inside(seat.pane, env):
            own = f"TMUX= tmux -S {seat.pane.socket} attach-session -t {seat.pane.name}"
            raise Refused(f"{target.name} sits in another tmux server than yours; leave yours first, or nest it: {own}")
        return tmux.attach_command(seat.pane, env), None
    raise Refused(why_not(target, seat))


def why_not(target: Target, seat: Seat) -> str:
    silent = "".join(f"; tmux server {output.plain(one.path)}: {one.problem}" for one in seat.problems)
    if seat.tty is None and target.process.tty == 0:
        id = target.session.id if target.session else "ID"
        return (
            f"{target.name} (pid {target.process.pid}) has no terminal: it runs headless; agentctl peek -f {id} "
            f"follows it, agentctl resume --interactive {id} goes on once it has ended"
        )
    where = whereabouts(target.process, seat)
    if seat.like is not None:
        like = f"tmux -S {seat.like.socket} attach-session -t {seat.like.name}"
        return f"{target.name}: {where}; pane {seat.like.id} of tmux has it, but is not proved to be its own: {like}"
    return f"{target.name}: {where}, which is no pane of tmux that can be reached; go there{silent}"
