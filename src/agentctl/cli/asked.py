"""The questions of a session, for people: what it asks, and what would be done. An agent wrote all of it."""

from __future__ import annotations

from agentctl.cli import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from agentctl.model import Question

Line = tuple[str, str]  # name, value
MOST_LINES = 20
INDENT = "\n" + " " * 12


def lines_of(questions: Iterable[Question]) -> Iterator[Line]:
    for question in questions:
        yield "asks", headline(question)
        yield from detail_lines(question.detail or {})


def headline(question: Question) -> str:
    """Return the id of a question, what it is about, and which sub-agent asks it."""
    whose = f"by sub-agent {output.plain(question.by)}" if question.by not in (None, "main") else ""
    words = (question.kind or "something", output.plain(question.tool), whose, f"(question {question.id})")
    return " ".join(word for word in words if word)


def detail_lines(detail: Mapping[str, Any]) -> Iterator[Line]:
    for name, value in detail.items():
        if name == "questions":
            for asked in value:
                yield "question", question_text(asked)
        elif name == "diff":
            yield "changes", f"{counted(value)}{INDENT}{block(value)}"
        elif name == "input":
            yield "input", block("\n".join(f"{key}: {value[key]}" for key in value))
        elif value is not None:
            yield name, block(str(value))


def question_text(asked: Mapping[str, Any]) -> str:
    options = [": ".join(filter(None, (each["label"], each["description"]))) for each in asked["options"]]
    several = " (several can be chosen)" if asked["multiple"] else ""
    lines = [f"{asked['question'] or '?'}{several}", *(f"{place}. {text}" for place, text in enumerate(options, 1))]
    return block("\n".join(lines))


def counted(diff: str) -> str:
    lines = diff.splitlines()
    added = sum(line.startswith("+") and not line.startswith("+++") for line in lines)
    removed = sum(line.startswith("-") and not line.startswith("---") for line in lines)
    return f"{added} lines added, {removed} removed"


def block(text: str) -> str:
    """Return lines of an agent that are safe on a terminal: the first ones, each as it is, below each other."""
    lines = [output.plain(line) for line in text.splitlines()]
    if len(lines) > MOST_LINES:
        lines = [*lines[:MOST_LINES], f"{output.ellipsis()} {len(lines) - MOST_LINES} more lines"]
    return INDENT.join(lines)
