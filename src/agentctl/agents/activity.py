"""What a live process does on its session, and since when, from what its store says. Pure.

A moment is one that the store has, or it is not known: agentctl remembers nothing.
"""

from __future__ import annotations

from agentctl.model import CLOSED_TURNS, IDLE, WAITING, WORKING, Link, Record, Value

WORKS_ON = "works on: "  # before the prompt of a turn that is at no tool


class Moments(Value):
    """What a store says of the last turn of a session, besides how it stands."""

    begun_at: float | None = None
    ended_at: float | None = None
    asked_at: float | None = None  # when the newest call without a result was made: it may wait for a person
    prompt: str | None = None  # that began the turn


def with_activity(link: Link, record: Record | None, moments: Moments) -> Link:
    """Return a link with what its process does and since when; what the store has said there already stays."""
    if record is None:
        return link
    turn = link.turn or (IDLE if record.turn in CLOSED_TURNS else record.turn)
    since = link.since if link.since is not None else since_of(turn, record, moments)
    return link._replace(since=since, doing=link.doing or doing_of(turn, record, moments))


def since_of(turn: str, record: Record, moments: Moments) -> float | None:
    """Return the moment at which a turn was begun, a person was asked, or a turn ended, whichever this state is."""
    if turn == WORKING and record.turn == WORKING:
        return moments.begun_at
    if turn == WAITING:
        return moments.asked_at
    if turn == IDLE and record.turn in CLOSED_TURNS:
        return moments.ended_at
    return record.started_at if turn == IDLE and record.turn == IDLE else None


def doing_of(turn: str, record: Record, moments: Moments) -> str | None:
    """Return the tool that runs, or the prompt that is worked on; None if the store does not say."""
    if turn != WORKING or record.turn != WORKING:
        return None
    prompt = " ".join((moments.prompt or "").split())
    return record.pending or record.pending_tool or (f"{WORKS_ON}{prompt}" if prompt else None)
