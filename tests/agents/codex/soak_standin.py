"""The process of Codex in the soak: the stand-in of torture, told over a socket, also to write in halves."""

from __future__ import annotations

import glob
import os
import signal
import time

from tests.agents.codex.standin import Codex
from tests.soak.clock import CLOCK
from tests.soak.words import after, printed
from tests.torture.standins import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def build(words: list[str]) -> SoakCodex:
    source, policy = ("exec", "never") if "exec" in words else ("cli", "on-request")
    id = after(words, "resume") or files.timed_id()
    return SoakCodex({"source": source, "policy": policy, "id": id, "root": f"{os.environ['HOME']}/.codex"})


class SoakCodex(Codex):
    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        self.in_turn = False
        self.handled = (signal.SIGINT,)

    def do_clock(self, shift: float) -> None:
        CLOCK.shift = shift

    def do_say_hello(self) -> None:
        printed({"type": "thread.started", "thread_id": self.id})

    def do_take_up(self) -> None:
        """Go on with the rollout of a thread that was resumed."""
        thread = self.thread(None)
        for path in glob.glob(f"{self.home}/sessions/*/*/*/rollout-*-{self.id}.jsonl"):
            thread.rollout = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
            if os.path.getsize(path) and os.pread(thread.rollout, 1, os.path.getsize(path) - 1) != b"\n":
                os.write(thread.rollout, b"\n")  # its last writer was killed in the middle of a line

    def do_prompt(self, text: str, **more: Any) -> None:  # type: ignore[override]
        super().do_prompt(text, **more)
        self.in_turn = True

    def do_complete(self, *words: Any, **more: Any) -> None:
        super().do_complete(*words, **more)
        self.in_turn = False

    def do_torn_line(self, pause: float) -> None:
        thread = self.thread(None)
        assert thread.rollout is not None
        payload = {"type": "token_count", "info": None}
        data = files.compact({"timestamp": files.utc(), "type": "event_msg", "payload": payload}) + b"\n"
        for part in (data[:20], data[20:]):
            os.write(thread.rollout, part)
            time.sleep(pause)

    def on_signal(self, number: int) -> int:
        if self.in_turn:
            return super().on_signal(number)
        self.end_tools()
        for id in list(self.threads):
            self.do_release(id)
        return 128 + number
