"""agentctl wait ID...: wait until sessions no longer run, or are idle, waiting or ended. The exit code says which."""

from __future__ import annotations

import json
import os
import sys

from agentctl import durations
from agentctl.cli import ID_HELP, complain, output
from agentctl.errors import UsageError
from agentctl.launches import promises
from agentctl.wait import UNTIL, wait

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Sequence

    from agentctl.wait import Result, Target, Transition, Waited

EPILOG = """\
Without --until, wait returns when the session no longer runs: it waits for a
person, is idle, or has ended. wait goes on while a session is `alive` (agentctl
cannot tell what it does). With --until idle or --until waiting, wait also
returns when the session ends.

wait follows the session, not its process. If another process takes over the
session, wait reports it and goes on. If the process moves on to another session
(/clear), this session has ended. You can also wait for a sub-agent, or give a
launch id if there is no session yet.

exit codes: 0 done, idle or waiting; 6 its last turn failed; 7 stopped
(interrupted or killed); 5 agentctl cannot tell; 124 timed out, or the time
limit of its launch (--timeout) stopped it; 130 Ctrl-C.
For several sessions the worst one counts, in the order 124, 5, 6, 7, 0; with
--any, the first one that is over.

examples:
  agentctl wait 3f2a && echo done          until it no longer runs
  agentctl wait 3f2a --until ended --timeout 30m
  agentctl wait 3f2a 90c1 --any            until one of the two no longer runs
  agentctl wait --group nightly --json     one line for each change, then
      {"schema": 1, "sessions": [...], "launches": [...], "exit_code": 0,
       "not_kept": [...]}
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", nargs="*", help=ID_HELP)
    parser.add_argument("--group", metavar="G", help="all sessions that this group has now")
    parser.add_argument("--until", choices=UNTIL, help="what to wait for (default: no longer running)")
    parser.add_argument("--timeout", metavar="TIME", help="give up after this time (exit 124): 90s, 30m, 2h")
    parser.add_argument("--any", action="store_true", help="wait for the first of them, not for all")
    parser.add_argument("--json", action="store_true", help="print JSON, one object per line")


def run(args: Namespace) -> int:
    if not args.id and args.group is None:
        raise UsageError("which session? Give ids, or --group NAME; `agentctl list` shows the ids")
    timeout = durations.seconds(args.timeout) if args.timeout is not None else None
    found = wait(
        args.id,
        args.until,
        timeout,
        group=args.group,
        first=args.any,
        begun=begun,
        report=print_change_json if args.json else print_change,
    )
    lost = promises.lost_of((one.launch_id for one in found.waited if one.launch_id is not None), os.environ)
    if args.json:
        print_line({**final_json(found), "not_kept": [dict(one._asdict()) for one in lost]})
    else:
        show(found)
        for one in lost:
            complain(one.said)
    if found.gave_up:
        print(f"agentctl: timed out after {args.timeout}", file=sys.stderr)
    return found.exit_code


def begun(targets: Sequence[Target]) -> None:
    for target in targets:
        status = target.seen.status if target.seen else ""
        words = f"waiting for {name(target.session_id, target.launch_id)}: {status}"
        print(output.for_people(words, sys.stderr), file=sys.stderr, flush=True)


def name(id: str | None, launch_id: str | None) -> str:
    return output.plain(id) if id is not None else f"launch {launch_id}"


def print_change(change: Transition) -> None:
    words = f"{name(change.id, change.launch_id)} {change.before} -> {with_reason(change.after, change.why)}"
    print(output.for_people(words, sys.stdout), flush=True)


def with_reason(status: str, why: str | None) -> str:
    word = output.coloured(status, status)
    return f"{word}: {output.plain(why)}" if why else word


def print_change_json(change: Transition) -> None:
    found = {"event": "transition", **change._asdict(), "at": output.utc(change.at)}
    print_line({{"before": "from", "after": "to", "why": "reason"}.get(key, key): found[key] for key in found})


def show(found: Result) -> None:
    for waited in found.waited:
        words = f"{name(waited.id, waited.launch_id)} {with_reason(waited.status, waited.why)}"
        print(output.for_people(words, sys.stdout))


def final_json(found: Result) -> dict[str, object]:
    return {
        "sessions": [output.session_json(waited.session) for waited in found.waited if waited.session],
        "launches": [launch_json(waited) for waited in found.waited if waited.session is None],
        "exit_code": found.exit_code,
    }


def launch_json(waited: Waited) -> dict[str, object]:
    """Return the JSON of a launch that never had a session."""
    code, signal = (waited.exit.exit_code, waited.exit.signal) if waited.exit else (None, None)
    return {
        "launch_id": waited.launch_id,
        "agent": waited.agent,
        "status": waited.status,
        "reason": waited.why,
        "exit_code": code,
        "signal": signal,
    }


def print_line(value: dict[str, object]) -> None:
    text = json.dumps({"schema": output.SCHEMA, **value}, ensure_ascii=False)
    print(text.encode("utf-8", "backslashreplace").decode(), flush=True)
