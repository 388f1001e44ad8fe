"""Tokens: each is counted once, whoever repeats it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.agents.claude_code.torture import Claude
from tests.agents.codex.torture import Codex
from tests.agents.opencode import standin_files
from tests.agents.opencode.torture import OpenCode
from tests.torture.registry import case
from tests.torture.standins.files import random_id, timed_id

if TYPE_CHECKING:
    from typing import Any

    from tests.torture.world import World


@case("usage-once")
def usage_once(world: World) -> None:
    """usage that is repeated on every line, and sub-agents"""
    claude = Claude.spawn(world, "busy", headless=True).mid_tool()
    claude.do("subagent", id="a1b2c3d4e5f6a7b8c", calls=3)
    claude.do("result")
    claude.do("answer")
    claude.leave()
    codex = Codex.spawn(world).mid_model()
    codex.do("call", command="true")
    codex.do("result")
    child = timed_id()
    codex.do("open", id=child)
    codex.do("prompt", id=child, text="look", parent=codex.id)
    codex.do("complete", id=child)
    codex.do("complete")
    codex.leave()
    wanted = {claude.id: 2 * 42, "a1b2c3d4e5f6a7b8c": 3 * 42, codex.id: 2 * 50, child: 50}
    for id, output in wanted.items():
        tokens = (world.ask("status", id).get("session") or {}).get("tokens") or {}
        world.says(f"{id[:8]}: {output} output tokens", str(tokens.get("output")), tokens.get("output") == output)
    check_usage(world, wanted)


@case("usage-once")
def usage_once_in_forks(world: World) -> None:
    """a fork repeats its parent's message ids, and its own cost counter goes on from there"""
    claude = Claude.spawn(world, "busy", headless=True).mid_tool()
    claude.do("result")
    claude.do("answer")
    claude.leave()
    signed = fork(claude, [{"type": "queue-operation", "timestamp": "2100-01-01T00:00:00.000Z"}])
    bare = fork(claude, [])
    opencode = OpenCode.spawn(world, "run").finished()
    branch = standin_files.timed_id("ses")
    opencode.do("branch", id=opencode.id, new=branch)
    opencode.leave()
    check_usage(world, {claude.id: 84, opencode.id: 40}, at_most={signed: 0, branch: 0, bare: 84})


def fork(claude: Claude, head: list[dict[str, Any]]) -> str:
    """As --fork-session does it: a new file with the old records under a new session id."""
    id = random_id()
    copied = claude.transcript.read_text().replace(claude.id, id)
    lines = "".join(json.dumps(line) + "\n" for line in head)
    claude.transcript.with_name(f"{id}.jsonl").write_text(lines + copied)
    return id


def check_usage(world: World, wanted: dict[str, int], at_most: dict[str, int] | None = None) -> None:
    """Output tokens by session, and of all: the real command, with no index, with one, and by each heading."""
    whole = sum(wanted.values())
    for attempt in ("the first time", "from the index"):
        answer = world.ask("usage", "--by", "session", "--since", "all")
        rows = {row["key"]: row["tokens"]["output"] for row in answer.get("rows", ())}
        total = answer.get("total", {}).get("tokens", {}).get("output")
        world.says(f"{whole} output tokens in all, {attempt}", f"{total}: {rows}", total == whole)
    shared = {id: rows.get(id) or 0 for id in at_most or {}}
    same = {id: rows.get(id) for id in wanted} == wanted or any(shared.values())  # a copy without a mark may have them
    world.says("each session its own", str(rows), same and sum(rows.values()) == whole)
    world.says(
        "a copy has no more than it copied",
        str(shared),
        all(shared[id] <= most for id, most in (at_most or {}).items()),
    )
    for by in ("day", "agent", "model", "project", "group"):
        answer = world.ask("usage", "--by", by, "--since", "all")
        counts = [row["tokens"]["output"] for row in answer.get("rows", ())]
        world.says(f"{whole} by {by}", str(counts), sum(count or 0 for count in counts) == whole)
