"""The two kinds of agents that the soak leads: stand-ins, and real ones that do what their prompt says."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from tests.soak.lives import UNDER_WAY, Life, Watcher
from tests.soak.oracle import ALIVE, GONE, IDLE, WAITING, WORKING, Truth
from tests.soak.world import Line, Lost
from tests.torture.handles import Handle, WorldError


class Standin(Life):
    """An agent for which a stand-in runs, which does what it is told."""

    STANDIN: str  # the module with `build(words)`, which makes what runs in its process (standin.py)
    WRAPPER: str | None = None  # the script that a node process around it runs, if its program is started by one
    headless_words = frozenset({"-p", "exec"})
    resume_words = frozenset({"--resume", "resume"})
    tears: tuple[str, ...] = ("torn_line",)  # what it can be in the middle of
    outlives_its_leader = True  # and can still be told from others then
    by_hand: tuple[str, ...] = ()  # what a person types behind its name
    reopens = False  # its screen can be opened again on a session that has ended
    FOLDERS: tuple[str, ...] = ("",)  # of its store, in whose place something else may be; "" is the store itself
    log_is_held = False
    pending = False  # a call without a result
    headless = resumed = False

    def greet(self, line: Line, watcher: Watcher) -> bool:
        """It has said who it is."""
        self.line = line
        self.pending = False
        hello = line.hello
        self.id = hello["id"]
        self.has_other_name = hello["name"] != self.world.program(self.agent).name
        alive = self.has_process(hello["pid"], hello["start"], watcher, self.popen)
        words = hello["words"]
        self.headless = not self.headless_words.isdisjoint(words)
        self.resumed = not self.resume_words.isdisjoint(words)
        return alive

    def environment(self, *, wrapped: bool = False, style: str = "new") -> dict[str, str]:
        return {"SOAK_WRAPPED": "1"} if wrapped and self.WRAPPER else {}

    @property
    def can_be_late(self) -> bool:
        """Can what it logs come later than what it does?"""
        return False

    def hold_log(self, on: bool) -> None:
        """What it logs comes later from now on; or all of it comes now."""
        raise NotImplementedError

    def reopened(self) -> list[str]:
        """What a person types to open its screen on its session again."""
        raise NotImplementedError

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

    def left_open(self) -> bool | None:
        """Once its process is gone: does what it wrote end in a turn without an end? None: only its orders tell."""
        return None

    def learn_end(self, before: tuple[str, str]) -> None:
        """It was killed as it was given a prompt. Whether it had written any of that, its store alone tells: if not,
        its last turn is the one before, and nobody can know more. `before`: its turn, and how the last one ended."""
        is_open = self.left_open()
        if is_open is None or self.alive:
            return
        if not is_open:
            self.turn, self.last = before
        elif self.turn not in UNDER_WAY:
            self.turn = WORKING
        self.expected = self.ends()
        self.timeline.is_now(time.monotonic(), *self.expected)

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


class Scripted(Life):
    """A real agent that does what its prompt says, and then goes on when it is let."""

    first = ""  # of its script

    @property
    def can_be_told(self) -> bool:
        return not self.launched or self.turn != IDLE

    def words(self, kind: str) -> str:
        """Return a prompt that leads to what `kind` says, and stays there."""
        raise NotImplementedError

    def tool_words(self, command: str) -> str:
        """Return the part of a prompt that has its tool run this command."""
        raise NotImplementedError

    def argv(self) -> list[str]:
        """Return the command by which a person starts it at its prompt, with its id."""
        raise NotImplementedError

    def await_turn(self, turn: str) -> None:
        """Wait until it says that this very prompt has come to this turn; Lost if it ends on the way."""
        raise NotImplementedError

    def has_written(self, kind: str) -> bool:
        """Is the end of the turn of this very prompt in its store, with this result?"""
        raise NotImplementedError

    def has_tool_result(self) -> bool:
        raise NotImplementedError

    def is_at_its_prompt(self) -> bool:
        raise NotImplementedError

    def turn_is_over(self) -> bool:
        """Is the end of the turn of this very prompt the last that it wrote?"""
        raise NotImplementedError

    def let_on(self, turn: str) -> None:
        """Let it go on from this turn, which then ends well."""
        raise NotImplementedError

    def type(self, text: str) -> None:
        """Type into its terminal."""
        raise NotImplementedError
