"""The API: the answers of the commands, with their exit codes and texts; bounded, and nothing from memory."""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agentctl.kernel import handles
from agentctl.server import asking as asks
from agentctl.server import client
from agentctl.server.asking import Asking, Busy, answered
from agentctl.server.operations import OPERATIONS, Command
from tests.support.children import true_key
from tests.support.daemon_home import DaemonHome, daemon_home
from tests.support.demo_home import COMMAND, TIMEOUT, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.linux
PAGE = Path(__file__).parents[2] / "docs" / "api.md"
BY_NAME = {operation.name: operation for operation in OPERATIONS}


@pytest.fixture(scope="module")
def home() -> Iterator[DaemonHome]:
    with daemon_home() as found:
        found.start_daemon()
        yield found


def ask(home: DaemonHome, method: str, target: str, body: object = None) -> tuple[int, dict[str, Any], dict[str, str]]:
    connection = client.OnSocket(home.socket, TIMEOUT)
    try:
        data = body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else None
        connection.request(method, target, data)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read()), dict(answer.getheaders())
    finally:
        connection.close()


@pytest.fixture
def session(home: DaemonHome) -> Iterator[str]:
    id, child = home.start("[[sleep:300]]")
    yield id
    child.kill()
    child.wait()


def test_answers_are_those_of_the_commands(home: DaemonHome, session: str) -> None:
    for target, words in {
        "/v1/sessions": ["list"],
        "/v1/sessions?all=true&n=3&agent=demo": ["list", "-a", "-n", "3", "--agent", "demo"],
        f"/v1/sessions/{session}": ["status", session],
        f"/v1/sessions/{session[:8]}/why": ["why", session[:8]],
        f"/v1/sessions/{session}/messages?n=2": ["peek", session, "-n", "2"],
        "/v1/locks": ["locks"],
        "/v1/usage?by=agent": ["usage", "--by", "agent"],
    }.items():
        status, found, headers = ask(home, "GET", target)
        assert (status, headers["agentctl-exit-code"]) == (200, "0")
        expected = json.loads(home.ctl(*words, "--json").stdout)
        for answer in (found, expected):
            for others in ("sources", "not_shown"):  # they count all processes, those of other tests, too
                answer.pop(others, None)
        assert found == expected, target


def test_errors_are_those_of_the_commands(home: DaemonHome) -> None:
    for target, words, status in (
        ("/v1/sessions/nope", ["status", "nope"], 404),
        ("/v1/sessions?since=5", ["list", "--since", "5"], 400),
        ("/v1/sessions?agent=nobody", ["list", "--agent", "nobody"], 400),
        ("/v1/sessions?group=nobody", ["list", "--group", "nobody"], 404),
    ):
        done = home.ctl(*words, "--json", code=None)
        found = ask(home, "GET", target)
        assert found[0] == status
        error = found[1]["error"]
        assert (error["exit_code"], f"agentctl: {error['message']}\n") == (done.returncode, done.stderr)


@pytest.mark.parametrize(
    ("method", "target", "body", "status"),
    [
        ("GET", "/v1/nonsense", None, 404),
        ("DELETE", "/v1/sessions", None, 405),
        ("GET", "/v1/sessions?nonsense=1", None, 400),
        ("GET", "/v1/sessions/--help", None, 400),
        ("POST", "/v1/stop", b"{", 400),
        ("POST", "/v1/stop", [], 400),
        ("POST", "/v1/stop", {}, 400),
        ("POST", "/v1/stop?ids=x", {}, 400),
        ("POST", "/v1/stop", {"ids": ["nobody"]}, 404),
        ("POST", "/v1/launch", {"prompt": "x", "cwd": "."}, 400),
        ("POST", "/v1/launch", b" " * (9 * 1024 * 1024), 400),
        ("POST", "/v1/send", {"id": "nobody", "text": "x"}, 404),
        ("GET", "/v1/events?since=yesterday", None, 400),
        ("GET", "/v1/events?type=nonsense", None, 400),
        ("GET", "/v1/events?agent=nobody", None, 400),
        ("GET", "/v1/events?follow=perhaps", None, 400),
        ("GET", "/v1/events?nonsense=1", None, 400),
    ],
)
def test_what_is_wrong_is_said(home: DaemonHome, method: str, target: str, body: object, status: int) -> None:
    found = ask(home, method, target, body)
    assert found[0] == status
    assert {*found[1]} == {"schema", "error"}
    assert found[1]["error"]["exit_code"] in (2, 3) and found[1]["error"]["message"]


def test_a_life_over_the_api(home: DaemonHome) -> None:
    prompt = "[[ask:make tea]] [[idle]]"
    code, found, _ = ask(home, "POST", "/v1/launch", {"agent": "demo", "prompt": prompt, "cwd": home.env["HOME"]})
    assert code == 200
    id = found["session"]["id"]
    code, found, headers = ask(home, "POST", "/v1/wait", {"ids": [id], "until": "waiting"})
    assert (code, found["exit_code"], found["sessions"][0]["status"]) == (200, 0, "waiting")
    code, found, _ = ask(home, "POST", "/v1/send", {"id": id, "text": "go on"})
    assert (code, found["error"]["exit_code"]) == (409, 4)
    code, found, headers = ask(home, "POST", "/v1/wait", {"ids": [id], "until": "ended", "timeout": "0s"})
    assert (code, found["exit_code"], headers["agentctl-exit-code"]) == (200, 124, "124")
    code, found, _ = ask(home, "POST", "/v1/stop", {"ids": [id]})
    assert (code, found["stopped"][0]["outcome"]) == (200, "stopped")
    code, found, _ = ask(home, "POST", "/v1/stop", {"ids": [id, "nobody"]})
    assert code == 404
    assert (found["stopped"][0]["id"], found["error"]["exit_code"]) == (id, 3)


def children_of(home: DaemonHome) -> list[int]:
    with open(f"/proc/{home.health()['pid']}/task/{home.health()['pid']}/children") as file:
        return [int(pid) for pid in file.read().split()]


def begin_wait(home: DaemonHome, session: str) -> socket.socket:
    one = socket.socket(socket.AF_UNIX)
    one.connect(home.socket)
    body = json.dumps({"ids": [session]}).encode()
    one.sendall(b"POST /v1/wait HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
    wait_until(lambda: any(map(is_waiting, children_of(home))), "the wait to begin")
    return one


def is_waiting(pid: int) -> bool:
    """Does it watch a process already? Then it has said all that it says before the end."""
    try:
        links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    except OSError:
        return False
    return any("pidfd" in link for link in links)


def test_a_client_that_leaves_ends_its_wait(home: DaemonHome, session: str) -> None:
    begin_wait(home, session).close()
    wait_until(lambda: not children_of(home), "the end of the wait")


def test_a_wait_ends_with_a_daemon_that_is_killed() -> None:
    with daemon_home() as home:
        home.start_daemon()
        id, _ = home.start("[[sleep:300]]")
        with begin_wait(home, id):
            (waiting,) = map(true_key, children_of(home))
            home.signal_daemon(signal.SIGKILL)
            wait_until(lambda: handles.has_ended(waiting), "the end of the wait")


def test_nothing_is_answered_from_memory(home: DaemonHome, session: str) -> None:
    """The process ends, and the next answer says so, whatever the engine has seen."""
    assert ask(home, "GET", f"/v1/sessions/{session}")[1]["session"]["status"] == "running"
    home.ctl("stop", session)
    assert ask(home, "GET", f"/v1/sessions/{session}")[1]["session"]["status"] == "stopped"


def test_a_name_that_is_not_utf_8(home: DaemonHome) -> None:
    folder = os.fsencode(home.env["HOME"]) + b"/caf\xe9"
    os.mkdir(folder)
    null = subprocess.DEVNULL
    child = subprocess.Popen([*COMMAND, "[[sleep:300]]"], cwd=folder, env=home.env, stdin=null, stdout=null)
    try:

        def found() -> list[Any]:
            sessions = ask(home, "GET", "/v1/sessions")[1]["sessions"]
            return [one for one in sessions if "caf" in (one["cwd"] or "")]

        (one,) = wait_until(found, "its session")
        assert one["cwd"].endswith("caf\udce9")
    finally:
        child.kill()
        child.wait()


ASK_TO_STOP = """
import sys
from agentctl.server import client
connection = client.OnSocket(sys.argv[1], 60)
connection.request("POST", "/v1/stop", '{"ids": ["%s"]}' % sys.argv[2])
print(connection.getresponse().read().decode())
"""


def test_an_agent_that_asks_is_an_agent(home: DaemonHome) -> None:
    """What runs in a launch is refused to stop it, through the daemon as by the command."""
    prompt = {"agent": "demo", "prompt": "[[sleep:300]]", "cwd": home.env["HOME"]}
    found = ask(home, "POST", "/v1/launch", prompt)[1]["session"]
    inside = {**home.env, "AGENTCTL_LAUNCH": found["launch_id"]}
    words = [sys.executable, "-c", ASK_TO_STOP, home.socket, found["id"]]
    said = json.loads(subprocess.run(words, env=inside, capture_output=True, text=True, check=True).stdout)
    done = home.ctl("stop", found["id"], code=4, AGENTCTL_LAUNCH=found["launch_id"])
    assert (said["error"]["exit_code"], f"agentctl: {said['error']['message']}\n") == (4, done.stderr)
    assert ask(home, "POST", "/v1/stop", {"ids": [found["id"]]})[0] == 200


# Sharing and bounds, with a command that is none of ours


async def counted(monkeypatch: pytest.MonkeyPatch, folder: Path, seconds: float) -> Asking:
    script = folder / "command.sh"
    script.write_text(f"echo >> {folder}/asked; sleep {seconds}; echo '{{\"schema\": 1}}'\n")
    monkeypatch.setattr(asks, "COMMAND", ("/bin/sh", str(script)))
    return Asking({"PATH": os.environ["PATH"]})


LIST, LOCKS = Command(("list", "--json")), Command(("locks", "--json"))


def test_those_who_ask_the_same_at_once_share_one_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        asking = await counted(monkeypatch, tmp_path, 0.3)
        listing = BY_NAME["list_sessions"]
        many = [asking.answer(listing, LIST, {}) for _ in range(20)]
        found = await asyncio.gather(*many, asking.answer(BY_NAME["locks"], LOCKS, {}))
        assert {one.code for one in found} == {0}
        assert (tmp_path / "asked").read_text().count("\n") == 2
        await asking.answer(listing, LIST, {})  # later: a look of its own
        assert (tmp_path / "asked").read_text().count("\n") == 3

    asyncio.run(run())


def test_a_look_that_began_earlier_is_not_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        asking = await counted(monkeypatch, tmp_path, 0.5)
        monkeypatch.setattr(asks, "SHARED", 0.0)
        listing = BY_NAME["list_sessions"]
        first = asyncio.ensure_future(asking.answer(listing, LIST, {}))
        await asyncio.sleep(0.05)
        await asyncio.gather(first, asking.answer(listing, LIST, {}))
        assert (tmp_path / "asked").read_text().count("\n") == 2

    asyncio.run(run())


def test_there_is_a_bound_to_those_in_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asks, "MOST_AT_ONCE", 1)
    monkeypatch.setattr(asks, "MOST_IN_LINE", 2)

    async def run() -> None:
        asking = await counted(monkeypatch, tmp_path, 0.3)
        stop = BY_NAME["stop"]
        many = [asking.answer(stop, Command(("stop", str(number))), {}) for number in range(6)]
        found = await asyncio.gather(*many, return_exceptions=True)
        assert sum(isinstance(one, Busy) for one in found) == 3
        assert (tmp_path / "asked").read_text().count("\n") == 3

    asyncio.run(run())


def test_what_acts_goes_on_when_its_client_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        asking = await counted(monkeypatch, tmp_path, 0.2)
        stop = asyncio.ensure_future(asking.answer(BY_NAME["stop"], Command(("stop",)), {}))
        look = asyncio.ensure_future(asking.answer(BY_NAME["list_sessions"], LIST, {}))
        while not (tmp_path / "asked").exists() or (tmp_path / "asked").read_text().count("\n") < 2:
            await asyncio.sleep(0.01)
        (acting,) = asking._acting
        (looking,) = asking._looks.values()
        stop.cancel()
        look.cancel()
        assert (await acting).document == {"schema": 1}
        with pytest.raises(asyncio.CancelledError):
            await looking.task

    asyncio.run(run())


def test_what_a_command_said() -> None:
    wait, stop = BY_NAME["wait"], BY_NAME["stop"]
    assert answered(wait, 0, b'{"a": 1}\n{"b": 2}\n', b"").document == {"b": 2}
    assert answered(stop, 4, b"", b"agentctl: one\n  two\n").message == "one\n  two"
    for nothing in (b"", b"text", b"[]", b"\xff"):
        assert answered(stop, 0, nothing, b"").document is None


# The page


CURL = """\
#!{python}
import sys
from agentctl.server import client
words = sys.argv[1:]
data = words[words.index("-d") + 1] if "-d" in words else None
(url,) = (word for word in words if word.startswith("http://"))
connection = client.OnSocket(words[words.index("--unix-socket") + 1], 60)
connection.request("POST" if data else "GET", url.removeprefix("http://agentctl"), data)
answer = connection.getresponse()
sys.stdout.write(answer.read().decode())
sys.exit(22 if answer.status >= 400 else 0)
"""


def stand_in_for_curl(folder: Path) -> Path:
    """What the page needs of curl, where it is not installed."""
    (folder / "curl").write_text(CURL.format(python=sys.executable))
    (folder / "curl").chmod(0o755)
    return folder


def test_the_stand_in_for_curl_says_what_curl_says(home: DaemonHome, tmp_path: Path) -> None:
    for target, code in (("/v1/locks", 0), ("/v1/sessions/nope", 22)):
        words = ["-sS", "--fail-with-body", "--unix-socket", home.socket, f"http://agentctl{target}"]
        programs = [str(stand_in_for_curl(tmp_path) / "curl"), *filter(None, [shutil.which("curl")])]
        done = [
            subprocess.run([one, *words], env=home.env, capture_output=True, text=True, check=False) for one in programs
        ]
        assert {(one.returncode, one.stdout) for one in done} == {(code, done[0].stdout)}
        assert done[0].stdout.startswith('{"schema": 1, ')


def test_the_examples_of_the_page_run(home: DaemonHome, session: str, tmp_path: Path) -> None:
    (block,) = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.S)
    lines = [line for line in block.splitlines() if line.startswith("curl ")]
    assert len(lines) > 10
    path = home.env["PATH"] if shutil.which("curl") else f"{stand_in_for_curl(tmp_path)}:{home.env['PATH']}"
    for line in lines:
        done = subprocess.run(
            [
                "/bin/sh",
                "-ec",
                f"socket={home.socket}; id={session}; {line.replace('curl -s', 'curl -sS --fail-with-body')}",
            ],
            env={**home.env, "PATH": path},
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), (line, done.stdout)
        assert done.stdout.startswith(("{", "id: ", "event: ")), line
    for operation in OPERATIONS:
        assert f"`{operation.method} {operation.path.replace('{id}', 'ID')}`" in PAGE.read_text()


def test_a_stream_follows_with_the_last_id(home: DaemonHome) -> None:
    stream = client.Stream(home.socket, "/v1/events")
    events = iter(stream)
    id, checkpoint = next(events)
    assert checkpoint is not None and checkpoint["type"] == "checkpoint" and id is not None
    session, child = home.start("[[sleep:300]]")
    id, event = next(one for one in events if one[1] is not None and one[1].get("id") == session)
    stream.close()
    child.kill()
    child.wait()
    wait_until(lambda: home.health()["events"]["seq"] > event["seq"], "its end")  # type: ignore[index]
    again = client.Stream(home.socket, "/v1/events", id)
    told = next(one for one in again if one[1] is not None)[1]
    again.close()
    assert told is not None and event is not None
    assert (told["seq"], told["id"], told["to"]) == (event["seq"] + 1, session, "stopped")
    wait_until(lambda: home.health()["events"]["listeners"] == 0, "the listeners to leave")


@pytest.mark.parametrize("count", [50, pytest.param(1000, marks=pytest.mark.stress)])
def test_many_listeners_miss_nothing(home: DaemonHome, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    monkeypatch.setattr(client, "SILENCE", 2 * TIMEOUT)
    target = "/v1/events?type=session.started&type=session.stopped"
    streams = [client.Stream(home.socket, target) for _ in range(count)]
    wait_until(lambda: home.health()["events"]["listeners"] == len(streams), "all to listen")
    session, child = home.start("[[sleep:300]]")
    home.tells(session, "running")  # what comes and goes between two looks is not told
    child.kill()
    child.wait()
    deadline = time.monotonic() + TIMEOUT
    for stream in streams:
        told: list[str] = []
        for _, event in stream:
            told += [event["to"]] if event is not None and event.get("id") == session else []
            assert time.monotonic() < deadline
            if told[-1:] == ["stopped"]:
                break
        stream.close()
        assert told[-1] == "stopped" and len(told) <= 2
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
