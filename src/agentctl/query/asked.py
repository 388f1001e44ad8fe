"""Gives each question of a session its identity, and shows it without secrets and within bounds. Pure.

The id is a short hash of the session, the process, the agent's own id of the call or request, and the content. So it is
the same at every look, and another one if anything of that is.
"""

from __future__ import annotations

from agentctl.fast.hash import blake2b

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from agentctl.model import Link, Question

ID_BYTES = 6
LONGEST = 16_000  # characters of one text


def identified(link: Link) -> tuple[Question, ...]:
    """Return what the process of a link asks, each question once, with its id."""
    found: dict[str, Question] = {}
    for question in link.asks:
        found.setdefault(id := id_of(question, link), question._replace(id=id))
    return tuple(found.values())


def id_of(question: Question, link: Link) -> str:
    content = (question.kind, question.tool, question.summary, question.detail, question.options)
    parts = (link.agent, link.id, str(link.key), question.by, question.own, content)
    return blake2b(spelled(parts).encode(errors="surrogatepass"), digest_size=ID_BYTES).hexdigest()


def spelled(value: object) -> str:
    """Return a text that only an equal value has."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{spelled(name)}:{spelled(value[name])}" for name in sorted(value, key=str)) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(spelled, value)) + "]"
    return repr(value)


def shown(question: Question, clean: Callable[[str], str]) -> Question:
    """Return a question as it is shown: each text without secrets (`clean`) and not too long."""

    def of(value: Any) -> Any:
        if isinstance(value, str):
            return cut(clean(value))
        if isinstance(value, dict):
            return {name: of(value[name]) for name in value}
        if isinstance(value, (list, tuple)):
            return type(value)(map(of, value))
        return value

    return question._replace(
        summary=of(question.summary), detail=of(question.detail), options=of(question.options), tool=of(question.tool)
    )


def cut(text: str) -> str:
    left = len(text) - LONGEST
    return f"{text[:LONGEST]}... ({left} more characters)" if left > 0 else text
