"""The judge by tables: one row for each rule and each sentence of the design. `s` is the session that is looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agentctl.model import (
    CLIENT,
    DAEMON,
    DONE,
    FAILED,
    HELPER,
    IDLE,
    INTERRUPTED,
    PROCESS_WORDS,
    SOLE,
    SPARE,
    STATUS_WORDS,
    TURN_WORDS,
    UNKNOWN,
    WAITING,
    WORKING,
    WRAPPER,
    status_word,
)
from agentctl.query.world import RULES
from tests.support.facts import ABSENT, HIDDEN, B, boss, claim, link, rec, row, session, shared, stranger, words

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.support.facts import Fact

# What is seen -> status, rule, and ? where it is inferred.
ROWS: dict[str, tuple[Iterable[Fact], str]] = {
    # 1.1 Absence is not death
    "missing from a scan that does not see all": ([rec(WORKING), link(7), HIDDEN], "unknown unseen"),
    "missing from a scan, and no process was ever known": ([rec(WORKING), HIDDEN], "unknown unseen"),
    "a live process, and nothing written yet": ([row(7), link(7)], "alive alive"),
    "a live process, and a record that cannot be read": ([row(7), link(7), rec(UNKNOWN)], "alive alive"),
    "a record that cannot be read": ([rec(UNKNOWN)], "unknown unread"),
    "(a) the recorded key is gone": ([rec(WORKING), link(7)], "stopped key-gone"),
    "(a) but a live supervisor has it as unfinished": ([row(9), rec(WORKING), link(7), boss(9)], "unknown supervised"),
    "(a) and its supervisor is dead, too": ([rec(WORKING), link(7), boss(9)], "stopped key-gone"),
    "(a) and the supervisor's pid is a stranger's": ([row(9, 5), rec(WORKING), link(7), boss(9)], "stopped key-gone"),
    "(a) and the supervisor is a zombie": ([row(9, state="Z"), rec(WORKING), boss(9)], "stopped exhausted"),
    "a live supervisor, and the last turn is closed": ([row(9), rec(DONE), boss(9)], "unknown supervised"),
    "a live supervisor, and its process lives": ([row(9), row(7), rec(WORKING), link(7), boss(9)], "running alive"),
    "(b) the store's own end: done": ([rec(DONE)], "done closed"),
    "(b) the store's own end: failed": ([rec(FAILED)], "failed closed"),
    "(b) the store's own end: interrupted": ([rec(INTERRUPTED)], "stopped closed"),
    "(b) it never began a turn": ([rec(IDLE)], "done closed"),
    "(c) its process holds another session now": (
        [row(7), rec(WORKING), rec(IDLE, "t"), link(7, "t"), claim(7)],
        "stopped exhausted",
    ),
    "(d) no process of its agent lives": ([row(7), rec(WORKING)], "stopped exhausted"),
    "(d) a live process is on another session": (
        [row(7), rec(WORKING), link(7, "t"), claim(7, "s")],
        "stopped exhausted",
    ),
    "(d) a live process can only be on another": ([row(7), rec(WORKING), claim(7, "t")], "stopped exhausted"),
    "(d) a live process works in another store": (
        [row(7), rec(WORKING), claim(7, store=B, candidates=None)],
        "stopped exhausted",
    ),
    "(d) a live process is of another agent": (
        [row(7), rec(WORKING), claim(7, candidates=None)._replace(agent="birch")],
        "stopped exhausted",
    ),
    "(d) a client is on no session": ([row(7), rec(WORKING), claim(7, "s", role=CLIENT)], "stopped exhausted"),
    "(d) a helper is on no session": ([row(7), rec(WORKING), claim(7, "s", role=HELPER)], "stopped exhausted"),
    "(d) a wrapper is on no session": ([row(7), rec(WORKING), claim(7, "s", role=WRAPPER)], "stopped exhausted"),
    "(d) a daemon is on what it holds": ([row(7), rec(WORKING), claim(7, "s", role=DAEMON)], "stopped exhausted"),
    "(d) a spare is on what names it": ([row(7), rec(WORKING), claim(7, "s", role=SPARE)], "stopped exhausted"),
    "(d) a process that was claimed and is a zombie": (
        [row(7, state="Z"), rec(WORKING), claim(7, "s")],
        "stopped exhausted",
    ),
    "(d) a process of no known name can be on it": ([row(7), rec(WORKING), stranger(7, "s")], "unknown stranger"),
    "(d) such a process can be on any session": (
        [row(7), rec(WORKING), stranger(7, candidates=None)],
        "unknown stranger",
    ),
    "(d) such a process can only be on another": ([row(7), rec(WORKING), stranger(7, "t")], "stopped exhausted"),
    "(d) such a process works in another store": (
        [row(7), rec(WORKING), stranger(7, "s", store=B)],
        "stopped exhausted",
    ),
    "(d) such a process has ended": ([rec(WORKING), stranger(7, "s")], "stopped exhausted"),
    "(d) such a process, and the last turn is closed": ([row(7), rec(DONE), stranger(7, "s")], "done closed"),
    "(d) such a process, and nothing tells how its turn stands": (
        [row(7), rec(UNKNOWN), stranger(7, "s")],
        "unknown unread",
    ),
    "(a) the recorded key is gone, and such a process is in its directory": (
        [row(7), rec(WORKING), link(8), stranger(7, "s")],
        "stopped key-gone",
    ),
    "(a) the recorded key is gone, and such a process has its store open": (
        [row(7), rec(WORKING), link(8), stranger(7, "s", proof=True)],
        "unknown candidate",
    ),
    "a live process, and one of no known name": (
        [row(7), row(8), rec(WORKING), link(7), stranger(8, "s")],
        "running alive",
    ),
    "its process lives and executes another program": (
        [row(7), rec(WORKING), link(7, left="executes sleep now")],
        "stopped key-gone",
    ),
    "its process at rest executes another program": (
        [row(7), rec(DONE), link(7, left="executes sleep now")],
        "done closed",
    ),
    # 1.2 A pid is not an identity
    "its pid is a stranger's now": ([row(7, 99), rec(WORKING), link(7)], "stopped key-gone"),
    "its pid is a stranger's, in a scan that does not see all": (
        [row(7, 99), rec(WORKING), link(7, here=True), HIDDEN],
        "stopped key-gone",
    ),
    "its pid is a stranger's, and its turn was closed": ([row(7, 99), rec(DONE), link(7)], "done closed"),
    "the same pid and ticks of another boot": ([row(7), rec(WORKING), link(7, boot="before")], "stopped key-gone"),
    "a zombie is dead": ([row(7, state="Z"), rec(WORKING), link(7)], "stopped key-gone"),
    "one that is being buried is dead": ([row(7, state="X"), rec(WORKING), link(7)], "stopped key-gone"),
    "a zombie leader with live threads is not": (
        [row(7, state="Z", dead=False), rec(WORKING), link(7)],
        "running alive",
    ),
    "a stopped process lives": ([row(7, state="T"), rec(WORKING), link(7)], "running alive"),
    # 1.4 and 3. The words of what is alive
    "alive, its record in mid-turn": ([row(7), rec(WORKING), link(7)], "running alive"),
    "alive, its record closed": ([row(7), rec(DONE), link(7)], "idle alive"),
    "alive, its record failed": ([row(7), rec(FAILED), link(7)], "idle alive"),
    "alive, no turn begun": ([row(7), rec(IDLE), link(7)], "idle alive"),
    "its process says that it works": ([row(7), rec(DONE), link(7, turn=WORKING)], "running alive"),
    "its process says that it waits": ([row(7), rec(WORKING), link(7, turn=WAITING)], "waiting alive"),
    "its process says that it is at its prompt": ([row(7), rec(WORKING), link(7, turn=IDLE)], "idle alive"),
    "its process cannot tell": ([row(7), rec(WORKING), link(7, turn=UNKNOWN)], "alive alive"),
    "its process guesses": ([row(7), rec(WORKING), link(7, turn=WAITING, inferred=True)], "waiting alive ?"),
    "its record guesses": ([row(7), rec(WORKING, inferred=True), link(7)], "running alive ?"),
    "its record guesses, its process knows": (
        [row(7), rec(WORKING, inferred=True), link(7, turn=WORKING)],
        "running alive",
    ),
    "its record guesses, its process is gone": ([rec(WORKING, inferred=True), link(7)], "stopped key-gone ?"),
    "its record guesses, nobody can be on it": ([rec(WORKING, inferred=True)], "stopped exhausted ?"),
    "a stored session of a daemon that is up is at rest": ([row(7), rec(DONE), claim(7, role=DAEMON)], "done closed"),
    "one process, named in two stores": (
        [row(7), link(7, reason="a"), link(7, store=B, reason="b")],
        "alive alive",
    ),
    "a daemon that holds it": ([row(7), rec(WORKING), link(7), link(7, "t"), claim(7, role=DAEMON)], "running alive"),
    "a spare that its roster names": ([row(7), rec(WORKING), link(7), claim(7, role=SPARE)], "running alive"),
    # 1.5 A guess is labelled
    "the only process, and its only session": ([row(7), rec(WORKING), claim(7, "s", sole=True)], "running alive ?"),
    "the only process, and its only session, at rest": ([row(7), rec(DONE), claim(7, "s", sole=True)], "idle alive ?"),
    "its agent gives a sole link": ([row(7), rec(WORKING), link(7, strength=SOLE)], "running alive ?"),
    "one candidate that may not be taken for it": ([row(7), rec(WORKING), claim(7, "s")], "unknown candidate"),
    "two candidates": ([row(7), rec(WORKING), claim(7, "s", "t", sole=True)], "unknown candidate"),
    "any session": ([row(7), rec(WORKING), claim(7, candidates=None, sole=True)], "unknown candidate"),
    "any session of any store": ([row(7), rec(WORKING), claim(7, candidates=None, store=None)], "unknown candidate"),
    "two processes with one candidate": (
        [row(7), row(8), rec(WORKING), claim(7, "s", sole=True), claim(8, "s", sole=True)],
        "unknown candidate",
    ),
    "a rival that may be on any": (
        [row(7), row(8), rec(WORKING), claim(7, "s", sole=True), claim(8, candidates=None)],
        "unknown candidate",
    ),
    "a candidate, and a process that is proved": (
        [row(7), row(8), rec(WORKING), link(7), claim(8, "s", sole=True)],
        "running alive",
    ),
    "a spare is nobody's guess": (
        [row(7), rec(WORKING), claim(7, "s", role=SPARE, sole=True)],
        "stopped exhausted",
    ),
    "a candidate of a closed session": ([row(7), rec(DONE), claim(7, "s")], "done closed ?"),
    "a candidate of a session without a turn": ([row(7), rec(IDLE), claim(7, "s")], "unknown candidate"),
    "a candidate of a process of another home": (
        [row(7), rec(WORKING), claim(7, "s", shown=False)],
        "unknown candidate",
    ),
    "a new process was started on what was killed": (
        [row(8), rec(WORKING), link(7), claim(8, "s")],
        "unknown candidate",
    ),
    "a new process may have been started on what was killed": (
        [row(8), rec(WORKING), link(7), claim(8, "s", "t")],
        "unknown candidate",
    ),
    "a new process of which nothing is known, after a kill": (
        [row(8), rec(WORKING), link(7), claim(8, candidates=None)],
        "unknown candidate",
    ),
    # 1.6 No age rules
    "old and alive": ([row(7), rec(WORKING, updated_at=1.0), link(7)], "running alive"),
    "young and dead": ([rec(WORKING, updated_at=9e9), link(7)], "stopped key-gone"),
    # 1.7 How it ended is judged from bytes read after its end
    "written after the table was read": ([rec(WORKING, fresh=True)], "unknown newer"),
    "written after the table was read, closed": ([rec(DONE, fresh=True)], "unknown newer"),
    "written after the table was read, its old process gone": (
        [rec(WORKING, fresh=True), link(7)],
        "unknown newer",
    ),
    "written after the table was read, by a process that lives": (
        [row(7), rec(WORKING, fresh=True), link(7)],
        "running alive",
    ),
    "an older copy was written after the table was read": (
        [rec(WORKING), rec(UNKNOWN, store=B, updated_at=None, fresh=True)],
        "unknown newer",
    ),
    "its dead process went to work behind the end of its turn": (
        [rec(DONE), link(7, turn=WORKING, since=6.0)],
        "stopped key-gone ?",
    ),
    "its dead process went to work, and no turn is recorded": (
        [rec(IDLE), link(7, turn=WORKING, since=6.0)],
        "stopped key-gone ?",
    ),
    "its dead process went to work, and another may go on with it": (
        [row(8), rec(DONE), link(7, turn=WORKING, since=6.0), claim(8, "s")],
        "unknown candidate",
    ),
    "its dead process went to work, and then its turn ended": (
        [rec(DONE), link(7, turn=WORKING, since=4.0)],
        "done closed",
    ),
    "its dead process was at work with a sub-agent, behind the end of its turn": (
        [rec(DONE), link(7, turn=WORKING, since=4.0, reason="a sub-agent")],
        "stopped key-gone ?",
    ),
    "its dead process was at its prompt": ([rec(DONE), link(7, turn=IDLE, since=6.0)], "done closed"),
    "a process that left the session for another went to work": (
        [row(7), rec(DONE), link(7, turn=WORKING, since=6.0, left="it went on")],
        "done closed",
    ),
    "no record, and what its dead process said before it ended": ([link(7, turn=WORKING)], "unknown unread"),
    "no record, and its process was at its prompt": ([link(7, turn=IDLE)], "unknown unread"),
    "no record, its process not seen, at its prompt": ([link(7, turn=IDLE), shared()], "unknown unread"),
    "a record that cannot be read, a process that may be on it": (
        [row(8), rec(UNKNOWN), link(7), claim(8, "s")],
        "unknown unread",
    ),
    # 1.9 One home
    "a process in a store that it does not tell": (
        [row(7), rec(WORKING), claim(7, "s", store=None)],
        "unknown candidate",
    ),
    "two stores have it, and a process works in the older one": (
        [row(7), rec(WORKING), rec(WORKING, store=B, updated_at=1.0), claim(7, "s", store=B)],
        "unknown candidate",
    ),
    # 1.10 Completeness is per store
    "its store is shared with others": ([rec(WORKING), shared()], "unknown unseen"),
    "its store is shared, its key not seen": ([rec(WORKING), link(7), shared()], "unknown unseen"),
    "its store is shared, its pid a stranger's": ([row(7, 99), rec(WORKING), link(7), shared()], "unknown unseen"),
    "its store is shared, its key proved ours": ([rec(WORKING), link(7, here=True), shared()], "stopped key-gone"),
    "its store is shared, one key proved ours, one not": (
        [rec(WORKING), link(7, here=True), link(8), shared()],
        "unknown unseen",
    ),
    "its store is shared, one key proved ours, one not, closed": (
        [rec(DONE), link(7, here=True), link(8), shared()],
        "done closed ?",
    ),
    "not all is seen, its key ours, nobody has its pid": (
        [rec(WORKING), link(7, here=True), HIDDEN, ABSENT],
        "stopped key-gone",
    ),
    "not all is seen, its key ours, its pid not seen": ([rec(WORKING), link(7, here=True), HIDDEN], "unknown unseen"),
    "its store is shared, closed": ([rec(DONE), shared()], "done closed ?"),
    "its store is shared, its key proved ours, closed": ([rec(DONE), link(7, here=True), shared()], "done closed"),
    "another store is shared": ([rec(WORKING), shared(B)], "stopped exhausted"),
    "two stores have it, the older one is shared": (
        [rec(WORKING), rec(DONE, store=B, updated_at=1.0), shared(B)],
        "unknown unseen",
    ),
    "its process is named by a store that is shared": ([rec(WORKING), link(7, store=B), shared(B)], "unknown unseen"),
    "recorded in another PID namespace": ([rec(WORKING), link(7, here=False)], "unknown elsewhere"),
    "recorded in another PID namespace, closed": ([rec(DONE), link(7, here=False)], "unknown elsewhere"),
    "recorded here and elsewhere": ([rec(WORKING), link(8), link(7, here=False)], "unknown elsewhere"),
    "recorded in an inner PID namespace, and seen": ([row(7), rec(WORKING), link(7, here=False)], "running alive"),
    # Two files of one session: the one written last
    "two records, the newer one closed": ([rec(WORKING, store=B, updated_at=1.0), rec(DONE)], "done closed"),
    "two records, the newer one open": ([rec(DONE, store=B, updated_at=1.0), rec(WORKING)], "stopped exhausted"),
    # Sub-agents live in their parent's process
    "of a parent that works": ([row(7), rec(WORKING, parent="p"), rec(WORKING, "p"), link(7, "p")], "running parent ?"),
    "of a parent that waits": (
        [row(7), rec(WORKING, parent="p"), rec(WORKING, "p"), link(7, "p", turn=WAITING)],
        "running parent ?",
    ),
    "of a parent that says it is at its prompt": (
        [row(7), rec(WORKING, parent="p"), rec(DONE, "p"), link(7, "p", turn=IDLE)],
        "stopped parent ?",
    ),
    "of a parent whose own turn is over, in the background": (
        [row(7), rec(WORKING, parent="p"), rec(DONE, "p"), link(7, "p")],
        "unknown parent",
    ),
    "of a parent that cannot tell": (
        [row(7), rec(WORKING, parent="p"), link(7, "p", turn=UNKNOWN)],
        "unknown parent",
    ),
    "of a parent that was killed": ([rec(WORKING, parent="p"), rec(WORKING, "p"), link(7, "p")], "stopped parent"),
    "its record guesses, its parent is done": (
        [rec(WORKING, parent="p", inferred=True), rec(DONE, "p")],
        "stopped parent ?",
    ),
    "of a parent that is done": ([rec(WORKING, parent="p"), rec(DONE, "p")], "stopped parent"),
    "of a parent that may be brought back": (
        [row(9), rec(WORKING, parent="p"), rec(WORKING, "p"), boss(9, "p")],
        "unknown parent",
    ),
    "of a parent that is done, on which a process may be": (
        [row(7), rec(WORKING, parent="p"), rec(DONE, "p"), claim(7, "p", "t")],
        "unknown parent",
    ),
    "of a parent that has no record, on which a process may be": (
        [row(7), rec(WORKING, parent="p"), claim(7, "p", "t")],
        "unknown parent",
    ),
    "of a parent that has no record and may be brought back": (
        [row(9), rec(WORKING, parent="p"), boss(9, "p")],
        "unknown parent",
    ),
    "of a parent that has no record": ([rec(WORKING, parent="p")], "stopped exhausted"),
    "of a parent that is done, in a store that is shared": (
        [rec(WORKING, parent="p"), rec(DONE, "p"), shared()],
        "unknown unseen",
    ),
    "of a sub-agent whose parent works": (
        [row(7), rec(WORKING, parent="z"), rec(WORKING, "z", parent="p"), rec(WORKING, "p"), link(7, "p")],
        "running parent ?",
    ),
    "of itself": ([rec(WORKING, parent="s")], "stopped exhausted"),
    "of its own sub-agent": ([rec(WORKING, parent="t"), rec(WORKING, "t", parent="s")], "stopped exhausted"),
    "a sub-agent that is done, of a parent that works": (
        [row(7), rec(DONE, parent="p"), rec(WORKING, "p"), link(7, "p")],
        "done closed",
    ),
    "a sub-agent that cannot be read": ([rec(UNKNOWN, parent="p"), rec(DONE, "p")], "unknown unread"),
    "a sub-agent with a link of its own": (
        [row(7), rec(WORKING, parent="p"), rec(DONE, "p"), link(7), link(7, "p")],
        "running alive",
    ),
    "a sub-agent that its daemon has as unfinished": (
        [row(9), rec(DONE, parent="p"), rec(DONE, "p"), boss(9)],
        "unknown supervised",
    ),
    "a sub-agent written after the table was read, of a parent that is done": (
        [rec(WORKING, parent="p", fresh=True), rec(DONE, "p")],
        "unknown newer",
    ),
    "a sub-agent written after the table was read, of a parent that works": (
        [row(7), rec(WORKING, parent="p", fresh=True), rec(WORKING, "p"), link(7, "p")],
        "running parent ?",
    ),
    "a sub-agent recorded elsewhere": (
        [rec(DONE, parent="p"), rec(DONE, "p"), link(7, here=False)],
        "unknown elsewhere",
    ),
    "a sub-agent on which a process may be": (
        [row(7), rec(WORKING, parent="p"), rec(DONE, "p"), claim(7, "s")],
        "unknown candidate",
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_what_is_said(name: str) -> None:
    facts, expected = ROWS[name]
    one = session(*facts)
    assert words(one) == expected, one.evidence
    assert (one.pid is None) == (one.process_key is None) == (one.link is None) == (one.process != "alive")
    assert session(*list(facts)[::-1]) == one


def test_a_gone_key_and_an_open_store() -> None:
    assert words(session(row(7), rec(WORKING), link(8), stranger(7, "s", proof=True))) == "unknown candidate"


def test_an_unread_turn_and_a_stranger() -> None:
    assert session(row(7), rec(UNKNOWN), stranger(7, "s")).process == UNKNOWN
    assert session(row(7), rec(UNKNOWN)).process == "gone"


def test_every_rule_has_a_row() -> None:
    of_launches = {"wrapped", "handed-on"}  # their rows are in test_judge_launches.py
    assert {expected.split()[1] for _, expected in ROWS.values()} == set(RULES) - of_launches


def test_the_word_is_a_function_of_the_two_axes() -> None:
    table = {
        ("alive", "working"): "running",
        ("alive", "waiting"): "waiting",
        ("alive", "idle"): "idle",
        ("gone", "done"): "done",
        ("gone", "failed"): "failed",
        ("gone", "interrupted"): "stopped",
    }
    found = {(process, turn): status_word(process, turn) for process in PROCESS_WORDS for turn in TURN_WORDS}
    assert found == {axes: table.get(axes, "alive" if axes[0] == "alive" else "unknown") for axes in found}
    assert set(found.values()) == set(STATUS_WORDS)
