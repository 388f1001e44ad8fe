"""Keeps the fault of one adapter from hiding all agents.

An adapter that fails becomes a stand-in: it recognises no process, and its store cannot be read. So its sessions are
unknown, never absent, and all other agents are answered.
"""

from __future__ import annotations

import os

from agentctl.agents.base import Agent
from agentctl.errors import AgentFault, show_traceback

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import NoReturn, TypeVar

    from agentctl.agents.base import Store
    from agentctl.model import Details, Process

    Answer = TypeVar("Answer")

ADAPTER = "adapter"
DESCRIPTION = (
    *("NAME", "ALIASES", "BINARIES", "ENV", "CERTIFIED", "RUNS_MANY", "BY_DIRECTORY", "TOOL_ENV", "PACKAGES"),
    *("KEEPS_OPEN", "WATCHES"),
)


class Guarded(Agent):
    """An adapter whose faults name their agent. (Those of its store are caught where stores are read.)"""

    def __init__(self, adapter: Agent) -> None:
        for name in DESCRIPTION:
            setattr(self, name, getattr(adapter, name))
        self._adapter = adapter
        self._looks_like = adapter.looks_like

    def looks_like(self, comm: str) -> bool:
        try:
            return self._looks_like(comm)
        except Exception as error:
            raise AgentFault(self.NAME, ADAPTER, error) from error

    def claims(self, process: Process, details: Details) -> str | None:
        try:
            return self._adapter.claims(process, details)
        except Exception as error:
            raise AgentFault(self.NAME, ADAPTER, error) from error

    def executes(self, details: Details) -> bool:
        try:
            return self._adapter.executes(details)
        except Exception as error:
            raise AgentFault(self.NAME, ADAPTER, error) from error

    def is_named_in(self, argv: Sequence[str]) -> bool:
        try:
            return self._adapter.is_named_in(argv)
        except Exception as error:
            raise AgentFault(self.NAME, ADAPTER, error) from error

    def roots(self, env: Mapping[str, str]) -> tuple[str, ...]:
        try:
            return tuple(self._adapter.roots(env))
        except Exception as error:
            raise AgentFault(self.NAME, ADAPTER, error) from error

    def store_with(self, path: str, env: Mapping[str, str]) -> str | None:
        try:
            return self._adapter.store_with(path, env)
        except Exception as error:
            raise AgentFault(self.NAME, ADAPTER, error) from error

    def is_store(self, root: str) -> bool:
        return self._adapter.is_store(root)

    def open_store(self, root: str) -> Store:
        return self._adapter.open_store(root)


class StandIn(Agent):
    """Stands for an agent whose adapter failed."""

    def __init__(self, name: str, fault: AgentFault) -> None:
        self.NAME = name
        self.fault = fault

    def looks_like(self, comm: str) -> bool:
        return False

    def claims(self, process: Process, details: Details) -> None:
        return None

    def roots(self, env: Mapping[str, str]) -> tuple[str, ...]:
        """Return the folder of the adapter: nobody can say where the store is."""
        return (os.path.dirname(os.path.abspath(__file__)),)

    def open_store(self, root: str) -> NoReturn:
        raise OSError(self.fault.why)


def despite_faults(agents: list[Agent], ask: Callable[[list[Agent]], Answer]) -> Answer:
    """Return what `ask` answers for these agents. If an adapter fails meanwhile, ask again with a stand-in for it."""
    while True:
        try:
            return ask(agents)
        except AgentFault as fault:
            if not any(fault.agent == agent.NAME and isinstance(agent, Guarded) for agent in agents):
                raise
            show_traceback(fault)
            agents = [StandIn(agent.NAME, fault) if fault.agent == agent.NAME else agent for agent in agents]
