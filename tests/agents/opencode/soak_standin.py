"""The process of OpenCode in the soak: the stand-in of torture, told over a socket, also to log late and in halves."""

from __future__ import annotations

import json
import os

from tests.agents.opencode.standin import OpenCode
from tests.agents.opencode.standin_files import Database, timed_id
from tests.soak.clock import CLOCK
from tests.soak.words import after
from tests.torture.standins import puppet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def build(words: list[str]) -> SoakOpenCode:
    data = os.environ.get("XDG_DATA_HOME") or f"{os.environ['HOME']}/.local/share"
    command = "run" if words[:1] == ["run"] else "screen"
    config = {"root": f"{data}/opencode", "command": command, "layout": "database"}
    return SoakOpenCode({**config, "id": after(words, "--session") or timed_id("ses")}, prints="--print-logs" in words)


class SoakOpenCode(OpenCode):
    def __init__(self, config: dict[str, Any], *, prints: bool) -> None:
        super().__init__(config)
        self.prints = prints
        self.handled = puppet.HANDLED if self.command == "screen" else ()

    def do_clock(self, shift: float) -> None:
        CLOCK.shift = shift

    def do_begin(self, *words: Any, **more: Any) -> None:
        super().do_begin(*words, **more)
        if self.prints:
            where = f"version=1.18.33 projectID=global directory={self.cwd} workspaceID=undefined"
            said = f"created id={self.id} slug=quiet-falcon {where} parentID=undefined title=soak"
            self.say(self.log.line(said))

    def do_take_up(self) -> None:
        """Go on with what is stored of its session."""
        self.do_take()
        assert isinstance(self.store, Database)
        self.store.load(self.sessions[self.id])

    def do_prompt(self, text: str = "please do it", id: str | None = None, *, is_word: bool = False) -> None:
        super().do_prompt(text, id, is_word=is_word)  # ours come by stdin

    def do_step(self, id: str | None = None) -> None:
        super().do_step(id)
        if self.prints:
            self.say(json.dumps({"type": "step_start", "sessionID": self.id}).encode() + b"\n")

    def do_result(self, text: str = "ok", id: str | None = None) -> None:
        self.end_tools()
        super().do_result(text, id)

    def do_fail(self, code: int, id: str | None = None) -> None:
        if self.session(id).step is None:
            self.do_step(id)
        super().do_fail(code, id)

    def do_hold(self) -> None:
        """What it logs from now on comes later, or never."""
        self.log.hold()

    def do_torn_line(self, pause: float) -> None:
        """Half a line of its log, which nobody's reader can take for its own."""
        self.log.write_in_halves("tracking", pause)

    def do_torn_write(self, pause: float) -> None:
        """In the middle of a transaction that changes nothing that anybody reads."""
        assert isinstance(self.store, Database)
        self.store.write_slowly(self.session(None), pause)

    def say(self, line: bytes) -> None:
        """On the output that a launch keeps; a full disk is no reason to end."""
        try:
            os.write(2, line)
        except OSError:
            pass
