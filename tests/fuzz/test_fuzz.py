"""A few thousand cases of `make fuzz`, the memory of every reader, and the proof that the fuzz would see a fault."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from agentctl import config
from agentctl.agents import control_base
from agentctl.agents.claude_code import records, transcript
from agentctl.agents.claude_code import store as claude_store
from agentctl.cli import agents as agents_verb
from agentctl.cli import output
from agentctl.files import bounded
from agentctl.kernel import one_process
from agentctl.kernel.processes import Processes
from agentctl.launch import issue
from agentctl.launches import records as launches
from agentctl.workspace import unsaved
from tests.fuzz import agent, asking, campaign, memory, mutations
from tests.fuzz.__main__ import kind_of
from tests.fuzz.targets import TARGETS

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentctl.files.bounded import Opened

pytestmark = pytest.mark.linux

ROOT = Path(__file__).parents[2]
SEED, CASES = 20261116, 3000
PATIENCE = 1200.0
MOST_TRIES = 400


@pytest.mark.stress
def test_a_few_thousand_cases() -> None:
    command = [sys.executable, "-m", "tests.fuzz", "--n", str(CASES), "--seed", str(SEED), "--workers", "1"]
    done = subprocess.run(
        [*command, "--no-memory"], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    counts = dict(re.findall(r"^(.+?) +([0-9]+) +[0-9]+ +0$", done.stdout, re.MULTILINE))
    assert set(counts) == {*TARGETS, "all"}
    assert all(int(count) > 0 for count in counts.values()), counts
    assert int(counts["all"]) == CASES


@pytest.mark.stress
def test_no_reader_takes_more_memory_for_a_larger_file() -> None:
    found = memory.measured(memory.GB, memory.SPARSE)
    assert {(one["name"], one["shape"]) for one in found} == {(a, b) for a in memory.FILES for b in memory.SPARSE}
    assert memory.too_much(found) == []


def test_a_case_follows_from_its_name() -> None:
    one = campaign.case(7, 11)
    assert campaign.Case.parse(str(one)) == one
    data = b'{"a": [1, "x"]}\n' * 9
    for number in range(50):
        again = [mutations.mutate(data, Random(number), [b"y"]) for _ in range(2)]
        assert again[0] == again[1]


def test_the_order_of_names_follows_from_the_case(tmp_path: Path) -> None:
    """And not from the file system, which lists them in another order on each machine."""
    names = [f"{number}.json" for number in range(20)]
    listed = {}
    for folder, order in (("a", names), ("b", names[::-1])):
        (tmp_path / folder).mkdir()
        for name in order:
            (tmp_path / folder / name).touch()
        for case in ("demo:1:1", "demo:1:2"):
            with campaign.listed_in_order_of(case):
                scanned = os.scandir(tmp_path / folder)
                listed[folder, case] = os.listdir(tmp_path / folder)
            with scanned:
                assert [entry.name for entry in scanned] == listed[folder, case]
    assert listed["a", "demo:1:1"] == listed["b", "demo:1:1"] != listed["a", "demo:1:2"] == listed["b", "demo:1:2"]


# It can fail: a fault is put in where each target is read, and is seen within a few hundred cases


def seen_in(target: str, folder: Path, word: str) -> str:
    """The first failure that has this word in it."""
    for number in range(MOST_TRIES):
        for failure in campaign.run(campaign.case(1, number, target), folder).asked.failures:
            if word in failure:
                return failure
    raise AssertionError(f"{MOST_TRIES} cases of {target}, and nothing was seen")


def trusting_config(env: dict[str, str]) -> dict[str, Any]:
    path = Path(config.config_path(env))
    return tomllib.loads(path.read_text()) if path.is_file() else {}


def plain_json(path: str) -> Any:
    """As if what is in a file were always JSON."""
    return json.loads(Path(path).read_bytes())


def always(value: object) -> Callable[..., Any]:
    return lambda *_: value


PLANTED: dict[str, tuple[object, str, Any]] = {
    **{target: fault for one in agent.every() for target, fault in one.faults.items()},
    "launch record": (bounded, "read_json", plain_json),
    "exits": (launches, "exit_code", int),
    "output": (control_base, "decode", json.loads),
    "hooks": (bounded, "decode", json.loads),
    "locks": (bounded, "read_json", plain_json),
    "config": (config, "load", trusting_config),
    "cache": (bounded, "read_json", plain_json),
    "packages": (agents_verb, "read_json", plain_json),
    "process table": (one_process, "is_whole", always(True)),
    "lines": (records, "decode", json.loads),
    "git": (unsaved, "named", lambda names: names[0]),
    "github": (issue, "parse", lambda number, repo, text: json.loads(text)["title"]),
}


def test_every_target_has_a_fault_to_be_seen() -> None:
    assert set(PLANTED) == set(TARGETS)


@pytest.mark.stress
@pytest.mark.parametrize("target", PLANTED)
def test_a_fault_where_it_is_read_is_seen(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where, name, fault = PLANTED[target]
    assert getattr(where, name) is not fault
    monkeypatch.setattr(where, name, fault)
    assert kind_of(seen_in(target, tmp_path, "Error: "))


def test_an_escape_sequence_on_a_terminal_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "plain", lambda text: text or "")
    assert "control characters" in seen_in("demo", tmp_path, "control characters")


def test_a_number_that_is_no_json_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "session_json", lambda session: {"cost_usd": float("nan")})
    seen_in("demo", tmp_path, "NaN is no JSON")


def test_a_dead_process_that_is_shown_as_alive_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a pid were an identity."""
    monkeypatch.setattr(Processes, "alive", lambda self, key: self.by_pid.get(key.pid))
    monkeypatch.setattr(Processes, "find", lambda self, pid, start: self.by_pid.get(pid))
    seen_in("demo", tmp_path, "is not alive")


@pytest.mark.parametrize(
    ("does", "word"),
    [
        (lambda path: os.kill(os.getpid(), 0), "os.kill"),
        (lambda path: signal.pidfd_send_signal(0, 0), "pidfd_send_signal"),
        (lambda path: os.system("true"), "os.system"),
        (lambda path: open(os.path.join(os.environ["HOME"], "x"), "w"), "open"),
        (lambda path: os.utime(path), "os.utime"),
        (lambda path: fcntl.flock(0, fcntl.LOCK_SH), "fcntl.flock"),
    ],
)
def test_what_no_query_may_do_is_seen(
    does: Callable[[str], Any], word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = transcript.read_head

    def read_head(file: Opened) -> transcript.Head:
        does(file.path)
        return real(file)

    monkeypatch.setattr(claude_store, "read_head", read_head)
    assert word in seen_in("claude transcript", tmp_path, "it did: ")


def test_a_store_that_hangs_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "THREADED", 1.0)
    monkeypatch.setattr(asking, "PATIENCE", 0.2)
    monkeypatch.setattr(claude_store, "read_head", lambda file: time.sleep(1.0))
    seen_in("claude transcript", tmp_path, "it hangs")


def test_a_process_that_hangs_is_seen(tmp_path: Path) -> None:
    """By its watchdog, whatever it does: the worker ends, and says where it was."""
    code = (
        "import pathlib, sys; from tests.fuzz import __main__ as fuzz\n"
        "from agentctl.agents.claude_code import transcript\n"
        "def moment(value):\n"
        "    while True: pass\n"
        "transcript.moment = moment\n"
        "fuzz.PATIENCE = 2.0\n"
        "fuzz.main(['--replay', 'claude-transcript:1:1'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 1
    assert "Timeout" in done.stderr
    assert "in moment" in done.stderr


def test_memory_without_bounds_is_seen() -> None:
    much = {"name": "x", "shape": "one line", "bytes": memory.MOST + 1, "faults": []}
    assert memory.too_much([much, {**much, "bytes": 0}, {**much, "bytes": 0, "faults": ["a fault"]}]) == [
        "x, one line: 50 MB ",
        "x, one line: 0 MB a fault",
    ]
