"""Older versions: Claude Code's own file gives no status, and not the session that /clear began; OpenCode has a log for
each start, which does not say whose it is."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from agentctl.agents.claude_code.cleared import TOGETHER
from agentctl.agents.claude_code.observing import LATE
from tests.agents.claude_code.torture import Claude
from tests.agents.opencode.standin_files import timed_id
from tests.agents.opencode.torture import OpenCode
from tests.torture.cases_opencode_turns import BUSY
from tests.torture.cases_turns import ON_STDIN, QUESTION
from tests.torture.registry import case
from tests.torture.world import Contains

if TYPE_CHECKING:
    from typing import Any

    from tests.torture.world import World

APART = TOGETHER + 0.2  # seconds between two commands, as a person types them
IDS = [f"0000000{n}-0000-4000-8000-000000000000" for n in range(10)]


def screen(world: World, id: str, **options: Any) -> Claude:
    return Claude.spawn(world, None, style="oldest", id=id, **options)


def swept(agent: Claude) -> None:
    """The next Claude Code that starts removes the file of a killed one."""
    agent.kill()
    agent.file.unlink()


@case("id-rotates")
def file_is_not_renewed(world: World) -> None:
    """a Claude Code whose own file keeps the session before /clear"""
    agent = screen(world, IDS[0]).finished(None)
    agent.do("clear", id=IDS[1])
    world.look()
    world.check("the new session, not prompted yet", IDS[1], "idle", pid=agent, link="sole", inferred=True)
    world.check("the old session", IDS[0], "done", pid=None, process="gone")
    agent.id = IDS[1]
    agent.mid_tool()
    world.look()
    world.check("a command runs in the new session", IDS[1], "running", pid=agent, inferred=True)
    agent.do("result")
    agent.do("answer")
    time.sleep(APART)
    agent.do("clear", id=IDS[2])
    agent.id = IDS[2]
    agent.mid_model()
    world.look()
    world.check("cleared again, and prompted", IDS[2], "running", pid=agent, inferred=True)
    world.check("the one before", IDS[1], "done", pid=None)
    world.check("the one before that", IDS[0], "done", pid=None)
    agent.kill()
    world.look()
    world.check("killed in mid-turn", IDS[2], "stopped", pid=None, inferred=False)
    world.check("the one before, then", IDS[1], "done", inferred=False)


@case("id-rotates")
def file_is_not_renewed_stream(world: World) -> None:
    """the same, with /clear from a program that writes to its stdin"""
    agent = screen(world, IDS[0], headless=True, argv=ON_STDIN).finished(None)
    agent.do("clear", id=IDS[1])
    agent.id = IDS[1]
    agent.mid_model()
    world.look()
    world.check("the new session", IDS[1], "running", pid=agent, link="sole", inferred=True)
    world.check("the old session", IDS[0], "done", pid=None)


@case("id-rotates")
def nothing_tells_who_began_it(world: World) -> None:
    """a session that one of the screens in its directory may have gone on to, and nothing tells"""
    unsaid = screen(world, IDS[0], cwd=world.folder_at("unsaid")).finished(None)
    unsaid.do("clear", id=IDS[1], history=False)
    unsaid.id = IDS[1]
    unsaid.mid_model()
    place = world.folder_at("together")
    first, second = (screen(world, id, cwd=place).finished(None) for id in IDS[2:4])
    first.do("clear", id=IDS[4])
    second.do("clear", id=IDS[5])
    first.id, second.id = IDS[4:6]
    first.mid_model()
    second.mid_model()
    world.look()
    world.check("begun, and no history says by whom", IDS[1], "unknown", pid=None)
    world.check("the session before it", IDS[0], "done", pid=None, inferred=True)
    world.check_unattached("its process", unsaid, IDS[:2])
    world.check_all("two that were cleared at one moment", IDS[4:6], "unknown")
    world.check_all("the sessions before", IDS[2:4], "done", inferred=True)
    world.check_unattached("the first", first, [IDS[2], *IDS[4:6]])
    world.check_unattached("the second", second, IDS[3:6])


@case("id-rotates")
def not_where_it_went(world: World) -> None:
    """sessions that a screen of an older version cannot have gone on to"""
    here = world.folder_at("here")
    agent = screen(world, IDS[0], cwd=here).finished(None)
    newer = Claude.spawn(world, "busy", id=IDS[1], cwd=here).mid_tool()
    run = Claude.spawn(world, None, style="oldest", headless=True, id=IDS[2], cwd=here).mid_model()
    orderly = screen(world, IDS[3], cwd=here).mid_model()
    elsewhere = screen(world, IDS[4], cwd=world.folder_at("elsewhere")).mid_model()
    named = screen(world, IDS[5], cwd=here).mid_model()
    swept(newer)
    swept(run)
    orderly.leave()
    swept(elsewhere)
    named.kill()
    world.look()
    world.check("at its prompt, on the session of its file", IDS[0], "idle", pid=agent, inferred=False)
    world.check_all("killed: newer, headless, elsewhere, named by its file", [*IDS[1:3], *IDS[4:6]], "stopped")
    world.check("ended in order, in mid-turn", IDS[3], "stopped", inferred=False)


@case("id-rotates")
def back_again(world: World) -> None:
    """after /clear a person opens the session before again, which renews the file"""
    agent = screen(world, IDS[0]).finished(None)
    agent.do("clear", id=IDS[1])
    agent.id = IDS[1]
    agent.finished(None)
    agent.do("resume", id=IDS[0])
    agent.id = IDS[0]
    world.look()
    world.check("the session before", IDS[0], "idle", pid=agent, link="exact", inferred=False)
    world.check("the one that /clear began", IDS[1], "done", pid=None)
    agent.mid_model()
    world.look()
    world.check("prompted there", IDS[0], "running", pid=agent, link="exact")


@case("permission")
def permission_without_status(world: World) -> None:
    """a screen whose own file gives no status waits for a person"""
    asks = screen(world, IDS[0]).mid_model()
    asks.do("call", command="touch /tmp/zz")
    question = screen(world, IDS[1]).mid_model()
    question.do("call", command="", tool="AskUserQuestion", input=QUESTION)
    runs = screen(world, IDS[2]).mid_tool()
    edits = screen(world, IDS[3]).mid_model()
    edits.do("call", command="", tool="Edit", input={"file_path": "/tmp/zz"})
    escaped = screen(world, IDS[4]).mid_model()
    rests = screen(world, IDS[5]).finished(None)
    hidden = Claude.spawn(world, None, style="oldest", headless=True, id=IDS[6], argv=["claude"]).mid_model()
    hidden.do("call", command="touch /tmp/yy")
    behind = screen(world, IDS[7]).mid_tool()
    time.sleep(LATE + 0.2)
    behind.do("result")
    behind.do("call", command="touch /tmp/xx")
    world.look()
    world.check("asks to run a command", IDS[0], "waiting", waiting_for=Contains("touch /tmp/zz"), inferred=True)
    world.check("asks a question", IDS[1], "waiting", waiting_for=Contains("Which colour?"), inferred=True)
    world.check("its command runs", IDS[2], "running", pid=runs, inferred=False)
    world.check("edits a file, or asks whether it may", IDS[3], "alive", pid=edits)
    world.check("a prompt that Esc may have taken back", IDS[4], "running", pid=escaped, inferred=True)
    world.check("at its prompt", IDS[5], "idle", pid=rests, reason=None, inferred=False)
    world.check("asks on its stdin, its arguments hidden", IDS[6], "waiting", pid=hidden, inferred=True)
    world.check("asks, and an earlier command still runs", IDS[7], "waiting", waiting_for=Contains("touch /tmp/xx"))


@case("native-daemon")
def opencode_server_with_its_own_log(world: World) -> None:
    """an opencode serve whose log says which directories it has open, and not which run it is"""
    server = OpenCode.spawn(world, "serve", log="own")
    other, closed = world.folder_at("other"), world.folder_at("closed")
    working, asking, elsewhere, resting = (timed_id("ses") for _ in range(4))
    for id in (working, asking):
        server.mid_model(id=id)
        server.do("say", id=id, status=BUSY)
    server.do("ask_person", id=asking, command="make deploy")
    server.do("begin", id=elsewhere, directory=str(other))
    server.mid_model(id=elsewhere)
    server.do("say", id=elsewhere, status=BUSY)
    server.finished(id=resting)
    time.sleep(1.0)  # those that start in one second share a log
    beside = OpenCode.spawn(world, "run", log="own", cwd=closed).mid_model()
    world.look()
    world.check("a session in mid-turn", working, "running", pid=server, link="exact", inferred=False)
    world.check("a session of another directory", elsewhere, "running", pid=server, link="exact", inferred=False)
    world.check("a session that asks", asking, "waiting", pid=server, waiting_for=Contains("make deploy"))
    world.check("a session at rest", resting, "done", process="gone", pid=None)
    world.says("opencode run beside it has not ended", *not_ended(world, beside.id))
    world.check_unattached("its process: the server may be on it, too", beside, [beside.id])
    asked = server.do("asked")["directories"]
    opened = {str(world.work), str(other)}
    world.says("asked only about directories that it has open", str(asked), {*asked} == opened)


@case("open-on-a-screen")
def opencode_screen_with_its_own_log(world: World) -> None:
    """a screen of an older opencode, below its wrapper, goes on with another session"""
    first = OpenCode.spawn(world, "run", log="own").finished()
    first.leave()
    time.sleep(1.0)  # those that start in one second share a log
    screen = OpenCode.spawn(world, "screen", log="own", wrapper=["node", "/opt/opencode-ai/bin/opencode"]).finished()
    world.look()
    world.check("the one that it worked on", screen.id, "idle", pid=screen, inferred=True)
    open_in = [screen.pid]
    world.check("the one before: the wrapper shows nothing", first.id, "done", inferred=True, may_be_open_in=open_in)
    screen.do("take", id=first.id)
    screen.do("hold_log")
    screen.do("prompt", id=first.id)
    world.look()
    world.says("prompted there, its log late: not ended", *not_ended(world, first.id))
    screen.do("catch_up")
    world.look()
    world.check("prompted there", first.id, "running", pid=screen, link="sole", inferred=True)
    world.check("its own, left", screen.id, "done", pid=None, inferred=True)
    screen.do("step", id=first.id)
    screen.do("answer", id=first.id)
    world.look()
    world.check("at rest there", first.id, "idle", pid=screen, inferred=True)


def not_ended(world: World, id: str) -> tuple[str, bool]:
    row = world.listing.rows[id]
    return f"{row['status']}, {row['process']}", row["process"] != "gone"
