"""Messages of a transcript that is one JSON object per line: the newest, and what is added later."""

from __future__ import annotations

from agentctl.files.bounded import decode, end_of_lines, lines_backward, lines_since
from agentctl.model import Page

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agentctl.model import Message

    Parse = Callable[[bytes], Sequence[Message]]

BACK_LIMIT = 64 * 1024 * 1024  # far enough back for any page, and a bound on a transcript without messages
STEP = 16 * 1024 * 1024
LATELY = 256 * 1024  # bytes at the end of a transcript: where a session was in its last turns
CWD = b'"cwd"'


def newest(path: str, count: int, parse: Parse) -> Page:
    """Return the last `count` messages. It reads from the end of the file, so a transcript of any size opens at
    once."""
    cursor = end_of_lines(path, BACK_LIMIT)  # first: what is added meanwhile is shown next, not lost
    messages: list[Message] = []
    if count > 0:
        for line in lines_backward(path, BACK_LIMIT, end=cursor[1]):
            messages.extend(reversed(parse(line)))
            if len(messages) >= count:
                break
    return Page(tuple(reversed(messages[:count])), cursor)


def after(path: str, cursor: object, parse: Parse) -> Page:
    """Return the messages that were added behind the cursor."""
    place = cursor if isinstance(cursor, tuple) else (0, 0)
    lines, place, restarted = lines_since(path, place, STEP)
    return Page(tuple(message for line in lines for message in parse(line)), place, restarted)


def directories(path: str) -> list[str]:
    """Return the directories that the last records of a transcript name, the newest first; none of what cannot be read:
    that is told when its session is judged."""
    found: dict[str, None] = {}
    try:
        for line in lines_backward(path, LATELY):
            record = decode(line) if CWD in line else None
            for part in (record, record.get("payload")) if record is not None else ():
                cwd = part.get("cwd") if isinstance(part, dict) else None
                if isinstance(cwd, str) and cwd.startswith("/"):
                    found[cwd] = None
    except OSError:
        return [*found]
    return [*found]
