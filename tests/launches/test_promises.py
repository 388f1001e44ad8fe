"""What a launch promised, once its runner is gone: no answer keeps silent about it."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from agentctl.launches import hooks, promises
from agentctl.model import Launch, ProcessKey
from tests.support.children import until
from tests.support.launch_home import LONG, Home
from tests.support.launch_world import end_by_key, gone

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.linux
RUNNER, CHILD = ProcessKey("b", 5, 50), ProcessKey("b", 6, 60)
HOOK = (("on-complete", "true"),)


class Table:
    """A process table that has these processes."""

    def __init__(self, *living: ProcessKey) -> None:
        self.living = living

    def gone(self, key: ProcessKey) -> bool:
        return key not in self.living


@pytest.mark.parametrize(
    ("fields", "living", "files", "what"),
    [
        ({}, (), (), []),
        ({"hooks": HOOK}, (RUNNER,), (), []),  # it is about to run it
        ({"hooks": HOOK}, (RUNNER, CHILD), (), []),
        ({"hooks": HOOK}, (), (), ["was not run"]),
        ({"hooks": HOOK}, (CHILD,), (), ["will not be run"]),
        ({"hooks": HOOK}, (), ("mark",), ["how it ended is not known"]),
        ({"hooks": HOOK}, (), ("mark", "result"), []),
        ({"hooks": (("on-create", "true"),)}, (), (), []),
        ({"time_limit": 90.0}, (CHILD,), (), ["its time limit of 1m30s is not kept"]),
        ({"time_limit": 90.0}, (RUNNER, CHILD), (), []),
        ({"time_limit": 90.0}, (), (), []),  # it has ended
        ({"time_limit": 90.0, "hooks": HOOK}, (CHILD,), (), ["will not be run", "is not kept"]),
    ],
)
def test_what_is_lost(
    tmp_path: Path, fields: dict[str, Any], living: tuple[ProcessKey, ...], files: tuple[str, ...], what: list[str]
) -> None:
    if "mark" in files:
        assert hooks.mark_completed(str(tmp_path))
    if "result" in files:
        hooks.note(str(tmp_path), hooks.ON_COMPLETE, hooks.HookResult(0, False, 0.1))
    path = str(tmp_path / "launch.json")
    launch = Launch("l1", "demo", (), (), "/w", RUNNER, CHILD, 0.0, True, True, path=path, **fields)
    found = promises.lost(launch, Table(*living))  # type: ignore[arg-type]
    assert len(found) == len(what)
    for one, words in zip(found, what, strict=True):
        assert words in one.said and "l1" in one.said
        assert one.command is None or one.command in one.said


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    try:
        yield home
    finally:
        home.end_all()


def without_runner(home: Home, prompt: str, *words: str) -> tuple[str, str]:
    """Return a session and its launch, whose runner was killed."""
    id = home.launch(prompt, *words)
    launch = home.launch_of(id)
    end_by_key(launch.runner)
    until(lambda: gone(launch.runner))
    return id, launch.id


def said_by(home: Home, verb: str, id: str) -> tuple[str, list[str]]:
    """Return what a person reads, and what a program reads of the promises."""
    words = ("list", "-a") if verb == "list" else (verb, id)
    shown = home.agentctl(*words)
    found = json.loads(home.agentctl(*words, "--json").stdout.splitlines()[-1] if verb == "wait" else
                       home.agentctl(*words, "--json").stdout)  # fmt: skip
    return shown.stdout + shown.stderr, [one["what"] for one in found["not_kept"]]


def test_a_hook_whose_runner_was_killed_is_named_and_can_be_run_once_by_hand(home: Home) -> None:
    ran = home.folder / "ran"
    id, launch = without_runner(home, "[[bash:while [ ! -e go ]; do sleep 0.02; done]]", "--on-complete",
                                f"echo $AGENTCTL_STATUS >> {ran}", "--", "--yes")  # fmt: skip
    over = ("_over", launch)
    assert home.agentctl(*over).returncode == 75 and not ran.exists()  # its session lives
    assert "will not be run" in said_by(home, "status", id)[0]
    home.go()
    home.until_status(id, "done")
    for verb in ("status", "why", "wait", "list"):
        shown, kept = said_by(home, verb, id)
        assert kept == ["on-complete"], verb
        wanted = f"on-complete of launch {launch}" if verb == "list" else f"agentctl _over {launch}"
        assert wanted in " ".join(shown.split()), (verb, shown)
    assert [home.agentctl(*over).returncode for _ in range(2)] == [0, 0]
    assert ran.read_text() == "done\n"
    assert [said_by(home, verb, id)[1] for verb in ("status", "why", "wait", "list")] == [[], [], [], []]


def test_a_time_limit_that_nobody_keeps_is_named(home: Home) -> None:
    id, launch = without_runner(home, LONG, "--timeout", "10m")
    for verb in ("status", "why", "list"):
        shown, kept = said_by(home, verb, id)
        assert kept == ["time-limit"], verb
        assert launch in shown and "not kept" in shown
    assert home.agentctl("stop", launch).returncode == 0
    assert said_by(home, "status", id)[1] == []


def test_nothing_is_said_of_promises_that_are_kept(home: Home) -> None:
    id = home.launch(LONG, "--timeout", "10m", "--on-complete", "true")
    assert [said_by(home, verb, id)[1] for verb in ("status", "list")] == [[], []]
    assert home.agentctl("stop", id).returncode == 0
    home.wait_until_quiet()
    assert [said_by(home, verb, id)[1] for verb in ("status", "wait", "list")] == [[], [], []]
    assert os.listdir(os.path.dirname(home.launch_of(id).path or "")).count(hooks.COMPLETED) == 1
