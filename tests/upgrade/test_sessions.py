"""Sessions that the version before the rooms launched: the version at hand lists them, waits for them, stops them, goes
on with them and takes their folders away; and their on-complete runs, once."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from agentctl.launches import records
from agentctl.stop import plan
from tests.support.children import until
from tests.support.launch_home import LONG, UNTIL_TOLD, Home
from tests.support.launch_world import gone
from tests.support.upgrade_home import IN_PLACE, NEW, agrees, exit_codes, install, launched, upgrade, words_of

if TYPE_CHECKING:
    from pathlib import Path

    from agentctl.model import Launch, ProcessKey

pytestmark = pytest.mark.linux

FAILS = "[[fail:no such model]]"
A_WHILE = 0.5  # seconds in which a command that does not wait would be over
LIMIT = 6.0  # seconds: a time limit that the old version sets, and under the new one is reached
# The hook notes what it was told, and where the agentctl is that runs it.
TOLD = "$AGENTCTL_LAUNCH $AGENTCTL_SESSION_ID $AGENTCTL_STATUS $AGENTCTL_EXIT_CODE $AGENTCTL_GROUP"
HOOK = f'echo {TOLD} $(readlink "$PYTHONPATH/agentctl") >> "$HOME/ran"'


def launch(home: Home, prompt: str, *words: str) -> tuple[str, Launch]:
    """By the old version: the session, and what is known of its launch."""
    id = home.launch(prompt, "--on-complete", HOOK, "--group", "g", *words)
    return id, launched(home, id)


def ran(home: Home) -> list[list[str]]:
    """What the hook noted, each time that it ran."""
    path = home.folder / "ran"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def told(id: str, launch: Launch, status: str, code: str, package: Path) -> list[str]:
    return [word for word in (launch.id, id, status, code, "g", str(package)) if word]


def stop(home: Home, *words: str, code: int = 0) -> list[dict[str, Any]]:
    done = home.agentctl("stop", "--json", *words)
    assert done.returncode == code, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["stopped"]
    return found


@pytest.mark.parametrize(
    ("prompt", "status", "code", "waited"), [("hello", "done", 0, 0), (FAILS, "failed", 1, 6)], ids=["done", "failed"]
)
def test_listed_and_waited_for_and_its_hook_runs_once(
    home: Home, old: Path, way: str, prompt: str, status: str, code: int, waited: int
) -> None:
    id, launch_ = launch(home, UNTIL_TOLD + prompt)
    before = home.session(id)
    upgrade(home, way)

    listing = home.listed()
    (row,) = listing["sessions"]
    assert (listing["unattached"], listing["problems"]) == ([], [])
    assert (row["id"], row["status"], row["link"], row["inferred"]) == (id, "running", "exact", False)
    assert (row["process_key"], row["launch_id"], row["group"]) == (str(launch_.child), launch_.id, "g")
    assert agrees(before, home.session(id))
    why = json.loads(home.agentctl("why", id, "--json").stdout)
    assert (agrees(before, why["session"]), why["rejected"], why["certified"]) == (True, [], True)

    waiting = home.start("wait", id)
    time.sleep(A_WHILE)
    assert waiting.poll() is None
    home.go()
    said, complained = waiting.communicate(timeout=30)
    assert waiting.returncode == waited, (said, complained)
    home.wait_until_quiet()
    assert exit_codes(home, launch_) == [code]
    found = home.session(id)
    assert (found["status"], found["exit_code"], found["signal"]) == (status, code, None)
    assert home.agentctl("wait", id).returncode == waited
    # The exit code is told if the runner noted it before the hook was asked for; and so it does.
    assert ran(home) == [told(id, launch_, status, str(code), NEW if way == IN_PLACE else old)]
    (noted,) = (home.state / "launches" / launch_.id / "hooks.jsonl").read_text().splitlines()
    assert (json.loads(noted)["name"], json.loads(noted)["exit_code"]) == ("on-complete", 0)


@pytest.mark.parametrize(("prompt", "waited"), [("hello", 0), (FAILS, 6)], ids=["done", "failed"])
def test_a_wait_outlives_its_own_version(home: Home, old: Path, prompt: str, waited: int) -> None:
    """A command that waits may find another version in its place in the end: its answer and its exit code are its own.
    The other version here is the old one, in which no module has the name that it has now."""
    install(home, NEW)
    id = home.launch(UNTIL_TOLD + prompt)
    waiting = home.start("wait", id)
    time.sleep(A_WHILE)
    assert waiting.poll() is None
    install(home, old)
    home.go()
    said, complained = waiting.communicate(timeout=30)
    assert (waiting.returncode, "rror" in complained) == (waited, False), (said, complained)


# Stopped


def living(*keys: ProcessKey) -> list[bool]:
    return [not gone(key) for key in keys]


@pytest.mark.parametrize("by", ["session", "launch", "group"])
def test_stopped_with_its_tools(home: Home, way: str, by: str) -> None:
    id, launch_ = launch(home, "[[bash:sleep 300; true]]")
    until(lambda: len(home.living()) == 4)  # the runner, the agent, its shell, and what that runs
    keys = home.living()
    assert {launch_.runner, launch_.child} < {*keys}
    upgrade(home, way)
    (found,) = stop(home, *{"session": [id], "launch": [launch_.id], "group": ["--group", "g"]}[by])
    assert (found["id"], found["launch_id"], found["outcome"]) == (id, launch_.id, "stopped")
    assert (found["left"], found["living"]) == ([], [])
    assert {one["part"] for one in found["ended"]} == {"agent", "tool"}
    home.wait_until_quiet()  # the runner ran the hook, and has left
    assert living(*keys) == [False] * 4
    (end,) = exit_codes(home, launch_)
    session = home.session(id)
    assert session["status"] == "stopped"
    assert end is not None and end in (session["signal"], session["exit_code"])
    assert [line[:3] for line in ran(home)] == [[launch_.id, id, "stopped"]]
    assert home.agentctl("wait", id).returncode == 7
    (again,) = stop(home, id)
    assert (again["outcome"], again["ended"]) == ("gone", [])


def test_stopped_as_a_group(home: Home, way: str) -> None:
    """Of the old version and of the new one, which have a group in common."""
    first, _ = launch(home, LONG)
    second, _ = launch(home, LONG, "--cwd", home.folder_named("elsewhere"))
    upgrade(home, way)
    third = home.launch(LONG, "--group", "g", "--cwd", home.folder_named("new"))
    assert {row["id"] for row in home.listed("--group", "g")["sessions"]} == {first, second, third}
    waiting = home.start("wait", "--group", "g")
    found = stop(home, "--group", "g")
    assert {(one["id"], one["outcome"]) for one in found} == {(id, "stopped") for id in (first, second, third)}
    waiting.communicate(timeout=30)
    assert waiting.returncode == 7
    home.wait_until_quiet()
    assert sorted(line[1] for line in ran(home)) == sorted([first, second])


def test_a_runner_of_the_old_version_is_no_tool(home: Home, old: Path, way: str, tmp_path: Path) -> None:
    """An agent launched another one, in another state folder: only its arguments tell that its runner is one."""
    (tmp_path / "inner").mkdir()
    inner = Home(tmp_path / "inner")
    inner.env["PYTHONPATH"] = home.env["PYTHONPATH"]
    variables = " ".join(f"{name}='{value}'" for name, value in inner.env.items())
    words = f"{sys.executable} -P -m agentctl launch demo -p '{LONG}' --cwd '{inner.work}'"
    (home.work / "inner.sh").write_text(f"env -u {records.MARKER} {variables} {words}\n")
    try:
        id, launch_ = launch(home, f"[[bash:sh inner.sh]]{LONG}")
        until(lambda: any(event["event"] == "tool_result" for event in home.events(id)))
        (other,) = inner.launches()
        assert plan.runner_in(tuple(words_of(other.runner))) == other.id
        upgrade(home, way)
        found, *_ = stop(home, id, "--tree")  # arguments do not prove whose runner it is: it is left, and named
        assert found["outcome"] == "stopped"
        assert [(one["pid"], one["why"], one["id"]) for one in found["left"]] == [(other.runner.pid, "ours", None)]
        assert living(launch_.child, other.runner, other.child) == [False, True, True]
        inner.env["PYTHONPATH"] = home.env["PYTHONPATH"]
        assert stop(inner, other.id)[0]["outcome"] == "stopped"
        inner.wait_until_quiet()
        home.wait_until_quiet()
    finally:
        inner.end_all()
    assert [line[:3] for line in ran(home)] == [[launch_.id, id, "stopped"]]


def test_a_time_limit_of_the_old_version(home: Home) -> None:
    """Its runner runs `agentctl stop`, and that is the new one by then."""
    id, launch_ = launch(home, "[[bash:sleep 300]]", "--timeout", f"{LIMIT:g}s")
    upgrade(home, IN_PLACE)
    assert home.session(id)["status"] == "running"
    assert home.agentctl("wait", id).returncode == 7
    home.wait_until_quiet()
    assert home.session(id)["status"] == "stopped"
    took = records.exits(launch_.id, home.env)[0].at or 0.0
    assert took - launch_.created_at >= LIMIT
    assert [line[:3] + line[-1:] for line in ran(home)] == [[launch_.id, id, "stopped", str(NEW)]]
    words = (home.state / "launches" / launch_.id / records.COMMANDS).read_text()
    assert "stopped" in words and "rror" not in words


# What has ended


def ended(home: Home, prompt: str) -> str:
    """The session of an agent that the old version launched, once it and its runner are gone."""
    id = home.agentctl("launch", "demo", "-p", prompt, "--group", "g", "--wait").stdout.split()[0]
    home.wait_until_quiet()
    assert home.launch_of(id).argv[1:4] == ("-P", "-m", "agentctl.demo")
    return id


def ends(home: Home) -> dict[str, tuple[str, int | None, str | None]]:
    rows = home.listed("-a", "--since", "all")["sessions"]
    return {row["id"]: (row["status"], row["exit_code"], row["group"]) for row in rows}


def test_what_ended_before_is_listed_and_resumed(home: Home, way: str) -> None:
    done, failed = ended(home, "hello"), ended(home, FAILS)
    before = {id: home.session(id) for id in (done, failed)}
    upgrade(home, way)
    assert ends(home) == {done: ("done", 0, "g"), failed: ("failed", 1, "g")}
    assert agrees(before, {id: home.session(id) for id in (done, failed)})
    resumed = home.agentctl("resume", failed, f"{UNTIL_TOLD}again", "--on-complete", HOOK)
    assert (resumed.returncode, resumed.stdout) == (0, f"{failed}\n"), resumed.stderr
    assert home.session(failed)["status"] == "running"
    assert home.session(failed)["group"] == "g"
    home.go()
    assert home.agentctl("wait", failed).returncode == 0
    home.wait_until_quiet()
    assert ends(home) == {done: ("done", 0, "g"), failed: ("done", 0, "g")}
    old_one, new_one = [one for one in home.launches() if one.session_id == failed]
    assert (exit_codes(home, old_one), exit_codes(home, new_one)) == ([1], [0])
    assert [line[:4] for line in ran(home)] == [[new_one.id, failed, "done", "0"]]


def test_what_ended_before_goes_when_it_is_due(home: Home, way: str) -> None:
    """And what lives stays."""
    past = home.launch_of(ended(home, "hello"))
    id, lives = launch(home, LONG)
    upgrade(home, way)

    def prune() -> tuple[list[str], dict[str, str]]:
        found = json.loads(home.agentctl("prune", "--json").stdout)
        assert found["problems"] == []
        return found["removed"], {one["launch_id"]: one["why"] for one in found["kept"]}

    removed, kept = prune()
    assert (removed, {*kept}) == ([], {past.id, lives.id})
    assert "stays for 7d" in kept[past.id]
    (home.folder / "config" / "agentctl").mkdir(parents=True)
    (home.folder / "config" / "agentctl" / "config.toml").write_text("retention = 0.01\n")
    removed, kept = prune()
    assert (removed, {*kept}) == ([past.id], {lives.id})
    assert str(lives.runner.pid) in kept[lives.id]
    assert home.session(id)["launch_id"] == lives.id
    assert home.session(past.session_id or "")["launch_id"] is None
