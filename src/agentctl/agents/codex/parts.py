"""The rollouts of one thread: after a revert it goes on in another file, and keeps its id and its lock."""

from __future__ import annotations

import os

from agentctl.agents.codex.rollout import PART, days_in, is_in_its_place, thread_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agentctl.files.reader import Reader


def is_newer_part(name: str, path: str) -> bool:
    """Return whether a thread goes on in this rollout after the one at this path: names begin with their time."""
    return name[-PART - 1 : -PART] == "_" and name > os.path.basename(path)


def newest_part(files: Reader, id: str, path: str) -> str:
    """Return the rollout that a thread goes on in, which may be in the folder of a later day than the one at `path`."""
    folder = os.path.dirname(path)
    for day in days_in(files):
        for name in files.names(day) if day >= folder else ():
            if f"-{id}_" in name and thread_of(name) == id and is_newer_part(name, path):
                path = f"{day}/{name}"
    return path


def goes_before(folder: str, name: str, path: str) -> bool:
    """Return whether this rollout is to be read, and not the one at `path`, of the same thread."""
    return is_in_its_place(folder, name) and not is_newer_part(os.path.basename(path), name)
