"""Whom a stop may touch: tables of worlds, and random trees of processes held to what must always be true."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from agentctl.errors import Refused
from agentctl.kernel.processes import Processes
from agentctl.kernel.source import Source
from agentctl.model import AGENT, CLIENT, DAEMON, HELPER, SOLE, SPARE, WRAPPER, Details, Launch, Process
from agentctl.query.world import Launched, World
from agentctl.stop.plan import (
    HOST,
    TERMINALS,
    UNCLEAR,
    Ground,
    Targets,
    adopted,
    collect,
    collect_adopted,
    command_of_ours,
    holds_nobody_else,
    runner_in,
    targets_of,
    targets_of_launch,
    why_left,
)
from tests.support.facts import A, boss, claim, judged, key, link, rec, row
from tests.support.table import source

if TYPE_CHECKING:
    from agentctl.model import Claim, Link, ProcessKey, Record, Supervisor

ME, THEM = 1000, 2000
RUNNER = ("/usr/bin/python3", "-I", "-S", "/lib/agentctl/launch/runner.py", "abcdefghij")


def table(*rows: Process) -> Processes:
    """A process table that cannot be asked for more than its rows: the plan is pure."""

    def reading(*_: object) -> Any:
        raise AssertionError("the plan reads what the look should have read")

    asked = [name for name in vars(Source) if not name.startswith("_")]
    return Processes("boot", rows, source(**dict.fromkeys(asked, reading)), hidden="so `gone` would have to ask")


def details_of(
    processes: Processes,
    uids: dict[int, int | None] | None = None,
    words: dict[int, tuple[str, ...]] | None = None,
    vanished: tuple[int, ...] = (),
) -> dict[ProcessKey, Details]:
    return {
        one.key: Details(argv=(words or {}).get(one.pid, ("sh",)), uid=(uids or {}).get(one.pid, ME))
        for one in processes.living()
        if one.pid not in vanished
    }


def test_the_table_of_these_tests_cannot_be_read() -> None:
    processes = table(row(7))
    with pytest.raises(AssertionError, match="the plan reads"):
        processes.details(row(7))
    with pytest.raises(AssertionError, match="the plan reads"):
        processes.find(7, 1)
    with pytest.raises(AssertionError, match="the plan reads"):
        processes.gone(key(8))


def ground(processes: Processes, *claims: Claim, links: tuple[Link, ...] = (), **more: Any) -> Ground:
    details = details_of(processes, more.pop("uids", None), more.pop("words", None), more.pop("vanished", ()))
    on: dict[ProcessKey, tuple[str, ...]] = {}
    for one in links:
        on[one.key] = (*on.get(one.key, ()), one.id)
    roles = {one.key: (one.agent, one.role) for one in claims}
    given = {"runners": {}, "ourselves": frozenset(), "uid": ME, "on": on, "roles": roles, "details": details, **more}
    return Ground(processes=processes, **given)


def decide(
    *facts: Process | Record | Link | Claim | Supervisor,
    id: str = "s",
    force: bool = False,
    **more: Any,
) -> Targets:
    from agentctl import model

    def all_of(kind: type) -> Any:
        return tuple(fact for fact in facts if isinstance(fact, kind))

    processes = table(*all_of(Process))
    stores = (model.StoreView("amber", A),)
    links, claims = all_of(model.Link), all_of(model.Claim)
    world = World(processes, stores, all_of(model.Record), links, claims, all_of(model.Supervisor))
    table_to_judge = world._replace(processes=Processes("boot", all_of(Process)))
    (session,) = [one for one in judged(table_to_judge).sessions if one.id == id]
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


def launch_targets(one: Launched, ground: Ground, *, tree: bool = False) -> Targets:
    return targets_of_launch(one, ground.processes.alive(one.launch.child), ground, tree=tree)


def test_a_launch_that_is_its_agent() -> None:
    assert launch_targets(launched(7), ground(table(row(7)), claim(7))) == Targets((key(7),))


def test_a_launch_that_is_no_agent_of_anybody() -> None:
    assert launch_targets(launched(), ground(table(row(7), row(8, parent=7)))) == Targets((key(7),))


def test_a_launch_with_a_wrapper_and_a_shell_between() -> None:
    rows = (row(7), row(8, parent=7), row(9, parent=8))
    found = launch_targets(launched(9), ground(table(*rows), claim(9)))
    assert found == Targets((key(9),), (key(8), key(7)))


def test_a_launch_that_has_ended() -> None:
    assert launch_targets(launched(), ground(table(row(5), row(8, parent=5)))).over
    with pytest.raises(Refused, match=r"8 \(amber\).*--tree"):
        launch_targets(launched(), ground(table(row(5), row(8, parent=5)), claim(8)))


def test_what_a_launch_left_behind() -> None:
    """With --tree an agent of it that is on no session; one that is on a session is stopped as that."""
    rows = (row(5), row(8, parent=5), row(9, parent=5), row(10, parent=5))
    world = ground(table(*rows), claim(8), claim(9), claim(10, role=DAEMON), links=(link(9, "inner"),))
    assert launch_targets(launched(), world, tree=True) == Targets((key(8),))
    with pytest.raises(Refused):
        launch_targets(launched(), world._replace(ourselves=frozenset([key(5)]), uid=THEM), tree=True)


@pytest.mark.parametrize("name", NEVER)
def test_a_launch_is_proved_the_same_way(name: str) -> None:
    with pytest.raises(Refused):
        launch_targets(launched(7), ground(table(row(7)), claim(7), **NEVER[name]))


def test_a_launch_of_a_daemon() -> None:
    assert launch_targets(launched(7), ground(table(row(7)), claim(7, role=DAEMON))).resident is not None


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
    "a runner of another state folder": (
        {"words": {9: RUNNER}},
        "by its arguments the runner of launch abcdefghij, in another AGENTCTL_HOME",
    ),
    "agentctl's daemon": ({"words": {9: ("python3", "-m", "agentctl", "daemon", "run")}}, "agentctl's own daemon"),
    "this command": ({"ourselves": frozenset([key(9)])}, "this command"),
    "another user": ({"uids": {9: THEM}}, "another user"),
    "a user who cannot be told": ({"uids": {9: None}}, "cannot be told"),
    "one that ended while we looked": ({"vanished": (9,)}, "cannot be told"),
    "one in the middle of exec": ({"unclear": frozenset([key(9)])}, "cannot be told"),
}

PASSING = ("one that ended while we looked", "one in the middle of exec")


def grown(rows: tuple[Process, ...] = TREE, **more: Any) -> Ground:
    claims = more.pop("claims", [])
    return ground(table(*rows), *claims, **more)


def test_all_that_descends_from_it() -> None:
    found = collect([key(7)], grown(), frozenset([key(7)]))
    assert sorted(one.pid for one in found.tools) == [8, 9, 10, 11]
    assert found.left == ()


@pytest.mark.parametrize("name", LEFT)
def test_who_is_left_with_all_below(name: str) -> None:
    more, said = LEFT[name]
    found = collect([key(7)], grown(**more), frozenset([key(7)]))
    above = [] if name in PASSING else [8]
    assert sorted(one.pid for one in found.tools) == sorted({8, 11} - set(above))
    assert [one.key.pid for one in found.left] == [9, *above]
    assert said in found.left[0].what
    for one in found.left[1:]:
        assert (one.why, one.what) == (HOST, f"above pid 9 ({found.left[0].what})")


def test_what_holds_a_session_ends_only_with_it() -> None:
    """With --tree the session inside ends next; what is above a daemon stays even then."""
    mine = frozenset([key(7)])
    inner = grown(claims=[claim(9)], links=(link(9, "inner"),))
    assert sorted(one.pid for one in collect([key(7)], inner, mine, tree=True).tools) == [8, 11]
    daemon = grown(claims=[claim(9, role=DAEMON)])
    assert [one.pid for one in collect([key(7)], daemon, mine, tree=True).tools] == [11]


@pytest.mark.parametrize("tree", [False, True])
def test_a_server_of_terminals_is_no_tool(tree: bool) -> None:
    rows = (
        row(5),
        row(7, parent=5),
        row(8, parent=5)._replace(comm="tmux: server"),
        row(9, parent=8),
        row(10, parent=9),
    )
    world = grown(rows, claims=[claim(10)], links=(link(10, "inner"),))
    found = collect_adopted(key(5), world, frozenset([key(7)]), tree=tree)
    assert found.tools == ()
    assert [(one.key.pid, one.why) for one in found.left] == [(8, TERMINALS)]


def test_what_a_runner_adopted_and_holds_a_daemon() -> None:
    rows = (row(5), row(7, parent=5), row(8, parent=5), row(9, parent=8))
    found = collect_adopted(key(5), grown(rows, claims=[claim(9, role=DAEMON)]), frozenset([key(7)]), tree=True)
    assert found.tools == ()
    assert sorted(one.key.pid for one in found.left) == [8, 9]


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
    assert holds_nobody_else(key(6), grown(rows), mine)
    assert holds_nobody_else(key(6), grown(rows, claims=[claim(7)]), mine)
    assert not holds_nobody_else(key(6), grown(rows, claims=[claim(9)]), mine)


def test_words() -> None:
    assert runner_in(RUNNER) == "abcdefghij"
    assert runner_in((*RUNNER[:3], "/lib/agentctl/runner.py", "abcdefghij")) == "abcdefghij", "an older version's"
    assert runner_in(RUNNER[:4]) is None
    assert runner_in((*RUNNER[:3], "/lib/other/runner.py", "abcdefghij")) is None
    assert command_of_ours(("python3", "-m", "agentctl", "stop")) == "stop"
    assert command_of_ours(("/usr/bin/agentctl", "daemon")) == "daemon"
    assert command_of_ours(("python3", "/usr/bin/agentctl", "list")) == "list"
    assert command_of_ours(("agentctl",)) == ""
    assert command_of_ours(("python3", "-m", "agentctl.demo_agent", "daemon")) is None
    assert command_of_ours(("grep", "-r", "agentctl", "daemon")) is None
    assert command_of_ours(()) is None


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
    processes = table(*rows)
    found = Ground(
        processes=processes,
        details=details_of(
            processes,
            uids=dict.fromkeys(some(0.1), chance.choice([THEM, None])),
            words=dict.fromkeys(some(0.1), RUNNER),
        ),
        roles=roles,
        on={by_pid[pid]: ("inner",) for pid in some(0.2)},
        runners={by_pid[pid]: "abcdefghij" for pid in some(0.1)},
        ourselves=frozenset(table(*rows).ancestors(chance.choice(pids))) if chance.random() < 0.3 else frozenset(),
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
        free = {way[-1].key for way in ways if all(one.key in mine or why_left(one, world) is None for one in way)}
        hosts = {one.key for one in found.left if one.why == HOST}
        assert tools == free - mine - hosts
        spared = [one for one in found.left if one.why not in (HOST, UNCLEAR)]
        above = {up for one in spared for up in world.processes.ancestors(one.key.pid)} - {one.key for one in spared}
        assert hosts == (free - mine) & above
        first = {way[-1].key for way in ways if way[-1].key not in mine and why_left(way[-1], world) is not None
                 and all(one.key in mine or why_left(one, world) is None for one in way[:-1])}  # fmt: skip
        assert left - hosts == first
        for one in tools:
            assert one.pid > 1 and one not in world.ourselves and one not in world.runners and one not in world.unclear
            assert world.roles.get(one, ("", ""))[1] not in (AGENT, DAEMON, SPARE, WRAPPER)
            details = world.details.get(one)
            assert details is not None and details.uid == ME and details.argv != RUNNER
