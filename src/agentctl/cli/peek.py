"""agentctl peek ID: the last messages of a session, and with -f what comes next, until it ends."""

from __future__ import annotations

import gc
import sys
import time

from agentctl.cli import output
from agentctl.errors import AgentctlError, NotFound
from agentctl.model import GONE, ProcessKey
from agentctl.sessions import Scope, examine, one, open_store_of, query, store_of
from agentctl.watching import ENDED, Watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable
    from typing import Any

    from agentctl.agents import Store
    from agentctl.model import Message, Page, Session

EPILOG = """\
Reads from the end of the transcript: one of any size opens at once. -f goes on until the session ends, also when its
process moves on to a new session (/clear) or its file is replaced.

examples:
  agentctl peek 3f2a                 the last 20 messages
  agentctl peek 3f2a -n 3            the last 3
  agentctl peek 3f2a -f              and what comes
  agentctl peek 3f2a --json          {"schema": 1, "session": {...}, "messages": [...]}; with -f one message a line
"""
JUDGE_EVERY = 1.0  # seconds, at most, while files change; the end of its process is looked at at once
RESULT_LINES = 4
NAMES = {"user": "you", "assistant": "agent", "tool": "tool", "result": "", "note": "note"}
COLOURS = {"user": "running", "assistant": "idle", "tool": "unknown", "result": "done", "note": "waiting"}


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="a session id, or a unique beginning of one")
    parser.add_argument("-n", type=int, default=20, metavar="N", help="how many messages (default 20)")
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the session ends")
    parser.add_argument("--json", action="store_true", help="machine-readable")


def run(args: Namespace) -> int:
    if not args.follow:
        gc.disable()  # over before its rubbish matters
    found = examine(args.id, every_launch=False)
    session = found.answer.sessions[0]
    store = open_store_of(session) if args.follow else store_of(found)
    page = read(session, store.messages, max(0, args.n))
    if args.json and not args.follow:
        messages = [message_json(message) for message in page.messages]
        output.print_json({"session": output.session_json(session), "messages": messages})
        return 0
    if not page.messages and not args.follow:
        print(f"no messages yet in {output.plain(session.id)}", file=sys.stderr)
    show(page, args.json)
    if args.follow:
        follow(session, store, page.cursor, args.json)
    return 0


def read(session: Session, messages: Callable[[str, Any], Page], place: object) -> Page:
    try:
        return messages(session.id, place)
    except OSError as error:
        where = error.filename or session.path or session.store
        raise AgentctlError(f"{where}: {error.strerror or error}; `agentctl why {session.id}` has more") from error


def follow(session: Session, store: Store, cursor: object, as_json: bool) -> None:
    """Show what is added. A session is over when its process is gone and nothing more came; one whose process went
    on to another session is followed there."""
    judged = 0.0
    with Watch() as watch:
        while True:
            keys = (ProcessKey.parse(entry.get("key")) for entry in session.processes)
            new = watch.cover((key for key in keys if key), store.watched(session.id))
            page = read(session, store.messages_after, cursor)
            if page.restarted:
                print("the transcript was replaced: from its beginning", file=sys.stderr)
            show(page, as_json)
            cursor = page.cursor
            if page.messages:
                continue
            if new or time.monotonic() - judged >= JUDGE_EVERY:
                now, judged = again(session), time.monotonic()
                if now is None or now.process == GONE:
                    moved = successor(session)
                    show(read(session, store.messages_after, cursor), as_json)
                    if moved is None:
                        print(f"ended: {now.status if now else 'its record is gone'}", file=sys.stderr)
                        return
                    print(f"goes on as {output.plain(moved.id)}", file=sys.stderr)
                    session, store, cursor = moved, open_store_of(moved), None
                    continue
                session = now
            if watch.sleep() == ENDED:
                judged = 0.0


def again(session: Session) -> Session | None:
    try:
        return one(session.id, tokens=False).sessions[0]
    except NotFound:
        return None


def successor(session: Session) -> Session | None:
    """The session that the same process is on now."""
    if session.process_key is None:
        return None
    alive = query(Scope(agents=(session.agent,))).sessions
    return next((one for one in alive if one.process_key == session.process_key and one.id != session.id), None)


def show(page: Page, as_json: bool) -> None:
    for message in page.messages:
        if as_json:
            import json

            text = json.dumps(message_json(message), ensure_ascii=False)
            print(text.encode("utf-8", "backslashreplace").decode())
        else:
            print(line_of(message))
    sys.stdout.flush()


def message_json(message: Message) -> dict[str, object]:
    return {**message._asdict(), "at": output.utc(message.at)}


def line_of(message: Message) -> str:
    """Time, who, and the text with its further lines indented; the output of tools in brief."""
    when = output.clock(message.at) or " " * 8
    lines = [output.plain(line) for line in message.text.split("\n")]
    if message.role == "result" and len(lines) > RESULT_LINES:
        lines = [*lines[:RESULT_LINES], f"… {len(lines) - RESULT_LINES} more lines"]
    if message.role == "result":
        lines[0] = ("✗ " if message.failed else "→ ") + lines[0]
    who = output.coloured(f"{NAMES.get(message.role, message.role):<6}", COLOURS.get(message.role, ""))
    return f"{when}  {who} " + ("\n" + " " * 17).join(lines)
