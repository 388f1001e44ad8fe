"""Which stores to read: those of our own environment, of the configuration, of live agents of this HOME, and the
ones that were seen that way before. Other homes are not read."""

from __future__ import annotations

import os

from agentctl import config, stores
from agentctl.errors import Refused
from agentctl.private import make_private, not_ours, replace_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agentctl.agents import Agent
    from agentctl.model import Process

REMEMBERED = "roots.json"


def known(agents: Iterable[Agent], env: Mapping[str, str]) -> dict[str, list[str]]:
    """The roots of each agent, as absolute paths, each once. Not as real ones: to ask may take for ever."""
    configured = config.stores(env)
    remembered = recall(env)
    found = {}
    for agent in agents:
        paths = [*agent.roots(env)]
        for name in (agent.NAME, *agent.ALIASES):
            paths += configured.get(name, [])
        paths += remembered.get(agent.NAME, [])
        found[agent.NAME] = list(dict.fromkeys(os.path.abspath(path) for path in paths))
    return found


def recall(env: Mapping[str, str]) -> dict[str, list[str]]:
    """Roots that were seen in the environment of live agents. A cache: whatever is wrong with it, it is only empty."""
    try:
        folder = config.cache_folder(env)
        table = stores.read_json(os.path.join(folder, REMEMBERED))
        if not_ours(folder) is not None:
            return {}  # somebody else would say what we read
    except (OSError, stores.Torn):
        return {}
    return {
        agent: [path for path in paths if isinstance(path, str) and os.path.isabs(path) and config.is_path(path)]
        for agent, paths in table.items()
        if isinstance(paths, list)
    }


def remember(seen: Mapping[str, Iterable[str]], env: Mapping[str, str]) -> None:
    """Add roots to the cache. Where it cannot be written, the next query finds them again or not at all."""
    import json

    table = recall(env)
    merged = {agent: sorted({*table.get(agent, []), *seen.get(agent, [])}) for agent in sorted({*table, *seen})}
    folder = config.cache_folder(env)
    path = os.path.join(folder, REMEMBERED)
    try:
        make_private(folder)
        replace_file(path, json.dumps(merged).encode())
    except (OSError, Refused):
        pass


def mount_namespace(process: int | str) -> str | None:
    """Which mounts a process sees, and from which root; None = cannot be told."""
    try:
        return f"{os.readlink(f'/proc/{process}/ns/mnt')} {os.readlink(f'/proc/{process}/root')}"
    except OSError:
        return None


def identity_for(process: Process, path: str) -> tuple[int, int] | None:
    """The folder that a process means by this path, perhaps in a mount namespace of its own."""
    return identity(f"/proc/{process.pid}/root{path}") or identity(path)


def identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_dev, found.st_ino)
