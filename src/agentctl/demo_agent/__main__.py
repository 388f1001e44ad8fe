"""`agentctl-demo` and `python -m agentctl.demo_agent`."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import uuid

from agentctl.demo_agent import VERSION, script, store
from agentctl.demo_agent.agent import Agent, say
from agentctl.demo_agent.inputs import Ended, Inputs, screen

USAGE = 2  # the exit code of argparse, too


def main() -> int:
    options = parser().parse_args()
    prompt = options.prompt if options.prompt is not None else options.words
    try:
        prompt = whole_input() if prompt == "-" else prompt
        script.parse(options.script or prompt or "")
        return run(options, prompt)
    except script.ScriptError as error:
        print(f"agentctl-demo: {error}", file=sys.stderr)
        return USAGE
    except (store.StoreError, OSError) as error:
        print(f"agentctl-demo: {error}", file=sys.stderr)
        return 1


def whole_input() -> str:
    """Return all of standard input as the prompt; after that nobody types."""
    text = sys.stdin.buffer.read().decode(errors="replace")
    nobody = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nobody, sys.stdin.fileno())
    os.close(nobody)
    return text


def run(options: argparse.Namespace, prompt: str | None) -> int:
    inputs = Inputs()
    if options.resume:
        session = store.resume_session(options.resume)
    else:
        session = store.new_session(options.session_id or str(uuid.uuid4()))
    try:
        session.set_status("idle" if prompt is None else "busy")
        if not options.resume:
            session.append_setting("session", options.model, id=session.id)
        say(f"session: {session.id}")
        agent = Agent(session, inputs, options.model, asks=not options.yes, script=options.script)
        with screen() if os.isatty(0) and os.isatty(1) else contextlib.nullcontext():
            return agent.run(prompt, stays=options.interactive)
    except Ended as ended:
        return ended.exit_code
    finally:
        session.release()


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(
        prog="agentctl-demo",
        description="A small coding agent without a model, for demonstrations and tests.",
        epilog=script.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,  # whoever looks at the process finds its options by their names
    )
    prompts = found.add_mutually_exclusive_group()
    of_stdin = "the prompt (- = all of stdin); without one, each line of stdin is a prompt"
    prompts.add_argument("-p", dest="prompt", metavar="PROMPT", help=of_stdin)
    prompts.add_argument("words", nargs="?", metavar="PROMPT", help="the prompt, like -p")
    sessions = found.add_mutually_exclusive_group()
    sessions.add_argument("--session-id", type=store.session_id, metavar="UUID", help="the id of the new session")
    sessions.add_argument("--resume", type=store.session_id, metavar="ID", help="go on with this session")
    found.add_argument("--model", default="demo-1", metavar="NAME", help="the model's name (default: %(default)s)")
    found.add_argument("--interactive", action="store_true", help="stay at the prompt after each turn")
    found.add_argument(
        "--script", metavar="SCRIPT", help="what it does in every turn, in place of a script in its prompt"
    )
    found.add_argument("--yes", action="store_true", help="run tools without asking")
    found.add_argument("--version", action="version", version=f"agentctl-demo {VERSION}")
    return found


if __name__ == "__main__":
    sys.exit(main())
