"""OpenCode in the soak: what it is told, and what is true once it has done it."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from typing import TYPE_CHECKING, Any

from tests.soak.kinds import Standin
from tests.soak.lives import UNDER_WAY
from tests.soak.oracle import (
    ALIVE,
    ANY,
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

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LATE = 0.6  # seconds: long enough to be asked about meanwhile


class OpenCodeLife(Standin):
    """All sessions are in one database, and no file names a process: its lines in the log that all of them share do."""

    STANDIN = "tests.agents.opencode.soak_standin"
    reopens = True
    headless_words = frozenset({"run"})
    resume_words = frozenset({"--session"})
    tears = ("torn_line", "torn_write")
    outlives_its_leader = False
    begun = False  # a screen has no session before its first prompt
    ahead = 0.0  # seconds that its clock is ahead

    @property
    def truth(self) -> Truth:
        if self.begun:
            return super().truth
        return NOT_THERE if self.has_other_name else SESSIONLESS

    @property
    def is_guessed(self) -> bool:
        return not self.headless

    def set_clock(self, shift: float) -> None:
        """Never back: it takes its messages in the order of their times, and would not know its own prompt."""
        self.ahead = max(self.ahead, abs(shift))
        super().set_clock(self.ahead)

    @property
    def can_be_late(self) -> bool:
        """Not with a session that no log has: that could be anybody's."""
        return self.begun

    def reopened(self) -> list[str]:
        return ["--session", self.id or ""]

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

    def left_open(self) -> bool:
        """A prompt is stored as a message, a moment later its text, then the session's time: any of it is a trace."""
        path = self.world.roots[self.agent] / "opencode.db"
        if not path.exists():
            return False
        query = "select data from message where session_id = ? order by time_created desc, id desc limit 1"
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=60.0)) as database:
            row = database.execute(query, [self.id]).fetchone()
        if row is None:
            return False  # no turn was begun
        newest: dict[str, Any] = json.loads(row[0])
        if newest["role"] == "user":
            return True
        ended = newest.get("error") or newest["time"].get("completed")
        return not ended or newest.get("finish") == "tool-calls"  # the next step is due

    def files(self) -> list[Path]:
        root = self.world.roots[self.agent]
        paths = (root / "opencode.db", root / "opencode.db-wal", root / "log" / "opencode.log")
        return [path for path in paths if path.exists()]

    def forget(self) -> None:
        """As its own command deletes it, at once or not at all."""
        with contextlib.closing(sqlite3.connect(self.files()[0], timeout=60.0)) as database, database:
            for table, column in (("part", "session_id"), ("message", "session_id"), ("session", "id")):
                database.execute(f"delete from {table} where {column} = ?", (self.id,))
