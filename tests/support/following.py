"""An engine in a thread of its own, and the events that it has told so far."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

from agentctl.live.engine import Engine, follow
from agentctl.query.reading import Scope
from tests.support.demo_home import TIMEOUT, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agentctl.live.difference import Event, Seen
    from agentctl.query.sessions import Look


class Following:
    """`end` closes the pipe that the engine believes to write to: then its looks end."""

    def __init__(self, env: Mapping[str, str], scope: Scope | None = None) -> None:
        self.events: list[Event] = []
        self.checkpoint: Seen | None = None
        self.error: BaseException | None = None
        self._reader, writer = os.pipe()
        self._writer = writer
        self._looks = 0
        self.between_looks = threading.Lock()  # whoever holds it changes something at once, for the engine
        self.engine = Engine(scope or Scope(related_launches_only=True), env, reader=writer)
        look = self.engine.look
        self.engine.look = lambda: self._counted(look)  # type: ignore[method-assign]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        wait_until(lambda: self.checkpoint is not None or self.error is not None, "the checkpoint")

    def _counted(self, look: Callable[[], Look]) -> Look:
        with self.between_looks:
            found = look()
        self._looks += 1
        return found

    def engine_looks_again(self) -> None:
        """Wait until what is so now was seen by two whole looks."""
        made = self._looks
        wait_until(lambda: self.error or self._looks > made + 2, "two more looks")

    def _run(self) -> None:
        try:
            for step in follow(self.engine):
                if step.first:
                    self.checkpoint = step.seen
                self.events += step.events
        except Exception as error:  # noqa: BLE001 - told by end()
            self.error = error

    def __enter__(self) -> Following:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        if self._reader >= 0:
            os.close(self._reader)
            self._reader = -1
            self._thread.join(TIMEOUT)
            assert not self._thread.is_alive(), "it goes on although nobody reads"
            os.close(self._writer)
        assert self.error is None, self.error

    def of(self, id: str | None) -> list[Event]:
        return [event for event in [*self.events] if event.id == id]

    def words(self, id: str | None) -> list[str]:
        return [f"{event.type}: {event.before} -> {event.after}" for event in self.of(id)]

    def types(self, id: str | None = None) -> list[str]:
        return [event.type for event in self.of(id)]

    def reaches(self, id: str, status: str | None) -> None:
        """Wait until the last event of a session leads to this status."""
        wait_until(lambda: self.error or ((found := self.of(id)) and found[-1].after == status), f"event to {status}")
        assert self.error is None, self.error

    def tells(self, type: str, **fields: Any) -> Event:
        """Wait for an event of this type."""

        def found() -> Event | None:
            told = (event for event in [*self.events] if event.type == type)
            return next((e for e in told if all(getattr(e, name) == fields[name] for name in fields)), None)

        event: Event = wait_until(found, f"an event {type}")
        return event
