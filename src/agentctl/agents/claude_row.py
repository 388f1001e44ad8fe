"""What the row of a table shows of a session whose last turn has ended, from the last lines of its transcript alone.

The whole turn is some hundred KB. All it would add is how many of its calls were refused, and its branch: no table
shows them. Where a transcript does not end in the plain way, read_tail() reads it.
"""

from __future__ import annotations

import os

from agentctl.agents.claude_records import (
    Tail,
    ends_turn,
    has_context,
    has_title,
    judge_assistant,
    with_context,
    with_title,
)
from agentctl.agents.claude_transcript import INTERESTING, PARENT, TITLES, Head, kind_of, read_head, with_older_title
from agentctl.stores import CHUNK, decode

TYPE_CHECKING = False
if TYPE_CHECKING:
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
    tail, titled = NOTHING_YET, False
    line, begin = b"", len(block) + 1
    while not (line.startswith(PARENT) and any(mark in line for mark in INTERESTING)):  # the last step of its turn
        begin, after = block.rfind(b"\n", 0, begin - 1) + 1, begin - 1
        if begin == 0:
            return None
        line = block[begin:after]
        kind = kind_of(line)
        titled = titled or (kind is None and has_title(tail))
        if kind in STEPS or not (kind or not line or line.startswith(PARENT)):
            return None
        if kind in TITLES and not titled and (named := decode(line)):
            tail = with_title(tail, named)
    record = decode(line)
    if record is None or record.get("type") != "assistant" or record.get("isSidechain"):
        return None
    tail = judge_assistant(with_context(tail, record), record)
    if not (ends_turn(tail) and has_context(tail)):
        return None
    return tail if has_title(tail) else with_older_title(tail, file, start + begin)
