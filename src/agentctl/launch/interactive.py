"""An agent's screen in tmux: opens one for a launch, and reads what it shows while its agent has named no session.

What a screen shows is for people: agentctl never believes it, and types nothing into it here.
"""

from __future__ import annotations

import time

from agentctl.errors import LaunchFailed, MissingProgram
from agentctl.launch import spawn
from agentctl.terminal import tmux

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentctl.launch.spawn import Order, Started
    from agentctl.launches.records import Reserved
    from agentctl.terminal.tmux import Pane

STILL = 5.0  # seconds without a change, and no session: it waits for a person
LAST_LINES = 10


def start(reserved: Reserved, order: Order, env: Mapping[str, str]) -> Started:
    """Start an agent in a new tmux session, whose pane runs the runner. Raises what spawn.start raises, and
    MissingProgram without tmux."""
    with spawn.Pane(reserved, order) as waiting:
        try:
            window = tmux.window_name(order.agent, order.slot or order.cwd)
            pane = tmux.open_session(tmux.session_name(reserved.id), window, order.cwd, waiting.argv, env)
        except tmux.Failed as error:
            if waiting.is_taken_back():
                raise LaunchFailed(f"{error}; nothing was started", reserved.id) from error
            return waiting.wait()  # tmux did not answer, and has opened the pane all the same
        try:
            return waiting.wait()._replace(screen=Watcher(pane, env))
        except LaunchFailed as error:
            if not error.perhaps:
                close(pane, env)
            raise


def require(env: Mapping[str, str]) -> None:
    """Raise MissingProgram without tmux, before anything is made."""
    try:
        spawn.executable(tmux.PROGRAM, env, "/")
    except MissingProgram as error:
        raise MissingProgram(f"{tmux.MISSING}, or launch it without --interactive") from error


class Watcher:
    """Looks whether a screen still changes."""

    def __init__(self, pane: Pane, env: Mapping[str, str]) -> None:
        self._pane, self._env = pane, env
        self._shown: list[str] = []
        self._since = time.monotonic()

    @property
    def name(self) -> str:
        """Return the name of the tmux session, for people."""
        return self._pane.name

    def lines(self) -> list[str]:
        """Return the lines that it shows; those that it showed last if it cannot be asked."""
        try:
            text = tmux.screen(self._pane, self._env)
        except (tmux.Failed, MissingProgram):
            return self._shown
        shown = [line.rstrip() for line in text.splitlines() if line.strip()]
        if shown != self._shown:
            self._shown, self._since = shown, time.monotonic()
        return shown

    def is_still(self) -> bool:
        """Return whether it has shown the same for a while. An empty screen does not count: its agent is starting."""
        return bool(self.lines()) and time.monotonic() - self._since >= STILL

    def leave(self, *, dead: bool) -> None:
        """Stop looking. If its agent died, close the pane: the error shows its last lines."""
        (close if dead else settle)(self._pane, self._env)


def indented(lines: list[str]) -> str:
    return "\n".join(f"  {line}" for line in lines[-LAST_LINES:])


def settle(pane: Pane, env: Mapping[str, str]) -> None:
    """Let the pane end with its agent from now on."""
    try:
        tmux.let_end(pane, env)
    except (tmux.Failed, MissingProgram):
        pass  # then the pane stays, with its last lines, until somebody closes it


def close(pane: Pane, env: Mapping[str, str]) -> None:
    try:
        tmux.close_session(pane, env)
    except (tmux.Failed, MissingProgram):
        pass  # it is gone already
