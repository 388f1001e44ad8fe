"""What a session does, and how it ended: questions, errors, interrupts, and exit codes that lie."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from tests.agents.claude_code.torture import Claude
from tests.agents.codex.torture import Codex, CodexDaemon
from tests.agents.demo.torture import Demo
from tests.torture.handles import Tool, wait_until
from tests.torture.registry import case
from tests.torture.standins.files import start_ticks
from tests.torture.world import Contains

if TYPE_CHECKING:
    from tests.torture.world import World

QUESTION = {"questions": [{"question": "Which colour?", "options": []}]}
ON_STDIN = ["claude", "-p", "--input-format", "stream-json", "--permission-prompt-tool", "stdio"]


@case("permission")
def permission_claude(world: World) -> None:
    """claude waits for a person"""
    asks = Claude.spawn(world, "busy").mid_model()
    asks.do("call", command="touch /tmp/zz")
    asks.status("waiting", "permission prompt")
    question = Claude.spawn(world, "busy").mid_model()
    question.do("call", command="", tool="AskUserQuestion", input=QUESTION)
    question.status("waiting", "input needed")
    dialog = Claude.spawn(world, "busy").mid_model()
    dialog.do("call", command="make deploy")
    dialog.status("waiting", "dialog open")
    config = Claude.spawn(world, "busy").finished()
    config.status("waiting", "dialog open")
    stdin = Claude.spawn(world, None, style="old", headless=True, argv=ON_STDIN).mid_model()
    stdin.do("call", command="rm -rf build")
    tool = Claude.spawn(world, None, style="old", headless=True, argv=ON_STDIN).mid_tool("sleep 300")
    world.look()
    world.check("asks to run a command", asks.id, "waiting", waiting_for=Contains("touch /tmp/zz"), inferred=False)
    world.check("asks a question", question.id, "waiting", waiting_for=Contains("Which colour?"))
    world.check("a dialog in mid-turn", dialog.id, "waiting", waiting_for=Contains("make deploy"))
    world.check("a dialog that the person opened", config.id, "idle", waiting_for=None)
    world.check("asks on its stdin", stdin.id, "waiting", waiting_for=Contains("rm -rf build"), inferred=True)
    world.check("the same, and its command runs", tool.id, "running", waiting_for=None)


@case("permission")
def permission_codex(world: World) -> None:
    """codex waits for an approval, which its files do not show"""
    asks = Codex.spawn(world, source="cli", policy="on-request").mid_model()
    asks.do("call", command="touch /tmp/zz")
    runs = Codex.spawn(world, source="cli", policy="on-request").mid_tool("sleep 300")
    never = Codex.spawn(world, source="exec", policy="never").mid_model()
    never.do("call", command="touch /tmp/zz")
    patch = Codex.spawn(world, source="cli", policy="on-request").mid_model()
    patch.do("call", command="", tool="apply_patch")
    world.look()
    wanted = Contains("touch /tmp/zz")
    world.check("a command pending, no process runs it", asks.id, "waiting", waiting_for=wanted, inferred=True)
    world.check("a command pending, its process runs", runs.id, "running", inferred=False)
    world.check("a command pending, approvals are off", never.id, "running", inferred=False)
    world.check("a patch pending: disk cannot tell", patch.id, "running", inferred=True)


@case("permission")
def permission_codex_daemon(world: World) -> None:
    """codex's daemon says that a thread waits for an approval"""
    daemon = CodexDaemon.spawn(world)
    daemon.holds(daemon.id, {"type": "active", "activeFlags": ["waitingOnApproval"]})
    daemon.mid_model().do("call", command="touch /tmp/zz")
    world.look()
    wanted = Contains("touch /tmp/zz")
    world.check("asks to run a command", daemon.id, "waiting", waiting_for=wanted, pid=daemon, inferred=False)


@case("permission")
def permission_demo(world: World) -> None:
    """the demo agent asks"""
    demo = Demo.spawn(world, "[[ask:make deploy]]", status="waiting")
    world.look()
    world.check("asks to run a command", demo.id, "waiting", waiting_for=Contains("make deploy"), inferred=False)


@case("permission")
def permission_for_a_moment(world: World) -> None:
    """codex starts a command: for some moments the call is on disk and its process is not there"""
    agent = Codex.spawn(world, source="cli", policy="on-request").mid_model()
    answers = []
    poller = world.poller()
    for number in range(12):
        flag = world.folder / f"call-{number}"
        agent.send("call_and_tool", command="sleep 300", flag=str(flag), pause=0.06)
        wait_until("the call is on disk", flag.exists)
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


SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


@case("killed-mid-turn")
def killed_claude(world: World) -> None:
    """claude of both styles, by three signals, in a model call and in a tool"""
    checks: list[tuple[str, Claude]] = []
    for style in ("old", "new"):
        for number in SIGNALS:
            for where in ("model", "tool"):
                agent = Claude.spawn(world, "busy" if style == "new" else None, style=style, headless=True)
                agent.mid_model() if where == "model" else agent.mid_tool()
                code = agent.kill(number)
                checks.append((f"{style} claude, {number.name} in a {where} call (exit {code})", agent))
    world.look()
    for label, agent in checks:
        world.check(label, agent.id, "stopped", process="gone", turn="interrupted", pid=None)


@case("killed-mid-turn")
def killed_codex(world: World) -> None:
    """codex, by three signals, in a model call and in a tool"""
    checks: list[tuple[str, Codex]] = []
    for number in SIGNALS:
        for where in ("model", "tool"):
            agent = Codex.spawn(world)
            agent.mid_model() if where == "model" else agent.mid_tool()
            code = agent.kill(number)
            checks.append((f"codex exec, {number.name} in a {where} call (exit {code})", agent))
    world.look()
    for label, agent in checks:
        world.check(label, agent.id, "stopped", process="gone", turn="interrupted", pid=None)


@case("killed-mid-turn")
def killed_demo(world: World) -> None:
    """the demo agent, by three signals, in a model call and in a tool"""
    checks: list[tuple[str, Demo]] = []
    for number in SIGNALS:
        for where, prompt in (("model", "[[sleep:300]]"), ("tool", "[[bash:sleep 300; true]]")):
            agent = Demo.spawn(world, prompt)
            agent.wait_for_event("prompt" if where == "model" else "tool")
            if where == "tool":
                world.keep(agent.tool_process())
            code = agent.kill(number)
            checks.append((f"demo agent, {number.name} in a {where} call (exit {code})", agent))
    world.look()
    for label, agent in checks:
        world.check(label, agent.id, "stopped", process="gone", turn="interrupted", pid=None)


@case("killed-mid-turn")
def interrupted_and_alive(world: World) -> None:
    """interrupted by Esc: at its prompt, and the last turn was not finished"""
    early = Claude.spawn(world, "busy").mid_model()
    early.status("idle")  # before any answer nothing is written
    marked = Claude.spawn(world, "busy").mid_tool()
    marked.do("result", text="rejected", is_error=True)
    marked.do("interrupt_mark", in_tool=True)
    marked.status("idle")
    codex = Codex.spawn(world, source="cli").mid_model()
    codex.do("abort")
    world.look()
    world.check("claude, before any answer", early.id, "idle", pid=early, last_turn="interrupted")
    world.check("claude, in a tool", marked.id, "idle", pid=marked, last_turn="interrupted")
    world.check("codex", codex.id, "idle", pid=codex, last_turn="interrupted")


@case("killed-mid-turn")
def sub_agents(world: World) -> None:
    """claude's sub-agent in mid-turn, which lives in its parent's process: it runs, rests and ends with that"""
    child, finished = "a1b2c3d4e5f6a7b8c", "b1b2c3d4e5f6a7b8c"
    agent = Claude.spawn(world, "busy").mid_tool()
    agent.do("subagent", id=child, calls=0)
    agent.do("subagent", id=finished, calls=2)
    world.look()
    world.check("its parent", agent.id, "running", pid=agent)
    world.check("a sub-agent in mid-turn", child, "running", pid=agent, inferred=True, parent=agent.id)
    world.check("a sub-agent that has answered", finished, "done", parent=agent.id)
    agent.file.unlink()
    world.look()
    world.check("its parent cannot be told", agent.id, "unknown", process="unknown")
    world.check("nor can the sub-agent", child, "unknown", process="unknown")
    agent.kill()
    world.look()
    world.check("its parent, killed", agent.id, "stopped", process="gone")
    world.check("the sub-agent, killed with it", child, "stopped", process="gone", turn="interrupted", pid=None)
    world.check("the one that had answered", finished, "done", process="gone")


@case("killed-mid-turn")
def not_interrupted_at_all(world: World) -> None:
    """claude's file says idle some moments before its answer is in the transcript"""
    agent = Claude.spawn(world, "busy")
    answers = []
    poller = world.poller()
    for number in range(8):
        agent.mid_model().status("busy")
        flag = world.folder / f"idle-{number}"
        agent.send("idle_then_answer", flag=str(flag), pause=0.06)
        wait_until("its file says idle", flag.exists)
        row = poller.look_at(agent.id)
        answers.append(f"{row['status']}/{row['last_turn']}")
        agent.answer()
    wrong = [answer for answer in answers if answer != "idle/done"]
    world.says("idle, and the last turn is done, 8 times", f"{len(wrong)} wrong: {answers}", not wrong)


@case("api-error")
def api_error(world: World) -> None:
    """running while it retries; idle or failed, with the error, when it gives up"""
    retrying = Claude.spawn(world, "busy").mid_model()
    retrying.do("retry")
    older = Claude.spawn(world, None, style="old", headless=True).mid_model()
    stays = Claude.spawn(world, "busy").mid_model()
    stays.do("api_error", code=401, error="authentication_failed")
    stays.status("idle")
    gave_up = Claude.spawn(world, "busy", headless=True).mid_model()
    gave_up.do("api_error", code=429, error="rate_limit")
    gave_up.leave(code=1)
    world.look()
    world.check("claude retries", retrying.id, "running", pid=retrying)
    world.check("older claude -p retries", older.id, "running", pid=older)
    world.check("claude gave up, at its prompt", stays.id, "idle", last_turn="failed", error=Contains("401"))
    world.check("claude -p gave up and ended", gave_up.id, "failed", process="gone", error=Contains("429"))


@case("api-error")
def api_error_codex(world: World) -> None:
    """codex: the same"""
    error = {"message": "exceeded retry limit, last status: 500", "codex_error_info": "internal_server_error"}
    retrying = Codex.spawn(world).mid_model()
    stays = Codex.spawn(world, source="cli").mid_model()
    stays.do("complete", error=error)
    gave_up = Codex.spawn(world).mid_model()
    gave_up.do("complete", error=error)
    gave_up.leave(code=1)
    daemon = CodexDaemon.spawn(world)
    daemon.holds(daemon.id, {"type": "systemError"})
    daemon.mid_model().do("complete", error=error)
    demo = Demo.spawn(world, "[[fail:the model is gone]][[idle]]", status="idle")
    world.look()
    world.check("codex retries", retrying.id, "running", pid=retrying)
    world.check("codex gave up, at its prompt", stays.id, "idle", last_turn="failed", error=Contains("500"))
    world.check("codex exec gave up and ended", gave_up.id, "failed", process="gone", error=Contains("500"))
    world.check("codex's daemon says systemError", daemon.id, "idle", last_turn="failed", error=Contains("500"))
    world.check(
        "demo agent failed, at its prompt", demo.id, "idle", last_turn="failed", error=Contains("model is gone")
    )


@case("exit-0-lies")
def exit_0_lies(world: World) -> None:
    """agents that exit 0 after an interrupt, an error or a refusal"""
    interrupted = Claude.spawn(world, "busy", headless=True).mid_tool()
    codes = [interrupted.kill(signal.SIGINT)]
    older = Claude.spawn(world, None, style="old", headless=True).mid_model()
    codes.append(older.kill(signal.SIGINT))
    failed = Claude.spawn(world, "busy", headless=True).mid_model()
    failed.do("api_error", code=500, error="server_error")
    codes.append(failed.leave(code=0))
    refused = Claude.spawn(world, "busy", headless=True).mid_model()
    refused.do("call", command="rm -rf /")
    refused.do(
        "result", text="Claude requested permissions to use Bash, but you haven't granted it yet.", is_error=True
    )
    refused.do("answer", text="I was not allowed to.")
    codes.append(refused.leave(code=0))
    codex = Codex.spawn(world).mid_model()
    codex.do("complete", error={"message": "stream disconnected", "codex_error_info": "other"})
    codes.append(codex.leave(code=0))
    world.look()
    world.says("all of them exited 0", str(codes), codes == [0] * 5)
    world.check("claude, SIGINT in a tool", interrupted.id, "stopped", turn="interrupted")
    world.check("older claude, SIGINT in a model call", older.id, "stopped", turn="interrupted")
    world.check("claude after an API error", failed.id, "failed", error=Contains("500"))
    world.check("claude, a tool was refused", refused.id, "done", reason=Contains("refused"))
    world.check("codex after an error", codex.id, "failed", error=Contains("stream disconnected"))
