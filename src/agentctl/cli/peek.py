"""agentctl peek ID: show the last messages of a session, and with -f new ones until it ends."""

from __future__ import annotations

import gc
import os
import sys
import time

from agentctl.cli import ID_HELP, count, output
from agentctl.errors import AgentctlError, NotFound, TruthUnavailable
from agentctl.model import GONE, ProcessKey
from agentctl.query.attribution import child_of
from agentctl.query.resolve import no_session, resolve
from agentctl.query.sessions import Scope, open_store_of, query, query_session, store_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Iterable
    from typing import Any

    from agentctl.agents.base import Store
    from agentctl.model import Message, Page, Problem, Session
    from agentctl.query.resolve import Named
    from agentctl.query.sessions import Look

EPILOG = """\
peek reads a transcript from its end, so a transcript of any size opens at
once. -f follows the session until it ends, even if its process moves on to a
new session (/clear) or its file is replaced.

If a launch has no session yet, or its session has no messages, peek shows the
last lines that the agent printed, or that its screen shows.

examples:
  agentctl peek 3f2a           the last 20 messages
  agentctl peek 3f2a -n 3      the last 3
  agentctl peek 3f2a -f        the last 20, then new ones
  agentctl peek 3f2a --json    with -f: one message per line
      {"schema": 1, "session": {...}, "messages": [...], "printed": [...]}
"""
JUDGE_EVERY = 1.0  # seconds between two judgements while files change; the end of its process is judged at once
RESULT_LINES = 4
NAMES = {"user": "you", "assistant": "agent", "tool": "tool", "result": "", "note": "note"}
COLOURS = {"user": "running", "assistant": "idle", "tool": "unknown", "result": "done", "note": "waiting"}


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help=ID_HELP)
    parser.add_argument("-n", type=count, default=20, metavar="N", help="how many messages (default: 20)")
    parser.add_argument("-f", "--follow", action="store_true", help="follow the session until it ends")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: Namespace) -> int:
    if not args.follow:
        gc.disable()  # short-lived: garbage collection would only cost time
    named = resolve(args.id, os.environ, related_launches_only=True)
    if named.session is None and args.follow:
        named = once_it_has_a_session(named, args)
    if named.session is None:
        return show_launch(named, args)
    found, session = named.look, named.session
    store = open_store_of(session) if args.follow else store_of(found)
    page = read(session, store.messages, args.n)
    printed = [] if page.messages or args.follow else printed_by(session, found, args.n)
    if args.json and not args.follow:
        messages = [message_json(message) for message in page.messages]
        output.print_json({"session": output.session_json(session), "messages": messages, "printed": printed})
        return 0
    if not page.messages and not args.follow and args.n > 0:
        nothing = f"no messages of {output.short(session.id)}" + (", which printed this:" if printed else "")
        print(output.in_what_was_read(nothing, about(found)), file=sys.stderr, flush=True)
        show_lines(printed)
    show(page, args.json)
    if args.follow:
        follow(session, store, page.cursor, args.json)
    return 0


def printed_by(session: Session, look: Look, count: int) -> list[str]:
    """Return the last lines that the launch of a session has printed; none if it has none."""
    if session.launch_id is None:
        return []
    from agentctl.cli import printed
    from agentctl.query.resolve import launch_named

    launch = launch_named(session.launch_id, os.environ)
    return printed.last_lines(launch, look.world.processes, os.environ, count) if launch is not None else []


def show_launch(named: Named, args: Namespace) -> int:
    """Show what a launch that has no session has printed. Raises NotFound if it has printed nothing, or is over."""
    from agentctl.cli import printed

    launch, look = named.launch, named.look
    assert launch is not None
    lines = printed.last_lines(launch, look.world.processes, os.environ, args.n)
    if args.json and lines:
        output.print_json({"session": None, "launch_id": launch.id, "messages": [], "printed": lines})
    elif lines:
        print(f"launch {launch.id} is on no session now; it printed this:", file=sys.stderr, flush=True)
        show_lines(lines)
    if not lines or child_of(launch, look.world.processes) is None:
        raise no_session(launch, look, printed=bool(lines))
    return 0


def show_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print(output.plain(line))
    sys.stdout.flush()


def once_it_has_a_session(named: Named, args: Namespace) -> Named:
    """Show what a launch has printed, and wait until it has a session or has ended."""
    told = False
    while named.session is None and named.launch is not None:
        if child_of(named.launch, named.look.world.processes) is None:
            return named
        if not told and not args.json:
            told = True
            from agentctl.cli import printed

            print(f"launch {named.launch.id} has no session yet; waiting for it", file=sys.stderr, flush=True)
            show_lines(printed.last_lines(named.launch, named.look.world.processes, os.environ, args.n))
        time.sleep(JUDGE_EVERY)
        named = resolve(args.id, os.environ, related_launches_only=True)
    return named


def about(look: Look) -> list[Problem]:
    """Return what could not be read and may hold messages of the session: its transcript, or a part of its store."""
    (session,) = look.answer.sessions
    return [problem for problem in look.answer.problems if problem.agent == session.agent]


def read(session: Session, messages: Callable[[str, Any], Page], place: object) -> Page:
    try:
        return messages(session.id, place)
    except OSError as error:
        where = error.filename or session.path or session.store
        raise AgentctlError(f"{where}: {error.strerror or error}; `agentctl why {session.id}` shows more") from error


def follow(session: Session, store: Store, cursor: object, as_json: bool) -> None:
    """Show new messages until the process of the session is gone and nothing more comes. If the process moved on to
    another session, follow that one."""
    from agentctl.kernel.watch import ENDED
    from agentctl.live.rounds import Interest, Rounds

    judged = 0.0
    with Rounds() as rounds:
        while True:
            keys = (ProcessKey.parse(entry.get("key")) for entry in session.processes)
            paths = frozenset(store.watched(session.id))
            new = rounds.cover(Interest(frozenset(key for key in keys if key), paths))
            page = read(session, store.messages_after, cursor)
            if page.restarted:
                print("the transcript was replaced; showing it from its beginning", file=sys.stderr)
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
                    print(f"the process moved on to session {output.plain(moved.id)}", file=sys.stderr)
                    session, store, cursor = moved, open_store_of(moved), None
                    continue
                session = now
            if rounds.sleep() == ENDED:
                judged = 0.0


def again(session: Session) -> Session | None:
    """Judge the session again. None: its record is gone. If it cannot be looked for now, it is as it was."""
    try:
        return query_session(session.id, tokens=False).sessions[0]
    except NotFound:
        return None
    except TruthUnavailable:
        return session


def successor(session: Session) -> Session | None:
    """Return the session that the same process is on now."""
    if session.process_key is None:
        return None
    alive = query(Scope(agents=(session.agent,))).sessions
    others = (other for other in alive if other.id != session.id)
    return next((other for other in others if other.process_key == session.process_key), None)


def show(page: Page, as_json: bool) -> None:
    for message in page.messages:
        if as_json:
            import json

            text = json.dumps(message_json(message), ensure_ascii=not output.is_utf8(output.encoding()))
            print(text.encode("utf-8", "backslashreplace").decode())
        else:
            print(line_of(message))
    sys.stdout.flush()


def message_json(message: Message) -> dict[str, object]:
    return {**message._asdict(), "at": output.utc(message.at)}


def line_of(message: Message) -> str:
    """Return time, speaker and text, with more lines indented; the output of tools is shortened."""
    when = output.clock(message.at) or " " * 8
    lines = [output.plain(line) for line in message.text.split("\n")]
    if message.role == "result" and len(lines) > RESULT_LINES:
        lines = [*lines[:RESULT_LINES], f"{output.drawn('…', '...')} {len(lines) - RESULT_LINES} more lines"]
    if message.role == "result":
        lines[0] = (output.drawn("✗ ", "! ") if message.failed else output.drawn("→ ", "> ")) + lines[0]
    who = output.coloured(f"{NAMES.get(message.role, message.role):<6}", COLOURS.get(message.role, ""))
    return f"{when}  {who} " + ("\n" + " " * 17).join(lines)
