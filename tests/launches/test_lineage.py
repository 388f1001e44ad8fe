"""Who launched a launch, and which launches are above this command."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from agentctl.kernel.recorded import own_boot
from agentctl.launches import lineage, records
from agentctl.launches.records import MARKER
from agentctl.model import Launcher, ProcessKey, Session
from agentctl.stop.above import why_launch_is_above, why_session_is_above

if TYPE_CHECKING:
    from pathlib import Path

ONE, TWO, THREE = "aaaaaaaaaaaa", "bbbbbbbbbbbb", "cccccccccccc"
BOOT = own_boot()  # a new record of another boot is of a container that has one of its own
KEY = ProcessKey(BOOT, 7, 70)


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "launches").mkdir(mode=0o700)
    tmp_path.chmod(0o700)
    return {"AGENTCTL_HOME": str(tmp_path)}


def write(env: dict[str, str], id: str, launcher: object) -> None:
    from pathlib import Path

    folder = Path(env["AGENTCTL_HOME"]) / "launches" / id
    folder.mkdir(mode=0o700)
    facts: dict[str, Any] = {"id": id, "agent": "demo", "cwd": "/", "created_at": "2026-01-01T00:00:00Z"}
    facts |= {"runner": "boot:1:1", "child": "boot:2:2", "launcher": launcher}
    (folder / "launch.json").write_text(json.dumps(facts))


def live(id: str, pid: int, **more: Any) -> Session:
    key = str(ProcessKey(BOOT, pid, pid * 10))
    entries = ({"pid": pid, "role": "agent", "key": key, "link": "exact"},)
    return Session(id, "demo", "running", "alive", "working", processes=entries, **more)


def test_a_launcher_is_read_as_it_was_written() -> None:
    one = Launcher(KEY, "demo", "s", ONE, 3)
    assert records.launcher_in(json.loads(json.dumps(lineage.as_facts(one, None))), 0.0) == one


@pytest.mark.parametrize("facts", [None, [], "x", 7])
def test_a_record_without_a_launcher(facts: object) -> None:
    assert records.launcher_in(facts, 0.0) is None


@pytest.mark.parametrize("facts", [{}, {"process": 7, "session": [], "depth": "x", "launch": {}}, {"depth": -1}])
def test_what_is_no_launcher_names_nobody(facts: dict[str, object]) -> None:
    assert records.launcher_in(facts, 0.0) == Launcher()


def test_a_person_launches(env: dict[str, str]) -> None:
    above = (ProcessKey(BOOT, 9, 90), ProcessKey(BOOT, 8, 80))
    assert lineage.launcher_of(above, [live("other", 5)], env) == Launcher(process=above[1])


def test_an_agent_launches(env: dict[str, str]) -> None:
    above = (ProcessKey(BOOT, 9, 90), ProcessKey(BOOT, 8, 80), KEY)
    found = lineage.launcher_of(above, [live("mine", 7), live("other", 5)], env)
    assert found == Launcher(KEY, "demo", "mine", None, 1)


def test_depth_counts_the_launches_above(env: dict[str, str]) -> None:
    write(env, ONE, {"depth": 0})
    write(env, TWO, {"launch": ONE, "depth": 4})
    found = lineage.launcher_of((KEY,), [live("mine", 7)], {**env, MARKER: TWO})
    assert (found.launch, found.depth) == (TWO, 5)
    assert lineage.launcher_of((KEY,), [live("mine", 7, launch_id=ONE)], env).depth == 1
    assert lineage.launcher_of((KEY,), [], {**env, MARKER: "no-record-of-it"}).depth == 0


def test_the_launches_above_end_where_a_record_is_missing(env: dict[str, str]) -> None:
    write(env, TWO, {"launch": ONE})
    write(env, THREE, {"launch": TWO})
    assert [one.id for one in lineage.above({**env, MARKER: THREE})] == [THREE, TWO]
    assert lineage.above(env) == ()
    assert lineage.above({**env, MARKER: "../../x"}) == ()


def test_records_in_a_circle(env: dict[str, str]) -> None:
    write(env, ONE, {"launch": TWO})
    write(env, TWO, {"launch": ONE})
    assert [one.id for one in lineage.above({**env, MARKER: ONE})] == [ONE, TWO]


def test_what_is_above_is_not_stopped(env: dict[str, str]) -> None:
    write(env, ONE, {"agent": "demo", "session": "top", "process": str(KEY)})
    write(env, TWO, {"agent": "demo", "session": "middle", "launch": ONE})
    above = lineage.above({**env, MARKER: TWO})
    for id in (ONE, TWO):
        assert "inside of launch" in str(why_launch_is_above(id, above))
    for name, launch, keys in (
        (("demo", "top"), None, ()),
        (("demo", "middle"), None, ()),
        (("demo", "x"), ONE, ()),
        (("x", "y"), None, (KEY,)),
    ):
        assert why_session_is_above(name, launch, keys, above) is not None
    assert why_session_is_above(("codex", "top"), THREE, (ProcessKey(BOOT, 8, 80),), above) is None
    assert why_launch_is_above(THREE, above) is None
    assert why_session_is_above(("demo", "top"), ONE, (KEY,), ()) is None
