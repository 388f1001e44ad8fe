"""What may happen. One small class each; the table at the end has the weights."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import time
from typing import TYPE_CHECKING, ClassVar

from tests.soak import starting
from tests.soak.lives import ANY_END, LIVES, ClaudeLife, DemoLife, Life, Standin
from tests.soak.oracle import ALIVE, DONE, FAILED, GONE, IDLE, NOT_THERE, WAITING, WORKING, Truth, reason_class
from tests.soak.world import AGENTS, Lost, ended

if TYPE_CHECKING:
    from pathlib import Path

    from tests.soak.stage import Stage

MOST_ALIVE, MOST_STRANGERS, MOST_ENDED = 14, 10, 25
HOURS = (-30, -5, -1, 1, 5, 30)
GROUPS = ("red", "green")


class Actor:
    """`act` does one thing and says what, or None where there was nothing to do it to."""

    weight: ClassVar[int] = 1

    def act(self, stage: Stage, rng: random.Random) -> str | None:
        raise NotImplementedError


def free_directory(stage: Stage, rng: random.Random) -> Path | None:
    free = [path for path in stage.world.directories if stage.is_free(path)]
    return rng.choice(free) if free else None


def new_life(stage: Stage, agent: str, directory: Path) -> Life:
    life = LIVES[agent](stage.world, agent, directory)
    life.lock.acquire()
    stage.add(life)
    return life


def free_pid(stage: Stage, rng: random.Random) -> int | None:
    """The pid of a session that has ended, which is not in use."""
    pids = sorted({pid for life in stage.lives[:] if not life.alive for pid in life.pids})
    free = [pid for pid in pids if not os.path.exists(f"/proc/{pid}")]
    return rng.choice(free) if free else None


class Launch(Actor):
    """By the real command, in a directory that is free."""

    weight = 12

    def act(self, stage: Stage, rng: random.Random) -> str | None:
        agent, kind = rng.choice(AGENTS), rng.choice((WORKING, WORKING, WAITING, IDLE, DONE, FAILED))
        wrapped, style, with_hook = rng.random() < 0.4, rng.choice(("new", "old")), rng.random() < 0.5
        group = rng.choice((None, None, *GROUPS))
        directory = free_directory(stage, rng)
        if directory is None or len(stage.living()) >= MOST_ALIVE:
            return None
        with stage.world.stores.held(agent) as _:
            life = new_life(stage, agent, directory)
            try:
                return self.start(stage, life, kind, group, wrapped=wrapped, style=style, with_hook=with_hook)
            finally:
                life.lock.release()

    def start(
        self, stage: Stage, life: Life, kind: str, group: str | None, *, wrapped: bool, style: str, with_hook: bool
    ) -> str:
        more: list[str] = ["--group", group] if group else []
        if with_hook:
            life.hook = stage.world.folder / "hooks" / life.mark
            more += ["--on-complete", f"echo ran >> {life.hook}"]
        env = {"SOAK_WRAPPED": "1"} if wrapped and life.agent == "codex" else {}
        if isinstance(life, ClaudeLife):
            life.style = env["SOAK_STYLE"] = style
        done = starting.launch(stage, life, kind, *more, env=env)
        other = stage.busy_throughout(life.directory, done.since, done.until) if done.code == 0 else None
        if other is not None and other is not life:
            stage.fail("let in where another works", f"{life.mark} beside {other.id}", other)
        if done.code == 4 and stage.free_throughout(life.directory, done.since, done.until, life):
            stage.notices[f"refused: {starting_reason(done.err)}"] += 1
        if done.code not in (0, 4) and kind != FAILED and not stage.world.was_full(done.since, done.until):
            stage.notices[f"launch failed: {starting_reason(done.err)}"] += 1
        return f"launch {life.agent}, exit {done.code}"


def starting_reason(text: str) -> str:
    return reason_class(text.strip().splitlines()[-1] if text.strip() else "no words")


class KillLaunch(Actor):
    """The command is killed in the middle of a launch."""

    weight = 4

    def act(self, stage: Stage, rng: random.Random) -> str | None:
        agent, after = rng.choice(AGENTS), rng.choice((0.05, 0.1, 0.2, 0.3, 0.5, 0.8))
        directory = free_directory(stage, rng)
        if directory is None or len(stage.living()) >= MOST_ALIVE:
            return None
        with stage.world.stores.held(agent) as _:
            life = new_life(stage, agent, directory)
            try:
                starting.launch(stage, life, WORKING, kill_after=after)
            finally:
                life.lock.release()
        return f"launch {agent}, killed after {after} s"


class Conflict(Actor):
    """A launch into a directory in which another one works."""

    weight = 3

    def act(self, stage: Stage, rng: random.Random) -> str | None:
        other = stage.pick(rng, lambda life: life.alive and life.launched and life.turn in (WORKING, WAITING))
        if other is None:
            return None
        try:
            with stage.world.stores.held("demo") as _:
                life = new_life(stage, "demo", other.directory)
                try:
                    return Launch().start(stage, life, DONE, None, wrapped=False, style="new", with_hook=False)
                finally:
                    life.lock.release()
        finally:
            other.lock.release()


class ByHand(Actor):
    """A person starts an agent in a terminal; sometimes it gets the pid of a dead session."""

    weight = 10

    def act(self, stage: Stage, rng: random.Random) -> str | None:
        agent, directory = rng.choice(AGENTS), rng.choice(stage.world.directories)
        again, wrapped = rng.random() < 0.5, rng.random() < 0.4
        pid = free_pid(stage, rng) if again else None
        if len(stage.living()) >= MOST_ALIVE:
            return None
        with stage.world.stores.held(agent) as _:
            life = new_life(stage, agent, directory)
            try:
                env = {"SOAK_WRAPPED": "1"} if wrapped and agent == "codex" else {}
                words = ["--no-daemon"] if agent == "codex" else []
                starting.by_hand(stage, life, words, pid, **env)
            finally:
                life.lock.release()
        return f"{agent} by hand"


class Turn(Actor):
    """A session at its prompt gets one, or its turn goes on."""

    weight = 30

    def act(self, stage: Stage, rng: random.Random) -> str | None:
        life = stage.pick(rng, can_do)
        if life is None:
            return None
        try:
            with stage.world.stores.held(life.agent) as _, contextlib.suppress(Lost):
                return self.go_on(life, rng) if isinstance(life, Standin) else self.go_on_demo(life, rng)
            life.await_end()
            return None
        finally:
            life.lock.release()

    def go_on(self, life: Standin, rng: random.Random) -> str:
        how, call = rng.choice((DONE, DONE, FAILED)), rng.random()
        if life.turn == IDLE:
            if life.headless:
                life.leave()
                return "a run of ours ends"
            life.prompt()
            return "prompt"
        if life.turn == WORKING and not life.pending and call < 0.6:
            if call < 0.3 and not life.headless:
                life.question()
                return "question"
            life.call()
            return "tool call"
        life.finish(how)
        return f"turn ends: {how}"

    def go_on_demo(self, life: Life, rng: random.Random) -> str:
        kind = rng.choice((WORKING, WAITING, DONE, FAILED))
        assert isinstance(life, DemoLife)
        if life.turn == IDLE:
            starting.type_prompt(life, kind)
            return "prompt"
        turn = life.turn
        if life.launched:  # it ends with its turn
            life.may_end(Truth(GONE, DONE))
            life.timeline.may_be(time.monotonic(), Truth(ALIVE, WORKING), Truth(ALIVE, IDLE))
            life.let_on(turn)
            life.last, life.turn = DONE, IDLE
            life.await_end()
            return "a run of ours ends"
        with life.becoming(IDLE, DONE):
            life.timeline.may_be(time.monotonic(), Truth(ALIVE, WORKING))
            life.let_on(turn)
            life.await_turn("idle")
        return "turn ends: done"


class Leave(Actor):
    """An orderly end, whatever it was doing before."""

    weight = 6

    def act(self, stage: Stage, rng: random.Random) -> str | None:
        life = stage.pick(rng, lambda life: can_do(life) and life.turn == IDLE)
        if life is None:
            return None
        try:
            with stage.world.stores.held(life.agent) as _, contextlib.suppress(Lost):
                if isinstance(life, Standin):
                    life.leave()
                elif isinstance(life, DemoLife):
                    life.may_leave()
                    life.type("\x04")
                    life.await_end()
            return "leaves"
        finally:
            life.lock.release()


class Stop(Actor):
    """agentctl stop, of one that lives or of one that has ended."""

    weight = 7

    def act(self, stage: Stage, rng: random.Random) -> str | None:
        dead = rng.random() < 0.3
        life = stage.pick(rng, lambda life: life.is_known and life.alive != dead)
        if life is None:
            return None
        try:
            with stage.world.stores.held(life.agent) as _:
                return stop(stage, life)
        finally:
            life.lock.release()


def stop(stage: Stage, life: Life, *more: str, grace: str = "2s") -> str:
    was_alive = life.alive
    if was_alive:
        life.may_leave()
    done = stage.world.run("stop", life.id or "", "--grace", grace, *more)
    stage.world.note(f"stop {life.id}: exit {done.code}: {(done.out + done.err).strip()}")
    if done.crashed:
        stage.crash(done)
    if not was_alive:
        return f"stop of one that has ended, exit {done.code}"
    if ended(life.processes["agent"].pidfd):
        life.stopped_by_agentctl = True
        life.await_end()
    else:
        if done.code == 0:
            stage.fail("said stopped, and it lives", done.out, life)
        life.is_settled()
        stage.notices[f"not stopped: {starting_reason(done.err)}"] += 1
    return f"stop, exit {done.code}"


class StopGroup(Actor):
    """agentctl stop --group."""

    weight = 2

    def act(self, stage: Stage, rng: random.Random) -> str | None:
        group = rng.choice(GROUPS)
        with contextlib.ExitStack() as held:
            for agent in AGENTS:
                if not held.enter_context(stage.world.stores.held(agent, wait=False)):
                    return None
            mine = []
            for life in stage.living():
                if life.launched:
                    if not life.lock.acquire(blocking=False):
                        return None
                    held.callback(life.lock.release)
                    mine.append(life)
            for life in mine:
                life.may_leave()
            done = stage.world.run("stop", "--group", group, "--grace", "2s")
            stage.world.note(f"stop --group {group}: exit {done.code}: {done.out.strip()}")
            if done.crashed:
                stage.crash(done)
            for life in mine:
                if ended(life.processes["agent"].pidfd):
                    life.stopped_by_agentctl = True
                    life.await_end()
                else:
                    life.is_settled()
        return f"stop --group, exit {done.code}"


class Resume(Actor):
    """agentctl resume of one that has ended."""

    weight = 6

    def act(self, stage: Stage, rng: random.Random) -> str | None:
        kind = rng.choice((WORKING, WORKING, DONE))
        life = stage.pick(rng, lambda life: life.is_known and not life.alive and life.is_kept)
        if life is None:
            return None
        try:
            if not stage.is_free(life.directory) or len(stage.living()) >= MOST_ALIVE:
                return None
            with stage.world.stores.held(life.agent) as _:
                life.hook = None
                done = starting.resume(stage, life, kind)
                return f"resume, exit {done.code}"
        finally:
            life.lock.release()


class Kill(Actor):
    """kill -9 of an agent, its wrapper, its runner, its tools, or several of them in any order."""

    weight = 9

    def act(self, stage: Stage, rng: random.Random) -> str | None:
        roles = rng.choice((("agent",), ("agent",), ("runner",), ("wrapper",), ("runner", "agent"), ("agent", "runner"),
                            ("wrapper", "agent"), ("tools",), ("agent", "wrapper", "runner")))  # fmt: skip
        life = stage.pick(rng, lambda life: life.alive and life.has_all(roles))
        if life is None:
            return None
        try:
            for role in roles:
                self.strike(stage, life, role)
            if "agent" in roles:
                life.await_end()
            return f"kill -9 {' and '.join(roles)}"
        finally:
            life.lock.release()

    def strike(self, stage: Stage, life: Life, role: str) -> None:
        stage.world.note(f"kill -9 {role} of {life.agent} {life.id}")
        with life.touched():
            if role == "agent":
                life.kill()
            elif role == "tools":
                end_tools(life)
            elif life.signal(role, signal.SIGKILL) and role == "runner":
                life.runner_killed = True


def end_tools(life: Life) -> None:
    for tool in life.tools:
        if not ended(tool.pidfd):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(tool.pid, signal.SIGKILL)  # it lives, so its pid and its group are its own


class KillWriting(Actor):
    """kill -9 in the middle of a write."""

    weight = 3

    def act(self, stage: Stage, rng: random.Random) -> str | None:
        pause, order = rng.choice((0.0, 0.02, 0.05)), rng.choice(("torn_line", "torn_line", "prompt"))
        life = stage.pick(rng, lambda life: is_told(life) and life.turn == IDLE and bool(life.last))
        if life is None:
            return None
        assert isinstance(life, Standin)
        try:
            with stage.world.stores.held(life.agent) as _, contextlib.suppress(Lost):
                before = life.ends()
                arguments = {"pause": 0.05} if order == "torn_line" else {"text": "please do it"}
                if order == "prompt":
                    life.turn = WORKING
                    life.timeline.may_be(time.monotonic(), Truth(ALIVE, WORKING))
                life.may_end(*before, *life.ends())
                assert life.line is not None
                life.line.send(order, **arguments)
                time.sleep(pause)
                life.orphaned = True
                life.signal("agent", signal.SIGKILL)
                life.await_end()
            return "kill -9 while it writes"
        finally:
            life.lock.release()


def can_do(life: Life) -> bool:
    return life.alive and not life.suspended and life.can_be_told


def is_told(life: Life) -> bool:
    return isinstance(life, Standin) and can_do(life)


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

    weight = 8

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
                    life.do("clock", shift=shift)
                    return "its clock is set"
                for path in life.files():
                    then = time.time() + shift
                    os.utime(path, (then, then))
                return "file times are shifted"
            return None
        finally:
            life.lock.release()


class CloseStore(Actor):
    """A store cannot be read for a while, or does not answer."""

    weight = 3

    def act(self, stage: Stage, rng: random.Random) -> str | None:
        agent, seconds, hangs = rng.choice(AGENTS), rng.uniform(0.3, 2.5), rng.random() < 0.4
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
                for path in life.files():
                    closed.enter_context(stage.world.stores.closed(life.agent))
                    closed.enter_context(stage.world.unreadable(path))
                time.sleep(seconds)
            return "a record cannot be read"
        finally:
            life.lock.release()


class Torn(Actor):
    """Half a line, and half a status file, for some moments."""

    weight = 5

    def act(self, stage: Stage, rng: random.Random) -> str | None:
        pause, order = rng.choice((0.01, 0.1, 0.4)), rng.choice(("torn_line", "torn_status"))
        life = stage.pick(rng, lambda life: is_told(life) and (life.turn != IDLE or bool(life.last)))
        if life is None:
            return None
        assert isinstance(life, Standin)
        try:
            with stage.world.stores.held(life.agent) as _, life.touched(), contextlib.suppress(Lost):
                torn = order == "torn_status" and isinstance(life, ClaudeLife)
                with stage.world.stores.closed(life.agent) if torn else contextlib.nullcontext():
                    life.do("torn_status" if torn else "torn_line", pause=pause)
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
            with stage.world.stores.held("demo") as _, stage.world.full_disk():
                life = new_life(stage, "demo", directory)
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
        with stage.world.stores.held("demo") as _:
            life = new_life(stage, "demo", directory)
            try:
                done = starting.launch(stage, life, DONE)
            finally:
                life.lock.release()
        if done.code == 0 and done.until - locked.since < 10.0:
            stage.fail("let in where a lock is held", done.err, life)
        if rng.random() < 0.5:
            stage.world.run("unlock", str(directory))
        return f"launch into a locked directory, exit {done.code}"


class Nested(Actor):
    """An agent that launches an agent, by its tool."""

    weight = 3

    def act(self, stage: Stage, rng: random.Random) -> str | None:
        directory, other = free_directory(stage, rng), free_directory(stage, rng)
        if directory is None or other is None or other == directory or len(stage.living()) >= MOST_ALIVE:
            return None
        with stage.world.stores.held("demo") as _:
            outer, inner = new_life(stage, "demo", directory), new_life(stage, "demo", other)
            try:
                assert isinstance(outer, DemoLife) and isinstance(inner, DemoLife)
                inner.launched = True
                inner.begins()
                prompt = stage.world.folder / "words" / inner.mark
                prompt.write_text(inner.words(WORKING))
                command = " ".join(stage.world.command)
                outer.first = f"[[bash:{command} launch demo --prompt-file {prompt} --cwd {other}]]"
                starting.launch(stage, outer, WORKING)
                starting.await_nested(stage, outer, inner)
            except Lost:
                pass
            finally:
                inner.lock.release()
                outer.lock.release()
        return "an agent launches an agent"


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
                for path in life.files():
                    shutil.rmtree(path.parent) if life.agent == "demo" else path.unlink()
                for path in life.registrations():
                    path.unlink()
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
        life = stage.pick(rng, is_told)
        if life is None:
            return None
        assert isinstance(life, Standin)
        try:
            with contextlib.suppress(Lost):
                assert life.line is not None
                life.line.send("leave_leader")
                life.is_deaf = True
            return "its first thread ends"
        finally:
            life.lock.release()


TABLE: tuple[type[Actor], ...] = (
    Launch, KillLaunch, Conflict, ByHand, Turn, Leave, Stop, StopGroup, Resume, Kill, KillWriting, Suspend, Churn,
    PlaceStranger, EndStranger, Reap, ShiftTimes, CloseStore, CloseRecord, Torn, FullDisk, ManualLock, Nested, Forget,
    Prune, Leaderless,
)  # fmt: skip


def decide(seed: str, number: int) -> tuple[Actor, random.Random]:
    """The same for the same seed, whatever the world is like by then."""
    rng = random.Random(f"{seed}/{number}")
    kind = rng.choices(TABLE, [one.weight for one in TABLE])[0]
    return kind(), rng
