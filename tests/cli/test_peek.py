"""peek: the end of a conversation, from any agent, at any size, and what comes next."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agentctl.agents import jsonl
from agentctl.agents.claude_code import records
from agentctl.agents.codex import messages
from agentctl.agents.opencode import adapter
from agentctl.cli import peek
from agentctl.model import Message, Page
from agentctl.query import sessions
from tests.support import opencode_home
from tests.support.demo_home import TIMEOUT, Home, session_of, wait_until
from tests.support.worlds import FIXTURES

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    found = Home(tmp_path)
    yield found
    found.end_all()


def ctl(home: Home, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "agentctl", *words], env=home.env, capture_output=True, text=True, timeout=TIMEOUT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def brief(page: Page) -> list[tuple[str, str]]:
    return [(message.role, message.text[:40]) for message in page.messages]


def test_the_last_messages_of_a_demo_session(home: Home) -> None:
    id = session_of(home.run("-p", "do it [[text:First.]] [[bash:seq 1 30]] [[text:Last.]]"))
    shown = ctl(home, "peek", id)
    assert "do it" in shown
    assert "… 26 more lines" in shown
    assert shown.splitlines()[-1].endswith("Last.")
    assert ctl(home, "logs", id, "-n", "1") == shown.splitlines()[-1] + "\n"
    answer = json.loads(ctl(home, "peek", id, "--json", "-n", "2"))
    assert [message["role"] for message in answer["messages"]] == ["result", "assistant"]
    assert answer["session"]["id"] == id


def test_messages_of_real_claude_transcripts() -> None:
    path = next((FIXTURES / "claude" / "subagent_finished").rglob("projects/*/*.jsonl"))
    page = jsonl.newest(str(path), 20, records.messages_of)
    assert brief(page) == [
        ("user", "sub [[agent:do it <<bash:sleep 3>> <<tex"),
        ("tool", "Agent"),
        ("result", "sub done\nagentId: ab4ec759e592fb42e (use"),
        ("assistant", "main done"),
    ]
    (newest,) = jsonl.newest(str(path), 1, records.messages_of).messages
    assert newest.text == "main done"


def test_messages_of_real_codex_rollouts() -> None:
    path = next((FIXTURES / "codex" / "interrupted").rglob("rollout-*.jsonl"))
    assert brief(jsonl.newest(str(path), 20, messages.messages_of)) == [
        ("user", "[[shell sleep 60]]"),
        ("tool", "exec_command: sleep 60"),
        ("result", "Wall time: 4.1 seconds\naborted by user"),
        ("note", "the turn was aborted (interrupted)"),
    ]


def test_messages_of_a_real_opencode_database(tmp_path: Path) -> None:
    store = adapter.ADAPTER.open_store(str(FIXTURES / "opencode" / "finished_ok" / "xdg_data" / "opencode"))
    store.survey()
    (id,) = store.find("ses_")
    page = store.messages(id, 20)
    assert page.messages[0].role == "user"
    assert {message.role for message in page.messages} >= {"user", "tool", "result", "assistant"}
    assert page.messages[-1].role == "assistant"
    assert store.messages(id, 1).messages == page.messages[-1:]
    assert store.messages_after(id, page.cursor).messages == ()
    assert store.messages_after(id, None).messages == page.messages


def test_what_opencode_fills_in_later_is_shown_once(tmp_path: Path) -> None:
    home = opencode_home.Home(tmp_path)
    home.session("ses_a", 10)
    home.prompt("ses_a", 11, "go")
    home.step("ses_a", 12, opencode_home.tool(), {"type": "text", "text": ""}, opencode_home.tool("pending"))
    store = adapter.ADAPTER.open_store(str(home.data))
    store.survey()
    page = store.messages("ses_a", 20)
    assert brief(page) == [("user", "go"), ("tool", "bash: sleep 9")]
    done = json.dumps(opencode_home.tool("completed", output="slept"))
    home._do("update part set data = ? where data like '%running%'", done)
    page = store.messages_after("ses_a", page.cursor)
    assert brief(page) == [("result", "slept")]
    home._do("""update part set data = '{"type": "text", "text": "Done."}' where data like '%"text": ""%'""")
    home.prompt("ses_a", 13, "more")
    page = store.messages_after("ses_a", page.cursor)
    assert brief(page) == [("assistant", "Done."), ("user", "more")]
    assert store.messages_after("ses_a", page.cursor).messages == ()


def plain(line: bytes) -> list[Message]:
    return [Message("user", line.decode())]


def test_a_cursor_gives_each_line_once_and_only_whole_ones(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("one\ntwo\nhal")
    page = jsonl.newest(str(path), 1, plain)
    assert brief(page) == [("user", "two")]
    assert brief(jsonl.after(str(path), page.cursor, plain)) == []
    with path.open("a") as file:
        file.write("f\nthree\n")
    page = jsonl.after(str(path), page.cursor, plain)
    assert brief(page) == [("user", "half"), ("user", "three")]
    assert brief(jsonl.after(str(path), page.cursor, plain)) == []


@pytest.mark.parametrize("how", ["replaced", "cut"])
def test_a_transcript_that_is_replaced_or_cut_is_read_from_its_beginning(tmp_path: Path, how: str) -> None:
    path = tmp_path / "log"
    path.write_text("one\ntwo\nthree\n")
    cursor = jsonl.newest(str(path), 5, plain).cursor
    if how == "replaced":
        (tmp_path / "new").write_text("a\nb\nc\nd\ne\nf\ng\nh\n")
        os.replace(tmp_path / "new", path)
    else:
        path.write_text("a\n")
    page = jsonl.after(str(path), cursor, plain)
    assert page.restarted
    assert page.messages[0].text == "a"


def test_a_gigabyte_opens_at_once(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb") as file:
        file.truncate(1 << 30)  # sparse: a single line of NUL bytes
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + b"".join(b"line %d\n" % number for number in range(1000)))
    tracemalloc.start()
    page = jsonl.newest(str(path), 20, plain)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [message.text for message in page.messages] == [f"line {number}" for number in range(980, 1000)]
    assert peak < 4 * 1024 * 1024


def test_follow_until_the_end(home: Home) -> None:
    id, _ = home.start("-p", "[[text:begun]] [[ask:true]] [[text:finished]]")
    home.wait_for_status(id, "waiting")
    with subprocess.Popen(
        [sys.executable, "-m", "agentctl", "peek", id, "-f", "--json"],
        env=home.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as following:
        assert following.stdout is not None
        roles = [json.loads(following.stdout.readline())["role"] for _ in range(3)]
        (home.folder(id) / "answer").write_text("y")
        rest, errors = following.communicate(timeout=TIMEOUT)
    assert roles[:2] == ["user", "assistant"]
    assert json.loads(rest.splitlines()[-1])["text"] == "finished"
    assert errors == "ended: done\n"


def test_follow_goes_on_with_the_session_the_process_moved_to(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """/clear: the same process is on another session now."""
    first = session_of(home.run("-p", "[[text:old]]"))
    second, child = home.start("-p", "[[text:new]] [[idle]]")
    home.wait_for_status(second, "idle")
    for name, value in home.env.items():
        monkeypatch.setenv(name, value)
    ended = sessions.query_session(first).sessions[0]
    alive = sessions.query_session(second).sessions[0]
    moved = ended._replace(process_key=alive.process_key)  # as it was judged while the process was on it
    assert peek.successor(moved) == alive._replace(tokens=None)
    assert peek.successor(ended) is None
    shown: list[Any] = []
    monkeypatch.setattr(peek, "show", lambda page, as_json: shown.extend(page.messages))
    monkeypatch.setattr(peek, "JUDGE_EVERY", 0.0)
    real = sessions.query

    def then_end(scope: Any) -> Any:
        answer = real(scope)
        child.terminate()
        wait_until(lambda: child.poll() is not None, "its end")
        return answer

    monkeypatch.setattr(peek, "query", then_end)
    peek.follow(moved, sessions.open_store_of(moved), None, False)
    assert [message.text for message in shown if message.role == "assistant"] == ["old", "new"]


def test_peek_of_nothing_yet(home: Home) -> None:
    id, _ = home.start(stdin=subprocess.PIPE)
    home.wait_for_status(id, "idle")
    assert ctl(home, "peek", id) == ""


def test_completion_offers_commands_ids_and_agents(home: Home) -> None:
    id = session_of(home.run("-p", "x"))

    def complete(line: str) -> list[str]:
        read, write = os.pipe()
        env = {
            **home.env,
            "_ARGCOMPLETE": "1",
            "COMP_LINE": line,
            "COMP_POINT": str(len(line)),
            "_ARGCOMPLETE_IFS": "\n",
        }
        code = (
            f"import os, sys; os.dup2({write}, 8); sys.argv[0] = 'agentctl'; from agentctl.__main__ import main; main()"
        )
        subprocess.run([sys.executable, "-c", code], env=env, pass_fds=(write,), timeout=TIMEOUT, check=False)
        os.close(write)
        with os.fdopen(read) as pipe:
            return [word.strip() for word in pipe.read().split("\n")]

    assert complete("agentctl wh") == ["why"]
    assert complete(f"agentctl status {id[:5]}") == [id]
    assert complete("agentctl list --agent clau") == ["claude-code", "claude"]
    assert complete("agentctl launch --agent demo --agent clau") == ["claude-code", "claude"]
    folder = Path(home.env["AGENTCTL_HOME"]) / "launches" / "m0a1b2c3d4e5"
    folder.mkdir(parents=True, mode=0o700)
    folder.parent.parent.chmod(0o700)
    folder.parent.chmod(0o700)
    key = "boot:1:1"
    facts = {"id": folder.name, "agent": "demo", "cwd": "/", "group": "night", "runner": key, "child": key}
    (folder / "launch.json").write_text(json.dumps({**facts, "created_at": "2026-01-01T00:00:00.000Z"}))
    for verb in ("list", "wait", "stop", "launch"):
        assert complete(f"agentctl {verb} --group n") == ["night"]
    for shell in ("bash", "zsh", "fish"):
        assert "agentctl" in ctl(home, "completion", shell)
