"""agentctl status ID: everything that is known about one session."""

from __future__ import annotations

import os
import time

from agentctl.cli import ID_HELP, format, output
from agentctl.model import EXACT, GONE, WAITING
from agentctl.terminal.locate import answer_about
from agentctl.usage.report import usd

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping, Sequence
    from typing import Any

    from agentctl.launches.hooks import Ran
    from agentctl.launches.promises import Lost
    from agentctl.model import Left, Session

EPILOG = """\
ID may also be the id of a sub-agent, or the id of a launch: then its session is
shown.

examples:
  agentctl status 3f2a
  agentctl status 3f2a --json
      {"schema": 1, "session": {...}, "problems": [...], "tools_left": [...],
       "not_kept": [...]}
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help=ID_HELP)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--strict", action="store_true", help="exit with 5 if its status cannot be known")


def run(args: Namespace) -> int:
    answer = answer_about(args.id, os.environ)
    session = answer.sessions[0]
    if args.json:
        problems = [output.problem_json(problem) for problem in answer.problems]
        left = [{"pid": process.pid, "comm": process.comm} for process in answer.tools_left]
        found = {"session": output.session_json(session), "problems": problems, "tools_left": left}
        output.print_json({**found, "not_kept": [dict(one._asdict()) for one in not_kept(session)]})
    else:
        for name, value in lines(session):
            print(f"{name:<11} {value}")
        if answer.tools_left:
            print(f"still runs  {left_line(answer.tools_left)}")
        for one in not_kept(session):
            print(f"not kept    {output.plain(one.said)}")
        output.warn(answer.problems)
    return 5 if args.strict and session.status == "unknown" else 0


def not_kept(session: Session) -> list[Lost]:
    """Return what the launch of a session promised, and nobody keeps."""
    if session.launch_id is None:
        return []
    from agentctl.launches import promises

    return promises.lost_of((session.launch_id,), os.environ)


def left_line(left: Sequence[Left]) -> str:
    pids = ", ".join(f"pid {process.pid} ({output.plain(process.comm)})" for process in left)
    return f"{pids}: started by its tools, and left behind when it was killed"


def lines(session: Session) -> list[tuple[str, str]]:
    """Name and value of everything that is known; what is not known is left out."""
    rest = {**process_and_turn(session), **work(session), **spending(session), **origin(session)}
    found = [*identity(session).items(), *asked_lines(session), *rest.items()]
    return [(name, value) for name, value in found if value]


def asked_lines(session: Session) -> list[tuple[str, str]]:
    """Return what a session asks, if it does."""
    if not session.questions:
        return []
    from agentctl.cli.asked import lines_of

    return list(lines_of(session.questions))


def identity(session: Session) -> dict[str, str]:
    word = output.coloured(output.status_cell(session), session.status)
    return {
        "id": output.plain(session.id),
        "status": word + (" (inferred)" if session.inferred else ""),
        "waits for": output.plain(session.waiting_for),
        "way out": way_out(session),
        "does": output.shorten(output.plain(session.doing), 300),
        "reason": output.plain(session.reason),
        "error": output.plain(session.error),
        "agent": f"{session.agent} {output.plain(session.agent_version)}".strip(),
    }


def way_out(session: Session) -> str:
    """Return what to do about a question that nobody can answer: a launch without a terminal asks it."""
    if session.turn != WAITING or session.launch_id is None or session.terminal or session.parent is not None:
        return ""
    from agentctl.send import NOBODY_ANSWERS

    return NOBODY_ANSWERS.format(id=output.plain(session.id))


def process_and_turn(session: Session) -> dict[str, str]:
    return {
        "process": session.process + (" (suspended)" if session.suspended else ""),
        "turn": session.turn,
        "last turn": session.last_turn or "" if session.last_turn != session.turn else "",
        "pid": ", ".join(f"{entry['pid']} ({entry['role']})" for entry in session.processes),
        "terminal": output.plain(terminal_line(session)),
        "shown by": output.plain(", ".join(map(screen_line, session.screens))),
    }


def screen_line(screen: Mapping[str, Any]) -> str:
    """Return the pid and the terminal of a screen that shows a session of a daemon."""
    where = screen["tty"] or "a terminal that cannot be named here"
    return f"pid {screen['pid']} on {where}" + (" (inferred)" if screen["link"] != EXACT else "")


def terminal_line(session: Session) -> str:
    terminal = session.terminal or {}
    pane = f"tmux {terminal['tmux_session']} ({terminal['tmux']})" if terminal.get("tmux") else ""
    return " ".join(value for value in (terminal.get("tty"), pane) if value)


def work(session: Session) -> dict[str, str]:
    now = time.time()
    times = {
        "started": session.started_at,
        "updated": session.updated_at,
        "since": session.status_since if session.process != GONE else None,
        "ended": session.ended_at,
    }
    return {
        "directory": output.tilde(session.cwd) if session.cwd else "",
        "branch": output.plain(session.branch),
        "model": output.plain(session.model),
        "title": output.plain(session.title),
        "prompt": output.shorten(output.plain(session.prompt), 300),
        **{
            name: f"{output.local(moment)} ({format.age(moment, now)} ago)"
            for name, moment in times.items()
            if moment is not None
        },
    }


def spending(session: Session) -> dict[str, str]:
    tokens = session.tokens._asdict() if session.tokens else {}
    return {
        "tokens": ", ".join(f"{name} {value}" for name, value in tokens.items() if value is not None),
        "cost": usd(session.cost_usd) if session.cost_usd is not None else "",
    }


def origin(session: Session) -> dict[str, str]:
    """Where it comes from, and how it ended."""
    code = f"code {session.exit_code}" if session.exit_code is not None else ""
    return {
        "parent": output.plain(session.parent),
        "forked from": output.plain(session.forked_from),
        "group": output.plain(session.group),
        "slot": output.plain(session.slot),
        "launch": session.launch_id or "",
        "exit": output.plain(session.signal) or code,
        "hooks": "; ".join(hook_lines(session)),
    }


def hook_lines(session: Session) -> list[str]:
    """How the commands that were given with its launch ended."""
    if session.launch_id is None:
        return []
    from agentctl.launches import hooks, records

    folder = os.path.join(records.launches_folder(os.environ), session.launch_id)
    return [hook_line(hook) for hook in hooks.results(folder)]


def hook_line(hook: Ran) -> str:
    if hook.timed_out:
        how = "took too long"
    else:
        how = "ok" if hook.exit_code == 0 else f"failed (exit code {hook.exit_code})"
        how = how if hook.exit_code is not None else "was not run"
    said = f": {output.plain(hook.last_lines[-1])}" if hook.exit_code != 0 and hook.last_lines else ""
    return f"{output.plain(hook.name)} {how}{said}"
