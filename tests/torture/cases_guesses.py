"""A guess from a path, a name or a word never overrules what the kernel shows."""

from __future__ import annotations

import json
import os
import shutil
from functools import partial
from typing import TYPE_CHECKING

from tests.agents.claude_code.torture import Claude
from tests.agents.codex.torture import Codex
from tests.agents.opencode.torture import OpenCode
from tests.torture.cases_facts import executes
from tests.torture.handles import wait_until
from tests.torture.registry import case

if TYPE_CHECKING:
    from tests.torture.world import World


@case("executes-another")
def executes_what_is_not_known(world: World) -> None:
    """a registered process that has executed an unidentified program, an interpreter, or a script of another package"""
    copied = world.folder / "mysleep"
    shutil.copy("/usr/bin/sleep", copied)
    (world.work / "package.json").write_text(json.dumps({"name": "my-app"}))
    (world.work / "wait.js").write_text("setTimeout(() => {}, 1e6)\n")
    unknown = Claude.spawn(world, "busy").mid_model()
    perl = Claude.spawn(world, "busy", cwd=world.folder_at("perl")).mid_model()
    script = Claude.spawn(world, "busy").mid_model()
    unknown.send("execute", argv=[str(copied), "300"])
    perl.send("execute", argv=["/usr/bin/perl", "-e", "sleep 300"])
    script.send("execute", argv=["/usr/bin/node", str(world.work / "wait.js")])
    for agent, name in ((unknown, "mysleep"), (perl, os.path.basename(os.path.realpath("/usr/bin/perl")))):
        wait_until(f"it executes {name}", partial(executes, agent.pid, name))
    wait_until("it executes node", partial(executes, script.pid, os.path.basename(os.path.realpath("/usr/bin/node"))))
    world.look()
    world.check("an unidentified program", unknown.id, "running", pid=unknown, inferred=True)
    world.check("an interpreter", perl.id, "running", pid=perl, inferred=True)
    world.check("a script of another package", script.id, "stopped", process="gone", inferred=False)


@case("another-name")
def role_by_its_words(world: World) -> None:
    """agents that their arguments or their environment make look like a helper or a client"""
    text = OpenCode.spawn(world, argv=["opencode", "run", "--", "what does grep -v do", "-v"])
    off = OpenCode.spawn(world, env={"BUN_BE_BUN": "0"}, cwd=world.folder_at("off"))
    on = OpenCode.spawn(world, env={"BUN_BE_BUN": "1"}, cwd=world.folder_at("on"))
    beta = Codex.spawn(world, lock=False, program="codex-beta", argv=["codex-beta", "exec"], cwd=world.folder_at("b"))
    for agent in (text, off, on, beta):
        agent.mid_model()
    world.look()
    world.check("OpenCode with -v as text", text.id, "running", pid=text, inferred=False)
    world.check("OpenCode with BUN_BE_BUN=0", off.id, "running", pid=off, inferred=False)
    world.check("it calls itself bun, and has the store open", on.id, "unknown", process="unknown")
    world.check("older codex, called codex-beta", beta.id, "running", pid=beta)
    for agent in (text, off, on, beta):
        agent.kill()
    world.look()
    for agent in (text, off, on, beta):
        world.check("killed", agent.id, "stopped", process="gone", inferred=False)


@case("another-name")
def another_name_at_rest(world: World) -> None:
    """agents of another name at their prompt: what they have open makes the end doubtful, and nothing else does"""
    opencode = OpenCode.spawn(world, program="oc", argv=["oc", "run", "do it"], cwd=world.folder_at("oc"))
    codex = Codex.spawn(world, lock=False, program="cx", argv=["cx", "exec", "go"], cwd=world.folder_at("cx"))
    claude = Claude.spawn(world)
    for agent in (opencode, codex, claude):
        agent.finished()
    world.bare("sometool", ["sometool"])
    claude.kill()
    world.look()
    world.check("OpenCode, called oc", opencode.id, "done", process="gone", inferred=True)
    world.check("older codex, called cx", codex.id, "done", process="gone", inferred=True)
    world.check("claude, which has ended, beside some tool", claude.id, "done", process="gone", inferred=False)
    for agent in (opencode, codex):
        agent.kill()
    world.look()
    for agent in (opencode, codex):
        world.check("killed at rest", agent.id, "done", process="gone", inferred=False)
