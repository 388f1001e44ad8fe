"""OpenAI Responses: POST /v1/responses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.lab.model.script import Ask, Message, Reply

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "responses"
USAGE = {
    "input_tokens": 1000,
    "input_tokens_details": {"cached_tokens": 400},
    "output_tokens": 50,
    "output_tokens_details": {"reasoning_tokens": 10},
    "total_tokens": 1050,
}


def matches(path: str) -> bool:
    return path.endswith("/responses")


def small_talk(path: str) -> dict[str, Any] | None:
    return None


def read(path: str, body: dict[str, Any]) -> Ask:
    given = body.get("input")
    items = [{"type": "message", "role": "user", "content": given}] if isinstance(given, str) else given or ()
    tools = tuple(name for tool in body.get("tools") or () for name in tool_names(tool))
    return Ask(
        NAME, str(body.get("model")), bool(body.get("stream")), tuple(message_of(item) for item in items), tools, body
    )


def tool_names(tool: dict[str, Any]) -> list[str]:
    """A namespace holds tools of its own, called with their bare name."""
    inner = [name for one in tool.get("tools") or () for name in tool_names(one)]
    return inner or [str(tool.get("name") or tool.get("type"))]


def message_of(item: dict[str, Any]) -> Message:
    kind = str(item.get("type") or "message")
    if kind != "message":
        return Message(by_model=not kind.endswith("_output"))
    content = item.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    text = "\n".join(str(part.get("text") or "") for part in parts)
    return Message(item.get("role") == "assistant", text if item.get("role") == "user" else "")


def error(code: int) -> dict[str, Any]:
    return {"error": {"message": f"fake error {code}", "type": "fake_error", "code": "fake"}}


def whole(ask: Ask, reply: Reply, id: str) -> dict[str, Any]:
    return {**envelope(ask, id, "completed"), "output": items_of(ask, reply, id), "usage": USAGE}


def envelope(ask: Ask, id: str, status: str) -> dict[str, Any]:
    return {"id": f"resp_{id}", "object": "response", "status": status, "model": ask.model, "output": []}


def items_of(ask: Ask, reply: Reply, id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if reply.words:
        content = [{"type": "output_text", "text": reply.text, "annotations": []}]
        found.append(
            {"type": "message", "id": f"msg_{id}", "role": "assistant", "content": content, "status": "completed"}
        )
    if reply.call:
        found.append(
            {
                "type": "function_call",
                "id": f"fc_{id}",
                "call_id": f"call_{id}",
                "name": reply.call.name,
                "arguments": json.dumps(reply.call.arguments),
                "status": "completed",
                **namespace_of(ask, reply.call.name),
            }
        )
    return found


def namespace_of(ask: Ask, name: str) -> dict[str, str]:
    for tool in ask.body.get("tools") or ():
        if tool.get("type") == "namespace" and name in tool_names(tool):
            return {"namespace": str(tool.get("name"))}
    return {}


def events(ask: Ask, reply: Reply, id: str) -> Iterator[bytes]:
    yield event("response.created", response=envelope(ask, id, "in_progress"))
    items = items_of(ask, reply, id)
    for index, item in enumerate(items):
        begun = {**item, "content": []} if item["type"] == "message" else item
        yield event("response.output_item.added", output_index=index, item={**begun, "status": "in_progress"})
        if item["type"] == "message":
            for word in reply.words:
                yield event(
                    "response.output_text.delta", output_index=index, item_id=item["id"], content_index=0, delta=word
                )
        yield event("response.output_item.done", output_index=index, item=item)
    done = {**envelope(ask, id, "completed"), "output": items, "usage": USAGE}
    yield event("response.completed", response=done)


def event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()
