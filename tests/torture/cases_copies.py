"""Copies of sessions, hints that mislead, and the logs beside a database."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING

from tests.agents.codex.torture import Codex
from tests.agents.opencode.torture import OpenCode
from tests.torture.registry import case

if TYPE_CHECKING:
    from tests.torture.world import World

# A transaction that is killed after SQLite has written a part of it into the database.
HALF_DONE = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("pragma cache_size = 1")
connection.execute("begin immediate")
for table in ("message", "part", "session"):
    connection.execute(f"delete from {table}")
connection.execute("update filler set a = a || 'x'")
os._exit(9)
"""


@case("newest-copy")
def codex_thread_in_other_days(world: World) -> None:
    """a rollout, as it was in mid-turn, lies in the folders of other days, too"""
    agent = Codex.spawn(world).mid_model()
    path = agent.rollout_of()
    for day in ("2020/01/01", "2099/01/01"):
        folder = agent.root / "sessions" / day
        folder.mkdir(parents=True)
        shutil.copy2(path, folder / path.name)
    agent.do("complete")
    agent.leave()
    world.look()
    world.check("the one in the folder of its day counts", agent.id, "done", inferred=False)


@case("newest-copy")
def opencode_in_two_databases(world: World) -> None:
    """an OpenCode session was copied to the database of another release channel, and goes on there"""
    first = OpenCode.spawn(world).finished()
    first.leave()
    time.sleep(0.05)  # the times in the two databases differ
    root = first.root
    with closing(sqlite3.connect(root / "opencode.db")) as now, closing(sqlite3.connect(root / "old.db")) as old:
        now.backup(old)
    again = OpenCode.spawn(world, "run", "--session", first.id, id=first.id)
    again.do("take")
    again.mid_model()
    for end in ("", "-wal", "-shm"):
        if (root / f"opencode.db{end}").exists():
            os.rename(root / f"opencode.db{end}", root / f"opencode-dev.db{end}")
    os.rename(root / "old.db", root / "opencode.db")
    world.look()
    world.check("it works on in the newer one", first.id, "running", pid=again)
    again.kill()
    world.look()
    world.check("killed there", first.id, "stopped", process="gone", turn="interrupted")


@case("hints")
def opencode_words_and_directory(world: World) -> None:
    """an OpenCode without a log: an option that agentctl does not know; it has changed its directory"""
    words = ["opencode", "run", "--log-level", "ERROR", "--effort", "high", "please do it"]
    agents = {
        "an unknown option": OpenCode.spawn(world, cwd=world.folder_at("a"), argv=words, log="errors").mid_model()
    }
    for layout, command in (("json", "run"), ("json", "screen"), ("database", "screen")):
        log = "own" if layout == "json" else "errors"
        agent = OpenCode.spawn(world, command, layout=layout, log=log, cwd=world.folder_at(f"{layout}-{command}"))
        agents[f"another directory, {layout}, {command}"] = agent.mid_model()
        agent.do("chdir", path="/")
    world.look()
    for label, agent in agents.items():
        world.expects_unattached.add(agent.pid)
        row = world.listing.rows.get(agent.id, {})
        said = f"{row.get('status')}, {row.get('process')}"
        world.says(f"{label}: never ended", said, row.get("process") in ("alive", "unknown"), str(row.get("reason")))


@case("torn")
def opencode_hot_journal(world: World) -> None:
    """OpenCode's database in rollback mode: a writer was killed in the middle of a transaction"""
    agent = OpenCode.spawn(world).finished()
    agent.leave()
    with closing(sqlite3.connect(agent.database)) as connection:
        connection.execute("pragma journal_mode = delete")
        connection.execute("create table filler (a)")
        connection.executemany("insert into filler values (?)", [("y" * 500,)] * 3000)
        connection.commit()
    subprocess.run([sys.executable, "-c", HALF_DONE, str(agent.database)])
    journal = agent.database.with_name("opencode.db-journal")
    world.says("a journal is left", f"{journal.stat().st_size > 0}", journal.stat().st_size > 0)
    world.look()
    world.check("what was never committed does not count", agent.id, "done")
