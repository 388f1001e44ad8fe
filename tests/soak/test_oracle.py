"""The oracle of the soak: what it holds for possible, and how it judges an answer. A wrong oracle would accuse or
excuse at random."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tests.soak import oracle, report
from tests.soak.actors import TABLE, decide
from tests.soak.oracle import (
    ALIVE,
    DONE,
    GONE,
    IDLE,
    INTERRUPTED,
    NOT_THERE,
    SESSIONLESS,
    WAITING,
    WORKING,
    Seen,
    Timeline,
    Truth,
    reason_class,
    verdict,
)
from tests.soak.stage import Unknown

if TYPE_CHECKING:
    from pathlib import Path

RUNS, RESTS = Truth(ALIVE, WORKING), Truth(ALIVE, IDLE)
OVER, CUT = Truth(GONE, DONE), Truth(GONE, INTERRUPTED)
PIDS = frozenset({7})


def row(process: str, turn: str, **more: Any) -> dict[str, Any]:
    given = {"process": process, "turn": turn, "status": turn, "pid": 7, "inferred": False, "reason": "so"}
    return {**given, **more}


# The timeline


def test_during_a_change_both_are_possible_and_before_and_after_one() -> None:
    line = Timeline(0.0, RUNS)
    line.may_be(10.0, RESTS)
    line.is_now(12.0, RESTS)
    assert line.possible(1.0, 9.9) == {RUNS}
    assert line.possible(9.0, 10.0) == {RUNS, RESTS}
    assert line.possible(11.0, 11.1) == {RUNS, RESTS}
    assert line.possible(12.0, 13.0) == {RUNS, RESTS}  # both ends count: at 12 it was still both
    assert line.possible(12.1, 99.0) == {RESTS}


def test_a_change_that_is_not_confirmed_stays_open() -> None:
    line = Timeline(0.0, RUNS)
    line.may_be(5.0, CUT)
    assert line.possible(100.0, 101.0) == {RUNS, CUT}


def test_an_end_that_is_learnt_of_later_counts_from_when_it_may_have_come() -> None:
    line = Timeline(0.0, RUNS)
    line.may_be(3.0, CUT)  # told at 4: it was alive at 3
    line.is_now(4.0, CUT)
    assert line.possible(2.0, 2.9) == {RUNS}
    assert line.possible(3.5, 3.6) == {RUNS, CUT}
    assert line.possible(4.5, 5.0) == {CUT}


def test_what_comes_back_is_possible_again() -> None:
    line = Timeline(0.0, RUNS)
    line.is_now(1.0, CUT)
    line.may_be(5.0, RUNS)
    line.is_now(6.0, RUNS)
    assert line.possible(2.0, 4.0) == {CUT}
    assert line.possible(7.0, 8.0) == {RUNS}


def test_steady_is_one_truth_and_nothing_written() -> None:
    line = Timeline(0.0, RUNS)
    assert line.is_steady(1.0, 2.0)
    line.change_begins(3.0)
    assert not line.is_steady(2.5, 3.5)
    assert not line.is_steady(100.0, 101.0)  # it goes on
    line.change_ends(4.0)
    assert line.is_steady(4.1, 5.0)
    line.may_be(6.0, RESTS)
    assert not line.is_steady(5.5, 6.5)


# The verdicts: what was possible, what was answered, and what that is.

ROWS: dict[str, tuple[set[Truth], Seen, str]] = {
    "right": ({RUNS}, Seen(row(ALIVE, WORKING)), oracle.RIGHT),
    "right in a change": ({RUNS, CUT}, Seen(row(GONE, INTERRUPTED)), oracle.RIGHT),
    "false ended": ({RUNS}, Seen(row(GONE, INTERRUPTED)), oracle.FALSE_ENDED),
    "false ended, idle": ({RESTS}, Seen(row(GONE, DONE)), oracle.FALSE_ENDED),
    "ended, with a doubt": (
        {RESTS},
        Seen(row(GONE, DONE, inferred=True, reason="done; pid 7 may be on it: starting")),
        oracle.HEDGED,
    ),
    "a doubt that names several": (
        {RESTS},
        Seen(row(GONE, DONE, inferred=True, reason="done; pid 6, 7 may be on it: starting")),
        oracle.HEDGED,
    ),
    "at rest, by another name": (
        {RESTS},
        Seen(row(GONE, DONE, evidence=[{"source": "rule", "fact": "closed: x"}]), other_name=True),
        oracle.AT_REST,
    ),
    "at work, by another name": (
        {RUNS},
        Seen(row(GONE, DONE, evidence=[{"source": "rule", "fact": "closed: x"}]), other_name=True),
        oracle.FALSE_ENDED,
    ),
    "at rest, and ended by another rule": (
        {RESTS},
        Seen(row(GONE, INTERRUPTED, evidence=[{"source": "rule", "fact": "exhausted: x"}]), other_name=True),
        oracle.FALSE_ENDED,
    ),
    "the doubt names another": (
        {RESTS},
        Seen(row(GONE, DONE, inferred=True, reason="done; pid 77 may be on it: starting")),
        oracle.FALSE_ENDED,
    ),
    "false alive": ({CUT}, Seen(row(ALIVE, WORKING)), oracle.FALSE_ALIVE),
    "alive by a stranger": ({RUNS}, Seen(row(ALIVE, WORKING, pid=8)), oracle.WRONG_PID),
    "being started: its pid is not known yet": ({Truth(ALIVE)}, Seen(row(ALIVE, WORKING, pid=8)), oracle.RIGHT),
    "wrong turn": ({RESTS}, Seen(row(ALIVE, WAITING)), oracle.WRONG_TURN),
    "wrong turn, marked": ({RESTS}, Seen(row(ALIVE, WAITING, inferred=True)), oracle.WRONG_TURN + oracle.MARKED),
    "wrong end": ({OVER}, Seen(row(GONE, INTERRUPTED)), oracle.WRONG_END),
    "unknown": ({RUNS}, Seen(row("unknown", WORKING)), oracle.UNKNOWN),
    "alive, and its turn is unknown": ({RUNS}, Seen(row(ALIVE, "unknown")), oracle.UNKNOWN),
    "gone, and its turn is unknown": ({CUT}, Seen(row(GONE, "unknown")), oracle.UNKNOWN),
    "unknown turn of one that lives": ({RUNS}, Seen(row(GONE, "unknown")), oracle.FALSE_ENDED),
    "missing": ({RUNS}, Seen(None), oracle.MISSING),
    "missing, and ended ones were not asked for": ({CUT}, Seen(None, ended_too=False), oracle.RIGHT),
    "missing, alive, ended ones were not asked for": ({RUNS}, Seen(None, ended_too=False), oracle.MISSING),
    "not there yet": ({NOT_THERE, RUNS}, Seen(None), oracle.RIGHT),
    "its store was closed": ({RUNS}, Seen(None, unread=oracle.UNREAD), oracle.UNKNOWN),
    "ended wrongly because its store was closed": (
        {RUNS},
        Seen(row(GONE, DONE), unread=oracle.UNREAD),
        oracle.FALSE_ENDED,
    ),
    "its process is shown": ({RUNS}, Seen(None, unattached="starting"), oracle.UNKNOWN),
    "no session yet, its process shown": ({SESSIONLESS}, Seen(None, unattached="no prompt"), oracle.RIGHT),
    "no session yet, its process not shown": ({SESSIONLESS}, Seen(None), oracle.MISSING),
    "no session yet, and yet a row": ({SESSIONLESS}, Seen(row(ALIVE, IDLE)), oracle.FALSE_ALIVE),
    "no session yet, and said to have ended": ({SESSIONLESS}, Seen(row(GONE, DONE)), oracle.FALSE_ENDED),
    "double": ({RUNS}, Seen(row(ALIVE, WORKING), rows=2), oracle.DOUBLE),
}


@pytest.mark.parametrize("name", ROWS)
def test_verdicts(name: str) -> None:
    possible, seen, kind = ROWS[name]
    assert verdict(frozenset(possible), seen, PIDS).kind == kind


def test_reasons_are_counted_by_what_they_say_and_not_of_whom() -> None:
    one = "in mid-turn, and pid 12, 13 may be on it: /tmp/x/1.json of 01a1e26e-60d7-789f-87a0-dc2bab54b509"
    other = "in mid-turn, and pid 9 may be on it: /tmp/y of 01a1e26e-60d7-789f-87a0-dc2bab54b50a"
    assert reason_class(one) == reason_class(other) == "in mid-turn, and pid N may be on it: PATH of ID"
    assert reason_class("of ses_e1e5938aaffeJMI3W7uQk9nz2h") == "of ID"


# The decisions


def test_the_same_seed_decides_the_same() -> None:
    def story(seed: str) -> list[tuple[str, float]]:
        return [(type(actor).__name__, rng.random()) for actor, rng in (decide(seed, n) for n in range(1500))]

    assert story("a") == story("a") != story("b")
    assert {name for name, _ in story("a")} == {one.__name__ for one in TABLE}


# What is told at the end


def test_unknown_answers_are_counted_by_the_rule_that_decided() -> None:
    facts = [{"source": "kernel", "fact": "pid 7 is alive"}, {"source": "rule", "fact": "pid 7: it is starting"}]
    decided = {"source": "rule", "fact": "key-gone: the process recorded for it is proved gone, in mid-turn"}
    assert oracle.rule_of({"evidence": [*facts, decided]}) == "key-gone"
    assert oracle.rule_of(None) == oracle.NO_ROW
    assert oracle.rule_of({"evidence": facts}) == "no rule is named"


def test_the_share_of_unknown_is_told_by_agent_by_rule_and_by_reason() -> None:
    stage: Any = SimpleNamespace(judged=Counter(amber=200, blue=100), unknown=Counter())
    stage.unknown[Unknown("amber", "candidate", "in mid-turn, and pid N may be on it")] = 4
    stage.unknown[Unknown("amber", "unread", "what nobody has seen before")] = 2
    told = dict(report.unknown_lines(stage))
    assert told["of amber"] == "6 of 200 (3.00 %)"
    assert told["of blue"] == "0 of 100 (0.00 %)"
    assert told["by the rule `candidate`"] == "4 of 300 (1.33 %)"
    assert told["amber, candidate: in mid-turn, and pid N may be on it"].startswith("4: a live process")
    assert told["amber, unread: what nobody has seen before"] == "2: not explained"


def test_judgements_add_up_over_the_runs(tmp_path: Path) -> None:
    path = tmp_path / "soak" / report.RUNS
    assert report.add_run(path, {"judgements": 3}) == [{"judgements": 3}]
    assert [run["judgements"] for run in report.add_run(path, {"judgements": 4})] == [3, 4]
