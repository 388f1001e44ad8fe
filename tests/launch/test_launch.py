"""launch and resume, with the real command on the demo agent: the id, the session, the end, and what goes wrong."""

from __future__ import annotations

import json
import os
import re
import signal
import time
import uuid
from argparse import Namespace
from typing import TYPE_CHECKING

import pytest

from agentctl.cli import launch_options
from agentctl.errors import LaunchFailed
from agentctl.launch import start
from agentctl.query.sessions import examine
from agentctl.workspace import locks
from tests.support.children import until
from tests.support.launch_home import LONG, TIMEOUT, UNTIL_TOLD, Home

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.linux


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    try:
        yield home
    finally:
        home.end_all()


def test_the_id_is_the_agents_own_and_it_is_listed_at_once(home: Home) -> None:
    id = home.launch(LONG, "--group", "g1")
    (row,) = home.listed()["sessions"]
    assert str(uuid.UUID(id)) == id == row["id"]
    assert (row["status"], row["link"], row["group"]) == ("running", "exact", "g1")
    launch = home.launch_of(id)
    assert row["launch_id"] == launch.id
    assert row["process_key"] == str(launch.child)
    assert home.session(id) == {**row, "tokens": home.session(id)["tokens"]}


def test_stdout_is_the_id_and_nothing_else(home: Home) -> None:
    found = home.agentctl("launch", "demo", "-p", "hello")
    assert found.stdout == home.launches()[0].session_id + "\n"  # type: ignore[operator]
    assert re.fullmatch(r"agentctl: launched demo in ~/work: (running|idle|done)\??\n", found.stderr), found.stderr


def test_json(home: Home) -> None:
    found = home.agentctl("launch", "demo", "-p", LONG, "--model", "demo-9", "--json")
    answer = json.loads(found.stdout)
    assert answer["schema"] == 1
    assert answer["session"]["status"] == "running"
    assert answer["session"]["id"] == home.listed()["sessions"][0]["id"]
    until(lambda: home.session(answer["session"]["id"])["model"] == "demo-9")


@pytest.mark.parametrize(
    ("prompt", "status", "code", "signal"),
    [("hello", "done", 0, None), ("[[fail:no such model]]", "failed", 1, None)],
)
def test_how_it_ended(home: Home, prompt: str, status: str, code: int | None, signal: str | None) -> None:
    id = home.agentctl("launch", "demo", "-p", f"[[sleep:0.5]]{prompt}").stdout.strip()
    home.until_status(id, status)
    home.wait_until_quiet()  # its runner has seen the end
    found = home.session(id)
    assert (found["status"], found["exit_code"], found["signal"]) == (status, code, signal)
    assert found["ended_at"] is not None


def test_killed_its_signal_is_known(home: Home) -> None:
    id = home.launch(LONG)
    from tests.support.launch_world import end_by_key

    end_by_key(home.launch_of(id).child)
    home.wait_until_quiet()
    found = home.session(id)
    assert (found["status"], found["exit_code"], found["signal"]) == ("stopped", None, "SIGKILL")
    assert "ended by SIGKILL" in found["reason"]


def test_it_outlives_the_command_and_its_terminal(home: Home) -> None:
    id = home.launch("[[sleep:1]][[text:still here]]")
    home.until_status(id, "done")
    assert any(event.get("text") == "still here" for event in home.events(id))


def test_a_nul_is_refused(home: Home) -> None:
    found = home.agentctl("launch", "demo", "-p", "-", input="a\0b")
    assert (found.returncode, found.stdout) == (2, "")
    assert "NUL" in found.stderr
    assert home.launches() == []


def test_files_and_specification_go_with_the_prompt(home: Home) -> None:
    (home.work / "a.py").write_text("print(1)\n")
    (home.work / "spec.md").write_text("All must be well.\n")
    id = home.launch("Do it.", "--file", "a.py", "--spec", "spec.md")
    until(lambda: any(event["event"] == "prompt" for event in home.events(id)))
    prompt = home.prompt_of(id)
    assert prompt.index("All must be well.") < prompt.index("print(1)") < prompt.index("Do it.")


def test_the_callers_environment_reaches_the_agent(home: Home) -> None:
    env = {**home.env, "CALLER": "says hello", "TAKEN": "away"}
    config = home.folder / "config" / "agentctl"
    config.mkdir(parents=True)
    (config / "config.toml").write_text('[agents.demo]\nunset = ["TAKEN"]\n')
    prompt = "[[bash:echo $CALLER, $ADDED, $AGENTCTL_LAUNCH, ${TAKEN-none}]]"
    id = home.launch(prompt, "--env", "ADDED=a=b", env=env)
    home.until_status(id, "done")
    (result,) = [event["output"] for event in home.events(id) if event["event"] == "tool_result"]
    assert result == f"says hello, a=b, {home.launch_of(id).id}, none\n"


def test_it_works_where_it_was_told_to(home: Home) -> None:
    there = home.folder_named("there")
    link = home.folder / "link"
    link.symlink_to(there)
    id = home.launch("[[bash:pwd -P]]", "--cwd", str(link))
    found = home.until_status(id, "done")
    assert found["cwd"] == there


def test_agents_own_flags(home: Home) -> None:
    id = home.launch("hello", "--", "--model", "demo-7")
    assert home.until_status(id, "done")["model"] == "demo-7"


def test_permissions_are_the_agents_own_unless_said_otherwise(home: Home) -> None:
    asks = home.launch("[[ask:true]]", "--cwd", home.folder_named("a"))
    assert home.until_status(asks, "waiting")["waiting_for"] == "permission to run: true"
    free = home.launch("[[ask:true]]", "--permissions", "bypass", "--cwd", home.folder_named("b"))
    home.until_status(free, "done")


def with_program(home: Home, name: str, script: str) -> dict[str, str]:
    """An environment in whose PATH a script stands under this name."""
    path = home.folder / "bin" / name
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return {**home.env, "PATH": f"{path.parent}:{home.env['PATH']}"}


# What goes wrong

WRONG: dict[str, tuple[list[str], int | tuple[int, ...], str]] = {
    "no prompt": (["demo"], 2, "no prompt"),
    "an empty one": (["demo", "-p", "  "], 2, "empty"),
    "no agent": (["-p", "x"], 2, "which agent"),
    "an unknown agent": (["nobody", "-p", "x"], 2, "unknown agent 'nobody'"),
    "an unknown mode": (["demo", "-p", "x", "--permissions", "plan"], 2, "no mode 'plan'"),
    "no such directory": (["demo", "-p", "x", "--cwd", "nowhere"], 2, "nowhere"),
    "no such file": (["demo", "-p", "x", "--file", "nothing.txt"], 2, "nothing.txt"),
    "no variable": (["demo", "-p", "x", "--env", "NAME"], 2, "NAME=VALUE"),
    "no time": (["demo", "-p", "x", "--timeout", "soon"], 2, "soon"),
    "no time at all": (["demo", "-p", "x", "--timeout", "0"], 2, "above zero"),
    "no number of an issue": (["demo", "-p", "x", "--issue", "four"], 2, "--issue four"),
    "an issue of no repository": (["demo", "-p", "x", "--issue", "4"], (1, 2), "--repo"),
    "a repository without an issue": (["demo", "-p", "x", "--repo", "a/b"], 2, "add --issue"),
    "a bad flag of the agent": (["demo", "-p", "x", "--", "--nonsense"], 1, "--nonsense"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong(home: Home, name: str) -> None:
    words, code, said = WRONG[name]
    found = home.agentctl("launch", *words)
    assert found.returncode in (code if isinstance(code, tuple) else (code,))
    assert found.stdout == ""
    assert said in found.stderr
    assert not any(word in found.stderr for word in ("Traceback", "Error:", "AGENTCTL_DEBUG"))
    assert home.listed("-a")["sessions"] == []


def test_a_missing_program_is_named_and_nothing_is_made(home: Home) -> None:
    empty = home.folder_named("bin")
    found = home.agentctl("launch", "codex", "-p", "x", env={**home.env, "PATH": empty})
    assert found.returncode == 1
    assert "codex: not found in PATH" in found.stderr
    assert not (home.state / "launches").exists()


def test_an_agent_that_dies_first_is_an_error_with_its_last_words(home: Home) -> None:
    env = with_program(home, "codex", "echo starting; echo 'not logged in' >&2; exit 3")
    found = home.agentctl("launch", "codex", "-p", "x", env=env)
    assert (found.returncode, found.stdout) == (1, "")
    assert "exit code 3" in found.stderr
    assert "not logged in" in found.stderr
    assert home.listed("-a")["sessions"] == []
    home.wait_until_quiet()


def test_an_id_that_does_not_come(home: Home) -> None:
    env = with_program(home, "codex", "exec sleep 60")
    found = home.agentctl("launch", "codex", "-p", "x", "--id-timeout", "1s", env=env)
    assert (found.returncode, found.stdout) == (124, "")
    (launch,) = home.launches()
    assert f"agentctl stop {launch.id}" in found.stderr
    assert home.living()


def test_progress_is_told_while_the_id_does_not_come(home: Home) -> None:
    env = with_program(home, "codex", "exec sleep 60")
    found = home.agentctl("launch", "codex", "-p", "x", "--id-timeout", "2s", env=env)
    assert "waiting for its session id" in found.stderr


def test_a_home_that_cannot_be_written(home: Home) -> None:
    home.state.mkdir()
    (home.state / "launches").write_text("a file in its place")
    found = home.agentctl("launch", "demo", "-p", "x")
    assert (found.returncode, found.stdout) == (4, "")
    assert str(home.state / "launches") in found.stderr
    assert home.listed("-a")["sessions"] == []


# Ctrl-C: whoever presses it learns what runs, and how to end it


def interrupted(child: subprocess.Popen[str]) -> tuple[str, str]:
    """What it printed; it ends at once."""
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=TIMEOUT)
    assert child.returncode == 130, err
    return out, err


def test_ctrl_c_before_the_id_is_known(home: Home) -> None:
    env = with_program(home, "codex", "exec sleep 60")
    child = home.start("launch", "codex", "-p", "x", env=env)
    until(lambda: bool(home.launches()))
    out, err = interrupted(child)
    (launch,) = home.launches()
    assert out == ""
    assert err.splitlines()[-1] == (
        f"agentctl: interrupted; it runs (pid {launch.child.pid}) as launch {launch.id}, and its session is not known "
        f"yet: `agentctl stop {launch.id}` ends it"
    )
    assert launch.child in home.living()
    assert home.agentctl("stop", launch.id).returncode == 0
    assert launch.child not in home.living()


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_ctrl_c_in_its_first_hook(home: Home, words: list[str]) -> None:
    child = home.start("launch", "demo", "-p", LONG, "--on-create", "touch begun; sleep 60", *words)
    until((home.work / "begun").exists)
    out, err = interrupted(child)
    (row,) = home.listed()["sessions"]
    assert out == ("" if words else f"{row['id']}\n")
    assert err == f"agentctl: interrupted; demo goes on, session {row['id']}: `agentctl stop {row['id']}` ends it\n"


def test_ctrl_c_before_it_is_started(home: Home) -> None:
    """It waits for another launch that looks at the same directory."""
    with locks.gate(home.env, str(home.work)):
        child = home.start("launch", "demo", "-p", LONG)
        time.sleep(1.0)
        out, err = interrupted(child)
    assert (out, err) == ("", "agentctl: interrupted before it was started; it does not run\n")
    assert (home.launches(), home.living()) == ([], [])


# One directory


def test_a_busy_directory_is_refused_by_name_and_forced(home: Home) -> None:
    first = home.launch(LONG)
    found = home.agentctl("launch", "demo", "-p", "x")
    assert (found.returncode, found.stdout) == (4, "")
    assert first[:8] in found.stderr
    assert "--force" in found.stderr
    home.launch(LONG, "--force")
    assert len(home.listed()["sessions"]) == 2
    home.launch("x", "--cwd", home.folder_named("elsewhere"))


def test_a_directory_is_free_when_its_holder_is_dead(home: Home) -> None:
    from tests.support.launch_world import end_by_key

    first = home.launch(LONG)
    end_by_key(home.launch_of(first).child)
    until(lambda: home.session(first)["status"] == "stopped")
    assert home.launch("x") != first


# Hooks


def test_a_hook_gets_the_directory_and_the_branch_that_agentctl_launched_into(home: Home) -> None:
    """What a transcript says of them, a model may have written: `git push origin $AGENTCTL_BRANCH` does not obey it."""
    id = home.launch("hello")
    home.wait_until_quiet()
    launch, session = home.launch_of(id), examine(id, home.env).answer.sessions[0]
    told = launch._replace(hooks=(("on-x", "echo $AGENTCTL_CWD $AGENTCTL_BRANCH > told.txt"),), branch="try/g/demo")
    start.run_hook("on-x", told, session._replace(cwd="/elsewhere", branch="main"), home.env)
    assert (home.work / "told.txt").read_text().split() == [launch.cwd, "try/g/demo"]


def test_hooks_run_with_what_is_known(home: Home) -> None:
    tell = "env | grep ^AGENTCTL_ | grep -v HOME= | sort >"
    id = home.launch(
        UNTIL_TOLD,
        *("--group", "g", "--on-create", f"{tell} created.txt", "--on-complete", f"{tell} completed.txt"),
    )
    created = dict(line.split("=", 1) for line in (home.work / "created.txt").read_text().splitlines())
    launch = home.launch_of(id).id
    assert created["AGENTCTL_SESSION_ID"] == id
    assert (created["AGENTCTL_AGENT"], created["AGENTCTL_ADAPTER"]) == ("demo", "demo")
    assert (created["AGENTCTL_CWD"], created["AGENTCTL_GROUP"]) == (str(home.work), "g")
    assert (created["AGENTCTL_LAUNCH"], created["AGENTCTL_STATUS"]) == (launch, "running")
    home.go()
    home.wait_until_quiet()
    completed = dict(line.split("=", 1) for line in (home.work / "completed.txt").read_text().splitlines())
    assert (completed["AGENTCTL_STATUS"], completed["AGENTCTL_EXIT_CODE"]) == ("done", "0")


def test_a_failing_hook_is_told_and_harms_nobody(home: Home) -> None:
    found = home.agentctl("launch", "demo", "-p", "[[sleep:1]]", "--on-create", "echo no; exit 3")
    assert found.returncode == 0
    assert "on-create" in found.stderr and "3" in found.stderr
    home.until_status(found.stdout.strip(), "done")


def test_a_failing_hook_is_told_though_the_caller_ignores_the_ends_of_children(home: Home) -> None:
    """Who ignores SIGCHLD hands that on to what it executes: the kernel then keeps no exit code for anybody."""
    words = ("launch", "demo", "-p", "hello", "--on-create", "exit 3")
    found = home.agentctl(*words, preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    assert found.returncode == 0, found.stderr
    assert "on-create failed (exit code 3)" in found.stderr


def test_on_complete_runs_once_after_a_kill(home: Home) -> None:
    from tests.support.launch_world import end_by_key

    id = home.launch(LONG, "--on-complete", "echo $AGENTCTL_STATUS >> ends.txt")
    end_by_key(home.launch_of(id).child)
    home.wait_until_quiet()
    assert (home.work / "ends.txt").read_text() == "stopped\n"
    again = home.agentctl("_over", home.launch_of(id).id)
    assert again.returncode == 0
    assert (home.work / "ends.txt").read_text() == "stopped\n"


@pytest.mark.parametrize(("wait", "code"), [(True, 6), (False, None)])
def test_one_that_had_failed_before_its_id_was_told(
    home: Home, monkeypatch: pytest.MonkeyPatch, wait: bool, code: int | None
) -> None:
    """How fast it failed is a matter of chance: who waits for its end has the exit code of `wait`."""
    id = home.agentctl("launch", "demo", "-p", "[[fail:no such model]]").stdout.strip()
    home.until_status(id, "failed")
    home.wait_until_quiet()
    for name, value in home.env.items():
        monkeypatch.setenv(name, value)
    session = examine(id, home.env).answer.sessions[0]
    args = Namespace(wait=wait, json=False, on_create=None, quiet=False)
    if code is None:
        with pytest.raises(LaunchFailed, match="ended at once with exit code 1"):
            launch_options.answer(session, args, "launched")
    else:
        assert launch_options.answer(session, args, "launched") == code


# Resume


def test_resume_goes_on_under_the_same_id_in_its_own_directory(home: Home) -> None:
    there = home.folder_named("there")
    id = home.launch("one", "--cwd", there, "--model", "demo-5", "--group", "g")
    home.until_status(id, "done")
    found = home.agentctl("resume", id[:8], "two")
    assert (found.returncode, found.stdout.strip()) == (0, id)
    done = home.until_status(id, "done")
    assert (done["cwd"], done["model"], done["group"]) == (there, "demo-5", "g")
    assert [event["text"] for event in home.events(id) if event["event"] == "prompt"] == ["one", "two"]
    assert len(home.listed("-a")["sessions"]) == 1


def test_resume_says_running_before_the_new_prompt_is_stored(home: Home) -> None:
    id = home.launch("one")
    home.until_status(id, "done")
    found = home.agentctl("resume", id, LONG, "--json")
    assert json.loads(found.stdout)["session"]["status"] == "running"


@pytest.mark.parametrize("words", [("list", "--group"), ("wait", "--group"), ("stop", "--group"), ("compare",)])
def test_a_group_that_is_not_found_names_the_launch_that_could_not_be_read(home: Home, words: tuple[str, ...]) -> None:
    id = home.launch("be quick", "--group", "night")
    home.until_ended(id, "done")
    path = home.launch_of(id).path or ""
    with open(path, "w") as file:
        file.write("{")
    done = home.agentctl(*words, "night")
    assert done.returncode == 5
    assert f"not read: {path}" in done.stderr


def test_a_text_for_a_launch_that_has_ended_is_refused_as_for_its_session(home: Home) -> None:
    """Its screen is gone: `attach`, which the answer names, refuses it, too."""
    id = home.launch("be quick")
    home.until_ended(id, "done")
    said = home.agentctl("send", id, "more").stderr
    assert f"to continue it: agentctl resume {id} TEXT" in said
    assert home.agentctl("send", home.launch_of(id).id, "more").stderr == said


def test_a_second_writer_is_refused(home: Home) -> None:
    id = home.launch(LONG)
    for words in ([], ["--force"]):
        found = home.agentctl("resume", id, "two", *words)
        assert (found.returncode, found.stdout) == (4, "")
        assert "one process on a session" in found.stderr
    assert len(home.launches()) == 1


def test_resume_of_nothing(home: Home) -> None:
    found = home.agentctl("resume", "0000", "x")
    assert found.returncode == 3


def test_resume_where_its_directory_is_gone(home: Home) -> None:
    there = home.folder_named("there")
    id = home.launch("one", "--cwd", there)
    home.until_status(id, "done")
    home.wait_until_quiet()
    os.rmdir(there)
    found = home.agentctl("resume", id, "two")
    assert found.returncode == 1
    assert there in found.stderr


def test_a_launch_is_dated_to_the_millisecond(home: Home) -> None:
    """A turn that ended in the same second, before it, is not its own."""
    id = home.launch("one")
    ended = [event["at"] for event in home.events(id) if event["event"] == "turn_end"] or ["9"]
    written = json.loads((home.state / "launches" / home.launch_of(id).id / "launch.json").read_text())["created_at"]
    assert len(written) == len("2026-01-01T00:00:00.000Z")
    assert written < ended[0]


def test_an_issue_goes_with_the_prompt(home: Home) -> None:
    bin = home.folder / "bin"
    bin.mkdir()
    program = bin / "gh"
    program.write_text(
        '#!/bin/sh\necho "$@" > "$HOME/asked"\n'
        """echo '{"title": "It fails", "body": "On Mondays.", "url": "https://example.org/o/r/issues/42"}'\n"""
    )
    program.chmod(0o755)
    env = {**home.env, "PATH": f"{bin}:{home.env['PATH']}"}
    id = home.launch("Mend it.", "--issue", "42", "--repo", "o/r", env=env)
    until(lambda: any(event["event"] == "prompt" for event in home.events(id)))
    prompt = home.prompt_of(id)
    assert prompt.index("It fails") < prompt.index("On Mondays.") < prompt.index("Mend it.")
    assert (home.folder / "asked").read_text().startswith("issue view 42 --repo o/r")
