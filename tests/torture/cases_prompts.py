"""A launch with a prompt that its agent has not taken yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.agents.claude_code.torture import Claude
from tests.torture.cases_launch import keep, launches
from tests.torture.cases_launch_odds import install
from tests.torture.cases_terminals import Server, in_tmux
from tests.torture.handles import wait_until
from tests.torture.registry import case

if TYPE_CHECKING:
    from pathlib import Path

    from tests.torture.world import World


def slow_agent(world: World, *, headless: bool) -> tuple[Path, Path]:
    """Install an agent that says it is idle, and takes its prompt only when the first file is there; it ends the turn
    when the second is."""
    taken, over = world.folder / "taken", world.folder / "over"
    orders = [
        ["register", {"status": "idle"}],
        ["await", {"path": str(taken)}],
        ["prompt", {"text": "please do it"}],
        ["status", {"status": "busy"}],
        ["await", {"path": str(over)}],
        ["answer", {}],
        ["status", {"status": "idle"}],
    ]
    install(world, Claude, Claude.new_id(), orders=orders, style="new", headless=headless)
    return taken, over


@in_tmux("prompt-not-taken")
def prompt_not_taken_on_a_screen(world: World) -> None:
    """launch --interactive with a prompt, and the screen is at its prompt for a while: not idle, and wait goes on"""
    Server(world).start()
    taken, over = slow_agent(world, headless=False)
    done = world.run("launch", "--interactive", "claude", "-p", "please do it")
    id = done.stdout.strip()
    ((_, launch),) = launches(world).items()
    handles = keep(world, launch)
    wait_until("its pid file", lambda: any((world.root(Claude) / "sessions").glob("*.json")))
    world.look()
    world.check("before it takes its prompt", id, "alive", pid=handles["child"], link="exact")
    early = world.run("wait", id, "--timeout", "1s")
    ok = early.returncode == 124 and "prompt not taken yet" in early.stdout + early.stderr
    world.says("wait does not return on it, and says why", early.stdout.strip() + early.stderr.strip(), ok)
    taken.touch()
    wait_until("its turn", lambda: "busy" in next((world.root(Claude) / "sessions").glob("*.json")).read_text())
    world.look()
    world.check("in its turn", id, "running", pid=handles["child"])
    over.touch()
    waited = world.run("wait", id, "--timeout", "20s")
    world.says("wait returns after the turn", waited.stdout.strip(), waited.returncode == 0, waited.stderr)
    world.look()
    world.check("after its turn", id, "idle", pid=handles["child"], inferred=False)


@case("prompt-not-taken")
def prompt_not_taken_headless(world: World) -> None:
    """launch of a headless run that says it is idle before it takes its prompt: running, inferred"""
    taken, over = slow_agent(world, headless=True)
    done = world.run("launch", "claude", "-p", "please do it")
    id = done.stdout.strip()
    ((_, launch),) = launches(world).items()
    handles = keep(world, launch)
    world.look()
    world.check("before it takes its prompt", id, "running", pid=handles["child"], inferred=True)
    taken.touch()
    over.touch()
    waited = world.run("wait", id, "--until", "idle", "--timeout", "20s")
    world.says("wait returns after the turn", waited.stdout.strip(), waited.returncode == 0, waited.stderr)
