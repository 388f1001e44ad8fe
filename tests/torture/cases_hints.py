"""What the environment of an agent names is a hint: its store may be called something else, now or from the start."""

from __future__ import annotations

import json
import time
import unicodedata
from typing import TYPE_CHECKING

from tests.agents.claude_code.torture import Claude
from tests.agents.codex.torture import Codex
from tests.agents.opencode.torture import OpenCode
from tests.torture.cases_places import check_kept_out
from tests.torture.cases_stores import check_doubt
from tests.torture.kernel import mounted
from tests.torture.registry import case

if TYPE_CHECKING:
    from pathlib import Path

    from tests.torture.world import World

STARTED = 10.5  # seconds after which an agent has made its store


def watching(world: World, root: Path, **options: object) -> Claude:
    """A Claude Code in mid-turn that watches the folder of its store, as the real one does."""
    root.mkdir(parents=True, exist_ok=True)
    agent = Claude.spawn(world, root=root, **options).mid_model()  # type: ignore[arg-type]
    agent.do("watch", path=str(root))
    agent.do("watch", path=str(world.work))
    return agent


def check_whole(world: World, label: str) -> None:
    done = world.run("list", "-a", "--since", "all", "--strict")
    world.says(f"{label}: `list --strict` is 0", f"exit {done.returncode}", done.returncode == 0, done.stderr)


@case("store-name")
def renamed_under_its_agent(world: World) -> None:
    """the folder with the data of a live agent is renamed; for one of them a new folder gets the old name"""
    opencode, codex = OpenCode.spawn(world).mid_model(), Codex.spawn(world).mid_model()
    moved = {kind: world.root(kind).with_name(f"old-{kind.AGENT}") for kind in (OpenCode, Codex)}
    for kind, path in moved.items():
        world.root(kind).rename(path)
    world.root(Codex).mkdir()
    world.look()
    world.check("opencode, renamed", opencode.id, "running", pid=opencode)
    world.check("codex, renamed, and another one in its place", codex.id, "running", pid=codex)
    check_kept_out(world, "another agent", world.work, "is running")
    check_whole(world, "both are found")
    opencode.kill()
    codex.kill()
    world.look()
    world.check("opencode, killed", opencode.id, "stopped", pid=None)
    world.check("codex, killed", codex.id, "stopped", pid=None)


@case("store-name")
def link_switched(world: World) -> None:
    """the names of the stores are links, which are switched to another profile under live agents"""
    for kind in (Claude, Codex, OpenCode):
        for profile in ("a", "b"):
            (world.folder / "profiles" / f"{kind.AGENT}-{profile}").mkdir(parents=True)
        world.root(kind).parent.mkdir(parents=True, exist_ok=True)
        world.root(kind).symlink_to(world.folder / "profiles" / f"{kind.AGENT}-a")
    claude = watching(world, world.root(Claude))
    codex, opencode = Codex.spawn(world).mid_model(), OpenCode.spawn(world).mid_model()
    for kind in (Claude, Codex, OpenCode):
        world.root(kind).unlink()
        world.root(kind).symlink_to(world.folder / "profiles" / f"{kind.AGENT}-b")
    world.look()
    for label, agent in {"claude": claude, "codex": codex, "opencode": opencode}.items():
        world.check(label, agent.id, "running", pid=agent)
    check_kept_out(world, "another agent", world.work, "is running")
    check_whole(world, "all are found")


@case("store-name")
def home_renamed(world: World) -> None:
    """HOME is renamed under a live Claude Code that has no pid file, and we are asked with its new name"""
    agent = watching(world, world.root(Claude), register=False, cwd=world.folder)
    elsewhere = world.folder / "elsewhere"  # a directory that is renamed with HOME is another fault
    elsewhere.mkdir()
    silent = Claude.spawn(world, register=False, cwd=elsewhere).mid_model()
    renamed = world.folder / "renamed"
    world.home.rename(renamed)
    world.home, world.work = renamed, renamed / "work"
    world.env["HOME"] = str(renamed)
    world.look()
    world.check("it watches its store", agent.id, ("running", "unknown"))
    world.check("nothing tells where its store is", silent.id, "unknown", process="unknown")
    agent.kill()
    silent.kill()
    world.look()
    world.check("killed", agent.id, "stopped", pid=None)


@case("store-name")
def as_the_agent_means_it(world: World) -> None:
    """a name is empty, relative, decomposed, has `..` behind a link, or is in the agent's own settings"""
    deep = world.folder_at("real/deep")
    (world.home / "link").symlink_to(deep)
    codex_root = world.folder_at("real/codex")
    codex = Codex.spawn(world, root=codex_root, env={"CODEX_HOME": f"{world.home}/link/../codex"}).mid_model()
    relative = world.folder_at("work/data/opencode")
    opencode = OpenCode.spawn(world, root=relative, log="none", env={"XDG_DATA_HOME": "data"}).mid_model()
    empty = world.folder_at("empty")
    claude = watching(world, empty, cwd=empty, around=lambda command: ["env", "CLAUDE_CONFIG_DIR=", *command])
    world.root(Claude).mkdir()
    other = world.folder_at("far/from/it")
    (world.root(Claude) / "settings.json").write_text(json.dumps({"env": {"CLAUDE_CONFIG_DIR": str(other)}}))
    set_by_settings = watching(world, other, cwd=deep)
    world.look()
    world.check("codex, `..` behind a link", codex.id, "running", pid=codex)
    world.check("opencode, relative", opencode.id, "running", pid=opencode)
    world.check("claude, an empty name", claude.id, "running", pid=claude)
    world.check("claude, by its settings", set_by_settings.id, "running", pid=set_by_settings)
    check_kept_out(world, "another agent", world.work, "is running")
    check_whole(world, "all are found")
    for agent in (codex, opencode, claude, set_by_settings):
        agent.kill()
    world.look()
    for agent in (codex, opencode, claude, set_by_settings):
        world.check("killed", agent.id, "stopped", pid=None)


@case("store-name")
def decomposed_home(world: World) -> None:
    """HOME is in decomposed letters: Claude Code composes them, and so makes another folder"""
    home = world.folder / unicodedata.normalize("NFD", "hömé")
    home.mkdir()
    root = world.folder / unicodedata.normalize("NFC", "hömé") / ".claude"
    world.env["HOME"] = str(home)
    agent = Claude.spawn(world, root=root).mid_model()
    world.look()
    world.check("composed", agent.id, "running", pid=agent)
    check_whole(world, "it is found")


@case("store-name")
def never_there(world: World) -> None:
    """a live agent names a store that was never there: that is no store that is gone once the agent has ended"""
    agent = world.bare("claude", ["claude"], env={"CLAUDE_CONFIG_DIR": str(world.home / "never")})
    world.look()
    world.check_unattached("while it lives", agent)
    agent.kill()
    world.expects_unattached.clear()
    check_whole(world, "once it has ended")


@case("store-name")
def out_of_reach(world: World) -> None:
    """something is mounted over the store of a live Codex; a Claude Code watches a store that is nowhere near"""
    codex = Codex.spawn(world).mid_model()
    lost = watching(world, world.folder / "far" / "away" / "store", cwd=world.folder)
    world.until_the_end(mounted("tmpfs", world.root(Codex)))
    time.sleep(STARTED)
    world.look()
    world.check_problem("codex", world.root(Codex))
    world.check_problem("claude", world.root(Claude))
    world.check_unattached("codex", codex)
    world.check_unattached("claude", lost)
    check_doubt(world, "both", "list")
    check_kept_out(world, "another agent", world.work, "codex")
    check_kept_out(world, "in the directory of the other", world.folder, "claude-code")
