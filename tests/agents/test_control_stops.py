"""How the agents are stopped, and which command of theirs is run for that."""

from __future__ import annotations

import json
import shutil
import sys
from typing import TYPE_CHECKING, Any

import pytest

from agentctl.agents import load_control
from agentctl.agents.claude_code import control
from agentctl.agents.recipes import Held
from agentctl.kernel import confinement
from agentctl.model import Details, Process, ProcessKey
from tests.agents.test_controls import ID, session
from tests.support.worlds import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path


def held(agent: str, argv: str, **more: Any) -> Held:
    key = ProcessKey("boot", more.pop("pid", 5), more.pop("start", 100))
    own = session(agent, more.pop("id", ID), store=more.pop("store", "/none"))
    env = more.pop("ours", {})
    return Held(own, Process(key, 1, more.pop("comm", agent), "S"), Details(tuple(argv.split()), **more), env)


@pytest.mark.parametrize(
    ("agent", "argv", "signals"),
    [
        ("claude-code", "claude -p", ("SIGTERM",)),
        ("claude-code", "claude", ("SIGTERM",)),
        ("codex", "codex exec --json -", ("SIGINT", "SIGTERM")),
        ("codex", "codex -m x e -", ("SIGINT", "SIGTERM")),
        ("codex", "codex --no-daemon", ("SIGTERM",)),
        ("codex", "codex resume x", ("SIGTERM",)),
        ("opencode", "opencode run hi", ("SIGTERM",)),
        ("opencode", "opencode --port 4222", ("SIGTERM",)),
    ],
)
def test_processes_of_one_session_are_ended_by_signals(agent: str, argv: str, signals: tuple[str, ...]) -> None:
    way = load_control(agent).way_to_stop(held(agent, argv))
    assert (way.signals, way.command, way.interrupt) == (signals, None, None)


@pytest.mark.parametrize(
    ("agent", "argv"),
    [
        ("codex", "codex app-server --listen unix://"),
        ("codex", "codex app-server"),
        ("opencode", "opencode serve --port 4111"),
        ("opencode", "opencode acp"),
        ("opencode", "opencode web"),
    ],
)
def test_servers_are_never_signalled(agent: str, argv: str) -> None:
    way = load_control(agent).way_to_stop(held(agent, argv))
    assert (way.signals, way.command) == ((), None)
    assert way.interrupt is not None


BACKGROUND = FIXTURES / "claude-2.1.325" / "bg_running_mid_tool" / ".claude"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    shutil.copytree(BACKGROUND, tmp_path / ".claude")
    return tmp_path / ".claude"


def worker(store: Path, **more: Any) -> Held:
    return held("claude-code", "claude bg-spare /tmp/x", **{"pid": 2985, "start": 444450, "store": str(store), **more})


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process is in no sandbox."""
    monkeypatch.setattr(confinement, "why_confined", lambda pid: None)


def test_no_command_is_run_for_a_background_session_in_a_sandbox(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have written the program that it runs, and the pid file that says so."""
    monkeypatch.setattr(confinement, "why_confined", lambda pid: "it is in another mount namespace")
    binary = tmp_path / "claude"
    binary.touch(mode=0o755)
    one = worker(store, exe=str(binary), env={})
    way = control.CONTROL.way_to_stop(one)
    assert (way.signals, way.command) == (("SIGTERM",), None)
    assert "another mount namespace" in str(way.said)
    assert control.CONTROL.own_screen(one) is None


@pytest.mark.usefixtures("free")
def test_a_script_is_not_sought_in_our_own_directory(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cli.js").touch()
    monkeypatch.chdir(tmp_path)
    one = held("claude-code", "node cli.js", pid=2985, start=444450, store=str(store), exe=sys.executable, env={})
    assert control.program(one) == ("claude",)
    argv = f"node {tmp_path}/cli.js"
    one = held("claude-code", argv, pid=2985, start=444450, store=str(store), exe=sys.executable, env={})
    assert control.program(one) == (sys.executable, f"{tmp_path}/cli.js")


@pytest.mark.usefixtures("free")
@pytest.mark.parametrize("job", ["--help", "a b", "", "../x", 5])
def test_a_job_that_has_not_the_form_of_one_is_no_word_of_a_command(store: Path, job: object) -> None:
    path = store / "sessions" / "2985.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "jobId": job}))
    assert control.CONTROL.way_to_stop(worker(store, env={})).command is None


@pytest.mark.usefixtures("free")
def test_a_background_session_is_ended_by_its_own_command(store: Path, tmp_path: Path) -> None:
    binary = tmp_path / "versions" / "claude"
    binary.parent.mkdir()
    binary.touch(mode=0o755)
    env = {"CLAUDE_CONFIG_DIR": str(store)}
    way = control.CONTROL.way_to_stop(worker(store, exe=str(binary), env=env, ours=env))
    assert (way.signals, way.command) == ((), (str(binary), "stop", "21fea0ff"))


@pytest.mark.usefixtures("free")
def test_its_command_is_found_by_path_where_its_own_binary_is_gone(store: Path) -> None:
    way = control.CONTROL.way_to_stop(worker(store, exe="/opt/claude (deleted)", env={}))
    assert way.command == ("claude", "stop", "21fea0ff")


@pytest.mark.usefixtures("free")
@pytest.mark.parametrize(
    ("theirs", "ours", "wanted"),
    [
        ({"HOME": "/h"}, {"HOME": "/h"}, ()),
        ({"HOME": "/h", "CLAUDE_CONFIG_DIR": "/c"}, {"HOME": "/h"}, ("env", "CLAUDE_CONFIG_DIR=/c")),
        ({"HOME": "/h"}, {"HOME": "/h", "CLAUDE_CONFIG_DIR": "/d"}, ("env", "-u", "CLAUDE_CONFIG_DIR")),
        (
            {"HOME": "/h"},
            {"HOME": "/i", "CLAUDE_CONFIG_DIR": "/d"},
            ("env", "-u", "CLAUDE_CONFIG_DIR", "HOME=/h"),
        ),
        (None, {"CLAUDE_CONFIG_DIR": "/d"}, ("env", "CLAUDE_CONFIG_DIR={store}")),
        (None, {"CLAUDE_CONFIG_DIR": "{store}"}, ()),
    ],
)
def test_its_command_works_in_the_store_of_the_session(
    store: Path, theirs: dict[str, str] | None, ours: dict[str, str], wanted: tuple[str, ...]
) -> None:
    ours = {name: value.format(store=store) for name, value in ours.items()}
    command = control.CONTROL.way_to_stop(worker(store, env=theirs, ours=ours)).command
    assert command == (*(word.format(store=store) for word in wanted), "claude", "stop", "21fea0ff")


def test_a_file_of_an_earlier_process_with_this_pid_says_nothing(store: Path) -> None:
    other = worker(store, start=9, id="00000000-0000-4000-8000-000000000000", env={})
    assert control.CONTROL.way_to_stop(other).signals == ("SIGTERM",)


@pytest.mark.usefixtures("free")
def test_the_roster_names_a_background_session_that_has_not_registered(store: Path) -> None:
    (store / "sessions" / "2985.json").unlink()
    assert control.CONTROL.way_to_stop(worker(store, env={})).command == ("claude", "stop", "21fea0ff")
