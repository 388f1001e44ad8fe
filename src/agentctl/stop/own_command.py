"""Runs an agent's own command that ends a session."""

from __future__ import annotations

from agentctl.errors import AgentctlError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def run_command(argv: tuple[str, ...], seconds: float, env: Mapping[str, str]) -> str:
    """Run the agent's own command, and return what to say of it. Whether it did its work is judged afterwards."""
    from agentctl.kernel import commands

    words = " ".join(argv)
    ran = commands.run(argv, None, env, seconds)
    if ran.outcome in (commands.NOT_FOUND, commands.NOT_RUNNABLE):
        raise AgentctlError(f"`{words}` could not be run: {ran.problem}; is it in your PATH?")
    if ran.outcome != commands.DONE:
        raise AgentctlError(f"`{words}` did not end: {ran.problem}; run it yourself and look")
    if ran.code == 0:
        return f"by `{words}`"
    return f"`{words}` failed with {ran.code}: {ran.said or 'it said nothing'}"
