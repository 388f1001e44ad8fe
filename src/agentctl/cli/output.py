"""What people and programs see: JSON of the stable shapes, tables, and text that cannot play tricks on a terminal."""

from __future__ import annotations

import os
import sys
import time

from agentctl.stores import LATEST_MOMENT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from agentctl.model import Problem, Session, Unattached

SCHEMA = 1
STATUS_COLOURS = {
    "waiting": "33;1",
    "running": "32",
    "idle": "36",
    "alive": "36",
    "unknown": "35",
    "failed": "31",
    "stopped": "31",
    "done": "2",
}

# Fields of Session that are not part of its JSON: `why` shows them, or they only serve us.
NOT_IN_JSON = ("rule", "rejected", "store", "path")
TIMES = ("started_at", "updated_at", "ended_at")
FIRST = ("id", "agent", "agent_version")


def utc(moment: float | None) -> str | None:
    """Seconds since 1970 as ISO 8601 in UTC, with milliseconds; None for what no agent can mean: a file can be of any
    time, before 1970 and after the year 9999."""
    if moment is None or not 0 <= moment < LATEST_MOMENT:
        return None
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(moment))}.{int(moment % 1 * 1000):03d}Z"


def clock(moment: float | None) -> str:
    """The time of day here; nothing where there is none."""
    if moment is None or not 0 <= moment < LATEST_MOMENT:
        return ""
    return time.strftime("%H:%M:%S", time.localtime(moment))


def session_json(session: Session) -> dict[str, object]:
    found = {**dict.fromkeys(FIRST), **session._asdict()}
    for name in NOT_IN_JSON:
        del found[name]
    for name in TIMES:
        found[name] = utc(found[name])
    if session.tokens is not None:
        found["tokens"] = session.tokens._asdict()
    evidence = []
    for fact in session.evidence:
        entry: dict[str, object] = {"source": fact.source, "fact": fact.fact}
        if fact.path is not None:
            entry["path"] = fact.path
        if fact.pid is not None:
            entry["pid"] = fact.pid
        entry["inferred"] = fact.inferred
        evidence.append(entry)
    found["evidence"] = evidence
    return found


def problem_json(problem: Problem) -> dict[str, object]:
    return dict(problem._asdict())


def unattached_json(unattached: Unattached) -> dict[str, object]:
    return dict(unattached._asdict())


def print_json(value: dict[str, object]) -> None:
    import json

    # Lone surrogates (a file name that is not UTF-8) are escaped, so that the output is always valid UTF-8.
    text = json.dumps({"schema": SCHEMA, **value}, ensure_ascii=False, indent=1)
    sys.stdout.write(text.encode("utf-8", "backslashreplace").decode() + "\n")


def warn(problems: Iterable[Problem]) -> None:
    for problem in problems:
        where = f": {plain(problem.path)}" if problem.path else ""
        print(f"agentctl: {problem.agent} could not be read{where}: {plain(problem.problem)}", file=sys.stderr)


def plain(text: str | None) -> str:
    """Text of a transcript, title or path as one line that no terminal obeys: control and format characters are shown,
    not sent. Bidirectional overrides are among them."""
    if not text:
        return ""
    if text.isascii() and text.isprintable():
        return text
    return (
        "".join(
            char if char.isprintable() else (" " if char in "\n\t\r" else char.encode("unicode_escape").decode())
            for char in text
        )
        .encode("utf-8", "backslashreplace")
        .decode()
    )


def shorten(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


def age(moment: float | None, now: float) -> str:
    if moment is None:
        return "-"
    seconds = max(0, int(now - moment))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def tilde(path: str | None, home: str | None = None) -> str:
    home = home or os.path.expanduser("~")
    if path and (path == home or path.startswith(home.rstrip("/") + "/")):
        path = "~" + path[len(home.rstrip("/")) :]
    return plain(path) or "-"


def short_ids(ids: Sequence[str], least: int = 8) -> dict[str, str]:
    """Each id cut to where it is still unique among these."""
    from itertools import pairwise

    ordered = sorted(set(ids))
    heads = [id[:least] for id in ordered]
    shared = {head for head, behind in pairwise(heads) if head == behind}
    found = {}
    for index, (id, head) in enumerate(zip(ordered, heads, strict=True)):
        size = least
        if head in shared:  # only with its neighbours in this order can it have more in common
            for neighbour in (*ordered[max(0, index - 1) : index], *ordered[index + 1 : index + 2]):
                while size < len(id) and neighbour.startswith(id[:size]):
                    size += 1
        found[id] = id[:size].rstrip("-") if size < len(id) else id
    return found


class Remembered(dict["str | None", str]):
    """What a function makes of a text. Thousands of rows have the same few models and directories."""

    def __init__(self, function: Callable[[str | None], str]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, text: str | None) -> str:
        self[text] = self._function(text)
        return self[text]


def width() -> int:
    if os.environ.get("COLUMNS", "").isdigit():
        return int(os.environ["COLUMNS"])
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):
        return 160


def colourful() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def coloured(text: str, status: str) -> str:
    code = STATUS_COLOURS.get(status)
    return f"\x1b[{code}m{text}\x1b[0m" if code and colourful() else text


def status_cell(session: Session) -> str:
    """The word, with ? where it is inferred and + where the process is suspended."""
    return session.status + ("?" if session.inferred else "") + ("+" if session.suspended else "")
