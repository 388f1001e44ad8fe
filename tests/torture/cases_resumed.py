"""Another process resumes a session that was killed in mid-turn: no process is on a turn older than itself."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from tests.agents.claude_code.torture import Claude
from tests.agents.codex.torture import CODEX_BINARY, Codex
from tests.torture.registry import case
from tests.torture.world import Contains

if TYPE_CHECKING:
    from pathlib import Path

    from tests.torture.world import World

HOUR = 3600
MOMENT = re.compile(r'"timestamp":"[0-9]{4}-[^"]*Z"')
STREAM = ["claude", "-p", "--input-format", "stream-json", "--output-format", "stream-json", "--resume"]


def an_hour_ago(path: Path) -> None:
    """As if all of it had been written an hour ago."""
    then = time.strftime('"timestamp":"%Y-%m-%dT%H:%M:%S.000Z"', time.gmtime(time.time() - HOUR))
    path.write_text(MOMENT.sub(then, path.read_text()))


def killed_codex(world: World, *, calls: bool) -> Codex:
    agent = Codex.spawn(world, source="cli", policy="on-request").mid_model()
    if calls:
        agent.do("call", command="make deploy")
    agent.kill()
    an_hour_ago(agent.rollout_of())
    return agent


def killed_claude(world: World) -> Claude:
    agent = Claude.spawn(world, None, style="old", headless=True).mid_model()
    agent.do("call", command="make deploy")
    agent.kill()
    an_hour_ago(agent.transcript)
    return agent


@case("killed-mid-turn")
def killed_and_resumed(world: World) -> None:
    """killed in mid-turn and resumed: at its prompt, and then at work on the next one"""
    left, asked, old = killed_codex(world, calls=False), killed_codex(world, calls=True), killed_claude(world)
    screens = [
        Codex.spawn(world, source="cli", id=one.id, argv=[CODEX_BINARY, "--no-daemon", "resume", one.id])
        for one in (left, asked)
    ]
    stream = Claude.spawn(world, None, style="old", headless=True, id=old.id, argv=[*STREAM, old.id])
    world.look()
    for name, one in (("codex", screens[0]), ("codex, a call was pending", screens[1]), ("claude", stream)):
        world.check(
            f"{name}: at its prompt", one.id, "idle", pid=one, link="exact", inferred=True, waiting_for=None,
            last_turn="interrupted", reason=Contains("older than its process"),
        )  # fmt: skip
    done = world.run("wait", screens[0].id, "--timeout", "20s")
    world.says("wait: at its prompt, it does not hang", done.stdout.strip(), done.returncode == 0)
    stream.mid_model("the next one")
    world.look()
    world.check("claude, prompted again", stream.id, "running", pid=stream, inferred=False)


@case("killed-mid-turn")
def resumed_for_one_prompt(world: World) -> None:
    """resumed by a run for one prompt that is not written yet, after a kill and after a turn that is complete"""
    killed, done = killed_codex(world, calls=True), Codex.spawn(world).finished()
    done.kill()
    an_hour_ago(done.rollout_of())
    ended = Claude.spawn(world, None, style="old", headless=True).finished(None)
    ended.kill()
    an_hour_ago(ended.transcript)
    runs = {
        one.id: Codex.spawn(world, id=one.id, argv=[CODEX_BINARY, "exec", "resume", one.id, "go on"])
        for one in (killed, done)
    }
    again = Claude.spawn(
        world, None, style="old", headless=True, id=ended.id, argv=["claude", "-p", "--resume", ended.id, "go on"]
    )
    world.look()
    for name, one in (("codex after a kill", runs[killed.id]), ("codex", runs[done.id]), ("claude", again)):
        world.check(f"{name}: its prompt is not written yet", one.id, "alive", pid=one, link="exact", turn="unknown")
    waited = world.run("wait", again.id, "--timeout", "1s")
    world.says("wait: not over", waited.stderr.strip(), waited.returncode == 124)
    again.finished(None)
    world.look()
    world.check("claude, its own turn is over", again.id, "idle", pid=again, inferred=False)
