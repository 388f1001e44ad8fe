"""The messages of a rollout, as a person would read them."""

from __future__ import annotations

from agentctl.agents.codex.calls import describe_call
from agentctl.agents.codex.rollout import CALLS, OUTPUTS, message_text, payload_of
from agentctl.files.bounded import moment
from agentctl.model import Message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def messages_of(line: bytes) -> list[Message]:
    """Return the messages on one line of a rollout. What the program tells the model by itself is none."""
    if b'"response_item"' not in line and b'"task_complete"' not in line and b'"turn_aborted"' not in line:
        return []
    parts = payload_of(line)
    if parts is None:
        return []
    kind, payload, record = parts
    show = {"response_item": item_message, "event_msg": event_message}.get(kind)
    message = show(payload, moment(record.get("timestamp"))) if show is not None else None
    return [message] if message is not None else []


def item_message(payload: dict[str, Any], at: float | None) -> Message | None:
    """Return what a person is shown of an item of the conversation."""
    kind = payload.get("type")
    if kind == "message" and payload.get("role") in ("user", "assistant"):
        text = message_text(payload)
        return Message(str(payload["role"]), text, at) if text and not text.startswith("<") else None
    if kind in CALLS:
        name, what = str(payload.get("name")), describe_call(payload)
        return Message("tool", what if what == name else f"{name}: {what}", at, tool=name)
    if kind in OUTPUTS:
        output = payload.get("output")
        return Message("result", output.strip() if isinstance(output, str) else str(output), at)
    return None


def event_message(payload: dict[str, Any], at: float | None) -> Message | None:
    """Return what a person is shown of the end of a turn: only what went wrong."""
    error = payload.get("error")
    if payload.get("type") == "turn_aborted":
        return Message("note", f"the turn was aborted ({payload.get('reason')})", at, failed=True)
    if payload.get("type") == "task_complete" and isinstance(error, dict):
        return Message("note", str(error.get("message")), at, failed=True)
    return None
