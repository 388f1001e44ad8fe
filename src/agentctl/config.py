"""Where agentctl's own files are, and the person's configuration. Read only when there is one."""

from __future__ import annotations

import os

from agentctl.errors import UsageError
from agentctl.stores import read_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

PRICED = ("input", "output", "cache_read", "cache_write")
LIMIT = 1024 * 1024


def config_path(env: Mapping[str, str]) -> str:
    base = env.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(base, "agentctl", "config.toml")


def cache_folder(env: Mapping[str, str]) -> str:
    base = env.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "agentctl")


def load(env: Mapping[str, str]) -> dict[str, Any]:
    path = config_path(env)
    try:
        data = read_bytes(path, LIMIT)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}; make it readable or remove it") from error
    if len(data) == LIMIT:
        raise UsageError(f"{path}: too long to be a configuration; correct it or remove it")
    import tomllib

    try:
        return tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: {error}; correct it or remove it") from error


def stores(env: Mapping[str, str]) -> dict[str, list[str]]:
    """`[stores]` of the configuration: further roots to read, by agent."""
    table = load(env).get("stores", {})
    if not isinstance(table, dict):
        raise UsageError(f'{config_path(env)}: [stores] must be a table of agent = ["path", ...]')
    found = {}
    for agent, paths in table.items():
        paths = [paths] if isinstance(paths, str) else paths
        if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
            raise UsageError(f"{config_path(env)}: stores.{agent} must be a list of paths")
        if not all(map(is_path, paths)):
            raise UsageError(f"{config_path(env)}: stores.{agent}: no file system can have a path with a NUL in it")
        found[agent] = [os.path.expanduser(path) for path in paths]
    return found


def is_path(text: str) -> bool:
    """Can a file system have this?"""
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


# What a launch starts from


def default_agent(env: Mapping[str, str]) -> str | None:
    return text(load(env), "agent", env)


def launch_cwd(env: Mapping[str, str]) -> str | None:
    found = text(load(env), "cwd", env)
    return os.path.expanduser(found) if found else None


def model_for(env: Mapping[str, str], agent: str) -> str | None:
    return text(of_agent(env, agent), "model", env)


def permissions_for(env: Mapping[str, str], agent: str) -> str | None:
    return text(of_agent(env, agent), "permissions", env)


def unset_for(env: Mapping[str, str], agent: str) -> list[str]:
    """The variables of the caller that an agent is not to get."""
    found = of_agent(env, agent).get("unset", [])
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise UsageError(f"{config_path(env)}: agents.{agent}.unset must be a list of names")
    return found


def of_agent(env: Mapping[str, str], agent: str) -> dict[str, Any]:
    """`[agents.<name>]`"""
    agents = load(env).get("agents", {})
    found = agents.get(agent, {}) if isinstance(agents, dict) else None
    if not isinstance(found, dict):
        raise UsageError(f"{config_path(env)}: [agents.{agent}] must be a table")
    return found


def text(table: dict[str, Any], name: str, env: Mapping[str, str]) -> str | None:
    found = table.get(name)
    if found is not None and not isinstance(found, str):
        raise UsageError(f"{config_path(env)}: {name} must be a text in quotes")
    return found


def retention(env: Mapping[str, str]) -> float | None:
    """For how many seconds a launch is kept after its last process: `retention = "7d"`. None: nobody said."""
    from agentctl.durations import seconds

    return measure(env, "retention", seconds)


def output_limit(env: Mapping[str, str]) -> int | None:
    """How many bytes of an agent's output are kept: `output_limit = "100M"`. None: nobody said."""
    from agentctl.durations import size

    found = measure(env, "output_limit", size)
    return None if found is None else int(found)


def measure(env: Mapping[str, str], name: str, read: Callable[[str], float]) -> float | None:
    """A number, or a text as the options take it."""
    value = load(env).get(name)
    if value is None:
        return None
    try:
        if isinstance(value, (str, int, float)) and not isinstance(value, bool):
            return read(str(value))
        why = "a number, or a text such as those of the options, is wanted"
    except UsageError as error:
        why = str(error)
    raise UsageError(f"{config_path(env)}: {name}: {why}")


def prices(env: Mapping[str, str]) -> list[tuple[str, dict[str, float]]]:
    """`[prices."model-*"]`: US dollars for a million tokens of input, output, cache_read and cache_write."""
    table = load(env).get("prices", {})
    if not isinstance(table, dict):
        raise UsageError(f'{config_path(env)}: [prices."model"] must be a table')
    for pattern, values in table.items():
        if not isinstance(values, dict) or not values:
            raise UsageError(f'{config_path(env)}: prices."{pattern}" must be a table of {", ".join(PRICED)}')
        for name, value in values.items():
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if name not in PRICED or not number or not 0 <= value < 1e9:
                raise UsageError(
                    f'{config_path(env)}: prices."{pattern}".{name} is not understood; say {", ".join(PRICED)} in '
                    "US dollars for a million tokens"
                )
    return list(table.items())
