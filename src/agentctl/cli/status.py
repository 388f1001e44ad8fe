"""agentctl status ID: one session, everything that is known of it."""

from __future__ import annotations

import os
import time

from agentctl.cli import output
from agentctl.terminals import one

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from agentctl.model import Session

EPILOG = """\
ID is a session id or any unique beginning of one; sub-agents are found, too.

examples:
  agentctl status 3f2a
  agentctl status 3f2a --json            {"schema": 1, "session": {...}, "problems": [...]}
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="a session id, or a unique beginning of one")
    parser.add_argument("--json", action="store_true", help="machine-readable")
    parser.add_argument("--strict", action="store_true", help="exit 5 if its status cannot be known")


def run(args: Namespace) -> int:
    answer = one(args.id, os.environ)
    session = answer.sessions[0]
    if args.json:
        problems = [output.problem_json(problem) for problem in answer.problems]
        output.print_json({"session": output.session_json(session), "problems": problems})
    else:
        for name, value in lines(session):
            print(f"{name:<11} {value}")
        output.warn(answer.problems)
    return 5 if args.strict and session.status == "unknown" else 0


def hook_lines(session: Session) -> list[str]:
    """How the commands that were given with its launch ended."""
    if session.launch_id is None:
        return []
    from agentctl import hooks, launches

    folder = os.path.join(launches.launches_folder(os.environ), session.launch_id)
    found = []
    for ran in hooks.results(folder):
        how = (
            "took too long" if ran.timed_out else "ok" if ran.exit_code == 0 else f"failed (exit code {ran.exit_code})"
        )
        said = f": {output.plain(ran.last_lines[-1])}" if ran.exit_code != 0 and ran.last_lines else ""
        found.append(f"{output.plain(ran.name)} {how}{said}")
    return found


def lines(session: Session) -> list[tuple[str, str]]:
    """Name and value of what is known; what is not known is left out."""
    now = time.time()
    word = output.coloured(output.status_cell(session), session.status)
    pids = ", ".join(f"{entry['pid']} ({entry['role']})" for entry in session.processes)
    seat = session.terminal or {}
    pane = f"tmux {seat['tmux_session']} ({seat['tmux']})" if seat.get("tmux") else ""
    terminal = " ".join(value for value in (seat.get("tty"), pane) if value)
    tokens = (
        ", ".join(f"{name} {value}" for name, value in session.tokens._asdict().items() if value is not None)
        if (session.tokens)
        else ""
    )
    times = {
        name: f"{output.utc(moment)} ({output.age(moment, now)} ago)" if moment is not None else ""
        for name, moment in (
            ("started", session.started_at),
            ("updated", session.updated_at),
            ("ended", session.ended_at),
        )
    }
    found = {
        "id": output.plain(session.id),
        "status": word + (" (inferred)" if session.inferred else ""),
        "waits for": output.plain(session.waiting_for),
        "reason": output.plain(session.reason),
        "error": output.plain(session.error),
        "agent": f"{session.agent} {output.plain(session.agent_version)}".strip(),
        "process": session.process + (" (suspended)" if session.suspended else ""),
        "turn": session.turn,
        "last turn": session.last_turn if session.last_turn != session.turn else "",
        "pid": pids,
        "terminal": output.plain(terminal),
        "directory": output.tilde(session.cwd) if session.cwd else "",
        "branch": output.plain(session.branch),
        "model": output.plain(session.model),
        "title": output.plain(session.title),
        "prompt": output.shorten(output.plain(session.prompt), 300),
        **times,
        "tokens": tokens,
        "cost": f"${session.cost_usd:.4f}" if session.cost_usd is not None else "",
        "parent": output.plain(session.parent),
        "forked from": output.plain(session.forked_from),
        "group": output.plain(session.group),
        "slot": output.plain(session.slot),
        "launch": session.launch_id,
        "exit": output.plain(session.signal) or (f"code {session.exit_code}" if session.exit_code is not None else ""),
        "hooks": "; ".join(hook_lines(session)),
    }
    return [(name, value) for name, value in found.items() if value]
