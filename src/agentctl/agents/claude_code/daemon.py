"""The daemon of Claude Code, which brings background sessions back that have ended."""

from __future__ import annotations

from agentctl.agents.claude_code.adapter import ADAPTER
from agentctl.model import DAEMON, WRAPPER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agentctl.kernel.processes import Processes


def has_daemon(processes: Processes) -> bool:
    """Return whether a process lives that brings ended sessions back: the daemon, or the host of a worker."""
    for process in processes.running(ADAPTER.looks_like):
        details = processes.details(process)
        if details is None or details.argv is None or ADAPTER.claims(process, details) in (DAEMON, WRAPPER):
            return True
    return False
