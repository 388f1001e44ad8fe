"""`agentctl events -f` beside the real agents: python -m tests.lab --events [--agent A] [--cell NAME].

Each cell is a scripted turn in one mode. Every state is held until its event was told, and a second longer. Then the
statuses that were told must be exactly those that were held, in their order. What lasted less than a second was not
held: an agent that is starting or ending may be seen for a moment as idle or unknown, or not, and what is inferred may
pass. Nothing firm is told, and taken back.

Each cell has a room of its own: python -m tests.lab.events AGENT VERSION - NAME PROGRAM RESULT.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.lab.errors import LabError, WrongAnswer
from tests.lab.isolation import REPOSITORY
from tests.lab.matrix import Cell, read_reasons
from tests.lab.plays import ANOTHER_SLEEP, SLEEP, begin, end_tool, lets_go, quit_interface
from tests.lab.recipe import DAEMON, HEADLESS, INTERACTIVE, STREAM
from tests.lab.recipes import RECIPES
from tests.lab.running import send, until
from tests.lab.world import AGENTCTL, World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Self

    from tests.lab.running import Running
    from tests.lab.world import Truth

MODE = "events"
LIMIT = 400
FOLDER = Path("/tmp/lab")
HELD = 1.3  # seconds after its event for which a state is held
SHORT = 1.0  # what was left sooner was not held
PATIENCE = 60.0
PASSING = ("running", "idle", "alive", "unknown")  # what may be told though it was not held
TOOL, ANOTHER_TOOL = f"[[bash:{SLEEP}]]", f"[[bash:{ANOTHER_SLEEP}]]"


class Events:
    """What `events -f` has told so far."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.told: list[dict[str, Any]] = []
        self._command = subprocess.Popen(
            [*AGENTCTL, "events", "-f", "--json"],
            env=world.own_env(),
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=(world.notes / "events.err").open("wb"),
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        until(lambda: bool(self.told), PATIENCE, "the checkpoint")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._command.kill()
        self._command.wait(10)
        self._reader.join(10)

    def _read(self) -> None:
        assert self._command.stdout is not None
        for line in self._command.stdout:
            self.told.append({**json.loads(line), "seen": time.monotonic()})
            with (self._world.notes / "events.jsonl").open("a") as file:
                file.write(line)

    def of(self, id: str) -> list[dict[str, Any]]:
        return [event for event in [*self.told] if event.get("id") == id]

    def reach(self, id: str, status: str) -> dict[str, Any]:
        """Wait until the session is told to be this, and hold it for a while."""

        def there() -> bool:
            found = self.of(id)
            return bool(found) and found[-1]["to"] == status

        try:
            until(there, PATIENCE, f"an event to {status}")
        except LabError as error:
            raise WrongAnswer(f"{error}; told: {words_of(self.of(id))}\n{self._world.account()}") from error
        time.sleep(HELD)
        return self.of(id)[-1]

    def check(self, id: str, expected: Iterable[str]) -> None:
        """What was held was told, and nothing else."""
        found = self.of(id)
        problems = [event for event in self.told if event["type"].startswith("agent.")]
        if (wrong := why_wrong(found, list(expected))) is not None or problems:
            why = wrong or f"problems: {problems}"
            raise WrongAnswer(f"{why}; told: {words_of(found)}\n{self._world.account()}")


def words_of(events: Iterable[dict[str, Any]]) -> list[str]:
    return [f"{event['seen']:.2f} {event['type']}: {event['from']} -> {event['to']}" for event in events]


def why_wrong(events: list[dict[str, Any]], expected: list[str]) -> str | None:
    """Return in what the events of a session differ from the states that were held. `resumed` stands before a status
    that a new process brings."""
    chain: list[str | None] = [None, *(event["to"] for event in events)]
    if [event["from"] for event in events] != chain[:-1]:
        return "an event does not begin with the status that the one before left"
    if not events or events[0]["type"] != "session.started":
        return "the first event is not session.started"
    firm = [event for event in short(events) if not event["session"]["inferred"]]
    if passed := [event["to"] for event in firm if event["to"] not in PASSING]:
        return f"told, and taken back within {SHORT:g} s: {passed}"
    held: list[str] = []
    honest = {"alive", "unknown"} - {*expected}  # an agent that takes its time to start: what it does is not known yet
    for event in events:
        if event["type"] == "session.resumed":
            held.append("resumed")
        if event["to"] not in honest and event not in short(events) and held[-1:] != [event["to"]]:
            held.append(event["to"])
    if held[:1] == ["idle"] and expected[:1] != ["idle"]:
        held = held[1:]  # it had its session before it took its prompt
    return None if held == expected else f"held were {expected}, told as held {held}"


def short(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the events whose status was left within a second."""
    return [event for event, after in pairwise(events) if is_left(event, after)]


def is_left(event: dict[str, Any], after: dict[str, Any]) -> bool:
    return bool(after["to"] != event["to"] and after["seen"] - event["seen"] < SHORT)


# The turns


class Scene:
    """A turn that is held step by step, and the states that it has been in."""

    def __init__(self, world: World, events: Events, prompt: str) -> None:
        self.world, self.events = world, events
        self.held: list[str] = []
        self.running = self._begin(prompt)
        self.truth: Truth

    def _begin(self, prompt: str) -> Running:
        world = self.world
        if world.mode == HEADLESS or (world.mode == DAEMON and not world.recipe.DAEMON_HAS_SCREENS):
            return begin(world, prompt)
        running = world.recipe.open(world)
        if prompt.startswith("[[question"):
            world.recipe.allow_questions(running)
        if not world.recipe.names_late(world):
            word = "idle" if world.recipe.tells_fresh(world) else "alive"
            self.reach(world.only_session(), word)
        running.type(prompt)
        return running

    def reach(self, id: str, status: str) -> dict[str, Any]:
        event = self.events.reach(id, status)
        self.held.append(status)
        return event

    def told(self) -> list[dict[str, Any]]:
        return self.events.of(self.truth.id)

    def is_now(self, status: str) -> dict[str, Any]:
        return self.reach(self.truth.id, status)

    def tool_runs(self, command: str) -> None:
        """Its tool runs, and is ended once that was told."""
        request = "bash" if command == SLEEP else f"bash:{ANOTHER_SLEEP}"
        self.truth = self.world.truth(self.world.request(request))
        tool = self.world.tool(command)
        self.is_now("running")
        end_tool(self.world, tool)

    def comes_to_rest(self, turn: str = "done") -> None:
        """The turn is over: a headless run ends, any other is at its prompt, and is closed."""
        word = {"done": "done", "failed": "failed"}[turn]
        if self.world.mode == HEADLESS:
            self.running.wait_end()
            self.is_now(word)
            return
        self.is_now(word if lets_go(self.world) else "idle")
        if self.world.mode in (INTERACTIVE, STREAM):
            quit_interface(self.world, self.running, self.truth)
            self.is_now(word)


def turn(scene: Scene) -> None:
    scene.tool_runs(SLEEP)
    scene.comes_to_rest()


def permission(scene: Scene) -> None:
    scene.tool_runs(SLEEP)
    event = scene.is_now("waiting")
    expect_question(event, "permission", "touch forbidden")
    if scene.running.screen is None and scene.world.mode == DAEMON:
        return  # nobody can answer it here
    if scene.running.screen is not None:
        scene.running.wait_shown(scene.world.recipe.PERMISSION)
    scene.world.recipe.allow(scene.running)
    scene.tool_runs(ANOTHER_SLEEP)
    scene.comes_to_rest()


def question(scene: Scene) -> None:
    world, running = scene.world, scene.running
    scene.truth = world.truth(world.request("question"))
    expect_question(scene.is_now("waiting"), "question", "Which colour?")
    told = scene.told()
    if any(event["to"] == "running" for event in told if event not in short(told)):
        scene.held.insert(-1, "running")  # it was slow to ask
    running.wait_shown(world.recipe.QUESTION if running.screen is not None else world.recipe.QUESTION_LINE)
    world.recipe.allow(running)
    entry = world.request("hold")
    scene.is_now("running")
    world.answered(entry)
    scene.comes_to_rest()


def failed(scene: Scene) -> None:
    scene.tool_runs(SLEEP)
    scene.comes_to_rest("failed")


def killed(scene: Scene) -> None:
    scene.truth = scene.world.truth(scene.world.request("hold"))
    scene.is_now("running")
    send(scene.truth.key, signal.SIGKILL)
    scene.is_now("stopped")


def resumed(scene: Scene) -> None:
    world = scene.world
    scene.tool_runs(SLEEP)
    scene.comes_to_rest()
    scene.running = world.run(*world.recipe.resume(world.mode, scene.truth.id, "[[hold:again]]"))
    entry = world.request("hold")
    scene.held.append("resumed")
    scene.is_now("running")
    world.answered(entry)
    scene.comes_to_rest()


def expect_question(event: dict[str, Any], kind: str, what: str) -> None:
    """The event carries what is asked."""
    asked = event["question"]
    if asked is None or asked["kind"] != kind or what not in json.dumps(asked["detail"]):
        raise WrongAnswer(f"a {kind} about {what!r} is asked, and the event has {asked}")
    if asked != event["session"]["questions"][0]:
        raise WrongAnswer(f"the event has {asked}, the session {event['session']['questions']}")


# name -> what is typed, what happens then, and the modes that have it
TURNS: dict[str, tuple[str, Callable[[Scene], None], tuple[str, ...]]] = {
    "turn": (f"{TOOL} [[text:slept]]", turn, (HEADLESS, INTERACTIVE, DAEMON, STREAM)),
    "permission": (
        f"{TOOL} [[ask:touch forbidden]] {ANOTHER_TOOL} [[text:asked]]",
        permission,
        (INTERACTIVE, DAEMON, STREAM),
    ),
    "question": ("[[question:Which colour?]] [[hold:chosen]]", question, (INTERACTIVE, STREAM)),
    "failed": (f"{TOOL} [[err:400]]", failed, (HEADLESS, INTERACTIVE)),
    "killed": ("[[hold:hello]]", killed, (HEADLESS, INTERACTIVE, STREAM)),
    "resumed": (f"{TOOL} [[text:slept]]", resumed, (HEADLESS,)),
}
STATES = {"turn": "tool-running", "failed": "api-error-given-up", "killed": "sigkill"}  # else the state has its name


def cells(agent: str, version: str) -> list[Cell]:
    reasons = read_reasons()
    return [
        Cell(agent, version, MODE, f"{mode}-{name}", reasons.get((agent, mode, STATES.get(name, name))))
        for name, (_, _, modes) in TURNS.items()
        for mode in modes
        if mode in RECIPES[agent].MODES
    ]


def play(world: World, name: str) -> str:
    """Return what went wrong; nothing, if all is well."""
    prompt, happens, _ = TURNS[name]
    try:
        with Events(world) as events:
            scene = Scene(world, events, prompt)
            happens(scene)
            events.check(scene.truth.id, scene.held)
    except WrongAnswer as error:
        return f"agentctl: {error}"
    except (LabError, OSError) as error:
        return f"the lab could not bring it there: {error}\n{world.account()}"
    return ""


def main(agent: str, version: str, _: str, cell: str, program: str, result: str) -> int:
    signal.alarm(LIMIT)
    FOLDER.mkdir()
    mode, _, name = cell.partition("-")
    with World(RECIPES[agent], Path(program), version, mode, FOLDER) as world:
        told = play(world, name)
        if told:
            from tests.lab.cell import keep_evidence

            keep_evidence(passed=False)
        try:
            world.finish()
        except (LabError, WrongAnswer) as error:
            told = f"{told}\n{error}".strip()
    Path(result).write_text(json.dumps({"passed": not told, "text": told}))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
