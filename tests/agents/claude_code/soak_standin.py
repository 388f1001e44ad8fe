"""The process of Claude Code in the soak: the stand-in of torture, told over a socket, also to write in halves."""

from __future__ import annotations

import os
import time

from tests.agents.claude_code.standin import Claude
from tests.soak.clock import CLOCK
from tests.soak.words import after, printed
from tests.torture.standins import files


def build(words: list[str]) -> SoakClaude:
    id = after(words, "--session-id", "--resume") or files.random_id()
    style = os.environ.get("SOAK_STYLE", "new")
    root = f"{os.environ['HOME']}/.claude"
    return SoakClaude({"style": style, "headless": "-p" in words, "id": id, "root": root})


class SoakClaude(Claude):
    def do_clock(self, shift: float) -> None:
        CLOCK.shift = shift

    def do_say_hello(self) -> None:
        printed({"type": "system", "subtype": "init", "session_id": self.id})

    def do_torn_status(self, pause: float) -> None:
        files.rewrite_in_halves(self.file, self.registration, pause)

    def do_torn_line(self, pause: float) -> None:
        data = files.compact({"type": "last-prompt", "lastPrompt": "go", "leafUuid": self.leaf, "sessionId": self.id})
        for part in (data[:20], data[20:] + b"\n"):
            fd = os.open(self.transcript, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            os.write(fd, part)
            os.close(fd)
            time.sleep(pause)
