"""A log of events in a folder, with shapes as `agentctl events` has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentctl.cli.events import checkpoint_json, event_json
from agentctl.live import segments
from agentctl.live.difference import Seen, carried, difference
from agentctl.live.log import Limits, Log, Shapes
from agentctl.model import ALIVE, GONE, Session, status_word

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

SHAPES = Shapes(event_json, checkpoint_json)
ENDED = {"done", "failed", "interrupted"}
TURNS = ("working", "waiting", "idle", "done", "failed", "interrupted")


def one(id: str, turn: str = "working", **more: object) -> Session:
    process = GONE if turn in ENDED else ALIVE
    return Session(id, "amber", status_word(process, turn), process, turn)._replace(**more)


def seen(*sessions: Session, at: float = 1000.0) -> Seen:
    return Seen({(session.agent, session.id): session for session in sessions}, at=at)


def open_log(folder: Path, limits: Limits | None = None) -> Log:
    return Log(str(folder), SHAPES, limits)


def tell(log: Log, now: Seen, *, late: bool = False) -> list[dict[str, Any]]:
    """Append what differs from what the log has told last."""
    before = log.seen if log.seen is not None else Seen()
    return log.append(difference(before, now), carried(before, now), late=late)


def replayed(folder: Path, since: int = 0, **more: Any) -> list[dict[str, Any]]:
    return [*segments.replay(str(folder), segments.Since(since, **more))]


def folded(entries: Iterable[Mapping[str, Any]], start: Mapping[str, str] | None = None) -> dict[str, str]:
    """The statuses after these entries, as a program that knows nothing of us would fold them."""
    statuses = dict(start or {})
    for entry in entries:
        if entry["type"] == "checkpoint":
            statuses = {session["id"]: session["status"] for session in entry["sessions"]}
        elif entry["type"].startswith("session."):
            if entry["to"] is None:
                statuses.pop(entry["id"], None)
            else:
                statuses[entry["id"]] = entry["to"]
    return statuses


def statuses(now: Seen) -> dict[str, str]:
    return {session.id: session.status for session in now.sessions.values()}
