"""What a session of OpenCode does, and how it ended: questions, errors, interrupts, and exit codes that lie."""

from __future__ import annotations

import signal
import time
from functools import partial
from typing import TYPE_CHECKING

from tests.agents.opencode.standin_files import timed_id
from tests.agents.opencode.torture import OpenCode
from tests.torture.cases_alive import HOURS, is_suspended
from tests.torture.cases_opencode import TICKS, WRAPPER
from tests.torture.handles import Tool, wait_until
from tests.torture.registry import case
from tests.torture.standins.files import start_ticks
from tests.torture.world import Contains, set_back

if TYPE_CHECKING:
    from tests.torture.world import World

QUESTION = {"questions": [{"question": "Which colour?", "options": []}]}
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


@case("permission")
def permission_opencode(world: World) -> None:
    """an opencode screen waits for a person, which no file of it says"""
    screens = [OpenCode.spawn(world, "screen") for _ in range(8)]
    asks, question, other, allowed, runs, unlogged, typed, parent = screens
    for screen in (asks, question, other, allowed, unlogged, parent):
        screen.mid_model()
    asks.do("call", command="touch /tmp/zz", allowed=False)
    question.do("call", command="", tool="question", input=QUESTION, allowed=False)
    other.do("call", command="", tool="a_tool_of_mcp", input={"path": "/etc/zz"}, allowed=False)
    allowed.do("call", command="touch /tmp/zz", allowed=True)
    unlogged.do("call", command="", tool="a_tool_of_mcp", input={"path": "here"})
    runs.mid_tool("sleep 300")
    typed.do("typed", command="sleep 300")
    child = timed_id("ses")
    parent.do("sub", child=child)
    parent.do("prompt", text="look", id=child)
    parent.do("call", command="make deploy", allowed=False, id=child)
    run = OpenCode.spawn(world).mid_model()
    run.do("call", command="touch /tmp/zz")
    world.look()
    wanted = Contains("touch /tmp/zz")
    world.check("its log says that it asked", asks.id, "waiting", waiting_for=wanted, pid=asks, inferred=True)
    world.check("a question", question.id, "waiting", waiting_for=Contains("Which colour?"), inferred=True)
    world.check("another tool asks", other.id, "waiting", waiting_for=Contains("/etc/zz"), inferred=True)
    world.check("its log says that it was allowed", allowed.id, "running", waiting_for=None)
    world.check("a tool that says nothing: disk cannot tell", unlogged.id, "running", inferred=True)
    world.check("its command runs", runs.id, "running", inferred=False)
    world.check("a command that the person typed", typed.id, "running", waiting_for=None)
    world.check("its sub-agent asks", parent.id, "waiting", waiting_for=Contains("make deploy"), pid=parent)
    world.check("opencode run asks nobody", run.id, "running", waiting_for=None, inferred=False)


@case("permission")
def permission_opencode_typed_later(world: World) -> None:
    """a command that was typed into a session begun before, which no log names since: not known, never ended"""
    screens = [OpenCode.spawn(world, "screen") for _ in range(3)]
    for screen in screens[:2]:
        screen.mid_model()
    screens[2].do("typed", command="sleep 300", pause=0.05)
    world.look()
    world.check("typed later, among others", screens[2].id, "unknown", process="unknown")
    world.check_unattached("its screen", screens[2])
    for screen in screens[:2]:
        world.check("the others", screen.id, "running", pid=screen, link="exact")


@case("permission")
def permission_opencode_without_a_log(world: World) -> None:
    """the same without a log: a call with no process waits, one with a process runs"""
    asks = OpenCode.spawn(world, "screen", log="own", layout="json", cwd=world.folder_at("asks")).mid_model()
    asks.do("call", command="touch /tmp/zz")
    runs = OpenCode.spawn(world, "screen", log="own", layout="json", cwd=world.folder_at("runs")).mid_tool()
    world.look()
    wanted = Contains("touch /tmp/zz")
    world.check("a command pending, no process runs it", asks.id, "waiting", waiting_for=wanted, inferred=True)
    world.check("a command pending, its process runs", runs.id, "running", waiting_for=None)


@case("permission")
def permission_opencode_by_its_port(world: World) -> None:
    """an opencode screen with a port says itself what it asks"""
    screen = OpenCode.spawn(world, "screen", "--port", "0", port=True).mid_model()
    screen.do("call", command="touch /tmp/zz", allowed=False)
    screen.do("say", id=screen.id, status={"type": "busy"})
    screen.do("ask_person", id=screen.id, command="touch /tmp/zz")
    quiet = OpenCode.spawn(
        world, "screen", "--port", "0", port=True, log="errors", cwd=world.folder_at("quiet")
    ).mid_model()
    quiet.do("say", id=quiet.id, status={"type": "busy"})
    quiet.do("ask_person", id=quiet.id, command="make deploy")
    world.look()
    wanted = Contains("touch /tmp/zz")
    world.check("it says that it asks", screen.id, "waiting", waiting_for=wanted, pid=screen, inferred=False)
    wanted = Contains("make deploy")
    world.check("the same, without a log", quiet.id, "waiting", waiting_for=wanted, pid=quiet, link="exact")


@case("permission")
def permission_opencode_for_a_moment(world: World) -> None:
    """opencode starts a command: for some moments the call is stored, and neither its log nor a process tells"""
    agent = OpenCode.spawn(world, "screen").mid_model()
    answers = []
    poller = world.poller()
    for number in range(12):
        flag = world.folder / f"call-{number}"
        agent.send("call_and_tool", command="sleep 300", flag=str(flag), pause=0.06)
        wait_until("the call is stored", flag.exists)
        answers.append(poller.look_at(agent.id)["status"])
        facts = agent.answer()
        tool = Tool(facts["pid"], start_ticks(facts["pid"]))
        tool.stop()
        agent.do("result")
        world.keep(tool)
    wrong = [status for status in answers if status != "running"]
    world.says(
        "a command about to start is running, not waiting, 12 times", f"{len(wrong)} wrong: {answers}", not wrong
    )


@case("quiet-turn")
def quiet_turn_opencode(world: World) -> None:
    """opencode writes nothing while a model thinks or streams, or a tool runs"""
    silent = OpenCode.spawn(world).mid_model()
    streams = OpenCode.spawn(world, "screen").mid_model()
    streams.do("stream")
    tool = OpenCode.spawn(world, "screen").mid_tool()
    between = OpenCode.spawn(world).mid_model()
    between.do("call", command="true", allowed=True)
    between.do("result")  # its last step is over, and the next one is not stored yet
    for path in (silent.database, silent.database.with_name("opencode.db-wal"), silent.root / "log" / "opencode.log"):
        set_back(path, HOURS)
    world.look()
    world.check("not a word of the model yet", silent.id, "running", pid=silent, inferred=False)
    world.check("the model streams", streams.id, "running", pid=streams, inferred=False)
    world.check("a tool runs", tool.id, "running", pid=tool, inferred=False)
    world.check("between two steps", between.id, "running", pid=between, inferred=True)
    for agent in (silent, streams):
        agent.send_signal(signal.SIGSTOP)
        wait_until("it is suspended", partial(is_suspended, agent.pid))
    world.look()
    world.check("opencode run, suspended", silent.id, "running", pid=silent, suspended=True)
    world.check("a screen, suspended", streams.id, "running", pid=streams, suspended=True)


@case("killed-mid-turn")
def killed_opencode(world: World) -> None:
    """opencode's run, screen and server, by three signals, in a model call and in a tool"""
    checks: list[tuple[str, OpenCode]] = []
    for command in ("run", "screen", "serve"):
        for number in SIGNALS:
            for where in ("model", "tool"):
                agent = OpenCode.spawn(world, command)
                agent.mid_model() if where == "model" else agent.mid_tool()
                code = agent.kill(number)
                checks.append((f"opencode {command}, {number.name} in a {where} call (exit {code})", agent))
    world.look()
    for label, agent in checks:
        world.check(label, agent.id, "stopped", process="gone", turn="interrupted", pid=None)


@case("killed-mid-turn")
def killed_older_opencode(world: World) -> None:
    """opencode 1.0 and 1.2, killed in a model call and in a tool"""
    checks: list[tuple[str, OpenCode]] = []
    for layout, log in (("json", "own"), ("older database", "own")):
        for where in ("model", "tool"):
            agent = OpenCode.spawn(world, layout=layout, log=log)
            agent.mid_model() if where == "model" else agent.mid_tool()
            agent.kill()
            checks.append((f"{layout}, in a {where} call", agent))
    world.look()
    for label, agent in checks:
        world.check(label, agent.id, "stopped", process="gone", turn="interrupted", pid=None)


@case("killed-mid-turn")
def interrupted_opencode(world: World) -> None:
    """opencode interrupted by Esc, or left with half a turn: at its prompt, and the last turn was not finished"""
    model, tool, retry = (OpenCode.spawn(world, "screen") for _ in range(3))
    model.mid_model().do("abort")
    tool.mid_tool().do("abort")
    retry.mid_model().do("retry", code=500)
    retry.do("abort_retry")
    killed = OpenCode.spawn(world, cwd=world.folder_at("other")).mid_model()
    killed.kill()
    time.sleep(TICKS)
    opened = OpenCode.spawn(world, "screen", "-s", killed.id, id=killed.id, cwd=world.home / "other")
    world.look()
    for label, agent in {"in a model call": model, "in a tool": tool, "in a retry": retry}.items():
        world.check(f"Esc {label}", agent.id, "idle", pid=agent, last_turn="interrupted")
    world.check("killed, and opened again", killed.id, "idle", pid=opened, last_turn="interrupted", inferred=True)
    opened.do("take")
    opened.finished()
    world.look()
    world.check("the half turn is followed by a whole one", killed.id, "idle", pid=opened, last_turn="done")
    opened.kill()
    world.look()
    world.check("its screen killed at its prompt", killed.id, "done", process="gone", pid=None)


@case("api-error")
def api_error_opencode(world: World) -> None:
    """opencode retries for ever (only its log says so), or gives up, or knows no such model"""
    retrying = OpenCode.spawn(world).mid_model()
    retrying.do("retry", code=500)
    unlogged = OpenCode.spawn(world, log="late", cwd=world.folder_at("late")).mid_model()
    unlogged.do("retry", code=429)
    stays = OpenCode.spawn(world, "screen").mid_model()
    stays.do("fail", code=401)
    gave_up = OpenCode.spawn(world).mid_model()
    gave_up.do("fail", code=401)
    gave_up.leave(code=1)
    unknown = OpenCode.spawn(world)
    unknown.do("prompt")
    unknown.leave(code=1)
    over = OpenCode.spawn(world, "screen").mid_model()
    over.do("retry", code=500)
    over.do("stream")  # the next try works
    server = OpenCode.spawn(world, "serve", cwd=world.folder_at("server"))
    server.mid_model()
    server.do("say", id=server.id, status={"type": "retry", "attempt": 2, "message": "fake error 503", "next": 1})
    world.look()
    world.check("opencode run retries", retrying.id, "running", pid=retrying, reason=Contains("500"))
    world.check("its row says so", retrying.id, "running", doing=Contains("retrying: "))
    world.check("the same, its log is late", unlogged.id, "running", pid=unlogged)
    world.check("a screen gave up, at its prompt", stays.id, "idle", last_turn="failed", error=Contains("401"))
    world.check("opencode run gave up and ended", gave_up.id, "failed", process="gone", error=Contains("401"))
    world.check("no such model: never answered", unknown.id, "stopped", process="gone", reason=Contains("answered"))
    world.check("the next try works", over.id, "running", pid=over, reason=None)
    world.check("a server retries", server.id, "running", pid=server, reason=Contains("503"))
    world.check("its row says so", server.id, "running", doing="retrying: fake error 503")


@case("exit-0-lies")
def exit_0_lies_opencode(world: World) -> None:
    """opencode that exits 0 after a refusal, a failure of its own, or a kill under its wrapper"""
    refused = OpenCode.spawn(world).mid_model()
    refused.do("call", command="rm -rf /", allowed=False)
    refused.do("refuse")
    codes = [refused.leave(code=0)]
    broken = OpenCode.spawn(world, layout="json", log="own").mid_model()
    codes.append(broken.leave(code=0))
    wrapped = OpenCode.spawn(world, wrapper=WRAPPER, then="shrug", program=".opencode").mid_tool()
    assert wrapped.wrapper is not None
    wrapped.send_signal(signal.SIGKILL)
    codes.append(wrapped.wrapper.reap())
    world.look()
    world.says("all of them exited 0", str(codes), codes == [0] * 3)
    world.check("a tool was refused", refused.id, "done", process="gone", reason=Contains("refused"))
    world.check("1.0, its turn has no end", broken.id, "stopped", process="gone", turn="interrupted")
    world.check("killed -9 under its wrapper", wrapped.id, "stopped", process="gone", turn="interrupted")


BUSY = {"type": "busy"}


@case("native-daemon")
def opencode_server(world: World) -> None:
    """opencode serve runs sessions of two directories, and terminals are only its clients"""
    server = OpenCode.spawn(world, "serve")
    other = world.folder_at("other")
    working, resting, asking, elsewhere = (timed_id("ses") for _ in range(4))
    server.do("begin", id=working)
    server.mid_tool(id=working)
    server.do("say", id=working, status=BUSY)
    server.finished(id=resting)
    server.mid_model(id=asking)
    server.do("say", id=asking, status=BUSY)
    server.do("ask_person", id=asking, command="make deploy")
    server.do("begin", id=elsewhere, directory=str(other))
    server.mid_model(id=elsewhere)
    server.do("say", id=elsewhere, status=BUSY)
    clients = [
        OpenCode.spawn(world, opened=False, argv=["opencode", *words])
        for words in (["run", "--attach", "http://127.0.0.1:4096", "go"], ["attach", "http://127.0.0.1:4096"])
    ]
    alone = OpenCode.spawn(world, "run", cwd=world.folder_at("alone")).mid_model()
    world.look()
    world.check("a session in mid-turn", working, "running", pid=server, link="exact", inferred=False)
    world.check("a session of another directory", elsewhere, "running", pid=server, link="exact", inferred=False)
    wanted = Contains("make deploy")
    world.check("a session that asks", asking, "waiting", pid=server, waiting_for=wanted, inferred=False)
    world.check("a session at rest", resting, "done", process="gone", pid=None)
    world.check("opencode run beside it", alone.id, "running", pid=alone, link="exact")
    world.check_not_shown("clients", pids=[one.pid for one in clients])
    asked = server.do("asked")["directories"]
    opened = sorted(map(str, (world.work, other)))
    world.says("asked only about directories that it has open", str(asked), set(asked) <= set(opened) and bool(asked))


@case("native-daemon")
def opencode_server_without_words(world: World) -> None:
    """an opencode server that does not answer, wants a password, or answers nonsense: its log still tells"""
    server = OpenCode.spawn(world, "serve")
    server.mid_model()
    server.do("say", id=server.id, status=BUSY)
    for manner in ("silent", "password", "odd"):
        server.do("behave", manner=manner)
        world.look()
        world.check(f"its server is {manner}", server.id, "running", pid=server, link="exact")
    server.do("behave", manner="honest")


@case("native-daemon")
def opencode_server_without_a_log(world: World) -> None:
    """an opencode server that logs errors only may be on any open turn: none of them is called ended"""
    server = OpenCode.spawn(world, "serve", log="errors")
    server.do("behave", manner="password")
    server.mid_model()
    done = timed_id("ses")
    server.finished(id=done)
    world.look()
    world.check("in mid-turn", server.id, "unknown", process="unknown", pid=None)
    world.check("at rest", done, "done", process="gone", inferred=False)
    server.kill()
    world.look()
    world.check("in mid-turn, its server killed", server.id, "stopped", process="gone", turn="interrupted")


@case("daemon-gone")
def opencode_server_gone(world: World) -> None:
    """opencode's server killed -9, its client sits there"""
    server = OpenCode.spawn(world, "serve")
    working, resting = timed_id("ses"), timed_id("ses")
    server.mid_tool(id=working)
    server.do("say", id=working, status=BUSY)
    server.finished(id=resting)
    client = OpenCode.spawn(world, opened=False, argv=["opencode", "attach", "http://127.0.0.1:4096"])
    server.kill()
    world.look()
    world.check("the session in mid-turn", working, "stopped", process="gone", turn="interrupted", pid=None)
    world.check("the session at rest", resting, "done", process="gone", pid=None)
    world.check_not_shown("the client", pids=[client.pid])
    world.stranger(server.pid)
    world.look()
    world.check("its pid is a stranger's", working, "stopped", process="gone", pid=None)
