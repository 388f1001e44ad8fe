"""How an agent is brought into each state, and what must be said of it there. The same play runs for every agent and
mode that has the state; what differs between agents is in their recipes."""

from __future__ import annotations

import re
import signal
import time
from typing import TYPE_CHECKING

from tests.lab.errors import LabError, WrongAnswer
from tests.lab.recipe import DAEMON, HEADLESS, STREAM
from tests.lab.running import is_alive, send, until
from tests.lab.world import SETTLE, Truth

if TYPE_CHECKING:
    from tests.lab.model import Entry
    from tests.lab.running import Row, Running
    from tests.lab.world import World

MODEL_CALL = "[[hold:hello there]]"  # as long as it is asked about
# Ended when it was asked about. Claude Code 2.1.325 refuses to sleep for 25 s, Codex leaves behind what lasts 30 s.
SLEEP, ANOTHER_SLEEP = "sleep 19", "sleep 18"
TOOL = f"[[bash:{SLEEP}]] [[text:slept]]"
CLOSED = {"done": "done", "failed": "failed", "interrupted": "stopped"}  # turn -> the word once its process is gone


def begin(world: World, prompt: str) -> Running:
    """Start the agent on a prompt, in the mode of this cell."""
    if world.mode == HEADLESS:
        return world.run(*world.recipe.headless(prompt))
    if world.mode == DAEMON:
        return world.recipe.background(world, prompt)
    running = world.recipe.open(world)
    running.type(prompt)
    return running


def last_answer(world: World, truth: Truth, entry: Entry) -> None:
    """Wait for the end of the last model answer of a turn: after it some let their session go."""
    at = world.answered(entry)
    if (world.mode == HEADLESS and world.recipe.LEAVES_FIRST) or lets_go(world):
        world.closing(truth, at)


def lets_go(world: World) -> bool:
    """Is a session, here, held by a process only while a turn runs?"""
    return world.mode == DAEMON and world.recipe.DAEMON_LETS_GO


def come_to_rest(world: World, running: Running, truth: Truth, entry: Entry, last_turn: str = "done") -> None:
    """The last model answer of a turn was given: a headless run ends, any other is at its prompt."""
    last_answer(world, truth, entry)
    if world.mode == HEADLESS:
        running.wait_end()
        world.expect(truth, CLOSED[last_turn], gone=True)
    else:
        expect_at_prompt(world, running, truth, last_turn)


def expect_at_prompt(world: World, running: Running, truth: Truth, last_turn: str) -> None:
    """Its turn is over. Where nothing shows that, the agent is given the time it takes to put its things away."""
    if shows_itself(world, running):
        wait_at_prompt(world, running)
    expect_rest(world, truth, last_turn, settle=1.0)


def shows_itself(world: World, running: Running) -> bool:
    """Does it tell a person or a program when its turn is over?"""
    return world.mode == STREAM or (running.screen is not None and not running.ended())


def wait_at_prompt(world: World, running: Running) -> None:
    if world.mode == STREAM:
        over = world.recipe.turns_over
        until(lambda: (over(running) or 0) >= running.typed, 60, "it says that the turn is over")
    else:
        busy = re.compile(world.recipe.BUSY)
        until(lambda: not busy.search(running.shown()), 60, "its screen shows that the turn is over")


def expect_rest(world: World, truth: Truth, last_turn: str, *, says: str | None = None, settle: float = SETTLE) -> None:
    """No turn runs: idle in the process that has it, or what its last turn was where none has it."""
    word, left = (CLOSED[last_turn], True) if lets_go(world) else ("idle", False)
    if left:
        world.closing(truth)
    world.expect(truth, word, left=left, last_turn=last_turn, says=says, settle=settle)


def one_turn(world: World, prompt: str = "[[text:hello]]") -> tuple[Running, Truth]:
    """A whole turn, without questions: what other plays begin with."""
    running = begin(world, prompt)
    entry = world.request("text")
    truth = world.truth(entry)
    last_answer(world, truth, entry)
    if world.mode == HEADLESS:
        running.wait_end()
    return running, truth


def quit_interface(world: World, running: Running, truth: Truth) -> None:
    wait_at_prompt(world, running)
    time.sleep(0.5)
    if world.recipe.LEAVES_FIRST:
        world.closing(truth)
    if world.mode == STREAM:
        running.hang_up()
    else:
        running.type(world.recipe.QUIT)
    running.wait_end()


def leave(world: World, running: Running, truth: Truth) -> None:
    """Close the interface after a turn: the session is over, unless a daemon keeps it."""
    if world.mode == DAEMON:
        expect_at_prompt(world, running, truth, "done")
        world.recipe.finish_in_daemon(world, running, truth)
    else:
        quit_interface(world, running, truth)
        world.expect(truth, "done", gone=True)


# The states


def fresh(world: World) -> None:
    running = world.recipe.open(world)
    key = world.recipe.daemon(world) if world.mode == DAEMON else world.recipe.holder(running)
    if world.recipe.names_late(world):
        world.expect_nothing(None if world.mode == DAEMON else key)
        running.type(MODEL_CALL)
        entry = world.request("hold")
        truth = world.truth(entry)
        world.expect(truth, "running")
        come_to_rest(world, running, truth, entry)
        return
    truth = Truth(world.only_session(), key)
    world.expect(truth, "idle" if world.recipe.tells_fresh(world) else "alive")
    running.type("[[text:hello]]")
    entry = world.request("text")
    if (entry.session, entry.pid) != (truth.id, key.pid):
        raise WrongAnswer(
            f"listed {truth.id} of pid {key.pid}; the model was asked by {entry.session}, pid {entry.pid}"
        )
    come_to_rest(world, running, truth, entry)


def model_call(world: World) -> None:
    running = begin(world, MODEL_CALL)
    entry = world.request("hold")
    truth = world.truth(entry)
    world.expect(truth, "running")
    come_to_rest(world, running, truth, entry)


def tool_running(world: World) -> None:
    running = begin(world, TOOL)
    truth = world.truth(world.request("bash"))
    tool = world.tool(SLEEP)
    world.expect(truth, "running")
    end_tool(world, tool)
    come_to_rest(world, running, truth, world.request("text"))


def end_tool(world: World, tool: Row) -> None:
    """Long enough: the command ends before its time, where the agent notices that, and the model is told."""
    if not world.recipe.MISSES_KILLED_TOOL:
        send(tool.key, signal.SIGTERM)
    until(lambda: not is_alive(tool.key), 60, "its command has ended")


def permission(world: World) -> None:
    running = begin(world, "[[ask:touch forbidden]] [[text:asked]]")
    entry = world.request("ask")
    truth = world.truth(entry)
    if world.mode == HEADLESS:
        # Nobody can be asked: the call is refused, and the turn ends well, with or without another word of the model.
        if not world.recipe.REFUSAL_ENDS:
            world.answered(world.request("text"))
        running.wait_end()
        if (world.home.work / "forbidden").exists():
            raise LabError("the tool ran: it needed no permission")
        world.expect(truth, "done", gone=True, says="refused")
        return
    if running.screen is not None:
        running.wait_shown(world.recipe.PERMISSION)
    else:
        world.answered(entry)
        time.sleep(2)
    world.expect(truth, "waiting", says="touch forbidden")
    if world.mode != DAEMON or running.screen is not None:
        world.recipe.allow(running)
        come_to_rest(world, running, truth, world.request("text"))


def question(world: World) -> None:
    running = world.recipe.open(world)
    world.recipe.allow_questions(running)
    running.type("[[question:Which colour?]] [[text:chosen]]")
    truth = world.truth(world.request("question"))
    running.wait_shown(world.recipe.QUESTION if running.screen is not None else world.recipe.QUESTION_LINE)
    world.expect(truth, "waiting", says="Which colour?")
    world.recipe.allow(running)
    come_to_rest(world, running, truth, world.request("text"))


def idle(world: World) -> None:
    running, truth = one_turn(world)
    expect_at_prompt(world, running, truth, "done")
    time.sleep(2)
    expect_rest(world, truth, "done")
    if running.screen is not None or world.mode == STREAM:
        running.type("[[text:again]]")
        come_to_rest(world, running, truth, world.request("text:again"))


def background_shell(world: World) -> None:
    command = "sleep 9" if world.mode == HEADLESS else "sleep 90"  # a run may wait for it before it ends
    running = begin(world, f"[[background:{command}]] [[text:left it running]]")
    entry = world.request("text")
    truth = world.truth(entry)
    shell = world.tool(command)
    if world.mode == HEADLESS:
        # Whether it waits for its command or ends it is the agent's own choice; what it is doing must be said.
        world.answered(entry)
        running.wait_end()
        world.expect(truth, "done", gone=True)
        return
    come_to_rest(world, running, truth, entry)
    if not is_alive(shell.key):
        raise LabError("the background command ended too early")


def finished(world: World) -> None:
    running, truth = one_turn(world)
    if world.mode == HEADLESS:
        world.expect(truth, "done", gone=True)
        return
    expect_at_prompt(world, running, truth, "done")
    leave(world, running, truth)


def api_error_retrying(world: World) -> None:
    begin(world, "[[err:500]]")
    truth = world.truth(world.request("err"))
    world.request("err", count=2)
    world.expect(truth, "running")
    world.request("err", count=3)
    world.expect(truth, "running")


def api_error_given_up(world: World) -> None:
    running = begin(world, "[[err:400]]")
    entry = world.request("err")
    truth = world.truth(entry)
    last_answer(world, truth, entry)
    if world.mode == HEADLESS:
        running.wait_end()
        world.expect(truth, "failed", gone=True, says="400" if world.recipe.keeps_errors(world) else None)
    else:
        expect_at_prompt(world, running, truth, "failed")
        expect_rest(world, truth, "failed", says="400" if world.recipe.keeps_errors(world) else None)


def escape(world: World) -> None:
    running = begin(world, "[[stream:120:one two three four five six seven eight]]")
    entry = world.request("stream")
    truth = world.truth(entry)
    time.sleep(1.5)
    world.expect(truth, "running")
    if lets_go(world):
        world.closing(truth)
    world.recipe.interrupt(running)
    world.answered(entry)
    if running.screen is None or world.recipe.tells_taken_back(world):
        expect_at_prompt(world, running, truth, "interrupted")
        return
    wait_at_prompt(world, running)
    if not world.expect(truth, "running")["inferred"]:
        raise WrongAnswer(
            f"nothing tells that its prompt was taken back, and it firmly says running\n{world.account()}"
        )


def interrupted_by(world: World, number: signal.Signals, prompt: str) -> None:
    running = begin(world, prompt)
    truth = world.truth(world.request("hold" if prompt == MODEL_CALL else "bash"))
    if prompt == TOOL:
        world.tool(SLEEP)
    world.expect(truth, "running")
    if world.mode == DAEMON:
        world.recipe.signal_in_daemon(world, running, truth, number)
        return
    if number == signal.SIGINT and world.recipe.LEAVES_FIRST:
        world.closing(truth)
    send(truth.key, number)
    running.wait_end()
    until(lambda: not is_alive(truth.key), 40, "its process has ended")
    world.expect(truth, "stopped", gone=True)


def sigint(world: World) -> None:
    interrupted_by(world, signal.SIGINT, MODEL_CALL)


def sigterm(world: World) -> None:
    interrupted_by(world, signal.SIGTERM, TOOL)


def sigkill(world: World) -> None:
    interrupted_by(world, signal.SIGKILL, TOOL)


def killed_wrapper(world: World) -> None:
    running = begin(world, TOOL)
    truth = world.truth(world.request("bash"))
    tool = world.tool(SLEEP)
    if truth.key == running.key:
        raise LabError("this agent has no wrapper here")
    running.signal(signal.SIGKILL)
    running.wait_end()
    world.expect(truth, "running")
    end_tool(world, tool)
    last_answer(world, truth, world.request("text"))
    if world.mode == HEADLESS:
        until(lambda: not is_alive(truth.key), 40, "its process has ended")
        world.expect(truth, "done", gone=True)
    else:
        expect_rest(world, truth, "done", settle=1.0)


def id_rotation(world: World) -> None:
    running, old = one_turn(world)
    expect_at_prompt(world, running, old, "done")
    world.released(old)
    running.type(world.recipe.CLEAR)
    time.sleep(1.5)
    running.type(MODEL_CALL)
    entry = world.request("hold")
    new = world.truth(entry)
    if new.id == old.id:
        raise LabError("its id did not change")
    world.expect(new, "running")
    if world.recipe.KEEPS_CLEARED:
        world.expect(old, "idle", last_turn="done")
    else:
        world.expect(old, "done", left=True)
    come_to_rest(world, running, new, entry)


def resumed(world: World) -> None:
    running, first = one_turn(world)
    if world.mode == HEADLESS:
        world.expect(first, "done", gone=True)
        running = world.run(*world.recipe.resume(world.mode, first.id, MODEL_CALL))
    else:
        leave(world, running, first)
        world.closing(first)  # Codex' daemon unloads it and loads it again: for about 10 ms nobody has its lock
        running = world.recipe.reopen(world, world.recipe.resume(world.mode, first.id, None))
        time.sleep(1)
        key = world.recipe.daemon(world) if world.mode == DAEMON else world.recipe.holder(running)
        expect_rest(world, Truth(first.id, key), "done")
        running.type(MODEL_CALL)
    entry = world.request("hold")
    truth = world.truth(entry)
    if truth.id != first.id:
        raise LabError(f"resumed under another id: {truth.id}")
    world.expect(truth, "running")
    come_to_rest(world, running, truth, entry)


def two_in_one_cwd(world: World) -> None:
    one = begin(world, "[[hold:first]]")
    first = world.request("hold:first")
    two = begin(world, "[[hold:second]]")
    second = world.request("hold:second")
    truths = [world.truth(first), world.truth(second)]
    if truths[0].id == truths[1].id:
        raise LabError("two runs, one id")
    for truth in truths:
        world.expect(truth, "running")
    come_to_rest(world, two, truths[1], second)
    come_to_rest(world, one, truths[0], first)


def fork(world: World) -> None:
    running, parent = one_turn(world)
    if world.mode == HEADLESS:
        running = world.run(*world.recipe.fork(world.mode, parent.id, MODEL_CALL))
    else:
        leave(world, running, parent)
        running = world.recipe.reopen(world, world.recipe.fork(world.mode, parent.id, None))
        time.sleep(1)
        running.type(MODEL_CALL)
    entry = world.request("hold")
    child = world.truth(entry)
    if child.id == parent.id:
        raise LabError("the fork has its parent's id")
    world.expect(child, "running")
    if world.mode == DAEMON:
        expect_rest(world, parent, "done")
    else:
        world.expect(parent, "done", gone=True)
    come_to_rest(world, running, child, entry)


def sub_agent(world: World) -> None:
    # The parent's own command keeps its turn open where sub-agents run beside it.
    running = begin(
        world, f"[[agent:go <<bash:{SLEEP}>> <<text:the part is done>>]] [[bash:{ANOTHER_SLEEP}]] [[text:all done]]"
    )
    truth = world.truth(world.request("agent"))
    tool = world.tool(SLEEP)
    world.expect(truth, "running")
    children = [one for one in world.listed().values() if one["parent"] == truth.id]
    if [child["status"] for child in children] != ["running"]:
        raise WrongAnswer(f"its sub-agent runs a command, and is listed as {children}\n{world.account()}")
    end_tool(world, tool)
    world.request("text:the part is done")
    end_tool(world, world.tool(ANOTHER_SLEEP))
    last_answer(world, truth, world.request("text:all done"))
    if world.mode == HEADLESS:
        running.wait_end()
        world.expect(truth, "done", gone=True)
    else:
        expect_rest(world, truth, "done", settle=1.0)
    after = world.listed()[children[0]["id"]]
    if after["status"] not in ("done", "idle"):
        raise WrongAnswer(f"its sub-agent is done, and is listed as {after}")


def daemon_alive(world: World) -> None:
    """The agent's daemon has the session; the one who asked for it goes away in mid-turn, and the turn goes on."""
    running = begin(world, TOOL)
    truth = world.truth(world.request("bash"))
    daemon = world.recipe.daemon(world)
    tool = world.tool(SLEEP)
    world.expect(truth, "running")
    if not running.ended():
        running.signal(signal.SIGKILL)
        running.wait_end()
    world.expect(truth, "running")
    end_tool(world, tool)
    last_answer(world, truth, world.request("text"))
    expect_rest(world, truth, "done", settle=1.0)
    if not is_alive(daemon):
        raise LabError("its daemon has ended")


def daemon_killed(world: World) -> None:
    begin(world, TOOL)
    truth = world.truth(world.request("bash"))
    world.tool(SLEEP)
    world.expect(truth, "running")
    daemon = world.recipe.daemon(world)
    send(daemon, signal.SIGKILL)
    until(lambda: not is_alive(daemon), 40, "its daemon has ended")
    if daemon == truth.key:
        world.expect(truth, "stopped", gone=True, settle=1.0)
    else:
        world.expect(truth, "running", settle=1.0)


PLAYS = {
    "fresh": fresh,
    "model-call": model_call,
    "tool-running": tool_running,
    "permission": permission,
    "question": question,
    "idle": idle,
    "background-shell": background_shell,
    "finished": finished,
    "api-error-retrying": api_error_retrying,
    "api-error-given-up": api_error_given_up,
    "escape": escape,
    "sigint": sigint,
    "sigterm": sigterm,
    "sigkill": sigkill,
    "killed-wrapper": killed_wrapper,
    "id-rotation": id_rotation,
    "resumed": resumed,
    "two-in-one-cwd": two_in_one_cwd,
    "fork": fork,
    "sub-agent": sub_agent,
    "daemon-alive": daemon_alive,
    "daemon-killed": daemon_killed,
}
