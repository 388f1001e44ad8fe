"""A process cannot be on a turn that is older than itself."""

from __future__ import annotations

from typing import Any

import pytest

from agentctl.agents import base
from agentctl.agents.activity import Moments
from agentctl.agents.base import FINISHING
from agentctl.kernel.processes import Processes
from agentctl.model import CLOSED_TURNS, DONE, IDLE, INTERRUPTED, UNKNOWN, WAITING, WORKING, Link, Record
from agentctl.query import ages
from tests.support.facts import link, rec, row, session, words
from tests.support.table import source

BEFORE, SINCE = 100.0, 200.0  # the process starts at 150.0
OLD: dict[str, Any] = {"updated_at": BEFORE}
NEW: dict[str, Any] = {"updated_at": SINCE}
START = 15000  # ticks


class ByRecord(base.Store):
    """A store whose agent says nothing of itself, as base.Store: the record tells, and one that runs once is known."""

    one_shot = False
    asks = False

    def recent(self, since: float) -> list[str]:
        return []

    def record(self, id: str, *, tokens: bool = False) -> Record | None:
        return None

    def observe(self, link: Link, record: Record | None, processes: Processes) -> Link:
        if link.turn is not None or record is None:
            return link
        if record.turn in (*CLOSED_TURNS, IDLE):
            return link._replace(turn=IDLE, reason=FINISHING if self.one_shot else None)
        if record.pending and self.asks:
            return link._replace(turn=WAITING, waiting_for=record.pending)
        return link._replace(turn=record.turn)


class Once(ByRecord):
    one_shot = True


class Asks(ByRecord):
    asks = True


class Silent(ByRecord):
    def observe(self, link: Link, record: Record | None, processes: Processes) -> Link:
        return link


ROWS: dict[str, tuple[type[ByRecord], dict[str, Any], Record | None, str]] = {
    "its own turn": (ByRecord, {}, rec(WORKING, **NEW), "working"),
    "an open turn of an earlier process": (ByRecord, {}, rec(WORKING, **OLD), "idle ?"),
    "within what clocks differ": (ByRecord, {}, rec(WORKING, updated_at=149.0), f"working: {ages.NEARLY} ?"),
    "its process says so, within what clocks differ": (
        ByRecord,
        {"turn": WORKING},
        rec(WORKING, updated_at=149.0),
        "working",
    ),
    "the agent says nothing, within what clocks differ": (
        Silent,
        {},
        rec(WORKING, updated_at=149.0),
        f"None: {ages.NEARLY} ?",
    ),
    "at the moment of its start": (ByRecord, {}, rec(WORKING, updated_at=150.0), "working"),
    "a run, right after the one before": (Once, {}, rec(DONE, updated_at=149.5), f"unknown: {ages.NOT_YET}"),
    "a question of an earlier process": (Asks, {}, rec(WORKING, pending="Delete it?", **OLD), "idle ?"),
    "its own question": (Asks, {}, rec(WORKING, pending="Delete it?", **NEW), "waiting: Delete it?"),
    "the agent says nothing at all": (Silent, {}, rec(WORKING, **OLD), "idle ?"),
    "the process itself says that it works": (ByRecord, {"turn": WORKING}, rec(WORKING, **OLD), "working"),
    "the process itself says that it is at its prompt": (ByRecord, {"turn": IDLE}, rec(WORKING, **OLD), "idle"),
    "a closed turn, and a screen": (ByRecord, {}, rec(DONE, **OLD), "idle"),
    "a run whose own turn is over": (Once, {}, rec(DONE, **NEW), f"idle: {FINISHING}"),
    "a run, and the turn before is over": (Once, {}, rec(DONE, **OLD), f"unknown: {ages.NOT_YET}"),
    "a run, and the turn before was cut off": (Once, {}, rec(WORKING, **OLD), f"unknown: {ages.NOT_YET}"),
    "the clock was set since it started": (ByRecord, {"lived_at": 90.0}, rec(WORKING, **OLD), "working"),
    "it noted its start": (ByRecord, {"lived_at": 150.5}, rec(WORKING, **OLD), "idle ?"),
    "no time is known": (ByRecord, {}, rec(WORKING, updated_at=None), "working"),
    "no transcript yet": (ByRecord, {}, rec(WORKING, path=None, **OLD), "working"),
    "no record": (ByRecord, {}, None, "None"),
}


def said(link: Link) -> str:
    why = link.waiting_for or (link.reason if link.reason != ages.LEFT else None)
    return f"{link.turn}{f': {why}' if why else ''}{' ?' if link.inferred else ''}"


def observed(kind: type[ByRecord], given: dict[str, Any], record: Record | None, wrote: int = 0) -> Link:
    table = Processes("boot", [row(7, START)], source(positions=lambda process, path: [wrote]), ticks_per_second=100)
    store = kind("/store/a", "amber")
    store.moments["s"] = Moments(BEFORE, BEFORE, BEFORE, "the prompt")
    return ages.observe(store, link(7, start=START, **given), record, table)


@pytest.mark.parametrize("name", ROWS)
def test_what_a_process_is_on(name: str) -> None:
    kind, given, record, expected = ROWS[name]
    assert said(observed(kind, given, record)) == expected


def test_what_it_wrote_itself_is_its_own() -> None:
    """The clock was set forward since: the kernel says who wrote the transcript."""
    assert said(observed(ByRecord, {}, rec(WORKING, **OLD), wrote=4096)) == "working"


def test_nothing_of_the_old_turn_is_shown() -> None:
    found = observed(Asks, {}, rec(WORKING, pending="make deploy", **OLD))
    assert (found.doing, found.since, found.waiting_for, found.doubt) == (None, None, None, None)
    assert "started after the last record" in found.evidence[-1].fact
    alone = observed(Once, {}, rec(DONE, **OLD))
    assert (alone.turn, alone.since, alone.inferred) == (UNKNOWN, None, False)


def test_how_the_last_turn_ended() -> None:
    record = rec(WORKING, **OLD)
    found = session(row(7, START), observed(ByRecord, {}, record), record)
    assert (found.status, found.last_turn, found.inferred, found.status_since) == ("idle", INTERRUPTED, True, None)


CHILDREN: dict[str, tuple[Record, str]] = {
    "of this process": (rec(WORKING, "c", parent="s", **NEW), "running parent ?"),
    "of an earlier one": (rec(WORKING, "c", parent="s", **OLD), "stopped parent ?"),
    "it had answered": (rec(DONE, "c", parent="s", **OLD), "done closed"),
    "of an unknown time": (rec(WORKING, "c", parent="s", updated_at=None), "running parent ?"),
}


@pytest.mark.parametrize("name", CHILDREN)
def test_a_sub_agent_is_not_older_than_the_process_of_its_parent(name: str) -> None:
    child, expected = CHILDREN[name]
    assert words(session(row(7, START), link(7, start=START), rec(WORKING, **NEW), child, id="c")) == expected
