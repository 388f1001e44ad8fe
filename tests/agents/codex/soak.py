"""Codex in the soak: what it is told, and what is true once it has done it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.soak.kinds import Standin
from tests.soak.oracle import ANY, FAILED, GONE, IDLE, NOT_THERE, WAITING, WORKING, Truth

if TYPE_CHECKING:
    from pathlib import Path


class CodexLife(Standin):
    STANDIN = "tests.agents.codex.soak_standin"
    WRAPPER = "/usr/bin/codex"
    FILES = "sessions/*/*/*/rollout-*-{id}.jsonl"
    FOLDERS = ("", "sessions")
    by_hand = ("--no-daemon",)

    @classmethod
    def prepare(cls, root: Path) -> None:
        (root / "thread-writer-locks").mkdir()

    def open(self) -> None:
        self.do("open", lock=True)
        self.do("say_hello")
        if self.resumed:
            self.do("take_up")
        if self.headless:
            self.turn = WORKING
            self.expected = (*self.ends(), NOT_THERE, Truth(GONE, self.last or ANY))
            self.do("prompt", text=f"{self.mark} go")
        else:
            self.turn = IDLE

    def prompt(self) -> None:
        with self.becoming(WORKING):
            self.do("prompt", text="please do it")

    def question(self) -> None:
        with self.becoming(WAITING):
            self.do("call", command="which one?", tool="request_user_input")
            self.pending = True

    def end_turn(self, how: str) -> None:
        self.do("complete", error={"message": "no model"} if how == FAILED else None)
