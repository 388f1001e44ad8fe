"""The runner, with real processes: what reaches the agent, what is written about it, and when."""

from __future__ import annotations

import errno
import json
import os
import pty
import select
import signal
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agentctl.errors import LaunchFailed, MissingProgram, UsageError
from agentctl.launch import runner, spawn
from agentctl.launches import records
from tests.support.children import PATIENCE, true_key, until
from tests.support.launch_world import RAN, WAIT, World, end_by_key, gone, wait_until_gone

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.linux

LIMIT_OF_AN_IDLE_RUNNER = 6 * 1024  # KiB of memory of its own
INTERNAL_SIGNALS = 1 << 31 | 1 << 32  # 32 and 33: the C library's own, which its posix_spawn leaves ignored

# What an agent sees of itself, as one line of JSON.
SELF = """
import json, os, signal, sys
fields = open("/proc/self/stat").read().rpartition(")")[2].split()
boot = open("/proc/sys/kernel/random/boot_id").read().strip()
record = os.path.join(sys.argv[1], os.environ["AGENTCTL_LAUNCH"], "launch.json")
print(json.dumps({
    "key": f"{boot}:{os.getpid()}:{fields[19]}",
    "record": json.load(open(record)),
    "modes": [os.stat(os.path.dirname(record)).st_mode, os.stat(record).st_mode, os.fstat(1).st_mode],
    "cwd": os.getcwd(),
    "env": dict(os.environ),
    "files": [os.readlink(f"/proc/self/fd/{n}") for n in (0, 1, 2)],
    "open": len(os.listdir("/proc/self/fd")) - 1,
    "leader": os.getsid(0) == os.getpid(),
    "input": len(sys.stdin.buffer.read()),
}))
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    try:
        yield world
    finally:
        world.close()


# What reaches the agent


def test_what_the_agent_sees_at_its_first_instruction(world: World) -> None:
    prompt = b"x" * 1_000_000
    started = world.start(
        argv=(sys.executable, "-I", "-c", SELF, str(world.state / "launches")),
        env={**world.env, "ODD": "é\n\udcff=", "LANG": "C.UTF-8"},
        input=prompt,
        prompt="do it",
        group="night",
    )
    (exit,) = world.exits(started.launch_id)
    assert (exit.exit_code, exit.signal, exit.direct) == (0, None, True), world.output(started.launch_id)
    seen = json.loads(world.output(started.launch_id))
    assert seen["record"]["child"] == seen["key"] == str(started.child) == str(exit.key)
    assert seen["record"]["runner"] == str(started.runner)
    assert seen["record"]["pid_namespace"] == os.readlink("/proc/self/ns/pid")
    assert (seen["record"]["prompt"], seen["record"]["group"]) == ("do it", "night")
    assert "x" * 100 not in json.dumps(seen["record"])
    assert seen["env"]["ODD"] == "é\n\udcff="
    assert seen["env"]["AGENTCTL_LAUNCH"] == started.launch_id
    assert seen["env"]["PWD"] == seen["cwd"] == str(world.cwd)
    assert seen["input"] == len(prompt)
    assert seen["files"][1] == seen["files"][2] == str(world.state / "launches" / started.launch_id / "output.log")
    assert seen["open"] == 3
    assert seen["leader"]
    assert [stat.S_IMODE(mode) for mode in seen["modes"]] == [0o700, 0o600, 0o600]


def test_signals_are_as_a_shell_would_give_them(world: World) -> None:
    started = world.start("grep -E 'Sig(Ign|Blk)' /proc/self/status")
    world.exits(started.launch_id)
    masks = [int(line.split()[1], 16) for line in world.output(started.launch_id).splitlines()]
    assert [mask & ~INTERNAL_SIGNALS for mask in masks] == [0, 0]


def test_without_input_it_reads_an_end_of_file(world: World) -> None:
    started = world.start("readlink /proc/self/fd/0; cat; echo over")
    world.exits(started.launch_id)
    assert world.output(started.launch_id) == "/dev/null\nover\n"


def test_output_keeps_its_order(world: World) -> None:
    started = world.start("i=0; while [ $i -lt 200 ]; do echo $i; echo $i >&2; i=$((i+1)); done")
    world.exits(started.launch_id)
    assert world.output(started.launch_id).split() == [str(n) for n in range(200) for _ in range(2)]


def test_a_pipe_of_the_launcher_is_not_kept_open(world: World) -> None:
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    started = world.start(WAIT)
    os.close(writer)
    assert select.select([reader], [], [], PATIENCE)[0], "the runner or the agent still has it"
    assert os.read(reader, 1) == b""
    os.close(reader)
    assert not gone(started.child)


def test_the_binary_is_found_as_a_shell_finds_it(world: World) -> None:
    tools = world.folder / "tools"
    tools.mkdir()
    (tools / "tool").write_text("#!/bin/sh\necho from PATH\n")
    (tools / "tool").chmod(0o700)
    (world.cwd / "other").write_text("#!/bin/sh\necho from the current folder\n")
    (world.cwd / "other").chmod(0o700)
    env = {**world.env, "PATH": f"{tools}:{world.env['PATH']}"}
    started = world.start(argv=("tool",), env=env)
    world.exits(started.launch_id)
    assert world.output(started.launch_id) == "from PATH\n"
    with pytest.raises(MissingProgram, match="other"):
        world.start(argv=("other",), env=env)
    with pytest.raises(UsageError, match="NUL"):
        world.start("echo \0")
    assert world.folders() == [started.launch_id]


# How it ended


@pytest.mark.parametrize(
    ("script", "code", "name"),
    [("exit 7", 7, None), ("kill -TERM $$", None, "SIGTERM"), ("kill -KILL $$", None, "SIGKILL")],
)
def test_exit_code_and_signal(world: World, script: str, code: int | None, name: str | None) -> None:
    started = world.start(script)
    (exit,) = world.exits(started.launch_id)
    assert (exit.key, exit.exit_code, exit.signal, exit.direct) == (started.child, code, name, True)
    assert exit.comm == "sh"
    assert exit.at is not None and exit.at >= world.launch(started.launch_id).created_at
    assert exit.cpu_seconds is not None and exit.max_rss
    wait_until_gone([started.runner, started.child])


def test_orphans_are_adopted_and_their_ends_noted(world: World) -> None:
    """A child of a child, in a session of its own, whose parents have all ended."""
    orphan = f"setsid sh -c '{WAIT}; exit 9' &"
    started = world.start(f'sh -c "{orphan} exit 3" & wait $!; exit 4')
    (first, *_) = world.exits(started.launch_id)
    assert (first.exit_code, first.direct) == (4, True)
    assert gone(started.child) and not gone(started.runner)
    world.end_agent()
    exits = world.exits(started.launch_id, 2)
    assert [(exit.exit_code, exit.direct) for exit in exits] == [(4, True), (9, False)]
    assert exits[1].key is not None and exits[1].key != started.child
    wait_until_gone([started.runner])


def test_the_runner_shrugs_off_what_a_person_or_a_terminal_sends(world: World) -> None:
    started = world.start(WAIT + "; exit 5")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGPIPE):
        assert true_key(started.runner.pid) == started.runner
        os.kill(started.runner.pid, number)
    world.end_agent()
    (exit,) = world.exits(started.launch_id)
    assert exit.exit_code == 5


def test_an_idle_runner_is_small(world: World) -> None:
    started = world.start(WAIT, prompt="p" * 100_000, input=b"i" * 1_000_000)
    until(lambda: len(os.listdir(f"/proc/{started.runner.pid}/fd")) == 3)  # it has let go of all that it was given
    until(lambda: "sigtimedwait" in Path(f"/proc/{started.runner.pid}/wchan").read_text())
    status = Path(f"/proc/{started.runner.pid}/status").read_text()
    (size,) = (int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon"))
    print(f"RssAnon {size} KiB")
    assert size <= LIMIT_OF_AN_IDLE_RUNNER
    assert os.readlink(f"/proc/{started.runner.pid}/cwd") == "/"


# The commands it runs


def asking(answer: str) -> tuple[str, ...]:
    return ("/bin/sh", "-c", f"echo asked; {answer}")


def test_it_asks_once_per_reap_after_the_agent_and_ends_when_told(world: World) -> None:
    (world.cwd / "still").touch()
    ask = ("/bin/sh", "-c", f"if [ -e {world.cwd}/still ]; then echo asked; exit 75; fi; echo asked")
    early = "sh -c 'sh -c \"exit 1\" &'"  # reaped by the runner while the agent lives: nothing to ask
    late = "setsid sh -c 'while [ ! -e late ]; do sleep 0.02; done' &"
    stays = f"setsid sh -c '{WAIT}' &"
    started = world.start(f"{early}; {late} {stays} while [ ! -e go ]; do sleep 0.02; done", ask=ask)
    (first,) = world.exits(started.launch_id)
    assert not first.direct and world.commands(started.launch_id) == []
    (world.cwd / "go").touch()
    until(lambda: len(world.commands(started.launch_id)) == 1)
    (world.cwd / "still").unlink()
    assert not gone(started.runner)
    (world.cwd / "late").touch()
    wait_until_gone([started.runner])
    assert world.commands(started.launch_id) == ["asked"] * 2
    assert len(world.exits(started.launch_id, 3)) == 3
    assert [key for key in world.living() if key != started.runner], "what still lived was harmed"


def test_an_ask_that_could_tell_is_not_repeated(world: World) -> None:
    started = world.start(f"setsid sh -c '{WAIT}' & exit 0", ask=asking(f"exit {runner.NOT_OVER}"))
    until(lambda: len(world.commands(started.launch_id)) == 1)
    assert not gone(started.runner)
    world.end_agent()
    wait_until_gone([started.runner])
    assert world.commands(started.launch_id) == ["asked"] * 2


@pytest.mark.parametrize("fails", ["exit 1", "kill -9 $$", "exec /no/such/agentctl"])
def test_an_ask_that_fails_is_repeated_after_a_while(world: World, fails: str) -> None:
    """As when agentctl is being replaced at the moment at which the agent ends."""
    started = world.start(
        "exit 0", ask=asking(f"[ -e {world.cwd}/upgraded ] || {{ touch {world.cwd}/upgraded; {fails}; }}")
    )
    wait_until_gone([started.runner])
    assert [line for line in world.commands(started.launch_id) if line == "asked"] == ["asked"] * 2


@pytest.mark.stress
@pytest.mark.parametrize("ask", [("/no/such/agentctl",), asking("exit 1")])
def test_an_ask_that_always_fails_is_given_up(world: World, ask: tuple[str, ...]) -> None:
    started = world.start("exit 0", ask=ask)
    until(lambda: len(world.commands(started.launch_id)) == len(runner.ASK_AGAIN))
    wait_until_gone([started.runner])
    assert len(world.commands(started.launch_id)) == 1 + len(runner.ASK_AGAIN)


def test_if_there_is_a_hook_to_run_it_asks_on_for_a_day(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """agentctl may be away for longer than an upgrade takes: the hook is a promise, as the time limit is."""
    pauses = runner.FOR_A_HOOK
    assert max(pauses) == 60.0 and 24 * 3600 <= sum(pauses) < 25 * 3600
    quick = tmp_path / "quick_runner.py"
    text = Path(runner.__file__).read_text()
    assert text.count("\nASK_AGAIN = (1.0, 2.0, 4.0, 8.0)") == text.count(", 16.0, 32.0, *[60.0] * 1439)") == 1
    text = text.replace("\nASK_AGAIN = (1.0, 2.0, 4.0, 8.0)", "\nASK_AGAIN = (0.01,) * 4")
    quick.write_text(text.replace(", 16.0, 32.0, *[60.0] * 1439)", ", *[0.01] * 20)"))
    monkeypatch.setattr(spawn, "RUNNER", str(quick))
    tries = Path(world.cwd) / "tries"
    tries.touch()
    ask = asking(f"[ $(wc -l < {tries}) -ge 9 ] || {{ echo x >> {tries}; exit 1; }}")
    started = world.start("exit 0", ask=ask, hooks={"on-complete": "true"})
    wait_until_gone([started.runner])
    assert world.commands(started.launch_id) == ["asked"] * 10
    tries.write_text("")
    started = world.start("exit 0", ask=ask)
    wait_until_gone([started.runner])
    assert world.commands(started.launch_id) == ["asked"] * 5  # there is nothing to run


def test_at_the_time_limit_it_runs_the_stop_command(world: World) -> None:
    stop = ("/bin/sh", "-c", f"echo stopping; touch {world.cwd}/end")
    started = world.start(WAIT + "; exit 6", time_limit=0.05, stop=stop)
    (exit,) = world.exits(started.launch_id)
    assert exit.exit_code == 6
    assert world.commands(started.launch_id) == ["stopping"]


def test_a_stop_that_fails_is_repeated_until_the_agent_has_ended(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The pauses grow up to a limit, and never end."""
    quick = tmp_path / "quick_runner.py"
    text = Path(runner.__file__).read_text()
    assert "STOP_AGAIN, STOP_PAUSE = 1.0, 60.0" in text
    quick.write_text(text.replace("STOP_AGAIN, STOP_PAUSE = 1.0, 60.0", "STOP_AGAIN, STOP_PAUSE = 0.01, 0.02"))
    monkeypatch.setattr(spawn, "RUNNER", str(quick))
    tries = f"echo tried; [ $(wc -l < {world.cwd}/tries) -lt 9 ] && echo x >> {world.cwd}/tries && exit 1; "
    (Path(world.cwd) / "tries").touch()
    stop = ("/bin/sh", "-c", f"{tries} touch {world.cwd}/end")
    started = world.start(WAIT + "; exit 6", time_limit=0.05, stop=stop)
    (exit,) = world.exits(started.launch_id)
    assert exit.exit_code == 6
    assert world.commands(started.launch_id) == ["tried"] * 10


def test_the_commands_get_an_environment_of_their_own(world: World) -> None:
    env = {**world.env, "WHOSE": "ours"}
    command = ("/bin/sh", "-c", "echo $WHOSE $AGENTCTL_LAUNCH; cat; pwd")
    started = world.start(env={**world.env, "WHOSE": "the agent's"}, ask=command, commands_env=env)
    wait_until_gone([started.runner])
    assert world.commands(started.launch_id) == ["ours", "/"]


# What cannot be started


def refused(world: World, **fields: object) -> LaunchFailed:
    with pytest.raises(LaunchFailed) as caught:
        world.start(RAN, **fields)
    assert not world.ran()
    return caught.value


@pytest.mark.parametrize(
    ("fields", "step", "code"),
    [
        ({"argv": ("/no/such/agent",)}, "exec", errno.ENOENT),
        ({"argv": ("/etc/passwd",)}, "exec", errno.EACCES),
        ({"cwd": "/no/such/folder"}, "cwd", errno.ENOENT),
        ({"cwd": "/etc/passwd"}, "cwd", errno.ENOTDIR),
    ],
)
def test_what_cannot_be_executed_is_told_and_noted(
    world: World, fields: dict[str, object], step: str, code: int
) -> None:
    failed = refused(world, **fields)
    assert (failed.step, failed.errno, failed.perhaps) == (step, code, False)
    assert os.strerror(code) in str(failed)
    launch = world.launch(failed.launch_id)
    (exit,) = world.exits(failed.launch_id)
    assert exit.key == launch.child and exit.direct
    assert exit.error == str(failed)
    wait_until_gone([launch.runner, launch.child])


# Many


def test_fifty_at_once(world: World) -> None:
    numbers = range(50)
    with ThreadPoolExecutor(len(numbers)) as pool:
        started = list(pool.map(lambda n: world.start(f"cat; exit {n}", input=f"prompt {n}".encode()), numbers))
    assert len({one.launch_id for one in started}) == 50
    for number, one in zip(numbers, started, strict=True):
        (exit,) = world.exits(one.launch_id)
        assert (exit.exit_code, exit.key) == (number, one.child)
        assert world.output(one.launch_id) == f"prompt {number}"
    assert {launch.id for launch in world.launches()} == {one.launch_id for one in started}
    wait_until_gone([one.runner for one in started])


# In a terminal


def test_in_a_pane_the_agent_has_the_terminal_and_hears_when_it_goes(world: World) -> None:
    on_the_terminal = "test -t 0 && test -t 1 && echo on $(tty) $TERM $TMUX_PANE."
    script = f"trap 'echo hung up > {world.cwd}/heard; exit 8' HUP; {on_the_terminal}; {WAIT}"
    env = {**world.env, "TERM": "callers", "TMUX": "callers", "TMUX_PANE": "callers"}
    with spawn.Pane(world.reserve(), world.order(script, env=env)) as pane:
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(pane.argv[0], pane.argv, {"TERM": "panes", "TMUX_PANE": "%7", "ELSE": "no"})
        started = pane.wait()
        assert spawn.ORDER not in os.listdir(started.folder), "the order holds secrets"
    assert os.listdir(started.folder) == ["launch.json"]
    assert started.runner.pid == pid
    said = b""
    while b"\n" not in said:
        assert select.select([terminal], [], [], PATIENCE)[0], "it says nothing"
        said += os.read(terminal, 1024)
    assert said.decode().startswith("on /dev/pts/")
    assert said.decode().rstrip().endswith(" panes %7.")
    launch = world.launch(started.launch_id)
    assert not launch.headless
    assert os.getsid(started.child.pid) == pid
    os.close(terminal)
    (exit,) = world.exits(started.launch_id)
    assert exit.exit_code == 8
    assert (world.cwd / "heard").exists()
    assert os.waitpid(pid, 0) == (pid, 0)


def test_a_pane_that_never_opens_leaves_nothing(world: World) -> None:
    with pytest.raises(LaunchFailed) as caught, spawn.Pane(world.reserve(), world.order(RAN)) as pane:
        pane.wait(0)
    assert caught.value.perhaps
    assert world.folders() == []


def test_a_pane_tells_why_it_could_not_start(world: World) -> None:
    order = world.order(argv=("/no/such/agent",))
    with spawn.Pane(world.reserve(), order) as pane:
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(pane.argv[0], pane.argv, {})
        with pytest.raises(LaunchFailed, match="no/such/agent"):
            pane.wait()
    assert os.waitpid(pid, 0)[0] == pid
    os.close(terminal)


def test_nobody_is_left_when_a_runner_is_killed(world: World) -> None:
    """The agent goes on, is known by its record, and its end is not."""
    started = world.start(WAIT)
    end_by_key(started.runner)
    wait_until_gone([started.runner])
    assert not gone(started.child)
    assert world.launch(started.launch_id).child == started.child
    world.end_agent()
    wait_until_gone([started.child])
    assert records.exits(started.launch_id, world.env) == []
