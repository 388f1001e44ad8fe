"""Which folder each store was when it was seen with sessions in it: device and inode, in the cache folder.

A disk that is not mounted leaves an empty folder, or none: without this note that looks like a store without sessions.
A store that was renamed for a while has the same folder under its old name. The note makes answers more careful, never
firmer, so it may be lost: it is written only when it changes, and is no problem if it cannot be.
"""

from __future__ import annotations

import os

from agentctl import config
from agentctl.errors import AgentctlError
from agentctl.fast.json import COMPACT, dumps, loads
from agentctl.files.private import make_private, read_own, replace_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    Name = tuple[str, str]  # of a store: agent, root
    Identity = tuple[int, int]  # of its folder: device, inode
    Folders = Mapping[Name, Identity]

FILE = "folders.json"
LIMIT = 1024 * 1024


def read(env: Mapping[str, str]) -> dict[Name, Identity]:
    """Return what is noted; nothing if there is no such list, or it is damaged."""
    try:
        file = loads(read_own(os.path.join(config.cache_folder(env), FILE), LIMIT))
    except (OSError, ValueError, RecursionError):
        return {}
    rows = file.get("folders") if isinstance(file, dict) else None
    return {(row[0], row[1]): (row[2], row[3]) for row in rows if is_row(row)} if isinstance(rows, list) else {}


def is_row(row: object) -> bool:
    return isinstance(row, list) and list(map(type, row)) == [str, str, int, int]


def note(seen: Folders, known: Folders, env: Mapping[str, str]) -> None:
    """Note which folders these stores are, unless all of that is known."""
    if any(known.get(name) != identity for name, identity in seen.items()):
        write({**read(env), **seen}, env)


def forget(path: str, env: Mapping[str, str]) -> list[str]:
    """Remove what is noted of a store, and return the agents that it was seen of."""
    known = read(env)
    agents = [agent for agent, root in known if root == path]
    if agents:
        write({name: identity for name, identity in known.items() if name[1] != path}, env)
    return agents


def write(folders: Folders, env: Mapping[str, str]) -> None:
    folder = config.cache_folder(env)
    rows = [[agent, root, *identity] for (agent, root), identity in sorted(folders.items())]
    try:
        make_private(folder)
        replace_file(os.path.join(folder, FILE), dumps({"folders": rows}, separators=COMPACT).encode())
    except (OSError, AgentctlError):
        pass
