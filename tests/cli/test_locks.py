"""lock, unlock, locks and prune, as a person or a script uses them."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agentctl import config
from agentctl.errors import UsageError
from agentctl.kernel.recorded import own_boot
from agentctl.launches import records, retention
from agentctl.workspace import locks
from tests.cli.test_cli import ctl, ctl_json
from tests.launches.test_records import facts, write
from tests.support.children import true_key
from tests.support.demo_home import Home

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.children import Spawn

linux_only = pytest.mark.linux
OLD: dict[str, object] = {"key": None, "at": "2020-01-01T00:00:00Z"}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    found = Home(tmp_path)
    yield found
    found.end_all()


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def made_up(home: Home, *exits: dict[str, object], **more: object) -> records.Reserved:
    reserved = records.reserve(home.env)
    gone = {"runner": f"{own_boot()}:3:1", "child": f"{own_boot()}:4:1"}  # of this machine, and no longer there
    write(reserved, facts(reserved.id, **{**gone, **more}))
    write(reserved, b"".join(json.dumps(line).encode() + b"\n" for line in exits), records.EXITS)
    return reserved


def configure(home: Home, text: str) -> Path:
    path = Path(config.config_path(home.env))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_lock_refuse_unlock(home: Home, work: Path) -> None:
    assert ctl(home, "lock", str(work), "--by", "ann", "--reason", "release").stdout == "locked ~/work\n"
    refused = ctl(home, "lock", str(work), code=4).stderr
    assert f"{work}: locked by ann (release) since " in refused
    assert f"`agentctl unlock {work}` frees it" in refused
    assert "--force" in ctl(home, "unlock", str(work), code=4).stderr
    assert ctl(home, "unlock", str(work), "--by", "ann").stdout == "unlocked ~/work, which ann had locked\n"
    assert "no manual lock" in ctl(home, "unlock", str(work), code=3).stderr


def test_by_yourself_and_by_force(home: Home, work: Path) -> None:
    assert " for 2h, until 20" in ctl(home, "lock", str(work), "--ttl", "2h").stdout
    ctl(home, "unlock", str(work))
    ctl(home, "lock", str(work), "--by", "ann")
    ctl(home, "unlock", str(work), "--force")
    Path(locks.lock_path(home.env, str(work))).write_text("torn")
    assert "could not be read" in ctl(home, "locks").stderr
    assert ctl(home, "unlock", str(work), "--force").stdout == "removed a damaged lock of ~/work\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("lock",), "DIR"),
        (("lock", "gone"), "no such directory"),
        (("lock", ".", "--ttl", "soon"), "is not a duration"),
        (("lock", ".", "--ttl", "0"), "before it begins"),
        (("unlock",), "DIR"),
        (("prune", "now"), "now"),
        (("locks", "x"), "x"),
    ],
)
def test_usage(home: Home, words: tuple[str, ...], says: str) -> None:
    assert says in ctl(home, *words, code=2).stderr


@pytest.mark.parametrize("verb", ["lock", "unlock", "locks", "prune"])
def test_help(home: Home, verb: str) -> None:
    assert "examples:" in ctl(home, verb, "--help").stdout


def test_the_json_shapes(home: Home, work: Path) -> None:
    shape = ["by", "created_at", "directory", "expires_at", "reason"]
    locked = ctl_json(home, "lock", str(work), "--ttl", "1d")
    assert (sorted(locked), sorted(locked["lock"])) == (["lock", "schema"], shape)
    listed = ctl_json(home, "locks")
    assert sorted(listed) == ["locks", "problems", "schema"]
    (row,) = listed["locks"]
    assert sorted(row) == ["agent", "directory", "expires_at", "holder", "kind", "launch_id", "since", "why"]
    assert (row["directory"], row["holder"], row["kind"]) == (str(work), locks.myself(), "manual")
    assert (row["since"], row["expires_at"]) == (locked["lock"]["created_at"], locked["lock"]["expires_at"])
    assert ctl_json(home, "unlock", str(work))["lock"] == locked["lock"]
    pruned = ctl_json(home, "prune", "--dry-run")
    assert sorted(pruned) == ["dry_run", "kept", "locks", "panes", "problems", "removed", "schema", "trimmed"]


def test_locks_shows_who_works_and_who_locked(home: Home, work: Path, tmp_path: Path) -> None:
    assert "no directory is locked" in ctl(home, "locks").stderr
    running, _ = home.start("-p", "[[sleep:300]]")
    waiting, _ = home.start("-p", "[[ask:make coffee]]")
    idle, _ = home.start("[[idle]]")
    home.wait_for_status(waiting, "waiting")
    home.wait_for_status(idle, "idle")
    ctl(home, "lock", str(work), "--ttl", "90m", "--by", "ann\x1b[31m")
    rows = ctl_json(home, "locks")["locks"]
    assert {(row["directory"], row["kind"], row["holder"]) for row in rows} == {
        (str(tmp_path), "session", running),
        (str(tmp_path), "session", waiting),
        (str(work), "manual", "ann\x1b[31m"),
    }
    shown = ctl(home, "locks").stdout
    assert shown.splitlines()[0].split() == ["DIRECTORY", "KIND", "HOLDER", "SINCE", "EXPIRES", "WHY"]
    assert "\x1b" not in shown
    assert "in 1h30m" in shown
    assert f"session  {running[:8]}" in shown


@linux_only
def test_a_launch_without_a_session_is_shown(home: Home, work: Path, spawn: Spawn) -> None:
    child = spawn()
    reserved = made_up(home, child=str(true_key(child.pid)), cwd=str(work))
    (row,) = ctl_json(home, "locks")["locks"]
    assert (row["kind"], row["holder"], row["launch_id"]) == ("launch", reserved.id, reserved.id)
    assert (row["directory"], row["since"]) == (str(work), "2026-11-15T21:53:44.000Z")


@linux_only
def test_prune_shows_what_goes_and_why_the_rest_stays(home: Home, work: Path, spawn: Spawn) -> None:
    child = spawn()
    old, young = made_up(home, OLD), made_up(home, {**OLD, "at": "2999-01-01T00:00:00Z"})
    living = made_up(home, OLD, child=str(true_key(child.pid)))
    half, torn = records.reserve(home.env), records.reserve(home.env)
    write(torn, b"{")
    os.utime(half.folder, (1.0, 1.0))
    locks.acquire(home.env, str(work), "ann", ttl=0.001)
    time.sleep(0.01)
    lines = ctl(home, "prune", "--dry-run").stdout.splitlines()
    assert f"launch {old.id}: would be removed" in lines
    assert "lock of ~/work by ann: expired, would be removed" in lines
    before = sorted(os.listdir(Path(old.folder).parent))
    assert before == sorted([old.id, young.id, living.id, half.id, torn.id])
    found = ctl_json(home, "prune")
    assert found["removed"] == sorted([old.id, half.id])
    assert [lock["by"] for lock in found["locks"]] == ["ann"]
    assert {entry["launch_id"]: entry["why"] for entry in found["kept"]} == {
        young.id: "ended 0s ago, stays for 7d",
        living.id: f"not proved gone: pid {child.pid}",
        torn.id: "its record is damaged; ended 0s ago, stays for 7d",
    }
    assert [problem["path"] for problem in found["problems"]] == [os.path.join(torn.folder, records.LAUNCH)]
    again = ctl(home, "prune")
    assert again.stdout == "3 launches kept; --dry-run says why\n"
    assert f"launch {living.id}: kept: not proved gone" in ctl(home, "prune", "--dry-run").stdout


@linux_only
def test_prune_has_no_limit_of_number(home: Home) -> None:
    ids = sorted(made_up(home, OLD).id for _ in range(retention.MOST + 3))
    assert ctl_json(home, "prune")["removed"] == ids


def test_prune_of_nothing(home: Home) -> None:
    assert ctl(home, "prune").stderr == "nothing to remove\n"


def test_prune_says_why_it_touches_nothing(home: Home) -> None:
    made_up(home, OLD)
    os.chmod(records.launches_folder(home.env), 0o777)
    found = ctl_json(home, "prune")
    assert found["removed"] == []
    assert "others can write" in found["problems"][0]["problem"]


# Configuration


@linux_only
@pytest.mark.parametrize(("text", "goes"), [("", False), ('retention = "1h"', True), ("retention = 60", True)])
def test_retention_of_the_configuration(home: Home, text: str, goes: bool) -> None:
    yesterday = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 86400))
    reserved = made_up(home, {**OLD, "at": yesterday})
    configure(home, text)
    assert ctl_json(home, "prune")["removed"] == ([reserved.id] if goes else [])


def test_the_accessors(home: Home) -> None:
    assert (config.retention(home.env), config.output_limit(home.env)) == (None, None)
    configure(home, 'retention = "1.5h"\noutput_limit = "2M"')
    assert (config.retention(home.env), config.output_limit(home.env)) == (5400.0, 2 * 1024**2)
    configure(home, "retention = 1.5\noutput_limit = 4096")
    assert (config.retention(home.env), config.output_limit(home.env)) == (1.5, 4096)


@pytest.mark.parametrize("value", ['"soon"', "true", "[1]", "-1", "nan", "1e300", "2026-01-01"])
@pytest.mark.parametrize("name", ["retention", "output_limit"])
def test_what_the_configuration_cannot_say(home: Home, name: str, value: str) -> None:
    path = configure(home, f"{name} = {value}")
    with pytest.raises(UsageError, match=f"{path}: {name}: "):
        config.retention(home.env) if name == "retention" else config.output_limit(home.env)
    assert name in ctl(home, "prune", code=2).stderr
