"""Everything that is going on: all lives, who is picked for what, and what was found to be wrong."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.soak.lives import Life, Watcher
from tests.soak.oracle import ALIVE, GHOST, NOT_THERE, RIGHT, SLOW, UNKNOWN, UNREAD, Seen, Verdict, rule_of, verdict
from tests.torture.handles import Handle
from tests.torture.standins.files import start_ticks

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

    from tests.soak.world import Done, World

TOO_SLOW = "did not answer within"
SAVED = 15  # of each kind: a flood of one does not hide another
STRANGER = """
import os, signal, sys
def told(number, frame):
    os.write(1, b"%d\\n" % number)
for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
    signal.signal(number, told)
os.write(1, b"ready\\n")
sys.stdin.read()
os.write(1, b"end\\n")
"""


class Stranger(NamedTuple):
    """An unrelated program that got the pid of a dead session."""

    handle: Handle
    popen: subprocess.Popen[bytes]

    def end(self) -> str | None:
        """By closing its input. What it says if it was signalled."""
        assert self.popen.stdin and self.popen.stdout
        self.popen.stdin.close()
        said = self.popen.stdout.read().decode()
        code = self.popen.wait()
        self.popen.stdout.close()
        return None if (said, code) == ("end\n", 0) else f"it said {said!r} and ended with {code}"


class Unknown(NamedTuple):
    """One way in which answers are `unknown`: of which agent's sessions, by which rule, for which reason."""

    agent: str
    rule: str
    reason: str


class Stage:
    def __init__(self, world: World, evidence: Path, agents: tuple[str, ...]) -> None:
        self.world = world
        self.agents = agents
        self.watcher = Watcher()
        self.evidence = evidence
        self.lives: list[Life] = []
        self.by_id: dict[str, Life] = {}
        self.zombies: list[Life] = []
        self.strangers: list[Stranger] = []
        self.verdicts: Counter[str] = Counter()
        self.judged: Counter[str] = Counter()  # sessions in answers, by agent
        self.unknown: Counter[Unknown] = Counter()
        self.actions: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.notices: Counter[str] = Counter()  # what is told, and is no failure
        self.ghosts: dict[str, tuple[dict[str, Any], Done]] = {}
        self.reused = 0
        self.answers = self.compared = 0
        self.recorded = self.streamed = 0  # events of the daemon that were judged; sessions compared with its stream
        self.by_api = 0  # answers that a program which stays got from the Python API
        self.disk = threading.Lock()
        self._saved: Counter[str] = Counter()
        self._guard = threading.RLock()

    # Lives

    def add(self, life: Life) -> None:
        with self._guard:
            self.lives.append(life)

    def know(self, life: Life) -> None:
        """Its id is known."""
        with self._guard:
            if life.id is not None:
                self.by_id[life.id] = life

    def find(self, id: str) -> Life | None:
        """The life that a row is about. A launch may be seen before we know the id that was chosen for it."""
        life = self.by_id.get(id)
        if life is None:
            for one in self.world.launches():
                if one.get("session_id") == id:
                    prompt = one.get("prompt") or ""
                    nameless = [life for life in list(self.lives) if life.id is None]
                    life = next((life for life in nameless if prompt.startswith(f"{life.mark} ")), None)
                    if life is not None:
                        life.id = id
                        self.know(life)
        return life

    def pick(self, rng: random.Random, suits: Callable[[Life], bool]) -> Life | None:
        """One that nobody else is at, and locked for us: whoever picks lets go of `life.lock`."""
        chosen = rng.random()
        with self._guard:
            fitting = [life for life in self.lives if suits(life)]
        first = int(chosen * len(fitting))
        for life in fitting[first:] + fitting[:first]:
            if life.lock.acquire(blocking=False):
                if suits(life):
                    return life
                life.lock.release()
        return None

    def living(self) -> list[Life]:
        with self._guard:
            return [life for life in self.lives if life.alive]

    def is_free(self, directory: Path) -> bool:
        """As far as anybody knows now."""
        return not any(life.directory == directory and (life.alive or not life.is_known) for life in self.lives[:])

    def has_launch(self, directory: Path) -> bool:
        """Is one of ours there, or on its way?"""
        there = [life for life in self.lives[:] if life.launched and life.directory == directory]
        return any(life.alive or not life.is_known for life in there)

    def retire(self, life: Life) -> None:
        """It was deleted: nothing more happens to it. Its id stays known, for an answer may be on its way."""
        with self._guard:
            if life in self.lives:
                self.lives.remove(life)

    # Strangers

    def place_stranger(self, pid: int) -> bool:
        """Start a stranger that gets this pid, if it can be had."""
        self.world.set_last_pid(pid - 1)
        popen = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", STRANGER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert popen.stdout
        popen.stdout.readline()
        stranger = Stranger(Handle(popen.pid, start_ticks(popen.pid), popen), popen)
        with self._guard:
            self.strangers.append(stranger)
            if any(popen.pid in life.pids for life in self.lives):
                self.reused += 1
        return popen.pid == pid

    def end_stranger(self, stranger: Stranger) -> None:
        with self._guard:
            if stranger not in self.strangers:
                return
            self.strangers.remove(stranger)
        if (why := stranger.end()) is not None:
            self.fail("strangers signalled", f"pid {stranger.handle.pid}: {why}")

    # Judging an answer

    def check(self, done: Done, answer: dict[str, Any], *, ended_too: bool) -> None:
        """Every session that we know of, and every row that is there."""
        if done.crashed or done.code != 0:
            self.crash(done)
            return
        self.watcher.has_looked_after(done.until)
        self.answers += 1
        rows: dict[str, list[dict[str, Any]]] = {}
        for row in answer["sessions"]:
            rows.setdefault(row["id"], []).append(row)
        told = {one["agent"]: one["problem"] for one in answer["problems"]}
        unattached = {line["pid"]: line["why"] for line in answer["unattached"]}
        for id, found in rows.items():
            if self.find(id) is None:
                self.ghosts.setdefault(id, (found[0], done))
        for id, life in list(self.by_id.items()):
            found = rows.get(id, [])
            seen = Seen(
                found[0] if found else None,
                rows=len(found) or 1,
                ended_too=ended_too,
                unread=self.excuse(told.get(life.agent), life, done),
                unattached=next((why for pid, why in unattached.items() if pid in life.pids), None),
                other_name=life.has_other_name,
            )
            possible = life.timeline.possible(done.since, done.until)
            if possible == {NOT_THERE} and not found:
                continue  # it is over and done with
            self.count(life, verdict(possible, seen, frozenset(life.pids)), seen.row, done)

    def excuse(self, problem: str | None, life: Life, done: Done) -> str | None:
        """Why the store was not read, if the answer says that it was not, and that is so. On a machine without a moment
        to spare a store may be too slow by itself."""
        if problem is None:
            return None
        if self.world.stores.was_closed(life.agent, done.since, done.until):
            return UNREAD
        return SLOW if TOO_SLOW in problem else None

    def count(self, life: Life, found: Verdict, row: dict[str, Any] | None, done: Done) -> None:
        with self._guard:
            self.verdicts[found.kind] += 1
            self.judged[life.agent] += 1
            if found.kind == UNKNOWN:
                self.unknown[Unknown(life.agent, rule_of(row), found.why)] += 1
            if found.kind in (RIGHT, UNKNOWN):
                return
        self.save(found.kind, f"{found.why}\n{moments(done)}\n{json.dumps(row, indent=1)}", life)

    def crash(self, done: Done) -> None:
        self.fail("agentctl crashes", f"agentctl {' '.join(done.words)}: exit {done.code}\n{done.out}\n{done.err}")

    def fail(self, what: str, why: str, life: Life | None = None) -> None:
        with self._guard:
            self.failures[what] += 1
        self.save(what, why, life)

    def save(self, what: str, why: str, life: Life | None) -> None:
        """So that a person can understand it: the answer, the timeline, and what agentctl says to `why` now."""
        with self._guard:
            self._saved[what] += 1
            number = self._saved.total()
            if self._saved[what] > SAVED:
                return
        parts = [f"{what}: {why}", "journal:"]
        parts += [f"{at:12.3f} {text}" for at, text in list(self.world.journal)[-80:]]
        if life is not None:
            parts.insert(1, f"timeline:\n{life.text()}")
            if life.id is not None:
                asked = self.world.run("why", life.id, around=True)
                parts.insert(2, f"why, at {asked.since:.3f}:\n{asked.out}{asked.err}")
        self.evidence.mkdir(parents=True, exist_ok=True)
        name = f"{number:03d}-{what.replace(' ', '-').replace(',', '')}.txt"
        (self.evidence / name).write_text("\n\n".join(parts))

    def settle_ghosts(self) -> None:
        """At the end: rows of sessions that nobody ever started."""
        for id, (row, done) in self.ghosts.items():
            if self.find(id) is None:
                self.verdicts[GHOST] += 1
                self.save(GHOST, f"{id}\n{moments(done)}\n{json.dumps(row, indent=1)}", None)

    def busy_throughout(self, directory: Path, since: float, until: float) -> Life | None:
        """A launch of ours that was alive in it all the time."""
        for life in self.lives[:]:
            if life.launched and life.directory == directory:
                possible = life.timeline.possible(since, until)
                if possible and all(truth.process == ALIVE for truth in possible):
                    return life
        return None

    def free_throughout(self, directory: Path, since: float, until: float, but: Life) -> bool:
        return all(
            life is but
            or life.directory != directory
            or not any(truth.process == ALIVE for truth in life.timeline.possible(since, until))
            for life in self.lives[:]
        )


def moments(done: Done) -> str:
    return f"agentctl {' '.join(done.words)}: from {done.since:.3f} to {done.until:.3f}"
