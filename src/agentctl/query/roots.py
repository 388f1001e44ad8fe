"""Tells which stores to read: those that our environment, the configuration and the live agents of this HOME name, and
those that live agents named before. Stores of other homes are not read."""

from __future__ import annotations

import os

from agentctl import config
from agentctl.agents import TABLE
from agentctl.errors import shown_command
from agentctl.fast.value import Value
from agentctl.files.reader import is_below
from agentctl.kernel.places import plain
from agentctl.model import Problem
from agentctl.query import folders, remembered

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from agentctl.agents.base import Agent
    from agentctl.model import Process

MISSING = "config.toml names a store here, and it is not there; correct [stores], or accept it with stores.ignore"


class Places(Value):
    """The stores to read, and what is wrong with how they are named."""

    roots: Mapping[str, list[str]]  # by agent: absolute paths, each once
    expected: Mapping[str, str] = {}  # root -> why it is a problem if it is not there
    problems: tuple[Problem, ...] = ()
    ignored: tuple[str, ...] = ()  # what cannot be read below these paths is accepted
    folders: Mapping[tuple[str, str], tuple[int, int]] = {}  # by (agent, root): which folder it was
    unmade: frozenset[tuple[str, str]] = frozenset()  # (agent, root) that an agent has named, and not made yet


def places(agents: Iterable[Agent], env: Mapping[str, str]) -> Places:
    """Return the stores of these agents. Links are not followed: that may take for ever. Only the place where an agent
    keeps its store by itself may be missing: a path that somebody wrote down, or a live agent named, was there."""
    settings = config.read(env)
    ignored = config.ignored_in(settings)
    configured, _ = config.stores_in(settings)
    memory = remembered.recall(env)
    if memory.cached:
        remembered.take_over(env)
    roots: dict[str, list[str]] = {}
    unmade: set[tuple[str, str]] = set()
    expected: dict[str, str] = {}
    for agent in agents:
        own = absolute(agent.roots(env))
        written = absolute(path for name in (agent.NAME, *agent.ALIASES) for path in configured.get(name, []))
        seen = absolute(memory.roots.get(agent.NAME, []))
        named = absolute(memory.roots.get(agent.NAME + remembered.NOT_MADE, []))
        roots[agent.NAME] = list(dict.fromkeys((*own, *written, *seen, *named)))
        unmade.update((agent.NAME, path) for path in named)
        reasons = {**{path: vanished(path) for path in seen}, **dict.fromkeys(written, MISSING)}
        expected |= {path: why for path, why in reasons.items() if path not in own}
    expected = {path: why for path, why in expected.items() if not is_below(path, ignored)}
    problems = (*wrong_in(settings), *memory.problems)
    return Places(roots, expected, problems, ignored, folders.read(env), frozenset(unmade))


def wrong_in(settings: config.Config) -> Iterator[Problem]:
    """Yield what cannot be used of the configuration."""
    yield from config.problems(settings)
    yield from unknown_agents(settings, config.stores_in(settings)[0])


def known(agents: Iterable[Agent], env: Mapping[str, str]) -> Mapping[str, list[str]]:
    """Return the roots of each agent."""
    return places(agents, env).roots


def absolute(paths: Iterable[str]) -> list[str]:
    return [plain(os.path.join(os.getcwd(), path) if not os.path.isabs(path) else path) for path in paths]


def of_home(agent: Agent, env: Mapping[str, str]) -> list[str]:
    """Return the stores of an agent to which only HOME leads: everybody who has this HOME finds them."""
    return absolute(agent.roots({name: env[name] for name in ("HOME",) if name in env}))


def vanished(path: str) -> str:
    return f"an agent kept its store here, and it is gone; mount it again, or `{forgetting(path)}`"


def away(path: str) -> str:
    return (
        "sessions were seen here on another disk, and here are none: is it mounted? If they are gone for good, "
        f"`{forgetting(path)}`"
    )


def forgetting(path: str) -> str:
    return shown_command("agentctl", "agents", "forget", path)


def device_above(path: str) -> int | None:
    """Return the device of the nearest folder above a path that is there; None if that cannot be told."""
    while (above := os.path.dirname(path)) != path:
        try:
            return os.stat(above).st_dev
        except FileNotFoundError:
            path = above
        except OSError:
            return None
    return None


def unknown_agents(settings: config.Config, configured: Iterable[str]) -> Iterator[Problem]:
    """Yield a problem for each name in the configuration that is no agent's."""
    agents = settings.table.get("agents", {})
    for_launches = [name for name in agents if name not in TABLE] if isinstance(agents, dict) else []
    for_stores = [name for name in configured if name not in TABLE]
    if not (for_launches or for_stores):
        return
    from agentctl.agents import load_all

    names = {alias: agent.NAME for agent in load_all() for alias in (agent.NAME, *agent.ALIASES)}
    for table, unknown, known in (
        ("stores", [name for name in for_stores if name not in names], {**names, config.IGNORE: config.IGNORE}),
        ("agents", for_launches, names),
    ):
        for name in unknown:
            hint = f"; use {names[name]}" if name in names else config.nearest(name, known)
            yield Problem(config.OWNER, f"{table}.{name}: no such agent{hint}", settings.path)


def identity_for(process: Process, path: str) -> tuple[int, int] | None:
    """Return device and inode of the folder that a process means by this path: it may see other mounts than we."""
    return identity(f"/proc/{process.pid}/root{path}") or identity(path)


def identity(path: str) -> tuple[int, int] | None:
    """Return device and inode; None if there is no such path."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_dev, status.st_ino)
