"""Programs that agentctl runs: each ends, with all that it started, and what became of it is a value."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import TYPE_CHECKING

import pytest

from agentctl.errors import UsageError
from agentctl.kernel import commands
from agentctl.kernel.commands import DONE, NOT_FOUND, NOT_RUNNABLE, TIMED_OUT, TOO_LONG, Ran
from agentctl.launch import spawn
from tests.support.children import until

if TYPE_CHECKING:
    from pathlib import Path

ENV = {"PATH": os.environ.get("PATH", os.defpath)}
LONG = 60.0


def shell(folder: Path, script: str, patience: float = LONG, input: bytes = b"", limit: int = 10_000) -> Ran:
    return commands.run(["sh", "-c", script], str(folder), ENV, patience, input, limit=limit, grace=0.3)


@pytest.fixture(params=["pidfd", "no pidfd"])
def waiting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Linux, and as on a system without pidfds."""
    if request.param == "no pidfd":
        monkeypatch.delattr(os, "pidfd_open", raising=False)


@pytest.mark.usefixtures("waiting")
def test_what_it_printed_and_its_exit_code(tmp_path: Path) -> None:
    assert shell(tmp_path, "echo out; echo err >&2; pwd; exit 3") == Ran(3, f"out\n{tmp_path}\n".encode(), b"err\n")
    assert shell(tmp_path, "kill -TERM $$").code == -signal.SIGTERM


def test_a_program_that_is_missing_or_cannot_be_run(tmp_path: Path) -> None:
    missing = commands.run(["no-such-program"], str(tmp_path), ENV, LONG)
    assert (missing.outcome, missing.code) == (NOT_FOUND, None)
    assert missing.problem == "no-such-program is not in PATH"
    (tmp_path / "plain").write_text("words")
    refused = commands.run([str(tmp_path / "plain")], None, ENV, LONG)
    assert (refused.outcome, refused.code) == (NOT_RUNNABLE, None)
    assert refused.problem.endswith("/plain cannot be run: Permission denied")


def test_what_the_caller_got_wrong_is_raised(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="gone: no such directory"):
        commands.run(["true"], str(tmp_path / "gone"), ENV, LONG)
    with pytest.raises(UsageError, match="null byte"):
        commands.run(["true", "a\0b"], str(tmp_path), ENV, LONG)


OWN_GROUP = "import os, time; os.setpgid(0, 0); print(os.getpid(), flush=True); time.sleep(300)"


@pytest.mark.usefixtures("waiting")
@pytest.mark.parametrize("stubborn", ["", "trap '' TERM; "])
def test_after_a_time_out_its_grandchildren_are_gone_too(tmp_path: Path, stubborn: str) -> None:
    begun = time.monotonic()
    ran = shell(tmp_path, f"{stubborn}(sleep 300 & echo $! >> pids; wait) & echo $! $$ >> pids; wait", 0.5)
    assert (ran.outcome, ran.code, ran.problem) == (TIMED_OUT, None, "sh has not answered in 0.5 s")
    assert time.monotonic() - begun < LONG / 2
    pids = [int(word) for word in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 3
    until(lambda: not any(map(is_running, pids)))


@pytest.mark.linux
def test_after_a_time_out_what_is_in_another_group_of_its_session_is_gone_too(tmp_path: Path) -> None:
    ran = shell(tmp_path, f"exec 3> pids; {sys.executable} -c '{OWN_GROUP}' >&3 & wait", 2.0)
    assert ran.outcome == TIMED_OUT
    (pid,) = map(int, (tmp_path / "pids").read_text().split())
    until(lambda: not is_running(pid))


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.usefixtures("waiting")
@pytest.mark.parametrize("to", ["", ">&2"])
@pytest.mark.parametrize("then", ["exit", "sleep 300"])
def test_output_over_the_limit_is_no_answer(tmp_path: Path, to: str, then: str) -> None:
    ran = shell(tmp_path, f"head -c 10001 /dev/zero {to}; {then}")
    assert (ran.outcome, ran.code, ran.out, ran.err) == (TOO_LONG, None, b"", b"")
    assert ran.problem == "sh printed more than 10000 bytes"
    ran = shell(tmp_path, f"head -c 10000 /dev/zero {to}")
    assert (ran.outcome, ran.code, len(ran.out) + len(ran.err)) == (DONE, 0, 10_000)


def test_a_program_that_prints_for_ever_is_ended(tmp_path: Path) -> None:
    assert shell(tmp_path, "yes").outcome == TOO_LONG


@pytest.mark.usefixtures("waiting")
def test_input_larger_than_a_pipe_reaches_it(tmp_path: Path) -> None:
    data = b"x" * 300_000
    ran = shell(tmp_path, "sleep 0.2; cat", input=data, limit=len(data))
    assert (ran.outcome, ran.out) == (DONE, data)


@pytest.mark.usefixtures("waiting")
def test_a_program_that_closes_its_stdin_takes_no_input_and_is_waited_for(tmp_path: Path) -> None:
    ran = shell(tmp_path, "exec <&-; sleep 0.2; echo done", input=b"x" * 300_000)
    assert (ran.outcome, ran.code, ran.out) == (DONE, 0, b"done\n")


def test_a_program_that_never_reads_its_input_is_ended_in_time(tmp_path: Path) -> None:
    assert shell(tmp_path, "sleep 300", 0.3, b"x" * 300_000).outcome == TIMED_OUT


def test_without_input_its_stdin_is_empty(tmp_path: Path) -> None:
    assert shell(tmp_path, "wc -c").out.strip() == b"0"


def test_output_to_a_descriptor_has_no_limit(tmp_path: Path) -> None:
    with open(tmp_path / "log", "wb") as log:
        argv = ["sh", "-c", "head -c 20000 /dev/zero; echo err >&2"]
        ran = commands.run(argv, str(tmp_path), ENV, LONG, output=log.fileno(), limit=10_000)
    assert ran == Ran(0)
    assert (tmp_path / "log").stat().st_size == 20_004


def test_a_stream_is_read_line_by_line(tmp_path: Path) -> None:
    lines: list[bytes] = []
    ran = commands.stream(["sh", "-c", "echo a; echo b; echo err >&2; exit 4"], str(tmp_path), ENV, lines.append)
    assert (ran.outcome, ran.code, ran.said, lines) == (DONE, 4, "err", [b"a\n", b"b\n"])
    assert commands.stream(["no-such-program"], str(tmp_path), ENV, lines.append).outcome == NOT_FOUND


def test_a_relative_folder_of_path_is_the_persons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty or relative entry: what lies in the directory that a command works on is not run because of it."""
    for name in ("mine", "theirs"):
        (tmp_path / name / "bin").mkdir(parents=True)
        for path in (tmp_path / name / "tool", tmp_path / name / "bin" / "tool2"):
            path.write_text(f"#!/bin/sh\necho {name}\n")
            path.chmod(0o755)
    monkeypatch.chdir(tmp_path / "mine")
    env = {"PATH": "/usr/bin:/bin:bin:"}
    for word in ("tool", "tool2"):
        assert commands.run([word], str(tmp_path / "theirs"), env, 20).out == b"mine\n"
        assert spawn.executable(word, env, str(tmp_path / "theirs")).startswith(str(tmp_path / "mine"))
