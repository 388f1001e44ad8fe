"""`launch`, `stop`, `resume` and `wait` on the real agents: python -m tests.lab --verbs [--agent A] [--cell NAME].

Each check has a room of its own: python -m tests.lab.verbs AGENT VERSION - CHECK PROGRAM RESULT. The commands are run
as a person runs them; what is true is known from elsewhere (commands.py). The checks in CORE are a part of `make lab`.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.lab import input_lines, screens
from tests.lab.commands import (
    Commands,
    FirstSeen,
    account,
    gone,
    key_of,
    namespaced_pids,
    native_ids,
    nothing_left,
    runner_of,
    working_directory,
)
from tests.lab.controls import expect
from tests.lab.errors import LabError, WrongAnswer
from tests.lab.matrix import Cell
from tests.lab.recipes import RECIPES
from tests.lab.running import Key, is_alive, send, table, until
from tests.lab.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.lab.commands import Command
    from tests.lab.control_facts import Facts
    from tests.lab.model import Entry

MODE = "verbs"
LIMIT = 400
FOLDER = Path("/tmp/lab")
MARKER, SECONDS = "tool.pid", "3017"
TOOL = f"[[bash:sh -c 'echo $$ >{MARKER}; exec sleep {SECONDS}']] [[text:slept]]"
GATE = "[[bash:sh -c 'echo $$ >{marker}; until [ -e go ]; do sleep 0.1; done']]"
REFUSALS = ("err:400", "err:401")


class Scene:
    """What a check works with."""

    def __init__(self, stage: Stage, facts: Facts) -> None:
        self.stage, self.facts = stage, facts
        self.commands = Commands(stage)
        self.told: list[str] = []  # measured: shown, not judged
        self.flags = stage.recipe.ALLOWED

    def held(self, prompt: str = "[[hold:hello]]") -> tuple[str, Entry]:
        """A new session, while it waits for the model."""
        before = len(self.stage.server.entries)
        id = self.commands.launch(prompt, *self.flags)
        directive = prompt.partition("[[")[2].partition("]]")[0]
        entry = self.stage.request(directive, after=before)
        expect("the model's word for the session", entry.session, id, account(self.stage))
        return id, entry

    def in_tool(self, prompt: str = TOOL) -> tuple[str, Entry, Key]:
        """A new session, while its tool runs."""
        id, entry = self.held(prompt)
        return id, entry, self.tool()

    def tool(self) -> Key:
        """The tool's own process, by the pid that it wrote itself."""
        marker = self.stage.home.work / MARKER
        found: list[Key] = []

        def seen() -> bool:
            words = marker.read_text().split() if marker.exists() else []
            rows = table().values() if words else ()
            found[:] = [row.key for row in rows if is_tool(row.argv) and int(words[0]) in namespaced_pids(row.key.pid)]
            return bool(found)

        until(seen, 90, f"the tool has written its pid to {marker}")
        marker.unlink()
        return found[0]

    def let_go(self, entry: Entry) -> None:
        self.stage.server.let_go(entry.number)

    def waiting(self, id: str, *more: str) -> Command:
        """A `wait` that has begun."""
        command = self.commands.begin("wait", id, *more)
        until(lambda: f"waiting for {id}: running" in command.err() or not command.alive(), 60, "it waits")
        if not command.alive():
            raise WrongAnswer(f"it does not wait: {command.end()}\n{account(self.stage)}")
        return command

    def waited(self, command: Command, code: int) -> None:
        said = command.end()
        expect("the exit code of `wait`", said.code, code, f"{said}\n{account(self.stage)}")


def is_tool(argv: tuple[str, ...]) -> bool:
    return argv == ("sleep", SECONDS) or (argv[:2] == ("sh", "-c") and "until" in argv[-1])


def exit_of(code: int) -> dict[str, object]:
    """An exit code as the facts have it, in the words of a session."""
    if code < 0:
        return {"exit_code": None, "signal": signal.Signals(-code).name}
    return {"exit_code": code, "signal": None}


# The checks


def launch(scene: Scene) -> None:
    """The id is the agent's own, the process the native one, the prompt exact; and the end is told as it was."""
    stage, commands = scene.stage, scene.commands
    prompt = '  say it\'s "so"\n--and $HOME on\n[[hold:hello]] '
    with FirstSeen(stage) as seen:
        said = commands.run("launch", stage.agent, "-p", prompt)
        id = commands.id_of(said)
        until(lambda: seen.at is not None, 60, "the session in the agent's own files")
    assert seen.at is not None
    scene.told.append(f"returned {(said.ended_at - seen.at) * 1000:+.0f} ms after the id was in the store")
    entry = stage.request("hold")
    expect("the model's word for the session", entry.session, id)
    expect("the ids in the agent's own store", native_ids(stage), {id})
    expect("whether the prompt came as it is", prompt in list(stage.texts(entry)), True, account(stage))
    expect("its directory", working_directory(entry.pid), str(stage.home.work))
    key = key_of(entry.pid)
    found = commands.session(id, status="running", process="alive", link="exact", pid=key.pid)
    expect("the start of its process", found["process_key"].rpartition(":")[2], str(key.ticks))
    expect("whether its launch is named", bool(found["launch_id"]), True)
    expect("the sessions that there are", set(commands.sessions()), {id})
    scene.let_go(entry)
    commands.ended(id, status="done", exit_code=0, signal=None, launch_id=found["launch_id"])


def failing(scene: Scene) -> None:
    """The model refuses: failed, with the exit code that the agent has for it."""
    code = next(case.code for case in scene.facts.failures if case.prompt == "[[err:400]]")
    retried = scene.stage.recipe.RETRIED
    for directive in retried:
        id = scene.commands.launch(f"[[{directive}]]")
        scene.commands.session(id, status="running", pid=scene.stage.request(directive, count=2).pid)
        scene.commands.run("stop", id)
        scene.commands.ended(id, status="stopped")
    for directive in [one for one in REFUSALS if one not in retried]:
        # An agent that has failed already when its session is known is an error of the launch, too.
        id = scene.commands.launch(f"[[{directive}]]", code=None)
        scene.stage.request(directive)
        scene.commands.ended(id, status="failed", exit_code=code, signal=None)
        said = scene.commands.run("launch", scene.stage.agent, "-p", f"[[{directive}]]", "--wait", code=6)
        expect("the id is said first", said.out.partition("\n")[0] in native_ids(scene.stage), True, str(said))


def failures(scene: Scene) -> None:
    """The other rows of its table of exit codes."""
    for case in scene.facts.failures:
        if case.made is not None or case.prompt == "[[err:400]]":
            continue
        known = native_ids(scene.stage)
        model = ("--model", case.more["model"]) if "model" in case.more else ()
        flags = ("--", *case.more["flags"]) if "flags" in case.more else ()
        said = scene.commands.run("launch", scene.stage.agent, "-p", case.prompt, *model, *flags, code=None)
        nothing_left(scene.stage)
        if case.status is None:
            expect(f"the exit code of launch, {case.name!r}", said.code, 1, str(said))
            expect("what stands on stdout", said.out, "")
            expect("whether the exit code is told", f"exit code {case.code}" in said.err, True, str(said))
            expect("whether it is told why", case.says is None or case.says in said.err, True, str(said))
            expect("the sessions that there are", native_ids(scene.stage), known)
        else:
            scene.commands.ended(scene.commands.id_of(said), status=case.status, **exit_of(case.code))


def stop(scene: Scene) -> None:
    """In mid-tool: the agent and its tool are gone when it returns, and it says which they were."""
    id, entry, tool = scene.in_tool()
    stopped(scene, id, entry, tool)


def stop_call(scene: Scene) -> None:
    """While the model is asked."""
    id, entry = scene.held("[[hang]]")
    stopped(scene, id, entry, None)


def stopped(scene: Scene, id: str, entry: Entry, tool: Key | None) -> None:
    stage, agent = scene.stage, key_of(entry.pid)
    runner = runner_of(agent.pid)
    others = [row.key for row in stage.rows() if row.key not in (agent, runner.key, tool)]
    began = time.monotonic()
    said = scene.commands.run("stop", id, "--json")
    scene.told.append(f"stopped in {time.monotonic() - began:.1f} s")
    alive = [key for key in (agent, tool, *others) if key is not None and is_alive(key)]
    expect("what lives after it was stopped", alive, [], f"{said}\n{account(stage)}")
    (outcome,) = said.json["stopped"]
    expect("what is said", (outcome["id"], outcome["outcome"], outcome["living"]), (id, "stopped", []), str(said))
    ended = {(one["pid"], one["part"]) for one in outcome["ended"]}
    wanted = {(agent.pid, "agent"), *([(tool.pid, "tool")] if tool else [])}
    expect("what is said of those who ended", wanted - ended, set(), str(said))
    how = next(one["how"] for one in outcome["ended"] if one["pid"] == agent.pid)
    expect("how the agent was ended", how, scene.facts.first_signal, str(said))
    if tool is None:
        gone(stage, entry)
    code = scene.facts.exits[scene.facts.first_signal, "tool" if tool else "model"]
    scene.commands.ended(id, status="stopped", **exit_of(code))
    again = scene.commands.run("stop", id, "--json").json["stopped"][0]
    expect("what is said of one that has ended", again["outcome"], "gone")


def resume(scene: Scene) -> None:
    """The same session: its id, history, model and directory, from wherever it is called; and nobody else with it."""
    stage, commands = scene.stage, scene.commands
    first = "the first [[text:one]]"
    model = stage.recipe.OTHER_MODEL
    id = commands.launch_to_end(first, "--model", model)
    before = stage.request("text:one")
    expect("the model", before.model, model.rpartition("/")[2])
    commands.ended(id, status="done", exit_code=0)
    elsewhere = stage.folder / "elsewhere"
    elsewhere.mkdir()
    prompt = "the second [[hold:two]]"
    expect("the id", commands.id_of(commands.run("resume", id[:-2], prompt, cwd=elsewhere)), id)
    entry = stage.request("hold")
    texts = list(stage.texts(entry))
    expect("the model's word for the session", entry.session, id)
    expect("whether prompt and history came", (prompt in texts, first in texts), (True, True), account(stage))
    expect("the model", entry.model, before.model)
    expect("its directory", working_directory(entry.pid), str(stage.home.work))
    commands.session(id, status="running", pid=entry.pid, link="exact")
    asked = len(stage.server.entries)
    refused = commands.run("resume", id, "the third [[text:three]]", code=4)
    expect("whether the refusal names it", id in refused.err and refused.out == "", True, str(refused))
    expect("what the model was asked since", stage.server.entries[asked:], [])
    scene.let_go(entry)
    commands.ended(id, status="done", exit_code=0)
    expect("the ids in the agent's own store", native_ids(stage), {id})


def wait(scene: Scene) -> None:
    """0 when its turn has ended, and 124 if that takes too long."""
    id, entry = scene.held()
    scene.commands.run("wait", id, "--timeout", "1s", code=124)
    expect("whether its process was left alone", is_alive(key_of(entry.pid)), True)
    waiting = scene.waiting(id)
    ending = scene.waiting(id, "--until", "ended")
    scene.let_go(entry)
    scene.waited(waiting, 0)
    scene.waited(ending, 0)
    scene.commands.session(id, status="done", exit_code=0)
    scene.waited(scene.commands.begin("wait", id), 0)  # of what is over already
    nothing_left(scene.stage)


def wait_failed(scene: Scene) -> None:
    id, _, _ = scene.in_tool(f"{GATE.format(marker=MARKER)} [[err:400]]")
    waiting = scene.waiting(id, "--until", "ended")
    (scene.stage.home.work / "go").touch()
    scene.waited(waiting, 6)
    scene.commands.ended(id, status="failed")


def wait_stopped(scene: Scene) -> None:
    id, entry = scene.held("[[hang]]")
    waiting = scene.waiting(id)
    scene.commands.run("stop", id)
    scene.waited(waiting, 7)
    gone(scene.stage, entry)
    scene.commands.ended(id, status="stopped")


def second(scene: Scene) -> None:
    """One agent to a directory: the second is told of the first; elsewhere, and by force, it may run."""
    stage = scene.stage
    id, entry = scene.held()
    refused = scene.commands.run("launch", stage.agent, "-p", "[[text:second]]", code=4)
    expect("whether the refusal names the first", id in refused.err and refused.out == "", True, str(refused))
    expect("the ids in the agent's own store", native_ids(stage), {id})
    other = scene.commands.launch_to_end("[[text:forced]]", "--force")
    expect("whether it is another session", other != id, True)
    scene.commands.session(id, status="running", pid=entry.pid)
    scene.let_go(entry)
    scene.commands.ended(id, status="done", exit_code=0)
    scene.commands.launch_to_end("[[text:after]]")


def runner_killed(scene: Scene) -> None:
    """What its runner knew is lost, and nothing else."""
    id, entry = scene.held()
    agent, runner = key_of(entry.pid), runner_of(int(entry.pid or 0))
    expect("whether that is the runner", "agentctl" in " ".join(runner.argv), True, str(runner.argv))
    send(runner.key, signal.SIGKILL)
    until(lambda: not is_alive(runner.key), 20, "the runner is gone")
    scene.commands.session(id, status="running", process="alive", pid=agent.pid, link="exact")
    waiting = scene.waiting(id)
    scene.let_go(entry)
    scene.waited(waiting, 0)
    scene.commands.ended(id, status="done", exit_code=None, signal=None)


def signals(scene: Scene) -> None:
    """Every signal of its table, sent by a stranger: how it ended is told as the runner saw it."""
    for (name, when), code in scene.facts.exits.items():
        id, entry, tool = (*scene.held("[[hang]]"), None) if when == "model" else scene.in_tool()
        agent = key_of(entry.pid)
        send(agent, signal.Signals[name])
        until(lambda key=agent: not is_alive(key), 30, f"its end by {name}")  # type: ignore[misc]
        scene.commands.run("wait", id, "--until", "ended", "--timeout", "60s", code=7)
        found = scene.commands.session(id, status="stopped", process="gone")
        allowed = [exit_of(code), exit_of(scene.facts.also.get((name, when), code))]
        got = {"exit_code": found["exit_code"], "signal": found["signal"]}
        expect(f"whether {got} is how {name} in mid-{when} ends it", got in allowed, True, str(allowed))
        if tool is not None and is_alive(tool):
            send(tool, signal.SIGKILL)
        nothing_left(scene.stage)


def daemon(scene: Scene) -> None:
    """A session in the agent's own daemon is ended there, by the agent's own way, and the daemon lives on."""
    stage = scene.stage
    for prompt, directive in ((TOOL, "bash"), ("[[hang]]", "hang")):
        stage.recipe.allow_shell(stage)
        keeper = scene.facts.background(stage, prompt)
        entry = stage.request(directive)
        tool = scene.tool() if directive == "bash" else None
        id, holder = str(entry.session), key_of(entry.pid)
        until(lambda id=id: scene.commands.sessions().get(id, {}).get("status") == "running", 20, "it is seen to run")  # type: ignore[misc]
        scene.commands.session(id, status="running", pid=holder.pid)
        stays = holder == keeper and not stage.recipe.DAEMON_LETS_GO
        said = scene.commands.run("stop", id, "--json", code=1 if stays else 0)
        outcome = "open" if stays else "stopped"
        expect("what is said", said.json["stopped"][0]["outcome"], outcome, str(said))
        expect("whether the daemon lives", is_alive(keeper), True, account(stage))
        expect("whether its tool lives", tool is not None and is_alive(tool), False, account(stage))
        expect("whether its process lives", is_alive(holder), holder == keeper, account(stage))
        if tool is None:
            gone(stage, entry)
        found = scene.commands.sessions()[id]
        expect("whether a turn is active", found["turn"] in ("working", "waiting", "unknown"), False, json.dumps(found))
        quiet(stage, id, len(stage.server.entries))


def quiet(stage: Stage, id: str, after: int, seconds: float = 3.0) -> None:
    """It is not brought back: the model is not asked for it again."""

    def again(entries: list[Entry]) -> bool:
        return any(one.event == "request" and one.session == id and not one.side for one in entries[after:])

    if stage.server.wait_for(again, seconds):
        raise WrongAnswer(f"it goes on\n{account(stage)}")


CHECKS: dict[str, Callable[[Scene], None]] = {
    "launch": launch,
    "stop": stop,
    "resume": resume,
    "wait": wait,
    "failing": failing,
    "failures": failures,
    "stop-call": stop_call,
    "wait-failed": wait_failed,
    "wait-stopped": wait_stopped,
    "second": second,
    "runner-killed": runner_killed,
    "signals": signals,
    "daemon": daemon,
    "screen": screens.screen,
    "screen-daemon": screens.daemon,
    "screen-shell-mode": input_lines.shell_mode,
    "screen-draft": input_lines.draft,
    "screen-paste": input_lines.paste,
}
CORE = ("launch", "stop", "resume", "wait")


def cells(agent: str, version: str) -> list[Cell]:
    return [Cell(agent, version, MODE, name) for name in CHECKS]


def core(agent: str, version: str) -> list[Cell]:
    return [cell for cell in cells(agent, version) if cell.state in CORE]


def main(agent: str, version: str, _: str, name: str, program: str, result: str) -> int:
    signal.alarm(LIMIT)
    FOLDER.mkdir()
    with Stage(agent, Path(program), FOLDER) as stage:
        scene = Scene(stage, RECIPES[agent].facts(version))
        told = ""
        try:
            CHECKS[name](scene)
            if name not in ("daemon", "screen-daemon"):
                nothing_left(stage)
        except WrongAnswer as error:
            told = f"agentctl: {error}"
        except (LabError, OSError) as error:
            told = f"the lab: {type(error).__name__}: {error}\n{account(stage)}"
        try:
            stage.close()
        except LabError as error:
            told = f"{told}\n{error}".strip()
    facts: dict[str, Any] = {"passed": not told, "text": told, "told": scene.told}
    Path(result).write_text(json.dumps(facts))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
