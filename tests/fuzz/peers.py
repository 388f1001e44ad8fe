"""What comes from other programs: a socket whose far end is played, and what git and gh print."""

from __future__ import annotations

import json
import struct
import traceback
from typing import TYPE_CHECKING
from unittest import mock

from agentctl.errors import AgentctlError
from agentctl.kernel import commands
from agentctl.launch import issue
from agentctl.workspace import unsaved, worktree
from tests.fuzz import oracle

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random


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
            worktree.listing("/work", {})
            found = unsaved.changed_files("/work", {})
            assert found is not None
            unsaved.named(found)
            issue.repository_of(data.decode(errors="replace").strip())
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
        issue.parse(7, "owner/name", data.decode(errors="replace"))
    except AgentctlError:
        pass
    except Exception:  # noqa: BLE001
        return [traceback.format_exc()]
    return []
