"""What a live OpenCode process does with its open turn: pure, but for the process table that is passed in."""

from __future__ import annotations

from agentctl.agents.directories import is_in
from agentctl.model import WAITING, Details

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agentctl.agents.opencode.turn import Row, Tool
    from agentctl.kernel.processes import Processes
    from agentctl.model import Link


def runs_as_process(tool: Tool, pid: int, processes: Processes) -> bool:
    """Return whether a process below this one runs what the call is to do."""
    for child in processes.descendants(pid):
        argv = (processes.details(child) or Details()).argv
        if argv and tool.what and (" ".join(argv) in tool.what or tool.what in " ".join(argv)):
            return True
    return False


def waiting_for_person(link: Link, tool: Tool) -> Link:
    kind = "question" if tool.name == "question" else f"permission: {tool.name}"
    return link._replace(
        turn=WAITING,
        waiting_for=f"{kind}: {tool.what}" if tool.what else kind,
        reason="a tool call has reported nothing yet: it waits for a person, or works inside the process",
        inferred=True,
        doubt=tool.call,
    )


def retrying(error: str | None) -> str | None:
    return f"the model call failed and is retried: {error}" if error else None


def works_in(row: Row, details: Details) -> bool:
    """Return whether a session may work in the directory of a process. One that cannot be read may work anywhere."""
    return row.directory is None or is_in(details, row.directory)
