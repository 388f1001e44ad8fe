"""The oracle's memory and its verdicts. Pure: times and truths come in, verdicts come out.

The world moves while a command runs, so nobody can say which single state it should have seen. What is known is what
was possible at any moment between the start and the end of the command. A change is possible from the moment before
its cause, and the old state is over from the moment when the change was seen: in between both may be answered.
"""

from __future__ import annotations

import re
import threading
from typing import Any, NamedTuple

ABSENT, ALIVE, GONE = "absent", "alive", "gone"
WORKING, WAITING, IDLE = "working", "waiting", "idle"
DONE, FAILED, INTERRUPTED = "done", "failed", "interrupted"
ANY = "any"

RIGHT, UNKNOWN, MISSING, DOUBLE, GHOST = "right", "unknown", "missing row", "double row", "ghost"
FALSE_ENDED, FALSE_ALIVE, WRONG_PID = "false ended", "false alive", "wrong pid"
WRONG_TURN, WRONG_END, DISAGREE = "wrong turn", "wrong end", "list, status and why disagree"
MARKED = ", marked as inferred"
HEDGED = "ended, with a doubt that names its process"
AT_REST = "ended, while a process with another name rests on it"

UNREAD = "its store could not be read"
SLOW = "its store did not answer in time, and nobody had closed it"
UNATTACHED = "its process is shown, as one that no session explains"
NO_ROW, CLOSED = "no row", "closed"


class Truth(NamedTuple):
    """Of a session, at a moment. `turn` is how the last turn stands, or ended; ANY where nobody can know."""

    process: str
    turn: str = ANY

    def __str__(self) -> str:
        return f"{self.process}/{self.turn}"


NOT_THERE = Truth(ABSENT)
SESSIONLESS = Truth(ABSENT, "its process is there")  # it has no session before its first prompt: a line of its own


class Span(NamedTuple):
    truth: Truth
    since: float
    until: float | None


class Timeline:
    """What may have been true of one session, and when."""

    def __init__(self, at: float, *truths: Truth) -> None:
        self._spans = [Span(truth, at, None) for truth in truths]
        self._changes: list[tuple[float, float | None]] = []
        self._guard = threading.Lock()

    def may_be(self, at: float, *truths: Truth) -> None:
        """From this moment on these are possible, too; `at` may be in the past."""
        with self._guard:
            self._open(at, truths)

    def is_now(self, at: float, *truths: Truth) -> None:
        """From this moment on nothing else is possible."""
        with self._guard:
            self._spans = [
                span if span.until is not None or span.truth in truths else span._replace(until=max(at, span.since))
                for span in self._spans
            ]
            self._open(at, truths)

    def _open(self, at: float, truths: tuple[Truth, ...]) -> None:
        for truth in truths:
            if not any(span.truth == truth and span.until is None and span.since <= at for span in self._spans):
                self._spans.append(Span(truth, at, None))

    def change_begins(self, at: float) -> None:
        """Something about it is written, whether or not that changes what is true."""
        with self._guard:
            self._changes.append((at, None))

    def change_ends(self, at: float) -> None:
        with self._guard:
            self._changes = [(since, at if until is None else until) for since, until in self._changes]

    def possible(self, since: float, until: float) -> frozenset[Truth]:
        """All that was true at some moment of this time, both ends included."""
        with self._guard:
            return frozenset(span.truth for span in self._spans if overlaps(span.since, span.until, since, until))

    def is_steady(self, since: float, until: float) -> bool:
        """Was one thing true all the time, and nothing written?"""
        with self._guard:
            if any(overlaps(*change, since, until) for change in self._changes):
                return False
            return sum(overlaps(span.since, span.until, since, until) for span in self._spans) == 1

    def text(self) -> str:
        with self._guard:
            lines = [f"{span.since:12.3f} .. {words_of(span.until)}  {span.truth}" for span in self._spans]
            return "\n".join(lines + [f"{a:12.3f} .. {words_of(b)}  something is written" for a, b in self._changes])


def overlaps(since: float, until: float | None, begin: float, end: float) -> bool:
    return since <= end and (until is None or until >= begin)


def words_of(at: float | None) -> str:
    return f"{at:12.3f}" if at is not None else "           -"


class Seen(NamedTuple):
    """What one answer says of one session."""

    row: dict[str, Any] | None
    rows: int = 1  # how often it is there
    ended_too: bool = True  # does the answer have ended sessions?
    unread: str | None = None  # why its store was not read: the answer says that it was not, and that is so
    unattached: str | None = None  # what the answer says of its process, where that is not on any session
    other_name: bool = False  # was its process started by a link of another name?


class Verdict(NamedTuple):
    kind: str
    why: str = ""


def verdict(possible: frozenset[Truth], seen: Seen, pids: frozenset[int]) -> Verdict:
    """`pids`: of all processes that ever were on the session."""
    if seen.rows > 1:
        return Verdict(DOUBLE, f"{seen.rows} rows")
    row = seen.row
    alive = {truth.turn for truth in possible if truth.process == ALIVE}
    gone = {truth.turn for truth in possible if truth.process == GONE}
    if row is None:
        return of_nothing(possible, seen, bool(gone))
    if row["process"] == UNKNOWN:
        return Verdict(UNKNOWN, reason_class(row["reason"]))
    if row["process"] == ALIVE:
        if not alive:
            return Verdict(FALSE_ALIVE, f"said {row['status']} (pid {row['pid']})")
        if row["pid"] not in pids and ANY not in alive:  # ANY: it is being started, and we do not know its pid yet
            return Verdict(WRONG_PID, f"said pid {row['pid']}, which never was on it")
        return of_turn(row, alive, WRONG_TURN)
    if not gone:
        if seen.other_name and alive == {IDLE} and rule_of(row) == CLOSED:
            return Verdict(AT_REST, f"said {row['status']}: {row['reason']}")
        hedged = row["inferred"] and not pids.isdisjoint(pids_in_doubt(row["reason"] or ""))
        return Verdict(HEDGED if hedged else FALSE_ENDED, f"said {row['status']}: {row['reason']}")
    return of_turn(row, gone, WRONG_END)


def of_nothing(possible: frozenset[Truth], seen: Seen, gone: bool) -> Verdict:
    if NOT_THERE in possible or (gone and not seen.ended_too):
        return Verdict(RIGHT)
    if SESSIONLESS in possible and seen.unattached is not None:
        return Verdict(RIGHT)
    if seen.unread is not None:
        return Verdict(UNKNOWN, seen.unread)
    if seen.unattached is not None:
        return Verdict(UNKNOWN, f"{UNATTACHED}: {reason_class(seen.unattached)}")
    return Verdict(MISSING)


def of_turn(row: dict[str, Any], turns: set[str], wrong: str) -> Verdict:
    if row["turn"] == UNKNOWN:
        return Verdict(UNKNOWN, f"{row['process']}, its turn: {reason_class(row['reason'])}")
    if row["turn"] in turns or ANY in turns:
        return Verdict(RIGHT)
    marked = MARKED if row["inferred"] else ""
    return Verdict(wrong + marked, f"said {row['turn']}, true was {' or '.join(sorted(turns))}: {row['reason']}")


def pids_in_doubt(reason: str) -> set[int]:
    """Of the processes that an answer says may be on the session."""
    found = re.search(r"pid ([0-9]+(?:, [0-9]+)*) may be on it", reason)
    return {int(word) for word in found[1].split(", ")} if found else set()


def rule_of(row: dict[str, Any] | None) -> str:
    """Return the name of the rule that decided, which stands at the beginning of its sentence in the evidence."""
    if row is None:
        return NO_ROW
    facts = [one["fact"] for one in row.get("evidence", ()) if one.get("source") == "rule"]
    names = [found[1] for fact in facts if (found := re.match(r"([a-z]+(?:-[a-z]+)*): ", fact))]
    return names[0] if names else "no rule is named"


def reason_class(reason: str | None) -> str:
    """The same reason for whatever session, process or file."""
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|ses_[0-9a-zA-Z]+", "ID", reason or "no reason given")
    text = re.sub(r"pid [0-9]+(, [0-9]+)*", "pid N", text)
    text = re.sub(r"/\S+", "PATH", text)
    return re.sub(r"[0-9]+", "N", text)
