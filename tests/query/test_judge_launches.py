"""Launches in the judgement: they explain what is judged, and never decide whether a process lives."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from agentctl.kernel.processes import Processes
from agentctl.model import ALIVE, DONE, FAILED, IDLE, SOLE, UNKNOWN, WORKING, Exit, Launch, Session, StoreView
from agentctl.query.world import Launched, World
from tests.support.facts import A, claim, judged, key, link, rec, row
from tests.support.random_worlds import NOW, make

if TYPE_CHECKING:
    from agentctl.model import Claim, Link, Process, Record

WORLDS = 1500


def launched(
    pid: int,
    session: str | None = "s",
    *,
    lives: bool = True,
    exits: tuple[Exit, ...] = (),
    ended: bool = False,
    **more: Any,
) -> Launched:
    given: dict[str, Any] = {
        "id": "launch1",
        "agent": "amber",
        "argv": ("amber",),
        "env_names": (),
        "cwd": "/work",
        "runner": key(pid - 1),
        "child": key(pid),
        "created_at": 10.0,
        "headless": True,
        "one_shot": True,
        "prompt": "do it",
        "group": "g",
        "path": "/state/launch.json",
    }
    return Launched(Launch(**{**given, **more}), session, (key(pid),) if lives else (), exits, ended)


def screen(pid: int, **more: Any) -> Launched:
    """A launch into a terminal, with a prompt, on the session s."""
    return launched(pid, **{"headless": False, "one_shot": False, "session_id": "s", **more})


def see(*facts: Process | Record | Link | Claim | Launched | StoreView) -> tuple[Session, ...]:
    from agentctl.model import Claim, Link, Process, Record

    def all_of(kind: type) -> Any:
        return tuple(fact for fact in facts if isinstance(fact, kind))

    world = World(Processes("boot", all_of(Process)), all_of(StoreView), all_of(Record), all_of(Link), all_of(Claim))
    return judged(world._replace(launches=all_of(Launched))).sessions


def one(*facts: Process | Record | Link | Claim | Launched | StoreView) -> Session:
    (found,) = see(*facts)
    return found


ENDED = Exit(key(7), "amber", 143, None, 20.0, direct=True)

UNREAD = StoreView("amber", A, unread="Permission denied")

# What is seen -> status, with ? where it is inferred.
ROWS: dict[str, tuple[list[Any], str]] = {
    "alive, and nothing written": ([row(7), link(7), launched(7)], "running ?"),
    "alive, its own word is unknown": ([row(7), link(7, turn="unknown"), launched(7)], "running ?"),
    "alive, and its prompt is stored": ([row(7), link(7), launched(7), rec(WORKING)], "running"),
    "alive, and its turn is over": ([row(7), link(7), launched(7), rec(DONE, updated_at=11.0)], "idle"),
    "alive, and an earlier run's turn is over": ([row(7), link(7), launched(7), rec(DONE)], "running ?"),
    "the same, and it looks idle by that": ([row(7), link(7, turn=IDLE), launched(7), rec(DONE)], "running ?"),
    "alive, and it says that it is idle": ([row(7), link(7, turn=IDLE), launched(7)], "running ?"),
    "the same, and no turn was begun": ([row(7), link(7, turn=IDLE), launched(7), rec(IDLE)], "running ?"),
    "the same, and its prompt is stored": ([row(7), link(7, turn=IDLE), launched(7), rec(WORKING)], "running ?"),
    "idle by its own word, and its turn is over": (
        [row(7), link(7, turn=IDLE), launched(7), rec(DONE, updated_at=11.0)],
        "idle",
    ),
    "alive, its turn is over, and its clock was set back": (
        [row(7), link(7), launched(7), rec(DONE, started_at=11.0, updated_at=5.0)],
        "idle",
    ),
    "alive, and its store was not read": ([row(7), link(7), launched(7), UNREAD], "alive"),
    "alive, and its record was not read": ([row(7), link(7), launched(7), rec(UNKNOWN)], "alive"),
    "in a terminal: nobody knows of a prompt": ([row(7), link(7), launched(7, headless=False)], "alive"),
    "a screen before its prompt": ([row(7), link(7, turn=IDLE), screen(7)], "alive"),
    "a screen before its prompt, by its record": ([row(7), link(7), screen(7), rec(IDLE)], "alive"),
    "a screen on an old session, before its prompt": ([row(7), link(7, turn=IDLE), screen(7), rec(DONE)], "alive"),
    "a screen after its turn": ([row(7), link(7, turn=IDLE), screen(7), rec(DONE, updated_at=11.0)], "idle"),
    "a screen in its turn": ([row(7), link(7, turn=WORKING), screen(7), rec(WORKING)], "running"),
    "a screen whose turn was interrupted": (
        [row(7), link(7, turn=IDLE), screen(7), rec(WORKING, updated_at=11.0)],
        "idle",
    ),
    "a screen on a session that was killed, before its prompt": (
        [row(7), link(7, turn=IDLE), screen(7), rec(WORKING)],
        "alive",
    ),
    "a screen without a prompt": ([row(7), link(7, turn=IDLE), screen(7, prompt=None)], "idle"),
    "a screen that went on to another session": ([row(7), link(7, turn=IDLE), screen(7, session_id="t")], "idle"),
    "may take several prompts": ([row(7), link(7), launched(7, one_shot=False)], "alive"),
    "another process is on it": ([row(8), link(8), launched(7, lives=False)], "alive"),
    "of another agent": ([row(7), link(7), launched(7, agent="basalt")], "alive"),
    "gone, in mid-turn, and another process may be on it": (
        [row(8), claim(8, "s", sole=True), launched(7, lives=False, exits=(ENDED,)), rec(WORKING, updated_at=11.0)],
        "unknown",
    ),
    "gone, and written since by the one that may be on it": (
        [row(8), claim(8, "s", sole=True), launched(7, lives=False, exits=(ENDED,)), rec(WORKING, updated_at=30.0)],
        "running ?",
    ),
    "gone, in mid-turn": ([link(7), launched(7, lives=False), rec(WORKING)], "stopped"),
}


@pytest.mark.parametrize("name", ROWS)
def test_rows(name: str) -> None:
    facts, said = ROWS[name]
    found = one(*facts)
    assert f"{found.status}{' ?' if found.inferred else ''}" == said


def test_a_session_carries_its_newest_launch() -> None:
    older = launched(5, lives=False)
    newer = older._replace(record=older.launch._replace(id="launch2", created_at=30.0, group="h"))
    found = one(rec(DONE), older, newer)
    assert (found.launch_id, found.group) == ("launch2", "h")


def test_by_its_process_where_the_id_has_changed() -> None:
    found = {s.id: s.launch_id for s in see(row(7), link(7, "new"), rec(IDLE, "new"), rec(DONE), launched(7))}
    assert found == {"s": "launch1", "new": "launch1"}


def test_how_it_ended_is_told_of_what_is_gone() -> None:
    found = one(rec(WORKING), launched(7, lives=False, exits=(ENDED,)))
    assert (found.exit_code, found.signal, found.ended_at) == (143, None, 20.0)
    killed = ENDED._replace(exit_code=None, signal="SIGKILL")
    found = one(rec(WORKING), launched(7, lives=False, exits=(killed,)))
    assert (found.exit_code, found.signal) == (None, "SIGKILL")
    assert "ended by SIGKILL" in (found.reason or "")


@pytest.mark.parametrize(
    "facts",
    [
        [row(7), link(7), rec(WORKING)],  # it lives: whatever stands there
        [rec(DONE, updated_at=25.0)],  # somebody went on with it after that end
        [link(8), rec(DONE, updated_at=25.0)],
    ],
)
def test_an_exit_is_not_told_of_another_run(facts: list[Any]) -> None:
    found = one(*facts, launched(7, lives=False, exits=(ENDED,)))
    assert (found.exit_code, found.signal) == (None, None)


def test_an_exit_of_a_tool_is_not_the_agents() -> None:
    found = one(rec(FAILED), launched(7, lives=False, exits=(ENDED._replace(direct=False),)))
    assert found.exit_code is None


def test_a_process_without_a_session_has_its_launch() -> None:
    world = World(Processes("boot", (row(7),)), claims=(claim(7),), launches=(launched(7, None),))
    (found,) = judged(world).unattached
    assert (found.pid, found.launch_id) == (7, "launch1")


def test_it_is_shown_wherever_its_home_is() -> None:
    world = World(Processes("boot", (row(7),)), claims=(claim(7, shown=False),))
    assert not judged(world).unattached
    assert judged(world._replace(launches=(launched(7, None),))).unattached


def test_launches_never_decide_whether_a_process_lives() -> None:
    """In random worlds, with random launches: process, rule and ends stay as they were; only an open question of a
    live one-shot run becomes `running`, inferred. A process that was only taken for the one on a session, because no
    other can be, is no longer if a runner saw the one end that was: then nobody knows."""
    changed = 0
    for seed in range(WORLDS):
        rng = random.Random(seed)
        world = make(rng).world
        plain = {(s.agent, s.id): s for s in judged(world).sessions}
        given = []
        for link_ in world.links:
            if rng.random() < 0.5:
                lives = world.processes.alive(link_.key) is not None
                more: dict[str, Any] = {
                    "id": f"launch{rng.randrange(10**6)}",
                    "agent": link_.agent,
                    "child": link_.key,
                    "created_at": NOW + rng.uniform(-1e5, 1e5),
                    "headless": rng.random() < 0.8,
                    "one_shot": rng.random() < 0.8,
                }
                exits = (ENDED._replace(key=link_.key, at=NOW + rng.uniform(-1e5, 1e5)),) if rng.random() < 0.5 else ()
                base = launched(7, rng.choice([link_.id, None]), lives=False, exits=exits, **more)
                given.append(base._replace(agents=(link_.key,) if lives else ()))
        for found in judged(world._replace(launches=tuple(given))).sessions:
            before = plain[found.agent, found.id]
            if found.parent is not None:
                continue  # it follows what is said of its parent
            if before.link == SOLE and found.link is None:
                assert found.process == UNKNOWN or found.inferred
                continue
            assert (found.process, found.rule) == (before.process, before.rule)
            if found.status != before.status:
                changed += 1
                assert (found.status, found.inferred, found.process) == ("running", True, ALIVE)
                assert before.status in ("alive", "idle")
            if found.exit_code is not None or found.signal is not None:
                assert found.process == "gone"
    assert changed > WORLDS / 100


def test_facts_are_in_the_evidence() -> None:
    found = one(rec(WORKING), launched(7, lives=False, exits=(ENDED,)))
    told = [fact.fact for fact in found.evidence if fact.source == "launch"]
    assert told[0].startswith("launched by agentctl as launch1")
    assert told[1] == "its runner saw it end: exit code 143"
    silent = one(rec(WORKING), launched(7, lives=False, ended=True))
    assert any("seen by nobody" in fact.fact for fact in silent.evidence)
    unproved = one(rec(WORKING), launched(7, lives=False))
    assert not any("seen by nobody" in fact.fact for fact in unproved.evidence)


def test_what_the_store_lacks_comes_from_the_launch() -> None:
    found = one(row(7), link(7, store=A), launched(7))
    assert (found.cwd, found.prompt) == ("/work", "do it")
    found = one(row(7), link(7), launched(7), rec(WORKING, cwd="/there", prompt="done already"))
    assert (found.cwd, found.prompt) == ("/there", "done already")


HANDED = "it may run on another machine"


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ([rec("working")], "unknown handed-on"),
        ([rec("working"), link(90)], "unknown handed-on"),  # its pid file may be of that machine
        ([rec("working"), link(7)], "stopped key-gone"),  # this one was our own child
        ([rec("working"), link(8)], "stopped key-gone"),  # this one our runner has reaped
        ([rec("done")], "done closed"),
        ([rec("working"), row(30), link(30)], "running alive"),  # somebody has taken it up here
    ],
)
def test_a_wrapper_that_may_have_handed_the_agent_on(facts: list[Any], expected: str) -> None:
    exits = (Exit(key(7), "ssh", 0, None, 20.0, direct=True), Exit(key(8), "amber", 0, None, 20.0))
    ours = launched(7, lives=False, exits=exits, wrapper="/bin/x")._replace(handed=HANDED)
    found = one(*facts, ours)
    assert f"{found.status} {found.rule}" == expected


def test_a_wrapper_that_lives() -> None:
    ours = launched(7, lives=False, wrapper="/bin/x")._replace(handed=HANDED, wrapped_by=key(7))
    found = one(rec("working"), row(7), ours)
    assert (found.status, found.rule, found.reason) == ("unknown", "wrapped", HANDED)
