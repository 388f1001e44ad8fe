"""Answers a request by the command that a person would run, as a process of its own.

So an answer cannot differ from that of the command line, nothing is remembered, and a store that hangs hangs no daemon.
Those who ask the same within 50 ms share one look.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time

from agentctl.errors import AgentctlError
from agentctl.launches.records import MARKER
from agentctl.model import Value
from agentctl.server import mortal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from agentctl.server.operations import Command, Operation

COMMAND = (sys.executable, "-P", "-m", "agentctl")
MORTAL = (sys.executable, "-I", "-S", mortal.__file__)  # what it executes ends with the daemon
SHARED = 0.05  # seconds
MOST_AT_ONCE, MOST_WAITS = 8, 64  # processes
MOST_IN_LINE = 256  # requests that wait for one of those
BUSY = "the daemon is busy: too many requests at once; try again in a moment"


class Busy(AgentctlError):
    pass


class Answered(Value):
    """What a command said."""

    code: int
    document: Mapping[str, Any] | None  # its JSON
    message: str  # its stderr, without our name in front


class Shared:
    """A look that is under way, and how many wait for it."""

    def __init__(self, task: asyncio.Task[Answered]) -> None:
        self.task, self.began, self.count = task, time.monotonic(), 0


class Asking:
    """Runs commands, a few at a time. For the thread of the event loop."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = {name: value for name, value in env.items() if name != MARKER}
        self._room, self._room_to_wait = asyncio.Semaphore(MOST_AT_ONCE), asyncio.Semaphore(MOST_WAITS)
        self._in_line = 0
        self._looks: dict[tuple[str, ...], Shared] = {}
        self._acting: set[asyncio.Task[Answered]] = set()

    async def answer(self, operation: Operation, command: Command, caller: Mapping[str, str]) -> Answered:
        """Return what the command says. If this is cancelled, so is a command that only looks or waits; one that acts
        goes on. `caller`: which launch asks, for commands that act."""
        if operation.acts:
            task = asyncio.ensure_future(self._run(operation, command, caller))
            self._acting.add(task)
            task.add_done_callback(self._acting.discard)
            return await asyncio.shield(task)
        if operation.waits:
            return await self._run(operation, command, {})
        return await self._shared(operation, command)

    async def _shared(self, operation: Operation, command: Command) -> Answered:
        look = self._looks.get(command.words)
        if look is None or time.monotonic() - look.began > SHARED or look.task.cancelled():
            look = Shared(asyncio.ensure_future(self._run(operation, command, {})))
            self._looks[command.words] = look
        look.count += 1
        try:
            return await asyncio.shield(look.task)
        finally:
            look.count -= 1
            if not look.count:
                look.task.cancel()  # nobody wants it any more
                if self._looks.get(command.words) is look:
                    del self._looks[command.words]

    async def _run(self, operation: Operation, command: Command, caller: Mapping[str, str]) -> Answered:
        room = self._room_to_wait if operation.waits else self._room
        if room.locked() and self._in_line >= MOST_IN_LINE:
            raise Busy(BUSY)
        self._in_line += 1
        try:
            await room.acquire()
        finally:
            self._in_line -= 1
        try:
            return await self._process(operation, command, caller)
        finally:
            room.release()

    async def _process(self, operation: Operation, command: Command, caller: Mapping[str, str]) -> Answered:
        program = (*MORTAL, str(os.getpid()), *COMMAND) if operation.waits else COMMAND
        child = await asyncio.create_subprocess_exec(
            *program,
            *command.words,
            env={**self._env, **caller},
            cwd="/",
            stdin=asyncio.subprocess.PIPE if command.stdin is not None else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            said, complained = await child.communicate(command.stdin.encode() if command.stdin is not None else None)
        except asyncio.CancelledError:
            if not operation.acts and child.returncode is None:
                child.terminate()  # our own child, which we have not waited for: its pid is its own
                await child.wait()
            raise
        return answered(operation, child.returncode or 0, said, complained)


def answered(operation: Operation, code: int, said: bytes, complained: bytes) -> Answered:
    """Return what a command said, from its bytes."""
    return Answered(code, document_in(said, lines=operation.lines), message_in(complained))


def document_in(said: bytes, *, lines: bool) -> dict[str, Any] | None:
    """Return the JSON object that a command has printed; of several lines the last. None: it has printed none."""
    try:
        found = json.loads(said.splitlines()[-1] if lines else said)
    except (ValueError, IndexError):
        return None
    return found if isinstance(found, dict) else None


def message_in(complained: bytes) -> str:
    lines = complained.decode(errors="replace").splitlines()
    return "\n".join(line.removeprefix("agentctl: ") for line in lines)


def in_whose_name(pid: str) -> Mapping[str, str]:
    """Return the marker of the launch that a caller descends from: an agent asks as if it ran the command itself."""
    from agentctl.server.peer import marker_of

    return marker_of(pid, MARKER) if os.path.isdir("/proc") else {}
