"""A session that is killed as it is given a prompt. What the oracle holds for true and what agentctl says both follow
from what was written: if nothing was, the last turn is the one before, and nobody can know more.

The real OpenCode (1.18.33) was killed in this window too: it stores the message of the prompt first, its text some
moments later (3 s on a busy machine), then the time of the session, and before the message nothing at all.
"""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from agentctl.query import sessions
from tests.agents.opencode.soak import OpenCodeLife
from tests.soak.oracle import DONE, GONE, IDLE, INTERRUPTED, WORKING, Truth
from tests.support.opencode_home import Home, at

if TYPE_CHECKING:
    from pathlib import Path

STEP = {"role": "assistant", "time": {"created": at(300)}}
OVER, CUT = Truth(GONE, DONE), Truth(GONE, INTERRUPTED)
CALLED = {**STEP, "time": {"created": at(300), "completed": at(301)}, "finish": "tool-calls"}
# What it had written of the new turn when it was killed: messages, each with its parts.
WRITTEN: dict[str, tuple[list[tuple[dict[str, Any], list[dict[str, Any]]]], Truth]] = {
    "nothing": ([], OVER),
    "a prompt without its text": ([({"role": "user"}, [])], CUT),
    "a prompt": ([({"role": "user"}, [{"type": "text", "text": "again"}])], CUT),
    "a step without a byte": ([({"role": "user"}, []), (STEP, [])], CUT),
    "a step that asks for the next": ([({"role": "user"}, []), (CALLED, [{"type": "step-start"}])], CUT),
}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.session("ses_a", 100)
    home.prompt("ses_a", 101)
    home.step("ses_a", 102, end=103, finish="stop")
    return home


def life_in(home: Home) -> OpenCodeLife:
    """A session at rest whose last turn is done, as the soak knows it."""
    world: Any = SimpleNamespace(number=lambda: 1, roots={"opencode": home.data}, note=lambda text: None)
    life = OpenCodeLife(world, "opencode", home.folder)
    life.id, life.turn, life.last = "ses_a", IDLE, DONE
    return life


def killed_as_prompted(life: OpenCodeLife) -> None:
    """What the soak knows without a look at what was written: either is possible."""
    old = life.turn, life.last
    life.turn = WORKING
    life.died_at = time.monotonic()
    life.timeline.is_now(life.died_at, OVER, CUT)
    life.learn_end(old)


def possible(life: OpenCodeLife) -> set[Truth]:
    now = time.monotonic() + 1.0
    return set(life.timeline.possible(now, now))


@pytest.mark.parametrize("what", WRITTEN)
def test_the_oracle_and_agentctl_go_by_what_was_written(home: Home, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    written, truth = WRITTEN[what]
    for second, (data, parts) in enumerate(written, 300):
        home.message("ses_a", second, data["role"], *parts, **{k: v for k, v in data.items() if k != "role"})
    life = life_in(home)
    killed_as_prompted(life)
    assert possible(life) == {truth}
    world = home.world()
    monkeypatch.setattr(sessions, "snapshot", lambda agents: world.processes)
    monkeypatch.setattr(sessions, "SECOND_LOOK", 0.0)
    (session,) = sessions.query(sessions.Scope(agents=("opencode",), since=0.0), world.env).sessions
    assert (session.process, session.turn) == (truth.process, truth.turn)


@pytest.mark.parametrize("what", WRITTEN)
def test_a_screen_that_is_opened_on_it_later_leaves_the_end_as_it_was(home: Home, what: str) -> None:
    written, truth = WRITTEN[what]
    for second, (data, parts) in enumerate(written, 300):
        home.message("ses_a", second, data["role"], *parts, **{k: v for k, v in data.items() if k != "role"})
    life = life_in(home)
    killed_as_prompted(life)
    life.do = lambda name, **arguments: {}  # type: ignore[method-assign]
    life.resumed = life.begun = True
    life.open()
    assert life.turn == IDLE
    assert life.ends() == (truth,)


def test_where_only_the_orders_tell_both_stay_possible(home: Home) -> None:
    life = life_in(home)
    life.left_open = lambda: None  # type: ignore[assignment, method-assign, return-value]
    killed_as_prompted(life)
    assert possible(life) == {OVER, CUT}
