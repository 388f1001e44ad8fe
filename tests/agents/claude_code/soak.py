"""Claude Code in the soak: what it is told, and what is true once it has done it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.soak.kinds import Standin
from tests.soak.oracle import ANY, FAILED, GONE, IDLE, NOT_THERE, WAITING, WORKING, Truth

if TYPE_CHECKING:
    from pathlib import Path


class ClaudeLife(Standin):
    STANDIN = "tests.agents.claude_code.soak_standin"
    FILES = "projects/*/{id}.jsonl"
    FOLDERS = ("", "projects")
    tears = ("torn_line", "torn_status")
    style = "new"

    def environment(self, *, wrapped: bool = False, style: str = "new") -> dict[str, str]:
        self.style = style
        return {**super().environment(wrapped=wrapped), "SOAK_STYLE": style}

    def registrations(self) -> list[Path]:
        paths = [self.world.roots[self.agent] / "sessions" / f"{pid}.json" for pid in self.pids]
        return [path for path in paths if path.exists() and (self.id or "-") in path.read_text()]

    def status(self, status: str, waiting_for: str | None = None) -> None:
        self.do("status", status=None if self.is_old else status, waiting_for=waiting_for)

    @property
    def is_old(self) -> bool:
        """The older version gives no status in headless runs."""
        return self.headless and self.style == "old"

    def open(self) -> None:
        self.do("say_hello")
        if self.headless:
            self.turn = WORKING
            self.expected = (*self.ends(), NOT_THERE, Truth(GONE, self.last or ANY))
            self.do("register", status=None if self.is_old else "busy")
            self.do("prompt", text=f"{self.mark} go")
        else:
            self.turn = IDLE
            self.do("register", status="idle")

    def prompt(self) -> None:
        with self.becoming(WORKING):
            self.status("busy")
            self.do("prompt", text="please do it")

    def question(self) -> None:
        with self.becoming(WAITING):
            self.do("call", command="rm -rf build")
            self.pending = True
            self.status("waiting", "permission prompt")

    def end_turn(self, how: str) -> None:
        if how == FAILED:
            self.do("api_error", code=500, error="server_error")
        else:
            self.do("answer")
        if not self.is_old:
            self.status("idle")
