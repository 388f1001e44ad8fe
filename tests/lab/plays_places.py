"""Plays about where an agent is: on which session its screen is, and in which PID namespace its process is."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab import plays
from tests.lab.errors import LabError, WrongAnswer
from tests.lab.plays import MODEL_CALL, come_to_rest, expect_at_prompt, one_turn
from tests.lab.running import until
from tests.lab.world import Truth

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.lab.world import World


def opened_in_list(world: World) -> None:
    """A person opens an ended session in the list of a screen that rests on another one. Nothing of it is written."""
    world.run(*world.recipe.headless("[[text:first]]")).wait_end()
    first = world.request("text:first").session
    running = world.recipe.open(world)
    running.type("[[text:second]]")
    entry = world.request("text:second")
    left = world.truth(entry)
    come_to_rest(world, running, left, entry)
    world.released(left)
    world.recipe.open_in_list(running, "[[text:first]]")
    opened = Truth(str(first), left.key)
    world.held(opened)
    said = [world.expect(opened, "done", left=True), world.expect(left, "idle")]
    if not all(one["inferred"] for one in said) or said[0]["may_be_open_in"] != [left.key.pid]:
        raise WrongAnswer(f"pid {left.key.pid} shows {first}, and it firmly says {said}\n{world.account()}")
    for words in ((), ("--force",)):
        world.expect_refused("resume", opened.id, "go on", *words, says=f"pid {left.key.pid}")
    running.type(MODEL_CALL)
    entry = world.request("hold")
    if world.truth(entry) != opened:
        raise LabError(f"its screen does not show {opened}: {entry}")
    world.expect(opened, "running")
    come_to_rest(world, running, opened, entry)


def picker(world: World) -> None:
    """Screens of a daemon that show no thread, because they start or let the person choose: each is in the list."""
    running, truth = one_turn(world)
    expect_at_prompt(world, running, truth, "done")
    expect_unattached(world, {})
    choosing = world.run(*world.recipe.PICKER, tty=True)
    key = world.recipe.holder(choosing)
    while world.recipe.PICKING not in choosing.shown():
        expect_unattached(world, {key.pid})
    time.sleep(3)  # a person does not pick a thread in the seconds in which it began
    expect_unattached(world, {key.pid})
    world.expect(truth, "idle")
    choosing.press("\r")
    choosing.wait_shown(world.recipe.READY)
    until(lambda: not world.unattached(), 10, "the screen that shows its thread is no line of its own")
    starting = world.run(tty=True)
    key, known = world.recipe.holder(starting), len(world.listed())
    while not re.search(world.recipe.READY, starting.shown()):
        answer = world.ask("list", "-a", "--since", "all")
        if len(answer["sessions"]) == known and key.pid not in {one["pid"] for one in answer["unattached"]}:
            raise WrongAnswer(f"pid {key.pid} is starting, and in no list: {json.dumps(answer)}\n{world.account()}")
    until(lambda: not world.unattached(), 10, "the screen that shows its thread is no line of its own")
    world.expect(truth, "idle")


def expect_unattached(world: World, pids: Iterable[int]) -> None:
    found = world.unattached()
    if {*found} != {*pids}:
        raise WrongAnswer(f"unattached are {found}, not {sorted(pids)}\n{world.account()}")


def first_process(world: World) -> None:
    """The agent is the first process of a PID namespace, as in a container. It is asked about from outside, and from
    inside, where it has another pid."""
    around = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
    running = world.run(*world.recipe.headless(MODEL_CALL), around=around)
    entry = world.request("hold")
    truth = world.truth(entry)
    world.expect(truth, "running")
    enter = ("nsenter", "--target", str(truth.key.pid), "--pid", "--mount", "--")
    said = world.ask("why", truth.id, around=enter)["session"]
    status = Path(f"/proc/{truth.key.pid}/status").read_text()
    inner = int(next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[-1])
    if (said["status"], said["pid"]) != ("running", inner):
        raise WrongAnswer(f"from inside, where it is pid {inner}: {json.dumps(said)}\n{world.account()}")
    come_to_rest(world, running, truth, entry)


PLAYS = {**plays.PLAYS, "opened-in-list": opened_in_list, "picker": picker, "first-process": first_process}
