"""A pid is not an identity, a name is not one either, and other homes are none of our business."""

from __future__ import annotations

import json
import os
import shutil
import time
from functools import partial
from typing import TYPE_CHECKING

from tests.agents.claude_code.torture import Claude
from tests.agents.codex.torture import CODEX_BINARY, Codex
from tests.agents.demo.torture import Demo
from tests.agents.opencode.torture import OpenCode
from tests.torture.handles import Handle, WorldError, place_at, state_of, wait_until
from tests.torture.registry import case
from tests.torture.standins.files import random_id
from tests.torture.world import set_back

if TYPE_CHECKING:
    from pathlib import Path

    from tests.torture.agents import Agent
    from tests.torture.world import World

HOURS = 3 * 3600


@case("pid-recycled")
def pid_recycled(world: World) -> None:
    """killed in mid-turn, and its pid is now a stranger's"""
    claude = Claude.spawn(world, "busy").mid_model()
    codex = Codex.spawn(world).mid_model()
    demo = Demo.spawn(world, "[[sleep:300]]")
    demo.wait_for_event("prompt")
    everybody: dict[str, Claude | Codex | Demo] = {"claude": claude, "codex": codex, "demo agent": demo}
    for agent in everybody.values():
        agent.kill()
        world.stranger(agent.pid)
    world.look()
    for label, agent in everybody.items():
        world.check(f"{label}, its pid is a stranger's", agent.id, "stopped", turn="interrupted", pid=None)
    rejected = world.ask("why", claude.id).get("rejected", [])
    world.says("why names the stranger", str(rejected), any("sleep" in line for line in rejected))


@case("pid-recycled")
def pid_recycled_by_its_like(world: World) -> None:
    """killed in mid-turn, and its pid is now that of another claude in the same directory"""
    old = Claude.spawn(world, "busy").mid_model()
    old.kill()
    time.sleep(0.05)  # more than a tick of the clock that starts are counted in
    starting = place_at(old.pid, lambda: world.bare("claude", ["claude"]))
    world.look()
    world.check("the dead one", old.id, "stopped", turn="interrupted", pid=None)
    world.check_unattached("the one that is starting", starting, ())
    starting.stop()
    starting.close()
    world.forget(starting)
    new = place_at(old.pid, lambda: Claude.spawn(world, "busy", register=False))
    assert isinstance(new, type(old))
    new.register("busy")
    world.look()
    world.check("the dead one, its file written over", old.id, "stopped", turn="interrupted", pid=None)
    world.check("the new one, with its pid", new.id, "running", pid=new, link="exact")


@case("zombie")
def zombie(world: World) -> None:
    """killed in mid-turn and not reaped by its parent"""
    claude = Claude.spawn(world, "busy").mid_model()
    codex = Codex.spawn(world).mid_model()
    demo = Demo.spawn(world, "[[sleep:300]]")
    demo.wait_for_event("prompt")
    everybody: dict[str, Claude | Codex | Demo] = {"claude": claude, "codex": codex, "demo agent": demo}
    for agent in everybody.values():
        agent.send_signal(9)
        agent.wait()
        if state_of(agent.pid) != "Z":
            raise WorldError(f"pid {agent.pid} is no zombie")
    world.look()
    for label, agent in everybody.items():
        world.check(f"{label} is a zombie", agent.id, "stopped", process="gone", turn="interrupted", pid=None)


@case("zombie")
def zombie_leader(world: World) -> None:
    """its first thread has ended, the others go on: the kernel shows a zombie, and it is none"""
    claude = Claude.spawn(world, "busy").mid_model()
    codex = Codex.spawn(world).mid_model()
    for agent in (claude, codex):
        agent.send("leave_leader")
        wait_until("its first thread is a zombie", partial(is_zombie, agent.pid))
        if agent.has_ended():
            raise WorldError(f"pid {agent.pid} ended as a whole")
    world.look()
    world.check("claude, first thread gone", claude.id, "running", process="alive", pid=claude)
    world.check("codex, first thread gone", codex.id, "running", process="alive", pid=codex)


def is_zombie(pid: int) -> bool:
    return state_of(pid) == "Z"


@case("stale-native")
def stale_native(world: World) -> None:
    """SIGKILLed claude left sessions/<pid>.json saying busy"""
    for style in ("old", "new"):
        agent = Claude.spawn(world, "busy", style=style).mid_tool()
        waits = Claude.spawn(world, "busy", style=style).mid_model()
        waits.status("waiting", "permission prompt")
        fresh = Claude.spawn(world, "busy", style=style)
        idle = Claude.spawn(world, "busy", style=style).finished()
        everybody = (agent, waits, fresh, idle)
        for one in everybody:
            one.kill()
        if not all(one.file.exists() for one in everybody):
            raise WorldError("no stale file")
        world.look()
        world.check(f"{style} file says busy", agent.id, "stopped", turn="interrupted", pid=None)
        world.check(f"{style} file says waiting", waits.id, "stopped", turn="interrupted", waiting_for=None)
        world.check(f"{style} file says busy, no transcript", fresh.id, "stopped", turn="interrupted", pid=None)
        world.check(f"{style} file says idle", idle.id, "done", pid=None)
        world.stranger(agent.pid)
        world.look()
        world.check(f"{style} file says busy, pid reused", agent.id, "stopped", turn="interrupted", pid=None)
    resumed = Claude.spawn(world, "idle", id=idle.id, argv=["claude", "--resume", idle.id])
    world.look()
    world.check("resumed: a stale file beside the live one", idle.id, "idle", pid=resumed, link="exact")


def five_sessions(world: World, *, open_turns: bool = False) -> list[Claude]:
    """Five ended claude sessions of the same directory, without a word of which process was on them."""
    found = []
    for _ in range(5):
        agent = Claude.spawn(world, register=False, style="old").mid_model()
        if open_turns:
            agent.kill()
        else:
            agent.do("answer")
            agent.leave()
        set_back(agent.transcript, HOURS)
        found.append(agent)
    return found


@case("one-process-five-sessions")
def five_and_a_registered_one(world: World) -> None:
    """one live claude that says which of five sessions it is on"""
    ended = five_sessions(world)
    live = Claude.spawn(world, "idle", id=ended[2].id, argv=["claude", "--continue"])
    world.look()
    world.check("the one it is on", live.id, "idle", pid=live, link="exact", inferred=False)
    rest = [agent.id for agent in ended if agent.id != live.id]
    world.check_all("the other ones", rest, "done", pid=None, process="gone", inferred=False)


@case("one-process-five-sessions")
def a_fork_that_is_no_agent(world: World) -> None:
    """an agent that has forked, and the child has not executed its tool yet"""
    claude, codex = Claude.spawn(world, "busy").mid_model(), Codex.spawn(world).mid_model()
    for agent in (claude, codex):
        facts = agent.do("fork")
        world.keep(Handle(facts["pid"], facts["start"]))
    world.look()
    world.check("claude and its fork: one session", claude.id, "running", pid=claude, link="exact")
    world.check("codex and its fork: one session", codex.id, "running", pid=codex, link="exact")
    world.says("no process is unexplained", str(world.listing.unattached), not world.listing.unattached)


@case("one-process-five-sessions")
def five_and_an_old_one(world: World) -> None:
    """one live claude that cannot say which of five sessions it goes on with"""
    ended = five_sessions(world)
    live = world.bare("claude", ["claude", "--continue"])
    world.look()
    world.check_unattached("claude --continue", live, [agent.id for agent in ended])
    ids = [agent.id for agent in ended]
    world.check_all("its candidates, turn closed", ids, "done", pid=None, process="gone", inferred=True)


@case("one-process-five-sessions")
def five_killed_and_an_old_one(world: World) -> None:
    """the same, and the five were killed in mid-turn"""
    ended = five_sessions(world, open_turns=True)
    live = world.bare("claude", ["claude", "--continue"])
    world.look()
    world.check_unattached("claude --continue", live, [agent.id for agent in ended])
    ids = [agent.id for agent in ended]
    world.check_all("its candidates, in mid-turn", ids, "unknown", pid=None, process="unknown")


@case("one-process-five-sessions")
def five_and_a_new_one(world: World) -> None:
    """one live claude that was started anew: it cannot be on a session with nothing newer than itself"""
    ended = five_sessions(world, open_turns=True)
    live = world.bare("claude", ["claude"])
    world.look()
    world.check_unattached("claude, started anew", live, ())
    ids = [agent.id for agent in ended]
    world.check_all("killed before it was started", ids, "stopped", pid=None, process="gone", inferred=False)


@case("one-process-five-sessions")
def five_of_codex(world: World) -> None:
    """one live codex, five finished sessions of its directory; with locks and without"""
    for lock in (True, False):
        ended = []
        for _ in range(5):
            agent = Codex.spawn(world, lock=lock).finished()
            set_back(agent.rollout_of(), HOURS)
            agent.leave()
            ended.append(agent)
        live = Codex.spawn(world, source="cli", lock=lock).finished()
        world.look()
        kind = "codex" if lock else "older codex"
        world.check(f"the live {kind}", live.id, "idle", pid=live, link="exact", inferred=False)
        ids = [agent.id for agent in ended]
        world.check_all("the finished ones", ids, "done", pid=None, process="gone", inferred=False)
        live.leave()
        anew = world.bare("codex", [CODEX_BINARY, "exec", "go"])
        world.look()
        world.check_unattached(f"{kind}, started anew", anew, ())
        world.check_all("the finished ones then", ids, "done", process="gone", inferred=False)
        anew.kill()
        shutil.rmtree(world.root(Codex))


@case("reboot")
def reboot(world: World) -> None:
    """a record of another boot: its key is gone, whoever has its pid and start now"""
    demo = Demo.spawn(world, "[[sleep:300]]")
    demo.wait_for_event("prompt")
    demo.kill()
    stranger = world.stranger(demo.pid)
    path = demo.folder / "process.json"
    file = {**json.loads(path.read_text()), "pid": stranger.pid, "start_ticks": stranger.start}
    path.write_text(json.dumps({**file, "boot_id": random_id()}))
    world.look()
    world.check("demo agent of another boot", demo.id, "stopped", process="gone", turn="interrupted", pid=None)


@case("other-home")
def other_home(world: World) -> None:
    """agents of another home: not read, not shown"""
    elsewhere = world.folder / "elsewhere"
    (elsewhere / ".codex").mkdir(parents=True)
    env = {"HOME": str(elsewhere)}
    ours = Claude.spawn(world, "busy").mid_model()
    claude = Claude.spawn(world, "busy", root=elsewhere / ".claude", env=env).mid_model()
    codex = Codex.spawn(world, root=elsewhere / ".codex", env=env).mid_model()
    dialog = world.bare("claude", ["claude"], env=env)
    named = Claude.spawn(world, "busy", env={**env, "CLAUDE_CONFIG_DIR": str(world.root(Claude))}).mid_model()
    world.look()
    world.check("ours", ours.id, "running", pid=ours)
    world.check_not_shown("claude of another home", ids=[claude.id], pids=[claude.pid])
    world.check_not_shown("codex of another home", ids=[codex.id], pids=[codex.pid])
    world.check_not_shown("claude of another home, no session", pids=[dialog.pid])
    world.check("of another home, but named in our store", named.id, "running", pid=named, link="exact")
    unset = world.bare("claude", ["claude"], env={"HOME": ""})
    world.look()
    world.check_not_shown("claude without a HOME: that of the user", pids=[unset.pid])
    os.symlink(world.home, world.folder / "same")
    same = Claude.spawn(world, "busy", env={"HOME": str(world.folder / "same")}).mid_model()
    waits = world.bare("claude", ["claude"], env={"HOME": str(world.folder / "same")}, cwd=world.folder_at("x"))
    world.look()
    world.check("our home by another name", same.id, "running", pid=same, link="exact")
    world.check_unattached("our home by another name, no session", waits, ())


@case("other-home")
def other_store(world: World) -> None:
    """agents of our home that keep their store elsewhere: found while they live, remembered afterwards"""
    alternative = world.folder_at("alternative")
    claude_root, codex_root = alternative / "claude", alternative / "codex"
    codex_root.mkdir()
    claude = Claude.spawn(world, "busy", root=claude_root, env={"CLAUDE_CONFIG_DIR": str(claude_root)}).mid_model()
    codex = Codex.spawn(world, root=codex_root, env={"CODEX_HOME": str(codex_root)}).mid_model()
    unseen = world.folder_at("unseen")
    early = Claude.spawn(world, "busy", root=unseen, env={"CLAUDE_CONFIG_DIR": str(unseen)}).mid_model()
    early.kill()  # before anybody looked
    world.look()
    world.check("claude with CLAUDE_CONFIG_DIR", claude.id, "running", pid=claude, link="exact")
    world.check("codex with CODEX_HOME", codex.id, "running", pid=codex, link="exact")
    world.check_not_shown("a store that nobody ever named", ids=[early.id])
    claude.kill()
    codex.kill()
    world.look()
    world.check("claude killed, its store remembered", claude.id, "stopped", turn="interrupted", pid=None)
    world.check("codex killed, its store remembered", codex.id, "stopped", turn="interrupted", pid=None)


def configure_stores(world: World, *roots: Path) -> None:
    """Further stores of claude, by our own configuration."""
    config = world.folder / "config" / "agentctl"
    config.mkdir(parents=True)
    (config / "config.toml").write_text(f"[stores]\nclaude = {json.dumps([str(root) for root in roots])}\n")


@case("store-missing")
def store_missing(world: World) -> None:
    """a store of our configuration that was never there, and one that a live agent made known and that vanished"""
    disk = world.folder_at("disk")
    seen, named, unmounted = world.folder_at("disk/seen"), disk.with_name("named"), disk.with_name("unmounted")
    live = Claude.spawn(world, "busy", root=seen, env={"CLAUDE_CONFIG_DIR": str(seen)}).mid_model()
    world.look()
    world.check("in a store that its environment names", live.id, "running", pid=live, link="exact")
    live.kill()
    disk.rename(unmounted)
    configure_stores(world, named)
    for _ in range(2):  # it is not named once and then silent
        world.look()
        world.check_problem("the store that vanished", seen)
        world.check_problem("the store that the configuration names", named)
    strict = world.run("list", "-a", "--strict")
    world.says(
        "list: not `no sessions`", strict.stderr.strip(), strict.returncode == 5 and "could be read" in strict.stderr
    )
    status = world.run("status", live.id)
    world.says(
        "its status cannot be known", status.stderr.strip(), status.returncode == 5 and str(seen) in status.stderr
    )
    unmounted.rename(disk)
    world.look()
    world.check("it is back", live.id, "stopped", pid=None)
    disk.rename(unmounted)
    config = world.folder / "config" / "agentctl" / "config.toml"
    config.write_text(f"{config.read_text()}ignore = {json.dumps([str(named)])}\n")
    forgot = world.run("agents", "forget", str(seen))
    world.look()
    left = [str(one) for one in world.listing.problems]
    world.says("forgotten, and accepted", f"{len(left)} problems", forgot.returncode == 0 and not left, "\n".join(left))
    shown = world.run("agents").stdout
    world.says("agents still shows what was accepted", "shown", "named: not there (ignored" in shown, shown)
    ours = Claude.spawn(world, "busy").mid_model()
    world.look()
    world.check("one in the agent's own place", ours.id, "running", pid=ours)


@case("other-home")
def store_by_odd_ways(world: World) -> None:
    """a store named by a relative path, and one that only our configuration names"""
    place = world.folder_at("place")
    relative = Claude.spawn(world, "busy", root=place / "cfg", env={"CLAUDE_CONFIG_DIR": "cfg"}, cwd=place).mid_model()
    named = world.folder_at("named")
    ended = Claude.spawn(world, "busy", root=named, env={"CLAUDE_CONFIG_DIR": str(named)}).mid_model()
    ended.kill()
    configure_stores(world, named)
    world.look()
    world.check("claude with CLAUDE_CONFIG_DIR=cfg", relative.id, "running", pid=relative, link="exact")
    world.check("killed, in a store of our configuration", ended.id, "stopped", pid=None)


@case("no-double")
def no_double(world: World) -> None:
    """one session in two files"""
    codex = Codex.spawn(world).finished()
    rollout = codex.rollout_of()
    codex.leave()
    archived = world.root(Codex) / "archived_sessions"
    archived.mkdir()
    shutil.copy2(rollout, archived / rollout.name)
    live = Claude.spawn(world, "busy").mid_model()
    ended = Claude.spawn(world, "busy").mid_model()
    for agent in (live, ended):
        for name in ("-aa", "-zz"):
            folder = world.root(Claude) / "projects" / name
            folder.mkdir(exist_ok=True)
            shutil.copy2(agent.transcript, folder / agent.transcript.name)
            set_back(folder / agent.transcript.name, HOURS)
    ended.do("answer")  # only the newest of its three files has this
    ended.leave()
    world.look()
    twice = [id for id in set(world.listing.ids) if world.listing.ids.count(id) > 1]
    world.says("each session once", f"{len(world.listing.ids)} rows, {len(twice)} twice", not twice)
    world.check("codex, also archived", codex.id, "done")
    world.check("claude, live, in three folders", live.id, "running", pid=live)
    world.check("claude, ended, in three folders: the newest counts", ended.id, "done")


@case("no-double")
def no_double_store(world: World) -> None:
    """one store under two names, and one session in two stores"""
    os.symlink(world.root(Claude), world.home / "linked")
    configure_stores(world, world.home / "linked")
    claude = Claude.spawn(world, "busy", env={"CLAUDE_CONFIG_DIR": str(world.home / "linked")}).mid_model()
    other = world.folder_at("other-store")
    second = Claude.spawn(world, "idle", root=other, env={"CLAUDE_CONFIG_DIR": str(other)})
    quiet = Claude.spawn(world, None, style="old", headless=True).mid_model()
    for agent in (claude, quiet):
        copy = Claude.spawn(world, register=False, id=agent.id, root=other, env={"CLAUDE_CONFIG_DIR": str(other)})
        copy.finished(status=None)  # a copy that went on, and ended
        copy.leave()
    world.look()
    rows = [id for id in world.listing.ids if id in (claude.id, quiet.id)]
    world.says("one row for each of two sessions", f"{len(rows)} rows", len(rows) == 2)
    world.check("live, and a newer copy in another store", claude.id, "running", pid=claude, link="exact")
    held = [entry["pid"] for entry in world.listing.rows[claude.id]["processes"]]
    world.says("its one process is named once", str(held), held == [claude.pid])
    world.check("the same, without a status in its file", quiet.id, "running", pid=quiet, link="exact")
    world.check("another one of the second store", second.id, "idle", pid=second)


@case("fork-of-dead")
def fork_that_outlives_its_agent(world: World) -> None:
    """an agent is killed between fork and exec of its tool: the fork has its program, its arguments and its files"""
    kinds: tuple[type[Agent], ...] = (Claude, Codex, OpenCode)
    for kind in kinds:
        agent = kind.spawn(world, cwd=world.folder_at(kind.AGENT)).mid_model()
        facts = agent.do("fork")
        fork = Handle(facts["pid"], facts["start"])
        world.keep(fork)
        agent.kill()
        world.look()
        row = world.listing.rows[agent.id]
        firm = row["status"] == "running" and not row["inferred"]
        answer = f"{row['status']}{'?' if row['inferred'] else ''}, {row['reason']}"
        world.says(f"{kind.AGENT}: never firmly running", answer, not firm, json.dumps(row, indent=1))
        fork.kill()
        world.look()
        world.check(f"{kind.AGENT}, its fork has ended, too", agent.id, "stopped", process="gone")
