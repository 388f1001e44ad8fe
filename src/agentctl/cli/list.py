"""agentctl list: one row per session, what needs a person first."""

from __future__ import annotations

import os
import sys
import time

from agentctl import cli
from agentctl.cli import output
from agentctl.cli.durations import seconds
from agentctl.errors import UsageError
from agentctl.model import ALIVE, STATUS_WORDS, Unattached
from agentctl.sessions import RECENT, Scope, settled_look
from agentctl.stores import real_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterable

    from agentctl.model import Answer, Session
    from agentctl.sessions import Look

EPILOG = """\
A status with ? is inferred, one with + is suspended (Ctrl-Z). Below the table: live agent processes that no session
explains yet (starting, at a dialog, or unable to tell), never dropped and never made into a session.

examples:
  agentctl list                          alive now, and what cannot be known
  agentctl list --status waiting         who needs a person
  agentctl list -a --since 12h --cwd .   all of the last 12 hours in this directory
  agentctl list --agent claude --tree    with sub-agents
  agentctl list --json                   {"schema": 1, "sessions": [...], "unattached": [...], "problems": [...]}
"""
ENDED = ("failed", "stopped", "done")
RANKS = {word: len(STATUS_WORDS) if word in ENDED else rank for rank, word in enumerate(STATUS_WORDS)}


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--agent", action="append", metavar="A", help="only this agent (repeat for more)")
    parser.add_argument(
        "--status", action="append", metavar="S", choices=STATUS_WORDS, help="only this status (repeat)"
    )
    parser.add_argument("--cwd", metavar="DIR", help="only sessions in this directory or below it")
    parser.add_argument("--group", metavar="G", help="only what was launched under this name")
    parser.add_argument("-a", "--all", action="store_true", help="also ended sessions, newest first (7 days)")
    parser.add_argument("--since", metavar="AGE", help="how far back -a looks: 30m, 12h, 7d (default), 4w or all")
    parser.add_argument("-n", type=count, metavar="N", help="at most N rows")
    parser.add_argument("--tree", action="store_true", help="sub-agents, below their parent")
    parser.add_argument("--json", action="store_true", help="machine-readable")
    parser.add_argument("--strict", action="store_true", help="exit 5 if anything could not be read or known")


def count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise ValueError("negative")
    return value


def run(args: Namespace) -> int:
    scope = Scope(
        agents=chosen(args.agent),
        since=since(args),
        children=args.tree,
        brief=not args.json,
        every_launch=args.group is not None,
    )
    look = settled_look(scope)
    answer = look.answer if args.group is None else of_group(args.group, look)
    rows = select(answer.sessions, args)
    if args.json:
        output.print_json(
            {
                "sessions": [output.session_json(session) for session in rows],
                "unattached": [output.unattached_json(one) for one in answer.unattached],
                "problems": [output.problem_json(problem) for problem in answer.problems],
            }
        )
    else:
        show(rows, answer, args)
        output.warn(answer.problems)
    cli.keep_to_the_end(look.answer, look.world)  # not the stores: their databases are closed, copies of them removed
    unsure = answer.problems or any(session.status == "unknown" for session in rows)
    return 5 if args.strict and unsure else 0


def chosen(agents: list[str] | None) -> tuple[str, ...] | None:
    return tuple(agents) if agents else None


def since(args: Namespace) -> float | None:
    """The moment from which ended sessions are wanted; None = only what is alive or unknown."""
    asks_for_ended = any(status in ENDED for status in args.status or ())
    if not (args.all or args.since or asks_for_ended):
        return None
    if args.since is None:
        return time.time() - RECENT
    if args.since == "all":
        return 0.0
    if args.since.isdigit():  # of seconds? Who means hours would get an empty list
        raise UsageError(f"--since {args.since}: of what? Use s, m, h, d or w, such as {args.since}h, or all")
    return time.time() - seconds(args.since)


def select(sessions: Iterable[Session], args: Namespace) -> list[Session]:
    rows = [session for session in sessions if not args.status or session.status in args.status]
    if args.cwd is not None:
        wanted = os.path.realpath(args.cwd)
        rows = [session for session in rows if below(session.cwd, wanted)]
    rows.sort(key=row_order)
    return rows if args.n is None else rows[: args.n]


def of_group(group: str, look: Look) -> Answer:
    """Its sessions, and what it launched that lives and has none yet: also what does not look like its agent yet."""
    from agentctl import busy, launches

    launches.check_group(group, os.environ)
    ours = [one.launch for one in look.world.launches if one.launch.group == group]
    ids = {launch.id for launch in ours}
    answer = look.answer
    unattached = [one for one in answer.unattached if one.launch_id in ids]
    shown = {one.launch_id for one in unattached} | {session.launch_id for session in answer.sessions}
    for launch in busy.launches_that_live(ours, look.world.processes):
        if launch.id not in shown:
            why = "launched, and not at its session yet"
            unattached.append(Unattached(launch.agent, launch.child.pid, launch.cwd, why, (), launch.id))
    return answer._replace(
        sessions=tuple(session for session in answer.sessions if session.group == group), unattached=tuple(unattached)
    )


def below(path: str | None, folder: str) -> bool:
    if path is None:
        return False
    real = real_path(path)
    return real == folder or real.startswith(folder.rstrip("/") + "/")


def row_order(session: Session) -> tuple[int, float, str, str]:
    """What needs a person first, then what is alive, then what cannot be told, then the ended, newest first."""
    return (RANKS[session.status], -(session.updated_at or 0.0), session.agent, session.id)


def show(rows: list[Session], answer: Answer, args: Namespace) -> None:
    if rows:
        table(rows, args.tree)
    else:
        hint = "" if args.all or args.since else "; `agentctl list -a` shows ended ones"
        print(f"no sessions{hint}", file=sys.stderr)
    if answer.unattached:
        print("\nlive processes that no session explains:")
        for one in answer.unattached:
            may = f"; may be on {', '.join(output.plain(id)[:8] for id in one.candidates)}" if one.candidates else ""
            ours = f" (launch {one.launch_id})" if one.launch_id else ""
            print(f"  {one.agent} pid {one.pid}{ours} in {output.tilde(one.cwd)}: {output.plain(one.why)}{may}")


def table(rows: list[Session], tree: bool) -> None:
    """Column by column: of ten thousand rows that takes two thirds of what it takes row by row."""
    shown = ordered(rows, tree)
    columns = columns_of(shown)
    widths = [max(len(name), *map(len, cells)) for name, cells in columns.items()]
    left = max(30, output.width() - sum(widths[:-2]) - 2 * (len(widths) - 1))
    widths[-2] = min(widths[-2], left // 2)
    widths[-1] = left - widths[-2]
    for name, width in list(zip(columns, widths, strict=True))[-2:]:  # those before are as wide as what is in them
        columns[name] = [output.shorten(cell, width) for cell in columns[name]]
    padded = [
        [cell.ljust(width) for cell in (name, *cells)]
        for (name, cells), width in zip(columns.items(), widths, strict=True)
    ]
    if output.colourful():
        statuses = ["", *(session.status for session, _ in shown)]
        padded[1] = [output.coloured(cell, status) for cell, status in zip(padded[1], statuses, strict=True)]
    print("\n".join([line.rstrip() for line in map("  ".join, zip(*padded, strict=True))]))


def columns_of(shown: list[tuple[Session, str]]) -> dict[str, list[str]]:
    now, home = time.time(), os.path.expanduser("~")
    sessions = [session for session, _ in shown]
    ids = output.short_ids([session.id for session in sessions])
    models = output.Remembered(lambda model: output.plain(model) or "-")
    directories = output.Remembered(lambda path: output.tilde(path, home))
    columns = {
        "ID": [mark + output.plain(ids[session.id]) for session, mark in shown],
        "STATUS": [output.status_cell(session) for session in sessions],
        "AGENT": [session.agent for session in sessions],
        "MODEL": [models[session.model] for session in sessions],
    }
    if any(session.group for session in sessions):
        named = ("/".join(filter(None, (session.group, session.slot))) for session in sessions)
        columns["GROUP"] = [output.plain(name) or "-" for name in named]
    return columns | {
        "PID": [str(session.pid) if session.pid is not None else "-" for session in sessions],
        "AGE": [output.age(session.updated_at, now) for session in sessions],
        "DIRECTORY": [directories[session.cwd] for session in sessions],
        "WHAT": [what(session) for session in sessions],
    }


def ordered(rows: list[Session], tree: bool) -> list[tuple[Session, str]]:
    """Rows in order; with --tree each sub-agent below its parent."""
    if not tree:
        return [(session, "") for session in rows]
    shown = {session.id for session in rows}
    found: list[tuple[Session, str]] = []
    children: dict[str | None, list[Session]] = {}
    for session in rows:
        children.setdefault(session.parent, []).append(session)

    def add(session: Session, depth: int) -> None:
        found.append((session, "  " * (depth - 1) + "└ " if depth else ""))
        for child in children.get(session.id, ()) if depth < 8 else ():
            add(child, depth + 1)

    for session in rows:
        if session.parent not in shown:
            add(session, 0)
    placed = {(session.agent, session.id) for session, _ in found}
    for session in rows:
        if (session.agent, session.id) not in placed:  # below itself, or too deep: by what its store says
            found.append((session, ""))
    return found


def what(session: Session) -> str:
    """The most useful line: what it waits for, what went wrong, else what it is about."""
    if session.waiting_for:
        return output.plain(session.waiting_for)
    if session.status in ("unknown", "alive"):
        return output.plain(session.reason)
    if session.error and (session.process != ALIVE or session.last_turn == "failed"):
        return output.plain(session.error)
    return output.plain(session.title or session.prompt or session.reason)
