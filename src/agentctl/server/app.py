"""What the daemon answers: its health, its stream of events, and the JSON of commands."""

from __future__ import annotations

import asyncio
import contextlib
import json

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.routing import Route

from agentctl.errors import AgentctlError, UsageError
from agentctl.live import segments
from agentctl.server import openapi
from agentctl.server.asking import Asking, Busy, in_whose_name
from agentctl.server.operations import OPERATIONS, command_of, values_in
from agentctl.server.streams import Asked, EventStream, until_it_leaves

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import Any

    from starlette.requests import Request
    from starlette.responses import Response

    from agentctl.live.log import Log
    from agentctl.server.asking import Answered
    from agentctl.server.hub import Hub
    from agentctl.server.operations import Operation
    from agentctl.server.place import Identity
    from agentctl.server.recorder import Recorder

STATUS_OF_CODE = {0: 200, 1: 500, 2: 400, 3: 404, 4: 409, 5: 503, 124: 504}
CODE_OF_STATUS = {404: 3, 405: 2}
LARGEST_BODY = 8 * 1024 * 1024
CODE = "agentctl-exit-code"  # a header
LEFT = 499  # nobody gets it


class Json(JSONResponse):
    """ASCII: what a file name that is not UTF-8 becomes in JSON (a lone surrogate) has no bytes in UTF-8."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, ensure_ascii=True).encode()


def make_app(
    env: Mapping[str, str], identity: Identity, log: Log, hub: Hub, recorder: Recorder, tell: Callable[[str], None]
) -> Starlette:
    asking = Asking(env)

    async def health(request: Request) -> Response:
        return Json(await run_in_threadpool(health_json, identity, log, hub, recorder))

    async def events(request: Request) -> EventStream:
        return EventStream(Asked(request), log, hub, recorder.started.wait)

    async def document(request: Request) -> Response:
        return Json(openapi.document())

    async def failed(request: Request, error: Exception) -> Response:
        tell(f"a bug of ours: {request.method} {request.url.path}: {type(error).__name__}: {error}")
        return refusal(1, f"{type(error).__name__}: {error}; `agentctl daemon logs` shows more")

    own = [Route("/v1/health", health), Route("/v1/events", events), Route("/v1/openapi.json", document)]
    commands = [Route(one.path, endpoint(one, asking), methods=[one.method]) for one in OPERATIONS]
    return Starlette(
        routes=[*own, *commands],
        exception_handlers={AgentctlError: refused, HTTPException: not_served, Exception: failed},
    )


def endpoint(operation: Operation, asking: Asking) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        values = values_in(operation, request.query_params.multi_items())
        if operation.method != "GET":
            if values:
                raise UsageError(f"{operation.path} takes a JSON object as its body, and no query")
            values = await body_of(request)
        command = command_of(operation, {**values, **request.path_params})
        caller = in_whose_name(request.client.host) if operation.acts and request.client is not None else {}
        found = await unless_it_leaves(asking.answer(operation, command, caller), request)
        return Json(None, LEFT) if found is None else response(operation, found)

    return answer


async def body_of(request: Request) -> dict[str, Any]:
    """Return the JSON object of a request. Raises UsageError."""
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > LARGEST_BODY:
            raise UsageError(f"the body is larger than {LARGEST_BODY // 1024 // 1024} MB")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the body is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise UsageError("the body is no JSON object")
    return found


async def unless_it_leaves(answer: Awaitable[Answered], request: Request) -> Answered | None:
    """Wait for an answer; None once nobody waits for it any more."""
    asking = asyncio.ensure_future(answer)
    leaving = asyncio.ensure_future(until_it_leaves(request.receive))
    try:
        await asyncio.wait((asking, leaving), return_when=asyncio.FIRST_COMPLETED)
        return asking.result() if asking.done() else None
    finally:
        leaving.cancel()
        if not asking.done():
            asking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asking


def response(operation: Operation, found: Answered) -> Response:
    """Return the answer of a command: its JSON; and its exit code and text if it failed."""
    if found.document is not None and (found.code == 0 or operation.waits):
        return Json(found.document, headers={CODE: str(found.code)})
    return refusal(found.code, found.message, document=found.document)


async def refused(request: Request, error: Exception) -> Response:
    code = error.exit_code if isinstance(error, AgentctlError) else 1
    return refusal(code, str(error), 503 if isinstance(error, Busy) else None)


async def not_served(request: Request, error: Exception) -> Response:
    """Say what HTTP itself refuses as commands say it."""
    assert isinstance(error, HTTPException)
    words = f"{request.method} {request.url.path}: {error.detail}; GET /v1/openapi.json says what there is"
    found = refusal(CODE_OF_STATUS.get(error.status_code, 2), words, error.status_code)
    found.headers.update(error.headers or {})
    return found


def refusal(code: int, message: str, status: int | None = None, document: Mapping[str, Any] | None = None) -> Response:
    """Return an error with the exit code and the text of the command, and what it printed all the same."""
    body = {"schema": 1, **(document or {}), "error": {"exit_code": code, "message": message}}
    return Json(body, status or STATUS_OF_CODE.get(code, 500), headers={CODE: str(code)})


def health_json(identity: Identity, log: Log, hub: Hub, recorder: Recorder) -> dict[str, Any]:
    return {
        "schema": 1,
        "version": identity.version,
        "pid": identity.key.pid,
        "key": str(identity.key),
        "socket": identity.socket,
        "started_at": identity.started_at,
        "events": {
            "log": log.log or None,
            "seq": log.seq,
            "segments": len(segments.names(log.folder)),
            "lost": log.lost,
            "problem": log.why,
            "listeners": hub.count,
        },
        "engine": {"looked": recorder.started.is_set(), "problem": recorder.failure},
    }
