"""agentctl as a person calls it, on a stage: the real command in a process of its own, and what it left behind.

What its answers are held against is the lab's own: the model's log, the process table, the agent's files.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests import agents
from tests.lab.errors import LabError, WrongAnswer
from tests.lab.running import Key, is_alive, row_of, table, until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab.model import Entry
    from tests.lab.running import Row
    from tests.lab.stage import Stage

AGENTCTL = (sys.executable, "-m", "agentctl")
LIMIT = 120.0  # for any command
GLANCE = 0.01


@dataclass(frozen=True)
class Said:
    """A command that has ended."""

    words: tuple[str, ...]
    code: int
    out: str
    err: str
    ended_at: float  # time.monotonic

    @property
    def json(self) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = json.loads(self.out)
        except ValueError:
            raise WrongAnswer(f"no JSON: {self}") from None
        return answer

    def __str__(self) -> str:
        return f"`agentctl {' '.join(self.words)}`: exit {self.code}\nstdout: {self.out}\nstderr: {self.err}"


class Command:
    """One that may take its time: it runs while the lab goes on."""

    def __init__(self, words: tuple[str, ...], env: dict[str, str], cwd: Path, output: Path) -> None:
        self.words = words
        self._files = (output.with_suffix(".out"), output.with_suffix(".err"))
        with self._files[0].open("wb") as out, self._files[1].open("wb") as err:
            self._process = subprocess.Popen(
                [*AGENTCTL, *words], env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=err
            )

    def err(self) -> str:
        return self._files[1].read_text(errors="replace")

    def alive(self) -> bool:
        return self._process.poll() is None

    def end(self, seconds: float = LIMIT) -> Said:
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
            raise WrongAnswer(f"`agentctl {' '.join(self.words)}` did not end in {seconds:g} s: {self.err()}") from None
        ended_at = time.monotonic()
        return Said(self.words, code, self._files[0].read_text(errors="replace"), self.err(), ended_at)


class Commands:
    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self._count = 0

    def begin(self, *words: str, cwd: Path | None = None) -> Command:
        """What starts agents has the person's environment, keys and all; the others need none of that."""
        env = self.stage.own_env()
        if words[0] in ("launch", "resume"):
            env = {**self.stage.agent_env(), **env}
        self._count += 1
        output = self.stage.folder / f"command-{self._count}-{words[0]}"
        return Command(words, env, cwd or self.stage.home.work, output)

    def run(self, *words: str, code: int | None = 0, cwd: Path | None = None) -> Said:
        said = self.begin(*words, cwd=cwd).end()
        if code is not None and said.code != code:
            raise WrongAnswer(f"exit {said.code}, not {code}: {said}\n{account(self.stage)}")
        return said

    def launch(self, prompt: str, *flags: str, code: int | None = 0) -> str:
        """A new session; its id is all that stands on stdout."""
        own = ("--", *flags) if flags else ()
        return self.id_of(self.run("launch", self.stage.agent, "-p", prompt, *own, code=code))

    def launch_to_end(self, prompt: str, *options: str) -> str:
        """One that is waited for: after its id stands what became of it."""
        said = self.run("launch", self.stage.agent, "-p", prompt, *options, "--wait")
        return said.out.partition("\n")[0]

    def id_of(self, said: Said) -> str:
        id, end, rest = said.out.partition("\n")
        if not id or id != id.strip() or " " in id or (end, rest) != ("\n", ""):
            raise WrongAnswer(f"stdout is not one id: {said}\n{account(self.stage)}")
        return id

    def sessions(self) -> dict[str, dict[str, Any]]:
        answer = self.run("list", "-a", "--since", "all", "--json").json
        return {one["id"]: one for one in answer["sessions"]}

    def session(self, id: str, **wanted: object) -> dict[str, Any]:
        """As `list` has it at once, which must be so."""
        found = self.sessions().get(id)
        if found is None:
            raise WrongAnswer(f"no session {id} is listed\n{account(self.stage)}")
        wrong = [f"{name} is {found[name]!r}, not {value!r}" for name, value in wanted.items() if found[name] != value]
        if wrong:
            raise WrongAnswer(f"{'; '.join(wrong)}\n{json.dumps(found)}\n{account(self.stage)}")
        return found

    def ended(self, id: str, **wanted: object) -> dict[str, Any]:
        """The same, once nothing of it runs any more."""
        nothing_left(self.stage)
        return self.session(id, process="gone", pid=None, **wanted)


class FirstSeen(threading.Thread):
    """When an agent's own store first had a session: looked for all the time, beside what else is done."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(daemon=True)
        self.stage = stage
        self.at: float | None = None
        self._over = threading.Event()

    def __enter__(self) -> FirstSeen:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join(10)

    def run(self) -> None:
        while not self._over.wait(GLANCE):
            if native_ids(self.stage):
                self.at = time.monotonic()
                return


def native_ids(stage: Stage) -> set[str]:
    """The sessions that the agent's own files have, read by the lab itself."""
    agent, home = agents.load(stage.agent), stage.home.folder
    return agent.ids(agent.root(home, home / "data"))


def key_of(pid: int | None) -> Key:
    row = row_of(pid) if pid is not None else None
    if row is None:
        raise LabError(f"pid {pid} is not in the process table")
    return row.key


def runner_of(pid: int) -> Row:
    """What stands at the top of a launched agent: its ancestor that has no parent but the room's first process."""
    rows = table()
    row = rows[pid]
    while row.parent != 1:
        row = rows[row.parent]
    return row


def nothing_left(stage: Stage, *allowed: Key, seconds: float = 30.0) -> None:
    """No process but these, a moment after all is over: the runner sees that, and goes."""

    def left() -> list[Row]:
        return [row for row in stage.rows() if row.key not in allowed and is_alive(row.key)]

    try:
        until(lambda: not left(), seconds, "the end of all processes")
    except LabError:
        raise WrongAnswer(f"left running: {left()}\n{account(stage)}") from None


def gone(stage: Stage, entry: Entry, seconds: float = 20.0) -> None:
    """The one who asked the model has left before it was answered."""

    def seen(entries: list[Entry]) -> bool:
        return any(one.number == entry.number and one.event == "gone" for one in entries)

    if not stage.server.wait_for(seen, seconds):
        raise WrongAnswer(f"the model's request is still open\n{account(stage)}")


def account(stage: Stage) -> str:
    """What the lab sees, for the report of a failure."""
    lines = ["  -- processes"]
    lines += [f"  {row.key.pid} {row.parent} {row.state} {row.comm} {' '.join(row.argv)[:140]}" for row in stage.rows()]
    lines += ["  -- the model's log"]
    lines += [
        f"  {one.at:.3f} {one.event} [[{one.directive[:60]}]] pid {one.pid} {one.session}"
        for one in stage.server.entries[-12:]
    ]
    for folder in sorted(stage.home.folder.glob("agentctl/launches/*")):
        for name in ("exits.jsonl", "output.log"):
            file = folder / name
            text = file.read_text(errors="replace")[-1500:] if file.is_file() else "(none)"
            lines += [f"  -- {folder.name}/{name}", *(f"  | {line[:200]}" for line in text.splitlines()[-8:])]
    return "\n".join(lines)


def namespaced_pids(pid: int) -> list[int]:
    """Of one process in every PID namespace that it is in: a sandbox may have its own numbers."""
    try:
        with open(f"/proc/{pid}/status") as file:
            line = next(line for line in file if line.startswith("NSpid:"))
    except (OSError, StopIteration):
        return []
    return [int(word) for word in line.split()[1:]]


def working_directory(pid: int | None) -> str:
    return os.readlink(f"/proc/{pid}/cwd")
