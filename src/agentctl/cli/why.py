"""agentctl why ID: how agentctl knows: every source and fact, the rule that decided, and the rejected candidates."""

from __future__ import annotations

import os

from agentctl.agents import load
from agentctl.cli import ID_HELP, output
from agentctl.cli.status import not_kept
from agentctl.query.world import RULES
from agentctl.terminal.locate import answer_about

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from agentctl.model import Answer, Session

EPILOG = """\
examples:
  agentctl why 3f2a
  agentctl why 3f2a --json    the session, and its rule, rejected candidates
                              and sources
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help=ID_HELP)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: Namespace) -> int:
    answer = answer_about(args.id, os.environ, tokens=args.json)  # nothing else here shows them
    session = answer.sessions[0]
    if args.json:
        output.print_json(
            {
                "session": output.session_json(session),
                "rule": session.rule,
                "rejected": list(session.rejected),
                "sources": list(answer.looked_at),
                "certified": certified(session),
                "tools_left": [{"pid": process.pid, "comm": process.comm} for process in answer.tools_left],
                "not_kept": [dict(one._asdict()) for one in not_kept(session)],
                "problems": [output.problem_json(problem) for problem in answer.problems],
            }
        )
    else:
        show(session, answer)
        output.warn(answer.problems)
    return 0


def certified(session: Session) -> bool | None:
    """Was this version of the agent tested? None: its version is not known."""
    return session.agent_version in load(session.agent).CERTIFIED if session.agent_version else None


def show(session: Session, answer: Answer) -> None:
    print(
        f"{output.plain(session.id)}  {session.agent}  {output.coloured(output.status_cell(session), session.status)}\n"
    )
    if session.waiting_for:
        print(f"  waits for  {output.plain(session.waiting_for)}")
    print(f"  process    {session.process}" + (f" (pid {session.pid}, link {session.link})" if session.pid else ""))
    print(f"  turn       {session.turn}" + (f" (last: {session.last_turn})" if session.last_turn else ""))
    if session.reason:
        print(f"  reason     {output.plain(session.reason)}")
    print(f"  rule       {session.rule}: {RULES[session.rule]}")
    print(f"  inferred   {'yes: not proved' if session.inferred else 'no'}")
    if certified(session) is False:
        known = ", ".join(load(session.agent).CERTIFIED)
        version = output.plain(session.agent_version)
        print(f"  version    {version} was not tested (tested: {known}); judged by what its files hold")
    print("\nevidence")
    for fact in session.evidence:
        if fact.source == "rule" and not fact.pid:
            continue  # it is shown above
        where = f"  [{output.tilde(fact.path)}]" if fact.path else ""
        print(f"  {fact.source:<7} {output.plain(fact.fact)}{' (inferred)' if fact.inferred else ''}{where}")
    for process in answer.tools_left:
        print(
            f"  kernel  pid {process.pid} ({output.plain(process.comm)}) still runs: a tool of it, by its environment"
        )
    for one in not_kept(session):
        print(f"  launch  {output.plain(one.said)}")
    if session.rejected:
        print("\nlooked at and rejected")
        for line in session.rejected:
            print(f"  {output.plain(line)}")
    print("\nsources consulted")
    for line in answer.looked_at:
        print(f"  {output.plain(line)}")
