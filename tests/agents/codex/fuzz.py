"""What of Codex is fuzzed: its rollouts, its locks, and what its daemon says."""

from __future__ import annotations

import json
import shutil
import socket
import struct
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from agentctl.agents.codex import calls, messages, rollout, store
from agentctl.agents.codex.socket import Connection, Told
from tests.agents.codex.fixtures import said_by_daemon
from tests.fuzz import mutations
from tests.fuzz.agent import Big, Fuzz, InProc, Parser, lines_of, shown, texts
from tests.fuzz.files import Files, fixtures
from tests.fuzz.peers import Far
from tests.fuzz.seeds import AT
from tests.support.worlds import FIXTURES, Swap

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from random import Random

    from tests.support.worlds import FixtureWorld

HOMES = fixtures("codex")
THREAD = "01a1e088-0a83-7532-a8bd-0c9c4bdcef5d"
ROLLOUT = f"home/.codex/sessions/2026/11/15/rollout-2026-11-15T18-36-49-{THREAD}.jsonl"
ITEM = {"timestamp": AT, "type": "response_item", "payload": {"type": "message", "role": "user", "content": []}}
CALL = {**ITEM, "payload": {"type": "function_call", "call_id": "c", "name": "exec_command", "arguments": "{}"}}


def read(data: bytes) -> Iterable[str]:
    yield from shown(messages.messages_of(data))
    if (found := rollout.payload_of(data)) is not None:
        yield from texts(rollout.from_meta(found[1]))
        yield from texts(rollout.judge_turn(rollout.Tail(), found[1]))
        calls.describe_call(found[1])


# Its daemon: a websocket


def frame(text: bytes, first: int = 0x81) -> bytes:
    size = len(text)
    if size < 126:
        return bytes((first, size)) + text
    return (
        bytes((first, 126)) + struct.pack(">H", size) + text
        if size < 65536
        else b"\x81\x7f" + struct.pack(">Q", size) + text
    )


def answers_of(daemon_says: dict[str, dict[str, Any]]) -> list[bytes]:
    """What it says to the four things that it is asked."""
    lines = [line for line in (FIXTURES / "codex/waiting_approval_daemon/api.txt").read_text().splitlines() if line]
    ids = sorted(daemon_says)
    found: list[dict[str, Any]] = [json.loads(lines[0].partition(" ")[2]), json.loads(lines[1].partition(" ")[2])]
    found.append({"id": 2, "result": {"data": ids, "nextCursor": None}})
    for number, id in enumerate(ids):
        thread = {"id": id, "status": daemon_says[id], "turns": []}
        found.append({"id": 3 + number, "result": {"thread": thread}})
    return [json.dumps(one).encode() for one in found]


@contextmanager
def daemon(world: FixtureWorld, rng: Random) -> Iterator[str]:
    pid, said_of_each = said_by_daemon(Path(world.env["HOME"]))
    answers = answers_of(said_of_each)
    at = rng.randrange(len(answers))
    whole = rng.random() < 0.3
    if not whole:
        answers[at] = mutations.mutate(answers[at], rng, answers)
    said = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n" + b"".join(
        frame(text, rng.choice((0x01, 0x89, 0x88, 0x02)) if rng.random() < 0.03 else 0x81) for text in answers
    )
    if whole:
        said = rng.choice((mutations.flip, mutations.cut, mutations.insert, mutations.overwrite))(said, rng, ())
    # A daemon that never comes to the end of its message.
    if rng.random() < 0.02:
        said += frame(b"x" * 60_000, 0x01) * 400
    with mock.patch.object(socket, "socket", lambda *_: Far(said, rng, pid)):
        yield f"the daemon says {said[:80]!r} ... {len(said)} bytes, damaged: {'frames' if whole else at}"


def told_of(connection: Any, id: str) -> Any:
    thread = connection.call("thread/read", {"threadId": id})["thread"]
    return Told({"type": thread["status"]["type"]}, thread["cwd"])


def in_proc(home: Path) -> InProc:
    root = home / "codex_home"
    shutil.copytree(FIXTURES / "codex" / "running_mid_tool" / "codex_home", root)
    processes = (("codex", "S", ("codex", "exec", "--json", "do it")), ("codex", "Z", ()))
    locked = sorted((root / "thread-writer-locks").glob("[!.]*.lock"))
    return InProc(processes, {"CODEX_HOME": str(root)}, locked=tuple(locked))


FUZZ = Fuzz(
    targets={
        "codex rollout": (10, Files(HOMES, "rollout-*.jsonl", "session_index.jsonl")),
        "codex files": (3, Files(HOMES, "thread-writer-locks/*.lock", "daemon.pid")),
        "codex socket": (6, Files(fixtures("codex", having="api.txt"), peer=daemon, swapped=False)),
    },
    faults={
        "codex rollout": Swap(rollout, "decode", json.loads),
        "codex files": Swap(store, "whole_number", int),
        "codex socket": Swap(Connection, "told", told_of),
    },
    parsers=(Parser(lines_of("codex/*/codex_home/sessions/*/*/*/*.jsonl"), read),),
    big_files={
        "codex rollout": Big(ROLLOUT, ITEM, THREAD),
        "codex calls": Big(ROLLOUT, CALL, THREAD),
        "codex names": Big("home/.codex/session_index.jsonl", {"id": THREAD, "thread_name": "n"}),
    },
    lines=("codex/*/codex_home/sessions/**/*.jsonl",),
    in_proc=in_proc,
)
