"""What the row of a table shows of a stored session, from the last lines of its transcript.

The whole turn is some hundred KB. All it would add is how many of its calls were refused, its branch, and whether an
end marker was written: no table shows them. Where a transcript does not end in the plain way, read_tail() reads it.
"""

from __future__ import annotations

import os

from agentctl.agents.claude_records import (
    Tail,
    ends_turn,
    has_context,
    has_title,
    is_conversation,
    judge_turn,
    with_context,
    with_title,
)
from agentctl.agents.claude_transcript import (
    COMFORT_LIMIT,
    INTERESTING,
    PARENT,
    TITLES,
    Head,
    kind_of,
    read_head,
    uuid_after,
    with_older_title,
)
from agentctl.stores import CHUNK, decode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agentctl.stores import Opened

NOTHING_YET = Tail()
STEPS = (b"user", b"assistant", b"attachment")  # of a conversation: they do not begin like this


def read_row(file: Opened) -> tuple[Tail, Head] | None:
    """None: all of it has to be read. Of what has no title and no prompt, a table shows how it ended."""
    tail = glance(file)
    if tail is None or has_title(tail):
        return (tail, Head()) if tail else None
    head = read_head(file)
    return (tail, head) if head.prompt else None


def glance(file: Opened) -> Tail | None:
    """As read_tail(), without `refused`, `branch`, `cost_usd` and `orderly`. None: it has to be asked."""
    start = max(0, file.size - CHUNK)
    block = os.pread(file.fd, CHUNK, start)
    tail, titled, followed = NOTHING_YET, False, False
    begin = len(block) + 1
    while True:
        begin, after = block.rfind(b"\n", 0, begin - 1) + 1, begin - 1
        if begin == 0:
            return None
        line = block[begin:after]
        if line.startswith(PARENT):
            if any(mark in line for mark in INTERESTING):
                break  # the last step of its turn
            titled, followed = has_title(tail), True
        elif line:
            kind = kind_of(line)
            if kind is None or kind in STEPS:
                return None
            if kind in TITLES and not titled and (named := decode(line)):
                tail = with_title(tail, named)
    record = decode(line)
    if record is None or not is_step(record) or not is_conversation(record):
        return None
    tail = judge_turn(with_context(tail, record), record, max_turns=False)
    if not ends_turn(tail) and (followed or is_named_before(uuid_after(line, b'"uuid":"'), file, start + begin)):
        return None
    tail = with_model(tail, block, begin - 1)
    if not has_context(tail):
        return None
    return tail if has_title(tail) else with_older_title(tail, file, start + begin)


def is_step(record: dict[str, Any]) -> bool:
    return record.get("type") in ("user", "assistant") and not record.get("isSidechain")


def is_named_before(uuid: bytes, file: Opened, end: int) -> bool:
    """May a line before `end` descend from this one, and so have happened after it? (It need not: it may be named by
    what is not looked at.)"""
    start = max(0, end - COMFORT_LIMIT)
    return not uuid or uuid in os.pread(file.fd, end - start, start)


def with_model(tail: Tail, block: bytes, after: int) -> Tail:
    """With what the nearest step tells that has a model."""
    while tail.model is None and (newline := block.rfind(b"\n", 0, after)) >= 0:
        line, after = block[newline + 1 : after], newline
        if line.startswith(PARENT):
            record = (decode(line) or {}) if any(mark in line for mark in INTERESTING) else {}
            tail = with_context(tail, record) if is_step(record) else tail
        elif kind_of(line) in (*STEPS, None):
            break
    return tail
