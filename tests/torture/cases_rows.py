"""The rows of `list`: what it prints can be typed, and it says what it does not show."""

from __future__ import annotations

import json
import time
from datetime import datetime
from typing import TYPE_CHECKING

from tests.agents.claude_code.torture import Claude
from tests.agents.codex.torture import CODEX_BINARY, Codex
from tests.agents.demo.torture import Demo
from tests.agents.opencode.torture import OpenCode
from tests.torture.registry import case
from tests.torture.world import Contains

if TYPE_CHECKING:
    from tests.torture.agents import Live
    from tests.torture.world import World


def printed_ids(world: World) -> list[str]:
    """Return what the table of `list` has in its first column."""
    lines = world.run("list").stdout.split("\n\n")[0].splitlines()
    return [line.split()[0] for line in lines[1:]]


def check_addressable(world: World, label: str, live: Live) -> None:
    """What `list` prints for the one live session leads `status` to it."""
    (typed,) = printed_ids(world)
    done = world.run("status", typed, "--json")
    answer = json.loads(done.stdout)["session"]["id"] if done.returncode == 0 else done.stderr.splitlines()[0]
    truth = f"{label}: `status` takes what `list` prints, and that is short"
    world.says(truth, f"{typed}: {answer}", answer == live.id and len(typed) < len(live.id))


@case("short-ids")
def begun_in_one_minute(world: World) -> None:
    """sessions of one minute: their ids begin with the time, and all but one have ended"""
    for kind in (Codex, OpenCode):
        for _ in range(2):
            kind.spawn(world).finished().kill()
        live: Live = kind.spawn(world).mid_model()
        kind.spawn(world).finished().kill()
        check_addressable(world, kind.AGENT, live)
        live.kill()


@case("short-ids")
def ids_that_were_chosen(world: World) -> None:
    """sessions whose ids somebody chose, and that differ in their last digit only"""
    ids = [f"00000000-0000-4000-8000-00000000000{digit}" for digit in "123"]
    for id in ids[:2]:
        Claude.spawn(world, "busy", id=id).finished().kill()
    live = Claude.spawn(world, "busy", id=ids[2]).mid_model()
    done = world.run("status", *printed_ids(world), "--json")
    answer = json.loads(done.stdout)["session"]["id"] if done.returncode == 0 else done.stderr.splitlines()[0]
    world.says("claude, with an id that was chosen: `status` takes what `list` prints", answer, answer == live.id)


@case("other-home")
def agents_of_another_home(world: World) -> None:
    """two agents of this HOME, one of them without a session yet, and two of another HOME"""
    other = world.folder_at("other")
    elsewhere = {"HOME": str(other), "XDG_DATA_HOME": str(other / "data")}
    mine = Claude.spawn(world, "busy").mid_model()
    starting = world.bare("claude", ["claude"])
    theirs = [
        Claude.spawn(world, "busy", root=other / ".claude", env=elsewhere).mid_model(),
        Codex.spawn(world, root=other / ".codex", env=elsewhere).mid_model(),
    ]
    world.look()
    world.check("the one of this HOME", mine.id, "running", pid=mine)
    world.check_unattached("the one that is starting", starting, ())
    world.check_not_shown("those of another HOME", ids=[agent.id for agent in theirs])
    line = "2 agent processes of another HOME or user are not shown"
    world.says(line, world.run("list").stdout.splitlines()[-1], world.run("list").stdout.splitlines()[-1] == line)
    named = [process["pid"] for process in world.ask("list")["not_shown"]]
    world.says("JSON names their pids", str(named), named == sorted(agent.pid for agent in theirs))
    theirs[0].kill()
    said = world.run("list").stdout.splitlines()[-1]
    world.says("one of them has ended", said, said == "1 agent process of another HOME or user is not shown")


def check_since(world: World, label: str, id: str, begun: float) -> None:
    """The state of a session began after this moment, by its own store, and not in the future."""
    said = world.listing.rows[id]["status_since"]
    at = datetime.fromisoformat(said).timestamp() if said else None
    ok = at is not None and begun - 0.1 <= at <= time.time()
    world.says(f"{label}: its state began in this world, by its store", str(said), ok)


@case("doing")
def what_each_does(world: World) -> None:
    """agents at a tool, at a prompt, at rest and before a question"""
    begun = time.time()
    tool = "sleep 299"
    everybody: dict[str, tuple[Live, Live, Live]] = {
        "claude": (
            Claude.spawn(world, None, headless=True).mid_tool(tool),
            Claude.spawn(world, None, headless=True).mid_model("mend the roof"),
            Claude.spawn(world, "busy").finished(),
        ),
        "codex": (
            Codex.spawn(world).mid_tool(tool),
            Codex.spawn(world).mid_model("mend the roof"),
            Codex.spawn(world, source="cli").finished(),
        ),
        "opencode": (
            OpenCode.spawn(world).mid_tool(tool),
            OpenCode.spawn(world).mid_model("mend the roof"),
            OpenCode.spawn(world, "screen").finished(),
        ),
    }
    asks = Demo.spawn(world, "[[ask:make coffee]]", status="waiting")
    works = Demo.spawn(world, "[[sleep:300]] mend the roof")
    works.wait_for_event("prompt")
    runs = Demo.spawn(world, f"[[bash:{tool}]]")
    world.keep(runs.tool_process())
    world.look()
    for label, (at_tool, at_prompt, at_rest) in everybody.items():
        world.check(f"{label} runs a tool", at_tool.id, "running", doing=Contains(tool))
        prompt = None if label == "codex" else Contains("works on: mend the roof")  # a rollout is not read that far
        world.check(f"{label} works on a prompt", at_prompt.id, "running", doing=prompt)
        world.check(f"{label} is at rest", at_rest.id, "idle", doing=None)
        for agent in (at_tool, at_prompt, at_rest):
            check_since(world, label, agent.id, begun)
    world.check("the demo agent asks", asks.id, "waiting", waiting_for=Contains("make coffee"), doing=None)
    world.check("the demo agent works", works.id, "running", doing=Contains("mend the roof"))
    world.check("the demo agent runs a tool", runs.id, "running", doing=tool)
    for agent in (asks, works, runs):
        check_since(world, "demo agent", agent.id, begun)
    shown = world.run("list").stdout
    world.says("the table shows the tool", tool, shown.count(tool) == len(everybody) + 1, shown)


@case("doing")
def starting(world: World) -> None:
    """a Codex that is starting, in a store that has no thread yet: it is not blamed on its version"""
    world.root(Codex).mkdir()
    codex = world.bare("codex", [CODEX_BINARY, "--no-daemon"])
    world.look()
    world.check_unattached("it has no thread yet", codex, ())
    why = world.listing.unattached.get(codex.pid, {}).get("why", "")
    world.says("it is said to be starting", why, "starting" in why and "does not lock" not in why)


@case("doing")
def not_known(world: World) -> None:
    """what no store says is not made up: an agent that has written neither a status nor a transcript"""
    quiet = Claude.spawn(world, None, headless=True)
    world.look()
    world.check("no transcript, no status", quiet.id, "alive", doing=None, status_since=None)


@case("doing")
def two_processes(world: World) -> None:
    """two processes have one session open"""
    first = Claude.spawn(world, "busy").mid_model()
    second = Claude.spawn(world, "idle", id=first.id)
    world.look()
    pids = [entry["pid"] for entry in world.listing.rows[first.id]["processes"]]
    world.says("both are named", str(pids), sorted(pids) == sorted([first.pid, second.pid]))
    line = next(line for line in world.run("list").stdout.splitlines() if first.id[:8] in line)
    world.says("the row says so", line, "2 processes are on it; " in line)


@case("doing")
def tools_left_behind(world: World) -> None:
    """killed with SIGKILL while a tool runs: the tool goes on"""
    claude, codex = Claude.spawn(world, "busy").mid_model(), Codex.spawn(world).mid_model()
    claude.do("call", command="sleep 300")
    codex.do("call", command="sleep 300")
    for agent in (claude, codex):
        tool = agent.tool()
        world.says("nothing is left of a live one", "", world.ask("status", agent.id)["tools_left"] == [])
        listed = [entry for entry in world.ask("list")["tools_left"] if entry["session"] == agent.id]
        world.says("nor does list name one", str(listed), listed == [])
        agent.kill()
        answer = world.ask("status", agent.id)
        left = [process["pid"] for process in answer["tools_left"]]
        label = f"{agent.AGENT} is {answer['session']['status']}, and its tool still runs"
        world.says(label, f"pids {left}", tool.pid in left)
        said = world.run("status", agent.id).stdout.splitlines()
        world.says("status says so", said[-1], said[-1].startswith("still runs ") and f"pid {tool.pid} " in said[-1])
        world.says("why says so", "", f"pid {tool.pid} " in world.run("why", agent.id).stdout)
        listed = [entry for entry in world.ask("list")["tools_left"] if entry["session"] == agent.id]
        world.says("list names it", str(listed), [entry["pid"] for entry in listed] == [tool.pid])
        world.says("and says so", "", f"(pid {tool.pid})" in world.run("list").stdout)
