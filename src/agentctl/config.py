"""The configuration file of the user, and where agentctl keeps its own files."""

from __future__ import annotations

import os

from agentctl.errors import UsageError
from agentctl.fast.value import Value
from agentctl.files.bounded import read_bytes
from agentctl.model import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any, TypeVar

    T = TypeVar("T")

PRICED = ("input", "output", "cache_read", "cache_write")
LIMIT = 1024 * 1024
OWNER = "configuration"  # in a problem, in place of an agent's name
KEYS = ("agent", "cwd", "retention", "output_limit", "agents", "stores", "prices", "daemon")
DAEMON_KEYS = ("autostart",)
AGENT_KEYS = ("model", "permissions", "unset")
IGNORE = "ignore"  # the entry of [stores] that is no agent


def config_path(env: Mapping[str, str]) -> str:
    base = of_xdg(env, "XDG_CONFIG_HOME", ".config")
    return os.path.join(base, "agentctl", "config.toml")


def cache_folder(env: Mapping[str, str]) -> str:
    return os.path.join(of_xdg(env, "XDG_CACHE_HOME", ".cache"), "agentctl")


def of_xdg(env: Mapping[str, str], name: str, default: str) -> str:
    """Return the folder that a variable names, else one of HOME. The XDG specification: a relative path is to be
    ignored. It would be another folder in each directory."""
    base = env.get(name, "")
    return base if os.path.isabs(base) else os.path.join(os.path.expanduser("~"), default)


class Config(Value):
    """What the configuration file says. If none of it can be used, `unread` says why, and the table is empty."""

    path: str
    table: Mapping[str, Any] = {}
    unread: str | None = None


def read(env: Mapping[str, str]) -> Config:
    """Return the configuration. For commands that only show something: they go on without a file that is broken, and
    show `problems`."""
    path = config_path(env)
    try:
        data = read_bytes(path, LIMIT)
    except FileNotFoundError:
        return Config(path)
    except OSError as error:
        return Config(path, {}, f"{error.strerror or error}; make it readable or remove it")
    if len(data) == LIMIT:
        return Config(path, {}, "too large for a configuration (more than 1 MB); correct it or remove it")
    import tomllib

    try:
        return Config(path, tomllib.loads(data.decode()))
    except (ValueError, RecursionError) as error:
        return Config(path, {}, f"{with_line(error, data)}; correct it or remove it")


def with_line(error: Exception, data: bytes) -> str:
    """Return what is wrong with a file, and in which line."""
    if isinstance(error, UnicodeDecodeError):
        line = data.count(b"\n", 0, error.start) + 1
        return f"not UTF-8 (at line {line})"
    last = data.rstrip(b"\n").count(b"\n") + 1
    return str(error).replace("(at end of document)", f"(at its end, line {last})")


def load(env: Mapping[str, str]) -> Mapping[str, Any]:
    """Return the settings. Raises UsageError if the file is broken: a command that acts must not go on without what the
    person has set."""
    config = read(env)
    if config.unread is not None:
        raise UsageError(f"{config.path}: {config.unread}")
    return config.table


# What is wrong with it


def problems(config: Config) -> Iterator[Problem]:
    """Yield what cannot be used of the configuration: all of it, a value of the wrong kind, a key that is not known.
    Names of agents are not checked: this room does not know them."""
    if config.unread is not None:
        yield Problem(OWNER, f"the configuration is not used: {config.unread}", config.path)
        return
    if not config.table:
        return
    wrong = (*wrong_values(config.table), *stores_in(config)[1], *prices_in(config)[1])
    for what in (*unknown_keys(config.table), *wrong):
        yield Problem(OWNER, what, config.path)


def unknown_keys(table: Mapping[str, Any]) -> Iterator[str]:
    for key in table:
        if key not in KEYS:
            yield f"{key}: unknown key{nearest(key, KEYS)}"
    daemon = table.get("daemon", {})
    for key in daemon if isinstance(daemon, dict) else ():
        if key not in DAEMON_KEYS:
            yield f"daemon.{key}: unknown key{nearest(key, DAEMON_KEYS)}"
    agents = table.get("agents", {})
    if not isinstance(agents, dict):
        yield "[agents.NAME] must be a table"
        return
    for agent, settings in agents.items():
        if not isinstance(settings, dict):
            yield f"[agents.{agent}] must be a table"
            continue
        for key in settings:
            if key not in AGENT_KEYS:
                yield f"agents.{agent}.{key}: unknown key{nearest(key, AGENT_KEYS)}"


def wrong_values(table: Mapping[str, Any]) -> Iterator[str]:
    """Yield why the values of known keys cannot be used."""
    for read in (agent_in, cwd_in, retention_in, output_limit_in, daemon_autostart_in):
        yield from why_not(lambda read=read: read(table))  # type: ignore[misc]
    agents = table.get("agents", {})
    for agent, settings in agents.items() if isinstance(agents, dict) else ():
        if isinstance(settings, dict):
            for name in ("model", "permissions"):
                for why in why_not(lambda name=name, settings=settings: text(settings, name)):  # type: ignore[misc]
                    yield f"agents.{agent}.{why}"
            yield from why_not(lambda agent=agent: unset_in(table, agent))  # type: ignore[misc]


def why_not(read: Callable[[], object]) -> list[str]:
    try:
        read()
    except UsageError as error:
        return [str(error)]
    return []


def nearest(word: str, known: Iterable[str]) -> str:
    """Return a hint at the known word that looks most like this one; an empty string if none does."""
    from difflib import get_close_matches

    found = get_close_matches(word, list(known), n=1)
    return f"; did you mean {found[0]}?" if found else ""


# Where the stores are


def stores_in(config: Config) -> tuple[dict[str, list[str]], list[str]]:
    """Return more roots to read, by agent, from `[stores]`, and what cannot be used there."""
    table, wrong = stores_table(config)
    stores: dict[str, list[str]] = {}
    for agent, paths in table.items():
        if agent == IGNORE:
            continue
        usable, why = paths_of(agent, paths)
        wrong += why
        stores[agent] = [os.path.expanduser(path) for path in usable]
    return stores, wrong + paths_of(IGNORE, table.get(IGNORE, []))[1]


def ignored_in(config: Config) -> tuple[str, ...]:
    """Return the paths below which the person accepts that something cannot be read, as `stores.ignore` has them."""
    usable, _ = paths_of(IGNORE, stores_table(config)[0].get(IGNORE, []))
    return tuple(os.path.abspath(os.path.expanduser(path)) for path in usable)


def ignored_paths(env: Mapping[str, str]) -> tuple[str, ...]:
    return ignored_in(read(env))


def stores_table(config: Config) -> tuple[dict[str, Any], list[str]]:
    table = config.table.get("stores", {})
    return (table, []) if isinstance(table, dict) else ({}, ['[stores] must be a table of agent = ["path", ...]'])


def paths_of(name: str, paths: object) -> tuple[list[str], list[str]]:
    """Return the paths of one entry of `[stores]`, and what is wrong with it."""
    paths = [paths] if isinstance(paths, str) else paths
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        return [], [f"stores.{name} must be a list of paths"]
    if not all(map(is_path, paths)):
        return [], [f"stores.{name}: a path cannot contain a NUL; remove it"]
    return paths, []


def is_path(text: str) -> bool:
    """Can this be a path?"""
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


# Settings. Each is read from its table, and raises UsageError if its value is of the wrong kind.


def setting(env: Mapping[str, str], read: Callable[[Mapping[str, Any]], T]) -> T:
    """Return a setting for a command that needs it. Raises UsageError with the path of the file."""
    table = load(env)
    try:
        return read(table)
    except UsageError as error:
        raise UsageError(f"{config_path(env)}: {error}") from error


def default_agent(env: Mapping[str, str]) -> str | None:
    return setting(env, agent_in)


def launch_cwd(env: Mapping[str, str]) -> str | None:
    path = setting(env, cwd_in)
    return os.path.expanduser(path) if path else None


def model_for(env: Mapping[str, str], agent: str) -> str | None:
    return setting(env, lambda table: text(of_agent(table, agent), "model"))


def permissions_for(env: Mapping[str, str], agent: str) -> str | None:
    return setting(env, lambda table: text(of_agent(table, agent), "permissions"))


def unset_for(env: Mapping[str, str], agent: str) -> list[str]:
    """Return the names of the environment variables that the agent must not get."""
    return setting(env, lambda table: unset_in(table, agent))


def retention(env: Mapping[str, str]) -> float | None:
    """Return for how many seconds a launch is kept after its last process ended: `retention = "7d"`. None: not set."""
    return setting(env, retention_in)


def output_limit(env: Mapping[str, str]) -> int | None:
    """Return how many bytes of an agent's output are kept: `output_limit = "100M"`. None: not set."""
    return setting(env, output_limit_in)


def daemon_autostart(env: Mapping[str, str]) -> bool:
    """Return whether a command that needs the daemon may start it: `[daemon] autostart = true`."""
    return setting(env, daemon_autostart_in)


def daemon_autostart_in(table: Mapping[str, Any]) -> bool:
    daemon = table.get("daemon", {})
    if not isinstance(daemon, dict):
        raise UsageError("[daemon] must be a table")
    value = daemon.get("autostart", False)
    if not isinstance(value, bool):
        raise UsageError("daemon.autostart must be true or false")
    return value


def agent_in(table: Mapping[str, Any]) -> str | None:
    return text(table, "agent")


def cwd_in(table: Mapping[str, Any]) -> str | None:
    return text(table, "cwd")


def unset_in(table: Mapping[str, Any], agent: str) -> list[str]:
    names = of_agent(table, agent).get("unset", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UsageError(f"agents.{agent}.unset must be a list of names")
    return names


def of_agent(table: Mapping[str, Any], agent: str) -> dict[str, Any]:
    """Return the table `[agents.<name>]`."""
    agents = table.get("agents", {})
    mine = agents.get(agent, {}) if isinstance(agents, dict) else None
    if not isinstance(mine, dict):
        raise UsageError(f"[agents.{agent}] must be a table")
    return mine


def text(table: Mapping[str, Any], name: str) -> str | None:
    value = table.get(name)
    if value is not None and not isinstance(value, str):
        raise UsageError(f"{name} must be a string; put it into quotes")
    return value


def retention_in(table: Mapping[str, Any]) -> float | None:
    from agentctl.durations import seconds

    return measure(table, "retention", seconds)


def output_limit_in(table: Mapping[str, Any]) -> int | None:
    from agentctl.durations import size

    limit = measure(table, "output_limit", size)
    return None if limit is None else int(limit)


def measure(table: Mapping[str, Any], name: str, read: Callable[[str], float]) -> float | None:
    """Return the value of a setting that is a number, or a string that `read` understands."""
    value = table.get(name)
    if value is None:
        return None
    try:
        if isinstance(value, (str, int, float)) and not isinstance(value, bool):
            return read(str(value))
        why = 'expected a number or a string like "7d" or "100M"'
    except UsageError as error:
        why = str(error)
    raise UsageError(f"{name}: {why}")


def prices(env: Mapping[str, str]) -> list[tuple[str, dict[str, float]]]:
    """Return the prices in `[prices."model-*"]`, in US dollars per million tokens, in the order of the file. One that
    is not valid is left out: `problems` names it, and its cost stays unknown."""
    return prices_in(read(env))[0]


def prices_in(config: Config) -> tuple[list[tuple[str, dict[str, float]]], list[str]]:
    table = config.table.get("prices", {})
    if not isinstance(table, dict):
        return [], ['[prices."model"] must be a table']
    valid, wrong = [], []
    for pattern, values in table.items():
        if not isinstance(values, dict) or not values:
            wrong.append(f'prices."{pattern}" must be a table of {", ".join(PRICED)}')
        elif why := [f'prices."{pattern}".{why}' for why in wrong_prices(values)]:
            wrong += why
        else:
            valid.append((pattern, values))
    return valid, wrong


def wrong_prices(values: dict[str, Any]) -> Iterator[str]:
    for name, value in values.items():
        if name not in PRICED:
            yield f"{name}: unknown key{nearest(name, PRICED)}"
        elif not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < 1e9:
            yield f"{name} is not valid; give US dollars per million tokens"
