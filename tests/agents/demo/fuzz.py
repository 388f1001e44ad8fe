"""What of the demo agent is fuzzed. Its live sessions are also the home in which our own files are damaged."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from agentctl.agents.demo import store
from agentctl.files import bounded
from tests.fuzz import seeds
from tests.fuzz.agent import Big, Fuzz, Parser, shown
from tests.fuzz.files import Files
from tests.fuzz.seeds import AT, add, put
from tests.support.worlds import BOOT, FixtureWorld, Swap

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.worlds import Table

IDS = ("3f2a0000-0000-4000-8000-000000000001", "3f2b0000-0000-4000-8000-000000000002", "4a" * 4 + "-1-4-8-1")
BIG = "3f2a0000-0000-4000-8000-00000000000a"
SESSIONS = "data/agentctl-demo/sessions"


def events(model: str = "demo-1") -> list[dict[str, Any]]:
    setting = {"cwd": "/work", "version": "1.0", "model": model}
    return [
        {"at": AT, "event": "session", **setting},
        {"at": AT, "event": "prompt", "text": "count the files", **setting},
        {"at": AT, "event": "text", "text": "I will look."},
        {"at": AT, "event": "tool", "command": "ls"},
        {"at": AT, "event": "tool_result", "exit": 0, "output": "a\nb\n"},
        {"at": AT, "event": "usage", "input": 120, "output": 30},
        {"at": AT, "event": "turn_end", "result": "done", "error": None, "reason": None, "refused": ["rm a"]},
        {"at": AT, "event": "prompt", "text": "and remove them", **setting},
        {"at": AT, "event": "ask", "command": "rm a b"},
    ]


def live(home: Path, table: Table, env: dict[str, str]) -> str:
    """Put three sessions into a home: one waits, one was killed, one failed. Return the id of the first.

    That is the one which a launch of ours runs: its process is seeds.LIVE, below seeds.RUNNER."""
    sessions = home / SESSIONS
    for number, (id, status) in enumerate(zip(IDS, ("waiting", "busy", None), strict=True)):
        lines = events()
        if status is None:
            lines[-1:] = [{"at": AT, "event": "turn_end", "result": "failed", "error": "no model"}]
        put(sessions / id / "events.jsonl", lines)
        if status is not None:
            who = {"pid": seeds.LIVE + number, "start_ticks": 7000 + number, "boot_id": BOOT}
            put(sessions / id / "process.json", {**who, "status": status, "waiting_for": "permission to run: rm a b"})
    argv = ("python3", "-m", "agentctl.demo_agent", "--session-id", IDS[0], "-p", "-")
    add(table, seeds.LIVE, 7000, seeds.RUNNER, "python3", argv, env, "/work")
    return IDS[0]


def home(folder: Path) -> FixtureWorld:
    return seeds.our_home(folder / "home")


def lines() -> list[bytes]:
    return [json.dumps(one).encode() for one in (*events(), *seeds.our_objects())]


def any_text(value: object) -> str | None:
    """As if all that stands where a text is expected were one."""
    return value.strip() or None if value is not None else None  # type: ignore[attr-defined]


FUZZ = Fuzz(
    targets={"demo": (6, Files([home], f"{SESSIONS}/*/*", our_files=True))},
    faults={"demo": Swap(bounded, "text_or_none", any_text)},
    parsers=(Parser(lines, lambda data: shown(store.messages_of(data))),),
    big_files={
        "demo events": Big(f"home/{SESSIONS}/{BIG}/events.jsonl", events()[5], BIG),
        "demo process": Big(f"home/{SESSIONS}/{BIG}/process.json", {}),
    },
    live=live,
)
