"""A process whose cgroup is frozen: the kernel keeps it from running, and its state does not say so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agentctl.kernel import one_process
from agentctl.kernel.processes import Processes
from agentctl.model import WORKING
from agentctl.query.judge import judge
from agentctl.query.sessions import frozen_of
from agentctl.query.world import World
from tests.support.facts import key, link, rec, row
from tests.support.table import source

if TYPE_CHECKING:
    from pathlib import Path

ROWS: dict[str, tuple[str, dict[str, str], bool]] = {
    "version 2": ("0::/docker/a\n", {"docker/a/cgroup.events": "populated 1\nfrozen 1\n"}, True),
    "version 2, thawed": ("0::/docker/a\n", {"docker/a/cgroup.events": "populated 1\nfrozen 0\n"}, False),
    "version 2 beside version 1": (
        "4:memory:/docker/a\n0::/a\n",
        {"unified/a/cgroup.events": "populated 1\nfrozen 1\n"},
        True,
    ),
    "version 1": ("6:freezer:/docker/a\n4:memory:/\n0::/\n", {"freezer/docker/a/freezer.state": "FROZEN\n"}, True),
    "version 1, about to be": ("6:freezer:/a\n", {"freezer/a/freezer.state": "FREEZING\n"}, True),
    "version 1, thawed": ("6:freezer:/a\n", {"freezer/a/freezer.state": "THAWED\n"}, False),
    "another controller": ("4:memory:/a\n", {"freezer/a/freezer.state": "FROZEN\n"}, False),
    "a name with a colon": ("0::/a:b\n", {"a:b/cgroup.events": "frozen 1\n"}, True),
    "at the root": ("6:freezer:/\n0::/\n", {"cgroup.events": "frozen 1\n", "freezer/freezer.state": "FROZEN\n"}, False),
    "not to be read": ("0::/../elsewhere\n", {}, False),
    "no cgroups": ("", {}, False),
}


@pytest.mark.parametrize("name", ROWS)
def test_frozen(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said, files, expected = ROWS[name]
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cgroup").write_text(said)
    for path, text in files.items():
        (tmp_path / "cgroup" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "cgroup" / path).write_text(text)
    monkeypatch.setattr(one_process, "CGROUPS", str(tmp_path / "cgroup"))
    assert one_process.frozen_in(str(tmp_path / "7")) is expected


def test_a_frozen_agent_is_suspended() -> None:
    table = Processes("boot", [row(7), row(8)], source(is_frozen=lambda process: process.pid == 7))
    links = (link(7), link(8, "t"), link(9, "u"))
    world = World(table, (), (rec(WORKING), rec(WORKING, "t")), links, frozen=frozen_of(links, table))
    assert world.frozen == {key(7)}
    frozen, other, _ = judge(world).sessions
    assert (frozen.status, frozen.suspended, other.suspended) == ("running", True, False)
    assert any("frozen by its cgroup" in fact.fact for fact in frozen.evidence)
