"""A long table reads no more of a transcript than its rows show: each cell is what the whole reading says."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentctl.agents.claude_code.records import Tail, has_title
from agentctl.agents.claude_code.row import glance
from agentctl.agents.claude_code.transcript import read_tail
from agentctl.cli.list import columns_of
from agentctl.files.bounded import Opened
from agentctl.kernel import processes
from agentctl.query import sessions, store_reader
from agentctl.query.sessions import Scope, query
from tests.support.stored_home import Home, count_reads, settle
from tests.support.transcripts import CLAUDE, CLAUDE_SEEN, CODEX, SUBAGENTS, mutated

if TYPE_CHECKING:
    from pathlib import Path

    from agentctl.model import Session

NOT_IN_A_TABLE = {
    "refused": 0,
    "branch": None,
    "cost_usd": None,
    "orderly": None,
    "last_prompt": None,
    "prompted_at": None,
}


def shown(tail: Tail) -> Tail:
    return tail._replace(**NOT_IN_A_TABLE)


def titles(text: str) -> list[bytes]:
    """As the agent writes them again and again, and as nobody does."""
    custom, ai = {"type": "custom-title", "customTitle": text}, {"type": "ai-title", "aiTitle": text}
    return [
        *(json.dumps(one, separators=(",", ":")).encode() for one in (custom, ai)),
        json.dumps({"sessionId": "s", **ai}).encode(),
        b'{"type":"ai-title","aiTitle":"torn',
        b'{"type":"last-prompt","lastPrompt":"x"}\n{"type":"mode","mode":"normal"}',
    ]


@pytest.mark.parametrize("seed", range(30))
def test_a_glance_is_what_the_whole_walk_says(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    answered = titled = 0
    for number in range(60):
        path = tmp_path / f"{number}.jsonl"
        lines = mutated([*CLAUDE, *SUBAGENTS, *CLAUDE_SEEN], chance).split(b"\n")
        for place in range(chance.randrange(4)):
            lines.insert(chance.randrange(len(lines) + 1), chance.choice(titles(f"title {place}")))
        path.write_bytes(b"\n".join(lines) + chance.choice([b"\n", b""]))
        with Opened(str(path)) as file:
            if (found := glance(file)) is not None:
                assert shown(read_tail(file)) == shown(found)
                answered += 1
                titled += has_title(found)
    assert 0 < titled <= answered < 60


MADE = (
    "answer result call prompt system title custom mode long odd side vague failed cut interrupt command limit note "
    "shell cost last latch hook".split()
)
STEPS = st.lists(
    st.sampled_from([*MADE]),
    max_size=30,
)


def line_of(step: str, number: int, size: int, parent: int) -> bytes:
    def record(kind: str, **fields: Any) -> dict[str, Any]:
        own = {"uuid": f"00000000-0000-4000-8000-{number:012}", "timestamp": "2026-11-15T18:36:49.146Z"}
        about = {"cwd": "/work", "version": "2.1.325", "gitBranch": "trunk" if number % 3 else ""}
        above = f"00000000-0000-4000-8000-{parent:012}" if parent % 7 else None
        return {"parentUuid": above, "isSidechain": False, **fields, "type": kind, **own, **about}

    def said(role: str, **fields: Any) -> dict[str, Any]:
        return {"message": {"role": role, **({"model": f"m{number}"} if role == "assistant" else {}), **fields}}

    text = [{"type": "text", "text": "x" * size}]
    made = {
        "answer": record("assistant", **said("assistant", content=text, stop_reason="end_turn")),
        "call": record("assistant", **said("assistant", content=[{"type": "tool_use"}], stop_reason="tool_use")),
        "result": record("user", **said("user", content=[{"type": "tool_result", "content": "x" * size}])),
        "prompt": record("user", **said("user", content="do it")),
        "system": record("system", subtype="turn_duration"),
        "side": record("assistant", **said("assistant", content=text, stop_reason="end_turn")) | {"isSidechain": True},
        "vague": record("assistant", **said("assistant", content=text)),
        "failed": record("assistant", **said("assistant", content=text), isApiErrorMessage=True),
        "cut": record("assistant", message={"model": "<synthetic>", "content": text, "stop_reason": "end_turn"}),
        "interrupt": record("user", message={"content": "[Request interrupted by user]"}),
        "command": record("user", message={"content": "<command-name>/exit</command-name>"}),
        "note": record("user", message={"content": "x" * size}, isMeta=True),
        "shell": record("user", message={"content": "<bash-stdout>x</bash-stdout>"}) | {"version": "2.1.197"},
        "cost": {"type": "cost-state"},
        "last": {"type": "last-prompt"},
        "latch": {"type": "atis-latch"},
        "hook": record("attachment", attachment={"type": "hook_stopped_continuation"}),
        "limit": record("attachment", attachment={"type": "max_turns_reached"}),
        "title": {"type": "ai-title", "aiTitle": f"title {number}"},
        "custom": {"type": "custom-title", "customTitle": f"custom {number}"},
        "mode": {"type": "mode", "mode": "normal"},
        "long": {"type": "api-request", "blob": "x" * (size + 20_000)},
        "odd": {"odd": "user", "type": "user"},
    }
    return json.dumps(made[step], separators=(",", ":")).encode()


@settings(deadline=None, max_examples=300)
@given(
    steps=STEPS,
    sizes=st.lists(st.sampled_from([0, 500, 5_000, 15_000]), min_size=30, max_size=30),
    parents=st.permutations(range(30)) | st.just([*range(-1, 29)]),
    ended=st.booleans(),
)
def test_a_glance_is_what_the_whole_walk_says_of_any_order(
    steps: list[str], sizes: list[int], parents: list[int], ended: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("rows") / "a.jsonl"
    lines = [line_of(step, number, sizes[number], parents[number]) for number, step in enumerate(steps)]
    path.write_bytes(b"\n".join(lines) + (b"\n" if ended else b""))
    with Opened(str(path)) as file:
        if (found := glance(file)) is not None:
            assert shown(read_tail(file)) == shown(found)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setattr(sessions, "snapshot", lambda agents: processes.Processes("boot", [], taken_at=float("inf")))
    return Home(tmp_path)


def rows(found: tuple[Session, ...]) -> dict[str, list[str]]:
    ages = [str(session.started_at) for session in found]  # to the moment: an hour may end meanwhile
    since = [str(session.status_since) for session in found]
    ids = {session.id: session.id for session in found}
    return columns_of([(session, "") for session in found], ids) | {"AGE": ages, "SINCE": since}


@pytest.mark.parametrize("seed", range(4))
def test_every_row_is_the_same(seed: int, tmp_path: Path, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    for path in home.transcripts():
        if chance.random() < 0.5:
            path.write_bytes(mutated(CLAUDE if ".claude" in path.parts else CODEX, chance))
            settle(path)
    brief, whole = Scope(since=0.0, brief=True), Scope(since=0.0)
    with monkeypatch.context() as patch:
        patch.setattr(store_reader, "MANY", 10**9)
        expected = query(whole, home.env)
    for _ in range(2):  # read, and from the cache
        found = query(brief, home.env)
        assert rows(found.sessions) == rows(expected.sessions)
        assert found.problems == expected.problems
    assert found.sessions != expected.sessions  # less was read
    assert query(whole, home.env) == expected
    opened = count_reads(monkeypatch)
    assert query(brief, home.env) == expected  # all is known now, and told
    assert {*opened} <= {problem.path for problem in expected.problems}  # what cannot be read is read again, and told
