"""Those who ask, all the time: list, and of one session list, status and why in a row."""

from __future__ import annotations

import json
import random
import threading
import traceback
from typing import TYPE_CHECKING, Any

from tests.soak.oracle import DISAGREE
from tests.soak.stage import TOO_SLOW
from tests.torture.answers import differences

if TYPE_CHECKING:
    from tests.soak.lives import Life
    from tests.soak.stage import Stage
    from tests.soak.world import Done

PLAIN, COMPARE = 0.2, 0.4  # how often without ended sessions, and how often one session is asked for three times


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
        links = {row["link"]}
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
            wrong += differences(life.id or "", verb, without_doubts(told), "list", without_doubts(row))
        stage.watcher.has_looked_after(done.until)
        # Which is the only process that can be on it changes with every one of its agent that begins or ends.
        concerned = [life, *(one for one in stage.lives[:] if one.agent == life.agent and "sole" in links)]
        if not all(is_quiet(one, done._replace(since=since)) for one in concerned):
            return
        stage.compared += 1
        if wrong:
            stage.verdicts[DISAGREE] += 1
            lines = "\n".join(wrong)
            stage.save(DISAGREE, f"{lines}\nfrom {since:.3f} to {done.until:.3f}\n{json.dumps(row, indent=1)}", life)


def without_doubts(row: dict[str, Any]) -> dict[str, Any]:
    """Whether some other process may be on it changes with every process that starts."""
    return {name: value for name, value in row.items() if name not in ("reason", "inferred", "evidence")}


def is_quiet(life: Life, done: Done) -> bool:
    """Did nothing happen to it, by what we know, from the start of a command until its end?"""
    closed = life.world.stores.was_closed(life.agent, done.since, done.until)
    settled = life.alive or (life.quiet_since() or done.until) < done.since
    return settled and not closed and life.timeline.is_steady(done.since, done.until)
