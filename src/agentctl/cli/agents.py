"""agentctl agents: each agent, where its stores are, whether they can be read, and its binary. Runs none of them."""

from __future__ import annotations

import os

from agentctl import roots
from agentctl.agents import chosen, load_all
from agentctl.cli import output
from agentctl.sessions import count_stored
from agentctl.stores import Torn, read_json, text_or_none

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import Any

    from agentctl.agents import Agent

EPILOG = """\
Versions are read from the installed package, never by running the agent: an agent that starts may tidy up the very
files that tell how another one ended.

examples:
  agentctl agents
  agentctl agents --json
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--agent", action="append", metavar="A", help="only this agent (repeat for more)")
    parser.add_argument("--json", action="store_true", help="machine-readable")


def run(args: Namespace) -> int:
    agents = load_all(chosen(args.agent or None))
    known = roots.known(agents, os.environ)
    stored = count_stored(agents, known)
    rows = [describe(agent, stored[agent.NAME]) for agent in agents]
    if args.json:
        output.print_json({"agents": rows})
        return 0
    for row in rows:
        show(row)
    return 0


def describe(agent: Agent, stores: list[dict[str, object]]) -> dict[str, Any]:
    return {
        "agent": agent.NAME,
        "aliases": list(agent.ALIASES),
        "certified_versions": list(agent.CERTIFIED),
        "binaries": [describe_binary(agent, name) for name in agent.BINARIES],
        "stores": stores,
    }


def describe_binary(agent: Agent, name: str) -> dict[str, Any]:
    path = on_path(name)
    version = version_of(path) if path else None
    certified = version in agent.CERTIFIED if version else None
    return {"name": name, "path": path, "version": version, "certified": certified}


def on_path(name: str) -> str | None:
    """As the person's shell would find it."""
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(folder or ".", name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def version_of(binary: str) -> str | None:
    """From where it is installed: a folder named versions, or the package.json above it."""
    real = os.path.realpath(binary)
    if os.path.basename(os.path.dirname(real)) == "versions":
        return os.path.basename(real)
    folder = os.path.dirname(real)
    for _ in range(6):
        try:
            return text_or_none(read_json(os.path.join(folder, "package.json")).get("version"))
        except FileNotFoundError:
            folder = os.path.dirname(folder)
        except (OSError, Torn):
            return None
    return None


def show(row: dict[str, Any]) -> None:
    print(row["agent"] + (f" (also: {', '.join(row['aliases'])})" if row["aliases"] else ""))
    for binary in row["binaries"]:
        if binary["path"] is None:
            print(f"  binary  {binary['name']}: not on PATH")
            continue
        note = "" if binary["certified"] else ", not measured: judged by what its files hold"
        version = f"version {output.plain(binary['version'])}{note}" if binary["version"] else "version not known"
        print(f"  binary  {output.tilde(binary['path'])}, {version}")
    for store in row["stores"]:
        count = f", {store['sessions']} sessions" if store["sessions"] is not None else ""
        print(f"  store   {output.tilde(store['root'])}: {output.plain(store['state'])}{count}")
