"""Output for programs and people: JSON in its stable form, and text that is safe on a terminal."""

from __future__ import annotations

import os
import sys
import time

from agentctl import cli, durations
from agentctl.agents.base import is_random
from agentctl.cli import cells
from agentctl.config import OWNER
from agentctl.files.bounded import LATEST_MOMENT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import TextIO

    from agentctl.model import Problem, Question, Session, Unattached

SCHEMA = 1
SHORTEST = 8  # characters of an id in a sentence
# A UUID, or an id that begins with letters, as a word of its own: not a part of a path, a file name or a longer word.
WHOLE_ID = (
    r"(?<![\w/.@=-])(?:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[a-z]{2,5}_[0-9A-Za-z]{20,40})"
    r"(?![\w/@-]|\.\w)"
)
NAMED = 3  # places that a sentence names
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

# Fields of Session that are not in its JSON: `why` shows them, or they are for internal use.
NOT_IN_JSON = ("rule", "rejected", "store", "path")
TIMES = ("started_at", "updated_at", "ended_at", "status_since")
FIRST = ("id", "agent", "agent_version")


def utc(moment: float | None) -> str | None:
    """Return seconds since 1970 as ISO 8601 in UTC, with milliseconds. None before 1970 and after the year 9999: a file
    can have any time."""
    if moment is None or not 0 <= moment < LATEST_MOMENT:
        return None
    return durations.utc(moment)


def local(moment: float | None) -> str:
    """Return the local date and time, for people; an empty string if there is none."""
    if moment is None or not 0 <= moment < LATEST_MOMENT:
        return ""
    return durations.local(moment)


def clock(moment: float | None) -> str:
    """Return the local time of day; an empty string if there is none."""
    if moment is None or not 0 <= moment < LATEST_MOMENT:
        return ""
    return time.strftime("%H:%M:%S", time.localtime(moment))


def session_json(session: Session) -> dict[str, object]:
    found = {**dict.fromkeys(FIRST), **session._asdict()}
    for name in NOT_IN_JSON:
        del found[name]
    for name in TIMES:
        found[name] = utc(found[name])
    found["questions"] = [question_json(question) for question in session.questions]
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


def question_json(question: Question) -> dict[str, object]:
    found = {"id": question.id, **question._asdict(), "asked_at": utc(question.asked_at)}
    del found["own"]
    return found


def problem_json(problem: Problem) -> dict[str, object]:
    return dict(problem._asdict())


def unattached_json(unattached: Unattached) -> dict[str, object]:
    return dict(unattached._asdict())


def print_json(value: dict[str, object]) -> None:
    sys.stdout.write(json_text(value) + "\n")


def json_text(value: Mapping[str, object], *, one_line: bool = False) -> str:
    """Return the JSON of a value in its stable form."""
    import json

    # Escape lone surrogates (a file name that is not UTF-8), so that the output is valid UTF-8.
    indent = None if one_line else 1
    text = json.dumps({"schema": SCHEMA, **value}, ensure_ascii=not is_utf8(encoding()), indent=indent)
    return text.encode("utf-8", "backslashreplace").decode()


def warn(problems: Iterable[Problem]) -> None:
    for problem in problems:
        print(f"agentctl: {problem_line(problem)}", file=sys.stderr)


def problem_line(problem: Problem) -> str:
    where = f"{plain(problem.path)}: " if problem.path else ""
    whose = "" if problem.agent == OWNER else f"{problem.agent} could not be read: "
    return f"{whose}{where}{plain(problem.problem)}"


def in_what_was_read(nothing: str, problems: Sequence[Problem], hint: str = "") -> str:
    """Return the sentence for people that nothing was found: firm only if everything could be read."""
    if not problems:
        return nothing + hint
    places = list(dict.fromkeys(problem.path or problem.agent for problem in problems))
    named = ", ".join(map(tilde, places[:NAMED])) + (f" and {len(places) - NAMED} more" if len(places) > NAMED else "")
    count = "1 place" if len(places) == 1 else f"{len(places)} places"
    return f"{nothing} in what could be read{hint}; {count} could not be read: {named}"


def plain(text: str | None) -> str:
    """Return text of a transcript, title or path as one line that is safe on a terminal: control and format characters,
    bidirectional overrides among them, are shown as codes, and so is what stdout cannot write."""
    if not text:
        return ""
    if text.isascii() and text.isprintable():
        return text
    return (
        "".join(
            char if char.isprintable() else (" " if char in "\n\t\r" else char.encode("unicode_escape").decode())
            for char in text
        )
        .encode(encoding(), "backslashreplace")
        .decode(encoding())
    )


def encoding() -> str:
    """Return how stdout writes characters."""
    return getattr(sys.stdout, "encoding", None) or "utf-8"


def is_utf8(name: str) -> bool:
    return name.lower().replace("-", "").replace("_", "") == "utf8"


def drawn(sign: str, otherwise: str) -> str:
    """Return a sign that is not ASCII, or what stands for it if stdout cannot write it."""
    name = encoding()
    if is_utf8(name):
        return sign
    try:
        sign.encode(name)
    except (UnicodeError, LookupError):
        return otherwise
    return sign


def ellipsis() -> str:
    return drawn("…", "~")


def shorten(text: str, width: int) -> str:
    return cells.shorten(text, width, ellipsis())


def tilde(path: str | None, home: str | None = None) -> str:
    home = home or os.path.expanduser("~")
    if path and (path == home or path.startswith(home.rstrip("/") + "/")):
        path = "~" + path[len(home.rstrip("/")) :]
    return plain(path) or "-"


def short_ids(ids: Iterable[str], others: Iterable[str] = (), least: int = 8) -> dict[str, str]:
    """Cut each id to the length at which it is unique among these and the others."""
    from itertools import pairwise

    wanted = {*ids}
    ordered = sorted(wanted.union(others))
    heads = [id[:least] for id in ordered]
    shared = {head for head, behind in pairwise(heads) if head == behind}
    found = {}
    for index, (id, head) in enumerate(zip(ordered, heads, strict=True)):
        if id not in wanted:
            continue
        size = least
        if head in shared or head.endswith("-"):  # only its neighbours in this order can share a longer beginning
            around = (*ordered[max(0, index - 1) : index], *ordered[index + 1 : index + 2])
            for neighbour in around:
                while size < len(id) and neighbour.startswith(id[:size]):
                    size += 1
            bare = id[:size].rstrip("-") if size < len(id) else id
            size = size if any(neighbour.startswith(bare) for neighbour in around) else len(bare)
        found[id] = id[:size]
    return found


def short(id: str) -> str:
    """Return the beginning of an id that stands alone, if it is unique: eight random digits, or what the person typed;
    else the whole id."""
    typed = (word for word in cli.TYPED if len(word) >= SHORTEST and id.startswith(word))
    return plain(id[:SHORTEST] if is_random(id) else min(typed, key=len, default=id))


def for_people(text: str, stream: TextIO) -> str:
    """Return a sentence with `short` in place of each whole id of a session, if it goes to a terminal: programs, and
    whoever reads a log, get whole ids. Ids in a path stay, and so do indented lines: they quote somebody, or are ids to
    choose from."""
    if not stream.isatty():
        return text
    import re

    lines = text.split("\n")
    return "\n".join(
        line if line.startswith("  ") else re.sub(WHOLE_ID, lambda found: short(found[0]), line) for line in lines
    )


class Remembered(dict["str | None", str]):
    """The results of a function by its argument: thousands of rows have the same few models and directories."""

    def __init__(self, function: Callable[[str | None], str]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, text: str | None) -> str:
        self[text] = self._function(text)
        return self[text]


def colourful() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def coloured(text: str, status: str) -> str:
    code = STATUS_COLOURS.get(status)
    return f"\x1b[{code}m{text}\x1b[0m" if code and colourful() else text


def status_cell(session: Session) -> str:
    """Return the status, with ? if it is inferred and + if the process is suspended."""
    return session.status + ("?" if session.inferred else "") + ("+" if session.suspended else "")
