"""One daemon per state folder: started once, proved before it is signalled, and replaced if it is stale."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from agentctl import __version__
from agentctl.errors import Refused
from agentctl.kernel import handles
from agentctl.model import ProcessKey
from agentctl.server import place
from agentctl.server.place import Identity
from tests.support.children import end, true_key
from tests.support.daemon_home import DaemonHome, daemon_home
from tests.support.demo_home import TIMEOUT, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.linux


@pytest.fixture
def home() -> Iterator[DaemonHome]:
    with daemon_home() as found:
        yield found


def test_a_life(home: DaemonHome) -> None:
    assert home.ctl("daemon", "status", code=3).stdout == "not running; `agentctl daemon start` starts it\n"
    assert home.ctl("daemon", "stop").stderr == "agentctl: the daemon was not running\n"
    pid = home.start_daemon()
    identity = place.read_identity(home.env)
    assert identity is not None
    assert identity.key == true_key(pid)
    assert identity.version == __version__
    assert stat.S_IMODE(os.stat(identity.socket).st_mode) == 0o600
    found = home.status()
    assert (found["state"], found["pid"], found["other_version"]) == ("running", pid, False)
    assert f"running: pid {pid}" in home.ctl("daemon", "status").stdout
    assert f"ran already: pid {pid}" in home.ctl("daemon", "start").stderr
    assert f"pid {pid} runs already" in home.ctl("daemon", "run", code=4).stderr
    assert f"runs: pid {pid}" in home.ctl("daemon", "logs").stdout
    assert f"has ended: pid {pid}, by SIGTERM" in home.ctl("daemon", "stop").stderr
    assert handles.has_ended(identity.key)
    assert home.status()["state"] == "not running"
    assert {*os.listdir(home.folder_of_daemon)} == {"daemon.log"}
    assert home.ctl("daemon", "logs", "-n", "1").stdout.endswith(" ended\n")


def test_restart_replaces_it(home: DaemonHome) -> None:
    first = home.start_daemon()
    home.ctl("daemon", "restart")
    second = home.health()["pid"]
    assert first != second
    home.ctl("daemon", "stop")
    home.ctl("daemon", "restart")
    assert home.health()["pid"] != second


@pytest.mark.parametrize("what", ["start", "run"])
def test_of_twenty_that_start_at_once_one_stays(home: DaemonHome, what: str) -> None:
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "agentctl", "daemon", what, *(["--to-log"] if what == "run" else [])],
            env=home.env,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(20)
    ]
    if what == "run":
        over = lambda: sum(child.poll() is not None for child in started) == 19  # noqa: E731
        wait_until(over, "19 to give up")
        assert {child.poll() for child in started} == {None, 4}
    else:
        assert [child.wait(TIMEOUT) for child in started] == [0] * 20
    wait_until(lambda: home.status()["state"] == "running", "the one that stays")
    assert len(daemons_of(home)) == 1
    home.ctl("daemon", "stop")
    for child in started:
        child.wait(TIMEOUT)
        assert child.stderr is not None
        child.stderr.close()


def daemons_of(home: DaemonHome) -> list[int]:
    """The processes that run `daemon run` for this home."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
            with open(f"/proc/{name}/environ", "rb") as file:
                env = file.read()
        except OSError:
            continue
        if b"daemon" in words and b"run" in words and f"AGENTCTL_HOME={home.env['AGENTCTL_HOME']}".encode() in env:
            found.append(int(name))
    return found


def test_what_a_killed_daemon_left_is_replaced(home: DaemonHome) -> None:
    first = home.start_daemon()
    home.signal_daemon(signal.SIGKILL)
    assert {"daemon.json", "socket", "lock"} <= {*os.listdir(home.folder_of_daemon)}
    found = home.status()
    assert (found["state"], found["pid"], found["version"]) == ("not running", None, None)
    assert home.ctl("daemon", "stop").stderr == "agentctl: the daemon was not running\n"
    assert home.start_daemon() != first


def forged(home: DaemonHome, key: ProcessKey, version: str = __version__, namespace: str | None = None) -> None:
    place.make_folder(home.env)
    place.write_identity(home.env, Identity(key, version, str(home.folder_of_daemon / "socket"), None))
    if namespace is not None:
        path = home.folder_of_daemon / "daemon.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "pid_namespace": namespace}))


def test_a_stranger_with_the_pid_is_never_signalled(home: DaemonHome) -> None:
    """A pid is no identity: another process has the one that daemon.json names."""
    stranger = subprocess.Popen(["/bin/sleep", "300"])
    try:
        key = true_key(stranger.pid)
        for other in (
            ProcessKey(key.boot, key.pid, key.start - 1),
            ProcessKey("00000000-0000-0000-0000-000000000000", key.pid, key.start),
        ):
            forged(home, other)
            assert home.status()["state"] == "not running"
            assert home.ctl("daemon", "stop").stderr == "agentctl: the daemon was not running\n"
            home.start_daemon()
            home.ctl("daemon", "restart")
            home.ctl("daemon", "stop")
            assert stranger.poll() is None
    finally:
        end(stranger)


def test_one_of_another_pid_namespace_is_not_signalled_from_here(home: DaemonHome) -> None:
    stranger = subprocess.Popen(["/bin/sleep", "300"])
    try:
        forged(home, true_key(stranger.pid), namespace="pid:[1]")
        done = home.ctl("daemon", "stop", code=4)
        assert "in another PID namespace (pid:[1])" in done.stderr
        assert home.status()["state"] == "unknown"
        assert stranger.poll() is None
    finally:
        end(stranger)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"key": 5}', '{"key": "b:1:2"}', "null", '{"key": "x", "socket": "y"}']
)
def test_an_identity_file_that_is_nonsense_counts_as_none(home: DaemonHome, text: str) -> None:
    place.make_folder(home.env)
    (home.folder_of_daemon / "daemon.json").write_text(text)
    assert place.read_identity(home.env) is None


def test_a_daemon_of_another_version_is_named_and_replaced(home: DaemonHome) -> None:
    pid = home.start_daemon()
    path = home.folder_of_daemon / "daemon.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": "0.0.1"}))
    words = f"a daemon of another version (0.0.1, pid {pid})"
    done = home.ctl("daemon", "start", code=4)
    assert words in done.stderr and "agentctl daemon restart" in done.stderr
    assert "its version is 0.0.1" in home.ctl("daemon", "status").stdout
    assert home.status()["other_version"] is True
    assert words in home.ctl("events", "--since", "0").stderr  # it is named, and answers
    home.ctl("daemon", "restart")
    assert home.status()["other_version"] is False


def test_one_whose_files_were_deleted_ends_itself(home: DaemonHome) -> None:
    """Else a second one would start beside it."""
    home.start_daemon()
    key = home.key()
    assert key is not None
    shutil.rmtree(home.folder_of_daemon)
    wait_until(lambda: handles.has_ended(key), "its end")
    home.start_daemon()


def test_one_without_an_identity_file_is_found_by_its_lock(home: DaemonHome) -> None:
    pid = home.start_daemon()
    (home.folder_of_daemon / "daemon.json").unlink()
    assert home.status()["pid"] == pid
    assert f"has ended: pid {pid}" in home.ctl("daemon", "stop").stderr


def test_one_that_is_suspended_does_not_answer_and_can_be_ended(
    home: DaemonHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agentctl.server import control

    pid = home.start_daemon()
    home.signal_daemon(signal.SIGSTOP)
    assert home.status()["state"] == "not answering"
    assert "does not answer" in home.ctl("events", "--since", "0", code=1).stderr
    monkeypatch.setattr(control, "STOP_PATIENCE", 0.2)
    ended = control.stop(home.env)
    assert ended.key is not None
    assert (ended.key.pid, ended.how) == (pid, "SIGKILL")


def test_a_file_in_the_place_of_the_socket_is_refused(home: DaemonHome) -> None:
    place.make_folder(home.env)
    (home.folder_of_daemon / "socket").write_text("mine")
    done = home.ctl("daemon", "start", code=1)
    assert "this is no socket" in done.stderr
    assert (home.folder_of_daemon / "socket").read_text() == "mine"


def test_a_path_that_is_too_long_for_a_socket(home: DaemonHome, tmp_path: Path) -> None:
    home.env["AGENTCTL_HOME"] = str(tmp_path / ("x" * 100))
    done = home.ctl("daemon", "start", code=4)
    assert "too long for a socket" in done.stderr and "AGENTCTL_HOME" in done.stderr
    runtime = home.root.parent.parent / "run"
    runtime.mkdir(mode=0o700)
    home.env["XDG_RUNTIME_DIR"] = str(runtime)
    home.start_daemon()
    assert os.path.dirname(home.socket) == str(runtime)
    home.ctl("daemon", "stop")
    assert os.listdir(runtime) == []
    runtime.chmod(0o777)
    with pytest.raises(Refused):
        place.socket_path(home.env)


def test_the_daemon_is_nobodys_tool(home: DaemonHome) -> None:
    """An agent that starts it does not hand its marker on: a stop of that agent would end the daemon, too."""
    home.ctl("daemon", "start", AGENTCTL_LAUNCH="abcdefghij")
    with open(f"/proc/{home.health()['pid']}/environ", "rb") as file:
        assert b"AGENTCTL_LAUNCH" not in file.read()


def test_autostart_only_if_the_configuration_allows_it(home: DaemonHome) -> None:
    assert "daemon start" in home.ctl("events", "--since", "0", code=3).stderr
    config = home.root.parent.parent / "config" / "agentctl" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("[daemon]\nautostart = true\n")
    assert "starting it" in home.ctl("events", "--since", "0").stderr
    assert home.status()["state"] == "running"
    config.write_text('[daemon]\nautostart = "yes"\n')
    assert "daemon.autostart must be true or false" in home.ctl("list").stderr


def test_words_that_do_not_belong_together(home: DaemonHome) -> None:
    assert "--json is for" in home.ctl("daemon", "start", "--json", code=2).stderr
    assert "--to-log is for" in home.ctl("daemon", "status", "--to-log", code=2).stderr
    assert "choose from" in home.ctl("daemon", "begin", code=2).stderr
