"""Who else ends with the first process of a container: the kernel ends every process of a PID namespace with it."""

from __future__ import annotations

from agentctl.model import AGENT, DAEMON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agentctl.kernel.processes import Processes
    from agentctl.model import ProcessKey


def housemates(
    keys: Iterable[ProcessKey],
    on: Mapping[ProcessKey, tuple[str, ...]],
    roles: Mapping[ProcessKey, tuple[str, str]],
    processes: Processes,
) -> dict[ProcessKey, tuple[str, ...]]:
    """Return the other agents that end with each of these processes that is the first of its PID namespace. `on`: the
    sessions of each process; `roles`: what the agents claim."""
    agents = {*on, *(key for key, (_, role) in roles.items() if role in (AGENT, DAEMON))}
    found: dict[ProcessKey, tuple[str, ...]] = {}
    for key in keys:
        first = processes.alive(key)
        inner = processes.inner_pids(first) if first is not None else None
        if first is None or not inner or inner[-1] != 1:
            continue
        namespace = processes.pid_namespace(first)
        others = [other for other in sorted(agents - {key}) if is_inside(other, namespace, key, processes)]
        names = [f"{' '.join(on.get(one, ())) or roles[one][0]} (pid {one.pid})" for one in others]
        if names:
            found[key] = tuple(names)
    return found


def is_inside(key: ProcessKey, namespace: str | None, first: ProcessKey, processes: Processes) -> bool:
    """Return whether a process ends with the first process of this PID namespace: it is in it, or below it."""
    row = processes.alive(key)
    if row is None:
        return False
    return (namespace is not None and processes.pid_namespace(row) == namespace) or first in processes.ancestors(
        key.pid
    )
