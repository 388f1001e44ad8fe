"""agentctl unlock DIR: take a manual lock away."""

from __future__ import annotations

import os

from agentctl import locks
from agentctl.cli import output
from agentctl.cli.lock import as_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

EPILOG = """\
Only a lock that was set by `agentctl lock` can be taken away. Where an agent works there is no lock to take: `agentctl
stop` ends it, and then the directory is free.

examples:
  agentctl unlock .
  agentctl unlock . --by ci@builder      the lock that was set with this name
  agentctl unlock . --force              whoever set it, and also a file that is damaged
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("directory", metavar="DIR", help="the directory; it may be gone")
    parser.add_argument("--by", metavar="NAME", help="who locked it (default: you@this machine)")
    parser.add_argument("--force", action="store_true", help="also the lock of somebody else")
    parser.add_argument("--json", action="store_true", help="machine-readable")


def run(args: Namespace) -> int:
    lock = locks.release(os.environ, args.directory, args.by, force=args.force)
    if args.json:
        output.print_json({"lock": None if lock is None else as_json(lock)})
    elif lock is None:
        print(f"removed a damaged lock of {output.tilde(os.path.realpath(args.directory))}")
    else:
        print(f"unlocked {output.tilde(lock.directory)}, which {output.plain(lock.by)} had locked")
    return 0
