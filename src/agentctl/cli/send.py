"""agentctl send ID TEXT: give a live session its next prompt, and prove that it has it."""

from __future__ import annotations

import os
import sys

from agentctl.cli import output
from agentctl.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

EPILOG = """\
ID is a session id, any unique beginning of one, or the id of a launch. The session has to be idle: one that works or
asks a person something is never spoken to, and there is no --force. It goes by the agent's own way where it has one
(its daemon, its interface); else by its terminal in tmux, and only where the link is exact and nothing is inferred.
The text is pasted there as one piece, lines and all, and Enter is pressed once the screen shows it. A text that begins
with /, ! or # is a command to most screens, and is refused there without --raw. Control characters are refused.

exit codes: 0 its store has it, or it works on it; 4 refused, nothing was sent; 5 whether it arrived is not known.

examples:
  agentctl send 3f2a 'Now run the tests.'
  agentctl wait 3f2a --until idle && agentctl send 3f2a 'Go on.'
  agentctl send 3f2a - < review.md
  agentctl send 3f2a --raw /compact
  agentctl send 3f2a -- '--verbose is missing in the help.'
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="a session id, a unique beginning of one, or a launch id")
    parser.add_argument("text", metavar="TEXT", help="what it is told (- = from stdin)")
    parser.add_argument("--raw", action="store_true", help="also a text that its screen may take for a command")
    parser.add_argument("--timeout", metavar="TIME", default="15s", help="for the proof (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="machine-readable")


def run(args: Namespace) -> int:
    from agentctl import sending
    from agentctl.cli.starting import span, tell

    text = from_stdin() if args.text == "-" else args.text
    sent = sending.send(args.id, text, os.environ, raw=args.raw, patience=span("--timeout", args.timeout))
    session = sent.session
    if sent.joined:
        tell("it arrived together with something that stood in the input before")
    if args.json:
        told = {"id": session.id, "by": sent.by, "through": sent.through, "joined": sent.joined}
        output.print_json({"sent": told, "session": output.session_json(session)})
    else:
        print(f"{session.id} has it, through {output.plain(sent.through)}: {session.status}")
    return 0


def from_stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"stdin is not UTF-8 (byte {error.start}); make it so") from error
