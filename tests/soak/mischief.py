"""What the world does to the sessions: signals, clocks, files, disks, and strangers at their pids."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING

from tests.agents import OWN
from tests.soak import starting
from tests.soak.actor import Actor, free_directory, free_pid, is_told, new_life
from tests.soak.kinds import Standin
from tests.soak.lives import ANY_END
from tests.soak.oracle import DONE, IDLE, NOT_THERE
from tests.soak.world import Lost, patiently
from tests.torture.handles import state_of

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from tests.soak.lives import Life
    from tests.soak.stage import Stage

MOST_STRANGERS, MOST_ENDED = 10, 25
HOURS = (-30, -5, -1, 1, 5, 30)


class Suspend(Actor):
    """SIGSTOP, or SIGCONT to one that was stopped."""

    weight = 5

    def act(self, stage: Stage, rng: random.Random) -> str | None:
        on = rng.random() < 0.5
        life = stage.pick(rng, lambda life: life.alive and life.suspended != on)
        if life is None:
            return None
        try:
            life.suspend(on)
            return "SIGSTOP" if on else "SIGCONT"
        finally:
            life.lock.release()


class Churn(Actor):
    """Many short-lived processes, so that pids come back."""

    weight = 4

    def act(self, stage: Stage, rng: random.Random) -> str | None:
        for _ in range(rng.randrange(20, 120)):
            stage.world.come_round()
            os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
        return "pid churn"


class PlaceStranger(Actor):
    """Somebody unrelated gets the pid of a dead session."""

    weight = 8

    def act(self, stage: Stage, rng: random.Random) -> str | None:
        pid = free_pid(stage, rng)
        if pid is None or len(stage.strangers) >= MOST_STRANGERS:
            return None
        return "a stranger at a dead one's pid" if stage.place_stranger(pid) else "a stranger"


class EndStranger(Actor):
    weight = 4

    def act(self, stage: Stage, rng: random.Random) -> str | None:
        chosen = rng.random()
        if len(stage.strangers) < MOST_STRANGERS // 2:
            return None
        stage.end_stranger(stage.strangers[int(chosen * len(stage.strangers))])
        return "a stranger goes"


class Reap(Actor):
    """A zombie is reaped, at last."""

    weight = 4

    def act(self, stage: Stage, rng: random.Random) -> str | None:
        life = stage.pick(rng, lambda life: not life.alive and life.popen is not None)
        if life is None:
            return None
        try:
            life.reap()
            return "a zombie is reaped"
        finally:
            life.lock.release()


class ShiftTimes(Actor):
    """The times of its files, or its clock, are wrong by hours."""

    weight = 5

    def act(self, stage: Stage, rng: random.Random) -> str | None:
        shift, clock = rng.choice(HOURS) * 3600.0, rng.random() < 0.4
        life = stage.pick(rng, lambda life: life.is_known and (not clock or is_told(life)))
        if life is None:
            return None
        try:
            with stage.world.stores.held(life.agent) as _, life.touched(), contextlib.suppress(Lost):
                if clock and isinstance(life, Standin):
                    life.set_clock(shift)
                    return "its clock is set"
                for path in life.files():
                    then = time.time() + shift
                    os.utime(path, (then, then))
                return "file times are shifted"
            return None
        finally:
            life.lock.release()


class LateLog(Actor):
    """What it logs comes later, or with a kill never."""

    weight = 5

    def act(self, stage: Stage, rng: random.Random) -> str | None:
        life = stage.pick(rng, lambda life: is_told(life) and isinstance(life, Standin) and life.can_be_late)
        if life is None:
            return None
        assert isinstance(life, Standin)
        try:
            with stage.world.stores.held(life.agent) as _, life.touched(), contextlib.suppress(Lost):
                life.hold_log(not life.log_is_held)
            return "its log is late" if life.log_is_held else "its log is written"
        finally:
            life.lock.release()


class CloseStore(Actor):
    """A store cannot be read for a while, or does not answer."""

    weight = 3

    def act(self, stage: Stage, rng: random.Random) -> str | None:
        agent, seconds, hangs = rng.choice(stage.agents), rng.uniform(0.3, 2.5), rng.random() < 0.4
        world = stage.world
        with world.stores.held(agent) as _:
            path = world.roots[agent]
            with world.stores.closed(agent), world.hanging(path) if hangs else world.unreadable(path):
                stage.world.note(f"the store of {agent} {'hangs' if hangs else 'cannot be read'}")
                time.sleep(seconds)
            stage.world.note(f"the store of {agent} is back")
        return "a store hangs" if hangs else "a store cannot be read"


class CloseRecord(Actor):
    """One session's file cannot be read for a while."""

    weight = 3

    def act(self, stage: Stage, rng: random.Random) -> str | None:
        seconds = rng.uniform(0.2, 1.5)
        life = stage.pick(rng, lambda life: life.is_known)
        if life is None:
            return None
        try:
            with stage.world.stores.held(life.agent) as _, contextlib.ExitStack() as closed, life.touched():
                for path in some_of(life, rng):
                    closed.enter_context(stage.world.stores.closed(life.agent))
                    closed.enter_context(stage.world.unreadable(path))
                time.sleep(seconds)
            return "a record cannot be read"
        finally:
            life.lock.release()


def some_of(life: Life, rng: random.Random) -> list[Path]:
    """Its files: all of them, or one."""
    files, one = life.files(), rng.random() < 0.7
    return [rng.choice(files)] if files and one else files


class Torn(Actor):
    """Half a line, half a status file, half a transaction, for some moments."""

    weight = 5

    def act(self, stage: Stage, rng: random.Random) -> str | None:
        pause, chosen = rng.choice((0.01, 0.1, 0.4)), rng.random()
        life = stage.pick(rng, lambda life: is_told(life) and (life.turn != IDLE or bool(life.last)))
        if life is None:
            return None
        assert isinstance(life, Standin)
        try:
            with stage.world.stores.held(life.agent) as _, life.touched(), contextlib.suppress(Lost):
                order = life.tears[int(chosen * len(life.tears))]
                unreadable = order == "torn_status"
                with stage.world.stores.closed(life.agent) if unreadable else contextlib.nullcontext():
                    life.do(order, pause=pause)
            return "a torn write"
        finally:
            life.lock.release()


class FullDisk(Actor):
    """No room for what agentctl writes, and somebody tries to launch."""

    weight = 2

    def act(self, stage: Stage, rng: random.Random) -> str | None:
        seconds = rng.uniform(0.1, 1.0)
        directory = free_directory(stage, rng)
        if directory is None or not stage.disk.acquire(blocking=False):
            return None
        try:
            with stage.world.stores.held(OWN) as _, stage.world.full_disk():
                life = new_life(stage, OWN, directory)
                try:
                    done = starting.launch(stage, life, DONE)
                finally:
                    life.lock.release()
                time.sleep(seconds)
        finally:
            stage.disk.release()
        return f"launch on a full disk, exit {done.code}"


class ManualLock(Actor):
    """A person locks a directory for a second; a launch there is refused meanwhile."""

    weight = 3

    def act(self, stage: Stage, rng: random.Random) -> str | None:
        directory = free_directory(stage, rng)
        if directory is None:
            return None
        locked = stage.world.run("lock", str(directory), "--ttl", "10s", "--reason", "soak")
        if locked.code != 0:
            return f"lock, exit {locked.code}"
        with stage.world.stores.held(OWN) as _:
            life = new_life(stage, OWN, directory)
            try:
                done = starting.launch(stage, life, DONE)
            finally:
                life.lock.release()
        if done.code == 0 and done.until - locked.since < 10.0:
            stage.fail("let in where a lock is held", done.err, life)
        if rng.random() < 0.5:
            stage.world.run("unlock", str(directory))
        return f"launch into a locked directory, exit {done.code}"


class Forget(Actor):
    """Old sessions are deleted from their stores, and what is kept of old launches is pruned."""

    weight = 3

    def act(self, stage: Stage, rng: random.Random) -> str | None:
        if sum(not life.alive for life in stage.lives[:]) < MOST_ENDED:
            return None
        life = stage.pick(rng, lambda life: life.is_known and not life.alive and life.popen is None)
        if life is None:
            return None
        try:
            with stage.world.stores.held(life.agent) as _:
                life.timeline.may_be(time.monotonic(), NOT_THERE, ANY_END)  # for a moment half of it is gone
                life.forget()
                life.is_nothing()
                stage.retire(life)
            return "a session is deleted"
        finally:
            life.lock.release()


class Prune(Actor):
    weight = 1

    def act(self, stage: Stage, rng: random.Random) -> str | None:
        for life in stage.lives[:]:
            life.timeline.change_begins(time.monotonic())
        done = stage.world.run("prune")
        for life in stage.lives[:]:
            life.timeline.change_ends(time.monotonic())
        if done.crashed or done.code != 0:
            stage.crash(done)
        return "prune"


class Leaderless(Actor):
    """Its first thread ends and another goes on: the kernel shows a zombie, and it lives."""

    weight = 1

    def act(self, stage: Stage, rng: random.Random) -> str | None:
        life = stage.pick(rng, lambda life: is_told(life) and isinstance(life, Standin) and life.outlives_its_leader)
        if life is None:
            return None
        assert isinstance(life, Standin)
        try:
            with contextlib.suppress(Lost), life.touched():  # its directory cannot be read any more
                assert life.line is not None
                life.line.send("leave_leader")
                life.is_deaf = True
                pid = life.processes["agent"].pid
                patiently(
                    "the end of its first thread", lambda: life.died_at is not None or state_of(pid) in ("Z", None)
                )
            return "its first thread ends"
        finally:
            life.lock.release()
