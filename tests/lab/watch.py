"""Asks agentctl's Python API every 50 ms, and the kernel before and after each question. Runs as a process of its own:
`python -m tests.lab.watch FILE`, until its stdin is closed; one line of JSON per question.

`judge` then holds every answer against the truth: no session may be called ended while the process that is on it was
seen alive after the answer, and none alive through a process that was dead before the question; and what was once said
to be working stays so while it is asking the model. Between alive and dead lies the short time in which the kernel
takes a process down: there both words are right, and the ends are counted.
"""

from __future__ import annotations

import json
import select
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import agentctl
from tests.lab.running import DEAD, Key, table, threads

if TYPE_CHECKING:
    from collections.abc import Iterable

INTERVAL = 0.05
PF_EXITING = 0x4
CLOSED = "closed"  # the rule by which a session is ended that no process has, and whose last turn is closed


def living() -> tuple[list[Key], list[Key]]:
    """The processes that are not dead: those that have a thread which will run code of its own again, and those that
    the kernel is taking down (all their threads are PF_EXITING), though the row stays until the memory is freed."""
    able: list[Key] = []
    dying: list[Key] = []
    for row in table().values():
        exiting = [bool(flags & PF_EXITING) for state, flags in threads(row.key.pid) if state not in DEAD]
        if exiting:
            (dying if all(exiting) else able).append(row.key)
    return able, dying


def sample() -> dict[str, Any]:
    (before, fading), began = living(), time.monotonic()
    answer = agentctl.list_sessions(ended_since=0)
    ended, (after, dying) = time.monotonic(), living()
    return {
        "began": began,
        "ended": ended,
        "before": before + fading,
        "after": after,
        "dying": dying,
        "sessions": [
            {
                "id": one.id,
                "status": one.status,
                "process": one.process,
                "turn": one.turn,
                "pid": one.pid,
                "ticks": int(one.process_key.rpartition(":")[2]) if one.process_key else None,
                "inferred": one.inferred,
                "rule": one.rule,
                "reason": one.reason,
                "may_be_open_in": one.may_be_open_in,
                "evidence": [f"{fact.source}: {fact.fact}" for fact in one.evidence],
            }
            for one in answer.sessions
        ],
        "unattached": [[one.pid, one.why] for one in answer.unattached],
        "problems": [f"{one.agent}: {one.problem} {one.path or ''}" for one in answer.problems],
    }


def main(path: str) -> int:
    with open(path, "w", encoding="utf-8") as file:
        due = time.monotonic()
        while True:
            file.write(json.dumps(sample()) + "\n")
            file.flush()
            due = max(due + INTERVAL, time.monotonic())
            if select.select([sys.stdin], [], [], max(0.0, due - time.monotonic()))[0]:
                return 0


@dataclass
class Hold:
    """The lab knows: from then to then this process is on this session."""

    id: str
    key: Key
    since: float
    until: float = float("inf")
    closing: float = float("inf")  # from then on it may let the session go: ended is right, if its turn is closed


@dataclass(frozen=True)
class Call:
    """The lab knows: from then to then the model was being asked by this session, and sent nothing yet."""

    id: str
    since: float
    until: float


@dataclass
class Findings:
    samples: int = 0
    unsure: int = 0  # "unknown" for a session whose process lives: honest, but weak
    inferred: int = 0  # its closed turn's word, marked as inferred, with the process named as one that may be on it
    unread: int = 0  # its store could not be read in time: that was said, and its process was shown
    behind: int = 0  # not yet working, when the model was asked already: its files come later
    dying: int = 0  # ended, while the kernel was taking its process down: right, and early
    slowest: float = 0.0
    wrong: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def judge(lines: Iterable[str], holds: Iterable[Hold], calls: Iterable[Call] = ()) -> Findings:
    found = Findings()
    holds, calls = list(holds), list(calls)
    working: set[Call] = set()  # calls in which that was said
    for line in lines:
        one = json.loads(line)
        found.samples += 1
        found.slowest = max(found.slowest, one["ended"] - one["began"])
        found.problems += [problem for problem in one["problems"] if problem not in found.problems]
        after, dying = ({tuple(key) for key in one[name]} for name in ("after", "dying"))
        seen = {tuple(key) for key in one["before"]} | after | dying
        asking = {call.id: call for call in calls if call.since <= one["began"] and one["ended"] <= call.until}
        unattached = {pid for pid, _ in one["unattached"]}
        sessions = {session["id"]: session for session in one["sessions"]}
        for session in sessions.values():
            if session["process"] == "alive" and (session["pid"], session["ticks"]) not in seen:
                found.wrong.append(f"FALSE ALIVE: pid {session['pid']} was gone before\n{told(session, one)}")
        for hold in holds:
            if one["began"] < hold.since or one["ended"] > hold.until or tuple(hold.key) not in after | dying:
                continue
            session = sessions.get(hold.id)
            if tuple(hold.key) in dying:
                found.dying += session is not None and session["process"] == "gone"
            elif session is None and one["problems"] and hold.key.pid in unattached:
                found.unread += 1
            elif session is None:
                found.wrong.append(f"LOST: {hold.id} is not listed, its pid {hold.key.pid} lives\n{told(None, one)}")
            elif session["process"] == "gone" and session["rule"] == CLOSED and one["ended"] > hold.closing:
                pass
            elif session["process"] == "gone" and is_candidate(session, hold, unattached) and hold.id not in asking:
                found.inferred += 1
            elif session["process"] == "gone":
                found.wrong.append(f"FALSE ENDED: its pid {hold.key.pid} lives\n{told(session, one)}")
            elif session["process"] == "unknown":
                found.unsure += 1
            elif session["pid"] not in {other.key.pid for other in holds if other.id == hold.id}:
                found.wrong.append(f"WRONG PROCESS: pid {session['pid']}, not {hold.key.pid}\n{told(session, one)}")
            elif hold.id in asking and session["turn"] == "working":
                working.add(asking[hold.id])
            elif hold.id in asking and session["turn"] != "unknown" and asking[hold.id] not in working:
                found.behind += 1
            elif hold.id in asking and session["turn"] != "unknown":
                found.wrong.append(f"WRONG TURN: {session['turn']}, while the model is asked\n{told(session, one)}")
    return found


def is_candidate(session: dict[str, Any], hold: Hold, unattached: set[int]) -> bool:
    """Is it called ended by its closed turn, as inferred, and its process shown as one that may be on it?"""
    named = hold.key.pid in unattached or hold.key.pid in session.get("may_be_open_in", ())
    return bool(session["inferred"]) and session["rule"] == CLOSED and named


def told(session: dict[str, Any] | None, one: dict[str, Any]) -> str:
    """The evidence of one answer, for a person."""
    asked = f"    asked at {one['began']:.3f}, answered at {one['ended']:.3f} (monotonic)"
    living_then = f"    alive before: {one['before']}; after: {one['after']}"
    said = json.dumps(session) if session else json.dumps([(s["id"], s["status"]) for s in one["sessions"]])
    return f"{asked}\n{living_then}\n    unattached: {one['unattached']}\n    answer: {said}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
