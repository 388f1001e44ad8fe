"""The conversation of an OpenCode session, for people.

Its rows are written over as it goes on: a text is stored empty and filled when it is whole, a call gets its result. So
to go on reading means: the last two turns once more, without what was shown.
"""

from __future__ import annotations

from agentctl.agents.opencode_turn import ABORTED, error_text, is_prompt, said, state_of, unquoted
from agentctl.model import Message, Page, Value
from agentctl.stores import TOO_LONG, moment, text_or_none

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from agentctl.agents.opencode_db import Database
    from agentctl.agents.opencode_json import Folder
    from agentctl.agents.opencode_turn import Message as Stored
    from agentctl.agents.opencode_turn import Part, Row

LIMIT = 2000  # stored messages that are read at once; each is a step of a model, with its calls
RECENT = 40
TURNS = 2  # a prompt may be queued while the turn before it still goes on


class Cursor(Value):
    since: float = 0.0
    shown: frozenset[str] = frozenset()


def newest(source: Database | Folder, row: Row, count: int) -> Page:
    stored = source.messages(row, min(max(count, RECENT), LIMIT))[::-1]
    found = list(entries_of(source, stored))
    shown = tuple(entry for _, entry in found[-count:]) if count else ()
    return Page(shown, cursor_of(stored, (name for name, _ in found)))


def after(source: Database | Folder, row: Row, cursor: object) -> Page:
    place = cursor if isinstance(cursor, Cursor) else Cursor()
    stored = source.messages_since(row, place.since, LIMIT)
    found = list(entries_of(source, stored))
    fresh = tuple(entry for name, entry in found if name not in place.shown)
    return Page(fresh, cursor_of(stored, (name for name, _ in found)) if stored else place)


def cursor_of(stored: Sequence[Stored], shown: Iterable[str]) -> Cursor:
    prompts = [one.created for one in stored if is_prompt(one)]
    since = prompts[-TURNS] if len(prompts) >= TURNS else 0.0
    return Cursor(since, frozenset(shown))


def entries_of(source: Database | Folder, stored: Sequence[Stored]) -> Iterator[tuple[str, Message]]:
    """Each entry with a name of its own."""
    for message in stored:
        data = message.data or {}
        role = "user" if is_prompt(message) else "assistant"
        for index, part in enumerate(source.parts(message.id)):
            for entry in entries_of_part(part, role, message.created):
                yield f"{message.id}/{index}/{entry.role}", entry
        if isinstance(error := data.get("error"), dict):
            text = "the turn was aborted" if error.get("name") == ABORTED else error_text(error)
            yield f"{message.id}/error", Message("note", text, message.written, failed=True)


def entries_of_part(part: Part, role: str, created: float) -> Iterator[Message]:
    if part.data.get("type") == "text" and not part.data.get("synthetic"):
        if text := (text_or_none(part.data.get("text")) or "").strip():
            mine = role == "user"
            yield Message(role, unquoted(text) if mine else text, created if mine else part.created)
    elif part.data.get("type") == "tool" and (state := state_of(part)).get("status") != "pending":
        name, what = str(part.data.get("tool")), said(state.get("input"))
        yield Message("tool", f"{name}: {what}" if what else name, part.created, tool=name)
        if state.get("status") in ("completed", "error"):
            failed = state["status"] == "error"
            output = state.get("error" if failed else "output", TOO_LONG.decode())
            yield Message("result", str(output).strip(), ended(state) or part.written, failed=failed)


def ended(state: dict[str, Any]) -> float | None:
    time = state.get("time")
    return moment(time.get("end")) if isinstance(time, dict) else None
