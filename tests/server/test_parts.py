"""Parts of the daemon by themselves: listeners that are too slow, its own log, units, peers, the missing extra."""

from __future__ import annotations

import asyncio
import os
import plistlib
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agentctl.errors import AgentctlError, NotFound, Refused
from agentctl.live.difference import TYPES
from agentctl.live.entries import Filter
from agentctl.server import hub as hubs
from agentctl.server import peer, units
from agentctl.server.hub import Hub, frame_of
from agentctl.server.own_log import OwnLog, last_lines
from tests.support.daemon_home import DaemonHome, daemon_home
from tests.support.demo_home import SOURCES

if TYPE_CHECKING:
    from collections.abc import Iterator

EVERYTHING = Filter(frozenset(TYPES))


@pytest.fixture
def home() -> Iterator[DaemonHome]:
    with daemon_home() as found:
        yield found


# Listeners


def entry(seq: int | None) -> dict[str, Any]:
    return {"schema": 1, "log": "l", "seq": seq, "late": False, "type": "session.done", "agent": "a", "to": "done"}


def test_a_listener_gets_what_is_told_after_it_joined_and_only_that() -> None:
    async def run() -> list[int]:
        hub = Hub()
        hub.serve_in(asyncio.get_running_loop())
        hub.told([entry(1)])  # under way to those who listen already
        listener = hub.join(EVERYTHING, 1)
        hub.told([entry(2), entry(3)])
        await asyncio.sleep(0)
        return [told.entry["seq"] for told in await listener.some(1.0)]

    assert asyncio.run(run()) == [2, 3]


def test_one_that_is_too_slow_is_cut_off_and_nothing_is_kept_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hubs, "MOST_KEPT", 3)

    async def run() -> None:
        hub = Hub()
        hub.serve_in(asyncio.get_running_loop())
        slow, quick = hub.join(EVERYTHING, 0), hub.join(EVERYTHING, 0)
        for seq in range(1, 10):
            hub.told([entry(seq)])
            await asyncio.sleep(0)
            assert [told.entry["seq"] for told in await quick.some(1.0)] == [seq]
            assert len(slow._waiting) <= 3
        assert slow.cut and not quick.cut
        assert await slow.some(1.0) == []
        hub.leave(slow)
        assert hub.count == 1

    asyncio.run(run())


def test_an_event_without_a_number_has_no_id() -> None:
    assert frame_of(entry(7)).startswith(b"id: l.7\nevent: session.done\ndata: {")
    assert frame_of(entry(None)).startswith(b"event: session.done\ndata: {")
    assert frame_of(entry(7)).endswith(b"}\n\n")


# Its own log


def test_its_own_log_is_bounded(tmp_path: Path) -> None:
    path = str(tmp_path / "daemon.log")
    log = OwnLog(path, largest=1000)
    for number in range(200):
        log(f"line {number}")
    log("API_KEY=sk-" + "a1B2" * 6 + "\nsecond line")
    assert sorted(os.listdir(tmp_path)) == ["daemon.log", "daemon.log.1", "daemon.log.2"]
    assert all((tmp_path / name).stat().st_size < 1200 for name in os.listdir(tmp_path))
    assert (tmp_path / "daemon.log").stat().st_mode & 0o777 == 0o600
    lines = last_lines(path, 4)
    assert [line.split(" ", 1)[1] for line in lines[:2]] == ["line 198", "line 199"]
    assert "[redacted]" in lines[2] and lines[3] == "  second line"
    assert last_lines(path, 0) == []
    assert last_lines(str(tmp_path / "none"), 5) == []


# Units


def unit(home: Path, platform: str, **env: str) -> bytes:
    return units.text_of({"HOME": str(home), **env}, ("/opt/py thon/bin/python", "-m", "agentctl"), platform)


def test_a_systemd_unit(tmp_path: Path) -> None:
    text = unit(
        tmp_path, "linux", PATH="/opt/agents/bin:/bin", AGENTCTL_HOME='/a "b" 100% $x', SECRET_TOKEN="x"
    ).decode()
    assert 'ExecStart="/opt/py thon/bin/python" "-m" "agentctl" "daemon" "run"' in text
    assert 'Environment="AGENTCTL_HOME=/a \\"b\\" 100%% $x"' in text
    assert 'Environment="PATH=/opt/agents/bin:/bin"' in text  # else no agent would be found there
    assert "SECRET" not in text
    assert "KillMode=process" in text  # agents that were launched through the daemon go on
    with pytest.raises(Refused, match="control character"):
        unit(tmp_path, "linux", AGENTCTL_HOME="/a\nExecStartPre=/bin/evil")
    if program := shutil.which("systemd-analyze"):
        path = tmp_path / "agentctl.service"
        path.write_bytes(units.text_of({"HOME": str(tmp_path)}, (sys.executable, "-m", "agentctl"), "linux"))
        done = subprocess.run([program, "verify", "--user", str(path)], capture_output=True, text=True, check=False)
        assert "agentctl.service" not in done.stderr


def test_a_launch_agent(tmp_path: Path) -> None:
    found = plistlib.loads(unit(tmp_path, "darwin", AGENTCTL_HOME="/a<b"))
    assert found["ProgramArguments"][-2:] == ["daemon", "run"]
    assert found["EnvironmentVariables"] == {"AGENTCTL_HOME": "/a<b"}
    assert found["AbandonProcessGroup"] is True
    assert units.is_ours(unit(tmp_path, "darwin"))
    assert units.unit_of({"HOME": "/h"}, "darwin").path == "/h/Library/LaunchAgents/dev.agentctl.daemon.plist"
    with pytest.raises(AgentctlError, match="plan9"):
        units.unit_of({"HOME": "/h"}, "plan9")


@pytest.mark.linux
def test_install_and_uninstall_touch_only_what_is_ours(home: DaemonHome) -> None:
    path = Path(units.unit_of(home.env).path)
    done = home.ctl("daemon", "install")
    assert "systemctl --user enable --now agentctl.service" in done.stdout
    assert shlex.quote(sys.executable).strip("'") in path.read_text()
    enabled = path.parent / "default.target.wants" / path.name
    enabled.parent.mkdir()
    enabled.symlink_to(path)  # as systemctl enable does
    home.ctl("daemon", "install")
    assert "systemctl --user stop agentctl.service" in home.ctl("daemon", "uninstall").stdout
    assert not path.exists() and not enabled.is_symlink()
    assert "nothing was installed" in home.ctl("daemon", "uninstall", code=3).stderr
    path.write_text("[Service]\nExecStart=/bin/mine\n")
    for what in ("install", "uninstall"):
        assert "agentctl did not write this file" in home.ctl("daemon", what, code=4).stderr
    assert "/bin/mine" in path.read_text()
    path.unlink()
    path.symlink_to("/etc/passwd")
    with pytest.raises(Refused):
        units.uninstall(home.env)
    path.unlink()
    with pytest.raises(NotFound):
        units.uninstall(home.env)


# Peers


@pytest.mark.linux
def test_who_is_at_the_other_end() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert peer.credentials(ours) == (os.getpid(), os.geteuid())
    assert peer.marker_of(str(os.getpid()), "NO_SUCH_NAME") == {}
    assert peer.marker_of("nonsense", "PATH") == {}


AS_ANOTHER = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
with socket.socket(socket.AF_UNIX) as one:
    one.connect(sys.argv[1])
    try:
        one.sendall(b"GET /v1/health HTTP/1.1\\r\\nhost: x\\r\\n\\r\\n")
        print(one.recv(100))
    except OSError:
        print(b"")
"""


@pytest.mark.linux
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_is_not_answered_even_if_the_socket_is_open_to_all(home: DaemonHome) -> None:
    home.start_daemon()
    for folder in (*Path(home.socket).parents,):
        if str(folder).startswith(home.env["HOME"]):
            folder.chmod(0o755)
    os.chmod(home.socket, 0o666)
    done = subprocess.run(
        [sys.executable, "-S", "-c", AS_ANOTHER, home.socket], capture_output=True, text=True, check=False
    )
    assert (done.stdout.strip(), done.stderr) == ("b''", "")
    assert "a connection of another user was refused: uid 65534" in home.ctl("daemon", "logs").stdout
    assert home.health()["version"]


# Without the extra

BLOCKED = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("starlette", "uvicorn", "anyio", "h11", "click"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Blocked())
"""


@pytest.mark.linux
def test_the_core_works_without_the_extra_and_says_how_to_get_it(home: DaemonHome, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(BLOCKED)
    home.env["PYTHONPATH"] = f"{tmp_path}:{SOURCES}"
    id, _ = home.start("[[sleep:300]]")
    for words in (["list"], ["status", id], ["why", id], ["events"], ["agents"], ["usage"], ["locks"], ["peek", id]):
        home.ctl(*words)
    line = "the daemon needs packages that are not installed (starlette, uvicorn): pip install 'agentctl[daemon]'"
    for what in ("run", "start", "restart", "install"):
        done = home.ctl("daemon", what, code=1)
        assert (done.stdout, done.stderr) == ("", f"agentctl: {line}\n")
    assert home.ctl("daemon", "status", code=3).stdout.startswith("not running")
    home.ctl("daemon", "stop")
    home.ctl("events", "--since", "0", code=3)
    home.ctl("stop", id)


def test_the_client_imports_no_async_stack() -> None:
    code = (
        "import sys; import agentctl.cli.events_since, agentctl.cli.daemon, agentctl.server.control; "
        "bad = {'asyncio', 'starlette', 'uvicorn', 'anyio'} & set(sys.modules); sys.exit(repr(bad) if bad else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": SOURCES}, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
