"""What the row of a table shows of a stored session, from the last lines of its transcript.

The whole turn is some hundred KB. All it would add is how many of its calls were refused, its branch, and whether an
end marker was written: no table shows them. Where a transcript does not end in the plain way, read_tail() reads it.
"""

from __future__ import annotations

import os

from agentctl.agents.claude_code.records import (
    NEWER,
    Tail,
    ends_turn,
    has_context,
    has_title,
    is_conversation,
    is_end_mark,
    is_unsure,
    judge_turn,
    with_context,
    with_end_mark,
    with_title,
)
from agentctl.agents.claude_code.transcript import (
    COMFORT_LIMIT,
    NOTHING_YET,
    PARENT,
    TITLES,
    Head,
    is_interesting,
    kind_of,
    read_head,
    uuid_after,
    with_older_title,
)
from agentctl.files.bounded import CHUNK, decode, is_cut, is_garbled
from agentctl.model import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agentctl.files.bounded import Opened

ENDINGS = (b"cost-state", b"last-prompt", NEWER.encode())
STEPS = (b"user", b"assistant", b"attachment")  # of a conversation: they do not begin like this


def read_row(file: Opened) -> tuple[Tail, Head] | None:
    """Return what the row of a session needs; None if all of the transcript has to be read, as for one without a title
    and a prompt: its row shows how it ended."""
    tail = glance(file)
    if tail is None or has_title(tail):
        return (tail, read_head(file, only_start=True)) if tail else None
    head = read_head(file)
    return (tail, head) if head.prompt else None


def glance(file: Opened) -> Tail | None:
    """Return what read_tail() would, without `refused`, `branch`, `cost_usd` and `orderly`; None if only read_tail()
    can tell."""
    start = max(0, file.size - CHUNK)
    block = os.pread(file.fd, CHUNK, start)
    end = read_end(block)
    record = decode(block[end.begin : end.after]) if end is not None else None
    if end is None or record is None or not is_step(record) or not is_conversation(record):
        return None
    tail = judge_turn(with_context(end.titles, record), record, max_turns=False)
    if is_end_mark(end.marks):
        tail = with_end_mark(tail)
    if is_unsure(tail):
        return None
    if not ends_turn(tail):
        uuid = uuid_after(block[end.begin : end.after], b'"uuid":"')
        if end.followed or is_named_before(uuid, file, start + end.begin):
            return None
    tail = with_model(tail, block, end.begin - 1)
    if not has_context(tail):
        return None
    return tail if has_title(tail) else with_older_title(tail, file, start + end.begin)


class End(Value):
    """The last step of a conversation in a block, and what stands behind it."""

    begin: int  # where the line of that step begins
    after: int  # and where it ends
    titles: Tail
    followed: bool  # records that are no steps follow
    marks: frozenset[str]  # the kinds of bookkeeping that follow, as far as they tell how its process ended


def read_end(block: bytes) -> End | None:
    """Return the last step in this block; None if there is none, or something else has to be decoded first."""
    tail, titled, followed = NOTHING_YET, False, False
    marks: set[str] = set()
    begin = len(block) + 1
    while True:
        begin, after = block.rfind(b"\n", 0, begin - 1) + 1, begin - 1
        if begin == 0:
            return None
        line = block[begin:after]
        if line and (is_cut(line) or is_garbled(line)):
            return None
        if line.startswith(PARENT):
            if is_interesting(line):
                return End(begin, after, tail, followed, frozenset(marks))
            titled, followed = has_title(tail), True
        elif line:
            kind = kind_of(line)
            if kind is None or kind in STEPS:
                return None
            if kind in ENDINGS:
                marks.add(kind.decode())
            if kind in TITLES and not titled and (named := decode(line)):
                tail = with_title(tail, named)


def is_step(record: dict[str, Any]) -> bool:
    return record.get("type") in ("user", "assistant") and not record.get("isSidechain")


def is_named_before(uuid: bytes, file: Opened, end: int) -> bool:
    """Return whether a line before `end` may descend from this one, and so have happened after it. (It need not: other
    text can contain the uuid.)"""
    start = max(0, end - COMFORT_LIMIT)
    return not uuid or uuid in os.pread(file.fd, end - start, start)


def with_model(tail: Tail, block: bytes, after: int) -> Tail:
    """Return the tail with what the nearest step with a model tells."""
    while tail.model is None and (newline := block.rfind(b"\n", 0, after)) >= 0:
        line, after = block[newline + 1 : after], newline
        if line.startswith(PARENT):
            record = (decode(line) or {}) if is_interesting(line) else {}
            tail = with_context(tail, record) if is_step(record) else tail
        elif kind_of(line) in (*STEPS, None):
            break
    return tail
