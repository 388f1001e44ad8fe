"""agentctl send ID TEXT: give a live session its next prompt, and prove that it arrived."""

from __future__ import annotations

import os
import sys

from agentctl.cli import ID_HELP, output
from agentctl.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

EPILOG = """\
The session must be idle: agentctl never sends anything to a session that works
or that asks a person something, and there is no --force. If the session has
ended, use `agentctl resume`.

agentctl uses the agent's own way to send a prompt if it has one (its daemon or
its HTTP interface). Otherwise it uses the session's terminal in tmux, but only
if the link between process and session is exact, the agent alone reads that
terminal, and its input line is empty and in prompt mode: agentctl types nothing
onto a draft, into a shell or into an editor. It pastes the text, line breaks
included, and presses Enter once the text stands in the input line, and nothing
else; a text of several lines only after its beginning has shown that the agent
takes line breaks as a part of a paste. Most screens take a text that begins
with /, ! or # as a command, so send refuses it there without --raw. It refuses
control characters.

exit codes: 0 the session has the text, or works on it; 4 refused, nothing was
sent; 5 agentctl cannot tell whether it arrived.

examples:
  agentctl send 3f2a 'Now run the tests.'
  agentctl wait 3f2a --until idle && agentctl send 3f2a 'Go on.'
  agentctl send 3f2a - < review.md
  agentctl send 3f2a --raw /compact
  agentctl send 3f2a -- '--verbose is missing in the help.'
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help=ID_HELP)
    parser.add_argument("text", metavar="TEXT", help="its next prompt (- = read stdin)")
    parser.add_argument("--raw", action="store_true", help="send it even if the screen may take it for a command")
    parser.add_argument(
        "--timeout",
        metavar="TIME",
        default="15s",
        help="how long to wait until the text arrives (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: Namespace) -> int:
    from agentctl import send
    from agentctl.cli.launch_options import span, tell

    text = from_stdin() if args.text == "-" else args.text
    sent = send.send(args.id, text, os.environ, raw=args.raw, patience=span("--timeout", args.timeout))
    session = sent.session
    if sent.joined:
        tell("its store has the text as a part of a longer prompt")
    if args.json:
        sent_json = {"id": session.id, "by": sent.by, "through": sent.through, "joined": sent.joined}
        output.print_json({"sent": sent_json, "session": output.session_json(session)})
    else:
        words = f"{output.plain(session.id)} got it through {output.plain(sent.through)}; it is {session.status}"
        print(output.for_people(words, sys.stdout))
    return 0


def from_stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"stdin is not UTF-8 (byte {error.start}); convert it first") from error
