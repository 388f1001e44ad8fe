"""agentctl list: one row per session; those that need a person come first."""

from __future__ import annotations

import os
import sys
import time

from agentctl import agents as known
from agentctl import cli
from agentctl.agents.activity import WORKS_ON
from agentctl.cli import format, output
from agentctl.durations import seconds
from agentctl.errors import UsageError
from agentctl.files.bounded import real_path
from agentctl.model import AGENT, ALIVE, STATUS_WORDS, Unattached
from agentctl.query import orphans
from agentctl.query.sessions import RECENT, Scope, settled_look

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from agentctl.launches.promises import Lost
    from agentctl.model import Answer, Launch, Left, Session
    from agentctl.query.reading import Readings
    from agentctl.query.sessions import Look

EPILOG = """\
AGE is how long ago the session was started. SINCE is how long it has had its
STATUS: since its turn began, since it asked, or since its turn ended. WHAT is
what it waits for, the tool that it runs, the prompt that it works on, or what
it is about. On a narrow terminal some columns are left out.

? after a status means that it was inferred, not proved; + means that the
process is suspended (Ctrl-Z).

list shows the agents of your user account and your HOME, and says how many
agent processes of another HOME or user there are.

Below the table, it shows live agent processes that belong to no session
yet: one that is starting, that shows a dialog, or whose session agentctl cannot
tell, and every live launch that is on no session. It never leaves such a
process out, and never makes up a session for it.

examples:
  agentctl list                         what is alive, and what cannot be known
  agentctl list --status waiting        which sessions need a person?
  agentctl list -a --since 12h --cwd .  the last 12 hours in this directory
  agentctl list --agent claude --tree   with sub-agents
  agentctl list --watch                 the table, redrawn on changes
  agentctl list --json
      {"schema": 1, "sessions": [...], "matching": 1, "unattached": [...],
       "problems": [...], "not_shown": [...], "tools_left": [...],
       "not_kept": [...]}
"""
TOOLS_SHOWN = 3
# The columns that are cut, and how narrow they may become: WHAT tells most, so others are left out first.
FLEXIBLE = {"DIRECTORY": 12, "WHAT": 26}
OPTIONAL = (
    "MODEL",
    "PID",
    "AGE",
    "AGENT",
    "GROUP",
    "DIRECTORY",
    "SINCE",
)  # left out on a narrow terminal, in this order
SEVERAL = " processes are on it"
LENGTHY = ("permission to ", WORKS_ON)  # a cell that does not fit can begin without: STATUS says waiting or running
ENDED = ("failed", "stopped", "done")
RANKS = {word: len(STATUS_WORDS) if word in ENDED else rank for rank, word in enumerate(STATUS_WORDS)}


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--agent", action="append", metavar="A", help="only this agent (repeat for more)")
    parser.add_argument(
        "--status",
        action="append",
        metavar="S",
        choices=STATUS_WORDS,
        help=f"only this status (repeat for more): {', '.join(STATUS_WORDS)}",
    )
    parser.add_argument("--cwd", metavar="DIR", help="only sessions in this directory or below it")
    parser.add_argument("--group", metavar="G", help="only sessions that were launched in this group")
    parser.add_argument("-a", "--all", action="store_true", help="also sessions that ended in the last 7 days")
    parser.add_argument("--since", metavar="AGE", help="also sessions that ended since: 30m, 12h, 7d, 4w or all")
    parser.add_argument("-n", type=cli.count, metavar="N", help="at most N rows")
    parser.add_argument("--tree", action="store_true", help="also sub-agents, below their parent")
    parser.add_argument("--watch", action="store_true", help="show the table until Ctrl-C, and redraw it on changes")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--strict", action="store_true", help="exit with 5 if anything could not be read or known")


def run(args: Namespace) -> int:
    scope = Scope(
        agents=chosen(args.agent),
        since=since(args),
        children=args.tree,
        brief=not args.json,
        strict=args.strict,
        related_launches_only=args.group is None,
    )
    if args.watch:
        from agentctl.cli import list_watch

        return list_watch.run(args, scope)
    with format.Progress("sessions read") as progress:
        look = settled_look(scope, tell=progress if sys.stderr.isatty() else None)
    answer = answer_of(look, scope, args.group)
    matching = select(answer.sessions, args)
    rows = matching if args.n is None else matching[: args.n]
    if args.json:
        output.print_json(
            {
                "sessions": [output.session_json(session) for session in rows],
                "matching": len(matching),
                "unattached": [output.unattached_json(process) for process in answer.unattached],
                "problems": [output.problem_json(problem) for problem in answer.problems],
                "not_shown": [dict(process._asdict()) for process in answer.not_shown],
                "tools_left": [dict(process._asdict()) for process in answer.tools_left],
                "not_kept": [dict(one._asdict()) for one in not_kept(look, rows)],
            }
        )
    else:
        show(rows, look._replace(answer=answer), args, len(matching))
        if lost := not_kept(look, rows):
            print("\n" + format.paragraph(not_kept_line(lost)))
        output.warn(answer.problems)
    cli.keep_to_the_end(look.answer, look.world)  # not the stores: they close their databases and remove copies
    unsure = answer.problems or any(session.status == "unknown" for session in matching)
    return 5 if args.strict and unsure else 0


def answer_of(look: Look, scope: Scope, group: str | None) -> Answer:
    """Return what a look says of what was asked for."""
    answer = with_launches(look, scope.agents) if group is None else of_group(group, look)
    return answer._replace(tools_left=orphans.left_behind(look, scope))


def chosen(agents: list[str] | None) -> tuple[str, ...] | None:
    return tuple(agents) if agents else None


def since(args: Namespace) -> float | None:
    """Return the time since which ended sessions are wanted; None: only sessions that are alive or unknown."""
    asks_for_ended = any(status in ENDED for status in args.status or ())
    if not (args.all or args.since or asks_for_ended):
        return None
    if args.since is None:
        return time.time() - RECENT
    if args.since == "all":
        return 0.0
    if args.since.isdigit():  # seconds? Somebody who means hours would get an empty list
        raise UsageError(f"--since {args.since}: no unit; use s, m, h, d or w, such as {args.since}h, or all")
    return time.time() - seconds(args.since)


def select(sessions: Iterable[Session], args: Namespace) -> list[Session]:
    rows = [session for session in sessions if not args.status or session.status in args.status]
    if args.cwd is not None:
        wanted = os.path.realpath(args.cwd)
        rows = [session for session in rows if below(session.cwd, wanted)]
    rows.sort(key=row_order)
    return rows


def of_group(group: str, look: Look) -> Answer:
    """Return the sessions of a group, and its live launches that have no session yet."""
    from agentctl.query.resolve import group_in

    meant = group_in(group, look)
    ids = {launch.id for launch in meant.launches}
    unattached = [process for process in look.answer.unattached if process.launch_id in ids]
    unattached += launches_alone(meant.launches, look)
    return look.answer._replace(sessions=meant.sessions, unattached=tuple(unattached))


def with_launches(look: Look, agents: Sequence[str] | None) -> Answer:
    """Return the answer with the live launches that it does not show yet. One of another PID namespace is not among
    them: whether it lives cannot be told from here."""
    names = known.chosen(agents)
    launches = (launched.launch for launched in look.world.launches)
    meant = [launch for launch in launches if names is None or launch.agent in names]
    if not meant:
        return look.answer
    here = [process for process in launches_alone(meant, look) if process.pid is not None]
    return look.answer._replace(unattached=(*look.answer.unattached, *here))


def launches_alone(launches: Iterable[Launch], look: Look) -> list[Unattached]:
    """Return the launches that are alive and that nothing else in the answer shows: no agent recognises what they run,
    such as a wrapper that has not started its agent."""
    answer, processes = look.answer, look.world.processes
    shown = {process.launch_id for process in answer.unattached} | {session.launch_id for session in answer.sessions}
    others = [launch for launch in launches if launch.id not in shown]
    if not others:
        return []
    from agentctl.workspace import occupancy

    pids = {link.key.pid for link in look.world.links} | {process.pid for process in answer.not_shown}
    pids |= {process.pid for process in answer.unattached if process.pid is not None}
    found = []
    for launch in occupancy.launches_that_live(others, processes):
        pid = launch.child.pid if launch.child.namespace is None else None
        below = [process.pid for process in processes.descendants(pid)] if pid is not None else []
        if pids.isdisjoint((pid, *below)):
            found.append(Unattached(launch.agent, pid, launch.cwd, why_listed(launch), (), launch.id))
    return found


def why_listed(launch: Launch) -> str:
    if launch.child.namespace is None:
        return f"launched, and is on no session now; `agentctl peek {launch.id}` shows what it printed"
    return f"launched in another PID namespace ({launch.child.namespace}): whether it lives cannot be told from here"


def below(path: str | None, folder: str) -> bool:
    if path is None:
        return False
    real = real_path(path)
    return real == folder or real.startswith(folder.rstrip("/") + "/")


def row_order(session: Session) -> tuple[int, float, str, str]:
    """Sort waiting sessions first, then those alive, then unknown ones, then ended ones; the newest first."""
    return (RANKS[session.status], -(session.updated_at or 0.0), session.agent, session.id)


def show(rows: list[Session], look: Look, args: Namespace, matching: int) -> None:
    ids = ids_of(rows, look.answer, look.readings)
    if rows:
        table(rows, args.tree, ids)
    else:
        print(no_rows(look.answer, args, matching), file=sys.stderr)
    if rows and len(rows) < matching:
        print(f"-n {args.n} shows {len(rows)} of {matching} sessions", file=sys.stderr)
    for line in lines_below(look.answer, args, ids):
        print(line)


def ids_of(rows: Iterable[Session], answer: Answer, readings: Readings) -> dict[str, str]:
    """Return what to type for each session that is named, in the table or below it."""
    named = [(session.agent, session.id) for session in rows]
    named += [(tool.agent, tool.session) for tool in answer.tools_left if tool.agent and tool.session]
    return typeable(dict.fromkeys(named), readings)


def lines_below(answer: Answer, args: Namespace, ids: Mapping[str, str]) -> Iterator[str]:
    """Yield what is told below the table. `ids`: what to type for a session."""
    if answer.unattached:
        yield "\n" + format.paragraph("live agent processes that belong to no session yet:")
        for process in answer.unattached:
            yield format.paragraph(unattached_line(process), "  ", "  ")
    if args.status or args.cwd is not None or args.group is not None:
        return  # what follows was not asked for
    if answer.tools_left:
        yield "\n" + format.paragraph(tools_line(answer.tools_left, ids))
    if answer.not_shown:
        yield "\n" + format.paragraph(not_shown_line(len(answer.not_shown)))


def tools_line(left: Sequence[Left], typed: Mapping[str, str]) -> str:
    """Return a line about the tools of killed sessions: `why` names them all."""
    sessions = dict.fromkeys(tool.session for tool in left if tool.session)
    ids = ", ".join(output.plain(typed.get(id, id)) for id in sessions)
    tools = ", ".join(f"{output.plain(tool.comm)} (pid {tool.pid})" for tool in left[:TOOLS_SHOWN])
    more = f" and {len(left) - TOOLS_SHOWN} more" if len(left) > TOOLS_SHOWN else ""
    return f"tools of killed sessions still run: {tools}{more}; see `agentctl why` of {ids}"


def not_kept(look: Look, rows: Iterable[Session]) -> list[Lost]:
    """Return what the launches of these sessions promised, and nobody keeps."""
    ids = {session.launch_id for session in rows if session.launch_id is not None}
    if not ids:
        return []
    from agentctl.launches import promises

    mine = [one.launch for one in look.world.launches if (one.record.path or "//").rsplit("/", 2)[-2] in ids]
    return [one for launch in mine for one in promises.lost(launch, look.world.processes)]


def not_kept_line(lost: Sequence[Lost]) -> str:
    """Return a line about promises of launches: `status` says what to do about each."""
    shown = ", ".join(f"{one.what} of launch {one.launch_id}" for one in lost[:TOOLS_SHOWN])
    more = f" and {len(lost) - TOOLS_SHOWN} more" if len(lost) > TOOLS_SHOWN else ""
    return f"not kept, because the runner of the launch is gone: {shown}{more}; see `agentctl status` of the launch"


def not_shown_line(count: int) -> str:
    are = "agent processes of another HOME or user are" if count > 1 else "agent process of another HOME or user is"
    return f"{count} {are} not shown"


def typeable(named: Iterable[tuple[str, str]], readings: Readings) -> dict[str, str]:
    """Return, by the ids of these sessions (agent, id), the shortest beginning that no other session has, shown or not;
    the whole id if not every session of its agent could be looked at."""
    from agentctl.query.alike import alike

    named = list(named)
    found = alike(named, readings)
    whole = {id: id for agent, id in named if agent in found.unsure}
    return {**output.short_ids((id for _, id in named), found.ids), **whole}


def no_rows(answer: Answer, args: Namespace, matching: int) -> str:
    """Return why there is no table, for people."""
    if matching:
        return f"{matching} {'session' if matching == 1 else 'sessions'}; -n {args.n} shows none"
    filtered = args.agent or args.status or args.cwd is not None or args.group is not None
    hint = "" if since(args) is not None else "; `agentctl list -a` shows ended ones"
    return output.in_what_was_read(f"no sessions{' match' if filtered else ''}", answer.problems, hint)


def unattached_line(process: Unattached) -> str:
    ids = ", ".join(map(output.short, process.candidates or ()))
    launch = f" (launch {process.launch_id})" if process.launch_id else ""
    pid = f" pid {process.pid}" if process.pid is not None else ""
    where = f"{process.agent}{pid}{launch} in {output.tilde(process.cwd)}"
    return f"{where}: {output.plain(process.why)}" + (f"; may be on {ids}" if ids else "")


def table(rows: list[Session], tree: bool, ids: Mapping[str, str]) -> None:
    print("\n".join(table_lines(rows, tree, ids)))


def table_lines(rows: list[Session], tree: bool, ids: Mapping[str, str]) -> list[str]:
    shown = ordered(rows, tree)
    statuses = [session.status for session, _ in shown]
    columns = columns_of(shown, ids)
    brief = {"WHAT": briefly}
    return format.table_lines(columns, flexible=FLEXIBLE, optional=OPTIONAL, statuses=statuses, brief=brief)


def columns_of(shown: list[tuple[Session, str]], ids: Mapping[str, str]) -> dict[str, list[str]]:
    now, home = time.time(), os.path.expanduser("~")
    sessions = [session for session, _ in shown]
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
        "AGE": [format.age(session.started_at, now) for session in sessions],
        "SINCE": [format.age(session.status_since, now) for session in sessions],
        "DIRECTORY": [directories[session.cwd] for session in sessions],
        "WHAT": [what(session) for session in sessions],
    }


def ordered(rows: list[Session], tree: bool) -> list[tuple[Session, str]]:
    """Return the rows with what comes before their id: with --tree each sub-agent is below its parent."""
    if not tree:
        return [(session, "") for session in rows]
    shown, branch = {session.id for session in rows}, output.drawn("└ ", "- ")
    found: list[tuple[Session, str]] = []
    children: dict[str | None, list[Session]] = {}
    for session in rows:
        children.setdefault(session.parent, []).append(session)

    def add(session: Session, depth: int) -> None:
        found.append((session, "  " * (depth - 1) + branch if depth else ""))
        for child in children.get(session.id, ()) if depth < 8 else ():
            add(child, depth + 1)

    for session in rows:
        if session.parent not in shown:
            add(session, 0)
    placed = {(session.agent, session.id) for session, _ in found}
    for session in rows:
        if (session.agent, session.id) not in placed:  # its store says that it is below itself, or too deep
            found.append((session, ""))
    return found


def what(session: Session) -> str:
    """Return the most useful line: what it waits for or does, what went wrong, else what it is about."""
    several = sum(entry["role"] == AGENT for entry in session.processes)
    shown = " and ".join(f"pid {screen['pid']}" for screen in session.screens)
    marks = [f"{several}{SEVERAL}"] if several > 1 else []
    marks += [f"{shown} show it"] if len(session.screens) > 1 else []
    return "; ".join(filter(None, (*marks, line_about(session)))) or "-"


def briefly(text: str) -> str:
    """Return what a cell of WHAT says in fewer words."""
    count, several, about = text.partition(f"{SEVERAL}; ")
    mark, about = (f"{count} processes; ", about) if several and count.isdigit() else ("", text)
    for words in LENGTHY:
        about = about.removeprefix(words)
    return mark + about


def line_about(session: Session) -> str:
    if session.waiting_for or session.doing:
        return output.plain(session.waiting_for or session.doing)
    if session.status in ("unknown", "alive"):
        return output.plain(session.reason)
    if session.error and (session.process != ALIVE or session.last_turn == "failed"):
        return output.plain(session.error)
    return output.plain(session.title or session.prompt or session.reason)
