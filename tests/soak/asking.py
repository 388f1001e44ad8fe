"""Those who ask, all the time: list, and of one session list, status and why in a row; and a program that stays, which
asks the Python API."""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
import tempfile
import threading
import traceback
from typing import TYPE_CHECKING, Any

from tests.soak.oracle import DISAGREE
from tests.soak.stage import TOO_SLOW
from tests.soak.world import PATIENCE, Done
from tests.torture.answers import differences
from tests.torture.handles import REPOSITORY
from tests.torture.kernel import without_file_powers

if TYPE_CHECKING:
    from tests.soak.lives import Life
    from tests.soak.stage import Stage
    from tests.soak.world import World

PLAIN, COMPARE = 0.2, 0.4  # how often without ended sessions, and how often one session is asked for three times
PAUSE = 0.05  # seconds: one that stays takes not all of a machine
API = "list_sessions()"


class Asker(threading.Thread):
    def __init__(self, stage: Stage, seed: str) -> None:
        super().__init__(daemon=True)
        self.stage = stage
        self.over = threading.Event()
        self.broken: str | None = None
        self._rng = random.Random(seed)

    def run(self) -> None:
        try:
            while not self.over.is_set():
                self.ask()
        except Exception:  # noqa: BLE001  a fault of the oracle must not pass as silence
            self.broken = traceback.format_exc()

    def ask(self) -> None:
        ended_too = self._rng.random() >= PLAIN
        compare = self._rng.random() < COMPARE
        done, answer = self.stage.world.ask("list", *(("-a", "--since", "all") if ended_too else ()))
        self.stage.check(done, answer, ended_too=ended_too)
        rows = {row["id"]: row for row in answer.get("sessions", ())}
        lives = [life for id, life in list(self.stage.by_id.items()) if id in rows and is_quiet(life, done)]
        if compare and lives:
            life = self._rng.choice(lives)
            self.compare(life, rows[life.id or ""], done.since)

    def compare(self, life: Life, row: dict[str, Any], since: float) -> None:
        """Equal, where nothing happened to it since before the list."""
        stage = self.stage
        wrong = []
        links, open_in = {row["link"]}, {*row["may_be_open_in"]}
        for verb in ("status", "why"):
            done, answer = stage.world.ask(verb, life.id or "")
            if done.crashed:
                stage.crash(done)
                return
            if TOO_SLOW in done.out + done.err:
                return
            told = answer.get("session") or {}
            if "unknown" in (told.get("process"), row["process"]):
                return  # some other process is starting: that is another world than a moment ago
            links.add(told.get("link"))
            open_in |= {*told.get("may_be_open_in", ())}
            wrong += differences(life.id or "", verb, without_doubts(told), "list", without_doubts(row))
        stage.watcher.has_looked_after(done.until)
        # Which is the only process that can be on it, and which may have it open on its screen, changes with every one
        # of its agent that begins or ends.
        by_others = "sole" in links or bool(open_in)
        concerned = [life, *(one for one in stage.lives[:] if one.agent == life.agent and by_others)]
        if not all(is_quiet(one, done._replace(since=since)) for one in concerned):
            return
        stage.compared += 1
        if wrong:
            stage.verdicts[DISAGREE] += 1
            lines = "\n".join(wrong)
            stage.save(DISAGREE, f"{lines}\nfrom {since:.3f} to {done.until:.3f}\n{json.dumps(row, indent=1)}", life)


class Program:
    """Runs tests.soak.staying, as somebody whom the modes of files bind."""

    def __init__(self, world: World) -> None:
        self._said = tempfile.TemporaryFile()
        self._popen = subprocess.Popen(
            without_file_powers([sys.executable, "-m", "tests.soak.staying"]),
            cwd=REPOSITORY,
            env={**world.env, "PYTHONPATH": f"{world.env['PYTHONPATH']}:{REPOSITORY}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
        )

    def ask(self) -> dict[str, Any] | None:
        """Return an answer; None if there is none any more."""
        assert self._popen.stdin and self._popen.stdout
        try:
            self._popen.stdin.write(b"\n")
            self._popen.stdin.flush()
        except BrokenPipeError:
            return None
        line = self._popen.stdout.readline()
        return json.loads(line) if line else None

    def end(self) -> tuple[int, str]:
        assert self._popen.stdin and self._popen.stdout
        with contextlib.suppress(BrokenPipeError):
            self._popen.stdin.close()
        code = self._popen.wait(PATIENCE)
        self._popen.stdout.close()
        self._said.seek(0)
        with self._said as file:
            return code, file.read().decode(errors="replace")


class Staying(Asker):
    """One process that asks again and again: whatever it remembers must not show in an answer."""

    def run(self) -> None:
        self._program = Program(self.stage.world)
        super().run()
        self._program.end()

    def ask(self) -> None:
        said = self._program.ask()
        if said is None:
            code, err = self._program.end()
            self.stage.crash(Done((API,), code, "", err, 0.0, 0.0))
            self._program = Program(self.stage.world)
            return
        self.stage.check(Done((API,), 0, "", "", said["since"], said["until"]), said, ended_too=True)
        self.stage.by_api += 1
        self.over.wait(PAUSE)


def without_doubts(row: dict[str, Any]) -> dict[str, Any]:
    """Whether some other process may be on it changes with every process that starts."""
    return {name: value for name, value in row.items() if name not in ("reason", "inferred", "evidence")}


def is_quiet(life: Life, done: Done) -> bool:
    """Did nothing happen to it, by what we know, from the start of a command until its end?"""
    closed = life.world.stores.was_closed(life.agent, done.since, done.until)
    settled = life.alive or (life.quiet_since() or done.until) < done.since
    return settled and not closed and life.timeline.is_steady(done.since, done.until)
