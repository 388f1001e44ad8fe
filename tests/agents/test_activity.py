"""What a live process does and since when: by its store, or not known."""

from __future__ import annotations

from typing import Any

import pytest

from agentctl.agents.activity import Moments, with_activity
from agentctl.model import DONE, FAILED, IDLE, UNKNOWN, WAITING, WORKING, Link, ProcessKey, Record
from agentctl.query.present import doing_of, since_of
from agentctl.query.world import Case, Verdict

MOMENTS = Moments(begun_at=1.0, ended_at=2.0, asked_at=3.0, prompt="mend\n the roof")


def link(**more: Any) -> Link:
    return Link("amber", "s", "/store", ProcessKey("boot", 7, 70), "its file", **more)


def record(turn: str, **more: Any) -> Record:
    return Record("amber", "s", "/store", turn, started_at=0.5, **more)


@pytest.mark.parametrize(
    ("said", "stored", "since", "doing"),
    [
        (None, WORKING, 1.0, "works on: mend the roof"),
        (WORKING, WORKING, 1.0, "works on: mend the roof"),
        (WAITING, WORKING, 3.0, None),
        (IDLE, DONE, 2.0, None),
        (None, FAILED, 2.0, None),
        (IDLE, IDLE, 0.5, None),  # never prompted: since its start
        (WORKING, DONE, None, None),  # its file runs ahead of its transcript: that turn is not stored yet
        (IDLE, WORKING, None, None),  # interrupted, and nothing of it is stored
        (UNKNOWN, UNKNOWN, None, None),
    ],
)
def test_by_the_state_and_the_record(said: str | None, stored: str, since: float | None, doing: str | None) -> None:
    found = with_activity(link(turn=said), record(stored), MOMENTS)
    assert (found.since, found.doing) == (since, doing)


def test_a_tool_comes_before_the_prompt_and_the_stores_own_word_first() -> None:
    at_tool = with_activity(link(), record(WORKING, pending="npm test", pending_tool="bash"), MOMENTS)
    assert at_tool.doing == "npm test"
    assert with_activity(link(), record(WORKING, pending="", pending_tool="bash"), MOMENTS).doing == "bash"
    own = with_activity(link(since=9.0, doing="retrying: 529"), record(WORKING, pending="npm test"), MOMENTS)
    assert (own.since, own.doing) == (9.0, "retrying: 529")
    assert with_activity(link(), None, MOMENTS) == link()
    assert with_activity(link(), record(WORKING), Moments()).doing is None


def case(id: str, stored: Record) -> Case:
    return Case("amber", id, stored, (), (), None, (), ())


def test_a_sub_agent_does_not_do_what_its_parent_does() -> None:
    parents = link(turn=WORKING, since=9.0, doing="npm test")
    child = case("child", record(WORKING, pending="ls")._replace(id="child"))
    verdict = Verdict("alive", WORKING, "parent", link=parents)
    assert (doing_of(child, verdict), since_of(child, verdict)) == ("ls", None)
    own = case("s", record(WORKING))
    assert (doing_of(own, verdict), since_of(own, verdict)) == ("npm test", 9.0)


def test_a_verdict_that_the_store_does_not_share_has_no_time() -> None:
    idle = link(turn=IDLE, since=9.0)
    assert since_of(case("s", record(DONE)), Verdict("alive", WORKING, "alive", link=idle)) is None
    silent = link(since=9.0)
    assert since_of(case("s", record(DONE)), Verdict("alive", IDLE, "alive", link=silent)) == 9.0
