"""The agents that the soak leads: what each of them is told, and what is true once it has done it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import sqlite3
import time
from typing import TYPE_CHECKING, Any

from tests.soak.lives import UNDER_WAY, Life, Watcher
from tests.soak.oracle import (
    ALIVE,
    ANY,
    DONE,
    FAILED,
    GONE,
    IDLE,
    INTERRUPTED,
    NOT_THERE,
    SESSIONLESS,
    WAITING,
    WORKING,
    Truth,
)
from tests.soak.world import Line, Lost, patiently
from tests.torture.handles import Handle, WorldError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Standin(Life):
    """Claude Code, Codex or OpenCode: a stand-in that does what it is told."""

    headless_words = frozenset({"-p", "exec"})
    resume_words = frozenset({"--resume", "resume"})
    tears: tuple[str, ...] = ("torn_line",)  # what it can be in the middle of
    outlives_its_leader = True  # and can still be told from others then
    pending = False  # a call without a result
    headless = resumed = False

    def greet(self, line: Line, watcher: Watcher) -> bool:
        """It has said who it is."""
        self.line = line
        self.pending = False
        hello = line.hello
        self.id = hello["id"]
        alive = self.has_process(hello["pid"], hello["start"], watcher, self.popen)
        words = hello["words"]
        self.headless = not self.headless_words.isdisjoint(words)
        self.resumed = not self.resume_words.isdisjoint(words)
        return alive

    def do(self, name: str, **arguments: Any) -> dict[str, Any]:
        if self.line is None:
            raise Lost("no line to it")
        return self.line.do(name, **arguments)

    def set_clock(self, shift: float) -> None:
        self.do("clock", shift=shift)

    def tool(self, command: str = "sleep 300") -> None:
        facts = self.do("tool", command=command)
        with contextlib.suppress(OSError, WorldError):
            self.tools.append(Handle(facts["pid"], facts["start"]))

    def answer_call(self) -> None:
        if self.turn == WAITING:  # once it is answered, it works, for as long as it has more to write
            self.timeline.may_be(time.monotonic(), Truth(ALIVE, WORKING))
        if self.pending:
            self.do("result", text="ok")
            self.pending = False

    def open(self) -> None:
        """It takes up its session: at its prompt, or with the prompt that it was started with."""
        raise NotImplementedError

    def prompt(self) -> None:
        raise NotImplementedError

    def call(self, **more: Any) -> None:
        """Of a tool that runs until somebody ends it."""
        with self.touched():
            self.do("call", command="sleep 300", **more)
            self.pending = True
            self.tool()

    def end_turn(self, how: str) -> None:
        raise NotImplementedError

    def finish(self, how: str) -> None:
        with self.becoming(IDLE, how):
            self.answer_call()
            self.end_turn(how)

    def finish_and_leave(self, how: str) -> None:
        """As runs end that were given one prompt: the end of the turn and that of the process are moments apart."""
        self.answer_call()
        self.may_end(Truth(GONE, how))
        self.timeline.may_be(time.monotonic(), Truth(ALIVE, IDLE))
        self.end_turn(how)
        if self.line is not None:
            self.line.send("end")
        self.turn, self.last = IDLE, how
        self.await_end()

    def question(self) -> None:
        raise NotImplementedError

    def leave(self) -> None:
        self.may_leave()
        if self.line is not None:
            self.line.send("end")
        self.await_end()


class ClaudeLife(Standin):
    tears = ("torn_line", "torn_status")

    def status(self, status: str, waiting_for: str | None = None) -> None:
        self.do("status", status=None if self.is_old else status, waiting_for=waiting_for)

    @property
    def is_old(self) -> bool:
        """The older version gives no status in headless runs."""
        return self.headless and self.style == "old"

    style = "new"

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


class CodexLife(Standin):
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


LATE = 0.6  # seconds: long enough to be asked about meanwhile


class OpenCodeLife(Standin):
    """All sessions are in one database, and no file names a process: its lines in the log that all of them share do."""

    headless_words = frozenset({"run"})
    resume_words = frozenset({"--session"})
    tears = ("torn_line", "torn_write")
    outlives_its_leader = False
    begun = False  # a screen has no session before its first prompt
    ahead = 0.0  # seconds that its clock is ahead
    log_is_held = False

    @property
    def truth(self) -> Truth:
        return super().truth if self.begun else SESSIONLESS

    @property
    def is_guessed(self) -> bool:
        return not self.headless

    def set_clock(self, shift: float) -> None:
        """Never back: it takes its messages in the order of their times, and would not know its own prompt."""
        self.ahead = max(self.ahead, abs(shift))
        super().set_clock(self.ahead)

    def hold_log(self, on: bool) -> None:
        self.do("hold" if on else "catch_up")
        self.log_is_held = on

    def open(self) -> None:
        self.log_is_held = False
        self.do("clock", shift=self.ahead)
        self.do("open")
        if self.resumed:
            self.do("take_up")
        if self.headless:
            self.turn = WORKING
            self.expected = (*self.ends(), NOT_THERE, Truth(GONE, self.last or ANY))
            self.do("prompt", text=f"{self.mark} go")
            self.do("step")
            self.begun = True
        else:
            self.turn, self.last = IDLE, INTERRUPTED if self.turn in UNDER_WAY else self.last

    def prompt(self) -> None:
        with self.becoming(WORKING), contextlib.ExitStack() as then:
            if not self.begun:
                self.timeline.may_be(time.monotonic(), Truth(ALIVE, IDLE))  # begun, a moment before its prompt
                then.enter_context(self.late_log())
            self.begun = True
            self.do("prompt", text="please do it")
            self.do("step")

    @contextlib.contextmanager
    def late_log(self) -> Iterator[None]:
        """No log names its session for some moments, in which nobody but us can end it."""
        self.hold_log(True)
        yield
        time.sleep(LATE)
        self.hold_log(False)

    def call(self, **more: Any) -> None:
        super().call(allowed=True, **more)

    def question(self) -> None:
        with self.becoming(WAITING):
            self.do("call", command="rm -rf build", allowed=False)
            self.pending = True

    def end_turn(self, how: str) -> None:
        if how == FAILED:
            self.do("fail", code=400)
        else:
            self.do("answer")

    def files(self) -> list[Path]:
        root = self.world.roots[self.agent]
        paths = (root / "opencode.db", root / "opencode.db-wal", root / "log" / "opencode.log")
        return [path for path in paths if path.exists()]

    def forget(self) -> None:
        """As its own command deletes it, at once or not at all."""
        with contextlib.closing(sqlite3.connect(self.files()[0], timeout=60.0)) as database, database:
            for table, column in (("part", "session_id"), ("message", "session_id"), ("session", "id")):
                database.execute(f"delete from {table} where {column} = ?", (self.id,))


class DemoLife(Life):
    """agentctl's own demo agent, a real one: told by its prompts, let go on by a FIFO that its tool reads."""

    first = ""  # of its script

    @property
    def can_be_told(self) -> bool:
        return not self.launched or self.turn != IDLE

    @property
    def gate(self) -> Path:
        path = self.world.folder / "gates" / self.mark
        if not path.exists():
            os.mkfifo(path)
        return path

    @property
    def folder(self) -> Path:
        return self.world.roots["demo"] / "sessions" / (self.id or "-")

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

    def await_turn(self, status: str) -> None:
        """By what it wrote itself, of this very prompt."""
        patiently(f"{self.id} says {status}", lambda: self.died_at is not None or self.has_prompt(status))
        if self.died_at is not None:
            raise Lost("it ended on the way")

    def has_prompt(self, status: str) -> bool:
        """And it writes no more until somebody does something: of one that works, its tool is at the gate."""
        try:
            lines = (self.folder / "events.jsonl").read_text().splitlines()
        except OSError:
            return False
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


LIVES: dict[str, type[Life]] = {
    "claude": ClaudeLife,
    "codex": CodexLife,
    "opencode": OpenCodeLife,
    "demo": DemoLife,
}
