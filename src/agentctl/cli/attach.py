"""agentctl attach ID: open the screen of a session that runs in tmux, or say where it runs."""

from __future__ import annotations

import os
import sys

from agentctl.agents import load_control
from agentctl.agents.recipes import Held
from agentctl.cli import ID_HELP, output
from agentctl.errors import MissingProgram, Refused, shown_command
from agentctl.model import EXACT, GONE, WAITING, Details, Value
from agentctl.query.attribution import child_of, why_unseen
from agentctl.query.resolve import resolve
from agentctl.terminal import tmux
from agentctl.terminal.locate import process_of, screens_of, seated, whereabouts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterable, Mapping

    from agentctl.kernel.processes import Processes
    from agentctl.model import Process, Session
    from agentctl.terminal.locate import Seat
    from agentctl.terminal.tmux import Pane

EPILOG = """\
agentctl finds the session's tmux pane when you ask, and proves it: the process
of the session uses the pane's terminal, and descends from the pane's own
process. Inside the same tmux server your client switches to the pane; outside
tmux, agentctl attaches to it (tmux's prefix key, then d, leaves it again). If
an agent's own daemon holds the session, agentctl goes to the pane of a screen
that shows it; if there is none, the agent's own command shows it. agentctl
cannot take over any other terminal: it then says where the session runs, and
exits with 4.

examples:
  agentctl attach 3f2a
  agentctl attach 3f2a --print    print the command, do not run it
  id=$(agentctl launch --interactive demo) && agentctl attach $id
"""


class Target(Value):
    name: str  # for people
    process: Process
    processes: Processes
    session: Session | None = None


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help=ID_HELP)
    parser.add_argument("--print", action="store_true", help="print the command, do not run it")


def run(args: Namespace) -> int:
    env = dict(os.environ)
    target = target_of(args.id, env)
    command, cwd = command_for(target, env)
    for line in about_screens(target, env):
        print(f"agentctl: {output.plain(line)}", file=sys.stderr)
    if args.print:
        import shlex

        first = f"cd {shlex.quote(cwd)} && " if cwd and os.path.realpath(cwd) != os.path.realpath(".") else ""
        print(first + shlex.join(command))
        return 0
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Refused("attach needs a terminal; `agentctl attach --print` prints the command that you can run in one")
    sys.stdout.flush()
    if cwd:
        os.chdir(cwd)
    try:
        os.execvpe(command[0], command, env)
    except FileNotFoundError as error:
        raise MissingProgram(
            tmux.MISSING if command[0] == tmux.PROGRAM else f"{command[0]}: not found in PATH"
        ) from error


def target_of(id: str, env: Mapping[str, str]) -> Target:
    named = resolve(id, env)
    processes = named.look.world.processes
    if named.session is not None:
        return session_target(named.session, processes)
    process = child_of(named.launch, processes) if named.launch is not None else None
    if named.launch is not None and (unseen := why_unseen(named.launch, processes)) is not None:
        raise Refused(f"launch {id}: {unseen}; run agentctl where it was launched")
    if process is None:
        raise Refused(f"launch {id}: the process that it started has ended; `agentctl list -a` shows its session")
    return Target(f"launch {id}", process, processes)


def session_target(session: Session, processes: Processes) -> Target:
    if session.process == GONE:
        again = f"agentctl resume --interactive {session.id}"
        raise Refused(f"{session.id} has ended ({session.status}); to continue it: {again}")
    process = process_of(session, processes)
    if process is None:
        doubt = session.reason or "no process of it is known"
        raise Refused(f"{session.id} is {session.status}: {doubt}; `agentctl why {session.id}` shows more")
    return Target(session.id, process, processes, session)


def command_for(target: Target, env: Mapping[str, str]) -> tuple[list[str], str | None]:
    """Return the command that shows the session, and the directory to run it in, if that matters."""
    if target.session is not None:
        details = target.processes.details(target.process) or Details()
        held = Held(target.session, target.process, details, env)
        # These come first: a daemon may have the terminal of the person who started it.
        if (pane := pane_of_a_screen(target.session, target.processes, env)) is not None:
            return tmux.attach_command(pane, env), None
        if (own_screen := load_control(target.session.agent).own_screen(held)) is not None:
            cwd = target.session.cwd
            return list(own_screen), cwd if cwd and os.path.isdir(cwd) else None
    seat = seated(target.process, target.processes, env)
    if seat.pane is not None:
        if env.get("TMUX") and not tmux.is_inside(seat.pane, env):
            own = shown_command("env", "TMUX=", *tmux.attach_command(seat.pane, {}))
            raise Refused(f"{target.name} runs in another tmux server than yours; leave yours first, or nest it: {own}")
        return tmux.attach_command(seat.pane, env), None
    raise Refused(why_not(target, seat, env))


def pane_of_a_screen(session: Session, processes: Processes, env: Mapping[str, str]) -> Pane | None:
    """Return the pane of the first screen that shows a session of a daemon, and that we can go to from here."""
    for process in screens_of(session, processes):
        pane = seated(process, processes, env).pane
        if pane is not None and (not env.get("TMUX") or tmux.is_inside(pane, env)):
            return pane
    return None


def about_screens(target: Target, env: Mapping[str, str]) -> Iterable[str]:
    """Yield what a person should know of the screens that show a session of a daemon: there are several, or the one
    that we go to is only taken to show it."""
    session = target.session
    if session is None or not session.screens:
        return
    named = [f"pid {one['pid']} ({one['tty'] or 'no terminal'})" for one in session.screens]
    if len(named) > 1:
        yield f"{session.id} is shown by {' and '.join(named)}"
    if all(one["link"] != EXACT for one in session.screens):
        yield f"{' and '.join(named)}: taken to show {session.id}, not proved; `agentctl why {session.id}` says why"
    if pane_of_a_screen(session, target.processes, env) is None:
        yield f"{' and '.join(named)}: no tmux pane that you can go to from here; this opens another screen"


def why_not(target: Target, seat: Seat, env: Mapping[str, str]) -> str:
    silent = "".join(f"; tmux server {output.plain(server.path)}: {server.problem}" for server in seat.problems)
    if seat.tty is None and target.process.tty == 0:
        if target.session is None:
            id = target.name.removeprefix("launch ")
            shows = f"`agentctl peek {id}` shows what it printed"
            return f"{target.name} (pid {target.process.pid}) has no terminal: it runs headless; {shows}"
        id = target.session.id
        if target.session.turn == WAITING:
            from agentctl.send import NOBODY_ANSWERS

            return f"{target.name} waits for a person; {NOBODY_ANSWERS.format(id=id)}"
        return (
            f"{target.name} (pid {target.process.pid}) has no terminal: it runs headless; `agentctl peek -f {id}` "
            f"follows it, and `agentctl resume --interactive {id}` continues it once it has ended"
        )
    where = whereabouts(target.process, seat)
    if not tmux.is_installed(env):
        return f"{target.name}: {where}; whether that is a pane of tmux cannot be seen: {tmux.MISSING}"
    if seat.like is not None:
        like = shown_command(*tmux.attach_command(seat.like, {}))
        doubt = f"tmux pane {seat.like.id} has that terminal, but agentctl cannot prove that the pane is its own"
        return f"{target.name}: {where}; {doubt}: {like}"
    return f"{target.name}: {where}, which is no tmux pane that agentctl can reach; go to that terminal{silent}"
