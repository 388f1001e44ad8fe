"""Runs the engine in a thread, writes what it tells into the log, and hands it to whoever listens."""

from __future__ import annotations

import os
import threading
import time

from agentctl.launches.records import OWNER
from agentctl.live.engine import Engine, follow
from agentctl.model import Problem
from agentctl.query.reading import Scope

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agentctl.live.engine import Step
    from agentctl.live.log import Log
    from agentctl.server.hub import Hub

AGAIN = 5.0  # seconds after a failure of the engine, and between two tries to write the log
PATIENCE = 5.0  # seconds for the last look to end


class Recorder:
    """`tick` is called about once a second. `tell`: where failures of our own go."""

    def __init__(
        self, env: Mapping[str, str], log: Log, hub: Hub, tell: Callable[[str], None], tick: Callable[[], None]
    ) -> None:
        self._log, self._hub, self._tell, self._other_tick = log, hub, tell, tick
        self._reader, self._writer = os.pipe()
        self._env = dict(env)
        self._engine = self._new_engine()
        self._ending = threading.Event()
        self._tried = 0.0
        self.started = threading.Event()  # the first look is over
        self.failure: str | None = None  # of the engine, which is tried again
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)

    def _new_engine(self) -> Engine:
        scope = Scope(related_launches_only=True)
        return Engine(scope, self._env, reader=self._writer, tick=self._tick)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._ending.set()
        os.close(self._reader)  # the engine believes to write to this pipe: nobody reads it any more
        self._thread.join(PATIENCE)

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                for step in follow(self._engine, self._log.seen):
                    self._take(step)
                    self.failure = None
            except Exception as error:  # noqa: BLE001 -- the daemon goes on, and says so
                self.failure = f"{type(error).__name__}: {error}"
                self._tell(f"the engine failed, and is tried again in {AGAIN:g} s: {self.failure}")
                self._ending.wait(AGAIN)
                self._engine = self._new_engine()

    def _take(self, step: Step) -> None:
        with self._hub.lock:
            if step.first:
                self._log.begin(step.seen)
            self._hub.told(self._log.append(step.events, step.seen, late=step.first))
        self._note_log()
        self.started.set()

    def _tick(self) -> None:
        if self._log.lost and time.monotonic() - self._tried >= AGAIN:
            self._tried = time.monotonic()
            with self._hub.lock:
                self._log.heal()
            self._note_log()
        self._other_tick()

    def _note_log(self) -> None:
        """A log that cannot be written is a problem of ours, in the stream, too."""
        why = self._log.why
        words = f"the log of events cannot be written: {why}" if why else "the log of events is written again"
        if (why is None) == bool(self._engine.own_problems):
            self._tell(words)
        self._engine.own_problems = {(OWNER, "events"): Problem(OWNER, words, "events")} if why else {}
