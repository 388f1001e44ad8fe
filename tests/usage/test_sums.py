"""The sums of all sessions of a slot are those of each of them together, whatever has changed since they were made."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentctl.agents import load_all
from agentctl.usage import db
from agentctl.usage.index import Index
from agentctl.usage.sums import LAST_SLOT, Span
from tests.usage.test_index import ID, Home, answer, cost_state, spent

if TYPE_CHECKING:
    from agentctl.usage.sums import Sum

NAMES = tuple(agent.NAME for agent in load_all())
BEHIND_UTC = [(LAST_SLOT, -20)]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["answer", "answer", "anew", "cost", "child", "grandchild", "copy", "remove"]),
        st.integers(1, 3),
        st.sampled_from("abcdefghij"),
        st.sampled_from(["2026-11-14T04:59", "2026-11-14T05:00", "2026-11-15T18:36", ""]),
        st.sampled_from(["model-1", "model-2", None]),
    ),
    max_size=8,
)


def act(home: Home, what: str, number: int, name: str, at: str, model: str | None, output: int) -> None:
    path = home.path(number)
    children = path.with_suffix("") / "subagents"
    line = answer(f"msg_{name}", output, timestamp=f"{at}:00.000Z" if at else None)
    line = line.replace(b'"model-1"', f'"{model}"'.encode() if model else b"null")
    if what == "cost":
        line = cost_state(output, 1000 * output)
    elif what in ("child", "grandchild"):
        children.mkdir(parents=True, exist_ok=True)
        path = children / "agent-child.jsonl"
        if what == "grandchild":
            path = home.projects / "child" / "subagents" / "agent-grandchild.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
    elif what == "copy" and path.exists():
        path, line = home.path(number % 3 + 1), path.read_bytes()
    if what == "remove":
        path.unlink(missing_ok=True)
    elif what == "anew":
        path.write_bytes(line)
    else:
        with path.open("ab") as file:
            file.write(line)


def comparable(sums: list[Sum]) -> set[tuple[object, ...]]:
    return {
        tuple((one._replace(cost=None if one.cost is None else round(one.cost, 6))).__dict__.values()) for one in sums
    }


@settings(deadline=None, max_examples=40)
@given(steps=STEPS)
def test_what_is_said_of_all_is_what_is_said_of_each(steps: list[tuple[str, int, str, str, str | None]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder))
        for count, step in enumerate(steps):
            act(home, *step, 10 + count)
            spent(home.env)
            index = Index(db.opened(str(home.index)))
            try:
                for by in ("day", "agent", "model"):
                    for first in (None, 1_000_000):
                        span = Span(NAMES, first)
                        found = comparable(index.sums(by, span, BEHIND_UTC))
                        each = comparable(index.sums(by, span._replace(left_out=("/nowhere",)), BEHIND_UTC))
                        assert found == each
            finally:
                index.close()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_a_day_has_the_sessions_that_spent_in_it(home: Home) -> None:
    for number, name in ((1, "a"), (2, "b")):
        act(home, "answer", number, name, "2026-11-14T12:00", "model-1", 1)
    act(home, "answer", 1, "c", "2026-11-15T12:00", "model-2", 1)
    act(home, "child", 2, "d", "2026-11-15T13:00", "model-1", 1)
    for again in range(2):
        found = spent(home.env, "day")
        assert [(row.key, row.sessions) for row in found.rows] == [("2026-11-14", 2), ("2026-11-15", 2)]
        assert [(row.key, row.sessions) for row in spent(home.env, "model").rows] == [("model-1", 2), ("model-2", 1)]
        assert found.total.sessions == 2, again
    home.path(1).unlink()
    found = spent(home.env, "day")
    assert [(row.key, row.sessions) for row in found.rows] == [("2026-11-14", 1), ("2026-11-15", 1)]
    assert found.total.sessions == 1
    assert ID.format(2) in {row.key for row in spent(home.env).rows}


def test_what_a_sub_agent_cost_is_on_record_once_its_parent_says_so(home: Home) -> None:
    """In another slot than anything that was written then."""
    act(home, "answer", 1, "a", "2026-11-15T18:36", "model-1", 1)
    act(home, "child", 1, "b", "2026-11-14T05:00", "model-1", 1)
    assert [row.cost_complete for row in spent(home.env, "day").rows] == [False, False]
    act(home, "cost", 1, "c", "", None, 3)
    assert [row.cost_complete for row in spent(home.env, "day").rows] == [True, True]
