"""Which stores to read: those of our own environment, of the configuration, of live agents of this HOME, and the
ones that were seen that way before. Other homes are not read."""

from __future__ import annotations

import json
import os

from agentctl import config
from agentctl.agents import home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agentctl.agents import Agent
    from agentctl.model import Details, Process

REMEMBERED = "roots.json"


def known(agents: Iterable[Agent], env: Mapping[str, str]) -> dict[str, list[str]]:
    """The roots of each agent, as real paths, each once."""
    configured = config.stores(env)
    remembered = recall(env)
    found = {}
    for agent in agents:
        paths = [*agent.roots(env)]
        for name in (agent.NAME, *agent.ALIASES):
            paths += configured.get(name, [])
        paths += remembered.get(agent.NAME, [])
        found[agent.NAME] = list(dict.fromkeys(os.path.realpath(path) for path in paths))
    return found


def recall(env: Mapping[str, str]) -> dict[str, list[str]]:
    """Roots that were seen in the environment of live agents. A cache: whatever is wrong with it, it is only empty."""
    try:
        with open(os.path.join(config.cache_folder(env), REMEMBERED), "rb") as file:
            table = json.load(file)
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(table, dict):
        return {}
    return {
        str(agent): [path for path in paths if isinstance(path, str) and os.path.isabs(path)]
        for agent, paths in table.items()
        if isinstance(paths, list)
    }


def remember(seen: Mapping[str, Iterable[str]], env: Mapping[str, str]) -> None:
    """Add roots to the cache. Where it cannot be written, the next query finds them again or not at all."""
    table = recall(env)
    merged = {agent: sorted({*table.get(agent, []), *seen.get(agent, [])}) for agent in sorted({*table, *seen})}
    folder = config.cache_folder(env)
    path = os.path.join(folder, REMEMBERED)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        temporary = f"{path}.{os.getpid()}"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(fd, "w", encoding="utf-8") as file:
            json.dump(merged, file)
        os.replace(temporary, path)
    except OSError:
        pass


def is_ours(process: Process, details: Details, env: Mapping[str, str]) -> bool | None:
    """Does this process live in our HOME? None = its environment is not readable."""
    return None if details.env is None else same_folder(process, home(details.env), home(env))


def root_of(agent: Agent, process: Process, details: Details, stores: Iterable[str]) -> str | None:
    """The store this process works in: one of ours, or another path; None = its environment is not readable."""
    if details.env is None:
        return None
    path = agent.roots(details.env)[0]
    return next((root for root in stores if same_folder(process, path, root)), os.path.realpath(path))


def same_folder(process: Process, theirs: str, ours: str) -> bool:
    """Is the folder that a process calls `theirs`, perhaps in a mount namespace of its own, the one we call `ours`?"""
    there, here = identity(f"/proc/{process.pid}/root{theirs}") or identity(theirs), identity(ours)
    return there == here if there and here else os.path.abspath(theirs) == os.path.abspath(ours)


def identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_dev, found.st_ino)
