"""What a launch has printed, or shows on its screen: for `peek`, if there is no conversation to read."""

from __future__ import annotations

import os

from agentctl.errors import AgentctlError, MissingProgram
from agentctl.files.redaction import redact_text
from agentctl.launches import records
from agentctl.query.attribution import child_of
from agentctl.terminal import tmux
from agentctl.terminal.locate import seated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentctl.kernel.processes import Processes
    from agentctl.model import Launch

LINE_BYTES = 500  # that are read for each line that is wanted


def last_lines(launch: Launch, processes: Processes, env: Mapping[str, str], count: int) -> list[str]:
    """Return the last lines that a launch has printed or that its screen shows, without empty ones and without keys.
    Raises AgentctlError if they cannot be read."""
    text = in_output(launch, count) if launch.headless else on_screen(launch, processes, env)
    lines = [line.rstrip() for line in redact_text(text).splitlines() if line.strip()]
    return lines[-count:] if count > 0 else []


def in_output(launch: Launch, count: int) -> str:
    path = os.path.join(os.path.dirname(launch.path or ""), records.OUTPUT)
    limit = LINE_BYTES * max(count, 1)
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - limit))
            text = file.read(limit).decode(errors="replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise AgentctlError(f"{path}: {error.strerror or error}; what the launch printed cannot be shown") from error
    return text if size <= limit else text.partition("\n")[2]  # without the rest of a line


def on_screen(launch: Launch, processes: Processes, env: Mapping[str, str]) -> str:
    process = child_of(launch, processes)
    pane = seated(process, processes, env).pane if process is not None else None
    try:
        return tmux.screen(pane, env) if pane is not None else ""
    except (tmux.Failed, MissingProgram) as error:
        raise AgentctlError(f"the screen of launch {launch.id} cannot be read: {error}") from error
