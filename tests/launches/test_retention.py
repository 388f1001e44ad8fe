"""Launch folders go some time after the last process of the launch, and never before."""

from __future__ import annotations

import fcntl
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agentctl.kernel import processes
from agentctl.kernel.procfs import own_pid_namespace
from agentctl.launches import records, retention
from agentctl.launches.records import MARKER
from agentctl.model import ProcessKey
from tests.launches.test_records import facts, write
from tests.support.children import true_key
from tests.support.launch_world import WAIT, World, end_by_key, wait_until_gone

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.children import Spawn

pytestmark = pytest.mark.linux

DAY = 24 * 3600.0
MB = 1024 * 1024


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    try:
        yield world
    finally:
        world.close()


def table() -> processes.Processes:
    return processes.snapshot({MARKER})


def sweep(world: World, days: float, most: int = 20) -> tuple[str, ...]:
    """What would go if it were that many days later."""
    return retention.sweep(world.env, table(), time.time() + days * DAY, 7 * DAY, most).removed


def ended(world: World) -> str:
    started = world.start()
    world.exits(started.launch_id)
    wait_until_gone([started.runner, started.child])
    return started.launch_id


def made_up(world: World, *, child: ProcessKey | None = None, ended_at: str | None = None) -> records.Reserved:
    """A launch that nobody made, of processes of our namespace and another boot unless told otherwise."""
    reserved = records.reserve(world.env)
    here = own_pid_namespace()
    write(reserved, facts(reserved.id, pid_namespace=here, **({"child": str(child)} if child else {})))
    if ended_at:
        write(reserved, json.dumps({"key": None, "at": ended_at}).encode() + b"\n", records.EXITS)
    return reserved


def test_seven_days_after_the_last_exit(world: World) -> None:
    id = ended(world)
    assert sweep(world, 6.9) == ()
    assert world.folders() == [id]
    assert sweep(world, 7.1) == (id,)
    assert world.folders() == []


def test_never_while_its_worktree_is_there(world: World, tmp_path: Path) -> None:
    reserved = made_up(world, ended_at="2020-01-01T00:00:00Z")
    (tmp_path / "closed" / "w").mkdir(parents=True)
    write(reserved, facts(reserved.id, pid_namespace=own_pid_namespace(), worktree=str(tmp_path / "closed" / "w")))
    swept = retention.sweep(world.env, table(), time.time() + 1000 * DAY, 7 * DAY)
    assert swept.kept == ((reserved.id, f"its worktree is there: {tmp_path / 'closed' / 'w'}"),)
    (tmp_path / "closed" / "w").rmdir()
    assert sweep(world, 1000) == (reserved.id,)


@pytest.mark.parametrize("error", [PermissionError, OSError])
def test_a_worktree_that_cannot_be_looked_at_is_not_gone(error: type[OSError], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> None:
        raise error(path)

    monkeypatch.setattr(os, "lstat", refuse)
    assert not retention.is_gone("/w")


def test_by_its_last_exit_and_not_by_the_age_of_its_files(world: World) -> None:
    old, young = made_up(world, ended_at="2020-01-01T00:00:00Z"), made_up(world, ended_at="2999-01-01T00:00:00Z")
    assert sweep(world, 1000) == (old.id,)
    assert world.folders() == [young.id]


def test_lacking_an_exit_by_its_last_write(world: World) -> None:
    reserved = made_up(world)
    assert sweep(world, 6.9) == ()
    write(reserved, b"a word", records.OUTPUT)
    os.utime(os.path.join(reserved.folder, records.OUTPUT), (time.time() + 2 * DAY,) * 2)
    assert sweep(world, 7.1) == ()
    assert sweep(world, 9.1) == (reserved.id,)


def test_never_while_the_agent_lives(world: World) -> None:
    """Also without its runner, and whatever it did with its output."""
    started = world.start(f"exec > /dev/null 2>&1; {WAIT}")
    assert sweep(world, 1000) == ()
    end_by_key(started.runner)
    wait_until_gone([started.runner])
    assert sweep(world, 1000) == ()
    world.end_agent()
    wait_until_gone([started.child])
    assert sweep(world, 1000) == (started.launch_id,)


def test_never_while_a_process_of_its_keys_lives(world: World, spawn: Spawn) -> None:
    child = spawn()
    by_child = made_up(world, child=true_key(child.pid))
    by_exit = made_up(world)
    write(by_exit, json.dumps({"key": str(true_key(child.pid)), "at": "2020-01-01T00:00:00Z"}).encode(), records.EXITS)
    other = made_up(world, child=ProcessKey("another boot", child.pid, 1))
    assert sweep(world, 1000) == (other.id,)
    assert world.folders() == sorted([by_child.id, by_exit.id])


def test_never_while_a_descendant_carries_its_marker(world: World, spawn: Spawn) -> None:
    marked, other = made_up(world), made_up(world)
    spawn(env={**os.environ, MARKER: marked.id})
    assert sweep(world, 1000) == (other.id,)
    assert world.folders() == [marked.id]


def test_a_table_that_cannot_see_markers_is_not_used(world: World) -> None:
    made_up(world)
    with pytest.raises(ValueError, match=MARKER):
        retention.sweep(world.env, processes.snapshot(), time.time() + 1000 * DAY)


def test_never_while_its_output_is_held_by_somebody_we_cannot_see(world: World) -> None:
    """As a process in another PID namespace would: its key means nothing here, and its environment is not read."""
    reserved = made_up(world)
    with open(os.path.join(reserved.folder, records.OUTPUT), "wb") as held:
        fcntl.flock(held, fcntl.LOCK_SH)
        assert sweep(world, 1000) == ()
    assert sweep(world, 1000) == (reserved.id,)


def test_the_output_of_a_live_agent_is_held(world: World) -> None:
    started = world.start(WAIT)
    assert retention.is_in_use(started.folder)
    end_by_key(started.runner)
    wait_until_gone([started.runner])
    assert retention.is_in_use(started.folder)
    world.end_agent()
    wait_until_gone([started.child])
    # What the agent ran last may close a moment after it.
    wait_until_gone(world.living())
    assert not retention.is_in_use(started.folder)


def test_what_never_became_a_launch_goes_after_an_hour(world: World) -> None:
    half, torn = records.reserve(world.env), records.reserve(world.env)
    write(half, b"secret", ".order.json")
    write(torn, b"{")
    assert sweep(world, 0.9 / 24) == ()
    assert sweep(world, 1.1 / 24) == (half.id,)
    assert sweep(world, 6.9) == ()
    assert sweep(world, 7.1) == (torn.id,)


def test_the_oldest_first_a_bounded_number_at_a_time(world: World) -> None:
    ids = [made_up(world, ended_at="2020-01-01T00:00:00Z").id for _ in range(5)]
    swept = retention.sweep(world.env, table(), time.time(), 7 * DAY, 2)
    assert (swept.removed, swept.left) == (tuple(sorted(ids)[:2]), 3)
    assert sweep(world, 0) == tuple(sorted(ids)[2:])


def test_a_dry_run_removes_nothing(world: World) -> None:
    reserved = made_up(world, ended_at="2020-01-01T00:00:00Z")
    swept = retention.sweep(world.env, table(), time.time(), dry_run=True)
    assert swept.removed == (reserved.id,)
    assert world.folders() == [reserved.id]


def test_what_a_killed_sweeper_left_goes_with_the_next(world: World) -> None:
    reserved = made_up(world)
    os.rename(reserved.folder, os.path.join(os.path.dirname(reserved.folder), f"{retention.REMOVING}{reserved.id}-1"))
    assert world.launches() == []
    assert sweep(world, 0) == ()
    assert world.folders() == []


def test_sweepers_do_not_get_in_each_others_way(world: World) -> None:
    ids = {made_up(world, ended_at="2020-01-01T00:00:00Z").id for _ in range(40)}
    with ThreadPoolExecutor(8) as pool:
        removed = list(pool.map(lambda _: sweep(world, 0, 100), range(8)))
    assert sorted(id for some in removed for id in some) == sorted(ids), "each goes once"
    assert world.folders() == []


def test_links_are_not_followed(world: World, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("kept")
    reserved = made_up(world, ended_at="2020-01-01T00:00:00Z")
    os.symlink(precious, os.path.join(reserved.folder, "link"))
    os.symlink(precious, os.path.join(os.path.dirname(reserved.folder), "mwidg5ajn6c6"))
    Path(os.path.dirname(reserved.folder), "mwidg5ajn6c7").write_text("a file")
    assert reserved.id in sweep(world, 1000)
    assert world.folders() == []
    assert (precious / "file").read_text() == "kept"


# Long outputs


def test_the_middle_of_a_long_output_goes(world: World) -> None:
    reserved = made_up(world, ended_at="2999-01-01T00:00:00Z")
    path = Path(reserved.folder, records.OUTPUT)
    with open(path, "ab", buffering=0) as agent:
        for _ in range(16):
            agent.write(b"h" * MB)
        swept = retention.sweep(world.env, table(), time.time(), output_limit=5 * MB)
        if not swept.trimmed:
            pytest.skip("this file system cannot do it")
        agent.write(b"the end")
        assert retention.sweep(world.env, table(), time.time(), output_limit=5 * MB).trimmed == ()
    assert path.stat().st_size == 16 * MB + 7
    assert path.stat().st_blocks * 512 <= 4 * MB
    content = path.read_bytes()
    assert content[:MB] == b"h" * MB
    assert content[-2 * MB :] == b"h" * (2 * MB - 7) + b"the end"
    assert content[MB : 14 * MB].strip(b"\0") == b""


def test_a_short_output_and_what_is_no_file_stay(world: World, tmp_path: Path) -> None:
    short, linked = made_up(world), made_up(world)
    write(short, b"x" * 3 * MB, records.OUTPUT)
    big = tmp_path / "big"
    big.write_bytes(b"x" * 8 * MB)
    os.symlink(big, os.path.join(linked.folder, records.OUTPUT))
    assert retention.sweep(world.env, table(), time.time(), output_limit=4 * MB).trimmed == ()
    assert big.read_bytes() == b"x" * 8 * MB
