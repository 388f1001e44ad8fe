"""agentctl resume ID MESSAGE: go on with a session that has ended, in its own directory, under its own id."""

from __future__ import annotations

import os

from agentctl.cli import starting
from agentctl.errors import AgentctlError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from agentctl.control import Request
    from agentctl.model import Session

TAKES_FLAGS = True
EPILOG = """\
The agent's own way to go on: same session, same directory, the model and the rules that it had, unless told otherwise.
A session that is alive is not resumed: two processes on one session mix their turns. Stop it first.
With --interactive its screen is opened in a tmux session of its own, with MESSAGE or without it.

examples:
  agentctl resume 3f2a 'Now write the tests.'
  agentctl resume 3f2a --prompt-file more.md --wait
  agentctl resume 3f2a 'Go on.' --permissions edits -- --max-turns 3
  agentctl resume --interactive 3f2a && agentctl attach 3f2a
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="a session id, or a unique beginning of one")
    parser.add_argument("message", nargs="?", metavar="MESSAGE", help="what it is told (- = from stdin)")
    starting.add_prompt_arguments(parser)
    starting.add_screen_argument(parser)
    parser.add_argument("--group", metavar="NAME", help="a name for what belongs together (default: the one it had)")
    starting.add_run_arguments(parser)


def run(args: Namespace) -> int:
    from agentctl import control

    env = dict(os.environ)

    def resume() -> Session:
        return control.resume(args.id, lambda found: request_for(args, found), env, starting.tell)

    return starting.answered(resume, args, "resumed")


def request_for(args: Namespace, session: Session) -> Request:
    from agentctl import control

    cwd = session.cwd
    if cwd is None or not os.path.isdir(cwd):
        raise AgentctlError(
            f"{session.id}: its directory {cwd or '(not known)'} is not there; make it again, then resume"
        )
    return control.Request(
        agent=session.agent,
        prompt=starting.prompt_of(args, args.message, cwd),
        cwd=cwd,
        env=starting.environment_of(args, session.agent),
        model=args.model,
        permissions=args.permissions,
        flags=tuple(args.flags),
        group=args.group or session.group,
        slot=None if args.group else session.slot,
        spec=os.path.abspath(args.spec) if args.spec else None,
        hooks=starting.hooks_of(args),
        time_limit=starting.span("--timeout", args.timeout) if args.timeout else None,
        id_patience=starting.span("--id-timeout", args.id_timeout),
        force=args.force,
        session=session,
        interactive=args.interactive,
    )
