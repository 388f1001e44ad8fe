"""Stores that are damaged, or that agentctl no longer knows of: "nothing there" is said only of what was read."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
from contextlib import closing
from typing import TYPE_CHECKING

from tests.agents.claude_code.torture import Claude
from tests.agents.codex.torture import Codex
from tests.agents.demo.torture import Demo
from tests.agents.opencode.torture import OpenCode
from tests.torture.kernel import without_file_powers
from tests.torture.registry import case
from tests.torture.world import set_back

if TYPE_CHECKING:
    from pathlib import Path

    from tests.torture.world import World

HOUR = 3600


def check_doubt(world: World, label: str, *verbs: str) -> None:
    """Each of these commands says that not everything could be read."""
    for verb in verbs or ("list",):
        words: tuple[str, ...] = (verb, "-a", "--since", "all") if verb == "list" else (verb,)
        done = world.run(*words, "--strict")
        said = f"exit {done.returncode}: {done.stderr.strip()}"
        ok = done.returncode == 5 and (bool(done.stdout) or "in what could be read" in done.stderr)
        world.says(f"{label}: `{verb} --strict` is 5, and nothing is firmly absent", said, ok)


def change(database: Path, *statements: str) -> None:
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def elsewhere(world: World) -> Claude:
    root = world.folder_at("elsewhere")
    return Claude.spawn(world, "busy", root=root, env={"CLAUDE_CONFIG_DIR": str(root)}).mid_model()


@case("store-missing")
def list_of_stores_damaged(world: World) -> None:
    """the list that alone names the store of a dead agent is empty, torn, closed, or in the hands of others"""
    agent = elsewhere(world)
    world.look()
    agent.kill()
    world.look()
    world.check("killed, its store remembered", agent.id, "stopped", pid=None)
    path = world.folder / "agentctl" / "stores" / "roots.json"
    good = path.read_bytes()
    world.around = without_file_powers
    for label, data in {"empty": b"", "torn": good[:20], "null": b"null", "of no path": b'{"claude-code": 5}'}.items():
        path.write_bytes(data)
        world.look()
        world.check_problem(label, path)
        check_doubt(world, label, "list", "usage")
    path.write_bytes(good)
    for label, target, mode in (("unreadable", path, 0), ("others can write it", path.parent, 0o777)):
        before = target.stat().st_mode & 0o777
        target.chmod(mode)
        check_doubt(world, label)
        target.chmod(before)
    world.look()
    world.check("whole again", agent.id, "stopped", pid=None)


@case("store-missing")
def list_of_stores_closed(world: World) -> None:
    """the folder for the list of stores cannot be written: that is said while the agent lives, and after its death"""
    folder = world.folder / "agentctl"
    folder.mkdir(mode=0o700)
    folder.chmod(0o500)
    world.around = without_file_powers
    agent = elsewhere(world)
    world.look()
    world.check("while it lives", agent.id, "running", pid=agent)
    world.check_problem("its store cannot be noted", agent.root)
    agent.kill()
    check_doubt(world, "after its death")
    world.look()
    world.check_problem("after its death", folder)
    folder.chmod(0o700)


@case("store-missing")
def list_of_stores_in_the_cache(world: World) -> None:
    """an older agentctl kept the list in its cache: it is taken over, and then the cache can be deleted"""
    agent = elsewhere(world)
    world.look()
    agent.kill()
    path = world.folder / "agentctl" / "stores" / "roots.json"
    older = world.folder / "cache" / "agentctl" / "roots.json"
    older.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.rename(older)
    good = older.read_bytes()
    world.look()
    world.check("named by the cache", agent.id, "stopped", pid=None)
    older.write_bytes(good[:20])
    world.look()
    world.check("named by the state, the list in the cache torn", agent.id, "stopped", pid=None)
    path.unlink()
    world.look()
    world.check_problem("torn, in the cache, and not taken over", older)
    check_doubt(world, "torn, in the cache, and not taken over")
    older.write_bytes(good)


@case("damaged-store")
def database_cut_to_nothing(world: World) -> None:
    """OpenCode's database has no byte left, as after a power cut; one that is being made has none either"""
    agent = OpenCode.spawn(world).finished()
    agent.kill()
    change(agent.database, "pragma wal_checkpoint(truncate)")
    world.look()
    world.check("its agent is dead", agent.id, "done", pid=None)
    good = agent.database.read_bytes()
    agent.database.write_bytes(b"")
    world.look()
    world.check_problem("cut to nothing", agent.root)
    check_doubt(world, "cut to nothing", "list", "usage")
    log = agent.database.with_name("opencode.db-wal")
    log.write_bytes(good[:200])
    check_doubt(world, "cut to nothing beside its log", "list")
    world.says("the log is left", f"{log.stat().st_size} bytes", log.stat().st_size == 200)
    log.unlink()
    agent.database.write_bytes(good)
    with (agent.root / "opencode-new.db").open("wb") as file, subprocess.Popen(["sleep", "60"], stdout=file) as maker:
        done = world.run("list", "-a", "--strict")
        maker.kill()
        world.says("one that a process is making", f"exit {done.returncode}", done.returncode == 0, done.stderr)
    (agent.root / "opencode-new.db").unlink()
    world.look()
    world.check("whole again", agent.id, "done", pid=None)


@case("damaged-store")
def message_cut(world: World) -> None:
    """a message of OpenCode's is cut: what its tokens were is not known"""
    agent = OpenCode.spawn(world).finished()
    agent.kill()
    change(agent.database, "update message set data = substr(data, 1, 30)")
    check_doubt(world, "cut", "list", "usage")
    done = world.run("status", agent.id, "--strict")
    world.says("`status` does not count it as nothing", f"exit {done.returncode}", done.returncode == 5, done.stdout)
    world.look()
    world.check("its turn", agent.id, "unknown")


@case("damaged-store")
def written_over_in_place(world: World) -> None:
    """a transcript is written over in place; its size is the same, and its time set back (rsync --inplace -t)"""
    agent = Claude.spawn(world).finished()
    agent.kill()
    set_back(agent.transcript, HOUR)
    world.ask("usage")
    world.look()
    before = agent.transcript.stat()
    text = agent.transcript.read_text()
    other = re.sub(r'("output_tokens": ?)(\d+)', lambda found: found[1] + "9" * len(found[2]), text)
    with agent.transcript.open("r+") as file:
        file.write(other)
    os.utime(agent.transcript, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = agent.transcript.stat()
    same = (before.st_size, before.st_mtime_ns, before.st_ino) == (after.st_size, after.st_mtime_ns, after.st_ino)
    world.says("size, time and inode are the same", str(same), same and other != text)
    usage = world.ask("usage")["total"]["tokens"]["output"]
    status = world.ask("status", agent.id)["session"]["tokens"]["output"]
    world.says("usage and status count what is there now", f"{usage}, {status}", usage == status and "9" in str(usage))


@case("damaged-store")
def newline_lost(world: World) -> None:
    """the line break before the record that decides is lost: two records are in one line"""
    claude, codex = Claude.spawn(world).finished(), Codex.spawn(world).finished()
    for agent in (claude, codex):
        agent.kill()
    claude.file.unlink(missing_ok=True)
    glue(claude.transcript, b'"usage"')
    glue(codex.rollout_of(), b'"task_complete"')
    world.look()
    world.check("claude, two records in one line", claude.id, "unknown")
    world.check("codex, two records in one line", codex.id, "unknown")
    world.check_problem("claude, two records in one line", claude.transcript)
    world.check_problem("codex, two records in one line", codex.rollout_of())
    check_doubt(world, "two records in one line")


def glue(path: Path, mark: bytes) -> None:
    """Put the last line with this mark behind the one before it, without a line break."""
    lines = path.read_bytes().split(b"\n")
    last = max(number for number, line in enumerate(lines) if mark in line)
    lines[last - 1 : last + 1] = [lines[last - 1] + lines[last]]
    path.write_bytes(b"\n".join(lines))


@case("damaged-store")
def time_of_no_agent(world: World) -> None:
    """transcripts have a time before there was any agent, or in the future: what they hold counts"""
    codex, claude = Codex.spawn(world).mid_tool(), Claude.spawn(world, "busy").mid_model()
    demo = Demo.spawn(world, "[[sleep:300]]")
    demo.wait_for_event("prompt")
    future = Codex.spawn(world).finished()
    for agent in (codex, claude, demo, future):
        agent.kill()
    events = next(world.data.rglob("events.jsonl"))
    for path in (codex.rollout_of(), claude.transcript, events):
        os.utime(path, (0, 0))
    os.utime(future.rollout_of(), (2**32, 2**32))
    world.look("-a")
    for label, id in {"codex": codex.id, "claude": claude.id, "demo agent": demo.id}.items():
        world.check(f"{label}, of 1970", id, "stopped", pid=None)
    world.check("codex, of 2106", future.id, "done", pid=None)


@case("damaged-store")
def another_name_of_a_rollout(world: World) -> None:
    """transcripts are compressed, renamed, or moved out of their folder: they are named, and nothing is absent"""
    agent, claude = Codex.spawn(world).finished(), Claude.spawn(world).finished()
    agent.kill()
    claude.kill()
    path = agent.rollout_of()
    for label, moved in {
        "compressed": path.with_name(f"{path.name}.zst"),
        "renamed": path.with_name("mine.jsonl"),
        "in the folder of the month": path.parents[1] / path.name,
        "in the archive, renamed": world.root(Codex) / "archived_sessions" / "mine.jsonl",
    }.items():
        moved.parent.mkdir(exist_ok=True)
        path.rename(moved)
        world.look("-a")
        world.check_problem(f"codex, {label}", moved)
        check_doubt(world, f"codex, {label}", "list", "usage")
        moved.rename(path)
    moved = claude.transcript.parents[1] / claude.transcript.name
    claude.transcript.rename(moved)
    world.look("-a")
    world.check_problem("claude, among the projects", moved)
    check_doubt(world, "claude, among the projects", "list", "usage")
    moved.rename(claude.transcript)
