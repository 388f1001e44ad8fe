"""agentctl wait ID...: until sessions no longer run, or are what was asked for. The exit code says how it went."""

from __future__ import annotations

import json
import sys

from agentctl.cli import durations, output
from agentctl.errors import UsageError
from agentctl.waiting import TIMED_OUT, UNTIL, wait

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Sequence

    from agentctl.waiting import Result, Target, Transition, Waited

EPILOG = """\
Without --until: until it no longer runs, so until it waits for a person, is idle, or has ended. A session that is
`alive` (what it does cannot be told) is waited on. With --until idle or waiting, its end ends the wait, too.
It is the session that is waited for: a new process on it is told and waited for; a process that moves on to another
session (/clear) leaves this one ended. Sub-agents can be waited for, and a launch id where there is no session yet.

exit codes: 0 done, idle or waiting; 6 its last turn failed; 7 stopped (interrupted or killed); 5 it cannot be told;
124 timed out; 130 Ctrl-C. Of several the worst counts, in the order 124, 5, 6, 7, 0; with --any that of the first.

examples:
  agentctl wait 3f2a && echo done          until it no longer runs
  agentctl wait 3f2a --until ended --timeout 30m
  agentctl wait 3f2a 90c1 --any            the first of two
  agentctl wait --group nightly --json     all of a group; a line for each transition, and the last one for all:
                                           {"schema": 1, "sessions": [...], "launches": [...], "exit_code": 0}
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", nargs="*", help="session ids, or unique beginnings of them; launch ids")
    parser.add_argument("--group", metavar="G", help="also all sessions of this group, as they are now")
    parser.add_argument("--until", choices=UNTIL, help="what to wait for (default: no longer running)")
    parser.add_argument("--timeout", metavar="TIME", help="give up after this time: 90s, 30m, 2h (exit 124)")
    parser.add_argument("--any", action="store_true", help="until the first of them is there, not all")
    parser.add_argument("--json", action="store_true", help="machine-readable, one object a line")


def run(args: Namespace) -> int:
    if not args.id and args.group is None:
        raise UsageError("wait for whom? Give session ids, or --group; `agentctl list` shows the ids")
    timeout = durations.seconds(args.timeout) if args.timeout is not None else None
    found = wait(
        args.id,
        args.until,
        timeout,
        group=args.group,
        first=args.any,
        begun=begun,
        told=tell_json if args.json else tell,
    )
    if args.json:
        print_line(final_json(found))
    else:
        show(found)
    if found.exit_code == TIMED_OUT:
        print(f"agentctl: timed out after {args.timeout}", file=sys.stderr)
    return found.exit_code


def begun(targets: Sequence[Target]) -> None:
    for target in targets:
        status = target.seen.status if target.seen else ""
        print(f"waiting for {name(target.id, target.launch_id)}: {status}", file=sys.stderr, flush=True)


def name(id: str | None, launch_id: str | None) -> str:
    return output.plain(id) if id is not None else f"launch {launch_id}"


def tell(change: Transition) -> None:
    print(f"{name(change.id, change.launch_id)} {change.before} -> {with_reason(change.after, change.why)}", flush=True)


def with_reason(status: str, why: str | None) -> str:
    word = output.coloured(status, status)
    return f"{word}: {output.plain(why)}" if why else word


def tell_json(change: Transition) -> None:
    found = {"event": "transition", **change._asdict(), "at": output.utc(change.at)}
    print_line({{"before": "from", "after": "to", "why": "reason"}.get(key, key): found[key] for key in found})


def show(found: Result) -> None:
    for one in found.waited:
        print(f"{name(one.id, one.launch_id)} {with_reason(one.status, one.why)}")


def final_json(found: Result) -> dict[str, object]:
    return {
        "sessions": [output.session_json(one.session) for one in found.waited if one.session],
        "launches": [launch_json(one) for one in found.waited if one.session is None],
        "exit_code": found.exit_code,
    }


def launch_json(one: Waited) -> dict[str, object]:
    """A launch that never had a session."""
    code, signal = (one.exit.exit_code, one.exit.signal) if one.exit else (None, None)
    return {
        "launch_id": one.launch_id,
        "agent": one.agent,
        "status": one.status,
        "reason": one.why,
        "exit_code": code,
        "signal": signal,
    }


def print_line(value: dict[str, object]) -> None:
    text = json.dumps({"schema": output.SCHEMA, **value}, ensure_ascii=False)
    print(text.encode("utf-8", "backslashreplace").decode(), flush=True)
