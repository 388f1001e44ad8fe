"""The lines of the log of events, and back: what a line says as the values that the engine compares. Pure.

    {"schema": 1, "log", "seq", "late", "type", "at", ...}      as `agentctl events --json` prints it, with its number

An entry is what a program gets (JSON), so whoever reads a log needs no code of ours. `log` names the log: numbers of
another one mean nothing here. A checkpoint has the number of the last event before it. A reader gets two more kinds:
`gap` (events are missing here, and why; a checkpoint follows) and, never shown, `end` (the segment was closed).
"""

from __future__ import annotations

from agentctl.files.bounded import moment
from agentctl.files.redaction import redact_text
from agentctl.live.difference import CHECKPOINT, PROBLEM, RECOVERED, Event, Seen, matches
from agentctl.model import Evidence, Problem, Question, Session, Tokens

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    Entry = dict[str, Any]

GAP, END = "gap", "end"
TIMES = ("started_at", "updated_at", "ended_at", "status_since")
REDACTED_ALREADY = "waiting_for"  # by the query; it is compared with the next look, so it stays as that has it


def redacted(value: Any) -> Any:
    """Return JSON without what looks like a key: a prompt may have one, and the log outlives it."""
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, dict):
        return {key: one if key == REDACTED_ALREADY else redacted(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [redacted(one) for one in value]
    return value


# From JSON to values


def session_from(entry: Mapping[str, Any]) -> Session:
    """Return the session of an entry. What its JSON does not have is as if it were not known. Raises ValueError,
    TypeError and KeyError if this is no session."""
    found = {name: entry[name] for name in Session._fields if name in entry}
    for name in ("id", "agent", "status", "process", "turn"):
        if not isinstance(found.get(name), str):
            raise ValueError(f"{name} is missing")
    for name in TIMES:
        found[name] = moment(found.get(name))
    if (tokens := found.get("tokens")) is not None:
        found["tokens"] = Tokens(**{name: tokens.get(name) for name in Tokens._fields})
    found["evidence"] = tuple(evidence_from(one) for one in found.get("evidence", ()))
    found["questions"] = tuple(question_from(one) for one in found.get("questions", ()))
    for name in ("processes", "may_be_open_in", "screens"):
        found[name] = tuple(found.get(name, ()))
    return Session(**found)


def question_from(entry: Mapping[str, Any]) -> Question:
    found = {name: entry[name] for name in Question._fields if name in entry}
    options = found.get("options")
    found |= {"asked_at": moment(found.get("asked_at")), "options": tuple(options) if options is not None else None}
    return Question(**found)


def evidence_from(entry: Mapping[str, Any]) -> Evidence:
    return Evidence(entry["source"], entry["fact"], entry.get("path"), entry.get("pid"), bool(entry.get("inferred")))


def problem_from(entry: Mapping[str, Any]) -> Problem:
    return Problem(str(entry["agent"]), str(entry["problem"]), entry.get("path"))


def event_from(entry: Mapping[str, Any]) -> Event:
    """Return the event of an entry. Raises ValueError, TypeError and KeyError."""
    session, problem = entry.get("session"), entry.get("problem")
    return Event(
        entry["type"],
        moment(entry.get("at")) or 0.0,
        entry["agent"],
        entry.get("id"),
        entry.get("from"),
        entry.get("to"),
        entry.get("reason"),
        session_from(session) if session is not None else None,
        problem_from(problem) if problem is not None else None,
    )


def seen_from(checkpoint: Mapping[str, Any]) -> Seen:
    """Return what a checkpoint shows. Raises ValueError, TypeError and KeyError."""
    sessions = [session_from(one) for one in checkpoint["sessions"]]
    problems = [problem_from(one) for one in checkpoint["problems"]]
    return Seen(
        {(one.agent, one.id): one for one in sessions},
        {(one.agent, one.path): one for one in problems},
        at=moment(checkpoint.get("at")) or 0.0,
    )


def after(seen: Seen, entry: Mapping[str, Any]) -> Seen:
    """Return what is so after an entry. Raises ValueError, TypeError and KeyError if it is none."""
    if entry["type"] in (GAP, END):
        return seen
    if entry["type"] == CHECKPOINT:
        return seen_from(entry)
    event = event_from(entry)
    sessions, problems = dict(seen.sessions), dict(seen.problems)
    if event.problem is not None and event.type in (PROBLEM, RECOVERED):
        problems.pop((event.problem.agent, event.problem.path), None)
        if event.type == PROBLEM:
            problems[(event.problem.agent, event.problem.path)] = event.problem
    elif event.id is not None and event.after is None:
        sessions.pop((event.agent, event.id), None)
    elif event.session is not None:
        sessions[(event.agent, event.session.id)] = event.session
    return Seen(sessions, problems, at=event.at)


# What somebody wants to see of it


class Filter:
    """Which entries somebody wants. A gap is told to everybody."""

    def __init__(self, types: frozenset[str], agents: tuple[str, ...] | None = None, group: str | None = None) -> None:
        self.types, self.agents, self.group = types, agents, group

    def of(self, entry: Entry) -> Entry | None:
        """Return what is wanted of an entry; None: nothing."""
        if entry["type"] == GAP:
            return entry
        if entry["type"] == CHECKPOINT:
            if CHECKPOINT not in self.types:
                return None
            return {
                **entry,
                "sessions": [one for one in entry["sessions"] if self._is_of(one["agent"], one)],
                "problems": [one for one in entry["problems"] if self._is_of(one["agent"], None)],
            }
        event = Event(entry["type"], 0.0, entry["agent"], after=entry.get("to"))
        return entry if matches(event, self.types) and self._is_of(entry["agent"], entry.get("session")) else None

    def _is_of(self, agent: str, session: Mapping[str, Any] | None) -> bool:
        in_group = self.group is None or session is None or session.get("group") == self.group
        return in_group and (self.agents is None or agent in self.agents or session is None)
