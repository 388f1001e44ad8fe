"""agentctl stop ID...: end sessions, in their agents' own orderly way, and say what is true afterwards."""

from __future__ import annotations

import sys

from agentctl import cli, stopping
from agentctl.cli import output
from agentctl.errors import AgentctlError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator

    from agentctl.stopping import Outcome

EPILOG = """\
ID is a session id, any unique beginning of one, or the id of a launch that has no session yet.

Only processes whose identity is proved are signalled: the session's own, and what descends from it. Sessions and
daemons that run inside of it are named and left. A session inside an agent's own daemon loses its turn; the daemon is
never signalled. An inferred link (`list` shows ?) needs --force. Where there is no pidfd (macOS) the identity is proved
right before each signal, and the instant between is not covered.

examples:
  agentctl stop 3f2a                     its agent's own way first, SIGKILL after 10 s
  agentctl stop 3f2a 77b0 --grace 1m     two of them, with more time
  agentctl stop --group night            every live session of a group
  agentctl stop 3f2a --tree              also the sessions inside of it, and what its launch left behind
  agentctl stop 3f2a --json              {"schema": 1, "stopped": [{"id", "outcome", "ended", "left", ...}]}

exit code: 0 only if it is true of all of them; of several the highest.
"""
UNITS = {"s": 1, "m": 60, "h": 3600}


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", nargs="*", help="a session id, a unique beginning of one, or a launch id")
    parser.add_argument("--group", metavar="G", help="every live session of this group")
    parser.add_argument("--grace", metavar="TIME", default="10s", help="how long it may take before SIGKILL: 10s, 2m")
    parser.add_argument("--force", action="store_true", help="also where which process it is in is only inferred")
    parser.add_argument("--tree", action="store_true", help="also the sessions inside, and what its launch left behind")
    parser.add_argument("--json", action="store_true", help="machine-readable")


def run(args: Namespace) -> int:
    if not args.id and args.group is None:
        raise UsageError("which session? `agentctl list` shows the ids; or name a group with --group")
    options = stopping.Options(duration(args.grace), args.force, args.tree)
    asked = list(dict.fromkeys(args.id))
    if args.group is not None:
        found = [one for one in stopping.members(args.group) if one not in asked]
        if not found:
            print(f"nothing of group {args.group!r} is alive", file=sys.stderr)
        asked += found
    codes, shown = [0], []
    for outcome in outcomes(asked, options):
        codes.append(outcome.exit_code)
        shown.append(outcome_json(outcome))
        if outcome.outcome == stopping.ERROR:
            print(f"agentctl: {cli.shown(outcome.said)}", file=sys.stderr)
        elif not args.json:
            print(line(outcome), flush=True)
    if args.json:
        output.print_json({"stopped": shown})
    return max(codes)


def outcomes(asked: list[str], options: stopping.Options) -> Iterator[Outcome]:
    """One after the other: an error of one keeps nobody from the others."""
    for one in asked:
        try:
            yield from stopping.stop(one, options)
        except AgentctlError as error:
            if len(asked) == 1:
                raise
            yield stopping.failed(one, None, error)


def duration(text: str) -> float:
    number, unit = (text[:-1], text[-1:]) if text[-1:] in UNITS else (text, "s")
    try:
        seconds = float(number) * UNITS[unit]
    except ValueError:
        seconds = -1.0
    if not 0.0 <= seconds <= 86400.0:
        raise UsageError(f"{text!r} is no length of time: use a number and s, m or h, such as 10s, at most a day")
    return seconds


def line(outcome: Outcome) -> str:
    name = outcome.id or (f"launch {outcome.launch_id}" if outcome.launch_id else "?")
    words = {stopping.STOPPED: "stopped", stopping.OVER: "gone already", stopping.NOT_STOPPED: "NOT stopped"}
    parts = []
    agents = [one for one in outcome.ended if one.part == "agent"]
    for how in dict.fromkeys(one.how for one in agents):
        pids = ", ".join(str(one.pid) for one in agents if one.how == how)
        parts.append(f"pid {pids} ended by {how}")
    if parts and outcome.seconds is not None:
        parts[-1] += f" in {outcome.seconds:.1f} s"
    for part in ("wrapper", "tool"):
        if count := sum(one.part == part for one in outcome.ended):
            parts.append(f"{count} {part} process{'es' if count > 1 else ''} ended")
    if outcome.said:
        parts.append(output.plain(outcome.said))
    if outcome.living:
        living = (f"pid {one.pid} ({output.plain(one.comm)}): {output.plain(one.why)}" for one in outcome.living)
        parts.append(f"still alive: {', '.join(living)}")
    if outcome.left:
        parts.append("left: " + ", ".join(f"pid {one.key.pid}, {output.plain(one.what)}" for one in outcome.left))
    return f"{output.plain(name)} {words[outcome.outcome]}: {'; '.join(parts) or 'nothing was to be done'}"


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
