"""agentctl events: print what is so now, and with -f each change, as it happens."""

from __future__ import annotations

import sys

from agentctl.agents import chosen
from agentctl.cli import output
from agentctl.errors import UsageError
from agentctl.live.difference import CHECKPOINT, RECOVERED, TYPES, Event, matches, words_of
from agentctl.live.engine import Engine, follow
from agentctl.query.reading import Scope

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from agentctl.live.difference import Seen
    from agentctl.model import Session

EPILOG = """\
The first line is a checkpoint: the sessions that `agentctl list` shows now.
With -f, one line follows for each change of a session's status, and for each
store that cannot be read any more, or can be read again.

A change is a difference between two looks. agentctl looks when a process ends,
when an agent writes its store (twice a second if it writes all the time), when
a new agent is started, and every 15 seconds. What came and went between two
looks is not shown. What cannot be read ends no session.

session.started and session.resumed say in `to` what the session does; --type
takes them for that status, too, so --type session.waiting misses no question.

On a terminal, it prints text: time, id, agent, directory, the status before ->
after, and what the session asks or why. Elsewhere, it prints one JSON object
per line, at once. Ctrl-C ends it (exit code 130), and so does a reader that
goes away (0).

--since shows what the daemon has recorded since a number, a time or an age,
and with -f goes on from there, without loss and without doubles. Each event
has its number (seq); late means that it happened while no daemon ran; a gap
says that events are missing there, and a checkpoint follows. It needs the
daemon: without it the exit code is 3, and `agentctl daemon start` starts it.

examples:
  agentctl events -f                         what changes, as it changes
  agentctl events -f --type session.waiting  tell me when one needs me
  agentctl events --since 2h                 what happened while I was away
  agentctl events -f --group nightly --json | jq -r '[.id, .to] | @tsv'
      {"schema": 1, "type": "session.waiting", "at": ..., "agent": ..., "id":
       ..., "from": "running", "to": "waiting", "reason": ..., "session":
       {...}, "problem": null, "question": {"id": ..., "kind": ..., ...}}
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("-f", "--follow", action="store_true", help="go on with each change, until Ctrl-C")
    parser.add_argument(
        "--type", action="append", metavar="T", choices=TYPES, help="only events of this type (repeat for more)"
    )
    parser.add_argument("--agent", action="append", metavar="A", help="only this agent (repeat for more)")
    parser.add_argument("--group", metavar="G", help="only sessions that were launched in this group")
    parser.add_argument(
        "--since", metavar="WHEN", help="also past events: since a number, a time or 2h; needs the daemon"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, also on a terminal")
    parser.add_argument("--text", action="store_true", help="print text, also in a pipe")


def run(args: Namespace) -> int:
    if args.json and args.text:
        raise UsageError("--json or --text, not both")
    wanted = Wanted(args)
    text = args.text or (sys.stdout.isatty() and not args.json)
    if args.since is not None:
        from agentctl.cli import events_since

        return events_since.run(args, text=text)
    show = print_text if text else print_json
    engine = Engine(Scope(agents=wanted.agents, related_launches_only=True), reader=sys.stdout.fileno())
    for step in follow(engine):
        if step.first:
            output.warn(step.seen.problems.values())
        if step.first and wanted.checkpoint:
            show(wanted.of(step.seen))
        for event in step.events:
            if wanted.wants(event):
                show(event)
        sys.stdout.flush()
        if not args.follow:
            break
    return 0


class Wanted:
    """What was asked for."""

    def __init__(self, args: Namespace) -> None:
        self.agents = chosen(args.agent or None)
        self.group: str | None = args.group
        self.types = frozenset(args.type or TYPES)
        self.checkpoint = CHECKPOINT in self.types

    def wants(self, event: Event) -> bool:
        return matches(event, self.types) and (event.session is None or self._in_group(event.session))

    def of(self, seen: Seen) -> Seen:
        return seen._replace(sessions={name: one for name, one in seen.sessions.items() if self._in_group(one)})

    def _in_group(self, session: Session) -> bool:
        return self.group is None or session.group == self.group


# JSON


def print_json(shown: Event | Seen) -> None:
    found = event_json(shown) if isinstance(shown, Event) else checkpoint_json(shown)
    print(output.json_text(found, one_line=True))


def event_json(event: Event) -> dict[str, object]:
    return {
        "type": event.type,
        "at": output.utc(event.at),
        "agent": event.agent,
        "id": event.id,
        "from": event.before,
        "to": event.after,
        "reason": event.reason,
        "session": output.session_json(event.session) if event.session is not None else None,
        "problem": output.problem_json(event.problem) if event.problem is not None else None,
        "question": output.question_json(event.question) if event.question is not None else None,
    }


def checkpoint_json(seen: Seen) -> dict[str, object]:
    return {
        "type": CHECKPOINT,
        "at": output.utc(seen.at),
        "sessions": [output.session_json(session) for session in seen.sessions.values()],
        "problems": [output.problem_json(problem) for problem in seen.problems.values()],
    }


# Text


def print_text(shown: Event | Seen) -> None:
    if isinstance(shown, Event):
        print(line_of(shown))
        return
    for session in shown.sessions.values():
        word = output.coloured(session.status, session.status)
        print(row(shown.at, session, word, words_of(session)))
    if not shown.sessions:
        print(output.in_what_was_read("no sessions now", tuple(shown.problems.values())), file=sys.stderr)


def line_of(event: Event) -> str:
    if event.session is None:
        return f"{output.clock(event.at)}  {line_about(event)}"
    before, after = event.before or "new", event.after or "removed"
    change = f"{output.coloured(before, before)} -> {output.coloured(after, after)}"
    return row(event.at, event.session, change, event.reason)


def row(at: float, session: Session, status: str, words: str | None) -> str:
    """Return the line of a session. An agent wrote its words and its directory."""
    where = (output.clock(at), output.short(session.id), session.agent, output.tilde(session.cwd))
    return "  ".join(filter(None, (*where, status, output.plain(words))))


def line_about(event: Event) -> str:
    if event.problem is None:
        return event.agent
    word = "no problem any more" if event.type == RECOVERED else "problem"
    return f"{event.agent}: {word}: {output.problem_line(event.problem)}"
