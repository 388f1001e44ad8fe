"""OpenAI chat completions: POST /v1/chat/completions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.lab.model.script import Ask, Message, Reply

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "chat"
CREATED = 1_700_000_000
USAGE = {
    "prompt_tokens": 1000,
    "completion_tokens": 50,
    "total_tokens": 1050,
    "prompt_tokens_details": {"cached_tokens": 200},
    "completion_tokens_details": {"reasoning_tokens": 10},
}


def matches(path: str) -> bool:
    return path.endswith("/chat/completions")


def small_talk(path: str) -> dict[str, Any] | None:
    return None


def read(path: str, body: dict[str, Any]) -> Ask:
    messages = tuple(message_of(message) for message in body.get("messages") or ())
    tools = tuple(str((tool.get("function") or {}).get("name")) for tool in body.get("tools") or ())
    return Ask(NAME, str(body.get("model")), bool(body.get("stream")), messages, tools, body)


def message_of(message: dict[str, Any]) -> Message:
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    text = "\n".join(str(part.get("text") or "") for part in parts)
    return Message(message.get("role") == "assistant", text if message.get("role") == "user" else "")


def error(code: int) -> dict[str, Any]:
    return {"error": {"message": f"fake error {code}", "type": "fake_error", "code": "fake"}}


def whole(ask: Ask, reply: Reply, id: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text if reply.words else None}
    if reply.call:
        message["tool_calls"] = [tool_call(reply, id)]
    choice = {"index": 0, "message": message, "finish_reason": finish_reason(reply)}
    return {**envelope(ask, id, "chat.completion"), "choices": [choice], "usage": USAGE}


def envelope(ask: Ask, id: str, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{id}", "object": kind, "created": CREATED, "model": ask.model}


def tool_call(reply: Reply, id: str) -> dict[str, Any]:
    assert reply.call is not None
    function = {"name": reply.call.name, "arguments": json.dumps(reply.call.arguments)}
    return {"id": f"call_{id}", "type": "function", "function": function}


def finish_reason(reply: Reply) -> str:
    return "tool_calls" if reply.call else "stop"


def events(ask: Ask, reply: Reply, id: str) -> Iterator[bytes]:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return event({**envelope(ask, id, "chat.completion.chunk"), "choices": [choice]})

    yield chunk({"role": "assistant", "content": ""})
    for word in reply.words:
        yield chunk({"content": word})
    if reply.call:
        yield chunk({"tool_calls": [{"index": 0, **tool_call(reply, id)}]})
    yield chunk({}, finish_reason(reply))
    yield event({**envelope(ask, id, "chat.completion.chunk"), "choices": [], "usage": USAGE})
    yield b"data: [DONE]\n\n"


def event(value: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(value)}\n\n".encode()
