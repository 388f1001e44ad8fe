"""Gemini: POST /v1beta/models/<model>:generateContent and :streamGenerateContent (and countTokens)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.lab.model.script import Ask, Message, Reply

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "gemini"
USAGE = {"promptTokenCount": 1000, "candidatesTokenCount": 50, "totalTokenCount": 1050}
STATUSES = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 429: "RESOURCE_EXHAUSTED"}


def matches(path: str) -> bool:
    return path.endswith((":generateContent", ":streamGenerateContent", ":countTokens"))


def small_talk(path: str) -> dict[str, Any] | None:
    return {"totalTokens": 100} if path.endswith(":countTokens") else None


def read(path: str, body: dict[str, Any]) -> Ask:
    messages = tuple(message_of(content) for content in body.get("contents") or ())
    tools = tuple(
        str(function.get("name"))
        for tool in body.get("tools") or ()
        for function in tool.get("functionDeclarations") or ()
    )
    model = path.rpartition("/")[2].partition(":")[0]
    return Ask(NAME, model, path.endswith(":streamGenerateContent"), messages, tools, body)


def message_of(content: dict[str, Any]) -> Message:
    text = "\n".join(str(part.get("text") or "") for part in content.get("parts") or ())
    return Message(content.get("role") == "model", text)


def error(code: int) -> dict[str, Any]:
    return {"error": {"code": code, "message": f"fake error {code}", "status": STATUSES.get(code, "INTERNAL")}}


def whole(ask: Ask, reply: Reply, id: str) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"text": reply.text}] if reply.words else []
    return response(ask, id, [*parts, *call_parts(reply)], last=True)


def call_parts(reply: Reply) -> list[dict[str, Any]]:
    return [{"functionCall": {"name": reply.call.name, "args": reply.call.arguments}}] if reply.call else []


def response(ask: Ask, id: str, parts: list[dict[str, Any]], *, last: bool) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    if last:
        candidate["finishReason"] = "STOP"
    return {"candidates": [candidate], "usageMetadata": USAGE, "modelVersion": ask.model, "responseId": id}


def events(ask: Ask, reply: Reply, id: str) -> Iterator[bytes]:
    for word in reply.words:
        yield event(response(ask, id, [{"text": word}], last=False))
    yield event(response(ask, id, call_parts(reply), last=True))


def event(value: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(value)}\n\n".encode()
