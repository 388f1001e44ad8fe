"""Asks the Python API again and again, in a process of its own: at every line on stdin once, or until a file appears.

`once` answers with the rows and the problems; a watch answers with what was seen: every state of every session, and
what must not be.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import agentctl


def main() -> None:
    for line in sys.stdin:
        until = json.loads(line)
        print(json.dumps(once() if until is None else watch(until)), flush=True)


def once() -> dict[str, Any]:
    answer = agentctl.list_sessions(ended_since=0)
    return {
        "rows": {one.id: summary(one) for one in answer.sessions},
        "problems": [f"{one.path}: {one.problem}" for one in answer.problems],
    }


def summary(session: agentctl.Session) -> dict[str, Any]:
    names = ("status", "process", "turn", "pid", "inferred", "reason", "waiting_for", "last_turn")
    return {name: getattr(session, name) for name in names}


def watch(until: str) -> dict[str, Any]:
    polls = 0
    states: dict[str, list[str]] = {}  # session -> its statuses, in the order they were first seen in a row
    counts: dict[str, int] = {}
    stopped: list[dict[str, Any]] = []
    missing: list[tuple[str, float, float]] = []
    problems: list[tuple[str, float, float]] = []
    while not os.path.exists(until):
        began = time.monotonic()
        answer = agentctl.list_sessions(ended_since=0)
        ended = time.monotonic()
        polls += 1
        now = {one.id: one for one in answer.sessions}
        missing += [(id, began, ended) for id in states if id not in now]
        problems += [(f"{one.path}: {one.problem}", began, ended) for one in answer.problems]
        for id, session in now.items():
            seen = states.setdefault(id, [])
            if not seen or seen[-1] != session.status:
                seen.append(session.status)
            counts[session.status] = counts.get(session.status, 0) + 1
            if session.status == "stopped" and len(stopped) < 5:
                stopped.append({"id": id, **summary(session), "evidence": [fact.fact for fact in session.evidence]})
    return {
        "polls": polls,
        "states": states,
        "counts": counts,
        "stopped": stopped,
        "missing": missing,
        "problems": problems,
    }


if __name__ == "__main__":
    main()
