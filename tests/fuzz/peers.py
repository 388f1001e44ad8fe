"""What comes from other programs: the daemon of an agent, its HTTP interface, git, gh. The far end is played here."""

from __future__ import annotations

import json
import socket
import struct
import traceback
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from agentctl import commands, github, unsaved, worktrees
from agentctl.agents import opencode_api
from agentctl.errors import AgentctlError
from tests.fuzz import mutations, oracle
from tests.fuzz.trees import is_plain
from tests.worlds import FIXTURES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from random import Random

    from tests.worlds import FixtureWorld


class Far:
    """A socket whose other end has said all that it will ever say."""

    family = 1

    def __init__(self, said: bytes, rng: Random, peer: int | None = None) -> None:
        self._said = said
        self._rng = rng
        self._peer = peer

    def __enter__(self) -> Far:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def settimeout(self, seconds: float) -> None:
        pass

    def connect(self, address: object) -> None:
        pass

    def sendall(self, data: bytes) -> None:
        if self._rng.random() < 0.01:
            raise BrokenPipeError("it went away")

    def close(self) -> None:
        pass

    def getsockopt(self, *_: object) -> bytes:
        return struct.pack("3i", self._peer or 0, 0, 0)

    def recv(self, size: int) -> bytes:
        size = min(size, self._rng.choice((1, 7, 100, 65536, 65536)))
        part, self._said = self._said[:size], self._said[size:]
        return part


# Codex's daemon: a websocket


def frame(text: bytes, first: int = 0x81) -> bytes:
    size = len(text)
    if size < 126:
        return bytes((first, size)) + text
    return (
        bytes((first, 126)) + struct.pack(">H", size) + text
        if size < 65536
        else b"\x81\x7f" + struct.pack(">Q", size) + text
    )


def codex_answers(world: FixtureWorld) -> list[bytes]:
    """What it says to the four things that it is asked."""
    lines = [line for line in (FIXTURES / "codex/waiting_approval_daemon/api.txt").read_text().splitlines() if line]
    ids = sorted(world.answers or {})
    found: list[dict[str, Any]] = [json.loads(lines[0].partition(" ")[2]), json.loads(lines[1].partition(" ")[2])]
    found.append({"id": 2, "result": {"data": ids, "nextCursor": None}})
    for number, id in enumerate(ids):
        thread = {"id": id, "status": (world.answers or {})[id], "turns": []}
        found.append({"id": 3 + number, "result": {"thread": thread}})
    return [json.dumps(one).encode() for one in found]


@contextmanager
def codex_daemon(world: FixtureWorld, rng: Random) -> Iterator[str]:
    texts = codex_answers(world)
    at = rng.randrange(len(texts))
    whole = rng.random() < 0.3
    if not whole:
        texts[at] = mutations.mutate(texts[at], rng, texts)
    said = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n" + b"".join(
        frame(text, rng.choice((0x01, 0x89, 0x88, 0x02)) if rng.random() < 0.03 else 0x81) for text in texts
    )
    if whole:
        said = rng.choice((mutations.flip, mutations.cut, mutations.insert, mutations.overwrite))(said, rng, ())
    # A daemon that never comes to the end of its message.
    if rng.random() < 0.02:
        said += frame(b"x" * 60_000, 0x01) * 400
    daemon = world.daemon
    with mock.patch.object(socket, "socket", lambda *_: Far(said, rng, daemon)):
        yield f"the daemon says {said[:80]!r} ... {len(said)} bytes, damaged: {'frames' if whole else at}"


# OpenCode's HTTP interface

ANSWERS = {
    "session/status": {"ses_1": {"type": "busy"}, "ses_2": {"type": "retry", "attempt": 1, "message": "500"}},
    "question": [{"id": "que_1", "sessionID": "ses_1", "questions": [{"question": "why?", "options": []}]}],
    "permission": [
        {
            "id": "per_1",
            "sessionID": "ses_1",
            "permission": "bash",
            "patterns": ["sleep 12"],
            "metadata": {"command": "sleep 12"},
        }
    ],
}


@contextmanager
def opencode_server(world: FixtureWorld, rng: Random) -> Iterator[str]:
    """Each of its processes listens, and is asked about every directory that it has open."""
    own = sorted(world.processes.by_pid)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
    which = rng.choice(list(ANSWERS))
    made: list[bytes] = []
    ids = world.env["HOME"] and [*real_ids(world), "ses_1"]

    def answer(path: str) -> bytes:
        text = json.dumps(ANSWERS[path]).replace("ses_1", rng.choice(ids)).encode()
        if path != which:
            return head + text
        if rng.random() < 0.2:
            return mutations.mutate(head + text, rng, ())
        return head + mutations.mutate(text, rng, ())

    def opened(method: str, port: int, path: str, *_: object) -> Far:
        made.append(answer(path))
        return Far(made[-1], rng)

    with (
        mock.patch.object(opencode_api, "opened", opened),
        mock.patch.object(world.processes, "_read_ports", lambda process: [4096] if process.pid in own else []),
    ):
        yield f"{which} is answered with something else"


def real_ids(world: FixtureWorld) -> list[str]:
    import sqlite3
    from contextlib import closing

    path = f"{world.env['XDG_DATA_HOME']}/opencode/opencode.db"
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            return [id for (id,) in connection.execute("select id from session order by id")]
    except sqlite3.Error:
        return []


@contextmanager
def opencode_log(world: FixtureWorld, rng: Random) -> Iterator[str]:
    """Each process stands at the end of a line of the log, however that was damaged; or anywhere."""

    def positions(process: object, path: str) -> list[int]:
        if not is_plain(Path(path)):
            return []
        data = Path(path).read_bytes()
        ends = [data.rfind(b"\n", 0, rng.randrange(len(data) + 1)) + 1, data.rfind(b"\n") + 1, len(data), 10**15]
        return [rng.choice((ends[1], ends[1], ends[1], *ends))] * rng.choice((1, 1, 2))

    with mock.patch.object(world.processes, "_read_positions", positions):
        yield "at the end of a line"


# Programs that print

GIT = (
    b"worktree /work\0HEAD 0123456789abcdef0123456789abcdef01234567\0branch refs/heads/main\0\0"
    b"worktree /work-x\0HEAD 0123456789abcdef0123456789abcdef01234567\0branch refs/heads/x\0locked initializing\0\0"
    b"worktree /gone\0HEAD 0123456789abcdef0123456789abcdef01234567\0detached\0prunable its folder is gone\0\0",
    b"worktree /bare\0bare\0\0",
    b" M file\0?? new file\0R  to\0from\0C  copy\0of\0!! ignored\0",
    b"git@github.com:owner/name.git\n",
    b"https://user:secret@github.example.org:8443/owner/name.git\n",
)


def read_git(data: bytes) -> Sequence[str]:
    ran = commands.Ran(0, data, data)
    failures: list[str] = []
    try:
        with mock.patch.object(commands, "run", lambda *_, **__: ran):
            worktrees.listing("/work", {})
            found = unsaved.changed_files("/work", {})
            assert found is not None
            unsaved.named(found)
            github.repository_of(data.decode(errors="replace").strip())
        failures += oracle.human(ran.said)
    except AgentctlError:
        pass
    except Exception:  # noqa: BLE001 -- that is what is looked for
        failures.append(traceback.format_exc())
    return failures


GITHUB = (
    json.dumps({"title": "It fails", "body": "Always.\n", "url": "https://github.com/owner/name/issues/7"}).encode(),
    b"gh: not logged in\n",
)


def read_github(data: bytes) -> Sequence[str]:
    try:
        github.parse(7, "owner/name", data.decode(errors="replace"))
    except AgentctlError:
        pass
    except Exception:  # noqa: BLE001
        return [traceback.format_exc()]
    return []
