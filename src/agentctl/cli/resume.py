"""agentctl resume ID MESSAGE: continue a session that has ended, in its own directory, under its own id."""

from __future__ import annotations

import os

from agentctl.cli import ID_HELP, launch_options
from agentctl.errors import AgentctlError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable

    from agentctl.launch.start import Request
    from agentctl.model import Session

TAKES_FLAGS = True
EPILOG = """\
resume continues a session in the agent's own way: the same session, in the
same directory, with the model and the permissions that it had, unless you give
others. An agent can write the store that says which permissions it had: if that
is more than agentctl launched it with, or everything, give --permissions.
agentctl does not resume a session that is alive, because two processes on one
session would mix their turns. Stop it first; or --force starts a second process
on it, if its agent allows that. If a screen may have it open and nothing tells,
`list` shows done?, `why` names the process, and --even-if-open resumes it all
the same (--force does not).

With --interactive, resume opens the session's screen in its own tmux session;
MESSAGE is then optional.

examples:
  agentctl resume 3f2a 'Now write the tests.'
  agentctl resume 3f2a --prompt-file more.md --wait
  agentctl resume 3f2a 'Go on.' --permissions edits -- --max-turns 3
  agentctl resume --interactive 3f2a && agentctl attach 3f2a
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help=ID_HELP)
    parser.add_argument("message", nargs="?", metavar="MESSAGE", help="its next prompt (- = read stdin)")
    launch_options.add_prompt_arguments(parser)
    launch_options.add_screen_argument(parser)
    parser.add_argument(
        "--even-if-open", action="store_true", help="resume it even if a screen may have it open (`list` shows done?)"
    )
    parser.add_argument("--group", metavar="NAME", help="the group it belongs to (default: the one it had)")
    launch_options.add_run_arguments(parser)


def run(args: Namespace) -> int:
    from agentctl.launch import group as groups
    from agentctl.launch import start

    env = dict(os.environ)

    def resume(known: Callable[[Session], None]) -> Session:
        order = start.prepare_resume(args.id, lambda session: request_for(args, session), env)
        return groups.launch_one(order, env, launch_options.tell, known)

    return launch_options.answered(resume, args, "resumed")


def request_for(args: Namespace, session: Session) -> Request:
    from agentctl.launch import start

    cwd = session.cwd
    if cwd is None or not os.path.isdir(cwd):
        raise AgentctlError(
            f"{session.id}: its directory {cwd or '(unknown)'} does not exist; make it again, then resume"
        )
    return start.Request(
        agent=session.agent,
        prompt=launch_options.prompt_of(args, args.message, cwd),
        cwd=cwd,
        env=launch_options.environment_of(args, session.agent),
        model=args.model,
        permissions=args.permissions,
        flags=tuple(args.flags),
        group=args.group or session.group,
        slot=None if args.group else session.slot,
        session=session,
        even_if_open=args.even_if_open,
        **launch_options.run_options(args),
    )
