"""What the demo agent's sessions have spent: one `usage` event for each call of its model."""

from __future__ import annotations

import os

from agentctl.agents.demo.adapter import is_id
from agentctl.agents.usage_base import (
    Counted,
    Folder,
    Reader,
    Source,
    Spent,
    Usage,
    amount,
    count_lines,
    key_of,
    stamp_of,
)
from agentctl.files.bounded import moment, text_or_none
from agentctl.model import RECORD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from agentctl.files.reader import Reader as Files
    from agentctl.model import Problem

NAME = "demo"


class DemoUsage(Usage):
    def folders(self, files: Files, problems: list[Problem]) -> Iterator[Folder]:
        base, events = f"{files.root}/sessions", []
        for id in files.names(base):
            stray = not is_id(id) and os.path.isfile(f"{base}/{id}")
            if not stray and (found := files.stat(f"{base}/{id}/events.jsonl", RECORD)) is not None:
                events.append((f"{id}/events.jsonl", stamp_of(found)))
        if events:
            yield Folder(base, events, os.path.dirname)

    def count(self, source: Source, state: dict[str, Any] | None, tick: Callable[[], None] | None = None) -> Counted:
        return count_lines(source, state, Events, tick)


class Events(Reader):
    WORDS = (b'"usage"', b'"session"', b'"prompt"')

    def item(self, offset: int, line: bytes) -> Spent | None:
        event = self.decoded(line) or {}
        if event.get("event") in ("session", "prompt"):
            self.state["cwd"] = text_or_none(event.get("cwd")) or self.cwd
            self.state["model"] = text_or_none(event.get("model")) or self.state.get("model")
        if event.get("event") != "usage":
            return None
        given, said = amount(event.get("input")), amount(event.get("output"))
        key = key_of(NAME, self.session, offset)
        model, at = text_or_none(self.state.get("model")), moment(event.get("at"))
        return Spent(key, self.session, model, at, (given, said, None, None, None), given or 0, said or 0)


USAGE = DemoUsage()
