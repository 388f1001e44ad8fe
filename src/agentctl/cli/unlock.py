"""agentctl unlock DIR: remove a manual lock."""

from __future__ import annotations

import os

from agentctl.cli import output
from agentctl.cli.lock import as_json
from agentctl.workspace import locks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

EPILOG = """\
unlock removes only a lock that `agentctl lock` set. A directory in which an
agent works has no such lock: `agentctl stop` ends the agent, and then the
directory is free.

examples:
  agentctl unlock .
  agentctl unlock . --by ci@builder    the lock that was set with this name
  agentctl unlock . --force            anybody's lock, even a damaged one
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("directory", metavar="DIR", help="the directory; it need not exist any more")
    parser.add_argument("--by", metavar="NAME", help="who locked it (default: you@this machine)")
    parser.add_argument("--force", action="store_true", help="remove it even if somebody else set the lock")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: Namespace) -> int:
    lock = locks.release(os.environ, args.directory, args.by, force=args.force)
    if args.json:
        output.print_json({"lock": None if lock is None else as_json(lock)})
    elif lock is None:
        print(f"removed a damaged lock of {output.tilde(os.path.realpath(args.directory))}")
    else:
        print(f"unlocked {output.tilde(lock.directory)}, which {output.plain(lock.by)} had locked")
    return 0
