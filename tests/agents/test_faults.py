"""One adapter's fault hides no other agent: it is a problem that names its agent, and all others are answered."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agentctl import agents
from agentctl.agents import guard, usage_base
from agentctl.errors import AgentFault, UsageError
from agentctl.fast.imports import import_module
from agentctl.files.reader import Reader
from agentctl.kernel import processes
from agentctl.query import attribution
from tests.support.children import until
from tests.support.launch_home import SOURCES, UNTIL_TOLD, Home

if TYPE_CHECKING:
    from collections.abc import Iterator

# What is added to the end of an adapter, and what its fault is called.
FAULTS = {
    "import": ("raise RuntimeError('no luck')", "RuntimeError: no luck"),
    "syntax": ("def (", "SyntaxError: invalid syntax"),
    "no adapter": ("del ADAPTER", "AttributeError: "),
    "looks_like": ("type(ADAPTER).looks_like = lambda self, comm: 1 / 0", "ZeroDivisionError: division by zero"),
    "claims": (
        "type(ADAPTER).looks_like = lambda self, comm: True\n"
        "type(ADAPTER).claims = lambda self, process, details: {}['role']",
        "KeyError: 'role'",
    ),
    "roots": ("type(ADAPTER).roots = lambda self, env: env['NO_SUCH']", "KeyError: 'NO_SUCH'"),
    "roots of no kind": ("type(ADAPTER).roots = lambda self, env: None", "TypeError: "),
}
every_fault = pytest.mark.parametrize(("code", "said"), FAULTS.values(), ids=FAULTS)


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A copy of the sources, to be damaged."""
    shutil.copytree(SOURCES, tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "src"


@pytest.fixture
def home(tmp_path: Path, sources: Path) -> Iterator[Home]:
    (tmp_path / "home").mkdir()
    found = Home(tmp_path / "home")
    found.env["PYTHONPATH"] = str(sources)
    try:
        yield found
    finally:
        found.end_all()


def damage(sources: Path, agent: str, module: str, code: str) -> None:
    with open(sources / "agentctl" / "agents" / agents.TABLE[agent] / f"{module}.py", "a") as file:
        file.write(f"\n{code}\n")


def ended_session(home: Home) -> str:
    id = home.launch("be quick")
    assert home.agentctl("wait", id).returncode == 0
    return id


def answer(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def gist(done: subprocess.CompletedProcess[str]) -> tuple[list[object], list[object]]:
    """What does not change from one look to the next."""
    found = answer(done)
    return [(one["id"], one["status"]) for one in found["sessions"]], found["problems"]


@every_fault
def test_all_others_are_answered(home: Home, sources: Path, code: str, said: str) -> None:
    id = ended_session(home)
    damage(sources, "codex", "adapter", code)
    found = answer(home.agentctl("list", "-a", "--json"))
    assert [one["id"] for one in found["sessions"]] == [id]
    assert [one["status"] for one in found["sessions"]] == ["done"]
    (problem,) = found["problems"]
    assert problem["agent"] == "codex"
    assert problem["problem"].startswith(f"its adapter failed: {said}")
    assert home.agentctl("list", "--strict").returncode == 5
    for words in (("status", id), ("why", id), ("peek", id), ("wait", id), ("agents",), ("usage",)):
        done = home.agentctl(*words)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr


@every_fault
def test_its_own_sessions_are_unknown_and_not_absent(home: Home, sources: Path, code: str, said: str) -> None:
    id = ended_session(home)
    damage(sources, "demo", "adapter", code)
    done = home.agentctl("status", id)
    assert done.returncode == 5  # agentctl cannot know
    assert "not read: " in done.stderr and said in done.stderr
    done = home.agentctl("list")
    assert "demo could not be read" in done.stderr


@every_fault
def test_nothing_is_stopped_where_nobody_can_tell_what_runs_inside(
    home: Home, sources: Path, code: str, said: str
) -> None:
    id = home.launch("[[sleep:300]]")
    damage(sources, "codex", "adapter", code)
    done = home.agentctl("stop", id)
    if "roots" in code:
        assert done.returncode == 0, done.stderr  # what looks like its process is known
        return
    assert (done.returncode, done.stdout) == (1, "")
    assert "codex: its adapter failed" in done.stderr
    (row,) = answer(home.agentctl("list", "--json"))["sessions"]
    assert (row["id"], row["status"]) == (id, "running")


def test_a_debug_run_says_the_same_and_shows_where(home: Home, sources: Path) -> None:
    ended_session(home)
    for fault in ("looks_like", "import"):
        damage(sources, "codex", "adapter", FAULTS[fault][0])
        plain = home.agentctl("list", "-a", "--json")
        shown = home.agentctl("list", "-a", "--json", env={**home.env, "AGENTCTL_DEBUG": "1"})
        assert gist(shown) == gist(plain)
        assert "Traceback" in shown.stderr and "Traceback" not in plain.stderr


@pytest.mark.parametrize("code", ["Store.survey = lambda self: 1 / 0", "raise RuntimeError('no luck')"])
def test_a_debug_run_says_the_same_of_a_store_that_fails(home: Home, sources: Path, code: str) -> None:
    ended_session(home)
    damage(sources, "demo", "store", code)
    plain = home.agentctl("list", "-a", "--json")
    shown = home.agentctl("list", "-a", "--json", env={**home.env, "AGENTCTL_DEBUG": "1"})
    assert [one["agent"] for one in json.loads(plain.stdout)["problems"]] == ["demo"]
    assert gist(shown) == gist(plain)
    assert "Traceback" in shown.stderr and "Traceback" not in plain.stderr


def test_a_debug_run_fails_with_the_same_code(home: Home) -> None:
    plain = home.agentctl("status", "no-such-session")
    shown = home.agentctl("status", "no-such-session", env={**home.env, "AGENTCTL_DEBUG": "1"})
    assert (shown.returncode, shown.stdout) == (plain.returncode, plain.stdout) == (3, "")
    assert shown.stderr.endswith(plain.stderr) and "Traceback" in shown.stderr


# What is not seen is not gone


def test_on_complete_waits_until_its_adapter_works_again(home: Home, sources: Path) -> None:
    """An upgrade may leave an adapter broken for a moment. The hook runs only once: with a session that was seen."""
    hook = 'echo "$AGENTCTL_SESSION_ID $AGENTCTL_STATUS" > .new; mv .new complete'
    id = home.launch(UNTIL_TOLD, "--on-complete", hook)
    folder, complete = Path(home.launch_of(id).path or "").parent, home.work / "complete"
    adapter = sources / "agentctl" / "agents" / "demo" / "adapter.py"
    sound = adapter.read_text()
    damage(sources, "demo", "adapter", "raise ImportError('half installed')")
    home.go()
    until(lambda: (folder / "hooks.log").exists())  # the runner has asked
    time.sleep(0.5)
    adapter.write_text(sound)
    until(complete.exists)
    assert complete.read_text() == f"{id} done\n"


def test_a_wait_for_a_launch_cannot_know_while_its_adapter_fails(home: Home, sources: Path) -> None:
    launch = home.launch_of(ended_session(home)).id
    damage(sources, "demo", "adapter", "raise RuntimeError('no luck')")
    done = home.agentctl("wait", launch, "--timeout", "10s")
    assert "without a session" not in done.stdout  # it has one
    assert done.returncode != 0


def test_a_stop_of_a_group_says_that_it_could_not_look(home: Home, sources: Path) -> None:
    """Its launch has ended; whether its session goes on elsewhere (resumed by hand) nobody can see."""
    assert home.agentctl("wait", home.launch("be quick", "--group", "night")).returncode == 0
    damage(sources, "demo", "adapter", "raise RuntimeError('no luck')")
    done = home.agentctl("stop", "--group", "night")
    assert done.returncode != 0 or "no luck" in done.stderr, done.stderr


@pytest.fixture
def wrapped(home: Home) -> Iterator[str]:
    """A launch whose wrapper has ended, and left its agent to the runner."""
    (home.folder / "real").mkdir()
    shutil.copy(shutil.which("sleep") or "", home.folder / "real" / "codex")
    (home.folder / "codex").write_text(f"#!/bin/sh\n{home.folder}/real/codex 300 &\nsleep 1.5\n")
    (home.folder / "codex").chmod(0o755)
    home.env["PATH"] = f"{home.folder}:{home.env['PATH']}"
    hook = ("--on-complete", "touch complete")
    assert home.agentctl("launch", "codex", "-p", "hello", "--id-timeout", "1s", *hook).returncode == 124
    (launch,) = home.launches()
    until(lambda: (Path(launch.path or "").parent / "exits.jsonl").exists())
    yield launch.id
    assert home.agentctl("stop", launch.id, "--tree", env={**home.env, "PYTHONPATH": SOURCES}).returncode == 0


def test_an_agent_that_a_wrapper_left_is_not_gone(home: Home, wrapped: str) -> None:
    assert home.agentctl("stop", wrapped).returncode == 4
    assert home.agentctl("_over", wrapped).returncode == 75


def test_an_agent_that_a_wrapper_left_is_not_gone_while_its_adapter_fails(
    home: Home, sources: Path, wrapped: str
) -> None:
    damage(sources, "codex", "adapter", "raise RuntimeError('no luck')")
    assert home.agentctl("stop", wrapped).returncode != 0
    assert home.agentctl("_over", wrapped).returncode != 0
    assert not (home.work / "complete").exists()


def test_a_wait_goes_on_for_an_agent_that_a_wrapper_left(home: Home, wrapped: str) -> None:
    done = home.agentctl("wait", wrapped, "--timeout", "1s")
    assert done.returncode != 0, done.stdout


def test_a_launch_into_a_directory_says_that_an_agent_cannot_be_seen(home: Home, sources: Path) -> None:
    """Nobody launched the agent that works there, so only its adapter would recognise it."""
    words = [sys.executable, "-m", "agentctl.demo_agent", "-p", "[[sleep:300]]"]
    there = subprocess.Popen(words, cwd=home.work, env=home.env, stdout=subprocess.DEVNULL)
    try:
        until(lambda: len(home.listed()["sessions"]) == 1)
        (home.folder / "codex").write_text("#!/bin/sh\nexec sleep 3\n")
        (home.folder / "codex").chmod(0o755)
        home.env["PATH"] = f"{home.folder}:{home.env['PATH']}"
        words = ["launch", "codex", "-p", "hello", "--id-timeout", "1s"]
        assert home.agentctl(*words).returncode == 4  # it is seen
        damage(sources, "demo", "adapter", "raise RuntimeError('no luck')")
        done = home.agentctl(*words)
        assert done.returncode == 4 or "demo" in done.stderr, done.stderr
    finally:
        there.kill()
        there.wait()


# Counting


@pytest.mark.parametrize("code", ["raise RuntimeError('no luck')", "def (", "del USAGE"])
def test_an_agent_that_cannot_be_counted_hides_no_other(home: Home, sources: Path, code: str) -> None:
    ended_session(home)
    (home.folder / ".codex").mkdir()
    before = answer(home.agentctl("usage", "--json"))
    damage(sources, "codex", "usage", code)
    after = answer(home.agentctl("usage", "--json"))
    assert after["rows"] == before["rows"] != []
    (problem,) = after["problems"]
    assert (problem["agent"], problem["path"]) == ("codex", str(home.folder / ".codex"))
    assert problem["problem"].startswith("its usage.py failed: ")


def test_its_status_is_told_though_its_tokens_cannot_be_counted(home: Home, sources: Path) -> None:
    id = ended_session(home)
    damage(sources, "demo", "usage", "raise RuntimeError('no luck')")
    found = answer(home.agentctl("status", id, "--json"))
    assert (found["session"]["status"], found["session"]["tokens"]) == ("done", None)
    assert "its usage.py failed: RuntimeError: no luck" in home.agentctl("status", id).stderr


def test_what_was_counted_is_not_forgotten_while_an_adapter_fails(home: Home, sources: Path) -> None:
    ended_session(home)
    before = answer(home.agentctl("usage", "--json"))["rows"]
    adapter = sources / "agentctl" / "agents" / "demo" / "adapter.py"
    sound = adapter.read_text()
    damage(sources, "demo", "adapter", "raise RuntimeError('no luck')")
    found = answer(home.agentctl("usage", "--json"))
    assert found["rows"] == [] and [one["agent"] for one in found["problems"]] == ["demo"]
    adapter.write_text(sound)
    assert answer(home.agentctl("usage", "--json"))["rows"] == before


# The parts


def test_a_launch_whose_output_nobody_can_read_is_a_problem(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fails(name: str) -> None:
        raise AgentFault(name, "control.py", RuntimeError("no luck"))

    (tmp_path / "output").write_text("{}\n")
    monkeypatch.setattr(attribution, "load_control", fails)
    problems: list[Any] = []
    assert attribution.printed_in(str(tmp_path), "codex", problems) is None
    assert attribution.printed_in(str(tmp_path), "codex") is None
    assert [(one.agent, one.problem) for one in problems] == [("codex", "its control.py failed: RuntimeError: no luck")]


def test_an_alias_may_be_of_the_agent_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(name: str) -> Any:
        if ".codex." in name:
            raise RuntimeError("no luck")
        return import_module(name)

    monkeypatch.setattr(agents, "import_module", fails)
    assert agents.chosen(["claude", "codex"]) == ("claude-code", "codex")
    with pytest.raises(UsageError, match="codex: its adapter failed: RuntimeError: no luck"):
        agents.chosen(["cdx"])
    with pytest.raises(AgentFault, match=r"codex: its control\.py failed"):
        agents.load_control("codex")


def test_an_agent_that_fails_twice_ends_the_question() -> None:
    """A stand-in has no fault of its own: whoever blames it has another one."""

    def ask(asked: list[Any]) -> None:
        raise AgentFault("codex", "adapter", RuntimeError("no luck"))

    with pytest.raises(AgentFault):
        guard.despite_faults(agents.load_all(), ask)


def test_a_stand_in_recognises_nothing() -> None:
    stand_in = guard.StandIn("codex", AgentFault("codex", "adapter", RuntimeError("no luck")))
    table = processes.snapshot()
    assert not any(stand_in.looks_like(process.comm) for process in table.living())
    with pytest.raises(OSError, match="its adapter failed: RuntimeError: no luck"):
        stand_in.open_store(stand_in.roots({})[0])


def test_a_usage_that_fails_says_nothing_of_a_store_that_is_not_there(tmp_path: Path) -> None:
    usage = usage_base.FailedUsage("its usage.py failed: RuntimeError: no luck")
    assert list(usage.folders(Reader("x", str(tmp_path / "none")), [])) == []
    with pytest.raises(OSError, match="no luck"):
        list(usage.folders(Reader("x", str(tmp_path)), []))
