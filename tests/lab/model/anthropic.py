"""Anthropic Messages: POST /v1/messages (and count_tokens)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.lab.model.script import SIDE, Ask, Message, Reply

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "anthropic"
USAGE = {"input_tokens": 11, "cache_creation_input_tokens": 7, "cache_read_input_tokens": 5, "output_tokens": 3}
ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}
# Claude Code asks a model to judge its background sessions, in these words.
JOB_CLASSIFIER = "decide which of four states"
JOB_DONE = {"state": "done", "detail": "finished", "tempo": "idle", "needs": None, "output": {"result": "finished"}}


def matches(path: str) -> bool:
    return path.startswith("/v1/messages")


def small_talk(path: str) -> dict[str, Any] | None:
    return {"input_tokens": 100} if path.endswith("/count_tokens") else None


def read(path: str, body: dict[str, Any]) -> Ask:
    messages = tuple(
        Message(message.get("role") == "assistant", text_of(message.get("content")))
        for message in body.get("messages") or ()
    )
    tools = tuple(str(tool.get("name")) for tool in body.get("tools") or ())
    side = json.dumps(JOB_DONE) if JOB_CLASSIFIER in json.dumps(body.get("system") or "") else SIDE
    return Ask(NAME, str(body.get("model")), bool(body.get("stream")), messages, tools, body, side)


def text_of(content: object) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else ()
    return "\n".join(str(block.get("text")) for block in blocks if block.get("type") == "text")


def error(code: int) -> dict[str, Any]:
    return {"type": "error", "error": {"type": ERRORS.get(code, "api_error"), "message": f"fake error {code}"}}


def whole(ask: Ask, reply: Reply, id: str) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": reply.text}] if reply.words else []
    if reply.call:
        content.append(tool_use(reply, id, reply.call.arguments))
    return {**envelope(ask, id), "content": content, "stop_reason": stop_reason(reply)}


def envelope(ask: Ask, id: str) -> dict[str, Any]:
    empty: list[object] = []
    fixed = {"id": f"msg_{id}", "type": "message", "role": "assistant", "model": ask.model}
    return {**fixed, "content": empty, "stop_reason": None, "stop_sequence": None, "usage": USAGE}


def tool_use(reply: Reply, id: str, given: dict[str, Any]) -> dict[str, Any]:
    assert reply.call is not None
    return {"type": "tool_use", "id": f"toolu_{id}", "name": reply.call.name, "input": given}


def stop_reason(reply: Reply) -> str:
    return "tool_use" if reply.call else "end_turn"


def events(ask: Ask, reply: Reply, id: str) -> Iterator[bytes]:
    yield event("message_start", message=envelope(ask, id))
    index = 0
    if reply.words:
        yield event("content_block_start", index=index, content_block={"type": "text", "text": ""})
        for word in reply.words:
            yield event("content_block_delta", index=index, delta={"type": "text_delta", "text": word})
        yield event("content_block_stop", index=index)
        index += 1
    if reply.call:
        given = json.dumps(reply.call.arguments)
        yield event("content_block_start", index=index, content_block=tool_use(reply, id, {}))
        yield event("content_block_delta", index=index, delta={"type": "input_json_delta", "partial_json": given})
        yield event("content_block_stop", index=index)
    end = {"stop_reason": stop_reason(reply), "stop_sequence": None}
    yield event("message_delta", delta=end, usage={"output_tokens": 42})
    yield event("message_stop")


def event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()
