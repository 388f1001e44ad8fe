"""What of Claude Code is fuzzed: its registrations, its daemon's books, its transcripts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from agentctl.agents.claude_code import records, store, transcript
from agentctl.files import bounded
from tests.fuzz.agent import Big, Fuzz, InProc, Parser, lines_of, shown, texts
from tests.fuzz.files import Files, fixtures
from tests.fuzz.seeds import AT
from tests.support.worlds import Swap

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

HOMES = fixtures("claude", "claude-2.1.325")
ID = "3f2a0000-0000-4000-8000-00000000000a"
PROMPT = {"type": "user", "uuid": ID, "cwd": "/w", "timestamp": AT, "message": {"content": "do it"}}
# A record that every reader of transcripts has to take note of, in each of them.
USAGE = {
    "type": "assistant",
    "uuid": ID,
    "parentUuid": ID[::-1],
    "message": {"id": "m", "model": "x", "usage": {"input_tokens": 1}},
}


def read(data: bytes) -> Iterable[str]:
    yield from shown(records.messages_of(data))
    if (record := bounded.decode(data)) is not None:
        tail = records.judge_turn(records.Tail(), record, max_turns=False)
        yield from texts(records.with_context(records.with_title(tail, record), record))
        records.refusal(record)
        records.is_conversation(record)


def in_proc(home: Path) -> InProc:
    return InProc((("a) Z (b", "S", ("claude",)),), {})


def prepare(home: Path) -> None:
    (home / ".claude").mkdir()


FUZZ = Fuzz(
    targets={
        "claude files": (8, Files(HOMES, "sessions/*.json", "daemon.lock", "roster.json", "jobs/*/state.json")),
        "claude transcript": (12, Files(HOMES, "projects/*/*.jsonl", "subagents/*.jsonl")),
    },
    faults={
        "claude files": Swap(store, "whole_number", int),
        "claude transcript": Swap(transcript, "decode", json.loads),
    },
    parsers=(Parser(lines_of("claude*/*/.claude/projects/*/*.jsonl"), read),),
    big_files={
        "claude transcript": Big(f"home/.claude/projects/-w/{ID}.jsonl", USAGE, ID),
        "claude prompts": Big(f"home/.claude/projects/-w/{ID}.jsonl", PROMPT, ID),
        "claude registration": Big("home/.claude/sessions/4711.json", PROMPT),
        "claude roster": Big("home/.claude/daemon/roster.json", PROMPT),
    },
    prepare=prepare,
    lines=("claude/*/.claude/projects/*/*.jsonl",),
    in_proc=in_proc,
)
