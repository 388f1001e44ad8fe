"""Manual locks and gates: one winner of any race, nothing stuck, nothing believed that others may have written."""

from __future__ import annotations

import json
import os
import resource
import signal
import stat
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agentctl.errors import AgentctlError, NotFound, Refused, UsageError
from agentctl.model import Problem
from agentctl.workspace import locks
from agentctl.workspace.locks import acquire, gate, read_all, release
from tests.support.children import PATIENCE
from tests.support.lock_place import Place, line_of, said_by_all

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    for child in place.children:
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()


# Manual locks


def test_lock_look_unlock(place: Place) -> None:
    assert read_all(place.env) == ([], [])
    lock = acquire(place.env, str(place.work), "ann", "release", 60)
    ((found,), problems) = read_all(place.env)
    assert problems == []
    assert found == lock
    assert (found.directory, found.by, found.reason, found.path) == (str(place.work), "ann", "release", lock.path)
    assert found.expires_at is not None
    assert found.expires_at - found.created_at == pytest.approx(60, abs=0.01)
    assert stat.S_IMODE(os.stat(found.path).st_mode) == 0o600
    assert stat.S_IMODE((place.state / "locks").stat().st_mode) == 0o700
    assert place.files() == [Path(lock.path).name], "nothing else stays"
    with pytest.raises(
        Refused, match=r"locked by ann \(release\) since [-0-9 :]{19}, until [-0-9 :]{19}; `agentctl unlock"
    ):
        acquire(place.env, str(place.work))
    assert release(place.env, str(place.work), "ann") == found
    assert read_all(place.env) == ([], [])
    with pytest.raises(NotFound, match="no manual lock; `agentctl locks`"):
        release(place.env, str(place.work), "ann")
    assert place.files() == []


def test_it_is_by_who_asks(place: Place) -> None:
    assert acquire(place.env, str(place.work)).by == locks.myself()
    assert "@" in locks.myself()
    assert release(place.env, str(place.work)) is not None


def test_the_lock_of_somebody_else(place: Place) -> None:
    acquire(place.env, str(place.work), "ann")
    with pytest.raises(Refused, match=r"locked by ann .*--force takes it away"):
        release(place.env, str(place.work), "bob")
    held = release(place.env, str(place.work), "bob", force=True)
    assert held is not None
    assert held.by == "ann"


def test_a_directory_is_its_real_path(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link").symlink_to("work")
    acquire(place.env, str(tmp_path / "link"))
    monkeypatch.chdir(place.work)
    for name in (str(place.work), ".", "../link", f"{place.work}/../work/"):
        with pytest.raises(Refused, match=f"{place.work}: locked by"):
            acquire(place.env, name)
    (tmp_path / "work2").mkdir()
    acquire(place.env, str(tmp_path / "work2"))
    assert [lock.directory for lock in read_all(place.env)[0]] == [str(place.work), str(tmp_path / "work2")]


def test_a_directory_that_has_gone_can_be_unlocked(place: Place) -> None:
    acquire(place.env, str(place.work))
    place.work.rmdir()
    assert release(place.env, str(place.work)) is not None


def test_a_name_that_is_not_utf_8(place: Place, tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff\n")
    os.mkdir(path)
    acquire(place.env, path)
    assert [lock.directory for lock in read_all(place.env)[0]] == [path]


@pytest.mark.parametrize(
    ("name", "more", "says"),
    [
        ("gone", {}, "no such directory; check"),
        ("file", {}, "not a directory; check"),
        ("loop", {}, "directory; check"),
        ("a\0b", {}, "no such directory; check"),
        ("work", {"by": " "}, "an empty name"),
        ("work", {"ttl": 0}, "ended before it begins"),
        ("work", {"ttl": 1e12}, "--ttl is too large"),
    ],
)
def test_what_cannot_be_locked(place: Place, tmp_path: Path, name: str, more: dict[str, Any], says: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(UsageError, match=says):
        acquire(place.env, str(tmp_path / name), **more)
    assert not place.state.exists()


def test_an_expired_one_is_none(place: Place) -> None:
    path = place.write(place.facts(expires_at="2026-01-02T00:00:00Z"))
    assert read_all(place.env) == ([], [])
    assert not path.exists()
    place.write(place.facts(expires_at="2026-01-02T00:00:00Z"))
    with pytest.raises(NotFound):
        release(place.env, str(place.work), "ann@host")
    place.write(place.facts(expires_at="2026-01-02T00:00:00Z"))
    assert acquire(place.env, str(place.work), "bob").by == "bob"
    assert [lock.by for lock in read_all(place.env)[0]] == ["bob"]


def test_sweeping_shows_first_and_takes_what_a_killed_one_left(place: Place) -> None:
    path = place.write(place.facts(expires_at="2026-01-02T00:00:00Z"))
    (place.state / "locks" / ".new-1-abc").touch()
    (place.state / "locks" / ".new-2-abc").touch()
    assert [lock.by for lock in locks.sweep(place.env, time.time(), dry_run=True)] == ["ann@host"]
    assert path.exists()
    assert [lock.by for lock in locks.sweep(place.env, time.time())] == ["ann@host"]
    assert place.files() == []
    (place.state / "locks" / ".new-3-abc").touch()
    assert locks.sweep(place.env, time.time()) == []
    assert place.files() == []


TORN = ["", "{", "[]", '{"directory": 1}', "[" * 100_000, "\xff"]


@pytest.mark.parametrize("content", [*TORN, "no by", "another", "no time", "odd end"])
def test_a_file_that_is_no_lock_is_a_problem(place: Place, content: str) -> None:
    odd = {
        "no by": place.facts(by=""),
        "another": place.facts(directory="/elsewhere"),
        "no time": place.facts(created_at="soon"),
        "odd end": place.facts(expires_at="soon"),
    }
    path = place.write(odd.get(content, content))
    (found, (problem,)) = read_all(place.env)
    assert (found, problem.path) == ([], str(path))
    with pytest.raises(Refused, match="unlock --force"):
        acquire(place.env, str(place.work))
    with pytest.raises(Refused, match="--force removes it"):
        release(place.env, str(place.work))
    assert release(place.env, str(place.work), force=True) is None
    acquire(place.env, str(place.work))


@pytest.mark.parametrize("kind", ["link", "FIFO", "directory"])
def test_what_stands_in_the_place_of_a_lock(place: Place, tmp_path: Path, kind: str) -> None:
    path = place.write("")
    path.unlink()
    if kind == "link":
        (tmp_path / "precious").write_text(json.dumps(place.facts()))
        path.symlink_to(tmp_path / "precious")
    elif kind == "FIFO":
        os.mkfifo(path)
    else:
        path.mkdir()
    assert [problem.path for problem in read_all(place.env)[1]] == [str(path)]
    with pytest.raises(Refused):
        acquire(place.env, str(place.work))


@pytest.mark.parametrize("which", ["state", "locks"])
def test_a_folder_that_others_can_write_to(place: Place, which: str) -> None:
    place.write(place.facts())
    (place.state if which == "state" else place.state / "locks").chmod(0o777)
    (found, (problem,)) = read_all(place.env)
    assert found == []
    assert "others can write" in problem.problem
    with pytest.raises(Refused, match="others can write"):
        acquire(place.env, str(place.work))


@pytest.mark.parametrize("kind", ["file", "link to nowhere", "link to itself"])
@pytest.mark.parametrize("which", ["state", "locks"])
def test_a_folder_that_cannot_be_listed_is_a_problem_and_not_empty(place: Place, kind: str, which: str) -> None:
    folder = place.state if which == "state" else place.state / "locks"
    folder.parent.mkdir(exist_ok=True)
    if kind == "file":
        folder.touch()
    else:
        folder.symlink_to("nowhere" if kind == "link to nowhere" else folder.name)
    (found, (problem,)) = read_all(place.env)
    assert (found, problem.path) == ([], str(place.state / "locks"))
    assert locks.may_keep_out(problem, place.env, str(place.work))
    with pytest.raises(Refused, match=str(place.state)):
        release(place.env, str(place.work))


def test_no_folder_is_no_lock(place: Place) -> None:
    assert read_all(place.env) == ([], [])
    with pytest.raises(NotFound):
        release(place.env, str(place.work))


def test_a_file_of_locks_keeps_out_of_its_own_directory_only(place: Place, tmp_path: Path) -> None:
    place.write("{")
    (_, (problem,)) = read_all(place.env)
    assert locks.may_keep_out(problem, place.env, str(place.work))
    assert not locks.may_keep_out(problem, place.env, str(tmp_path))


def test_an_unread_lock_holds_below_its_directory(place: Place) -> None:
    below = place.work / "a" / "b"
    below.mkdir(parents=True)
    for directory, mine in ((place.work, True), (below, True), (below / "c", False)):
        problem = Problem("agentctl", "torn", locks.lock_path(place.env, str(directory)))
        assert locks.may_keep_out(problem, place.env, str(below)) is mine


def test_a_damaged_lock_is_removed_by_its_own_path(place: Place, tmp_path: Path) -> None:
    """Whoever finds it may not know which directory it was for."""
    path = place.write("{", tmp_path / "unknown")
    (_, (problem,)) = read_all(place.env)
    assert locks.way_out(problem) == f"it may be a lock: `agentctl unlock --force {path}` removes it"
    with pytest.raises(Refused, match="--force removes it"):
        release(place.env, str(path))
    assert release(place.env, str(path), force=True) is None
    assert read_all(place.env) == ([], [])


RACE = """
print("ready", flush=True)
sys.stdin.readline()
try:
    print("won", locks.acquire(os.environ, sys.argv[1], f"racer {os.getpid()}").by)
except Refused as error:
    print("lost", error)
"""


@pytest.mark.parametrize("expired", [False, True])
def test_of_twenty_one_wins_and_the_others_name_it(place: Place, expired: bool) -> None:
    if expired:
        place.write(place.facts(expires_at="2026-01-02T00:00:00Z"))
    said = said_by_all([place.start(RACE) for _ in range(20)])
    (won,) = [words.removeprefix("won ") for words in said if words.startswith("won ")]
    assert [words for words in said if f"locked by {won} since" not in words] == [f"won {won}"]
    assert [lock.by for lock in read_all(place.env)[0]] == [won]
    assert len(place.files()) == 1


STEPS = ["os.open", "os.fsync", "os.link", "os.unlink", "locks.sync_folder"]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_at_any_step_it_is_locked_or_not_and_never_half(place: Place, step: str, when: str) -> None:
    """`step` of writing the lock, while the mutex is held."""
    (place.state / "locks").mkdir(0o700, parents=True)
    code = f"""
write, step = locks.write, {step}
def killing(*words, **named):
    if {when == "after"}: step(*words, **named)
    os.kill(os.getpid(), 9)
def write_and_die(*words):
    {step} = killing
    write(*words)
locks.write = write_and_die
locks.acquire(os.environ, sys.argv[1], "killed")
"""
    child = place.start(code)
    assert child.wait(PATIENCE) == -signal.SIGKILL
    found, problems = read_all(place.env)
    assert problems == []
    assert [lock.by for lock in found] in ([], ["killed"])
    if found:
        release(place.env, str(place.work), "killed")
    assert acquire(place.env, str(place.work), "next").by == "next"


def limit_files() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def test_a_full_disk_is_refused_and_leaves_nothing(place: Place) -> None:
    code = "try:\n    locks.acquire(os.environ, sys.argv[1])\nexcept Refused as error:\n    print(error)"
    child = place.start(code, preexec_fn=limit_files)
    assert "File too large; make room there, or set AGENTCTL_HOME" in line_of(child)
    assert place.files() == []


@pytest.fixture
def small_disk(place: Place) -> Iterator[Path]:
    place.state.mkdir(0o700)
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k,mode=0700", "tmpfs", str(place.state)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("no tmpfs can be mounted here")
    yield place.state
    subprocess.run(["umount", str(place.state)], check=True)


def test_a_small_disk_that_is_full(place: Place, small_disk: Path) -> None:
    (small_disk / "locks").mkdir(0o700)
    (small_disk / "gates").mkdir(0o700)
    with open(small_disk / "filler", "wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
        while True:
            file.write(b"x" * 4096)
    with pytest.raises(Refused, match="No space left on device; make room"):
        acquire(place.env, str(place.work))
    assert [name for name in place.files() if not name.startswith(".mutex")] == []
    (small_disk / "filler").unlink()
    acquire(place.env, str(place.work))


def read_only(path: Path) -> bool:
    """As a mount of its own, which also root cannot write to."""
    bind = subprocess.run(["mount", "--bind", str(path), str(path)], capture_output=True, check=False)
    if bind.returncode != 0:
        return False
    subprocess.run(["mount", "-o", "remount,ro,bind", str(path)], check=True)
    return True


@pytest.mark.parametrize("there", [False, True])
def test_a_read_only_home(place: Place, there: bool) -> None:
    """Nothing can be locked; what is locked is seen; expired ones are still none."""
    place.state.mkdir(0o700)
    if there:
        place.write(place.facts(expires_at="2026-01-02T00:00:00Z"))
        acquire(place.env, str(place.work.parent), "ann")
    if not read_only(place.state):
        pytest.skip("no mount can be made read-only here")
    try:
        assert [lock.by for lock in read_all(place.env)[0]] == (["ann"] if there else [])
        with pytest.raises(Refused, match="Read-only file system"):
            acquire(place.env, str(place.work))
        with pytest.raises(AgentctlError, match="Read-only file system"), gate(place.env, str(place.work)):
            pass
        if there:
            with pytest.raises(Refused, match="Read-only file system"):
                release(place.env, str(place.work.parent), "ann")
    finally:
        subprocess.run(["umount", str(place.state)], check=True)
