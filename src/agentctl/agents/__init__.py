"""The agents: one package each, and what their packages share.

Comes in: processes and the files of an agent's own store. Goes out: links, records, recipes, counted calls.
May import: errors, model, fast, files, config, kernel. Agents are named here and nowhere else.

Each package has `adapter.py` (an `Agent`) and `store.py` (its `Store`). It may have `control.py` (a `Control`: how it
is started and stopped; imported by commands that act) and `usage.py` (a `Usage`: what it spent; imported by commands
that count). The base classes have defaults. docs/adding-an-agent.md shows how to add one.
"""

from __future__ import annotations

from agentctl.errors import AgentFault, UsageError, show_traceback
from agentctl.fast.imports import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from agentctl.agents.base import Agent
    from agentctl.agents.control_base import Control
    from agentctl.agents.usage_base import Usage

# Name -> package. A new agent is one line here.
TABLE = {
    "claude-code": "claude_code",
    "codex": "codex",
    "demo": "demo",
    "opencode": "opencode",
}


def load(name: str) -> Agent:
    """Return an agent's adapter, imported when first used. Raises AgentFault if that fails."""
    from agentctl.agents.guard import ADAPTER, Guarded

    try:
        return Guarded(import_module(module_of(name, "adapter")).ADAPTER)
    except Exception as error:
        raise AgentFault(name, ADAPTER, error) from error


def load_all(names: Iterable[str] | None = None) -> list[Agent]:
    """Return the adapters of these agents; None: of all. One that fails is replaced by a stand-in, which says so."""
    return [load_or_stand_in(name) for name in (TABLE if names is None else names)]


def load_or_stand_in(name: str) -> Agent:
    try:
        return load(name)
    except AgentFault as fault:
        from agentctl.agents.guard import StandIn

        show_traceback(fault)
        return StandIn(name, fault)


def load_control(name: str) -> Control:
    """Return how an agent is started and stopped. Raises AgentFault if its module fails."""
    control: Control | None = load_part(name, "control", "CONTROL")
    if control is None:
        from agentctl.agents.control_base import NoControl

        return NoControl(name)
    return control


def load_usage(name: str) -> Usage:
    """Return how an agent's spending is counted. If its module fails, nothing of this agent can be counted."""
    from agentctl.agents.usage_base import FailedUsage, NoUsage

    try:
        usage: Usage | None = load_part(name, "usage", "USAGE")
    except AgentFault as fault:
        show_traceback(fault)
        return FailedUsage(fault.why)
    return NoUsage(name) if usage is None else usage


def load_part(name: str, part: str, constant: str) -> Any:
    """Return what an optional module of an agent's package offers; None if the package lacks it."""
    try:
        module = optional(module_of(name, part))
        return getattr(module, constant) if module is not None else None
    except Exception as error:
        raise AgentFault(name, f"{part}.py", error) from error


def module_of(name: str, part: str) -> str:
    return f"agentctl.agents.{TABLE[name]}.{part}"


def optional(name: str) -> Any:
    """Return a module, or None if there is no such file. A module that fails while it is imported is an error."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        return None


def canonical_name(name: str) -> str | None:
    """Return the agent that a person means by its name or one of its aliases; None if there is none. Raises UsageError
    if it may be the alias of an agent whose adapter fails."""
    if name in TABLE:
        return name
    agents = load_all()
    agent = next((agent.NAME for agent in agents if name in agent.ALIASES), None)
    if agent is None and (faults := faults_of(agents)):
        raise UsageError(f"unknown agent {name!r}; known: {', '.join(TABLE)}; {'; '.join(map(str, faults))}")
    return agent


def faults_of(agents: Iterable[Agent]) -> list[AgentFault]:
    """Return why some of these agents are stand-ins."""
    from agentctl.agents.guard import StandIn

    return [agent.fault for agent in agents if isinstance(agent, StandIn)]


def chosen(names: Iterable[str] | None) -> tuple[str, ...] | None:
    """Return the agents that a person means; None: all. Raises UsageError for a name that no agent has."""
    if names is None:
        return None
    agents = []
    for name in names:
        agent = canonical_name(name)
        if agent is None:
            raise UsageError(f"unknown agent {name!r}; known: {', '.join(TABLE)}")
        agents.append(agent)
    return tuple(dict.fromkeys(agents))
