"""agentctl lock DIR: keep agents out of a directory."""

from __future__ import annotations

import os

from agentctl.cli import output
from agentctl.durations import seconds, span
from agentctl.workspace import locks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from agentctl.workspace.occupancy import Lock

EPILOG = """\
`launch` refuses to start an agent in a locked directory or below it, unless you
give it --force. Agents that already run there go on. You need no lock for a
directory in which an agent works: agentctl sees that by itself.

examples:
  agentctl lock .                                   until `agentctl unlock .`
  agentctl lock ~/site --ttl 2h --reason "release"  for two hours
  agentctl lock . --json                            {"schema": 1, "lock": {...}}
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("directory", metavar="DIR", help="the directory; links are followed")
    parser.add_argument("--by", metavar="NAME", help="who locks it (default: you@this machine)")
    parser.add_argument("--reason", metavar="TEXT", help="shown to those whom the lock refuses")
    parser.add_argument("--ttl", metavar="TIME", type=seconds, help="how long it holds: 30m, 2h, 1d (default: no end)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: Namespace) -> int:
    if not os.path.isabs(args.directory):
        os.getcwd()  # raises if the directory that we are in was deleted: that is what is wrong then
    lock = locks.acquire(os.environ, args.directory, args.by, args.reason, args.ttl)
    if args.json:
        output.print_json({"lock": as_json(lock)})
    else:
        until = f" for {span(args.ttl)}, until {output.local(lock.expires_at)}" if lock.expires_at is not None else ""
        print(f"locked {output.tilde(lock.directory)}{until}")
    return 0


def as_json(lock: Lock) -> dict[str, object]:
    return {
        "directory": lock.directory,
        "by": lock.by,
        "reason": lock.reason,
        "created_at": output.utc(lock.created_at),
        "expires_at": output.utc(lock.expires_at),
    }
