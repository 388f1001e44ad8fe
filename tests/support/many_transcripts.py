"""Very many tiny transcripts, in the layout of an agent's store."""

from __future__ import annotations

import json
import os
import time
import uuid
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

FOLDERS = 50
AGE = 3600.0  # seconds


def many_transcripts(root: Path, count: int) -> list[str]:
    """Write sessions of one finished turn, in FOLDERS folders, and return their ids. They were written an hour ago."""
    written = time.time() - AGE
    ids = []
    for number in range(min(FOLDERS, count)):
        (root / "projects" / f"-work-{number}").mkdir(parents=True)
    for number in range(count):
        id = str(uuid.UUID(int=number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128, version=4))
        path = root / "projects" / f"-work-{number % FOLDERS}" / f"{id}.jsonl"
        path.write_bytes(finished_turn(id, f"/work/{number % FOLDERS}", written))
        os.utime(path, (written, written))
        ids.append(id)
    return ids


def finished_turn(id: str, cwd: str, at: float) -> bytes:
    when = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(at))
    shared = {"sessionId": id, "timestamp": when, "cwd": cwd, "version": "2.1.0", "isSidechain": False}
    prompt = {**shared, "type": "user", "uuid": "u1", "parentUuid": None, "message": {"role": "user", "content": "go"}}
    message = {
        "id": "m1",
        "role": "assistant",
        "model": "m",
        "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "done"}],
    }
    answer = {**shared, "type": "assistant", "uuid": "u2", "parentUuid": "u1", "message": message}
    return b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in (prompt, answer))
