"""What the machine does to us: stores that hang or are closed, processes that are hidden, clocks, full disks."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from tests.agents.claude_code.torture import Claude
from tests.agents.codex.torture import CODEX_BINARY, Codex
from tests.agents.demo.torture import Demo
from tests.torture.handles import WorldError
from tests.torture.kernel import as_nobody, as_nobody_who_sees_little, hanging, mounted, read_only, without_file_powers
from tests.torture.registry import case
from tests.torture.standins.files import random_id
from tests.torture.world import Contains, set_back

if TYPE_CHECKING:
    from pathlib import Path

    from tests.torture.world import World

SOON = 2.0
DAY = 24 * 3600

BLOCKING_STORE = """
import sys
if "agentctl" in sys.orig_argv:
    import threading
    from agentctl.agents.{agent} import store
    store.Store.survey = lambda self: threading.Event().wait()
"""


def others_of(world: World) -> tuple[Claude, Demo]:
    """Live sessions of other agents, whose rows must come whatever one store does."""
    claude = Claude.spawn(world, "busy").mid_model()
    demo = Demo.spawn(world, "[[sleep:300]]")
    demo.wait_for_event("prompt")
    return claude, demo


def check_time(world: World, label: str = "an answer") -> None:
    """Of the last command, without the time in which the machine was too busy to run it."""
    said = f"{world.seconds:.2f} s, {world.own_seconds:.2f} of them not crowded"
    world.says(f"{label} within {SOON:g} s", said, world.own_seconds < SOON)


def check_soon(world: World, others: tuple[Claude, Demo]) -> None:
    check_time(world)
    claude, demo = others
    world.check("claude meanwhile", claude.id, "running", pid=claude)
    world.check("demo agent meanwhile", demo.id, "running", pid=demo)


def make_fifo(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


@case("store-hangs")
def store_of_fifos(world: World) -> None:
    """FIFOs where claude's and codex's files should be"""
    transcript = Claude.spawn(world, "busy").mid_model()
    make_fifo(transcript.transcript)
    file = Claude.spawn(world, "busy").mid_model()
    make_fifo(file.file)
    ended = Claude.spawn(world, "busy").mid_model()
    ended.kill()
    make_fifo(ended.transcript)
    make_fifo(world.root(Claude) / "daemon.lock")
    codex = Codex.spawn(world).mid_model()
    make_fifo(codex.rollout_of())
    demo = Demo.spawn(world, "[[sleep:300]]")
    world.look()
    check_time(world)
    world.check("its transcript is a FIFO", transcript.id, "running", pid=transcript, link="exact")
    world.check("its sessions/<pid>.json is a FIFO", file.id, "unknown", process="unknown")
    world.check_unattached("the process of that one", file, ())  # it may be any: what says which cannot be read
    world.check("killed, its transcript is a FIFO", ended.id, "unknown")
    world.check("codex, its rollout is a FIFO", codex.id, "alive", pid=codex, link="exact")
    world.check("demo agent meanwhile", demo.id, "running", pid=demo)
    for label, path in {
        "the transcript": transcript.transcript,
        "sessions/<pid>.json": file.file,
        "daemon.lock": world.root(Claude) / "daemon.lock",
        "the rollout": codex.rollout_of(),
    }.items():
        world.check_problem(label, path)


@case("store-hangs")
def store_on_dead_mount(world: World) -> None:
    """codex's store is on a mount whose server never answers"""
    others = others_of(world)
    live = world.bare("codex", [CODEX_BINARY, "exec", "go"])
    world.until_the_end(hanging(world.root(Codex)))
    world.hangs = True
    world.sample = 1
    world.limit = 8.0
    world.look()
    check_soon(world, others)
    world.check_problem("codex's store", world.root(Codex))
    world.check_unattached("its live process", live)


@case("store-hangs")
def store_with_dead_mount_below(world: World) -> None:
    """claude's projects folder is on a mount whose server never answers"""
    live = Claude.spawn(world, "busy").mid_model()
    demo = Demo.spawn(world, "[[sleep:300]]")
    world.until_the_end(hanging(world.root(Claude) / "projects"))
    world.hangs = True
    world.sample = 1
    world.limit = 8.0
    world.look()
    check_time(world)
    world.check("demo agent meanwhile", demo.id, "running", pid=demo)
    world.check_problem("claude's store", world.root(Claude))
    shown = live.id in world.listing.rows or live.pid in world.listing.unattached
    world.says("its live process is not dropped", "shown" if shown else "dropped", shown)
    dialog = world.bare("claude", ["claude"])
    world.look()
    check_time(world, "one more, at a dialog: an answer")
    world.check("demo agent meanwhile", demo.id, "running", pid=demo)
    world.check_unattached("the one at a dialog", dialog)


@case("store-hangs")
def store_that_blocks(world: World) -> None:
    """codex's adapter blocks for ever while it reads"""
    others = others_of(world)
    live = Codex.spawn(world).mid_model()
    block(world, "codex")
    world.look()
    check_soon(world, others)
    world.check_problem("codex's store", world.root(Codex))
    world.check_unattached("its live process", live)
    session = world.ask("status", others[0].id).get("session") or {}
    said = session.get("status")
    world.says("status of another one: running", str(said), said == "running")
    check_time(world, "that status")


@case("store-hangs")
def store_that_blocks_while_we_look_twice(world: World) -> None:
    """claude's adapter blocks for ever, and another agent needs a second look, or a store of its own"""
    codex = Codex.spawn(world, source="cli", policy="on-request").mid_model()
    codex.do("call", command="touch /tmp/zz")
    live = Claude.spawn(world, "busy").mid_model()
    block(world, "claude_code")
    world.look()
    check_time(world)
    world.check("codex meanwhile waits for an approval", codex.id, "waiting", pid=codex)
    world.check_unattached("the blocked one's live process", live)
    other = world.folder_at("other-store")
    moved = Codex.spawn(world, root=other, env={"CODEX_HOME": str(other)}).mid_model()
    world.look()
    check_time(world, "with a store to be found: an answer")
    world.check("codex in another store", moved.id, "running", pid=moved)


def block(world: World, agent: str) -> None:
    """From now on the command's own reader of this agent's store blocks for ever."""
    folder = world.folder / "blocking"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(BLOCKING_STORE.format(agent=agent))
    world.env["PYTHONPATH"] = f"{folder}:{world.env['PYTHONPATH']}"
    world.expects_problems = True
    world.sample = 1


@case("store-hangs")
def store_unreadable(world: World) -> None:
    """claude's store is closed to us"""
    claude = Claude.spawn(world, "busy").mid_model()
    codex = Codex.spawn(world).mid_model()
    world.around = without_file_powers
    for path in (world.root(Claude), world.root(Claude) / "sessions", world.root(Claude) / "projects", claude.file):
        mode = path.stat().st_mode
        path.chmod(0)
        world.look()
        label = f"{path.name} of mode 000"
        found = [one["problem"] for one in world.listing.problems]
        world.says(f"{label}: a problem", str(found), any("ermission denied" in text for text in found))
        shown = claude.id in world.listing.rows or claude.pid in world.listing.unattached
        row = world.listing.rows.get(claude.id, {})
        said = f"{row.get('status', 'no row')}, unattached: {claude.pid in world.listing.unattached}"
        world.says(f"{label}: never ended, never dropped", said, shown and row.get("process") != "gone")
        world.check(f"{label}: codex meanwhile", codex.id, "running", pid=codex)
        path.chmod(mode)
    world.root(Claude).chmod(0)
    world.look()
    world.check_unattached("its live process", claude)
    world.root(Claude).chmod(0o700)


@case("store-hangs")
def store_is_a_file(world: World) -> None:
    """a file where codex's store should be"""
    others = others_of(world)
    world.root(Codex).write_text("not a folder")
    live = world.bare("codex", [CODEX_BINARY, "exec", "go"])
    world.look()
    check_soon(world, others)
    world.check_problem("codex's store", world.root(Codex))
    world.check_unattached("its live process", live)


def replace_by_nothing(path: Path) -> None:
    """As if the disk was not mounted that a link leads to."""
    path.rename(path.with_name(f"{path.name}-away"))
    path.symlink_to("/nowhere/at/all")


def put_back(path: Path) -> None:
    path.unlink()
    path.with_name(f"{path.name}-away").rename(path)


@case("store-hangs")
def folders_that_lead_nowhere(world: World) -> None:
    """links that lead nowhere in the place of the folders that name processes, and of those that hold transcripts"""
    dead = Claude.spawn(world, "busy").mid_model()
    dead.kill()
    gone = Codex.spawn(world).mid_model()
    gone.kill()
    world.look()
    world.check("claude, killed", dead.id, "stopped")
    world.check("codex, killed", gone.id, "stopped")
    world.expects_problems = True
    for path, agent in (
        (world.root(Claude) / "sessions", dead),
        (world.root(Codex) / "thread-writer-locks", gone),
    ):
        replace_by_nothing(path)
        world.look()
        world.check_problem(f"{path.name} leads nowhere", path)
        world.check(f"{path.name} leads nowhere", agent.id, "unknown", process="unknown", reason=Contains("hidden"))
        put_back(path)
    for path, agent in ((world.root(Claude) / "projects", dead), (world.root(Codex) / "sessions", gone)):
        replace_by_nothing(path)
        world.look()
        world.check_problem(f"{path.name} leads nowhere", path)
        said = world.listing.rows.get(agent.id, {}).get("status", "no row")
        world.says(f"{path.name} leads nowhere: no end is claimed", said, said in ("no row", "unknown"))
        put_back(path)
    world.look()
    world.check("claude, put back", dead.id, "stopped")
    world.check("codex, put back", gone.id, "stopped")


@case("scan-incomplete")
def hidden_processes(world: World) -> None:
    """/proc hides the processes of others, and all agents are another user's"""
    live = Claude.spawn(world, "busy").mid_model()
    dead = Claude.spawn(world, "busy").mid_model()
    dead.kill()
    left = Claude.spawn(world, register=False).mid_model()
    left.kill()
    done = Claude.spawn(world, "busy").finished()
    done.leave()
    codex = Codex.spawn(world).mid_model()
    gone = Codex.spawn(world).mid_model()
    gone.kill()
    world.look()
    world.check("seen by root: alive", live.id, "running", pid=live)
    world.check("seen by root: killed", left.id, "stopped")
    world.check("seen by root: codex killed", gone.id, "stopped")
    world.around = as_nobody_who_sees_little
    world.look()
    for label, agent in {
        "claude, hidden": live,
        "claude, killed": dead,
        "claude, killed, no file": left,
        "codex, hidden": codex,
        "codex, killed": gone,
    }.items():
        world.check(label, agent.id, "unknown", process="unknown", pid=None)
    world.check("claude, finished: keeps its word", done.id, "done", inferred=True)


@case("scan-incomplete")
def closed_process(world: World) -> None:
    """a process of our own user into which we may not look: it may be on any session"""
    left = Claude.spawn(world, register=False).mid_model()
    left.kill()
    world.look()
    world.check("killed, nobody is there", left.id, "stopped")
    closed = world.bare("claude", ["claude"], around=as_nobody)
    closed.do("close_doors")
    world.around = as_nobody
    world.look()
    world.check("killed, and a closed claude lives", left.id, "unknown", process="unknown")
    world.check_unattached("the closed one", closed)
    world.check_problem("its store is not known", f"/proc/{closed.pid}/environ")


@case("scan-incomplete")
def shared_mount(world: World) -> None:
    """inside a PID namespace, stores on a mount of their own: others may be on them"""
    for root in (world.root(Claude), world.root(Codex)):
        world.until_the_end(mounted("ramfs", root))
    live = Claude.spawn(world, "busy").mid_model()
    dead = Claude.spawn(world, "busy", style="old").mid_model()
    dead.kill()
    left = Claude.spawn(world, register=False).mid_model()
    left.kill()
    codex = Codex.spawn(world).mid_model()
    gone = Codex.spawn(world).mid_model()
    gone.kill()
    world.look()
    world.check("claude, alive", live.id, "running", pid=live, link="exact")
    world.check("codex, alive", codex.id, "running", pid=codex, link="exact")
    for label, agent in {"claude, killed": dead, "claude, killed, no file": left, "codex, killed": gone}.items():
        world.check(label, agent.id, "unknown", process="unknown", reason=Contains("mount"))


@case("scan-incomplete")
def other_namespace(world: World) -> None:
    """a file that was written in another PID namespace: its process cannot be looked for here"""
    agent = Claude.spawn(world, "busy").mid_model()
    agent.kill()
    text = agent.file.read_text()
    agent.file.write_text(text.replace("pid:[", "pid:[9"))
    world.look()
    world.check("in mid-turn, of another namespace", agent.id, "unknown", process="unknown")
    agent.file.write_text(text)
    world.look()
    world.check("the same, of ours", agent.id, "stopped", process="gone")


@case("clock-step")
def clock_step(world: World) -> None:
    """times hours in the past or the future: exact links do not change, and what ended has ended"""
    for label, shift in (("past", DAY), ("future", -DAY)):
        claude = Claude.spawn(world, "busy").mid_model()
        resting = Claude.spawn(world, "busy").finished()
        codex = Codex.spawn(world).mid_model()
        killed = Claude.spawn(world, "busy").mid_model()
        killed.kill()
        dead = Codex.spawn(world).mid_model()
        dead.kill()
        for path in (*(one.transcript for one in (claude, resting, killed)), codex.rollout_of(), dead.rollout_of()):
            set_back(path, shift)
        world.look()
        world.check(f"claude, times in the {label}", claude.id, "running", pid=claude, link="exact", inferred=False)
        world.check(f"claude at rest, times in the {label}", resting.id, "idle", pid=resting, inferred=False)
        world.check(f"codex, times in the {label}", codex.id, "running", pid=codex, link="exact", inferred=False)
        world.check(f"claude killed, times in the {label}", killed.id, "stopped", process="gone")
        world.check(f"codex killed, times in the {label}", dead.id, "stopped", process="gone")


@case("disk-full")
def disk_full(world: World) -> None:
    """no room and no right to write anywhere: list and status work"""
    other = world.folder_at("other-store")
    claude = Claude.spawn(world, "busy", root=other, env={"CLAUDE_CONFIG_DIR": str(other)}).mid_model()
    codex = Codex.spawn(world).mid_model()
    cache = world.folder / "cache"
    world.until_the_end(mounted("tmpfs", cache, "size=4k"))
    with open(cache / "filler", "wb") as file:
        try:
            file.write(b"x" * 65536)
            file.flush()
        except OSError:
            pass
    world.until_the_end(read_only(world.home))
    try:
        (world.home / "probe").touch()
        raise WorldError("the home is not read-only")
    except OSError:
        pass
    world.look()
    world.check("claude whose store cannot be remembered", claude.id, "running", pid=claude)
    world.check("codex in a read-only home", codex.id, "running", pid=codex)


@case("concurrent")
def concurrent(world: World) -> None:
    """20 lists at once give 20 times the same answer"""
    claude, demo = others_of(world)
    codex = Codex.spawn(world).mid_model()
    ended = Claude.spawn(world, "busy").mid_model()
    ended.kill()
    world.look()
    wanted = {id: (row["status"], row["pid"]) for id, row in world.listing.rows.items()}
    commands = [
        subprocess.Popen([*world.command, "list", "-a", "--json"], env=world.env, stdout=subprocess.PIPE, text=True)
        for _ in range(20)
    ]
    answers = [world.listing_in(command.communicate(timeout=30)[0]) for command in commands]
    same = [one for one in answers if {id: (row["status"], row["pid"]) for id, row in one.rows.items()} == wanted]
    world.says("20 times the same 4 sessions", f"{len(same)} of {len(answers)} the same", len(same) == 20)
    world.check("one of them", codex.id, "running", pid=codex)
    world.check("one of them", demo.id, "running", pid=demo)
    world.check("one of them", claude.id, "running", pid=claude)
    world.check_not_shown("nobody", ids=[random_id()])
