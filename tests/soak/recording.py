"""A daemon that records all the time, and is killed, suspended and ended at random. Its stream is judged, too.

Doubled: an event that does not begin with what the event before it left, or a number that comes twice. False: an event
whose session is not as it can have been when it was looked at. Lost: what has not changed for longer than the engine
ever rests is otherwise in the folded stream, and so is anything at the end.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any

from tests.soak.oracle import ABSENT, RIGHT, UNKNOWN, Seen, verdict
from tests.soak.report import FIRM, ZERO
from tests.soak.world import PATIENCE
from tests.torture.handles import Handle
from tests.torture.kernel import mount, without_file_powers
from tests.torture.own_daemon import folded, out_of_order
from tests.torture.standins.files import start_ticks

if TYPE_CHECKING:
    from tests.soak.lives import Life
    from tests.soak.stage import Stage

LOST, DOUBLED, FALSE = "lost events", "doubled events", "false events"
SHORT, LONG = (0.5, 6.0), 30.0  # seconds that it is left in peace: mostly short; long enough to compare
RESTS = 22.0  # seconds: the engine rests 15 at most, and a machine may be slow
LOOK = 12.0  # seconds that a look may take on a slow machine, a suspended daemon included
LOG_SIZE = "256m"


class Recording(threading.Thread):
    def __init__(self, stage: Stage, seed: str) -> None:
        super().__init__(daemon=True)
        self.stage = stage
        self.over = threading.Event()
        self.broken: str | None = None
        self._rng = random.Random(seed)
        self._popen: subprocess.Popen[bytes] | None = None
        self._judged: set[tuple[str, int]] = set()
        log = stage.world.state / "events"
        log.mkdir(mode=0o700)
        mount("tmpfs", log, f"mode=700,size={LOG_SIZE}")  # what fills the state folder is another actor's

    def run(self) -> None:
        try:
            self._start()
            while not self.over.is_set():
                self._one_life()
        except Exception:  # noqa: BLE001  a fault of the oracle must not pass as silence
            self.broken = traceback.format_exc()

    def _one_life(self) -> None:
        """Leave it in peace for a while, then do something to it."""
        choice = self._rng.random()
        seconds = LONG if choice < 0.2 else self._rng.uniform(*SHORT)
        self.over.wait(seconds)
        if seconds == LONG and not self.over.is_set():
            self._compare(time.monotonic() - RESTS)
        if choice < 0.7:
            self._end(signal.SIGKILL)
            self.over.wait(self._rng.uniform(0.0, 2.0))
            self._start()
        elif choice < 0.8:
            self._end(signal.SIGTERM)
            self._start()
        else:
            self._suspend(self._rng.uniform(0.2, 3.0))

    # Its life

    def _start(self) -> None:
        world = self.stage.world
        self._popen = subprocess.Popen(
            without_file_powers([sys.executable, "-P", "-m", "agentctl", "daemon", "run", "--to-log"]),
            env=world.env,
            cwd="/",
            stdin=subprocess.DEVNULL,
        )
        self._handle = Handle(self._popen.pid, start_ticks(self._popen.pid), self._popen)
        self.stage.actions["the daemon was started"] += 1

    def _end(self, number: signal.Signals) -> None:
        if not self._handle.has_ended():
            self._handle.send_signal(number)
        self._handle.close()
        self.stage.actions[f"the daemon got {number.name}"] += 1

    def _suspend(self, seconds: float) -> None:
        self._handle.send_signal(signal.SIGSTOP)
        self.over.wait(seconds)
        self._handle.send_signal(signal.SIGCONT)
        self.stage.actions["the daemon was suspended"] += 1

    # What it has told

    def _told(self) -> list[dict[str, Any]] | None:
        done = self.stage.world.run("events", "--since", "0", "--json", around=True)
        if done.crashed:
            self.stage.crash(done)
        return [json.loads(line) for line in done.out.splitlines()] if done.code == 0 else None

    def _compare(self, since: float) -> None:
        """What has not changed since then is in the stream as `list` shows it."""
        done, answer = self.stage.world.ask("list", "-a", "--since", "all")
        told = self._told()
        if told is None or done.code != 0:
            return
        self._judge(told)
        self.stage.actions["list and the stream of the daemon were compared"] += 1
        statuses, rows = folded(told), {row["id"]: row for row in answer.get("sessions", ())}
        unread = {problem["agent"] for problem in answer.get("problems", ())}
        for id, life in list(self.stage.by_id.items()):
            row = rows.get(id)
            is_read = unread.isdisjoint((life.agent, "agentctl", "configuration"))
            if row is not None and is_read and self._is_still(life, since, done.until):
                self._compare_one(life, row, statuses.get(id), told)

    def _is_still(self, life: Life, since: float, until: float) -> bool:
        closed = self.stage.world.stores.was_closed(life.agent, since, until)
        return not closed and life.timeline.is_steady(since, until)

    def _compare_one(self, life: Life, row: dict[str, Any], status: str | None, told: list[dict[str, Any]]) -> None:
        if status is None and row["process"] == "gone":
            return  # it came and went between two looks, or before the stream began
        if UNKNOWN in (row["process"], status, row["status"]):
            return  # who else is there changes it, and nobody wakes the engine for that
        self.stage.streamed += 1
        if status != row["status"]:
            events = [one for one in told if one.get("id") == row["id"]]
            lines = "\n".join(f"{one['seq']} {one['at']} {one['from']} -> {one['to']}" for one in events)
            self.stage.fail(LOST, f"{row['id']}: list says {row['status']}, the stream {status}\n{lines}", life)

    def _judge(self, told: list[dict[str, Any]]) -> None:
        for why in out_of_order(told):
            self.stage.fail(DOUBLED, why)
        for entry in told:
            name = (entry["log"], entry["seq"])
            if entry["type"].startswith("session.") and name not in self._judged:
                self._judged.add(name)
                self._judge_event(entry)

    def _judge_event(self, entry: dict[str, Any]) -> None:
        life = self.stage.find(entry["id"])
        if life is None:
            return  # whoever started it does not know its id yet, or it is a ghost: `list` tells
        at = wall_to_monotonic(entry["at"])
        possible = life.timeline.possible(at - LOOK, at + 0.1)
        self.stage.recorded += 1
        if entry["to"] is None:
            if not any(truth.process == ABSENT for truth in possible):
                self.stage.fail(FALSE, f"{entry['id']} was not removed: {entry['seq']} at {at:.3f}", life)
            return
        found = verdict(possible, Seen(entry["session"], other_name=life.has_other_name), frozenset(life.pids))
        if found.kind in (*ZERO, *FIRM) and found.kind != RIGHT:
            words = f"{found.kind}: {found.why}: event {entry['seq']} at {at:.3f}"
            self.stage.fail(FALSE, f"{words}\n{json.dumps(entry, indent=1)}", life)

    # The end

    def finish(self) -> None:
        """Everything has ended: the folded stream says so of all that it ever told."""
        if self._handle.has_ended():
            self._start()
        deadline = time.monotonic() + PATIENCE
        wrong: dict[str, tuple[str, str | None]] = {}
        told: list[dict[str, Any]] = []
        while time.monotonic() < deadline:
            _, answer = self.stage.world.ask("list", "-a", "--since", "all")
            told = self._told() or []
            listed = {row["id"]: row["status"] for row in answer.get("sessions", ())}
            statuses = folded(told)
            wrong = {id: (status, listed.get(id)) for id, status in statuses.items() if listed.get(id) != status}
            if told and not wrong and not answer.get("problems"):
                break
            time.sleep(0.5)
        for id, (status, truth) in wrong.items():
            self.stage.fail(LOST, f"{id}: at the end list says {truth}, the stream {status}", self.stage.find(id))
        self.stage.streamed += len(folded(told))
        if not told:
            self.stage.fail(LOST, "the daemon has told nothing at all")
        self._judge(told)
        self._end(signal.SIGTERM)


def wall_to_monotonic(text: str) -> float:
    from agentctl.files.bounded import moment

    return (moment(text) or 0.0) - (time.time() - time.monotonic())
