"""A launching wrapper: starts the real program with its own stdin and stdout, and waits for it, or does not."""

from __future__ import annotations

import os
import subprocess

from tests.torture.standins.puppet import Puppet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Wrapper(Puppet):
    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        self.child: subprocess.Popen[bytes] | None = None

    def do_start(self, executable: str, argv: list[str], detached: bool) -> None:
        """From here on whoever speaks to us speaks to the child."""
        self.child = subprocess.Popen(argv, executable=executable, env=os.environ, start_new_session=detached)

    def do_wait(self) -> None:
        if self.child is not None:
            raise SystemExit(self.child.wait())

    def do_shrug(self) -> None:
        """As the wrapper of OpenCode does: it ends well, whatever became of the child."""
        if self.child is not None:
            self.child.wait()
        raise SystemExit(0)

    def on_signal(self, number: int) -> int:
        """INT, TERM and HUP are handed on."""
        if self.child is not None:
            self.child.send_signal(number)
            self.child.wait()
        return 128 + number
