"""The demo agent in the soak: a real one, told by its prompts, and let go on by a FIFO that its tool reads."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import sys
import termios
import time
from typing import TYPE_CHECKING

from tests.soak.kinds import Scripted
from tests.soak.oracle import DONE, FAILED, IDLE, WAITING, WORKING
from tests.soak.world import Lost, patiently

if TYPE_CHECKING:
    from pathlib import Path

STATUS = {WORKING: "busy", WAITING: "waiting", IDLE: "idle"}


class DemoLife(Scripted):
    FILES = "sessions/{id}/events.jsonl"

    @property
    def gate(self) -> Path:
        path = self.world.folder / "gates" / self.mark
        if not path.exists():
            os.mkfifo(path)
        return path

    @property
    def folder(self) -> Path:
        return self.world.roots[self.agent] / "sessions" / (self.id or "-")

    def forget(self) -> None:
        shutil.rmtree(self.folder)

    def words(self, kind: str) -> str:
        """A prompt that leads to what `kind` says, and stays there."""
        script = {
            WORKING: f"[[bash:read x < {self.gate}]]",
            WAITING: "[[ask:true]]",
            IDLE: "[[text:hello]][[idle]]",
            DONE: "[[text:hello]]",
            FAILED: "[[fail:no model]]",
        }
        return f"{self.mark} {self.first}{script[kind]}"

    def says(self) -> str | None:
        try:
            found: str = json.loads((self.folder / "process.json").read_text())["status"]
        except (OSError, ValueError):
            return None
        return found

    def events(self) -> str:
        try:
            return (self.folder / "events.jsonl").read_text()
        except OSError:
            return ""

    def tool_words(self, command: str) -> str:
        return f"[[bash:{command}]]"

    def argv(self) -> list[str]:
        return [sys.executable, "-m", "agentctl.demo_agent", "--session-id", self.id or ""]

    def has_written(self, kind: str) -> bool:
        text = self.events()
        return self.mark in text and f'"result": "{kind}"' in text.rpartition("\n{")[2]

    def has_tool_result(self) -> bool:
        return '"tool_result"' in self.events()

    def is_at_its_prompt(self) -> bool:
        """It says so a moment before it takes keys one by one; an end of input that was typed until then would be
        lost."""
        return self.says() == "idle" and not termios.tcgetattr(self.terminal)[3] & termios.ICANON

    def turn_is_over(self) -> bool:
        return '"turn_end"' in self.events().partition(self.mark)[2] and self.says() == "idle"

    def await_turn(self, turn: str) -> None:
        status = STATUS[turn]
        patiently(f"{self.id} says {status}", lambda: self.died_at is not None or self.has_prompt(status))
        if self.died_at is not None:
            raise Lost("it ended on the way")

    def has_prompt(self, status: str) -> bool:
        """And it writes no more until somebody does something: of one that works, its tool is at the gate."""
        lines = self.events().splitlines()
        at_gate = any('"event": "tool"' in line and f"{self.gate}" in line for line in lines)
        return self.says() == status and any(self.mark in line for line in lines) and (status != "busy" or at_gate)

    def let_on(self, turn: str) -> None:
        """Through the gate, or with an answer to its question: its turn ends well."""
        if turn == WAITING:
            (self.folder / "answer").write_text("n\n")
            return
        deadline = time.monotonic() + 60.0
        while time.monotonic() < deadline and self.died_at is None:
            try:
                gate = os.open(self.gate, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:
                time.sleep(0.01)
                continue
            with contextlib.suppress(OSError):
                os.write(gate, b"x\n")
            os.close(gate)
            return

    def leave(self) -> None:
        self.may_leave()
        self.type("\x04")
        self.await_end()

    def type(self, text: str) -> None:
        self.drain()
        os.write(self.terminal, text.encode())

    def drain(self) -> None:
        poll = select.poll()  # not select(): that knows no descriptor above 1023
        poll.register(self.terminal, select.POLLIN)
        while poll.poll(0):
            try:
                if not os.read(self.terminal, 65536):
                    return
            except OSError:
                return
