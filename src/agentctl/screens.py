"""An agent's screen in tmux: opening one for a launch, and what it shows while its agent has named no session.

What a screen shows is for people: it is never believed, and nothing is ever typed into it here.
"""

from __future__ import annotations

import time

from agentctl import launching, tmux
from agentctl.errors import LaunchFailed, NotFound
from agentctl.model import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentctl.launches import Reserved
    from agentctl.launching import Order, Started
    from agentctl.tmux import Pane

STILL = 5.0  # seconds without a change, and no session: it waits for a person
LAST_LINES = 10


class Screen(Value):
    started: Started
    pane: Pane


def start(reserved: Reserved, order: Order, env: Mapping[str, str]) -> Screen:
    """The runner is the pane's own process. Raises what launching.start raises, and NotFound without tmux."""
    with launching.Pane(reserved, order) as waiting:
        try:
            pane = tmux.open_session(tmux.session_name(reserved.id), order.cwd, waiting.argv, env)
        except tmux.Failed as error:
            raise LaunchFailed(f"{error}; nothing was started", reserved.id) from error
        try:
            return Screen(waiting.wait(), pane)
        except LaunchFailed as error:
            if not error.perhaps:
                close(pane, env)
            raise


def require(env: Mapping[str, str]) -> None:
    """Before anything is made."""
    try:
        launching.executable(tmux.PROGRAM, env, "/")
    except NotFound as error:
        raise NotFound(f"{tmux.MISSING}, or launch it without --interactive") from error


class Watcher:
    """Does the screen still change?"""

    def __init__(self, pane: Pane, env: Mapping[str, str]) -> None:
        self._pane, self._env = pane, env
        self._shown: list[str] = []
        self._since = time.monotonic()

    def lines(self) -> list[str]:
        """The last lines that it shows; those that it showed last, where it cannot be asked."""
        try:
            text = tmux.screen(self._pane, self._env)
        except (tmux.Failed, NotFound):
            return self._shown
        shown = [line.rstrip() for line in text.splitlines() if line.strip()]
        if shown != self._shown:
            self._shown, self._since = shown, time.monotonic()
        return shown

    def is_still(self) -> bool:
        """It shows something, and has shown the same for a while. A screen that is still empty is being started."""
        return bool(self.lines()) and time.monotonic() - self._since >= STILL

    def leave(self, *, dead: bool) -> None:
        """Nobody looks any more. What its agent said before it died was told: then the pane is of no use."""
        (close if dead else settle)(self._pane, self._env)


def told(lines: list[str]) -> str:
    return "\n".join(f"  {line}" for line in lines[-LAST_LINES:])


def settle(pane: Pane, env: Mapping[str, str]) -> None:
    """Its agent runs: from now on the pane goes with it."""
    try:
        tmux.let_end(pane, env)
    except (tmux.Failed, NotFound):
        pass  # then it stays until somebody closes it, with its last words


def close(pane: Pane, env: Mapping[str, str]) -> None:
    try:
        tmux.close_session(pane, env)
    except (tmux.Failed, NotFound):
        pass  # it is gone already
