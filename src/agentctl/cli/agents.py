"""agentctl agents: list the agents, their stores, whether these can be read, and their binaries. Runs no agent."""

from __future__ import annotations

import os

from agentctl.agents import chosen, load_all
from agentctl.agents.guard import despite_faults
from agentctl.cli import output
from agentctl.errors import AgentctlError, NotFound, UsageError
from agentctl.files.bounded import Torn, read_json, text_or_none
from agentctl.query import folders, remembered, roots
from agentctl.query.sessions import count_stored

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import Any

    from agentctl.agents.base import Agent

EPILOG = """\
agentctl reads versions from the installed package and never runs an agent to
ask: when an agent starts, it may delete the very files that show how another
session ended.

agentctl remembers the stores that live agents named. If one of them is gone,
every answer says so: there were sessions in it. `forget` removes it.

examples:
  agentctl agents
  agentctl agents --json
      {"schema": 1, "agents": [...], "ignored": [...], "problems": [...]}
  agentctl agents forget /mnt/disk/store      no longer look for a store there
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--agent", action="append", metavar="A", help="only this agent (repeat for more)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("what", nargs="?", metavar="forget", choices=("forget",), help="no longer look for a store")
    parser.add_argument("path", nargs="?", metavar="PATH", help="the root of a store that agentctl remembers")


def run(args: Namespace) -> int:
    if args.what is not None:
        return run_forget(args)
    rows, places = despite_faults(load_all(chosen(args.agent or None)), describe_all)
    if args.json:
        problems = [output.problem_json(problem) for problem in places.problems]
        output.print_json({"agents": rows, "ignored": list(places.ignored), "problems": problems})
        return 0
    for row in rows:
        show(row)
    for path in places.ignored:
        print(f"ignored by config.toml: what cannot be read in {output.tilde(path)}")
    output.warn(places.problems)
    return 0


def run_forget(args: Namespace) -> int:
    if args.path is None:
        raise UsageError("which store? Give its path; `agentctl agents` shows the stores")
    (path,) = roots.absolute([os.path.expanduser(args.path)])
    try:
        agents = list(dict.fromkeys([*remembered.forget(path, os.environ), *folders.forget(path, os.environ)]))
    except OSError as error:
        raise AgentctlError(f"{error.filename or path}: {error.strerror or error}; it is still remembered") from error
    if not agents:
        raise NotFound(f"{path}: no remembered store; `agentctl agents` shows the stores, [stores] names others")
    if args.json:
        output.print_json({"forgotten": path, "agents": agents})
    else:
        print(f"forgot {output.tilde(path)} ({', '.join(map(output.plain, agents))})")
    return 0


def describe_all(agents: list[Agent]) -> tuple[list[dict[str, Any]], roots.Places]:
    places = roots.places(agents, os.environ)
    stored = count_stored(agents, places)
    return [describe(agent, stored[agent.NAME]) for agent in agents], places


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
    """Return the path of a program as the user's shell would find it."""
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(folder or ".", name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def version_of(binary: str) -> str | None:
    """Return the version from where it is installed: below a folder named versions, or in the package.json above."""
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
        note = "" if binary["certified"] else ", not tested: judged by what its files hold"
        version = f"version {output.plain(binary['version'])}{note}" if binary["version"] else "version unknown"
        print(f"  binary  {output.tilde(binary['path'])}, {version}")
    for store in row["stores"]:
        number = store["sessions"]
        count = f", {number} {'session' if number == 1 else 'sessions'}" if number is not None else ""
        ignored = " (ignored by config.toml)" if store["ignored"] and number is None else ""
        print(f"  store   {output.tilde(store['root'])}: {output.plain(store['state'])}{count}{ignored}")
        for problem in store["problems"]:
            where = f"{output.tilde(problem['path'])}: " if problem["path"] else ""
            print(f"          {where}{output.plain(problem['problem'])}")
