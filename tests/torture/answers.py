"""What the command said, and how it is held against what is expected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tests.torture.handles import Handle

if TYPE_CHECKING:
    from collections.abc import Iterable

NOT_COMPARED = ("tokens", "cost_usd")  # counted only when one session is asked for


class Contains(NamedTuple):
    """Expected: a text that has this in it."""

    text: str

    def __str__(self) -> str:
        return f"..{self.text}.."


class Listing(NamedTuple):
    """What `list --json` said."""

    rows: dict[str, dict[str, Any]]
    unattached: dict[int, dict[str, Any]]
    problems: list[dict[str, Any]]
    ids: list[str]  # as they came, so that a session that is there twice is seen


def listing_of(answer: dict[str, Any]) -> Listing:
    sessions = answer.get("sessions", [])
    return Listing(
        {row["id"]: row for row in sessions},
        {line["pid"]: line for line in answer.get("unattached", [])},
        answer.get("problems", []),
        [row["id"] for row in sessions],
    )


def holds(value: object, expected: object) -> bool:
    if isinstance(expected, Contains):
        return isinstance(value, str) and expected.text in value
    if isinstance(expected, Handle):
        return value == expected.pid
    return value in expected if isinstance(expected, tuple) else value == expected


def evidence_of(rows: Iterable[dict[str, Any]]) -> str:
    """The rule that decided, and what it was decided from: `alive (kernel, store)`."""
    found = []
    for row in rows:
        sources = dict.fromkeys(fact["source"] for fact in row.get("evidence", ()))
        rule = next((fact["fact"].partition(":")[0] for fact in row.get("evidence", ())[::-1]), "no rule")
        found.append(f"{rule} ({', '.join(source for source in sources if source != 'rule') or 'nothing'})")
    return "; ".join(dict.fromkeys(found))


def words_of(name: str, expected: object) -> str:
    if isinstance(expected, Handle):
        return f"pid {expected.pid}"
    if isinstance(expected, tuple) and not isinstance(expected, Contains):
        expected = " or ".join(map(str, expected))
    return str(expected) if name == "status" else f"{name} {expected}"


def differences(id: str, one: str, mine: dict[str, Any], other: str, theirs: dict[str, Any]) -> list[str]:
    return [
        f"{id} {name}: {one} says {mine.get(name)!r}, {other} says {theirs.get(name)!r}"
        for name in theirs
        if name not in NOT_COMPARED and comparable(name, mine) != comparable(name, theirs)
    ]


def comparable(name: str, session: dict[str, Any]) -> object:
    """Which pane of tmux it is in is asked only when one session is asked for, and is then among the evidence."""
    value = session.get(name)
    if name == "evidence" and value:
        return [fact for fact in value if "of tmux session" not in fact["fact"]]
    return value["tty"] if name == "terminal" and value else value
