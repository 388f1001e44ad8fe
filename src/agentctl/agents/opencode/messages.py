"""OpenCode's conversation for `peek`: rows that are rewritten while a tool runs, not lines of a file."""

from __future__ import annotations

from agentctl.agents.opencode.turn import ABORTED, SAYING_WHAT
from agentctl.model import Message, Page

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from agentctl.agents.opencode.sessions import Reading
    from agentctl.agents.opencode.turn import AnyMessage

WINDOW = 40  # newest messages that are looked at again for what was added

Key = tuple[str, int, str]  # message, place of its part, what of it


def newest(reading: Reading, count: int) -> Page:
    found = list(entries(reading, max(WINDOW, count)))
    return Page(tuple(message for _, message in found[-count:]) if count else (), seen_of(found))


def after(reading: Reading, cursor: object) -> Page:
    """Return the messages that were not there when the cursor was made."""
    seen = cursor if isinstance(cursor, frozenset) else frozenset()
    found = list(entries(reading, WINDOW))
    return Page(tuple(message for key, message in found if key not in seen), seen | seen_of(found))


def seen_of(found: list[tuple[Key, Message]]) -> frozenset[Key]:
    return frozenset(key for key, _ in found)


def entries(reading: Reading, limit: int) -> Iterator[tuple[Key, Message]]:
    """Yield the messages in order, each with a key of its own. A stored message can have no part to show, or
    several."""
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
        yield from of_tool(part, at)


def of_tool(part: dict[str, Any], at: float) -> Iterator[tuple[str, Message]]:
    """Yield the call, and its result once there is one. A pending call is none yet: its model still writes it."""
    name, state = str(part.get("tool")), part.get("state")
    if not isinstance(state, dict):
        state = {}
    status, given = state.get("status"), state.get("input")
    if status == "pending":
        return
    what = next((given[key] for key in SAYING_WHAT if given.get(key)), None) if isinstance(given, dict) else None
    yield "tool", Message("tool", f"{name}: {what}" if isinstance(what, str) else name, at, tool=name)
    if status in ("completed", "error"):
        failed = status == "error"
        output = str(state.get("error" if failed else "output") or "").strip()
        yield "result", Message("result", output, at, failed=failed)


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
