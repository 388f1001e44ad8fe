"""agentctl stop ID...: end sessions, in their agents' own orderly way, and say what is true afterwards."""

from __future__ import annotations

import sys
from contextlib import contextmanager

from agentctl import cli, durations
from agentctl.cli import output
from agentctl.errors import AgentctlError, UsageError
from agentctl.stop import stop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator

    from agentctl.stop.stop import Outcome

EPILOG = """\
agentctl first ends the agent in its own way, and sends SIGKILL after --grace.
It signals only processes whose identity it has proved: those of the session,
and their descendants. If other sessions or daemons run below them, agentctl
names them and leaves them alone. If an agent's own daemon runs the session,
agentctl ends the turn and never signals the daemon: the session stays open
(exit code 1), and --screen ends the screen that shows it, if one is proved to.
With --tree agentctl also ends what a launch left behind, while the runner of
that launch proves it: the runner goes soon after its agent. Later agentctl
names what may be left, and does not end it.
stop refuses what this command runs in: its own session, and whoever launched
it. stop needs --force if the link between session and process is inferred
(`list` shows ?), or if several processes are said to be on a session, and of
one of them only a file says so, which other programs can write; --pid ends one
of them. Without pidfds (macOS) agentctl proves the identity right before each
signal; it cannot cover the instant between the two.

examples:
  agentctl stop 3f2a
  agentctl stop 3f2a 77b0 --grace 1m    two sessions, with more time
  agentctl stop --group night           every live session of a group
  agentctl stop 3f2a --tree             also the sessions below it, and what its
                                        launch left behind
  agentctl stop 3f2a --json
      {"schema": 1, "stopped": [{"id", "outcome", "ended", "left", ...}]}

exit code: 0 only if all of them are stopped; otherwise the highest exit code
of any of them.
"""
SLOW = 1.5  # seconds before it is said what a stop waits for
LONGEST_GRACE = 24 * 60 * 60.0  # seconds


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", nargs="*", help=cli.ID_HELP)
    parser.add_argument("--group", metavar="G", help="every live session of this group")
    parser.add_argument(
        "--grace", metavar="TIME", default="10s", help="send SIGKILL after this time (default: %(default)s)"
    )
    parser.add_argument("--force", action="store_true", help="stop it even if its process was only inferred")
    parser.add_argument("--tree", action="store_true", help="also sessions below it, and what its launch left behind")
    parser.add_argument("--screen", action="store_true", help="end the screen of a session that a daemon keeps open")
    parser.add_argument("--pid", metavar="N", type=int, help="of several processes on a session, end only this one")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: Namespace) -> int:
    if not args.id and args.group is None:
        raise UsageError("which session? Give an id, or --group NAME; `agentctl list` shows the ids")
    if args.pid is not None and (args.tree or args.group is not None or len(args.id) != 1):
        raise UsageError("--pid N ends one process of one session: give one id, without --group and --tree")
    options = stop.Options(grace_of(args.grace), args.force, args.tree, args.screen, args.pid)
    asked = [stop.Asked(id) for id in dict.fromkeys(args.id)]
    if args.group is not None:
        members = [one for one in stop.members(args.group, cli.complain) if one.text not in args.id]
        if not members:
            print(f"no session of group {args.group!r} is alive", file=sys.stderr)
        asked += members
    codes, shown = [0], []
    for outcome in outcomes(asked, options):
        codes.append(outcome.exit_code)
        shown.append(outcome_json(outcome))
        if outcome.outcome == stop.ERROR:
            cli.complain(outcome.said or "")
        elif not args.json:
            print(output.for_people(line(outcome), sys.stdout), flush=True)
    if args.json:
        output.print_json({"stopped": shown})
    return max(codes)


def outcomes(asked: list[stop.Asked], options: stop.Options) -> Iterator[Outcome]:
    """One after the other: an error of one keeps nobody from the others."""
    for one in asked:
        try:
            with told_if_slow(one.text, options.grace):
                found = stop.stop(one, options, tell=cli.complain)
            yield from found
        except AgentctlError as error:
            if len(asked) == 1:
                raise
            yield stop.failed(one.text, None, error)


@contextmanager
def told_if_slow(id: str, grace: float) -> Iterator[None]:
    """Tell a person at a terminal what a stop waits for, if it takes long."""
    if not sys.stderr.isatty():
        yield
        return
    import threading

    words = f"waiting until {id} has ended, for up to {durations.span(grace)} (--grace)"
    timer = threading.Timer(SLOW, cli.complain, [words])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def grace_of(text: str) -> float:
    seconds = durations.seconds(text)
    if seconds > LONGEST_GRACE:
        raise UsageError(f"--grace {text}: too long; give at most one day, such as 10s")
    return seconds


def line(outcome: Outcome) -> str:
    name = outcome.id or (f"launch {outcome.launch_id}" if outcome.launch_id else "?")
    words = {
        stop.STOPPED: "stopped",
        stop.OVER: "gone already",
        stop.OPEN: "stays open",
        stop.NOT_STOPPED: "NOT stopped",
    }
    parts = [*agents_ended(outcome), *others_ended(outcome), output.plain(outcome.said), *still_there(outcome)]
    what = "; ".join(filter(None, parts)) or "there was nothing to do"
    return f"{output.plain(name)} {words[outcome.outcome]}: {what}"


def agents_ended(outcome: Outcome) -> list[str]:
    """How the processes of the agent ended, and how long that took."""
    agents = [process for process in outcome.ended if process.part == "agent"]
    parts = []
    for how in dict.fromkeys(process.how for process in agents):
        pids = ", ".join(str(process.pid) for process in agents if process.how == how)
        parts.append(f"pid {pids} ended by {how}")
    if parts and outcome.seconds is not None:
        parts[-1] += f" in {outcome.seconds:.1f} s"
    return parts


def others_ended(outcome: Outcome) -> list[str]:
    counts = {part: sum(process.part == part for process in outcome.ended) for part in ("wrapper", "tool")}
    return [f"{count} {part} process{'es' if count > 1 else ''} ended" for part, count in counts.items() if count]


def still_there(outcome: Outcome) -> list[str]:
    """The processes that did not end, and those that were left alone."""
    living = [f"pid {one.pid} ({output.plain(one.comm)}): {output.plain(one.why)}" for one in outcome.living]
    left = [f"pid {process.key.pid}, {output.plain(process.what)}" for process in outcome.left]
    names = {"still alive": living, "left": left}
    return [f"{name}: {', '.join(processes)}" for name, processes in names.items() if processes]


def outcome_json(outcome: Outcome) -> dict[str, object]:
    found = dict(outcome._asdict())
    del found["exit_code"]  # ours, not that of a process
    found["ended"] = [one._asdict() for one in outcome.ended]
    found["living"] = [one._asdict() for one in outcome.living]
    found["left"] = [
        {"pid": one.key.pid, "comm": one.comm, "why": one.why, "what": one.what, "agent": one.agent, "id": one.id}
        for one in outcome.left
    ]
    return found
