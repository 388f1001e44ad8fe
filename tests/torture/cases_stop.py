"""`agentctl stop`: ends whom it says, harms nobody else, and says "stopped" only when it is true."""

from __future__ import annotations

import json
import shlex
import sys
import threading
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.agents.claude_code.torture import Claude
from tests.agents.codex.torture import CODEX_BINARY, Codex, CodexDaemon
from tests.agents.demo.torture import Demo
from tests.torture.cases_daemons import ACTIVE, IDLE, Background
from tests.torture.handles import BARE, Handle, arguments, state_of, wait_until
from tests.torture.kernel import as_nobody, child_of
from tests.torture.registry import case
from tests.torture.standins.files import start_ticks, timed_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.torture.world import World

TERM, INT, HUP = 15, 2, 1
NO_GRACE = ("--grace", "0.3")


class Stopped(NamedTuple):
    code: int
    outcomes: list[dict[str, Any]]
    said: str  # on stderr

    @property
    def one(self) -> dict[str, Any]:
        return self.outcomes[0] if self.outcomes else {"outcome": "nothing", "ended": [], "left": [], "said": self.said}

    @property
    def hows(self) -> dict[int, str]:
        return {entry["pid"]: entry["how"] for entry in self.one["ended"]}

    @property
    def left(self) -> list[int]:
        return sorted(entry["pid"] for entry in self.one["left"])


def stop(world: World, *words: str) -> Stopped:
    done = world.run("stop", *words, "--json")
    return Stopped(done.returncode, json.loads(done.stdout)["stopped"] if done.stdout else [], done.stderr.strip())


def check_stopped(world: World, label: str, found: Stopped, *gone: Handle, how: str | None = None) -> None:
    """It says so, and it is true of these processes."""
    living = [one.pid for one in gone if not one.has_ended()]
    ok = found.code == 0 and found.one["outcome"] == "stopped" and not living
    if how is not None:
        ok = ok and found.hows.get(gone[0].pid) == how
    answer = f"exit {found.code}, {found.one['outcome']}, {found.hows or found.said}; {len(living)} alive"
    world.says(
        f"{label}: stopped" + (f" by {how}" if how else ""),
        answer,
        ok,
        json.dumps(found.outcomes, indent=1) + found.said,
    )


def check_refused(world: World, label: str, found: Stopped, word: str, *spared: Handle) -> None:
    dead = [one.pid for one in spared if one.has_ended()]
    ok = found.code == 4 and not found.outcomes and word in found.said and not dead
    world.says(f"{label}: refused, ..{word}..", f"exit {found.code}: {found.said}; {len(dead)} harmed", ok, found.said)


def check_spared(world: World, label: str, *spared: Handle) -> None:
    dead = [one.pid for one in spared if one.has_ended()]
    world.says(f"{label}: unharmed", f"{len(dead)} of {len(spared)} harmed", not dead)


def demo_in_a_tool(world: World, agent: Any, id: str) -> Demo:
    """A demo agent that an agent runs as its tool, away from the tool's own group of processes."""
    words = [sys.executable, "-m", "agentctl.demo_agent", "--session-id", id, "-p", "[[sleep:300]]"]
    agent.tool(f"PYTHONPATH={shlex.quote(world.env['PYTHONPATH'])} setsid {shlex.join(words)} & wait")
    path = world.root(Demo) / "sessions" / id / "process.json"
    pid = int(json.loads(wait_until("the nested agent", lambda: path.exists() and path.read_text()))["pid"])
    inner = Demo.__new__(Demo)
    Handle.__init__(inner, pid, start_ticks(pid))
    inner.id, inner.folder = id, path.parent
    world.keep(inner)
    return inner


@case("unflushed")
def unflushed_stop(world: World) -> None:
    """stop of agents that have not written anything yet"""
    claude, quiet, codex = (
        Claude.spawn(world, "busy"),
        Claude.spawn(world, None, style="old", headless=True),
        Codex.spawn(world, source="cli"),
    )
    for label, agent in (("claude busy", claude), ("claude -p", quiet), ("codex never prompted", codex)):
        check_stopped(world, f"{label}, no transcript", stop(world, agent.id), agent, how="SIGTERM")


@case("foreign")
def foreign_stop(world: World) -> None:
    """stop of agents that were started by hand"""
    claude, codex, tui = (
        Claude.spawn(world, "busy").mid_tool(),
        Codex.spawn(world).mid_tool(),
        Codex.spawn(world, source="cli").mid_model(),
    )
    demo = Demo.spawn(world, "[[sleep:300]]")
    check_stopped(world, "claude", stop(world, claude.id), claude, how="SIGTERM")
    check_stopped(world, "codex exec", stop(world, codex.id), codex, how="SIGINT")
    check_stopped(world, "codex TUI", stop(world, tui.id), tui, how="SIGTERM")
    check_stopped(world, "demo agent", stop(world, demo.id), demo, how="SIGTERM")
    world.look()
    world.check_all("all of them afterwards", [claude.id, codex.id, tui.id, demo.id], "stopped", process="gone")


@case("foreign")
def foreign_sole(world: World) -> None:
    """stop of an older claude that does not say which session it is on"""
    claude = Claude.spawn(world, register=False, style="old").mid_model()
    check_refused(world, "inferred", stop(world, claude.id), f"pid {claude.pid}", claude)
    check_refused(world, "inferred, says how", stop(world, claude.id), "--force", claude)
    check_stopped(world, "inferred, with --force", stop(world, claude.id, "--force"), claude, how="SIGTERM")


@case("pid-recycled")
def pid_recycled_stop(world: World) -> None:
    """stop of a session whose process is dead and whose pid is a stranger's"""
    claude, codex, demo = (
        Claude.spawn(world, "busy").mid_model(),
        Codex.spawn(world).mid_model(),
        Demo.spawn(world, "[[sleep:300]]"),
    )
    demo.wait_for_event("prompt")
    for agent in (claude, codex, demo):
        agent.kill()
        stranger = world.stranger(agent.pid)
        for words in ((), ("--force", "--tree")):
            found = stop(world, agent.id, *words)
            answer = (found.code, found.one["outcome"])
            world.says("it had ended before", str(answer), answer == (0, "gone"), found.said)
        check_spared(world, "the stranger", stranger)


# Waits in the middle of a stop until somebody has done something.
HALTED = """
import os, sys, time
from agentctl.stop import terminate as ending
from agentctl.cli import run
step, folder, *words = sys.argv[1:]
real = getattr(ending.Ending, step)

def halted(self, *given, **named):
    open(f"{folder}/halted", "w").close()
    deadline = time.monotonic() + 30
    while not os.path.exists(f"{folder}/go") and time.monotonic() < deadline:
        time.sleep(0.01)
    return real(self, *given, **named)

setattr(ending.Ending, step, halted)
sys.exit(run(["stop", *words]))
"""


def stop_halted(world: World, before: str, meanwhile: Callable[[], object], *words: str) -> Stopped:
    """Stop, and let something happen before this step of it."""
    folder = world.folder / f"halt-{before}"
    folder.mkdir()
    errors: list[BaseException] = []

    def act() -> None:
        try:
            wait_until("the stop is there", (folder / "halted").exists)
            meanwhile()
        except BaseException as error:  # noqa: BLE001  it is raised below, in the case's own thread
            errors.append(error)
        finally:
            (folder / "go").touch()

    thread = threading.Thread(target=act)
    thread.start()
    command, world.command = world.command, [sys.executable, "-c", HALTED, before, str(folder)]
    try:
        done = world.run(*words, "--json")
    finally:
        world.command = command
        thread.join()
    if errors:
        raise errors[0]
    return Stopped(done.returncode, json.loads(done.stdout)["stopped"] if done.stdout else [], done.stderr.strip())


@case("pid-recycled")
def pid_recycled_meanwhile(world: World) -> None:
    """its process dies during the stop, and its pid is a stranger's before the first signal"""
    for step in ("prepare", "signal_agents"):
        claude = Claude.spawn(world, "busy").mid_model()
        strangers: list[Handle] = []

        def swap(agent: Handle = claude, found: list[Handle] = strangers) -> None:
            agent.kill()
            found.append(world.stranger(agent.pid))

        found = stop_halted(world, step, swap, claude.id, *NO_GRACE)
        check_stopped(world, f"swapped before {step}", found, claude, how="itself")
        check_spared(world, "the stranger", *strangers)


@case("wrong-one")
def wrong_one_forged(world: World) -> None:
    """files that name somebody else's process, with its right start"""
    claude, demo = Claude.spawn(world, "busy").mid_model(), Demo.spawn(world, "[[sleep:300]]")
    stranger = world.bare("sleepy", ["sleepy"])
    file = json.loads(claude.file.read_text())
    claude.kill()
    claude.file.unlink()
    path = world.root(Claude) / "sessions" / f"{stranger.pid}.json"
    path.write_text(json.dumps({**file, "pid": stranger.pid, "procStart": str(stranger.start)}))
    check_refused(world, "claude's file names a stranger", stop(world, claude.id), f"pid {stranger.pid}", stranger)
    path.unlink()
    forged = Demo.spawn(world, "[[sleep:300]]")
    forged.wait_for_event("prompt")  # it writes its file no more
    path = forged.folder / "process.json"
    others: tuple[tuple[Handle, str], ...] = ((stranger, f"pid {stranger.pid}"), (demo, "may be on it"))
    for whose, word in others:
        entry = {**json.loads(path.read_text()), "pid": whose.pid, "start_ticks": whose.start}
        path.write_text(json.dumps(entry))
        check_refused(world, "the demo agent's file names somebody else", stop(world, forged.id), word, whose, forged)
    check_refused(world, "the same with --force", stop(world, forged.id, "--force"), "may be on it", demo, forged)
    world.expects_unattached |= {forged.pid}


@case("wrong-one")
def wrong_one_marker(world: World) -> None:
    """the marker of a launch, inherited by somebody who has nothing to do with it"""
    env = {"AGENTCTL_LAUNCH": "abcdefghij"}
    claude, other = Claude.spawn(world, "busy", env=env).mid_tool(), Claude.spawn(world, "busy", env=env).mid_model()
    server = world.bare("tmux: server", ["tmux", "new-session", "-d"], env=env)
    check_stopped(world, "the one that is meant", stop(world, claude.id, "--tree"), claude)
    check_spared(world, "another agent and a server with the same marker", other, server)


@case("wrong-one")
def wrong_one_user(world: World) -> None:
    """a process of another user that our store names"""
    puppet = world.bare("claude", ["claude"], around=as_nobody)
    id = str(uuid.uuid4())
    (world.root(Claude) / "sessions").mkdir(parents=True)
    file = {
        "pid": puppet.pid,
        "sessionId": id,
        "cwd": str(world.work),
        "procStart": str(puppet.start),
        "status": "busy",
    }
    (world.root(Claude) / "sessions" / f"{puppet.pid}.json").write_text(json.dumps(file))
    for words in ((), ("--force",)):
        check_refused(world, "another user's process", stop(world, id, *words), "another user", puppet)


@case("wrong-one")
def wrong_one_sub_agent(world: World) -> None:
    """a sub-agent lives in its parent's process: it is not stopped by itself, and does not keep its parent from it"""
    codex, child = Codex.spawn(world).mid_model(), timed_id()
    codex.do("open", id=child)
    codex.do("prompt", id=child, text="look", parent=codex.id)
    for words in ((), ("--force",)):
        found = stop(world, child, *words)
        check_refused(world, "the sub-agent", found, f"agentctl stop {codex.id}", codex)
    check_stopped(world, "its parent", stop(world, codex.id), codex, how="SIGINT")
    world.look()
    world.check_all("both of them afterwards", [codex.id, child], "stopped", process="gone")


@case("stubborn")
def stubborn(world: World) -> None:
    """agents that ignore every polite signal, with a tool that does so, too"""
    deaf = "trap '' TERM INT HUP; while :; do sleep 0.2; done"
    claude, codex = Claude.spawn(world, "busy"), Codex.spawn(world)
    for label, agent in (("claude", claude), ("codex", codex)):
        agent.do("prompt", text="go")
        agent.do("call", command=deaf)
        tool = agent.tool(deaf)
        agent.do("ignore", signals=[TERM, INT, HUP])
        found = stop(world, agent.id, *NO_GRACE)
        check_stopped(world, f"{label} that ignores all", found, agent, tool, how="SIGKILL")
        world.says(
            "its tool had to be killed, too", str(found.hows.get(tool.pid)), found.hows.get(tool.pid) == "SIGKILL"
        )
    world.look()
    world.check_all("both of them afterwards", [claude.id, codex.id], "stopped", process="gone", turn="interrupted")


@case("stubborn")
def suspended(world: World) -> None:
    """an agent that is suspended: it goes on in order to end in its own way"""
    claude = Claude.spawn(world, "busy").mid_model()
    claude.send_signal(19)
    wait_until("it is suspended", lambda: state_of(claude.pid) == "T")
    found = stop(world, claude.id)
    check_stopped(world, "suspended", found, claude, how="SIGTERM")
    world.says("in its own way: it removed its file", str(claude.file.exists()), not claude.file.exists())


@case("orphans")
def orphans(world: World) -> None:
    """tools in sessions of their own, of agents that leave them behind"""
    claude, codex, tui = Claude.spawn(world, "busy", style="old"), Codex.spawn(world), Codex.spawn(world, source="cli")
    for label, agent in (("older claude", claude), ("codex exec", codex), ("codex TUI", tui)):
        agent.do("prompt", text="go")
        agent.do("call", command="sleep 300")
        tool = agent.tool("setsid sleep 301 & sleep 300")
        pids = wait_until("its own tools", partial(two_children, tool.pid))
        inner = [Handle(pid, start_ticks(pid)) for pid in pids]
        for one in inner:
            world.keep(one)
        check_stopped(world, f"{label} and three tools", stop(world, agent.id), agent, tool, *inner)


def two_children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        found = [int(word) for word in file.read().split()]
    return found if len(found) == 2 else []


@case("orphans")
def wrappers(world: World) -> None:
    """a node wrapper around the native program; and one that was killed before"""
    around = ["node", "/usr/lib/node_modules/@openai/codex/bin/codex.js", "exec"]
    whole, bereft = Codex.spawn(world, wrapper=around).mid_tool(), Codex.spawn(world, wrapper=around).mid_tool()
    assert whole.wrapper and bereft.wrapper
    check_stopped(world, "wrapper and native program", stop(world, whole.id), whole, whole.wrapper)
    bereft.wrapper.kill()
    check_stopped(world, "the wrapper was killed", stop(world, bereft.id), bereft, how="SIGINT")


@case("nested")
def nested(world: World) -> None:
    """an agent that an agent runs; stop of the outer one"""
    for tree in (False, True):
        outer = Claude.spawn(world, "busy", style="old")
        outer.do("prompt", text="go")
        outer.do("call", command="agents")
        own = outer.tool("sleep 300")
        inner = demo_in_a_tool(world, outer, str(uuid.uuid4()))
        found = stop(world, outer.id, *(["--tree"] if tree else []))
        check_stopped(world, "the outer one and its tool", found, outer, own)
        named = [entry["id"] for entry in found.one["left"]]
        above = [] if tree else [None]  # the shell that holds it: it ends only together with it
        world.says("the inner session is named, and what holds it", str(named), named == [inner.id, *above])
        if tree:
            ended = [entry["id"] for entry in found.outcomes if entry["outcome"] == "stopped"]
            world.says("--tree: the inner one is stopped, too", str(ended), inner.has_ended() and inner.id in ended)
        else:
            check_spared(world, "the inner one", inner)
            world.look()
            world.check("the inner one goes on", inner.id, "running", pid=inner)
        world.look()


@case("nested")
def nested_daemon(world: World) -> None:
    """an agent whose tool has started another agent's daemon: never ended, not even with --tree"""
    argv = [CODEX_BINARY, "app-server", "--listen", "unix://"]
    config = world.config_file({"kind": BARE, "argv": argv, "script": [["sleep", {"seconds": 600}]]})
    words = [world.programs.path("codex"), *arguments(config, argv)[1:]]
    for tree in ((), ("--tree", "--force")):
        outer = Claude.spawn(world, "busy", style="old")
        outer.do("prompt", text="go")
        outer.do("call", command="serve")
        tool = outer.tool(f"{shlex.join(words)} & wait")
        pid = wait_until("the daemon", partial(daemon_below, tool.pid))
        daemon = Handle(pid, start_ticks(pid))
        world.keep(daemon)
        found = stop(world, outer.id, *tree)
        check_stopped(world, "the outer one", found, outer)
        world.says("it is named, and what holds it", str(found.left), found.left == sorted([daemon.pid, tool.pid]))
        check_spared(world, "the daemon and its shell", daemon, tool)


def daemon_below(pid: int) -> int | None:
    """Once it shows the arguments of one."""
    below = child_of(pid)
    if below is None:
        return None
    with open(f"/proc/{below}/cmdline", "rb") as file:
        return below if b"app-server\0--listen" in file.read() else None


@case("native-daemon")
def codex_daemon_stop(world: World) -> None:
    """stop of a thread in codex's daemon, which holds another one"""
    daemon = CodexDaemon.spawn(world)
    working, other = timed_id(), timed_id()
    for id in (working, other):
        daemon.holds(id, ACTIVE)
    daemon.mid_tool(id=working)
    daemon.mid_model(id=other)
    daemon.do("behave", manner="deaf")
    found = stop(world, working, "--force", "--grace", "1")
    world.says("a daemon that does not listen: not stopped", f"exit {found.code}: {found.said}", found.code == 1)
    check_spared(world, "the daemon that did not listen", daemon)
    daemon.do("behave", manner="honest")
    found = stop(world, working)
    world.says(
        "its turn is ended", f"exit {found.code}, {found.one['outcome']}, {found.one['said']}",
        (found.code, found.one["outcome"]) == (1, "open") and "daemon" in str(found.one["said"]), found.said,
    )  # fmt: skip
    check_spared(world, "the daemon", daemon)
    world.look()
    world.check("the thread that was stopped", working, "idle", pid=daemon, last_turn="interrupted")
    world.check("the other thread goes on", other, "running", pid=daemon)
    again = stop(world, working)
    world.says(
        "no turn is active: it stays open", str(again.one["said"]),
        (again.code, again.one["outcome"]) == (1, "open") and "no turn" in again.one["said"],
    )  # fmt: skip
    daemon.do("say", id=other, status=IDLE)


@case("native-daemon")
def codex_daemon_silent_stop(world: World) -> None:
    """stop of a thread in a daemon that does not answer: never by a signal"""
    daemon = CodexDaemon.spawn(world)
    daemon.holds(daemon.id, ACTIVE)
    daemon.mid_model()
    daemon.do("behave", manner="silent")
    found = stop(world, daemon.id, "--force", "--grace", "1")
    world.says(
        "not stopped, and says so", f"exit {found.code}: {found.said}", found.code == 1 and "daemon" in found.said
    )
    check_spared(world, "the daemon", daemon)
    daemon.do("behave", manner="honest")


# What `claude stop JOB` does, for the interpreter that stands in for claude: it takes `stop` for its script.
CLAUDE_STOP = """
import json, os, signal, sys, time
root, job = os.path.expanduser("~/.claude"), sys.argv[1]
path = f"{root}/jobs/{job}/state.json"
state = json.load(open(path))
json.dump({**state, "state": "stopped"}, open(path, "w"))
worker = json.load(open(f"{root}/daemon/roster.json"))["workers"].get(job) or {}
try:
    os.kill(worker["replPid"], signal.SIGTERM)
except (KeyError, ProcessLookupError):
    pass
print("stopped", job)
"""


def with_claude_stop(world: World) -> None:
    (world.work / "stop").write_text(CLAUDE_STOP)
    libraries = {name: value for name, value in world.programs.env.items() if name != "PYTHONPATH"}
    world.env.update(libraries)


@case("resurrect")
def resurrect(world: World) -> None:
    """stop of a claude --bg worker: by claude's own command, so that its daemon does not bring it back"""
    with_claude_stop(world)
    background = Background(world)
    background.worker.mid_tool()
    world.expects_unattached.add(background.spare.pid)
    found = stop(world, background.id)
    check_stopped(world, "the worker", found, background.worker)
    said = str(found.one.get("said"))
    world.says("by claude's own command", said, f"stop {background.short}" in said)
    check_spared(world, "daemon, host and spare", background.daemon, background.host, background.spare)
    world.look()
    world.check("afterwards", background.id, "stopped", process="gone")


@case("resurrect")
def resurrect_pending_stop(world: World) -> None:
    """a worker that was killed from outside, and its daemon is about to bring it back"""
    background = Background(world)
    background.worker.mid_tool()
    background.worker.kill()
    world.expects_unattached.add(background.spare.pid)
    with_claude_stop(world)
    found = stop(world, background.id)
    check_stopped(world, "it is not brought back", found)
    check_spared(world, "daemon and host", background.daemon, background.host)
    world.look()
    world.check("afterwards", background.id, "stopped", process="gone")
