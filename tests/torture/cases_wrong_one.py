"""Whom a stop must not touch: ourselves, who only inherited a marker, other users, and whoever else an id may mean."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

from tests.agents.claude_code.torture import Claude
from tests.agents.codex.torture import Codex
from tests.agents.demo.torture import Demo
from tests.torture.cases_daemons import Background
from tests.torture.cases_launch import LONG, launch, launches
from tests.torture.cases_stop import NO_GRACE, check_spared, check_stopped, stop, stop_halted, with_claude_stop
from tests.torture.handles import Handle, wait_until
from tests.torture.kernel import as_nobody
from tests.torture.registry import case
from tests.torture.standins.files import start_ticks, stat_fields

if TYPE_CHECKING:
    from tests.torture.world import World


@case("wrong-one")
def wrong_one_ourselves(world: World) -> None:
    """an agent that runs `agentctl stop` on its own session, as a tool"""
    claude, other = Claude.spawn(world, "busy"), Claude.spawn(world, "busy").mid_model()
    claude.do("prompt", text="go")
    claude.do("call", command="agentctl stop")
    said, code = world.folder / "said", world.folder / "code"
    env = f"PYTHONPATH={shlex.quote(world.env['PYTHONPATH'])}"
    for words in ([claude.id], [claude.id, "--force", "--tree"]):
        code.unlink(missing_ok=True)
        command = shlex.join([sys.executable, "-m", "agentctl", "stop", *words, "--grace", "1"])
        claude.tool(f"{env} {command} > {said} 2>&1; echo $? > {code}.new; mv {code}.new {code}; sleep 300")
        wait_until("its answer, or its end", lambda: code.exists() or claude.has_ended())
        found = code.read_text().strip() if code.exists() else "it was ended"
        text = said.read_text().strip()
        ok = found == "4" and "runs inside of it" in text and not claude.has_ended()
        world.says(f"refused: {' '.join(words[1:]) or 'it runs inside of it'}", f"exit {found}: {text}", ok)
    check_spared(world, "the agent itself, and another one", claude, other)


@case("wrong-one")
def wrong_one_marker_of_a_launch(world: World) -> None:
    """an agent that inherited the marker of a real launch, as from a tmux server that was started in it"""
    id, handles = launch(world, "-p", LONG)
    ((launch_id, _),) = launches(world).items()
    world.env["AGENTCTL_LAUNCH"] = launch_id
    other = Demo.spawn(world, LONG)
    other.wait_for_event("prompt")
    del world.env["AGENTCTL_LAUNCH"]
    world.look()
    world.check("the one that was launched", id, "running", pid=handles["child"], launch_id=launch_id)
    world.check("the one that inherited the marker", other.id, "running", pid=other, launch_id=None)
    found = stop(world, launch_id, "--tree")
    check_stopped(world, "the launch", found, handles["child"])
    check_spared(world, "the one that inherited the marker", other)


@case("wrong-one")
def wrong_one_tool_of_another_user(world: World) -> None:
    """an agent whose tool runs as another user: the agent ends, that tool is named and left"""
    claude = Claude.spawn(world, "busy", style="old")
    claude.do("prompt", text="go")
    claude.do("call", command="sudo")
    tool = claude.tool(f"{shlex.join(as_nobody(['sleep', '300']))} & sleep 301")
    pid = wait_until("the tool of another user", lambda: below_as_another(tool.pid))
    theirs = Handle(pid, start_ticks(pid))
    world.keep(theirs)
    found = stop(world, claude.id, "--force", "--tree")
    check_stopped(world, "the agent and its own tool", found, claude, tool)
    check_spared(world, "the tool of another user", theirs)
    # The shell above it is left, too, and then ends by itself.
    world.says("it is named", str(found.left), sorted(found.left) == sorted([tool.pid, theirs.pid]))


def below_as_another(pid: int) -> int | None:
    """A child of this process that belongs to somebody else, and is what it is going to be."""
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        pids = [int(word) for word in file.read().split()]
    for one in pids:
        with open(f"/proc/{one}/status") as file:
            uid = next(int(line.split()[1]) for line in file if line.startswith("Uid:"))
        with open(f"/proc/{one}/comm") as file:
            if uid != 0 and file.read().strip() == "sleep" and stat_fields(one)[0] == "S":
                return one
    return None


@case("orphans")
def tool_of_the_last_moment(world: World) -> None:
    """a stubborn agent that starts a tool after all its tools were collected, and before it is killed"""
    claude = Claude.spawn(world, "busy", style="old").mid_model()
    claude.do("call", command="sleep 300")
    claude.do("ignore", signals=[1, 2, 15])
    tools: list[Handle] = []
    found = stop_halted(world, "signal_agents", lambda: tools.append(claude.tool("sleep 300")), claude.id, *NO_GRACE)
    check_stopped(world, "the agent, and the tool of its last moment", found, claude, *tools, how="SIGKILL")


# An agent's own command that says what it did not do.
LYING_STOP = """
import sys
print("stopped", sys.argv[1])
"""


@case("resurrect")
def command_that_lies(world: World) -> None:
    """claude's own command says that it has stopped a background worker, and has not"""
    with_claude_stop(world)
    (world.work / "stop").write_text(LYING_STOP)
    background = Background(world)
    background.worker.mid_model()
    world.expects_unattached.add(background.spare.pid)
    found = stop(world, background.id, "--grace", "0.5")
    said = f"exit {found.code}, {found.one['outcome']}"
    world.says("not stopped, and says so", said, (found.code, found.one["outcome"]) == (1, "alive"), found.said)
    check_spared(world, "the worker, which its daemon would bring back", background.worker)
    world.look()
    world.check("afterwards", background.id, "running", pid=background.worker)


@case("id-prefix")
def id_prefix(world: World) -> None:
    """a beginning that two sessions share, one that is a whole id, and one that nobody has"""
    first, second = (f"aaaaaaaa-0000-4000-8000-00000000000{n}" for n in (1, 2))
    one, two = Claude.spawn(world, "busy", id=first).mid_model(), Claude.spawn(world, "busy", id=second).mid_model()
    codex = Codex.spawn(world).mid_model()
    for verb in ("status", "why", "stop", "peek"):
        done = world.run(verb, "aaaaaaaa")
        ok = done.returncode == 3 and first in done.stderr and second in done.stderr and not done.stdout
        world.says(f"{verb} of a beginning that two share: exit 3, with both", done.stderr.strip(), ok)
    check_spared(world, "both", one, two)
    done = world.run("stop", "ffffffff-ffff")
    world.says("a beginning that nobody has: exit 3", done.stderr.strip(), done.returncode == 3)
    found = stop(world, first[:-1] + "1")
    check_stopped(world, "a whole id", found, one, how="SIGTERM")
    check_spared(world, "the other ones", two, codex)
    check_refused_empty(world)


def check_refused_empty(world: World) -> None:
    done = world.run("stop", "")
    world.says("an empty id: a mistake of the person", done.stderr.strip(), done.returncode == 2)
