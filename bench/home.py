"""A home for benchmarks: stored sessions, kept launches, live stand-in agents among other processes.

The agents are those of the torture suite, so what they hold and write is what the real ones do. All of it is ended and
removed at the end; the stored sessions are copies of those in the cache.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.stored import stored
from tests import agents
from tests.torture.agents import Agent
from tests.torture.handles import Programs
from tests.torture.registry import Case
from tests.torture.report import Report
from tests.torture.standins.files import boot_id
from tests.torture.world import World

if TYPE_CHECKING:
    from bench.stored import Kind, Stored
    from tests.agents.base import Description

LAUNCHES = 300
NODES = 0.05  # of the other processes: language servers and the like have the name that some agents have, too


class Home:
    """`with Home(stored=1000, live=20, processes=300) as home:` then run agentctl with `home.env`."""

    def __init__(self, stored: int, live: int, processes: int) -> None:
        self.stored, self.live, self.others = stored, live, processes
        # In TMPDIR, which scripts/contained puts on a file system that its namespace made: agentctl takes any other for
        # one that processes outside of the namespace use, so it could prove no end, and would answer another question.
        self.folder = Path(tempfile.mkdtemp(prefix="run-"))
        self.children: list[subprocess.Popen[bytes]] = []
        self.source: Stored
        self.world: World
        self.alive: list[str] = []

    def __enter__(self) -> Home:
        try:
            self.build()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def env(self) -> dict[str, str]:
        """Of a person: with compiled modules, and without a path to sources."""
        return {name: value for name, value in self.world.env.items() if not name.startswith("PYTHON")}

    @property
    def cache(self) -> Path:
        return Path(self.env["XDG_CACHE_HOME"]) / "agentctl"

    def build(self) -> None:
        self.source = stored(self.stored)
        self.world = World(
            Case("bench", lambda world: None), Report(), self.folder / "world", Programs(self.folder / "bin")
        )
        for name in ("home", "data"):
            shutil.copytree(self.source.folder / name, self.world.folder / name, dirs_exist_ok=True)
        self.keep_launches()
        self.start_others()
        for index in range(self.live):
            self.start_agent(index)

    def end(self) -> None:
        if hasattr(self, "world"):
            self.world.end()
        for child in self.children:
            child.kill()
        for child in self.children:
            child.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def keep_launches(self) -> None:
        """Of the last days, most of stored sessions: all of their processes are gone."""
        folder = self.world.folder / "agentctl"
        folder.mkdir(0o700)
        folder = folder / "launches"
        folder.mkdir(0o700)
        now = time.time()
        launched = [one for one, kind in kinds() for _ in range(kind.LAUNCHED)]
        for index in range(LAUNCHES):
            one = launched[index % len(launched)]
            at = now - 6 * 86400 * (index + 1) / LAUNCHES
            id = f"{base36(int(at * 1000))}{base36(36**3 + index)}"
            session = self.source.ids[one.NAME][index % len(self.source.ids[one.NAME])]
            printed = standin_of(one).printed(session)
            key = f"{boot_id()}:{400_000 + index}:{index + 1}"
            facts = {
                "id": id, "agent": one.NAME, "argv": [one.PROGRAM, "-p", "go"],
                "cwd": "/home/person/work/project-1", "runner": key, "child": key, "created_at": at, "headless": True,
                "one_shot": True, "env_names": ["PATH", "HOME"] * 20, "prompt": "go " * 40,
                "session_id": None if printed else session,
            }  # fmt: skip
            mine = folder / id
            mine.mkdir(0o700)
            (mine / "launch.json").write_text(json.dumps(facts))
            (mine / "output.log").write_text(f"{printed}\n" + "x" * 20_000)
            exit = {"key": key, "comm": one.PROGRAM, "exit_code": 0, "at": at + 60, "direct": True}
            (mine / "exits.jsonl").write_text(json.dumps(exit) + "\n")
        (folder / ".swept").touch()

    def start_others(self) -> None:
        node = self.folder / "node"
        shutil.copy(shutil.which("sleep") or "/bin/sleep", node)
        for index in range(self.others):
            if index < self.others * NODES:
                argv = [str(node), "3600"]
            else:
                argv = ["sleep", "3600"]
            self.children.append(subprocess.Popen(argv, env={"PATH": os.defpath}))

    def start_agent(self, index: int) -> None:
        """Every state is there of every agent."""
        live = [standin_of(one) for one, kind in kinds() for _ in range(kind.LIVE)]
        state = index // len(live) % 3
        agent = live[index % len(live)].spawn(self.world, cwd=self.world.folder_at(f"work/project-{index}"))
        (agent.mid_model, agent.mid_tool, agent.finished)[state]()
        self.alive.append(agent.id)


def kinds() -> list[tuple[Description, type[Kind]]]:
    return [(one, kind) for one in agents.every() if (kind := one.bench()) is not None]


def standin_of(one: Description) -> type[Agent]:
    found = one.torture()
    if found is None or not issubclass(found, Agent):
        raise TypeError(f"{one.NAME} has a share in the benchmarks, and its description has no stand-in")
    return found


def base36(number: int) -> str:
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    text = ""
    while number:
        number, digit = divmod(number, 36)
        text = digits[digit] + text
    return text
