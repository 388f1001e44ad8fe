"""Whom a stop may touch: tables of worlds, and random trees of processes held to what must always be true."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from agentctl.errors import Refused
from agentctl.judge import judge
from agentctl.model import AGENT, CLIENT, DAEMON, HELPER, SOLE, SPARE, WRAPPER, Details, Launch, Process
from agentctl.processes import Processes
from agentctl.targets import (
    Ground,
    Targets,
    adopted,
    alone,
    ancestors,
    collect,
    collect_adopted,
    command_of_ours,
    kept,
    runner_in,
    targets_of,
    targets_of_launch,
)
from agentctl.world import Launched, World
from tests.facts import A, boss, claim, key, link, rec, row

if TYPE_CHECKING:
    from agentctl.model import Claim, Link, ProcessKey, Record, Supervisor

ME, THEM = 1000, 2000
RUNNER = ("/usr/bin/python3", "-I", "-S", "/lib/agentctl/runner.py", "abcdefghij")


def table(
    *rows: Process,
    uids: dict[int, int | None] | None = None,
    words: dict[int, tuple[str, ...]] | None = None,
    vanished: tuple[int, ...] = (),
) -> Processes:
    def details(process: Process) -> Details | None:
        if process.pid in vanished:
            return None
        return Details(argv=(words or {}).get(process.pid, ("sh",)), uid=(uids or {}).get(process.pid, ME))

    return Processes("boot", rows, read_details=details)


def ground(processes: Processes, *claims: Claim, links: tuple[Link, ...] = (), **more: Any) -> Ground:
    on: dict[ProcessKey, tuple[str, ...]] = {}
    for one in links:
        on[one.key] = (*on.get(one.key, ()), one.id)
    roles = {one.key: (one.agent, one.role) for one in claims}
    given = {"runners": {}, "ourselves": frozenset(), "uid": ME, "on": on, "roles": roles, **more}
    return Ground(processes=processes, **given)


def decide(
    *facts: Process | Record | Link | Claim | Supervisor,
    id: str = "s",
    force: bool = False,
    uids: dict[int, int | None] | None = None,
    **more: Any,
) -> Targets:
    from agentctl import model

    def all_of(kind: type) -> Any:
        return tuple(fact for fact in facts if isinstance(fact, kind))

    processes = table(*all_of(Process), uids=uids)
    stores = (model.StoreView("amber", A),)
    links, claims = all_of(model.Link), all_of(model.Claim)
    world = World(processes, stores, all_of(model.Record), links, claims, all_of(model.Supervisor))
    (session,) = [one for one in judge(world).sessions if one.id == id]
    return targets_of(session, world, ground(processes, *claims, links=links, **more), force=force)


WORKS = (row(7), rec("working"), link(7), claim(7, role=AGENT))


def test_the_process_of_a_session() -> None:
    assert decide(*WORKS) == Targets(keys=(key(7),))


def test_all_processes_of_a_session() -> None:
    """Two writers: ending one of them would not stop it."""
    found = decide(*WORKS, row(8), link(8), claim(8))
    assert sorted(found.keys) == [key(7), key(8)]


def test_the_wrappers_above_it() -> None:
    found = decide(row(6), row(7, parent=6), rec("working"), link(7), claim(7), claim(6, role=WRAPPER))
    assert (found.keys, found.wrappers) == ((key(7),), (key(6),))


def test_what_has_ended() -> None:
    assert decide(rec("done")).over
    assert decide(rec("working"), link(7)).over
    assert decide(rec("working"), row(7, 5), link(7)).over, "another process has its pid"


def test_one_that_may_be_brought_back() -> None:
    found = decide(rec("working"), link(7), row(9), boss(9))
    assert found.supervised and not found.keys


REFUSED = {
    "its turn is closed, and somebody may go on with it": ("pid 7 may be on it", rec("done"), row(7), claim(7, "s")),
    "it cannot be told": ("pid 7 may be on it", rec("working"), row(7), claim(7, "s")),
    "a sub-agent": (
        "agentctl stop top",
        *(row(7), claim(7), link(7, "top"), link(7), rec("working", "top"), rec("working", parent="top")),
    ),
    "a sub-agent of a sub-agent": (
        "agentctl stop top",
        *(row(7), claim(7), link(7, "top"), rec("working", "top")),
        *(rec("working", "middle", parent="top"), rec("working", parent="middle")),
    ),
    "nobody claims its process": ("no process of amber", row(7), rec("working"), link(7)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    said, *facts = REFUSED[name]
    with pytest.raises(Refused, match=str(said)):
        decide(*facts)  # type: ignore[arg-type]


def test_a_sole_link_needs_force_and_names_the_pid() -> None:
    facts = (row(7), rec("working"), claim(7, "s", sole=True))
    inferred = link(7, strength=SOLE)
    with pytest.raises(Refused, match=r"pid 7 is on it is inferred.*--force"):
        decide(*facts, inferred)
    assert decide(*facts, inferred, force=True).keys == (key(7),)


def test_with_force_a_process_that_nobody_claims() -> None:
    assert decide(row(7), rec("working"), link(7), force=True).keys == (key(7),)


NEVER: dict[str, dict[str, Any]] = {
    "another user": {"uids": {7: THEM}},
    "a user who cannot be told": {"uids": {7: None}},
    "ourselves": {"ourselves": frozenset([key(7)])},
    "a runner": {"runners": {key(7): "abcdefghij"}},
}


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("name", NEVER)
def test_what_is_never_signalled(name: str, force: bool) -> None:
    with pytest.raises(Refused):
        decide(*WORKS, force=force, **NEVER[name])


@pytest.mark.parametrize("force", [False, True])
def test_process_1(force: bool) -> None:
    with pytest.raises(Refused, match="never signalled"):
        decide(row(1), rec("working"), link(1), claim(1), force=force)


RESIDENT = {
    "a daemon": (row(7), rec("working"), link(7), claim(7, role=DAEMON)),
    "another session": (*WORKS, rec("done", "other"), link(7, "other")),
    "another one of which nothing could be read": (*WORKS, link(7, "other")),
    "its own parent": (*WORKS, rec("working", "other"), link(7, "other")),
}


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("name", RESIDENT)
def test_a_process_that_is_not_to_be_ended(name: str, force: bool) -> None:
    assert decide(*RESIDENT[name], force=force).resident is not None


def test_its_own_sub_agents_do_not_keep_it() -> None:
    below = (rec("working", "a", parent="s"), link(7, "a"), rec("done", "b", parent="a"), link(7, "b"))
    assert decide(*WORKS, *below).resident is None


# A launch without a session


def launched(*agents: int, child: int = 7) -> Launched:
    launch = Launch("abcdefghij", "amber", (), (), "/", key(5), key(child), 0.0, True, True)
    return Launched(launch, agents=tuple(key(pid) for pid in agents))


def test_a_launch_that_is_its_agent() -> None:
    assert targets_of_launch(launched(7), ground(table(row(7)), claim(7)), tree=False) == Targets((key(7),))


def test_a_launch_that_is_no_agent_of_anybody() -> None:
    assert targets_of_launch(launched(), ground(table(row(7), row(8, parent=7))), tree=False) == Targets((key(7),))


def test_a_launch_with_a_wrapper_and_a_shell_between() -> None:
    rows = (row(7), row(8, parent=7), row(9, parent=8))
    found = targets_of_launch(launched(9), ground(table(*rows), claim(9)), tree=False)
    assert found == Targets((key(9),), (key(8), key(7)))


def test_a_launch_that_has_ended() -> None:
    assert targets_of_launch(launched(), ground(table(row(5), row(8, parent=5))), tree=False).over
    with pytest.raises(Refused, match=r"8 \(amber\).*--tree"):
        targets_of_launch(launched(), ground(table(row(5), row(8, parent=5)), claim(8)), tree=False)


def test_what_a_launch_left_behind() -> None:
    """With --tree an agent of it that is on no session; one that is on a session is stopped as that."""
    rows = (row(5), row(8, parent=5), row(9, parent=5), row(10, parent=5))
    world = ground(table(*rows), claim(8), claim(9), claim(10, role=DAEMON), links=(link(9, "inner"),))
    assert targets_of_launch(launched(), world, tree=True) == Targets((key(8),))
    with pytest.raises(Refused):
        targets_of_launch(launched(), world._replace(ourselves=frozenset([key(5)]), uid=THEM), tree=True)


@pytest.mark.parametrize("name", NEVER)
def test_a_launch_is_proved_the_same_way(name: str) -> None:
    more = dict(NEVER[name])
    processes = table(row(7), uids=more.pop("uids", None))
    with pytest.raises(Refused):
        targets_of_launch(launched(7), ground(processes, claim(7), **more), tree=False)


def test_a_launch_of_a_daemon() -> None:
    assert targets_of_launch(launched(7), ground(table(row(7)), claim(7, role=DAEMON)), tree=False).resident is not None


# What goes with it

TREE = (row(7), row(8, parent=7), row(9, parent=8), row(10, parent=9), row(11, parent=7), row(12))
LEFT: dict[str, tuple[dict[str, Any], str]] = {
    "another session": ({"claims": [claim(9)], "links": (link(9, "inner"),)}, "amber session inner"),
    "an agent on no session": ({"claims": [claim(9)]}, "on no session"),
    "a spare": ({"claims": [claim(9, role=SPARE)]}, "on no session"),
    "a daemon": ({"claims": [claim(9, role=DAEMON)]}, "amber's daemon"),
    "a wrapper around a session": (
        {"claims": [claim(9, role=WRAPPER), claim(10)], "links": (link(10, "inner"),)},
        "around amber session inner",
    ),
    "a runner of ours": ({"runners": {key(9): "abcdefghij"}}, "the runner of launch abcdefghij"),
    "a runner of another state folder": ({"words": {9: RUNNER}}, "the runner of launch abcdefghij"),
    "agentctl's daemon": ({"words": {9: ("python3", "-m", "agentctl", "daemon", "run")}}, "agentctl's own daemon"),
    "this command": ({"ourselves": frozenset([key(9)])}, "this command"),
    "another user": ({"uids": {9: THEM}}, "another user"),
    "a user who cannot be told": ({"uids": {9: None}}, "cannot be told"),
    "one that ended while we looked": ({"vanished": (9,)}, "cannot be told"),
    "one in the middle of exec": ({"unclear": frozenset([key(9)])}, "cannot be told"),
}


def grown(rows: tuple[Process, ...] = TREE, **more: Any) -> Ground:
    claims = more.pop("claims", [])
    processes = table(
        *rows, uids=more.pop("uids", None), words=more.pop("words", None), vanished=more.pop("vanished", ())
    )
    return ground(processes, *claims, **more)


def test_all_that_descends_from_it() -> None:
    found = collect([key(7)], grown(), frozenset([key(7)]))
    assert sorted(one.pid for one in found.tools) == [8, 9, 10, 11]
    assert found.left == ()


@pytest.mark.parametrize("name", LEFT)
def test_who_is_left_with_all_below(name: str) -> None:
    more, said = LEFT[name]
    found = collect([key(7)], grown(**more), frozenset([key(7)]))
    assert sorted(one.pid for one in found.tools) == [8, 11]
    assert [one.key.pid for one in found.left] == [9]
    assert said in found.left[0].what


@pytest.mark.parametrize("role", [HELPER, CLIENT])
def test_what_an_agent_claims_and_holds_no_session(role: str) -> None:
    found = collect([key(7)], grown(claims=[claim(9, role=role)]), frozenset([key(7)]))
    assert sorted(one.pid for one in found.tools) == [8, 9, 10, 11]


def test_nobody_is_older_than_its_parent() -> None:
    """Its row was read when its parent had this pid, and the row of whoever has the pid now was read later."""
    rows = (row(7, 500), row(8, 400, parent=7), row(9, 600, parent=7))
    found = collect([key(7, 500)], grown(rows), frozenset([key(7, 500)]))
    assert [one.pid for one in found.tools] == [9]


def test_rows_that_name_each_other_as_parent() -> None:
    rows = (row(7, 1, parent=8), row(8, 1, parent=7))
    assert [one.pid for one in collect([key(7, 1)], grown(rows), frozenset([key(7, 1)])).tools] == [8]


def test_what_a_runner_adopted() -> None:
    rows = (row(5), row(7, parent=5), row(8, parent=5), row(9, parent=8), row(10, parent=5), row(11, parent=10))
    more = {"words": {10: ("python3", "-m", "agentctl", "stop", "x")}}
    mine = frozenset([key(7)])
    assert [one.pid for one in adopted(key(5), grown(rows, **more), mine)] == [8]
    named = collect_adopted(key(5), grown(rows, **more), mine, tree=False)
    assert [one.key.pid for one in named.left] == [8] and not named.tools
    ended = collect_adopted(key(5), grown(rows, **more), mine, tree=True)
    assert sorted(one.pid for one in ended.tools) == [8, 9] and not ended.left
    daemon = collect_adopted(key(5), grown(rows, claims=[claim(8, role=DAEMON)], **more), mine, tree=True)
    assert [one.key.pid for one in daemon.left] == [8] and not daemon.tools


def test_a_wrapper_that_holds_others() -> None:
    rows = (row(6), row(7, parent=6), row(8, parent=6), row(9, parent=8))
    mine = frozenset([key(6), key(7)])
    assert alone(key(6), grown(rows), mine)
    assert alone(key(6), grown(rows, claims=[claim(7)]), mine)
    assert not alone(key(6), grown(rows, claims=[claim(9)]), mine)


def test_words() -> None:
    assert runner_in(RUNNER) == "abcdefghij"
    assert runner_in(RUNNER[:4]) is None
    assert runner_in((*RUNNER[:3], "/lib/other/runner.py", "abcdefghij")) is None
    assert command_of_ours(("python3", "-m", "agentctl", "stop")) == "stop"
    assert command_of_ours(("/usr/bin/agentctl", "daemon")) == "daemon"
    assert command_of_ours(("python3", "/usr/bin/agentctl", "list")) == "list"
    assert command_of_ours(("agentctl",)) == ""
    assert command_of_ours(("python3", "-m", "agentctl.demo", "daemon")) is None
    assert command_of_ours(("grep", "-r", "agentctl", "daemon")) is None
    assert command_of_ours(()) is None


def test_ancestors() -> None:
    processes = table(row(1, parent=0), row(7, parent=1), row(8, parent=7), row(9, parent=7))
    assert ancestors(8, processes) == {key(8), key(7), key(1)}
    assert ancestors(99, processes) == frozenset()


# Random trees


def random_ground(chance: random.Random) -> tuple[Ground, list[ProcessKey]]:
    size = chance.randint(2, 14)
    rows = [row(pid, chance.randint(1, 40), parent=chance.randint(0, size)) for pid in range(1, size + 1)]
    pids = [one.pid for one in rows]

    def some(share: float) -> list[int]:
        return [pid for pid in pids if chance.random() < share]

    by_pid = {one.pid: one.key for one in rows}
    roles = {
        by_pid[pid]: ("amber", chance.choice([AGENT, DAEMON, SPARE, WRAPPER, CLIENT, HELPER])) for pid in some(0.3)
    }
    found = Ground(
        processes=table(
            *rows,
            uids=dict.fromkeys(some(0.1), chance.choice([THEM, None])),
            words=dict.fromkeys(some(0.1), RUNNER),
        ),
        roles=roles,
        on={by_pid[pid]: ("inner",) for pid in some(0.2)},
        runners={by_pid[pid]: "abcdefghij" for pid in some(0.1)},
        ourselves=ancestors(chance.choice(pids), table(*rows)) if chance.random() < 0.3 else frozenset(),
        uid=ME,
        unclear=frozenset(by_pid[pid] for pid in some(0.05)),
    )
    return found, [by_pid[pid] for pid in chance.sample(pids, chance.randint(1, 2))]


def paths(root: ProcessKey, ground: Ground) -> dict[ProcessKey, list[list[Process]]]:
    """Every descendant, with every way down to it, taken apart in the simplest way."""
    found: dict[ProcessKey, list[list[Process]]] = {}

    def walk(above: ProcessKey, passed: list[Process]) -> None:
        for one in ground.processes.by_pid.values():
            if one.parent == above.pid and one.key.start >= above.start and one not in passed and one.key != root:
                found.setdefault(one.key, []).append([*passed, one])
                walk(one.key, [*passed, one])

    walk(root, [])
    return found


@pytest.mark.parametrize("seed", range(20))
def test_random_trees(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(150):
        world, roots = random_ground(chance)
        mine = frozenset(roots)
        found = collect(roots, world, mine)
        tools, left = {one.key for one in found.tools}, {one.key for one in found.left}
        ways = [way for root in roots for several in paths(root, world).values() for way in several]
        free = {way[-1].key for way in ways if all(one.key in mine or kept(one, world) is None for one in way)}
        assert tools == free - mine
        first = {way[-1].key for way in ways if way[-1].key not in mine and kept(way[-1], world) is not None
                 and all(one.key in mine or kept(one, world) is None for one in way[:-1])}  # fmt: skip
        assert left == first
        for one in tools:
            assert one.pid > 1 and one not in world.ourselves and one not in world.runners and one not in world.unclear
            assert world.roles.get(one, ("", ""))[1] not in (AGENT, DAEMON, SPARE, WRAPPER)
            process = world.processes.alive(one)
            details = world.processes.details(process) if process else None
            assert details is not None and details.uid == ME and details.argv != RUNNER
