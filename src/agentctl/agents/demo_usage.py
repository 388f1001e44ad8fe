"""What the demo agent's sessions have spent: one `usage` event for each call of its model."""

from __future__ import annotations

import os

from agentctl.agents.counting import Counted, Folder, Reader, Source, Spent, amount, count_lines, key_of
from agentctl.model import Problem
from agentctl.stores import decode, moment, names, text_or_none

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

NAME = "demo"


def folders(root: str, problems: list[Problem]) -> Iterator[Folder]:
    base, files = f"{root}/sessions", []
    for id in names(base):
        try:
            found = os.stat(f"{base}/{id}/events.jsonl")
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            problems.append(Problem(NAME, error.strerror or str(error), f"{base}/{id}/events.jsonl"))
            continue
        files.append((f"{id}/events.jsonl", (found.st_ino, found.st_size, found.st_mtime_ns)))
    if files:
        yield Folder(base, files, os.path.dirname)


def count(source: Source, state: dict[str, Any] | None, tick: Callable[[], None] | None = None) -> Counted:
    return count_lines(source, state, Events, tick)


class Events(Reader):
    WORDS = (b'"usage"', b'"session"', b'"prompt"')

    def item(self, offset: int, line: bytes) -> Spent | None:
        event = decode(line) or {}
        if event.get("event") in ("session", "prompt"):
            self.state["cwd"] = text_or_none(event.get("cwd")) or self.cwd
            self.state["model"] = text_or_none(event.get("model")) or self.state.get("model")
        if event.get("event") != "usage":
            return None
        given, said = amount(event.get("input")), amount(event.get("output"))
        key = key_of(NAME, self.session, offset)
        model, at = text_or_none(self.state.get("model")), moment(event.get("at"))
        return Spent(key, self.session, model, at, (given, said, None, None, None), given or 0, said or 0)
