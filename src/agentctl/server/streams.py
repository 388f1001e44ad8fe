"""The stream of events as server-sent events: what the log has since then, then each as it is told.

A listener that reads too slowly is cut off with a gap, and goes on from the log with the last id that it got. So what
the daemon keeps for it is bounded, and no event is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import time

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from agentctl.agents import chosen
from agentctl.errors import UsageError
from agentctl.live.difference import CHECKPOINT, TYPES
from agentctl.live.entries import GAP, Filter
from agentctl.live.segments import gap_of, replay, since_of
from agentctl.server.hub import TOO_SLOW, frame_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from agentctl.live.entries import Entry
    from agentctl.live.log import Log
    from agentctl.server.hub import Hub, Listener, Standing

KEEP_ALIVE = 15.0  # seconds
FIRST_LOOK = 60.0  # seconds
SEND_PATIENCE = 30.0  # seconds for a listener to take what was sent
AT_ONCE = 256  # entries of the log that are read in one go
NAMES = ("since", "follow", "type", "agent", "group")
YES, NO = ("true", "1"), ("false", "0")


class Asked:
    """What somebody wants of the stream, as the request has it. Raises UsageError."""

    def __init__(self, request: Request) -> None:
        given = request.query_params
        for name in given:
            if name not in NAMES:
                raise UsageError(f"{name}: unknown parameter; there are {', '.join(NAMES)}")
        types, agents = given.getlist("type"), given.getlist("agent")
        for type in types:
            if type not in TYPES:
                raise UsageError(f"type {type!r}: no such type; there are {', '.join(TYPES)}")
        follow = given.get("follow", "true")
        if follow not in (*YES, *NO):
            raise UsageError(f"follow={follow}: give true or false")
        self.follow = follow in YES
        self.wanted = Filter(frozenset(types or TYPES), chosen(agents or None), given.get("group"))
        last = request.headers.get("last-event-id") or given.get("since")
        self.since = since_of(last, time.time()) if last else None


class EventStream:
    """An answer that goes on."""

    def __init__(self, asked: Asked, log: Log, hub: Hub, looked: Callable[[float], bool]) -> None:
        """`looked`: waits until the first look is over: before that, nobody knows how things are."""
        self._asked, self._log, self._hub, self._looked = asked, log, hub, looked

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        telling = asyncio.ensure_future(self._tell(send))
        leaving = asyncio.ensure_future(until_it_leaves(receive))
        try:
            await asyncio.wait((telling, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (telling, leaving):
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError, TimeoutError, OSError, ClientDisconnect):
                await telling

    async def _tell(self, send: Send) -> None:
        if self._asked.since is None:
            await run_in_threadpool(self._looked, FIRST_LOOK)
        standing = await run_in_threadpool(self._hub.where_it_stands, self._log)
        listener = self._hub.join(self._asked.wanted, standing.turn)
        try:
            await self._tell_past(send, standing)
            if self._asked.follow:
                await self._tell_on(send, listener)
        finally:
            self._hub.leave(listener)
        await put(send, b"", more=False)

    async def _tell_past(self, send: Send, standing: Standing) -> None:
        """Send what the log has, and what it could not be given. Without `since`, only how things are."""
        past = self._past(standing)
        while found := await run_in_threadpool(some_of, past):
            shown = [one for one in map(self._asked.wanted.of, found) if one is not None]
            await put(send, b"".join(frame_of(one) for one in shown))

    def _past(self, standing: Standing) -> Iterator[Entry]:
        since = self._asked.since
        unsure = since is None  # how things are is to be said at the end
        for entry in replay(self._log.folder, since, standing.last) if since is not None else ():
            unsure = entry["type"] == GAP or (unsure and entry["type"] != CHECKPOINT)
            yield entry
        if standing.missing is not None and since is not None:
            unsure = True
            yield gap_of(self._log.log, standing.last, standing.missing, None)
        if unsure and standing.seen is not None:
            yield self._log.checkpoint(standing.seen, standing.last)

    async def _tell_on(self, send: Send, listener: Listener) -> None:
        while True:
            found = await listener.some(KEEP_ALIVE)
            if listener.cut:
                if not self._hub.ending:
                    await put(send, frame_of({**gap_of("", 0, TOO_SLOW, None), "log": None, "seq": None}))
                return
            await put(send, b"".join(told.frame for told in found) or b": here\n\n")


def some_of(entries: Iterator[Entry]) -> list[Entry]:
    return [entry for _, entry in zip(range(AT_ONCE), entries, strict=False)]


async def put(send: Send, data: bytes, *, more: bool = True) -> None:
    """Send bytes, and wait until they are taken, but not for ever."""
    if data or not more:
        message = {"type": "http.response.body", "body": data, "more_body": more}
        await asyncio.wait_for(send(message), SEND_PATIENCE)


async def until_it_leaves(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
