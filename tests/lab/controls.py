"""What the control modules order, tried on the real agents: python -m tests.lab --controls [--agent A] [--cell NAME].

Each check has a room of its own: python -m tests.lab.controls AGENT VERSION - CHECK PROGRAM RESULT. What an agent is
known to do is in its description (tests/agents/<agent>/lab_facts.py). If a real one disagrees, it is right, and its
facts are corrected.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from agentctl.agents.recipes import BYPASS, DEFAULT, EDITS, PERMISSIONS, PLAN
from agentctl.errors import AgentctlError
from tests.lab.errors import LabError, WrongAnswer
from tests.lab.matrix import Cell
from tests.lab.recipes import RECIPES
from tests.lab.running import Key, is_alive, send, until
from tests.lab.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentctl.agents.recipes import Held, Way
    from agentctl.model import Session
    from tests.lab.control_facts import Facts
    from tests.lab.stage import Run

MODE = "controls"
LIMIT = 400  # seconds: several runs each, of agents that take long to start on a busy machine
FOLDER = Path("/tmp/lab")
MEGABYTE = 1024 * 1024
TOOL, MODEL_CALL = "[[bash:sleep 19]] [[text:slept]]", "[[slow:40:late]]"
PROMPTS = {
    "dashes": "--help -p --resume\n-- [[text:dashes]]",
    "lines": "\n one\n\n\ttwo\r\n [[text:lines]] \n",
    "quotes": 'it\'s "quoted" \\ `x` $HOME ${PATH} %s {} \x1b[31m [[text:quotes]]',
    "emoji": "🦊 日本 e\u0301 \u202e [[text:emoji]]",
    "words": "/no/such/command @nobody #x !ls [[text:words]]",
    "large": "[[text:large]]".ljust(MEGABYTE, "x"),
}


def expect(what: str, got: object, wanted: object, more: str = "") -> None:
    if got != wanted:
        raise WrongAnswer(f"{what} is {got!r}, not {wanted!r}\n{more}")


# The checks


def prompts(stage: Stage, facts: Facts) -> None:
    """Every prompt reaches the model as it was written; the id that was known or printed is the one that is listed."""
    for name, prompt in PROMPTS.items():
        run = stage.launch(prompt)
        entry = stage.request(f"text:{name}")
        if prompt not in stage.texts(entry):
            near = [text[:200] for text in stage.texts(entry) if name in text]
            raise WrongAnswer(f"the prompt {name!r} did not reach the model as it is: {near}")
        expect(f"the exit code of {name!r}", run.wait(), 0, run.tail())
        id = stage.printed(run)
        expect("the id that was chosen", run.recipe.session_id or id, id)
        expect("the model's word for the session", entry.session, id)
        stage.session(id, lambda one: one.status == "done")


def ids(stage: Stage, facts: Facts) -> None:
    """The id is known while the model has not said a word, and is that of the process that runs."""
    run = stage.launch(MODEL_CALL)
    entry = stage.request("slow")
    id = stage.printed(run)
    expect("the model's word for the session", entry.session, id)
    session = stage.session(id, lambda one: one.status == "running")
    expect("its process", session.pid, entry.pid)
    expect("its directory", session.cwd, str(stage.home.work))


def models(stage: Stage, facts: Facts) -> None:
    """A session goes on under its id, with the model it had; others are not touched by that."""
    own = stage.launch("[[text:own]]")
    usual = stage.request("text:own").model
    own.wait()
    first = stage.launch("[[text:first]]", model=stage.recipe.OTHER_MODEL)
    other = stage.request("text:first").model
    expect("the model", other, stage.recipe.OTHER_MODEL.rpartition("/")[2])
    first.wait()
    session = stage.session(stage.printed(first), lambda one: one.status == "done")
    for word, model, wanted in (("again", None, other), ("told", facts.model, usual), ("still", None, usual)):
        run = stage.launch(f"[[text:{word}]]", session=session, model=model)
        entry = stage.request(f"text:{word}")
        expect(f"the model of {word!r}", entry.model, wanted)
        expect("the id", (entry.session, run.recipe.session_id), (session.id, session.id))
        expect("the exit code", run.wait(), 0, run.tail())
        session = stage.session(session.id, lambda one: one.status == "done")
        expect("its directory", session.cwd, str(stage.home.work))
    new = stage.launch("[[text:new]]")
    expect("the model of a new session", stage.request("text:new").model, usual)
    new.wait()


def modes(stage: Stage, facts: Facts) -> None:
    """What each mode allows; and a session that goes on has the mode it had, unless told."""
    sessions = {}
    for mode in PERMISSIONS:
        run, allowed = write(stage, mode, permissions=mode)
        expect(f"exit code and whether {mode!r} lets it write", (run.process.returncode, allowed), facts.modes[mode])
        if facts.modes[mode][0] == 0:
            sessions[mode] = stage.session(stage.printed(run), lambda one: one.status not in ("running", "idle"))
    for mode, session in sessions.items():
        run, allowed = write(stage, f"{mode}-goes-on", session=session)
        wanted = facts.kept.get(mode, facts.modes[mode])
        expect(f"the same, going on after {mode!r}", (run.process.returncode, allowed), wanted, run.tail())
    run, allowed = write(stage, "told", session=sessions[EDITS], permissions=PLAN)
    expect("the same, told to plan", (run.process.returncode, allowed), facts.modes[PLAN], run.tail())
    run, allowed = write(stage, "own", session=sessions[EDITS], permissions=DEFAULT)
    expect("the same, told to keep to its own", (run.process.returncode, allowed), facts.modes[DEFAULT], run.tail())


def plan(stage: Stage, facts: Facts) -> None:
    """Nothing is written where the person's own rules would allow it; nor when such a session goes on."""
    facts.allow_edits(stage)
    run, allowed = write(stage, "own")
    expect("exit code and whether its own rules let it write", (run.process.returncode, allowed), (0, True), run.tail())
    run, allowed = write(stage, PLAN, permissions=PLAN)
    expect("the same, told to plan", (run.process.returncode, allowed), (0, False), run.tail())
    session = stage.session(stage.printed(run), lambda one: one.process == "gone")
    run, allowed = write(stage, "goes-on", session=session, launched_as=run.recipe.argv)
    expect("the same, going on", (run.process.returncode, allowed), (0, False), run.tail())


def write(stage: Stage, name: str, **more: object) -> tuple[Run, bool]:
    path = stage.home.work / name
    run = stage.launch(stage.recipe.WRITE.format(path=path), **more)
    run.wait()
    return run, path.exists()


def bypass(stage: Stage, facts: Facts) -> None:
    """Where an agent refuses it by itself: not if it is told that it is in a sandbox."""
    stage.more_env = facts.sandbox
    run, allowed = write(stage, BYPASS, permissions=BYPASS)
    expect("exit code and whether it wrote", (run.process.returncode, allowed), (0, True), run.tail())
    session = stage.session(stage.printed(run), lambda one: one.status == "done")
    run, allowed = write(stage, "goes-on", session=session, launched_as=run.recipe.argv)
    expect("the same, going on", (run.process.returncode, allowed), (0, True) if facts.keeps_bypass else (0, False))


def flags(stage: Stage, facts: Facts) -> None:
    """The agent's own flags, also those that take all words up to the next one."""
    for given in facts.flags:
        run = stage.launch("[[text:flagged]]", flags=given)
        expect(f"the exit code with {given}", run.wait(), 0, run.tail())
    stage.request("text:flagged", count=len(facts.flags))


def begin(stage: Stage, prompt: str) -> tuple[Run, Held]:
    before = len(stage.server.entries)
    run = stage.launch(prompt)
    entry = stage.request("bash" if prompt == TOOL else "slow", after=before)
    if prompt == TOOL:
        stage.tool("sleep 19")
    held = stage.held(str(entry.session))
    expect("its process", held.process.pid, entry.pid)
    return run, held


def key_of(held: Held) -> Key:
    return Key(held.process.key.pid, held.process.key.start)


def stop(stage: Stage, facts: Facts) -> None:
    """The orderly way, in mid-tool and while the model is asked."""
    for prompt, name in ((TOOL, "tool"), (MODEL_CALL, "model")):
        run, held = begin(stage, prompt)
        way = stage.control.way_to_stop(held)
        expect("a way by signals", (way.command, way.interrupt), (None, None))
        expect("the first signal", way.signals[0], facts.first_signal)
        expect(f"the exit code in mid-{name}", ended(run, held, way.signals[0]), facts.exits[way.signals[0], name])
        session = stage.session(held.session.id, lambda one: one.status == "stopped")
        expect("the end that it recorded", recorded_end(session), facts.records_end)
        if prompt == TOOL:
            check_tool(stage, facts.tool_survives)


def recorded_end(session: Session) -> bool:
    return session.rule == "closed"


def ended(run: Run, held: Held, name: str) -> int:
    send(key_of(held), signal.Signals[name])
    until(lambda: not is_alive(key_of(held)), 30, f"its end by {name}")
    return run.wait()


def check_tool(stage: Stage, survives: bool | None) -> None:
    """A tool is ended a moment after its agent, or never. None: both were seen. What is left is ended here."""
    sleeping = [row for row in stage.rows() if row.argv[-2:] == ("sleep", "19") or row.argv == ("sleep", "19")]
    if survives:
        expect("a tool that survives", bool(sleeping), True)
    if survives is not False:
        for row in sleeping:
            send(row.key, signal.SIGKILL)
    else:
        until(lambda: not any(is_alive(row.key) for row in sleeping), 10, "the end of its tool")


def screen(stage: Stage, facts: Facts) -> None:
    """A person's own interface, in mid-tool."""
    running = stage.open(*facts.screen, tty=True)
    running.wait_shown(facts.ready, 60)
    running.type(TOOL)
    entry = stage.request("bash")
    stage.tool("sleep 19")
    held = stage.held(str(entry.session))
    expect("its process", held.process.pid, entry.pid)
    way = stage.control.way_to_stop(held)
    expect("the way", (way.signals, way.command, way.interrupt), (("SIGTERM",), None, None))
    send(key_of(held), signal.SIGTERM)
    expect("its exit code", running.wait_end(30), facts.screen_code)
    session = stage.session(held.session.id, lambda one: one.status == "stopped")
    expect("the end that it recorded", recorded_end(session), facts.screen_records_end)
    check_tool(stage, facts.screen_tool_survives)


def signals(stage: Stage, facts: Facts) -> None:
    """The exit code of every signal, in mid-tool and while the model is asked."""
    for (name, when), code in facts.exits.items():
        run, held = begin(stage, TOOL if when == "tool" else MODEL_CALL)
        got = ended(run, held, name)
        if got != facts.also.get((name, when)):
            expect(f"the exit code of {name} in mid-{when}", got, code, run.tail())
        stage.session(held.session.id, lambda one: one.process == "gone")
        for row in stage.rows():
            if row.argv == ("sleep", "19"):
                send(row.key, signal.SIGKILL)


def failures(stage: Stage, facts: Facts) -> None:
    """Exit codes of runs that end by themselves, and what is said of the session."""
    for case in facts.failures:
        if case.made is not None:
            run = case.made(stage)
        else:
            run = stage.launch(case.prompt, **case.more)
        expect(f"the exit code of {case.name!r}", run.wait(), case.code, run.tail())
        if case.status is not None:
            id = stage.printed(run) if run.recipe.session_id is None else run.recipe.session_id
            stage.session(id, lambda one, wanted=case.status: one.status == wanted)  # type: ignore[misc]
        if case.says is not None and case.says not in run.said().decode(errors="replace"):
            raise WrongAnswer(f"{case.name!r}: it does not say {case.says!r}:\n{run.tail()}")


def unknown_id(stage: Stage, facts: Facts) -> None:
    known = stage.launch("[[text:known]]")
    known.wait()
    session = stage.session(stage.printed(known), lambda one: one.status == "done")
    run = stage.launch("[[text:x]]", session=session._replace(id=stage.recipe.UNKNOWN_ID))
    expect("the exit code", run.wait(), 1, run.tail())
    expect("an id in its output", stage.control.printed_id(run.said()), None)


def second_writer(stage: Stage, facts: Facts) -> None:
    first = stage.launch("[[slow:25:late]]")
    entry = stage.request("slow")
    session = stage.session(str(entry.session), lambda one: one.status == "running")
    run = stage.launch("[[text:second]]", session=session)
    code = run.wait()
    expect("whether a second process is let in", code == 0, stage.control.SECOND_WRITER, run.tail())
    if not stage.control.SECOND_WRITER:
        expect("its exit code", code, 1)
    expect("the exit code of the first", first.wait(), 0, first.tail())


def background(stage: Stage, facts: Facts) -> None:
    """A session in the agent's own daemon is ended there, and the daemon goes on."""
    for prompt, directive in ((TOOL, "bash"), (MODEL_CALL, "slow")):
        daemon = facts.background(stage, prompt)
        entry = stage.request(directive)
        if prompt == TOOL:
            stage.tool("sleep 19")
        held = stage.held(str(entry.session))
        expect("its process", held.process.pid, entry.pid)
        way = stage.control.way_to_stop(held)
        expect("signals to it", way.signals, ())
        carry_out(stage, way)
        stage.session(held.session.id, lambda one: one.turn in ("idle", "interrupted") and one.status != "running")
        check_tool(stage, facts.background_tool_survives if prompt == TOOL else False)
        expect("whether the daemon lives", is_alive(daemon), facts.daemon_stays)


def carry_out(stage: Stage, way: Way) -> None:
    if way.command is not None:
        done = subprocess.run(way.command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
        expect("the exit code of its own command", done.returncode, 0, f"{way.command}\n{done.stdout}{done.stderr}")
        return
    if way.interrupt is None:
        raise WrongAnswer(f"neither a command nor an interruption: {way}")
    way.interrupt(20.0)
    began = time.monotonic()
    way.interrupt(20.0)  # a turn that is over already: nothing happens, and at once
    if time.monotonic() - began > 15:
        raise WrongAnswer("the interruption of nothing takes until its limit")


def stranger(stage: Stage, facts: Facts) -> None:
    """An interruption goes to the very process that holds the session, or to none."""
    facts.background(stage, MODEL_CALL)
    held = stage.held(str(stage.request("slow").session))
    other = held._replace(process=held.process._replace(key=type(held.process.key)(held.process.key.boot, 1, 1)))
    interrupt = stage.control.way_to_stop(other).interrupt
    if interrupt is None:
        raise WrongAnswer("no interruption")
    try:
        interrupt(10.0)
    except AgentctlError as error:
        expect("whether the reason names the process", "pid 1" in str(error), True, str(error))
    else:
        raise WrongAnswer("pid 1 was taken for the daemon")
    stage.session(held.session.id, lambda one: one.status == "running")


CHECKS: dict[str, Callable[[Stage, Facts], None]] = {
    "prompts": prompts,
    "ids": ids,
    "models": models,
    "modes": modes,
    "plan": plan,
    "bypass": bypass,
    "flags": flags,
    "stop": stop,
    "screen": screen,
    "signals": signals,
    "failures": failures,
    "unknown-id": unknown_id,
    "second-writer": second_writer,
    "background": background,
    "stranger": stranger,
}


def cells(agent: str, version: str) -> list[Cell]:
    left_out = RECIPES[agent].facts(version).without
    return [Cell(agent, version, MODE, name, left_out.get(name)) for name in CHECKS]


def main(agent: str, version: str, _: str, name: str, program: str, result: str) -> int:
    signal.alarm(LIMIT)
    FOLDER.mkdir()
    told = ""
    with Stage(agent, Path(program), FOLDER) as stage:
        try:
            CHECKS[name](stage, RECIPES[agent].facts(version))
        except WrongAnswer as error:
            told = f"the controls: {error}"
        except (LabError, OSError, AgentctlError) as error:
            told = f"the lab: {type(error).__name__}: {error}"
        stage.close()
    Path(result).write_text(json.dumps({"passed": not told, "text": told}))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
