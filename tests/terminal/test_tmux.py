"""What is said to tmux and understood of it: words, servers, time limits."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agentctl.errors import MissingProgram
from agentctl.terminal import server as server_of
from agentctl.terminal import tmux
from agentctl.terminal.tmux import Pane
from tests.support.screen_home import ScreenHome

if TYPE_CHECKING:
    from collections.abc import Iterator

PANE = Pane("/s", "%3", "/dev/pts/3", 30, "@2", "$1", "my work")
LINE = "/dev/pts/3 30 %3 @2 $1 0 0 0 0 my work"


LISTENERS: list[socket.socket] = []


def server(path: Path) -> str:
    """A socket at which somebody listens."""
    path.parent.mkdir(parents=True, exist_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    LISTENERS.append(listener)
    listener.bind(str(path))
    listener.listen()
    return str(path)


@pytest.fixture(autouse=True)
def nobody_listens_afterwards() -> Iterator[None]:
    yield
    while LISTENERS:
        LISTENERS.pop().close()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[ScreenHome]:
    home = ScreenHome(tmp_path)
    try:
        yield home
    finally:
        home.end_all()


# Understanding


def test_a_pane_is_read_with_the_name_of_its_session_whatever_that_has_in_it() -> None:
    assert tmux.parse(LINE, "/s") == [PANE]
    assert tmux.parse(LINE.replace("my work", " a  b "), "/s") == [PANE._replace(name=" a  b ")]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "no",
        LINE.replace(" 30 ", " x "),
        LINE.replace("%3", "3"),
        "/dev/pts/3 30 %3 @2",
        LINE.replace(" 0 0", " 1 0"),
    ],
)
def test_what_is_no_living_pane_is_none(line: str) -> None:
    assert tmux.parse(line, "/s") == []


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("0 0 0 0", None),
        ("0   ", None),
        ("0 1 0 0", "copy mode"),
        ("0 0 1 0", "synchronize"),
        ("0 0 0 1", "select-pane"),
    ],
)
def test_why_keys_would_not_reach_it_alone(flags: str, says: str | None) -> None:
    (pane,) = tmux.parse(LINE.replace("0 0 0 0", flags), "/s")
    assert (pane.busy is None) if says is None else (says in str(pane.busy))


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ("/tmp/tmux-0/default,12,0", "/tmp/tmux-0/default"),
        ("/a,b/c,1,2", "/a,b/c"),
        ("", None),
        (None, None),
        ("relative,1,2", None),
    ],
)
def test_the_socket_in_a_variable(value: str | None, path: str | None) -> None:
    assert tmux.socket_in(value) == path


def test_servers_are_those_of_the_variables_and_of_our_folder_each_once(tmp_path: Path) -> None:
    folder = tmp_path / f"tmux-{os.getuid()}"
    default, other, named = server(folder / "default"), server(folder / "other"), server(tmp_path / "elsewhere")
    (folder / "file").write_text("no socket")
    (folder / "link").symlink_to(default)
    env = {"TMUX_TMPDIR": str(tmp_path), "TMUX": f"{other},1,0"}
    found = tmux.sockets(env, [f"{named},1,0", None, f"{tmp_path}/gone,1,0", f"{folder}/file,1,0"])
    assert found == [other, named, default]
    assert tmux.sockets({"TMUX_TMPDIR": str(tmp_path / "none")}) == []


def test_a_socket_of_another_user_is_not_spoken_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = server(tmp_path / "default")
    assert tmux.identity_of(path) is not None
    monkeypatch.setattr(os, "getuid", lambda: os.geteuid() + 1)
    assert tmux.identity_of(path) is None


# Asking


def test_a_server_that_hangs_is_a_problem_and_the_others_answer(home: ScreenHome) -> None:
    folder = home.folder / "sockets" / f"tmux-{os.getuid()}"
    good, bad, worse = (server(folder / name) for name in ("good", "bad", "worse"))
    home.set("hangs-bad")
    home.set("hangs-worse")
    home.set("more", LINE)
    panes, problems = tmux.panes(home.env)
    assert panes == [PANE._replace(socket=good)]
    assert [(one.agent, one.path) for one in problems] == [("tmux", bad), ("tmux", worse)]
    assert "no answer" in problems[0].problem


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("no server running on /x", []),
        ("error connecting to /x (Connection refused)", []),
        ("protocol version", ["protocol version"]),
    ],
)
def test_a_socket_that_was_left_behind_is_nothing(home: ScreenHome, said: str, told: list[str]) -> None:
    server(home.folder / "sockets" / f"tmux-{os.getuid()}" / "default")
    home.set("fails", said)
    panes, problems = tmux.panes(home.env)
    assert panes == []
    assert [one.problem for one in problems] == told


def test_without_tmux_there_are_no_panes_and_what_needs_one_says_so(home: ScreenHome) -> None:
    server(home.folder / "sockets" / f"tmux-{os.getuid()}" / "default")
    env = {**home.env, "PATH": str(home.folder / "nothing")}
    assert tmux.panes(env) == ([], [])
    with pytest.raises(MissingProgram, match="install it"):
        tmux.screen(PANE, env)


def test_a_call_that_hangs_ends_in_an_error(home: ScreenHome) -> None:
    home.set("hangs-s")
    with pytest.raises(tmux.Failed, match="no answer within"):
        tmux.press_enter(PANE._replace(socket=server(home.folder / "s")), home.env)


# Saying


def test_a_text_is_one_paste_and_no_word_of_it_is_a_key(home: ScreenHome) -> None:
    home.set("deaf")
    home.set("screen")
    tmux.paste(PANE._replace(socket=server(home.folder / "s")), "Enter\nC-c ; #{pane_id}", home.env)
    (call,) = home.calls()
    assert "Enter" not in " ".join(call)
    wanted = f"paste-buffer -d -p -b agentctl-{os.getpid()} -t %3"
    assert call[call.index("paste-buffer") :] == wanted.split()
    assert (home.tmux / "buffer").read_text() == "Enter\nC-c ; #{pane_id}"


@pytest.mark.parametrize(("word", "as_given"), [("a;", "a\\;"), (";", "\\;"), ("a;b", "a;b"), ("", "")])
def test_a_semicolon_at_the_end_of_a_word_ends_no_command(word: str, as_given: str) -> None:
    assert tmux.protected(word) == as_given


def test_a_server_is_not_given_what_marks_a_launch() -> None:
    env = {"AGENTCTL_LAUNCH": "x", "A": "b"}
    assert tmux.without_marker(env) == {"A": "b"}
    assert tmux.asking(env) == {"A": "b", "LC_ALL": "C"}


def test_a_pane_is_shown_by_attaching_or_inside_its_server_by_switching(tmp_path: Path) -> None:
    pane = PANE._replace(socket=server(tmp_path / "mine"))
    other = server(tmp_path / "other")
    first = ["tmux", "-S", pane.socket, "select-window", "-t", "@2", ";", "select-pane", "-t", "%3", ";"]
    assert tmux.attach_command(pane, {}) == [*first, "attach-session", "-t", "$1"]
    assert tmux.attach_command(pane, {"TMUX": f"{pane.socket},1,0"}) == [*first, "switch-client", "-t", "$1"]
    assert not tmux.is_inside(pane, {"TMUX": f"{other},1,0"})
    (tmp_path / "link").symlink_to(pane.socket)
    assert not tmux.is_inside(pane, {"TMUX": f"{tmp_path}/link,1,0"})


LISTEN = """
import socket, sys
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
server.listen()
print("ready", flush=True)
sys.stdin.read()
"""


AS_ROOT = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
SANDBOXES = {
    "mount namespace": ["unshare", *AS_ROOT, "--mount"],
    "another PID namespace": ["unshare", *AS_ROOT, "--pid", "--fork", "--kill-child"],
    "may gain no privileges": ["setpriv", "--no-new-privs"],
}


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder with a short path: the address of a socket has 108 bytes."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture
def listening(short: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """The socket of a server in a sandbox."""
    path = short / "home" / "sockets" / f"tmux-{os.getuid()}" / "default"
    path.parent.mkdir(parents=True)
    command = [*request.param, sys.executable, "-c", LISTEN, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as listening:
        assert listening.stdout is not None
        assert listening.stdout.readline() == b"ready\n"
        yield str(path)
        listening.communicate()


@pytest.mark.linux
@pytest.mark.parametrize("listening", SANDBOXES.values(), ids=SANDBOXES, indirect=True)
def test_no_client_is_run_for_a_server_in_a_sandbox(short: Path, listening: str) -> None:
    """A tmux client opens files for its server: a command alias of the server is enough."""
    home = ScreenHome(short / "home")
    home.set("fails", "a client was run")
    panes, (problem,) = tmux.panes(home.env, [f"{listening},1,0"])
    assert panes == []
    assert "does not ask it" in problem.problem
    for call in (tmux.screen, tmux.press_enter, tmux.close_session, tmux.let_end):
        with pytest.raises(tmux.Failed, match="does not ask it"):
            call(PANE._replace(socket=listening), home.env)
    with pytest.raises(tmux.Failed, match="does not ask it"):
        tmux.open_session("name", "window", "/", ["true"], home.env)


@pytest.mark.linux
@pytest.mark.parametrize("listening", [[]], indirect=True)
def test_a_server_that_is_as_free_as_we_are_is_asked(short: Path, listening: str) -> None:
    home = ScreenHome(short / "home")
    home.set("pane", LINE)
    assert tmux.panes(home.env) == ([PANE._replace(socket=listening)], [])


@pytest.mark.linux
def test_whoever_has_the_pid_of_one_that_listened_proves_nothing(tmp_path: Path) -> None:
    """The kernel keeps the pid of whoever began to listen, also once that one has ended and its pid is another's."""
    path = server(tmp_path / "socket")
    assert server_of.listens(os.getpid(), path)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as other:
        proved = server_of.listens(other.pid, path)
        other.communicate()
    assert not proved
    assert not server_of.listens(os.getpid(), str(tmp_path))


@pytest.mark.linux
def test_a_socket_that_is_replaced_meanwhile_is_not_the_one_that_was_proved(tmp_path: Path) -> None:
    path = server(tmp_path / "socket")
    with server_of.pinned(path) as pinned:
        os.unlink(path)
        server(tmp_path / "socket")
        assert os.stat(pinned).st_ino != os.stat(path).st_ino
