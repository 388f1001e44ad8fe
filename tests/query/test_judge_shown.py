"""What the judge shows of a session beside its word: fields, reasons, evidence, and the processes of no session."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.model import (
    CLIENT,
    DAEMON,
    DONE,
    FAILED,
    HELPER,
    IDLE,
    SOLE,
    SPARE,
    UNKNOWN,
    WAITING,
    WORKING,
    WRAPPER,
    Evidence,
)
from agentctl.query.judge import sole_links
from agentctl.query.present import RULE_FACTS, clock
from agentctl.query.world import RULES
from tests.support.facts import HIDDEN, B, boss, claim, judged, link, rec, row, see, session, shared
from tests.support.random_worlds import make

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.support.facts import Fact

# What is seen -> the name of a field of the session, and what it says.
FIELDS: dict[str, tuple[Iterable[Fact], str, object]] = {
    "the pid and key of its process": ([row(7), rec(WORKING), link(7)], "process_key", "boot:7:70"),
    "no pid of what is gone": ([row(7, 99), rec(WORKING), link(7)], "pid", None),
    "no pid of what is unknown": ([row(8), rec(WORKING), link(7), claim(8, "s")], "pid", None),
    "a sub-agent has its parent's pid": (
        [row(7), rec(WORKING, parent="p"), rec(WORKING, "p"), link(7, "p")],
        "pid",
        7,
    ),
    "an exact link": ([row(7), rec(WORKING), link(7)], "link", "exact"),
    "a sole link": ([row(7), rec(WORKING), claim(7, "s", sole=True)], "link", "sole"),
    "exact before sole": ([row(7), row(8), rec(DONE), link(7, strength=SOLE), link(8)], "pid", 8),
    "two writers: the one that waits speaks": (
        [row(7), row(8), rec(WORKING), link(7, turn=WORKING), link(8, turn=WAITING)],
        "pid",
        8,
    ),
    "the process axis of an unread session whose process is gone": ([rec(UNKNOWN), link(7)], "process", "gone"),
    "and of one that a new process may be on": ([row(8), rec(UNKNOWN), link(7), claim(8, "s")], "process", "unknown"),
    "and of one that nothing can be on": ([rec(UNKNOWN)], "process", "gone"),
    "and of one in a store that others may write to": ([rec(UNKNOWN), shared()], "process", "unknown"),
    "suspended": ([row(7, state="T"), rec(WORKING), link(7)], "suspended", True),
    "its terminal": ([row(7, tty=0x8803), rec(WORKING), link(7)], "terminal", {"tty": "/dev/pts/3", "tmux": None}),
    "its console": ([row(7, tty=0x0402), rec(WORKING), link(7)], "terminal", {"tty": "/dev/tty2", "tmux": None}),
    "no terminal": ([row(7), rec(WORKING), link(7)], "terminal", None),
    "what it waits for": ([row(7), link(7, turn=WAITING, waiting_for="an answer")], "waiting_for", "an answer"),
    "what it no longer waits for": ([row(7), link(7, turn=IDLE, waiting_for="an answer")], "waiting_for", None),
    "how the last turn of an idle one ended": ([row(7), rec(FAILED), link(7)], "last_turn", "failed"),
    "at its prompt, and its turn was never closed": (
        [row(7), rec(WORKING), link(7, turn=IDLE)],
        "last_turn",
        "interrupted",
    ),
    "at its prompt, and nothing is written": ([row(7), rec(WORKING, path=None), link(7, turn=IDLE)], "last_turn", None),
    "how the last turn of a killed one ended": ([rec(WORKING), link(7)], "last_turn", "interrupted"),
    "the error of a turn that failed": ([rec(FAILED, error="no money")], "error", "no money"),
    "the error of the last turn, while idle": ([row(7), rec(FAILED, error="no money"), link(7)], "error", "no money"),
    "no error of a turn that did not fail": ([rec(DONE, error="no money")], "error", None),
    "when it ended": ([rec(DONE, updated_at=5.0)], "ended_at", 5.0),
    "no end of what may live": ([rec(WORKING), shared()], "ended_at", None),
    "its directory, by its record": ([row(7), rec(WORKING, cwd="/r"), link(7), claim(7, cwd="/p")], "cwd", "/r"),
    "its directory, by its process": ([row(7), rec(WORKING), link(7), claim(7, cwd="/p")], "cwd", "/p"),
    # What is said to people
    "said of a kill": ([rec(WORKING), link(7)], "reason", "its process (pid 7) is gone, in mid-turn"),
    "said of a kill, with the store's word": (
        [rec(WORKING, ending="killed hard"), link(7)],
        "reason",
        "its process (pid 7) is gone, in mid-turn; killed hard",
    ),
    "said of exhaustion": ([rec(WORKING)], "reason", "ended in mid-turn: no live process of its agent can be on it"),
    "said of a supervised one": (
        [row(9), rec(WORKING), boss(9)],
        "reason",
        "may be brought back: its daemon (pid 9) has it",
    ),
    "said of a candidate": (
        [row(7), row(8), rec(WORKING), claim(8, "s", "t"), claim(7, "s", "t")],
        "reason",
        "in mid-turn, and pid 7, 8 may be on it: no file",
    ),
    "said of an unseen one": (
        [rec(WORKING), shared()],
        "reason",
        "in mid-turn, no process seen, but its store is shared",
    ),
    "said of an unseen one, in a scan that does not see all": (
        [rec(WORKING), HIDDEN],
        "reason",
        "in mid-turn, no process seen, but some of /proc could not be read",
    ),
    "said of one elsewhere": (
        [rec(WORKING), link(7, here=False)],
        "reason",
        "its process was recorded in another PID namespace or on another machine, where we cannot look",
    ),
    "said of a newer one": ([rec(DONE, fresh=True)], "reason", "it was written while we looked; ask again"),
    "said of an unread one": ([rec(UNKNOWN, reason="Permission denied")], "reason", "Permission denied"),
    "said of one without a word": ([rec(UNKNOWN)], "reason", "its store says nothing of its turn"),
    "said of one without a record": ([link(7)], "reason", "no record of it was read"),
    "said of one that never began": ([rec(IDLE)], "reason", "it ended at its prompt; no turn was begun"),
    "said of a closed one": ([rec(DONE, reason="it answered")], "reason", "it answered"),
    "said of a closed one that a process may be on": (
        [row(7), rec(DONE, reason="it answered"), claim(7, "s")],
        "reason",
        "it answered; pid 7 may be on it: no file",
    ),
    "said of a closed one that one of two processes may be on": (
        [row(7), row(8), rec(DONE, reason="it answered"), claim(8, "s", "t"), claim(7, "s", "t")],
        "reason",
        "it answered; pid 7, 8 may be on it: no file",
    ),
    "said of a closed one without a word": ([rec(DONE), shared()], "reason", "its store is shared"),
    "said by its process": (
        [row(7), rec(DONE, reason="r"), link(7, turn=IDLE, reason="finishing")],
        "reason",
        "finishing",
    ),
    "said by its record": ([row(7), rec(WORKING, reason="r"), link(7)], "reason", "r"),
    "said of a sub-agent of one that ended": (
        [rec(WORKING, parent="p"), rec(DONE, "p")],
        "reason",
        "a sub-agent in mid-turn, and its parent has ended",
    ),
    # What was looked at and set aside
    "set aside: a recycled pid": (
        [row(7, 36000), rec(WORKING), link(7, start=100)],
        "rejected",
        (f"pid 7 is alive but started {clock(360)}, not {clock(1)}: another process (agent)",),
    ),
    "set aside: a zombie": (
        [row(7, state="Z"), rec(WORKING), link(7)],
        "rejected",
        ("pid 7 is a zombie: dead, not yet reaped",),
    ),
    "set aside: a candidate": (
        [row(7), rec(WORKING), claim(7, "s")],
        "rejected",
        ("pid 7 may be on it, which cannot be proved: no file",),
    ),
    "set aside: nobody": ([row(8), rec(WORKING), link(7), claim(8, "t")], "rejected", ()),
}


@pytest.mark.parametrize("name", FIELDS)
def test_what_is_shown(name: str) -> None:
    facts, field, expected = FIELDS[name]
    assert getattr(session(*facts), field) == expected


def test_the_evidence_names_every_process_and_the_rule() -> None:
    store = Evidence("store", "its file says so")
    one = session(row(7), rec(WORKING, evidence=(store,)), link(7), link(8))
    assert [(fact.source, fact.fact) for fact in one.evidence] == [
        ("kernel", f"pid 7 is alive since {clock(0.7)} (tick 70), agent, state S"),
        ("kernel", "pid 8 of start tick 80 is gone"),
        ("store", "its file says so"),
        ("rule", f"alive: {RULES['alive']}"),
    ]
    hidden = session(rec(WORKING), link(7), HIDDEN).evidence[0].fact
    assert hidden == "pid 7 of start tick 70 is not seen"


def test_all_that_hold_it_are_shown() -> None:
    wrapper, outer = claim(6, role=WRAPPER), claim(5, role=WRAPPER)
    one = session(row(5), row(6, parent=5), row(7, parent=6), row(8), rec(WORKING), link(7), link(8), wrapper, outer)
    found = [(entry["pid"], entry["role"], entry["key"], entry["link"]) for entry in one.processes]
    assert found == [
        (7, "agent", "boot:7:70", "exact"),
        (6, "wrapper", "boot:6:60", None),
        (5, "wrapper", "boot:5:50", None),
        (8, "agent", "boot:8:80", "exact"),
    ]


def test_wrappers_that_name_each_other_as_parent_come_to_an_end() -> None:
    rows = (row(5, parent=6), row(6, parent=5), row(7, parent=6))
    one = session(*rows, rec(WORKING), link(7), claim(5, role=WRAPPER), claim(6, role=WRAPPER))
    assert one.pid == 7


UNATTACHED: dict[str, tuple[Iterable[Fact], list[tuple[int, tuple[str, ...]]]]] = {
    "a process without a link": ([row(7), claim(7)], [(7, ())]),
    "with its candidates": ([row(7), rec(WORKING), claim(7, "s", "t")], [(7, ("s", "t"))]),
    "of which nothing is known": ([row(7), rec(WORKING), claim(7, candidates=None)], [(7, ())]),
    "a spare that waits for work": ([row(7), claim(7, role=SPARE)], [(7, ())]),
    "not one that a session explains": ([row(7), rec(WORKING), link(7), claim(7)], []),
    "not the only process of its only session": ([row(7), rec(WORKING), claim(7, "s", sole=True)], []),
    "but so if the session has a process that is proved": (
        [row(7), row(8), rec(WORKING), link(8), claim(7, "s", sole=True)],
        [(7, ("s",))],
    ),
    "but so if the session is not there": ([row(7), claim(7, "s", sole=True)], [(7, ("s",))]),
    "but so if the session is of another store": (
        [row(7), rec(WORKING, store=B), claim(7, "s", sole=True)],
        [(7, ("s",))],
    ),
    "not one of another home": ([row(7), claim(7, shown=False)], []),
    "not a daemon, client, helper or wrapper": (
        [
            *(row(pid) for pid in (5, 6, 7, 8)),
            claim(5, role=DAEMON),
            claim(6, role=CLIENT),
            claim(7, role=HELPER),
            claim(8, role=WRAPPER),
        ],
        [],
    ),
    "not a zombie": ([row(7, state="Z"), claim(7)], []),
    "not one whose pid is a stranger's": ([row(7, 99), claim(7)], []),
    "each once, in order": ([row(8), row(7), claim(8), claim(7)], [(7, ()), (8, ())]),
}


@pytest.mark.parametrize("name", UNATTACHED)
def test_what_no_session_explains(name: str) -> None:
    facts, expected = UNATTACHED[name]
    assert [(line.pid, line.candidates) for line in see(*facts).unattached] == expected


def test_two_agents_may_use_one_id() -> None:
    found = see(rec(DONE), rec(FAILED)._replace(agent="birch"), link(7)._replace(agent="birch"), row(7)).sessions
    assert [(one.agent, one.status) for one in found] == [("amber", "done"), ("birch", "idle")]


@given(st.integers(0, 10**9))
def test_the_evidence_is_all_that_was_looked_at(seed: int) -> None:
    """Of what has only a record it is put together in a shorter way."""
    world = make(random.Random(seed)).world
    all_links = (*world.links, *sole_links(world))
    for shown in judged(world).sessions:
        name = (shown.agent, shown.id)
        links = [one for one in all_links if (one.agent, one.id) == name]
        written = {one.evidence for one in world.records if (one.agent, one.id) == name} or {()}
        *told, last = shown.evidence
        assert last == RULE_FACTS[shown.rule, shown.inferred]
        assert any(all(fact in told for fact in facts) for facts in written)
        assert all(fact in told for one in links for fact in one.evidence)
        assert sum(fact.source == "kernel" for fact in told) >= len(links)
        if not links and shown.rule != "supervised":
            assert tuple(told) in written
