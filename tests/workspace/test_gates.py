"""Gates: one at a time, nothing stuck."""

from __future__ import annotations

import os
import signal
import stat
import sys
from typing import TYPE_CHECKING

import pytest

from agentctl.errors import Refused, UsageError
from agentctl.workspace.locks import gate
from tests.support.lock_place import Place, line_of, said_by_all

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


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


def test_one_at_a_time_and_nothing_stays(place: Place) -> None:
    with gate(place.env, str(place.work)):
        (name,) = os.listdir(place.state / "gates")
        assert stat.S_IMODE((place.state / "gates" / name).stat().st_mode) == 0o600
        with pytest.raises(Refused) as raised, gate(place.env, str(place.work), 0.1):
            pytest.fail("two are in")
        said = str(raised.value)
        assert said.startswith(f"{place.work}: another agentctl is at it")
        assert str(place.state / "gates" / name) in said
        if sys.platform == "linux":
            assert f"pid {os.getpid()} " in said
        with gate(place.env, str(place.work.parent), 0.1):
            pass  # another directory has a gate of its own
    with gate(place.env, str(place.work), 0.1):
        pass
    assert os.listdir(place.state / "gates") == []


def test_the_gate_of_a_renamed_directory(place: Place) -> None:
    """A gate belongs to the directory, whichever path leads there."""
    moved = place.work.with_name("moved")
    with gate(place.env, str(place.work), 0.1):
        place.work.rename(moved)
        with pytest.raises(Refused), gate(place.env, str(moved), 0.1):
            pytest.fail("two are in")
        place.work.mkdir()
        with gate(place.env, str(place.work), 0.1):
            pass  # another directory


THROUGH = """
print("ready", flush=True)
sys.stdin.readline()
with locks.gate(os.environ, sys.argv[1]):
    os.mkdir("inside")
    time.sleep(0.01)
    os.rmdir("inside")
print("through")
"""


def test_twenty_go_through_one_by_one(place: Place) -> None:
    """Who finds another one inside fails; so also where the gate's file goes and comes meanwhile."""
    said = said_by_all([place.start(THROUGH, cwd=place.work) for _ in range(20)])
    assert said == ["through"] * 20
    assert os.listdir(place.state / "gates") == []


HOLD = """
import subprocess
with locks.gate(os.environ, sys.argv[1]):
    CHILD
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("child", ["pass", "subprocess.Popen(['sleep', '300'], close_fds=False, stdout=2); ORPHAN"])
def test_a_killed_holder_frees_it_also_from_what_it_started(place: Place, child: str) -> None:
    orphan = "open('orphan', 'w').write(str(_.pid))"
    code = HOLD.replace("CHILD", child.replace("subprocess.Popen", "_ = subprocess.Popen").replace("ORPHAN", orphan))
    holder = place.start(code, cwd=place.work)
    assert line_of(holder) == "held"
    try:
        with pytest.raises(Refused, match=f"pid {holder.pid} "), gate(place.env, str(place.work), 0.0):
            pass
        holder.kill()
        holder.wait()
        with gate(place.env, str(place.work)):
            pass
    finally:
        if (place.work / "orphan").exists():
            os.kill(int((place.work / "orphan").read_text()), signal.SIGKILL)


def test_a_gate_to_nowhere(place: Place) -> None:
    with pytest.raises(UsageError, match="no such directory"):
        gate(place.env, str(place.work / "gone"))


def test_a_link_in_the_place_of_a_gate_is_not_followed(place: Place, tmp_path: Path) -> None:
    with gate(place.env, str(place.work)):
        (name,) = os.listdir(place.state / "gates")
    (place.state / "gates" / name).symlink_to(tmp_path / "made")
    with pytest.raises(Refused, match="cannot be locked"), gate(place.env, str(place.work), 0.0):
        pass
    assert not (tmp_path / "made").exists()
