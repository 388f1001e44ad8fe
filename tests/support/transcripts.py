"""The transcripts of real agents, and what may become of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.worlds import FIXTURES

if TYPE_CHECKING:
    import random
    from pathlib import Path

CLAUDE = sorted(FIXTURES.glob("claude*/*/.claude/projects/*/*.jsonl"))
CODEX = sorted(FIXTURES.glob("codex/*/codex_home/sessions/*/*/*/*.jsonl"))
CLAUDE_SEEN = sorted(FIXTURES.glob("lab-evidence/claude*.jsonl"))
CODEX_SEEN = sorted(FIXTURES.glob("lab-evidence/codex*.jsonl"))
SUBAGENTS = sorted(FIXTURES.glob("claude*/*/.claude/projects/*/*/subagents/*.jsonl"))


def mutated(samples: list[Path], chance: random.Random) -> bytes:
    """Conversations one after the other, with lines lost, doubled, out of order, of others, and torn."""
    lines = [
        line for path in chance.choices(samples, k=chance.randint(1, 4)) for line in path.read_bytes().split(b"\n")
    ]
    for _ in range(chance.randint(0, 6)):
        at = chance.randrange(len(lines))
        match chance.randrange(5):
            case 0:
                del lines[at]
            case 1:
                lines.insert(chance.randrange(len(lines)), lines[at])
            case 2:
                lines.insert(chance.randrange(len(lines)), lines.pop(at))
            case 3:
                # Of its last brackets none stays: a line that lacks but one looks whole unless it is decoded.
                lines[at] = lines[at][: chance.randrange(len(lines[at]) + 1)].rstrip(b"}")
            case _:
                lines[at] = (
                    lines[at].replace(b'"gitBranch":"', b'"gitBranch":"",":"').replace(b'"turn_id":"0', b'"turn_id":"9')
                )
        lines = lines or [b""]
    return b"\n".join(lines)
