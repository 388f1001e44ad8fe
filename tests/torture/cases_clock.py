"""The clock is set, or shifted: what is proved stays as it is. What is only inferred from times is in open_rows.py."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from tests.agents.claude_code.torture import Claude
from tests.agents.codex.torture import Codex
from tests.agents.demo.torture import Demo
from tests.agents.opencode.torture import OpenCode
from tests.torture.handles import Handle, arguments, read_answer
from tests.torture.kernel import in_time_namespace
from tests.torture.registry import case
from tests.torture.standins.files import start_ticks
from tests.torture.world import set_back

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.torture.world import World

HOURS = 5 * 3600

# For the command and all that it starts: the clock on the wall says another time; the kernel's other clocks do not.
SET_CLOCK = """
import time
real = time.time
time.time = lambda: real() + {shift}
"""


def set_clock(world: World, shift: float) -> None:
    folder = world.folder / f"clock{shift:+.0f}"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(SET_CLOCK.format(shift=shift))
    before = world.env["PYTHONPATH"].rpartition(":")[2]
    world.env["PYTHONPATH"] = f"{folder}:{before}"


@case("clock-step")
def clock_set(world: World) -> None:
    """the clock is set hours forward, or back, while agents run and others have ended"""
    claude, resting, killed = (Claude.spawn(world, "busy") for _ in range(3))
    claude.mid_model()
    resting.finished()
    killed.mid_model().kill()
    codex, dead = Codex.spawn(world).mid_model(), Codex.spawn(world).mid_model()
    dead.kill()
    opencode = OpenCode.spawn(world, cwd=world.folder_at("opencode")).mid_model()
    demo = Demo.spawn(world, "[[sleep:300]]")
    demo.wait_for_event("prompt")
    for label, shift in (("forward", HOURS), ("back", -HOURS)):
        set_clock(world, shift)
        world.look()
        everybody: dict[str, Claude | Codex | Demo] = {"claude": claude, "codex": codex, "demo agent": demo}
        for name, agent in everybody.items():
            world.check(f"{name}, clock set {label}", agent.id, "running", pid=agent, link="exact", inferred=False)
        # Which turn a line of its log is about, only times tell: it lives, and is proved to.
        world.check(f"opencode, clock set {label}", opencode.id, ("running", "alive"), pid=opencode, link="exact")
        world.check(f"claude at rest, clock set {label}", resting.id, "idle", pid=resting, link="exact")
        world.check(f"claude killed, clock set {label}", killed.id, "stopped", process="gone")
        world.check(f"codex killed, clock set {label}", dead.id, "stopped", process="gone")


@case("clock-step")
def clock_set_back_inferred(world: World) -> None:
    """older agents that name no session, in mid-turn: the clock is set back, or the times of their files are ahead"""
    claude = Claude.spawn(world, register=False, style="old", cwd=world.folder_at("one")).mid_model()
    opencode = OpenCode.spawn(world, "screen", log="errors", cwd=world.folder_at("two")).mid_model()
    world.look()
    world.check("claude, before", claude.id, "running", pid=claude, link="sole", inferred=True)
    world.check("opencode, before", opencode.id, "running", pid=opencode, link="sole", inferred=True)
    set_back(claude.transcript, -HOURS)
    world.look()
    world.check("claude, its file is of the future", claude.id, ("running", "unknown"), process=("alive", "unknown"))
    set_clock(world, -HOURS)
    world.look()
    world.check("claude, clock set back", claude.id, ("running", "unknown"), process=("alive", "unknown"))
    world.check("opencode, clock set back", opencode.id, ("running", "unknown"), process=("alive", "unknown"))
    world.expects_unattached.add(opencode.pid)  # its session is of the future, so not of any process for sure


def claude_elsewhere(world: World, around: Callable[[list[str]], list[str]]) -> Claude:
    """A claude that was started below another process, which gives it a clock of its own."""
    id = str(uuid.uuid4())
    config = {"kind": Claude.STANDIN, "style": "new", "headless": False, "id": id, "root": str(world.root(Claude))}
    words = arguments(world.config_file({**config, "argv": ["claude"]}), ["claude"])
    popen = world.popen(around([world.programs.path("claude"), *words[1:]]), "/usr/bin/unshare", world.work, None)
    assert popen.stdin and popen.stdout
    outer = Handle(popen.pid, start_ticks(popen.pid), popen)
    world.keep(outer)
    pid = read_answer(popen.stdout)["ready"]
    seen = {"ready": pid, "start": start_ticks(pid)}  # as we see it
    where = {**config, "root_path": world.root(Claude), "cwd": str(world.work.resolve())}
    agent = Claude(seen, None, (popen.stdin, popen.stdout), where, world.keep)
    world.keep(agent)
    agent.register("busy")
    return agent.mid_model()


@case("clock-step")
def time_namespace(world: World) -> None:
    """the command or the agent is in a time namespace: the kernel shows other start times to each of them"""
    claude, codex = Claude.spawn(world, "busy").mid_model(), Codex.spawn(world).mid_model()
    killed, recycled = Claude.spawn(world, "busy").mid_model(), Claude.spawn(world, "busy").mid_model()
    killed.kill()
    recycled.kill()
    stranger = world.stranger(recycled.pid)
    demo = Demo.spawn(world, "[[sleep:300]]")
    demo.wait_for_event("prompt")
    everybody: dict[str, Claude | Codex | Demo] = {"claude": claude, "codex": codex, "demo agent": demo}
    shifted = claude_elsewhere(world, in_time_namespace(7_200))
    world.look()
    world.check("claude, for itself booted earlier", shifted.id, "running", pid=shifted, link="exact", inferred=False)
    for label, shift in (("a day earlier", 86_400), ("an hour earlier", 3_600)):
        world.around = in_time_namespace(shift)
        world.look()
        for name, agent in everybody.items():
            world.check(f"{name}, for us booted {label}", agent.id, "running", pid=agent, link="exact", inferred=False)
        world.check(f"claude killed, for us booted {label}", killed.id, "stopped", process="gone")
        world.check(f"claude of another clock, for us booted {label}", shifted.id, "running", pid=shifted)
        world.check(f"its pid a stranger's, for us booted {label}", recycled.id, "stopped", process="gone")
    done = world.run("stop", claude.id)
    world.says("stop from there", done.stdout.strip(), done.returncode == 0 and claude.has_ended(), done.stderr)
    done = world.run("stop", recycled.id, "--force")
    world.says("stop of the dead one: the stranger is unharmed", done.stdout.strip(), not stranger.has_ended())
