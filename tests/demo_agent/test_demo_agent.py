"""The demo agent as a program: what it does, and what it leaves in its store."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agentctl import model
from agentctl.agents.demo.adapter import ADAPTER
from agentctl.demo_agent import inputs
from agentctl.kernel.processes import snapshot
from agentctl.model import ProcessKey
from tests.support.demo_home import TIMEOUT, Home, kinds, session_of, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

linux_only = pytest.mark.linux


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    try:
        yield home
    finally:
        home.end_all()


def test_version(home: Home) -> None:
    result = home.run("--version")
    assert (result.returncode, result.stdout) == (0, f"agentctl-demo {ADAPTER.CERTIFIED[-1]}\n")
    assert not home.root.exists()


@pytest.mark.parametrize("flags", [("-p",), ()])
def test_plain_prompt_is_answered(home: Home, flags: tuple[str, ...]) -> None:
    result = home.run(*flags, "hello")
    id = session_of(result)
    assert result.returncode == 0
    assert "hello" in result.stdout.splitlines()[1]
    events = home.events(id)
    assert kinds(events) == ["session", "prompt", "usage", "text", "turn_end"]
    assert events[0]["id"] == id
    assert events[0]["model"] == "demo-1"
    assert all(event["at"].endswith("Z") for event in events)
    assert [path.name for path in home.folder(id).iterdir()] == ["events.jsonl"]


def test_store_is_private(home: Home) -> None:
    id, _ = home.start("-p", "[[idle]]")
    for path in (home.root, home.folder(id).parent, home.folder(id)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    for path in home.folder(id).iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


@linux_only
def test_directives_run_in_order_and_tools_in_their_own_session(home: Home) -> None:
    result = home.run("-p", "first [[text:a]] then [[bash:echo out; cut -d' ' -f1,6 /proc/$$/stat; exit 3]] [[text:b]]")
    events = home.events(session_of(result))
    assert kinds(events)[2:] == ["usage", "text", "usage", "tool", "tool_result", "usage", "text", "turn_end"]
    tool, outcome = events[5], events[6]
    assert (outcome["id"], outcome["exit"]) == (tool["id"], 3)
    word, numbers = outcome["output"].splitlines()
    pid, kernel_session = numbers.split()
    assert word == "out"
    assert pid == kernel_session
    assert result.returncode == 0


def test_failed_turn(home: Home) -> None:
    result = home.run("-p", "[[fail:out of luck]] [[text:never said]]")
    assert result.returncode == 1
    end = home.events(session_of(result))[-1]
    assert (end["event"], end["result"], end["error"]) == ("turn_end", "failed", "out of luck")
    assert "never said" not in result.stdout


def test_session_id_is_used_once(home: Home) -> None:
    id = str(uuid.uuid4())
    assert session_of(home.run("--session-id", id, "-p", "one")) == id
    before = home.events(id)
    again = home.run("--session-id", id, "-p", "two")
    assert again.returncode == 1
    assert f"session id {id} is already in use" in again.stderr
    assert home.events(id) == before


@pytest.mark.parametrize("flag", ["--session-id", "--resume"])
def test_an_id_that_is_none_is_a_usage_error(home: Home, flag: str) -> None:
    assert home.run(flag, "../../elsewhere", "-p", "x").returncode == 2


def test_resume_goes_on_with_the_same_session(home: Home) -> None:
    id = session_of(home.run("-p", "one"))
    result = home.run("--resume", id, "--model", "demo-2", "two")
    assert result.returncode == 0
    assert session_of(result) == id
    prompts = [event["text"] for event in home.events(id) if event["event"] == "prompt"]
    assert prompts == ["one", "two"]
    record = home.record(id)
    assert (record.prompt, record.model) == ("one", "demo-2")


def test_resume_refuses_what_is_not_there_or_is_held(home: Home) -> None:
    missing = home.run("--resume", str(uuid.uuid4()), "x")
    assert (missing.returncode, "no such session" in missing.stderr) == (1, True)
    id, child = home.start("-p", "[[idle]]")
    held = home.run("--resume", id, "x")
    assert (held.returncode, "held by a live process" in held.stderr) == (1, True)
    assert child.poll() is None
    assert home.process_file(id)


def test_resume_after_a_kill_and_a_torn_line(home: Home) -> None:
    id, child = home.start("-p", "[[sleep:300]]")
    home.wait_for_event(id, "prompt")
    child.kill()
    child.wait(TIMEOUT)
    with open(home.folder(id) / "events.jsonl", "a") as file:
        file.write('{"event": "usa')
    assert home.record(id).turn == model.WORKING
    assert home.run("--resume", id, "again").returncode == 0
    assert home.record(id).turn == model.DONE
    assert home.process_file(id) is None


@pytest.mark.parametrize(("answer", "allowed"), [("y", True), ("n", False)])
def test_permission_answered_by_a_file(home: Home, answer: str, allowed: bool) -> None:
    id, child = home.start("-p", "[[ask:touch made]]")
    assert home.wait_for_status(id, "waiting")["waiting_for"] == "permission to run: touch made"
    (home.folder(id) / "answer").write_text(answer)
    assert child.wait(TIMEOUT) == 0
    events = home.events(id)
    assert [event["allowed"] for event in events if event["event"] == "answer"] == [allowed]
    assert events[-1].get("refused") == (None if allowed else ["touch made"])
    assert Path(home.env["HOME"], "made").exists() == allowed
    assert not (home.folder(id) / "answer").exists()


@pytest.mark.parametrize(("answer", "allowed"), [("y", True), ("n", False)])
def test_permission_answered_on_stdin(home: Home, answer: str, allowed: bool) -> None:
    result = home.run("-p", "[[ask:touch made]]", input=f"what?\n{answer}\n")
    assert result.returncode == 0
    assert Path(home.env["HOME"], "made").exists() == allowed


def test_an_answer_from_before_the_question_does_not_count(home: Home) -> None:
    id, child = home.start("-p", "[[idle]]", stdin=subprocess.PIPE)
    home.wait_for_status(id, "idle")
    (home.folder(id) / "answer").write_text("y")
    assert child.stdin is not None
    child.stdin.write("[[ask:touch made]]\n")
    child.stdin.flush()
    home.wait_for_status(id, "waiting")
    time.sleep(0.5)  # longer than it takes to look for an answer
    assert home.wait_for_status(id, "waiting")
    assert not Path(home.env["HOME"], "made").exists()


def test_closed_input_while_it_asks_interrupts(home: Home) -> None:
    result = home.run("-p", "[[ask:touch made]]", input="")
    assert result.returncode == 128 + signal.SIGHUP
    assert home.events(session_of(result))[-1]["result"] == "interrupted"


def test_at_its_prompt_it_reads_further_ones_until_the_end_of_input(home: Home) -> None:
    result = home.run(input="one\n\n[[fail:x]]\ntwo")
    assert result.returncode == 0
    assert kinds(home.events(session_of(result))).count("prompt") == 3
    assert home.run(input="one\n[[fail:x]]\n").returncode == 1


def test_idle_keeps_it_alive_also_after_a_failure(home: Home) -> None:
    id, child = home.start("-p", "[[fail:x]] [[idle]]")
    home.wait_for_status(id, "idle")
    assert home.events(id)[-1]["result"] == "failed"
    assert child.poll() is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("prompt", ["[[sleep:300]]", "[[ask:true]]", "[[bash:sleep 300; true]]"])
def test_a_signal_ends_it_in_order(home: Home, number: signal.Signals, prompt: str) -> None:
    id, child = home.start("-p", prompt)
    home.wait_for_event(id, {"s": "prompt", "a": "ask", "b": "tool"}[prompt[2]])
    child.send_signal(number)
    assert child.wait(TIMEOUT) == 128 + number
    end = home.events(id)[-1]
    assert (end["event"], end["result"], end["reason"]) == ("turn_end", "interrupted", f"ended by {number.name}")
    assert home.process_file(id) is None


def test_a_signal_ends_the_tool_as_well(home: Home) -> None:
    id, child = home.start("-p", "[[bash:echo $$ > tool; sleep 300; true]]")
    written = Path(home.env["HOME"], "tool")
    tool = int(wait_until(lambda: written.exists() and written.read_text(), "the tool"))
    child.terminate()
    child.wait(TIMEOUT)
    with pytest.raises(ProcessLookupError):
        os.kill(tool, 0)
    assert [event["exit"] for event in home.events(id) if event["event"] == "tool_result"] == [-signal.SIGTERM]


def test_a_signal_at_the_prompt_interrupts_no_turn(home: Home) -> None:
    id, child = home.start("-p", "[[idle]]")
    home.wait_for_status(id, "idle")
    child.terminate()
    assert child.wait(TIMEOUT) == 143
    assert home.events(id)[-1]["result"] == "done"


@linux_only
def test_a_kill_leaves_the_process_file(home: Home) -> None:
    id, child = home.start("-p", "[[sleep:300]]")
    file = home.wait_for_status(id, "busy")
    row = snapshot().find(child.pid, file["start_ticks"])
    assert row is not None
    assert row.key == ProcessKey(file["boot_id"], file["pid"], file["start_ticks"])
    child.kill()
    child.wait(TIMEOUT)
    assert home.process_file(id) == file


# Its terminal


@pytest.mark.parametrize(
    ("typed", "line", "rest"),
    [
        (b"one\ntwo\n", "one", b"two\n"),
        (b"\nx", "", b"x"),
        (b"\x1b[200~one\ntwo\x1b[201~\nx", "one\ntwo", b"x"),
        (b"a \x1b[200~one\n\x1b[201~b\n", "a one\nb", b""),
        (b"ax\x7fb\n", "ab", b""),
        (b"\x7f\x7fa\n", "a", b""),
    ],
)
def test_a_line_as_a_terminal_has_it(typed: bytes, line: str, rest: bytes) -> None:
    found = inputs.first_line(typed)
    assert found is not None
    assert (inputs.typed(found[0]), found[1]) == (line, rest)


@pytest.mark.parametrize("typed", [b"", b"half", b"\x1b[200~one\ntwo\n", b"a\x1b[200~\n"])
def test_a_line_that_is_not_there_yet(typed: bytes) -> None:
    assert inputs.first_line(typed) is None


def test_a_paste_without_an_end_is_read_at_the_end_of_the_input(home: Home) -> None:
    result = home.run(input="\x1b[200~one\ntwo")
    assert result.returncode == 0
    assert [event["text"] for event in home.events(session_of(result)) if event["event"] == "prompt"] == ["one", "two"]


def test_the_key_that_ends_the_input_ends_it(home: Home) -> None:
    result = home.run(input="one\n\x04two\n")
    assert kinds(home.events(session_of(result))).count("prompt") == 1


# What a shell with job control does: it starts the agent in front, and takes the terminal back after Ctrl-Z.
SHELL = """
import fcntl, os, pathlib, signal, subprocess, sys, termios, time
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
front = lambda: (signal.signal(signal.SIGTTOU, signal.SIG_DFL), os.setpgid(0, 0))
agent = subprocess.Popen(sys.argv[2:], preexec_fn=front)
os.tcsetpgrp(0, agent.pid)
while not pathlib.Path(sys.argv[1]).exists() or '"busy"' in pathlib.Path(sys.argv[1]).read_text():
    time.sleep(0.02)
agent.send_signal(signal.SIGSTOP)
os.waitpid(agent.pid, os.WUNTRACED)
os.tcsetpgrp(0, os.getpgrp())
agent.send_signal(signal.SIGTERM)
agent.send_signal(signal.SIGCONT)
try:
    sys.exit(agent.wait(20))
finally:
    agent.kill()
"""


@linux_only
def test_one_that_was_suspended_at_its_terminal_ends_at_once(home: Home) -> None:
    """In the background, to set the terminal back would stop it again, and `stop` would wait for its whole grace."""
    id = str(uuid.uuid4())
    agent = [sys.executable, "-m", "agentctl.demo_agent", "--session-id", id, "-p", "[[idle]]"]
    process_file = home.folder(id) / "process.json"
    ours, its = os.openpty()
    try:
        shell = subprocess.Popen(
            [sys.executable, "-c", SHELL, str(process_file), *agent],
            stdin=its, stdout=its, stderr=subprocess.PIPE, env=home.env, start_new_session=True,
        )  # fmt: skip
        _, said = shell.communicate(timeout=TIMEOUT)
    finally:
        os.close(ours)
        os.close(its)
    assert shell.returncode == 128 + signal.SIGTERM, said
    assert not process_file.exists()


# What it does not know


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("-p", "[[slep:20]] [[text:hello]]"), "[[slep:20]]"),
        (("[[text:hello]] and [[quit]]",), "[[quit]]"),
        (("-p", "hello", "--script", "[[Text:hello]]"), "[[Text:hello]]"),
        (("-p", "[[text]]"), "[[text]]"),
        (("-p", "[[slep:two\nlines]]"), "[[slep:two lines]]"),
        (("-p", "[[idle:5]]"), "[[idle:5]]"),
    ],
)
def test_an_unknown_directive_is_a_usage_error(home: Home, words: tuple[str, ...], named: str) -> None:
    done = home.run(*words)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"agentctl-demo: unknown directive {named}; known: [[text:...]], [[sleep:...]], ")
    assert not home.root.exists()


def test_an_unknown_directive_of_standard_input_is_a_usage_error(home: Home) -> None:
    done = home.run("-p", "-", input="[[slep:20]]")
    assert (done.returncode, done.stdout) == (2, "")
    assert "unknown directive [[slep:20]]" in done.stderr


def test_an_unknown_directive_that_is_typed_fails_its_turn_alone(home: Home) -> None:
    done = home.run(input="[[slep:20]]\n[[text:heard]]\n")
    assert done.returncode == 0
    assert "error: unknown directive [[slep:20]]; known: " in done.stdout
    ends = [event["result"] for event in home.events(session_of(done)) if event["event"] == "turn_end"]
    assert ends == ["failed", "done"]


@pytest.mark.parametrize(
    "prompt", ["if [[ -e x ]]", "a[[0]]", "[[]]", "[[text:[[slep:20]]", "list[[1]]", "[[see: this"]
)
def test_other_brackets_are_text(home: Home, prompt: str) -> None:
    assert home.run("-p", prompt).returncode == 0


# Prompts that nobody types


def test_a_script_of_its_own_leaves_the_prompt_as_a_person_wrote_it(home: Home) -> None:
    done = home.run("-p", "Fix the typo.", "--script", "[[text:Fixed.]]")
    assert done.returncode == 0, done.stderr
    assert "Fixed." in done.stdout
    assert [event["text"] for event in home.events(session_of(done)) if event["event"] == "prompt"] == ["Fix the typo."]


def test_what_lies_in_the_mailbox_is_its_next_prompt(home: Home) -> None:
    id, _ = home.start("[[idle]]")
    home.wait_for_status(id, "idle")
    assert json.loads((home.folder(id) / "process.json").read_text())["mailbox"] is True
    (home.folder(id) / "prompt.new").write_text("[[text:heard]] [[idle]]")
    (home.folder(id) / "prompt.new").rename(home.folder(id) / "prompt")
    home.wait_for_event(id, "text")
    assert not (home.folder(id) / "prompt").exists()
    prompts = [event["text"] for event in home.events(id) if event["event"] == "prompt"]
    assert prompts == ["[[idle]]", "[[text:heard]] [[idle]]"]
