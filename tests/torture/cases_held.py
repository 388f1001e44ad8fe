"""Who holds a session: only a live process does, and a hint about another one takes no suspicion away from it."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

from tests.agents.claude_code.torture import Claude
from tests.torture.registry import case

if TYPE_CHECKING:
    from tests.torture.world import World


@case("killed-mid-turn")
def file_of_a_dead_one(world: World) -> None:
    """Claude Code was killed and its pid file stays; one that writes no pid file goes on with its session"""
    folder = world.folder_at("a")
    dead = Claude.spawn(world, cwd=folder).mid_model()
    dead.kill()
    beside = Claude.spawn(world, "busy", cwd=world.folder_at("beside")).mid_model()
    world.look()
    world.check("killed, beside a live one", dead.id, "stopped", process="gone", inferred=False)
    for argv in (["claude", "--continue"], ["claude", "-c", "go on"], ["claude"]):
        other = Claude.spawn(world, register=False, id=dead.id, cwd=folder, argv=argv).mid_model()
        world.look()
        world.check(f"{' '.join(argv)} goes on with it", dead.id, "unknown", process="unknown")
        other.kill()
    world.look()
    world.check("killed again", dead.id, "stopped", process="gone", inferred=False)
    restored = Claude.spawn(world, cwd=world.folder_at("b")).mid_model()
    file = json.loads(restored.file.read_text())
    file["procStart"] = str(int(file["procStart"]) - 1000)
    restored.file.write_text(json.dumps(file))
    world.look()
    world.check("restored from a checkpoint: its start is another one", restored.id, "unknown", process="unknown")
    world.check("the live one", beside.id, "running", pid=beside)
    for agent in (restored, beside):
        agent.kill()
    world.look()
    world.check("restored, killed", restored.id, "stopped", process="gone", inferred=False)


@case("killed-mid-turn")
def left_its_directory(world: World) -> None:
    """a live Claude Code without a pid file is in another directory than that of its session by now"""
    other = world.folder_at("other")
    swept = Claude.spawn(world, cwd=world.folder_at("swept"), env={"PWD": ""}).mid_model()
    beside = Claude.spawn(world, "busy", cwd=world.folder_at("beside")).mid_model()
    dead = Claude.spawn(world, cwd=world.folder_at("dead")).mid_model()
    dead.kill()
    swept.do("chdir", path=str(other))
    swept.file.unlink()
    world.look()
    world.check("its pid file was removed", swept.id, "unknown", process="unknown")
    world.check("the live one beside it", beside.id, "running", pid=beside)
    world.check("one whose recorded process is gone", dead.id, "stopped", process="gone", inferred=True)
    swept.kill()
    beside.kill()
    world.look()
    for label, agent in {"its pid file was removed": swept, "beside it": beside, "dead": dead}.items():
        world.check(f"{label}; all killed", agent.id, "stopped", process="gone", inferred=False)
    shutil.rmtree(world.root(Claude) / "sessions")
    here = Claude.spawn(world, register=False, style="old", cwd=world.folder_at("here")).mid_model()
    older = Claude.spawn(world, register=False, style="old", cwd=other, env={"PWD": ""}).mid_model()
    older.do("chdir", path=str(world.folder))
    world.look()
    world.check("an older version", older.id, "unknown", process="unknown")
    world.check("another that stayed where it was", here.id, "running", pid=here, inferred=True)
    older.kill()
    world.look()
    world.check("killed; the other is taken for its own session", older.id, "stopped", process="gone", inferred=True)
    here.kill()


@case("damaged-store")
def stale_copy_of_a_transcript(world: World) -> None:
    """an older copy of a transcript is in the folder of its directory, the newer one in another: by their contents"""
    agent = Claude.spawn(world, cwd=world.folder_at("a")).finished()
    stale = agent.transcript.read_bytes()
    agent.status("busy")
    agent.mid_model()
    moved = agent.transcript.parent.parent / "-somewhere-else" / agent.transcript.name
    moved.parent.mkdir()
    os.rename(agent.transcript, moved)
    agent.kill()
    agent.transcript.write_bytes(stale)
    for label, ahead in {"an old file": -3600, "copied just now": 3600}.items():
        moment = moved.stat().st_mtime + ahead
        os.utime(agent.transcript, (moment, moment))
        world.look()
        world.check(f"{label}, with its pid file", agent.id, "stopped", process="gone", inferred=False)
    agent.file.unlink()
    world.look()
    world.check("without its pid file", agent.id, "stopped", process="gone", inferred=False)
    agent.transcript.unlink()
    agent.transcript.symlink_to("nowhere")
    world.look()
    world.check_problem("a copy that cannot be read", str(agent.transcript))
    world.check("a copy that cannot be read may be newer", agent.id, "unknown")
