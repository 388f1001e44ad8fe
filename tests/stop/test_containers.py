"""Who else ends with the first process of a container."""

from __future__ import annotations

import pytest

from agentctl.errors import Refused
from agentctl.kernel.processes import Processes
from agentctl.model import AGENT, HELPER, Process, ProcessKey, Session
from agentctl.query.world import World
from agentctl.stop.containers import housemates
from agentctl.stop.plan import Ground, refuse_unproved
from tests.support.table import source

FIRST, SECOND, BELOW, TOOL, OUTSIDE = (ProcessKey("b", pid, 7) for pid in (50, 51, 52, 53, 54))
PLACES = {
    50: ("pid:[2]", (1,)),
    51: ("pid:[2]", (9,)),
    52: ("pid:[3]", (4, 1)),
    53: ("pid:[2]", (5,)),
    54: ("pid:[1]", ()),
}
PARENTS = {50: 1, 51: 1, 52: 50, 53: 50, 54: 1}
ROLES = {key: ("codex", HELPER if key == TOOL else AGENT) for key in (FIRST, SECOND, BELOW, TOOL, OUTSIDE)}


def table() -> Processes:
    rows = [Process(ProcessKey("b", pid, 7), parent, "x", "S") for pid, parent in PARENTS.items()]
    asked = source(
        pid_namespace=lambda process: PLACES[process.pid][0], inner_pids=lambda process: PLACES[process.pid][1]
    )
    return Processes("b", rows, asked)


def test_every_agent_in_or_below_the_container_ends_with_its_first_process() -> None:
    on = {FIRST: ("own",), SECOND: ("other",)}
    assert housemates([FIRST], on, ROLES, table()) == {FIRST: ("other (pid 51)", "codex (pid 52)")}
    assert housemates([SECOND, OUTSIDE], on, ROLES, table()) == {}
    assert housemates([FIRST], {FIRST: ("own",)}, {FIRST: ("codex", AGENT)}, table()) == {}


def test_stop_names_them_and_refuses() -> None:
    found = housemates([FIRST], {SECOND: ("other",)}, ROLES, table())
    ground = Ground(table(), {}, ROLES, {}, {}, frozenset(), 0, housemates=found)
    session = Session("own", "codex", "running", "alive", "working")
    with pytest.raises(Refused, match="other \\(pid 51\\)"):
        refuse_unproved(FIRST, session, World(table()), ground)
    refuse_unproved(FIRST, session, World(table()), ground._replace(housemates={}))
