"""What the suites know of each agent: one description per agent, and this table of them.

The contract test, torture, soak, fuzz, the lab and the benchmarks iterate over the table. Outside this folder they name
no agent, except where a test is about one agent (tests/agents/test_descriptions.py has the list). A new agent is one
line here and one package (docs/adding-an-agent.md). `base.py` has everything that a description can say.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tests.agents.base import Description

# The name that agentctl has for it -> the package of its description.
TABLE = {
    "claude-code": "claude_code",
    "codex": "codex",
    "opencode": "opencode",
    "demo": "demo",
}
OWN = "demo"  # agentctl's own agent. It is a real one and does what its prompt says: suites that need that use it.


def load(name: str) -> Description:
    """Return the description of an agent."""
    found: Description = importlib.import_module(f"tests.agents.{TABLE[name]}").DESCRIPTION
    return found


def every() -> list[Description]:
    return [load(name) for name in TABLE]


def of_fixtures(folder: str) -> Description:
    """Return the description of the agent whose states are in this folder of tests/fixtures."""
    (found,) = [one for one in every() if folder in one.FIXTURES]
    return found


def not_covered(suite: str) -> dict[str, str]:
    """Return the agents that a suite leaves out, each with the reason: {"demo": "nothing is installed"}."""
    return {one.NAME: one.why_not(suite) for one in every() if not one.has(suite)}


def not_covered_line(suite: str) -> str:
    """Return what a suite prints about the agents that it leaves out; empty if it covers all of them."""
    return "; ".join(f"not covered: {name} ({why})" for name, why in not_covered(suite).items())
