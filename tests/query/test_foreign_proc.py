"""A /proc that is not of our own PID namespace, or none: nothing is proved, nobody is signalled, nothing is started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from agentctl.launch import runner
from tests.support.children import PATIENCE
from tests.support.demo_home import Home

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.linux

# The namespace is entered with fork(): agentctl is pid 1 there, and /proc still shows the outer one.
AS_ROOT = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
FOREIGN = ["unshare", *AS_ROOT, "--pid", "--fork", "--kill-child"]
NO_PROC = ["unshare", *AS_ROOT, "--mount", "sh", "-ec", 'mount -t tmpfs tmpfs /proc; exec "$@"', "sh"]
AROUND = {"another namespace's": FOREIGN, "none": NO_PROC}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    try:
        yield home
    finally:
        home.end_all()


def ask(home: Home, around: list[str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*around, sys.executable, "-m", "agentctl", *words],
        env=home.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@pytest.mark.parametrize("kind", AROUND)
def test_nothing_is_proved(home: Home, kind: str) -> None:
    """A live session is not called ended, and one that was killed in mid-turn not firmly stopped."""
    alive, _ = home.start("-p", "[[sleep:300]]")
    killed, child = home.start("-p", "[[sleep:300]]")
    child.kill()
    child.wait()
    answer = ask(home, AROUND[kind], "list", "-a", "--json")
    assert answer.returncode == 0, answer.stderr
    assert {one["id"]: one["status"] for one in json.loads(answer.stdout)["sessions"]} == {
        alive: "unknown",
        killed: "unknown",
    }
    why = ask(home, AROUND[kind], "why", alive)
    assert "/proc" in why.stdout, why.stdout


@pytest.mark.parametrize("kind", AROUND)
def test_nobody_is_signalled(home: Home, kind: str) -> None:
    id, child = home.start("-p", "[[sleep:300]]")
    answer = ask(home, AROUND[kind], "stop", id, "--force")
    assert answer.returncode not in (0, 1), answer.stderr
    assert "/proc" in answer.stderr + answer.stdout
    assert "Traceback" not in answer.stderr
    assert child.poll() is None


@pytest.mark.parametrize("kind", AROUND)
def test_nothing_is_started(home: Home, kind: str, tmp_path: Path) -> None:
    answer = ask(home, AROUND[kind], "launch", "demo", "-p", "hello", "--cwd", str(tmp_path))
    assert answer.returncode != 0
    assert "/proc" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert answer.stdout == ""
    assert not (home.root / "sessions").exists()


def test_a_runner_starts_nothing_if_strangers_have_its_pids(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the outer namespace a stranger may have them: then nothing else would stop the runner."""
    assert runner.STEPS[0] is runner.see_own_processes
    runner.see_own_processes({})
    monkeypatch.setattr(os, "readlink", lambda path: str(os.getpid() + 1))
    with pytest.raises(runner.Failed, match="another PID namespace"):
        runner.take(runner.see_own_processes, {})


def test_a_runner_records_nothing_of_a_stranger(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody may put another /proc over ours while it runs: then the end of a process has no key, and no name."""
    boot = runner.read("/proc/sys/kernel/random/boot_id").decode().strip()
    assert runner.key_and_name(boot, os.getpid())[0].startswith(f"{boot}:{os.getpid()}:")
    child = subprocess.Popen(["true"])
    monkeypatch.setattr(os, "readlink", lambda path: str(os.getpid() + 1))
    with pytest.raises(OSError, match="another PID namespace"):
        runner.key_and_name(boot, os.getpid())
    said: list[bytes] = []
    monkeypatch.setattr(runner, "append", lambda state, line: said.append(line))
    runner.reap({"boot": boot, "child": child.pid}, child.pid)
    child.returncode = 0  # it is reaped
    (line,) = map(json.loads, said)
    assert (line["key"], line["comm"], line["exit_code"]) == (None, None, 0)
