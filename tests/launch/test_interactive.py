"""`launch --interactive`, `resume --interactive` and `attach`, in the stand-in for tmux."""

from __future__ import annotations

import json
import os
import shlex
import socket
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from agentctl.errors import NoSessionYet
from agentctl.launch import group, interactive, start
from agentctl.launches import records
from agentctl.model import Launch
from tests.support.children import until
from tests.support.launch_home import LONG
from tests.support.screen_home import ScreenHome

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.linux
ASKS = "#!/bin/sh\necho 'Do you trust this folder?'\necho '  1. Yes   2. No'\nexec sleep 300\n"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[ScreenHome]:
    home = ScreenHome(tmp_path)
    try:
        yield home
    finally:
        home.end_all()


def launch_of(home: ScreenHome, id: str) -> Launch:
    found = records.read(id, home.env)
    assert isinstance(found, Launch)
    return found


# Launching


def test_the_id_is_the_agents_own_and_its_screen_is_a_session_named_after_the_launch(home: ScreenHome) -> None:
    found = home.agentctl("launch", "--interactive", "demo", "--prompt=--hello", "--group", "g")
    assert found.returncode == 0, found.stderr
    id = found.stdout.strip()
    launch = home.launch_of(id)
    (opened,) = [call for call in home.calls() if "new-session" in call]
    assert opened[opened.index("-s") + 1] == f"agentctl-{launch.id}"
    assert f"agentctl attach {launch.id}" in found.stderr
    assert (launch.headless, launch.one_shot, launch.group) == (False, False, "g")
    row = home.until_status(id, "idle")
    assert (row["link"], row["launch_id"], row["prompt"]) == ("exact", launch.id, "--hello")
    assert row["terminal"]["tmux"] == "%0"
    assert row["terminal"]["tmux_session"] == f"agentctl-{launch.id}"
    (listed,) = home.listed()["sessions"]
    assert listed["terminal"] == {"tty": row["terminal"]["tty"], "tmux": None}  # a list asks nobody


def test_a_tmux_that_fails_after_it_opened_the_pane_has_started_the_agent(home: ScreenHome) -> None:
    home.set("fails-late", "no answer")
    found = home.agentctl("launch", "--interactive", "demo", "-p", "hello")
    assert found.returncode == 0 and "nothing was started" not in found.stderr, found.stderr
    home.until_status(found.stdout.strip(), "idle")


def test_a_tmux_that_fails_has_started_nothing(home: ScreenHome) -> None:
    home.set("fails", "no server")
    found = home.agentctl("launch", "--interactive", "demo", "-p", "hello")
    assert found.returncode == 1 and "nothing was started" in found.stderr, found.stderr
    assert home.listed()["unattached"] == [] and home.launches() == []


def test_no_prompt_and_no_secret_stands_in_the_words_for_tmux(home: ScreenHome) -> None:
    home.env["OWN"] = "hush-one"
    home.open("-p", "a private prompt", "--env", "OTHER=hush-two")
    said = json.dumps(home.calls())
    assert "private" not in said
    assert "hush" not in said


def test_the_callers_environment_reaches_it_and_the_terminal_is_the_panes(home: ScreenHome) -> None:
    home.env |= {"OWN": "é\n", "TMUX_PANE": "%77"}
    id = home.open("-p", "[[bash:env -0 > env]]", "--permissions", "bypass")
    until(lambda: (home.work / "env").exists())
    home.until_status(id, "idle")
    env = dict(word.split("=", 1) for word in (home.work / "env").read_text().split("\0") if word)
    assert (env["OWN"], env["TMUX_PANE"], env["AGENTCTL_LAUNCH"]) == ("é\n", "%0", home.launch_of(id).id)


def test_without_a_prompt_it_is_at_its_prompt(home: ScreenHome) -> None:
    id = home.open()
    assert home.prompts(id) == []
    assert home.session(id)["prompt"] is None


def test_without_tmux_nothing_is_started_and_it_is_said_what_to_do(home: ScreenHome) -> None:
    (home.bin / "tmux").unlink()
    home.env["PATH"] = str(home.bin)
    found = home.agentctl("launch", "--interactive", "demo", "-p", "x")
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr.count("\n") == 1
    assert "install it" in found.stderr
    assert "without --interactive" in found.stderr
    assert home.launches() == []


def test_a_tmux_that_fails_starts_nothing(home: ScreenHome) -> None:
    home.set("fails", "no space left")
    found = home.agentctl("launch", "--interactive", "demo", "-p", "x")
    assert (found.returncode, found.stdout) == (1, "")
    assert "no space left; nothing was started" in found.stderr
    assert os.listdir(home.state / "launches") == []


def test_an_agent_that_dies_at_once_is_told_with_what_its_screen_showed(home: ScreenHome) -> None:
    home.program("claude", "#!/bin/sh\necho 'not logged in: run claude login'\nexit 3\n")
    found = home.agentctl("launch", "--interactive", "claude", "-p", "x")
    assert (found.returncode, found.stdout) == (1, "")
    assert "exit code 3" in found.stderr
    assert "not logged in" in found.stderr
    assert [call[-1] for call in home.calls() if "kill-session" in call] == ["$0"]


def test_a_prompt_that_is_too_long_for_a_command_line(home: ScreenHome) -> None:
    found = home.agentctl("launch", "--interactive", "demo", "-p", "-", input="x" * 130_000)
    assert found.returncode == 2
    assert "put it into a file" in found.stderr


def test_an_agent_that_begins_late_is_left_at_its_prompt_with_the_launch_id(home: ScreenHome) -> None:
    home.program("opencode", "#!/bin/sh\nexec sleep 300\n")
    found = home.agentctl("launch", "--interactive", "opencode")
    assert found.returncode == 0, found.stderr
    launch = launch_of(home, found.stdout.strip())
    assert "no session yet" in found.stderr
    assert f"agentctl attach {launch.id}" in found.stderr
    assert home.agentctl("attach", launch.id, "--print").stdout.startswith("tmux -S ")
    assert home.agentctl("stop", launch.id).returncode == 0


def test_the_same_as_json(home: ScreenHome) -> None:
    home.program("opencode", "#!/bin/sh\nexec sleep 300\n")
    found = json.loads(home.agentctl("launch", "--interactive", "opencode", "--json").stdout)
    assert found == {"schema": 1, "session": None, "launch_id": launch_of(home, found["launch_id"]).id}


def test_a_dialog_is_told_by_what_the_screen_shows_and_nothing_is_typed(
    home: ScreenHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.program("claude", ASKS)
    monkeypatch.setattr(interactive, "STILL", 0.2)
    request = start.Request("claude-code", "x", str(home.work), home.env, interactive=True)
    with pytest.raises(NoSessionYet, match=r"waits for a person; it shows:\n  Do you trust") as told:
        group.launch_one(start.prepare(request, home.env), home.env, lambda _: None)
    assert launch_of(home, told.value.launch_id).session_id is not None  # chosen by us, and taken by nobody yet
    assert not [call for call in home.calls() if "send-keys" in call or "paste-buffer" in call]


def test_a_screen_that_is_empty_is_being_started() -> None:
    class Empty(interactive.Watcher):
        def lines(self) -> list[str]:
            self._since = 0.0
            return []

    assert not Empty(None, {}).is_still()  # type: ignore[arg-type]


def test_wait_and_the_hook_and_the_time_limit_work_as_without_a_screen(home: ScreenHome) -> None:
    hook = 'echo "$AGENTCTL_SESSION_ID" > hooked'
    words = ("-p", LONG, "--timeout", "1s", "--wait", "--on-complete", hook)
    found = home.agentctl("launch", "--interactive", "demo", *words)
    assert found.returncode == 124, found.stderr
    id = found.stdout.partition("\n")[0]
    until(lambda: (home.work / "hooked").exists())
    assert home.session(id)["status"] == "stopped"


def test_the_session_that_a_screen_began_with_is_noted_once(tmp_path: Path) -> None:
    assert records.noted_session(str(tmp_path)) is None
    records.note_session(str(tmp_path), "ses_1")
    records.note_session(str(tmp_path), "ses_2")
    assert records.noted_session(str(tmp_path)) == "ses_1"
    for torn in (b"", b"ses_1", b"\n", b"\xff\n", b"a\nb\n", b"x" * 300):
        (tmp_path / "session").write_bytes(torn)
        assert records.noted_session(str(tmp_path)) is None


# Going on


def test_a_session_goes_on_in_a_screen(home: ScreenHome) -> None:
    id = home.launch("hello")
    home.until_status(id, "done")
    found = home.agentctl("resume", "--interactive", id)
    assert (found.returncode, found.stdout) == (0, f"{id}\n"), found.stderr
    assert home.until_status(id, "idle")["terminal"]["tmux"] == "%0"


# Attaching


def test_the_command_that_goes_there(home: ScreenHome) -> None:
    id = home.open()
    found = home.agentctl("attach", id[:8], "--print")
    words = shlex.split(found.stdout)
    server = f"{home.env['TMUX_TMPDIR']}/tmux-{os.getuid()}/default"
    assert words[:3] == ["tmux", "-S", server]
    assert words[-3:] == ["attach-session", "-t", "$0"]
    inside = home.agentctl("attach", id, "--print", env={**home.env, "TMUX": f"{server},1,0"})
    assert "switch-client" in inside.stdout


def test_without_a_terminal_of_ours_it_is_not_run(home: ScreenHome) -> None:
    found = home.agentctl("attach", home.open())
    assert found.returncode == 4
    assert "--print" in found.stderr


def test_from_another_server_it_is_said_how(home: ScreenHome) -> None:
    id = home.open()
    other = home.folder / "other"
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(str(other))
    found = home.agentctl("attach", id, env={**home.env, "TMUX": f"{other},1,0"})
    assert found.returncode == 4
    assert "another tmux server" in found.stderr


def test_one_that_runs_headless_has_no_screen(home: ScreenHome) -> None:
    id = home.launch(LONG)
    found = home.agentctl("attach", id)
    assert found.returncode == 4
    assert f"agentctl peek -f {id}" in found.stderr
    assert f"agentctl resume --interactive {id}" in found.stderr


def test_one_that_has_ended_is_gone_on_with(home: ScreenHome) -> None:
    id = home.launch("hello")
    home.until_status(id, "done")
    assert f"agentctl resume --interactive {id}" in home.agentctl("attach", id).stderr


def test_a_terminal_that_is_no_pane_is_named(home: ScreenHome) -> None:
    id = home.open()
    tty = home.session(id)["terminal"]["tty"]
    (home.tmux / "pane").rename(home.tmux / "away")
    found = home.agentctl("attach", id, "--print")
    assert found.returncode == 4
    assert f"in the terminal {tty}" in found.stderr


def test_a_server_that_does_not_answer_is_told(home: ScreenHome) -> None:
    id = home.open()
    home.set("hangs-default")
    found = home.agentctl("attach", id, "--print")
    assert found.returncode == 4
    assert "no answer within" in found.stderr
    asked = home.agentctl("status", id)
    assert asked.returncode == 0
    assert "tmux could not be read" in asked.stderr
    assert home.agentctl("list").stderr == ""
