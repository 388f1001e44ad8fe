"""The OpenAPI document, made of the table of operations. Pure."""

from __future__ import annotations

from agentctl import __version__
from agentctl.live.difference import TYPES
from agentctl.server import operations
from agentctl.server.operations import (
    AGENT_OPTIONS,
    FLAG,
    ID,
    IDS,
    LARGEST_NUMBER,
    LONGEST_TEXT,
    MOST,
    NUMBER,
    OPERATIONS,
    PAIRS,
    PLACE,
    STDIN,
    TEXTS,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agentctl.server.operations import Given, Operation

ERRORS = {
    "400": "exit code 2: what was given is wrong",
    "404": "exit code 3: not found, or ambiguous",
    "409": "exit code 4: refused",
    "500": "exit code 1: failed",
    "503": "exit code 5: agentctl cannot know; or the daemon is busy (exit code 1)",
    "504": "exit code 124: it did not happen in time",
}
ID_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,100}$"


def document() -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = described(operation)
    paths["/v1/health"] = {"get": health()}
    paths["/v1/events"] = {"get": events()}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "agentctl",
            "version": __version__,
            "description": "The JSON of agentctl's commands, on a Unix socket. docs/json.md describes the shapes.",
        },
        "paths": paths,
        "components": {"schemas": {"Error": error_schema()}},
    }


def described(operation: Operation) -> dict[str, Any]:
    answer = {"description": "as the command prints it", **json_of(answer_schema(operation))}
    found: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.about,
        "description": f"As `agentctl {operation.verb} --json`.",
        "responses": {"200": answer, **errors()},
    }
    in_path = [given for given in operation.given if "{" + given.name + "}" in operation.path]
    others = [given for given in operation.given if given not in in_path]
    parameters = [parameter(given, "path") for given in in_path]
    if operation.method == "GET":
        parameters += [parameter(given, "query") for given in others]
    else:
        found["requestBody"] = {"required": True, **json_of(body_schema(others))}
    if parameters:
        found["parameters"] = parameters
    return found


def parameter(given: Given, where: str) -> dict[str, Any]:
    return {
        "name": given.name,
        "in": where,
        "required": given.required,
        "description": given.about,
        "schema": schema_of(given),
    }


def body_schema(given: list[Given]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {one.name: {**schema_of(one), "description": one.about} for one in given},
        "required": [one.name for one in given if one.required],
        "additionalProperties": False,
    }


def schema_of(given: Given) -> dict[str, Any]:
    text: dict[str, Any] = {"type": "string", "maxLength": LONGEST_TEXT}
    if given.choices:
        text = {"type": "string", "enum": [*given.choices]}
    id = {"type": "string", "pattern": ID_PATTERN}
    schemas: dict[str, dict[str, Any]] = {
        FLAG: {"type": "boolean"},
        NUMBER: {"type": "integer", "minimum": 0, "maximum": LARGEST_NUMBER},
        PAIRS: {"type": "object", "additionalProperties": text, "maxProperties": MOST},
        ID: id,
        IDS: {"type": "array", "items": id, "maxItems": MOST},
        TEXTS: {"type": "array", "items": text, "maxItems": MOST},
        AGENT_OPTIONS: {"type": "array", "items": text, "maxItems": MOST},
        PLACE: {**text, "pattern": "^/"},
        STDIN: {"type": "string"},
    }
    return schemas.get(given.kind, text)


def answer_schema(operation: Operation) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"schema": {"const": 1}},
        "required": ["schema", *operation.answer],
    }


def error_schema() -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "schema": {"const": 1},
            "error": {
                "type": "object",
                "properties": {"exit_code": {"type": "integer"}, "message": {"type": "string"}},
                "required": ["exit_code", "message"],
            },
        },
        "required": ["schema", "error"],
    }


def errors() -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Error"}
    return {status: {"description": about, **json_of(schema)} for status, about in ERRORS.items()}


def json_of(schema: dict[str, Any]) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": schema}}}


def health() -> dict[str, Any]:
    wanted = ["schema", "version", "pid", "key", "socket", "events", "engine"]
    schema = {"type": "object", "required": wanted}
    return {
        "operationId": "health",
        "summary": "how the daemon itself is; it says nothing of sessions",
        "responses": {"200": {"description": "it answers", **json_of(schema)}, **errors()},
    }


def events() -> dict[str, Any]:
    given = (
        operations.Given("since", "text", "", "after this number, id or time; the header Last-Event-ID overrides it"),
        operations.Given("follow", FLAG, "", "go on with each event (default); false: end after the last one"),
        operations.Given("type", TEXTS, "", "only this type; may be repeated", choices=TYPES),
        operations.AGENTS,
        operations.GROUP,
    )
    return {
        "operationId": "events",
        "summary": "what changes, as server-sent events; the id of each is for Last-Event-ID",
        "parameters": [parameter(one, "query") for one in given],
        "responses": {
            "200": {
                "description": "a stream; its data are the lines of `agentctl events --since --json`",
                "content": {"text/event-stream": {"schema": {"type": "string"}}},
            },
            **errors(),
        },
    }
