"""agentctl stop, on real processes: who is ended, who is left, and that what it says is true."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from typing import TYPE_CHECKING

import pytest

from agentctl.agents.recipes import Held, Way
from agentctl.errors import AgentctlError, Refused
from agentctl.kernel.handles import Handle
from agentctl.stop import plan, terminate
from agentctl.stop import stop as stopping
from agentctl.stop.stop import Options
from tests.support.children import PATIENCE, until
from tests.support.stop_world import StopWorld, living

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.linux

STUBBORN = "for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(one, signal.SIG_IGN)\n"
LONG = "600s"  # of grace: nothing here is expected to take that long


@pytest.fixture
def world(tmp_path: Path) -> Iterator[StopWorld]:
    world = StopWorld(tmp_path)
    try:
        yield world
    finally:
        world.end_all()


# What is ended


def test_in_the_middle_of_a_model_call(world: StopWorld) -> None:
    id, key = world.demo("[[sleep:300]]")
    done = world.ctl("stop", id[:8])
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{id} stopped: pid {key.pid} ended by SIGTERM in ")
    assert living(key) == [False]
    assert world.status(id) == "stopped"
    again = world.stop(id)
    assert again["outcome"] == "gone"


def test_in_the_middle_of_a_tool(world: StopWorld) -> None:
    """One that starts a process in another session, which no signal to a group would reach."""
    command = f"setsid sleep 300 & echo $! > {world.base}/inner; wait"
    id, key = world.demo(f"[[bash:{command}]]")
    until(lambda: (world.base / "inner").exists() and (world.base / "inner").read_text().endswith("\n"))
    inner = world.keep(int((world.base / "inner").read_text()))
    found = world.stop(id, "--grace", LONG)
    assert living(key, inner) == [False, False]
    ended = {one["pid"]: (one["part"], one["how"]) for one in found["ended"]}
    assert ended[key.pid] == ("agent", "SIGTERM") and ended[inner.pid][0] == "tool"


def test_a_tool_that_its_agent_leaves_behind(world: StopWorld) -> None:
    """The agent dies of the signal and ends nobody."""
    id, key = world.standin("tool()")
    tool = world.tool_of(id)
    found = world.stop(id)
    assert living(key, tool) == [False, False]
    assert {one["pid"]: one["how"] for one in found["ended"]} == {key.pid: "SIGTERM", tool.pid: "SIGTERM"}


def test_a_stubborn_agent_and_its_stubborn_tool(world: StopWorld) -> None:
    id, key = world.standin(f"{STUBBORN}tool('sh', '-c', 'trap \"\" TERM; while :; do sleep 0.1; done')")
    tool = world.tool_of(id)
    found = world.stop(id, "--grace", "0.2")
    assert living(key, tool) == [False, False]
    how = {one["pid"]: one["how"] for one in found["ended"]}
    assert (how[key.pid], how[tool.pid]) == ("SIGKILL", "SIGKILL")
    assert world.status(id) == "stopped"


def test_a_tool_that_was_started_while_it_was_told_to_end(world: StopWorld) -> None:
    """It is no child of anybody once its agent is killed: it is collected before."""
    id, key = world.standin("signal.signal(signal.SIGTERM, lambda *_: tool())")
    found = world.stop(id, "--grace", "2")
    tool = int(world.noted(id, "tool"))
    assert {one["pid"] for one in found["ended"]} == {key.pid, tool}
    until(lambda: not os.path.exists(f"/proc/{tool}") or "Z" in open(f"/proc/{tool}/stat").read().rpartition(")")[2])


def test_a_suspended_agent_ends_in_its_own_way(world: StopWorld) -> None:
    id, key = world.demo("[[sleep:300]]")
    os.kill(key.pid, signal.SIGSTOP)
    found = world.stop(id, "--grace", LONG)
    assert [one["how"] for one in found["ended"]] == ["SIGTERM"]
    assert world.events(id)[-1]["result"] == "interrupted"


def test_a_suspended_tool(world: StopWorld) -> None:
    id, _ = world.standin("child = tool(); os.kill(child.pid, signal.SIGSTOP)")
    tool = world.tool_of(id)
    found = world.stop(id)
    assert {one["pid"]: one["how"] for one in found["ended"]}[tool.pid] == "SIGTERM"
    assert living(tool) == [False]


def test_several_and_the_worst_exit_code(world: StopWorld) -> None:
    one, two = world.demo("[[sleep:300]]"), world.demo("[[idle]]")
    done = world.ctl("stop", one[0], "nosuchsession", two[0], "--json")
    assert done.returncode == 3
    assert "nosuchsession" in done.stderr
    outcomes = [found["outcome"] for found in json.loads(done.stdout)["stopped"]]
    assert outcomes == ["stopped", "error", "stopped"]
    assert living(one[1], two[1]) == [False, False]


# What is refused


def test_a_forged_file_that_names_a_stranger(world: StopWorld) -> None:
    id, key = world.demo("[[sleep:300]]")
    stranger = world.stranger()
    world.forge(id, stranger)
    said = world.refused(id)
    assert f"pid {stranger.pid}" in said and "--force" in said
    assert living(stranger, key) == [True, True]


@pytest.mark.parametrize("words", [(), ("--force",), ("--force", "--tree")])
def test_a_forged_file_that_names_another_session(world: StopWorld, words: tuple[str, ...]) -> None:
    id, _ = world.demo("[[sleep:300]]")
    other, key = world.demo("[[sleep:300]]")
    world.forge(id, key)
    said = world.refused(id, *words)
    assert "may be on it" in said and other not in said  # its own process has lost its file
    assert living(key) == [True]


@pytest.mark.parametrize("words", [(), ("--force",)])
def test_a_process_of_two_sessions_is_never_signalled(world: StopWorld, words: tuple[str, ...]) -> None:
    id, key = world.standin("register('11111111-2222-4333-8444-555555555555')")
    said = world.refused(id, *words)
    assert "also holds 11111111" in said and "never signalled" in said
    assert living(key) == [True]


@pytest.mark.parametrize("words", [(), ("--force",)])
def test_the_agent_that_we_run_in(world: StopWorld, words: tuple[str, ...]) -> None:
    own = "55555555-2222-4333-8444-555555555555"
    ready = f"while [ ! -e {world.folder(own)}/ready ]; do sleep 0.02; done"
    stop = f"{sys.executable} -m agentctl stop {own} {' '.join(words)} > out 2>&1; echo $? > code"
    _, key = world.standin(f"tool('sh', '-c', {f'{ready}; {stop}'!r})", id=own)
    until(lambda: (world.base / "code").exists() and (world.base / "code").read_text().endswith("\n"))
    assert (world.base / "code").read_text() == "4\n"
    assert "inside of it" in (world.base / "out").read_text()
    assert living(key) == [True]


def test_a_session_that_cannot_be_told(world: StopWorld) -> None:
    """A process that may be on it, and has no file: nobody is signalled."""
    id, key = world.standin()
    (world.folder(id) / "process.json").unlink()
    for words in ((), ("--force",)):
        said = world.refused(id, *words)
        assert f"pid {key.pid} may be on it" in said
    assert living(key) == [True]


def test_an_ended_turn_that_somebody_may_go_on_with(world: StopWorld) -> None:
    """Its turn is closed, so it is listed as done; it is not said to be gone."""
    id, key = world.standin()
    (world.folder(id) / "process.json").unlink()
    with (world.folder(id) / "events.jsonl").open("a") as file:
        file.write(json.dumps({"at": "2026-01-01T00:00:01Z", "event": "turn_end", "result": "done"}) + "\n")
    assert world.status(id) == "done"
    assert f"pid {key.pid} may be on it" in world.refused(id)
    assert living(key) == [True]


def test_no_such_session_and_no_word(world: StopWorld) -> None:
    assert "no session" in world.refused("feedbeef", code=3)
    assert "which session" in world.refused(code=2)
    assert "no group 'night'" in world.refused("--group", "night", code=3)
    assert "--grace 2d: too long" in world.refused("feedbeef", "--grace=2d", code=2)
    for wrong in ("ten", "-1s", "10y", "nan"):
        assert "is not a duration" in world.refused("feedbeef", f"--grace={wrong}", code=2)


# Who is left alone


INNER = """
tool({python!r}, {program!r}, root, {inner!r}, "", env={{**os.environ, "AGENTCTL_LAUNCH": "marker"}})
"""


def nested(world: StopWorld, inner: str, before: str = "") -> str:
    return before + INNER.format(python=sys.executable, program=str(world.program), inner=inner)


@pytest.mark.parametrize("tree", [False, True])
def test_a_nested_agent(world: StopWorld, tree: bool) -> None:
    inner = "22222222-2222-4333-8444-555555555555"
    id, key = world.standin(nested(world, inner, "note('own', tool().pid)\n"), env={"AGENTCTL_LAUNCH": "marker"})
    inner_key, own = world.keep(int(world.noted(inner, "ready"))), world.tool_of(id, "own")
    done = world.ctl("stop", id, "--json", *(["--tree"] if tree else []))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["stopped"]
    assert [(one["id"], one["outcome"]) for one in found] == [(id, "stopped")] + ([(inner, "stopped")] if tree else [])
    assert [(one["pid"], one["id"], one["why"]) for one in found[0]["left"]] == [(inner_key.pid, inner, "session")]
    assert living(key, own, inner_key) == [False, False, not tree]
    assert world.status(inner) == ("stopped" if tree else "running")


def test_what_runs_below_a_nested_agent(world: StopWorld) -> None:
    inner = "33333333-2222-4333-8444-555555555555"
    code = nested(world, inner).replace('""', '"tool()"')
    id, key = world.standin(code)
    inner_key, tool = world.keep(int(world.noted(inner, "ready"))), world.tool_of(inner)
    found = world.stop(id)
    assert [one["pid"] for one in found["left"]] == [inner_key.pid]
    assert living(key, inner_key, tool) == [False, True, True]


def test_the_line_names_who_is_left(world: StopWorld) -> None:
    inner = "44444444-2222-4333-8444-555555555555"
    id, _ = world.standin(nested(world, inner))
    pid = world.keep(int(world.noted(inner, "ready"))).pid
    assert f"; left: pid {pid}, demo session {inner}\n" in world.ctl("stop", id).stdout


# What it says is true


AGAIN = """
def again(*_):
    if os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        fields = open("/proc/self/stat").read().rpartition(")")[2].split()
        me.update(pid=os.getpid(), start_ticks=int(fields[19]))
        register(id)
        note("again", os.getpid())
        time.sleep(600)
    while not os.path.exists(f"{folder}/again"):
        time.sleep(0.01)
    os._exit(0)

signal.signal(signal.SIGTERM, again)
"""


def test_one_that_comes_back(world: StopWorld) -> None:
    """Its process has ended, and another one is on the session: that is not stopped, whatever was signalled."""
    id, key = world.standin(AGAIN)
    done = world.ctl("stop", id, "--grace", LONG)
    back = world.tool_of(id, "again")
    assert done.returncode == 1
    assert done.stdout.startswith(f"{id} NOT stopped: pid {key.pid} ended by SIGTERM")
    assert f"pid {back.pid} is on it now" in done.stdout
    assert living(key, back) == [False, True]


class Control:
    """An agent's control that offers another way."""

    def __init__(self, way: Way) -> None:
        self.way = way

    def way_to_stop(self, held: Held) -> Way:
        return self.way


@pytest.fixture
def offers(monkeypatch: pytest.MonkeyPatch) -> Callable[[Way], None]:
    return lambda way: monkeypatch.setattr(stopping, "load_control", lambda name: Control(way))


def test_an_agent_that_offers_no_signal(world: StopWorld, offers: Callable[[Way], None]) -> None:
    """Nothing to begin with is no reason to begin with SIGKILL."""
    id, key = world.standin()
    offers(Way(signals=()))
    with pytest.raises(Refused, match="never signalled"):
        stopping.stop(id, Options(grace=0.1, force=True), world.env)
    assert living(key) == [True]


def test_signals_one_after_the_other(world: StopWorld, offers: Callable[[Way], None]) -> None:
    id, key = world.standin(f"{STUBBORN}signal.signal(signal.SIGHUP, lambda *_: (note('told', 1), os._exit(0)))")
    offers(Way(signals=("SIGINT", "SIGTERM", "SIGHUP")))
    (found,) = stopping.stop(id, Options(grace=0.9), world.env)
    assert found.outcome == stopping.STOPPED
    assert [one.how for one in found.ended] == ["SIGHUP"]
    assert world.noted(id, "told") == "1"
    assert living(key) == [False]


def test_an_agents_own_command(world: StopWorld, offers: Callable[[Way], None]) -> None:
    id, key = world.standin("tool()")
    tool = world.tool_of(id)
    offers(Way(signals=(), command=("sh", "-c", f"kill {key.pid}")))
    (found,) = stopping.stop(id, Options(), world.env)
    assert (found.outcome, found.said) == (stopping.STOPPED, f"by `sh -c kill {key.pid}`")
    assert living(key, tool) == [False, False]


@pytest.mark.parametrize(("goes", "left"), [("true", []), ("exec sleep 300", ["wrapper"])])
def test_a_wrapper_of_what_an_agents_own_command_has_ended(
    world: StopWorld, offers: Callable[[Way], None], monkeypatch: pytest.MonkeyPatch, goes: str, left: list[str]
) -> None:
    """It sees a moment later that it is not needed any more; one that does not is told, and left to its agent."""
    id = str(uuid.uuid4())
    wrapper = world.wrapped(id, then=goes)
    agent = world.keep(int(world.noted(id, "ready")))
    found = plan.targets_of
    monkeypatch.setattr(stopping, "targets_of", lambda *a, **b: found(*a, **b)._replace(wrappers=(wrapper,)))
    offers(Way(signals=(), command=("sh", "-c", f"kill {agent.pid}")))
    (outcome,) = stopping.stop(id, Options(), world.env)
    assert [one.part for one in outcome.living] == left
    assert outcome.outcome == (stopping.NOT_STOPPED if left else stopping.STOPPED)
    assert living(agent, wrapper) == [False, bool(left)]


def test_a_command_is_not_believed(world: StopWorld, offers: Callable[[Way], None]) -> None:
    """Nor is what it did not end killed: an agent that has such a command would bring it back."""
    id, key = world.standin("tool()")
    tool = world.tool_of(id)
    for word, said in (("true", "by `true`"), ("false", "`false` failed with 1: it said nothing")):
        offers(Way(signals=(), command=(word,)))
        (found,) = stopping.stop(id, Options(grace=0.1), world.env)
        assert (found.outcome, found.exit_code, found.said) == (stopping.NOT_STOPPED, 1, said)
        assert key.pid in {one.pid for one in found.living}
    offers(Way(signals=(), command=("agentctl-no-such-command",)))
    with pytest.raises(AgentctlError, match="could not be run"):
        stopping.stop(id, Options(grace=0.1), world.env)
    assert living(key, tool) == [True, True]


def test_a_turn_is_ended_where_its_process_is_not(world: StopWorld, offers: Callable[[Way], None]) -> None:
    other = "66666666-2222-4333-8444-555555555555"
    id, key = world.standin(f"register({other!r})")
    path = world.folder(id) / "process.json"

    def rest(seconds: float) -> None:
        path.write_text(json.dumps({**json.loads(path.read_text()), "status": "idle"}))

    offers(Way(signals=(), interrupt=lambda seconds: None))
    (found,) = stopping.stop(id, Options(grace=0.1), world.env)
    assert (found.outcome, found.exit_code) == (stopping.NOT_STOPPED, 1)
    offers(Way(signals=(), interrupt=rest))
    (found,) = stopping.stop(id, Options(grace=0.1), world.env)
    assert (found.outcome, found.exit_code) == (stopping.OPEN, 1)
    assert other in str(found.said)
    (found,) = stopping.stop(id, Options(grace=0.1), world.env)
    assert str(found.said).startswith("no turn is active")
    assert living(key) == [True]


def test_what_may_not_be_signalled(world: StopWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    id, key = world.standin("tool()")
    tool = world.tool_of(id)

    def forbidden(self: Handle, number: int) -> bool:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Handle, "send", forbidden)
    with pytest.raises(Refused, match=f"pid {key.pid} .*may not be signalled"):
        stopping.stop(id, Options(grace=0.1), world.env)
    assert living(key, tool) == [True, True]


def test_more_processes_than_can_be_held(world: StopWorld) -> None:
    """Nobody is signalled before everybody is held."""
    id, key = world.standin("for _ in range(40): tool()")
    limited = f"ulimit -n 30; exec {sys.executable} -m agentctl stop {id}"
    done = subprocess.run(
        ["sh", "-c", limited], env=world.env, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 1
    assert "ulimit -n" in done.stderr
    assert living(key) == [True]
    found = world.stop(id)
    assert sum(one["part"] == "tool" for one in found["ended"]) == 40


def test_a_tool_that_lives_on_is_said(world: StopWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    id, key = world.standin("tool()")
    tool = world.tool_of(id)
    real = Handle.send

    def spares_the_tool(self: Handle, number: signal.Signals) -> bool:
        if self.key == tool:
            raise PermissionError(1, "Operation not permitted")
        return real(self, number)

    monkeypatch.setattr(Handle, "send", spares_the_tool)
    monkeypatch.setattr(terminate, "TOOL_GRACE", 0.1)
    monkeypatch.setattr(terminate, "KILL_PATIENCE", 0.1)
    (found,) = stopping.stop(id, Options(), world.env)
    assert (found.outcome, found.exit_code) == (stopping.NOT_STOPPED, 1)
    assert [(one.pid, one.why) for one in found.living] == [
        (tool.pid, "it may not be signalled: Operation not permitted")
    ]
    assert living(key, tool) == [False, True]


# At the same time


def test_two_stops_at_once(world: StopWorld) -> None:
    id, key = world.standin(f"{STUBBORN}tool()")
    tool = world.tool_of(id)
    both = [world.popen("-m", "agentctl", "stop", id, "--grace", "0.5") for _ in range(2)]
    for one in both:
        out, err = one.communicate(timeout=2 * PATIENCE)
        assert one.returncode == 0, out + err
    assert living(key, tool) == [False, False]


def test_a_stop_while_another_waits(world: StopWorld) -> None:
    id, key = world.standin(f"{STUBBORN}signal.signal(signal.SIGTERM, lambda *_: note('told', 1))")
    patient = world.popen("-m", "agentctl", "stop", id, "--grace", LONG)
    world.noted(id, "told")
    found = world.stop(id, "--grace", "0.1")
    assert [one["how"] for one in found["ended"]] == ["SIGKILL"]
    out, err = patient.communicate(timeout=2 * PATIENCE)
    assert patient.returncode == 0, out + err
    assert living(key) == [False]


# Somebody dies in the middle

MOMENTS = ("prepare", "signal_agents", "end_tools", "end_wrappers")
# Kills somebody right before or after a step: this command, or the agent.
DRIVER = """
import os, signal, sys
from agentctl.stop import terminate as ending
from agentctl.cli import run
step, when, whom, *words = sys.argv[1:]
real = getattr(ending.Ending, step)

def kill():
    pid = os.getpid() if whom == "stop" else int(whom)
    os.kill(pid, signal.SIGKILL)
    if whom != "stop":
        while open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] != "Z":
            pass

def taken(self, *given, **named):
    if when == "before":
        kill()
    real(self, *given, **named)
    if when == "after":
        kill()

setattr(ending.Ending, step, taken)
sys.exit(run(["stop", *words]))
"""


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", MOMENTS)
def test_the_command_is_killed(world: StopWorld, step: str, when: str) -> None:
    """Whatever it had done is judged right, and the next stop does the rest."""
    id, key = world.standin("tool()")
    tool = world.tool_of(id)
    killed = world.popen("-c", DRIVER, step, when, "stop", id)
    killed.communicate(timeout=PATIENCE)
    assert killed.returncode == -signal.SIGKILL
    untouched = (step, when) in (("prepare", "before"), ("prepare", "after"), ("signal_agents", "before"))
    assert living(key) == [untouched]
    assert world.status(id) == ("running" if untouched else "stopped")
    found = world.stop(id)
    assert found["outcome"] == ("stopped" if untouched else "gone")
    assert living(key) == [False]
    if untouched:
        assert living(tool) == [False]


@pytest.mark.parametrize(("step", "when"), [("prepare", "before"), ("prepare", "after"), ("signal_agents", "before")])
def test_the_agent_dies_by_itself_meanwhile(world: StopWorld, step: str, when: str) -> None:
    id, key = world.standin()
    done = world.popen("-c", DRIVER, step, when, str(key.pid), id)
    out, err = done.communicate(timeout=PATIENCE)
    assert done.returncode == 0, out + err
    assert f"pid {key.pid} ended by itself" in out
