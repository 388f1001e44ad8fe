"""Hooks: what they are told, what is kept of them, how they are ended, and that on-complete runs at most once."""

from __future__ import annotations

import json
import os
import resource
import signal
import stat
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from agentctl.errors import AgentctlError
from agentctl.launches import hooks
from agentctl.launches.hooks import Facts, HookResult, Ran
from tests.support.children import PATIENCE, until
from tests.support.launch_world import SOURCES

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.linux

FACTS = Facts(session_id="s-1", cwd="/w", agent="amber", exit_code=0, launch="l1")
ENV = {"PATH": os.defpath, "MINE": "kept", "AGENTCTL_STATUS": "of an outer launch"}


def run(tmp_path: Path, command: str, **more: Any) -> HookResult:
    given: dict[str, Any] = {"cwd": str(tmp_path), "env": ENV, "log_path": str(tmp_path / "log"), **more}
    return hooks.run("on-create", command, FACTS, **given)


def log(tmp_path: Path) -> list[str]:
    return (tmp_path / "log").read_text().splitlines()


def test_what_it_is_told(tmp_path: Path) -> None:
    result = run(tmp_path, "env > told; pwd >> told; test ! -t 0 && wc -c; cut -d ' ' -f 1,6 /proc/$$/stat")
    told = (tmp_path / "told").read_text().splitlines()
    assert sorted(line for line in told if line.startswith("AGENTCTL_")) == [
        "AGENTCTL_ADAPTER=amber",
        "AGENTCTL_AGENT=amber",
        "AGENTCTL_CWD=/w",
        "AGENTCTL_EXIT_CODE=0",
        "AGENTCTL_LAUNCH=l1",
        "AGENTCTL_SESSION_ID=s-1",
    ], "what is not known is not set, also not to what an outer hook was told"
    assert "MINE=kept" in told
    assert told[-1] == str(tmp_path)
    assert (result.exit_code, result.timed_out, result.last_lines[0]) == (0, False, "0"), "an empty stdin"
    pid, session = result.last_lines[1].split()
    assert session == pid, "it leads its session"


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("true", 0, ()),
        ("echo out; echo err >&2; exit 3", 3, ("out", "err")),
        ("kill -9 $$", 137, ()),
        ("kill -TERM $$", 143, ()),
        ("for i in 1 2 3 4 5 6 7; do echo $i; done", 0, ("3", "4", "5", "6", "7")),
        ("printf 'no newline'", 0, ("no newline",)),
        (r"printf 'a\377b'", 0, ("a\ufffdb",)),
    ],
)
def test_how_it_ends(tmp_path: Path, command: str, code: int, said: tuple[str, ...]) -> None:
    result = run(tmp_path, command)
    assert (result.exit_code, result.timed_out, result.last_lines) == (code, False, said)


@pytest.mark.parametrize("command", ["no-such-command", "syntax ( error", "exec /nowhere"])
def test_a_command_that_is_none(tmp_path: Path, command: str) -> None:
    result = run(tmp_path, command)
    assert result.exit_code not in (0, None)
    assert result.last_lines


@pytest.mark.parametrize(("command", "cwd"), [("true", "file"), ("a\0b", "."), ("x" * 200_000, ".")])
def test_what_cannot_be_run_at_all(tmp_path: Path, command: str, cwd: str) -> None:
    (tmp_path / "file").touch()
    result = run(tmp_path, command, cwd=str(tmp_path / cwd))
    assert (result.exit_code, result.timed_out) == (None, False)
    assert result.last_lines[0].startswith("on-create could not be run: ")


def test_every_run_has_its_header_in_the_log(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("torn")
    run(tmp_path, "printf first")
    result = run(tmp_path, "echo second")
    lines = log(tmp_path)
    assert [line for line in lines if not line.startswith("---")] == ["torn", "first", "second"]
    assert [line[:17] for line in lines if line.startswith("---")] == ["--- on-create at "] * 2
    assert result.last_lines == ("second",), "of this run alone"


def test_the_log_is_private(tmp_path: Path) -> None:
    run(tmp_path, "true")
    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o600


@pytest.mark.parametrize("kind", ["folder missing", "link", "FIFO", "directory"])
def test_it_runs_also_without_a_log(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "log"
    if kind == "folder missing":
        path = tmp_path / "gone" / "log"
    elif kind == "link":
        path.symlink_to("elsewhere")
    elif kind == "FIFO":
        os.mkfifo(path)
    else:
        path.mkdir()
    result = run(tmp_path, "echo words; touch ran; exit 4", log_path=str(path))
    assert (result.exit_code, result.last_lines) == (4, ())
    assert (tmp_path / "ran").exists()
    assert not (tmp_path / "elsewhere").exists()


def open_pipe(tmp_path: Path) -> int:
    """Whoever writes to it is alive: at its end of file, all of them are gone."""
    os.mkfifo(tmp_path / "alive")
    return os.open(tmp_path / "alive", os.O_RDONLY | os.O_NONBLOCK)


def at_end(fd: int) -> bool:
    try:
        return os.read(fd, 64) == b""
    except BlockingIOError:
        return False


OWN_GROUP = "import os, time; os.setpgid(0, 0); time.sleep(300)"  # as a shell with job control does
STUBBORN = "trap '' TERM INT HUP; while :; do sleep 0.05; done"


@pytest.mark.parametrize(
    "command",
    [
        "sleep 300",
        "sleep 300 & sleep 300",
        STUBBORN,
        f"({STUBBORN}) & exec sleep 300",
        f"{sys.executable} -c '{OWN_GROUP}' & sleep 300",
        "kill -STOP $$",
    ],
)
def test_when_the_time_is_up_its_session_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr(hooks, "GRACE", 0.3)
    alive = open_pipe(tmp_path)
    result = run(tmp_path, f"exec 3> alive; {command}", seconds=1.0)
    assert (result.exit_code, result.timed_out) == (None, True)
    assert result.last_lines[-1] == "on-create took longer than 1 s, and was ended"
    until(lambda: at_end(alive))
    os.close(alive)


def test_what_it_left_in_the_background_goes_on(tmp_path: Path) -> None:
    alive = open_pipe(tmp_path)
    result = run(tmp_path, "exec 3> alive; (while [ ! -e end ]; do sleep 0.02; done) & echo $!")
    assert result.exit_code == 0
    assert not at_end(alive)
    (tmp_path / "end").touch()
    until(lambda: at_end(alive))
    os.close(alive)


def test_who_is_in_another_session_is_not_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "GRACE", 0.3)
    other = subprocess.Popen(["sleep", "300"], start_new_session=True)
    try:
        assert run(tmp_path, "sleep 300", seconds=0.3).timed_out
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_an_interrupt_ends_it(tmp_path: Path) -> None:
    """A hook has no terminal: who interrupts the launch interrupts its hook through us."""
    alive = open_pipe(tmp_path)
    code = (
        "import sys; from agentctl.kernel import commands; from agentctl.launches import hooks\n"
        "supervise = commands.supervise\n"
        "def announced(*args):\n"
        "    print('waiting', flush=True)\n"
        "    return supervise(*args)\n"
        "commands.supervise = announced\n"
        "hooks.run('x', sys.argv[1], hooks.Facts(), 'log', '.')"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, "exec 3> alive; touch begun; sleep 300"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": SOURCES},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == b"waiting\n"
        until((tmp_path / "begun").exists)
        child.send_signal(signal.SIGINT)
        child.wait(PATIENCE)
        until(lambda: at_end(alive))
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
        os.close(alive)


# At most once

ONCE = """
import sys
from agentctl.launches import hooks
print("ready", flush=True)
sys.stdin.readline()
if hooks.mark_completed(sys.argv[1]):
    result = hooks.run("on-complete", "echo $$ >> ran", hooks.Facts(), sys.argv[1] + "/log", sys.argv[1])
    hooks.note(sys.argv[1], "on-complete", result)
    print("won")
"""


def test_of_twenty_one_runs_it(tmp_path: Path) -> None:
    children = [
        subprocess.Popen(
            [sys.executable, "-c", ONCE, str(tmp_path)],
            env={**os.environ, "PYTHONPATH": SOURCES},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(20)
    ]
    try:
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
        said = [child.communicate("go\n", PATIENCE)[0] for child in children]
    finally:
        for child in children:
            child.kill()
            child.wait()
    assert said.count("won\n") == 1
    assert len((tmp_path / "ran").read_text().splitlines()) == 1
    assert [(one.name, one.exit_code) for one in hooks.results(str(tmp_path))] == [("on-complete", 0)]


def test_killed_after_the_mark_it_is_not_run_again(tmp_path: Path) -> None:
    folder = str(tmp_path)
    assert not hooks.completed(folder)
    child = subprocess.run(
        [
            sys.executable,
            "-c",
            ONCE.replace("    result =", "    import os; os.kill(os.getpid(), 9)\n    result ="),
            folder,
        ],
        env={**os.environ, "PYTHONPATH": SOURCES},
        input="go\n",
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert child.returncode == -signal.SIGKILL
    assert hooks.completed(folder)
    assert not hooks.mark_completed(folder)
    assert hooks.results(folder) == [], "which shows that it was lost"


def test_the_mark_is_also_a_link_that_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / hooks.COMPLETED).symlink_to("nowhere")
    assert hooks.completed(str(tmp_path))
    assert not hooks.mark_completed(str(tmp_path))


def test_where_no_mark_can_be_made_nobody_runs_it(tmp_path: Path) -> None:
    with pytest.raises(AgentctlError, match="is not run: look at what is there"):
        hooks.mark_completed(str(tmp_path / "gone"))


def test_what_became_of_it(tmp_path: Path) -> None:
    folder = str(tmp_path)
    assert hooks.results(folder) == []
    assert hooks.note(folder, "on-create", HookResult(3, False, 0.1, ("no luck",)))
    with open(tmp_path / hooks.RESULTS, "a") as file:
        file.write('{"name": "on-com')  # the disk was full
    assert hooks.note(folder, "on-complete", HookResult(None, True, 300.0))
    first, second = hooks.results(folder)
    assert (first.at, second.at) != (None, None)
    assert first._replace(at=None) == Ran("on-create", 3, False, None, ("no luck",))
    assert second._replace(at=None) == Ran("on-complete", None, True, None)
    assert stat.S_IMODE((tmp_path / hooks.RESULTS).stat().st_mode) == 0o600


def test_odd_lines_are_shown_as_far_as_they_are_known(tmp_path: Path) -> None:
    odd: list[object] = [{}, {"exit_code": True, "at": "soon", "last_lines": [1, "x"]}, [], {"exit_code": "0"}]
    (tmp_path / hooks.RESULTS).write_text("\n".join(json.dumps(line) for line in odd))
    assert hooks.results(str(tmp_path)) == [
        Ran("?", None, False, None),
        Ran("?", None, False, None, ("x",)),
        Ran("?", None, False, None),
    ]


def test_a_full_disk_loses_the_note_and_nothing_else(tmp_path: Path) -> None:
    """In a process whose files cannot grow: what does not fit is said, and raises nothing."""
    code = (
        "import sys; from agentctl.launches import hooks\n"
        "result = hooks.run('x', 'touch ran; exit 5', hooks.Facts(), 'log', '.')\n"
        "print(result.exit_code, hooks.note('.', 'x', result))"
    )

    def no_room() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    done = subprocess.run(
        [sys.executable, "-B", "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": SOURCES},
        stdout=subprocess.PIPE,
        text=True,
        timeout=PATIENCE,
        check=True,
        preexec_fn=no_room,
    )
    assert done.stdout == "5 False\n"
    assert (tmp_path / "ran").exists()
    assert hooks.results(str(tmp_path)) == []
