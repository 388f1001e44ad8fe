"""OpenCode's conversation for `peek`: rows that are rewritten while a tool runs, not lines of a file."""

from __future__ import annotations

from agentctl.agents.opencode_turn import ABORTED, SAYING_WHAT
from agentctl.model import Message, Page

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from agentctl.agents.opencode_sessions import Reading
    from agentctl.agents.opencode_turn import AnyMessage

WINDOW = 40  # newest messages that are looked at again for what was added

Key = tuple[str, int, str]  # message, place of its part, what of it


def newest(reading: Reading, count: int) -> Page:
    found = list(entries(reading, max(WINDOW, count)))
    return Page(tuple(message for _, message in found[-count:]) if count else (), seen_of(found))


def after(reading: Reading, cursor: object) -> Page:
    """What is there now and was not when the cursor was made."""
    seen = cursor if isinstance(cursor, frozenset) else frozenset()
    found = list(entries(reading, WINDOW))
    return Page(tuple(message for key, message in found if key not in seen), seen | seen_of(found))


def seen_of(found: list[tuple[Key, Message]]) -> frozenset[Key]:
    return frozenset(key for key, _ in found)


def entries(reading: Reading, limit: int) -> Iterator[tuple[Key, Message]]:
    """In order, each with a name of its own. Every stored message gives at least nothing and at most its parts."""
    newest: Sequence[AnyMessage] = reading.source.messages(reading.row, limit)
    for stored in reversed(newest):
        data = stored.data or {}
        for place, part in enumerate(reading.source.parts(stored.id)):
            for what, message in of_part(data, part.data, part.created):
                yield (stored.id, place, what), message
        if (failed := of_error(stored, data)) is not None:
            yield (stored.id, -1, "error"), failed


def of_part(message: dict[str, Any], part: dict[str, Any], at: float) -> Iterator[tuple[str, Message]]:
    kind = part.get("type")
    text = part.get("text")
    if kind == "text" and isinstance(text, str) and text.strip() and not part.get("synthetic"):
        role = "user" if message.get("role") == "user" else "assistant"
        yield "text", Message(role, unquoted(text) if role == "user" else text.strip(), at)
    elif kind == "tool":
        state = part.get("state")
        state = state if isinstance(state, dict) else {}
        name = str(part.get("tool"))
        if state.get("status") == "pending":
            return  # the model is still writing what it is to do
        given = state.get("input")
        told = next((given[key] for key in SAYING_WHAT if given.get(key)), None) if isinstance(given, dict) else None
        yield "tool", Message("tool", f"{name}: {told}" if isinstance(told, str) else name, at, tool=name)
        if state.get("status") in ("completed", "error"):
            failed = state["status"] == "error"
            said = str(state.get("error" if failed else "output") or "").strip()
            yield "result", Message("result", said, at, failed=failed)


def of_error(stored: AnyMessage, message: dict[str, Any]) -> Message | None:
    error = message.get("error")
    if not isinstance(error, dict):
        return None
    data = error.get("data")
    said = data.get("message") if isinstance(data, dict) else None
    text = "the turn was aborted" if error.get("name") == ABORTED else str(said or error.get("name"))
    return Message("note", text, stored.written, failed=True)


def unquoted(text: str) -> str:
    """`opencode run "a b"` stores the quotes, too."""
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text
