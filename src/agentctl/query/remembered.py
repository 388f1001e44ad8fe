"""The stores that live agents named, in the state folder: nothing else knows of such a store once its agent has ended.

So the list is state and no cache: it is written durably, under a lock, and a list that cannot be read is a problem in
every answer. It is then never replaced: that would end the problem, and not the loss.

A store that an agent names and has not made yet is in the list, too, under a key of its own: the agent may make it and
end before anybody looks. Such a store is looked for in every answer, and it is no problem that it is not there.
"""

from __future__ import annotations

import os

from agentctl import config
from agentctl.errors import AgentctlError, Refused
from agentctl.fast.value import Value
from agentctl.files import bounded
from agentctl.files.private import make_private, not_ours, replace_durably, replace_file
from agentctl.files.reader import reason_of
from agentctl.launches.records import OWNER, STORES, make_state_folder, state_folder
from agentctl.model import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

NAME = "roots.json"
NOT_MADE = " (not made yet)"  # follows the name of an agent, in the key of the stores that were not there when named
PATIENCE = 3.0  # seconds, for another agentctl that writes at this moment
WAY_OUT = "name the stores that you know of in [stores] of config.toml, and remove this file"
NOT_WRITABLE = "it cannot be written: stores that live agents name are not noted there; make it writable"
NO_PATH = "it holds something that is no path"


class Memory(Value):
    """The roots that live agents named, by agent; and why some may be missing."""

    roots: Mapping[str, list[str]]  # under the name of an agent, and under its name with NOT_MADE
    problems: tuple[Problem, ...] = ()
    cached: bool = False  # a list of an older version, in the cache folder, has more


def folder_of(env: Mapping[str, str]) -> str:
    return os.path.join(state_folder(env), STORES)


def recall(env: Mapping[str, str]) -> Memory:
    """Return the roots that live agents named before. Older versions keep them in the cache folder: that list counts,
    too, and can be damaged or deleted once it was taken over."""
    state, own = state_folder(env), folder_of(env)
    roots, wrong = read_list(own, state)
    older, of_older = read_list(config.cache_folder(env))
    if roots is None:
        wrong += of_older
    problems = [Problem(OWNER, f"{why}; {WAY_OUT}", path) for path, why in wrong]
    if (closed := closed_folder(own, state)) is not None:
        problems.append(Problem(OWNER, NOT_WRITABLE, closed))
    both = merged(roots or {}, older or {})
    return Memory(both, tuple(problems), both != (roots or {}))


def read_list(folder: str, *above: str) -> tuple[dict[str, list[str]] | None, list[tuple[str, str]]]:
    """Return the roots in the list of a folder, None if there is no such list; and (path, why) of what could not be
    read of it. Others must not be able to decide what we read."""
    path = os.path.join(folder, NAME)
    try:
        table = bounded.read_json(path)
        if why := next(filter(None, map(not_ours, (folder, *above))), None):
            return None, [(path, f"not believed: {folder}: {why}")]
    except FileNotFoundError:
        return None, []
    except (OSError, bounded.Torn) as error:
        return None, [(path, reason_of(error))]
    roots = {agent: [path for path in paths if is_root(path)] for agent, paths in table.items() if type(paths) is list}
    whole = roots == table
    return roots, [] if whole else [(path, NO_PATH)]


def is_root(path: object) -> bool:
    return isinstance(path, str) and os.path.isabs(path) and config.is_path(path)


def closed_folder(*folders: str) -> str | None:
    """Return the first of these folders that is there, if it is ours and cannot be written; otherwise None."""
    for folder in folders:
        if os.path.isdir(folder):
            mine = os.stat(folder).st_uid == os.geteuid()
            return folder if mine and not os.access(folder, os.W_OK | os.X_OK) else None
    return None


def merged(*tables: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    agents = sorted({agent for table in tables for agent in table})
    return {agent: sorted({path for table in tables for path in table.get(agent, ())}) for agent in agents}


# Writing


def remember(seen: Mapping[str, Iterable[str]], env: Mapping[str, str]) -> tuple[Problem, ...]:
    """Add roots to the list. Return a problem if that cannot be done: what is stored there is not found again once its
    agent has ended."""
    seen = {agent: paths for agent, paths in merged(seen).items() if paths}
    if not seen:
        return ()
    try:
        change(lambda roots: with_made(merged(roots, seen)), env)
    except (OSError, AgentctlError) as error:
        memory = recall(env)
        new = [root for agent, roots in seen.items() for root in roots if root not in memory.roots.get(agent, ())]
        said = f"could not be noted ({error}): once its agent has ended, its sessions are not found again"
        return tuple(Problem(OWNER, f"this store {said}", root) for root in new)
    return ()


def expect(named: Mapping[str, Iterable[str]], env: Mapping[str, str]) -> tuple[Problem, ...]:
    """Add roots to the list that agents name, and that are not there yet. Return a problem if that cannot be done."""
    return remember({agent + NOT_MADE: paths for agent, paths in named.items()}, env)


def with_made(roots: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Return the list in which no root is both there and not made yet."""
    found = {}
    for agent, paths in roots.items():
        made = roots.get(agent.removesuffix(NOT_MADE), ()) if agent.endswith(NOT_MADE) else ()
        found[agent] = [path for path in paths if path not in made]
    return {agent: paths for agent, paths in found.items() if paths}


def forget(path: str, env: Mapping[str, str]) -> list[str]:
    """Remove a root from the list, and return the agents that it was remembered for. Raises OSError and Refused."""
    agents = [agent.removesuffix(NOT_MADE) for agent, paths in recall(env).roots.items() if path in paths]
    if agents:
        change(lambda roots: without(roots, path), env)
        cache = config.cache_folder(env)
        if older := read_list(cache)[0]:
            replace_file(os.path.join(cache, NAME), as_bytes(without(older, path)))
    return agents


def without(roots: Mapping[str, list[str]], path: str) -> dict[str, list[str]]:
    return {agent: [one for one in paths if one != path] for agent, paths in roots.items()}


def take_over(env: Mapping[str, str]) -> None:
    """Copy the list of an older version from the cache folder. If that fails, it is read there again."""
    try:
        change(lambda roots: roots, env)
    except (OSError, AgentctlError):
        pass


def change(make: Callable[[Mapping[str, list[str]]], Mapping[str, list[str]]], env: Mapping[str, str]) -> None:
    """Replace the list by what `make` returns for it. Raises OSError and Refused; a list that cannot be read stays."""
    from agentctl.kernel.flock import Flock

    folder = folder_of(env)
    make_state_folder(env)
    make_private(folder)
    with Flock(os.path.join(folder, "lock"), PATIENCE, "the list of stores"):
        memory = recall(env)
        if memory.problems:
            raise Refused(f"{memory.problems[0].path}: {memory.problems[0].problem}")
        if (wanted := make(memory.roots)) != memory.roots or memory.cached:
            replace_durably(os.path.join(folder, NAME), as_bytes(wanted))


def as_bytes(roots: Mapping[str, list[str]]) -> bytes:
    import json

    return json.dumps(roots).encode()
