"""What a session asks a person, from the call of a tool that waits for an answer. Pure.

Agents give the same things other names; here they get one: `command`, `path` and `diff`, `plan`, `url`, `questions`, or
the whole `input` of a tool that is not known.
"""

from __future__ import annotations

from math import isfinite

from agentctl.files.bounded import text_or_none
from agentctl.model import Question, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from agentctl.model import Link

PERMISSION, QUESTION, PLAN = "permission", "question", "plan"
MAIN = "main"
PATHS = ("file_path", "filePath", "notebook_path", "filepath", "path")
BEFORE, AFTER = ("old_string", "oldString"), ("new_string", "newString", "content", "new_source")
DEEPEST, TOO_DEEP = 20, "(nested too deeply)"
DIFFS = ("diff", "patch", "patchText")


class Detail(dict["str", "Any"]):
    """What a call was given, as a part of values that can be hashed."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self))


class Call(Value):
    """A call of a tool that has no result."""

    id: str | None
    tool: str | None
    given: Mapping[str, Any]
    at: float | None = None


def question_of(call: Call, kind: str, summary: str | None, link: Link, by: str = MAIN) -> Question:
    """Return what a call asks. `kind`: if it is a tool that only asks, else PERMISSION."""
    detail, options = detail_of(call.given)
    asked_at = link.since if link.since is not None else call.at
    return Question(kind, call.tool, summary, detail, options, asked_at, by, own=call.id)


def vague(link: Link, kind: str | None) -> tuple[Question, ...]:
    """Return the question of a session of which only the words are known: no call is, or nothing tells which of several
    calls is asked about."""
    return (Question(kind, None, link.waiting_for, asked_at=link.since),)


def one_of(link: Link, kind: str | None, calls: Sequence[str | None]) -> tuple[Question, ...]:
    """Return the question of a session that asks about one of several calls: nothing tells about which one. `calls`:
    their words, the oldest first."""
    words = "; ".join(call or "a call" for call in calls)
    return (Question(kind, None, f"{head_of(link)}: one of {len(calls)} calls: {words}", asked_at=link.since),)


def head_of(link: Link) -> str:
    """Return how the agent says that it asks, without the call that stands behind it."""
    return (link.waiting_for or "").partition(": ")[0]


def words_for(link: Link, asked: tuple[Question, ...]) -> str | None:
    """Return what a session waits for, in words. A record ends with the call that came last, and that need not be the
    one that is asked about."""
    if len(asked) != 1:
        return link.waiting_for
    (question,) = asked
    if question.tool is None:
        return question.summary or link.waiting_for
    if question.by not in (None, MAIN) and (question.summary or "") not in (link.waiting_for or ""):
        return f"{head_of(link)}: {question.summary or question.tool} (sub-agent {question.by})"
    return link.waiting_for


def detail_of(given: Mapping[str, Any]) -> tuple[Detail | None, tuple[str, ...] | None]:
    """Return what a call would do, and what can be answered, if the call names that."""
    asked = questions_in(given.get("questions"))
    if asked:
        return Detail(questions=asked), options_of(asked[0]) if len(asked) == 1 else None
    if (command := command_of(given)) is not None:
        return Detail(command=command), None
    path = first_text(given, PATHS)
    if (diff := diff_of(given)) is not None:
        return Detail(path=path, diff=diff), None
    for name in ("plan", "url"):
        if (text := text_or_none(given.get(name))) is not None:
            return Detail({name: text}), None
    if not given:
        return None, None
    return (Detail(path=path) if path is not None and len(given) == 1 else Detail(input=within(given))), None


def within(value: Any, depth: int = DEEPEST) -> Any:
    """Return a value of JSON as everybody can walk through it and write it."""
    if isinstance(value, (dict, list)) and depth == 0:
        return TOO_DEEP
    if isinstance(value, dict):
        return {name: within(value[name], depth - 1) for name in value}
    if isinstance(value, list):
        return [within(each, depth - 1) for each in value]
    return str(value) if isinstance(value, float) and not isfinite(value) else value


def command_of(given: Mapping[str, Any]) -> str | None:
    found = given.get("command") or given.get("cmd")
    if isinstance(found, list):
        return " ".join(map(str, found)) or None
    return text_or_none(found)


def diff_of(given: Mapping[str, Any]) -> str | None:
    """Return what would change in a file: the agent's own diff, or the lines that go and those that come."""
    if (diff := first_text(given, DIFFS)) is not None:
        return diff
    edits = given.get("edits")
    steps = [step for step in edits if isinstance(step, dict)] if isinstance(edits, list) else [given]
    lines = [line for step in steps for line in changed_lines(first_text(step, BEFORE), first_text(step, AFTER))]
    return "\n".join(lines) or None


def changed_lines(before: str | None, after: str | None) -> Iterable[str]:
    for sign, text in (("-", before), ("+", after)):
        yield from (f"{sign}{line}" for line in (text or "").splitlines())


def first_text(given: Mapping[str, Any], names: Sequence[str]) -> str | None:
    return next((text for name in names if (text := text_or_none(given.get(name))) is not None), None)


def questions_in(found: object) -> list[dict[str, Any]]:
    """Return the questions of a tool that asks, each with its options. Own words can be an answer to all of them."""
    asked = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    return [
        {
            "question": text_or_none(each.get("question")),
            "header": text_or_none(each.get("header")),
            "options": options_in(each.get("options")),
            "multiple": bool(each.get("multiSelect") or each.get("multiple")),
        }
        for each in asked
    ]


def options_in(found: object) -> list[dict[str, str | None]]:
    listed = found if isinstance(found, list) else []
    named = [each if isinstance(each, dict) else {"label": each} for each in listed]
    return [
        {"label": label, "description": text_or_none(each.get("description"))}
        for each in named
        if (label := text_or_none(each.get("label"))) is not None
    ]


def options_of(asked: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(option["label"] for option in asked["options"])
