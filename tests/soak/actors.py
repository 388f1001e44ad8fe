"""What agents and people do. One small class each; the table at the end has all that may happen."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from typing import TYPE_CHECKING

from tests.agents import OWN
from tests.soak import starting
from tests.soak.actor import MOST_ALIVE, Actor, can_do, free_directory, free_pid, is_told, new_life
from tests.soak.kinds import Scripted, Standin
from tests.soak.mischief import (
    Churn,
    CloseRecord,
    CloseStore,
    EndStranger,
    Forget,
    FullDisk,
    LateLog,
    Leaderless,
    ManualLock,
    PlaceStranger,
    Prune,
    Reap,
    ShiftTimes,
    Suspend,
    Torn,
)  # fmt: skip
from tests.soak.oracle import ALIVE, DONE, FAILED, GONE, IDLE, WAITING, WORKING, Truth, reason_class
from tests.soak.people import Beside, Interactive, Reopen
from tests.soak.worktrees import CleanWorktree, InWorktree
from tests.soak.world import Lost, ended

if TYPE_CHECKING:
    from tests.soak.lives import Life
    from tests.soak.stage import Stage

GROUPS = ("red", "green")


class Launch(Actor):
    """By the real command, in a directory that is free."""

    weight = 12

    def act(self, stage: Stage, rng: random.Random) -> str | None:
        agent, kind = rng.choice(stage.agents), rng.choice((WORKING, WORKING, WAITING, IDLE, DONE, FAILED))
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
        env = life.environment(wrapped=wrapped, style=style)
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
        agent, after = rng.choice(stage.agents), rng.choice((0.05, 0.1, 0.2, 0.3, 0.5, 0.8))
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
            with stage.world.stores.held(OWN) as _:
                life = new_life(stage, OWN, other.directory)
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
        agent, directory = rng.choice(stage.agents), rng.choice(stage.world.directories)
        again, wrapped = rng.random() < 0.5, rng.random() < 0.4
        pid = free_pid(stage, rng) if again else None
        if len(stage.living()) >= MOST_ALIVE:
            return None
        with stage.world.stores.held(agent) as _:
            life = new_life(stage, agent, directory)
            try:
                words = list(life.by_hand) if isinstance(life, Standin) else []
                starting.by_hand(stage, life, words, pid, **life.environment(wrapped=wrapped))
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
                return self.go_on(life, rng) if isinstance(life, Standin) else self.go_on_alone(life, rng)
            life.await_end()
            return None
        finally:
            life.lock.release()

    def go_on(self, life: Standin, rng: random.Random) -> str:
        how, call, at_once = rng.choice((DONE, DONE, FAILED)), rng.random(), rng.random() < 0.8
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
        if life.headless and at_once:
            life.finish_and_leave(how)
            return "a run of ours ends"
        life.finish(how)
        return f"turn ends: {how}"

    def go_on_alone(self, life: Life, rng: random.Random) -> str:
        kind = rng.choice((WORKING, WAITING, DONE, FAILED))
        assert isinstance(life, Scripted)
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
            life.await_turn(IDLE)
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
                life.leave()
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


def stop(stage: Stage, life: Life, *more: str, grace: str = "2s", name: str | None = None) -> str:
    """`name`: what a person types, if not the id of the session."""
    was_alive = life.alive
    if was_alive:
        life.may_leave()
        life.stopping = True
    done = stage.world.run("stop", name or life.id or "", "--grace", grace, *more)
    stage.world.note(f"stop {name or life.id}: exit {done.code}: {(done.out + done.err).strip()}")
    if done.crashed:
        stage.crash(done)
    if was_alive and done.code == 4 and life.is_guessed and "--force" not in more:
        return stop(stage, life, *more, "--force", grace=grace, name=name)
    if not was_alive:
        return f"stop of one that has ended, exit {done.code}"
    if ended(life.processes["agent"].pidfd):
        is_stopped(stage, life, done.out)
    else:
        if done.code == 0:
            stage.fail("said stopped, and it lives", done.out, life)
        life.stopping = False
        life.is_settled()
        stage.notices[f"not stopped: {starting_reason(done.err)}"] += 1
    return f"stop, exit {done.code}"


def is_stopped(stage: Stage, life: Life, said: str) -> None:
    """By agentctl: then its tools have ended with it."""
    life.await_end()
    for tool in life.tools:
        if not ended(tool.pidfd):
            stage.fail("orphans", f"the tool (pid {tool.pid}) of one that was stopped: {said}", life)
    life.stopping, life.left, life.tools = False, [*life.left, *life.tools], []


class StopGroup(Actor):
    """agentctl stop --group."""

    weight = 2

    def act(self, stage: Stage, rng: random.Random) -> str | None:
        group = rng.choice(GROUPS)
        with contextlib.ExitStack() as held:
            for agent in stage.world.lives:
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
                life.stopping = True
            done = stage.world.run("stop", "--group", group, "--grace", "2s")
            stage.world.note(f"stop --group {group}: exit {done.code}: {done.out.strip()}")
            if done.crashed:
                stage.crash(done)
            for life in mine:
                if ended(life.processes["agent"].pidfd):
                    is_stopped(stage, life, done.out)
                else:
                    life.stopping = False
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

    weight = 12

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
    for tool in (*life.tools, *life.left):
        if not ended(tool.pidfd):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(tool.pid, signal.SIGKILL)  # it lives, so its pid and its group are its own


class KillWriting(Actor):
    """kill -9 in the middle of a write."""

    weight = 3

    def act(self, stage: Stage, rng: random.Random) -> str | None:
        pause, chosen, tears = rng.choice((0.0, 0.02, 0.05)), rng.random(), rng.random() < 0.7
        life = stage.pick(rng, lambda life: is_told(life) and life.turn == IDLE and bool(life.last))
        if life is None:
            return None
        assert isinstance(life, Standin)
        old = life.turn, life.last
        try:
            with stage.world.stores.held(life.agent) as _:
                self.strike(life, pause, chosen, tears=tears)
                life.await_end()
                life.learn_end(old)
            return "kill -9 while it writes"
        finally:
            life.lock.release()

    def strike(self, life: Standin, pause: float, chosen: float, *, tears: bool) -> None:
        with contextlib.suppress(Lost):
            before = life.ends()
            torn = [name for name in life.tears if name != "torn_status"]  # that one would be there for good
            order = torn[int(chosen * len(torn))] if tears else "prompt"
            arguments = {"pause": 0.05} if tears else {"text": "please do it"}
            if order == "prompt":
                life.turn = WORKING
                life.timeline.may_be(time.monotonic(), Truth(ALIVE, WORKING))
            life.may_end(*before, *life.ends())
            assert life.line is not None
            life.line.send(order, **arguments)
            time.sleep(pause)
            life.signal("agent", signal.SIGKILL)


class Nested(Actor):
    """An agent that launches an agent, by its tool."""

    weight = 3

    def act(self, stage: Stage, rng: random.Random) -> str | None:
        directory, other = free_directory(stage, rng), free_directory(stage, rng)
        if directory is None or other is None or other == directory or len(stage.living()) >= MOST_ALIVE:
            return None
        with stage.world.stores.held(OWN) as _:
            outer, inner = new_life(stage, OWN, directory), new_life(stage, OWN, other)
            try:
                assert isinstance(outer, Scripted) and isinstance(inner, Scripted)
                inner.launched = True
                inner.begins()
                prompt = stage.world.folder / "words" / inner.mark
                prompt.write_text(inner.words(WORKING))
                command = " ".join(stage.world.command)
                outer.first = outer.tool_words(f"{command} launch {OWN} --prompt-file {prompt} --cwd {other}")
                starting.launch(stage, outer, WORKING)
                outer.first = ""  # a later run of it launches nobody
                starting.await_nested(stage, outer, inner)
            except Lost:
                pass
            finally:
                inner.lock.release()
                outer.lock.release()
        return "an agent launches an agent"


TABLE: tuple[type[Actor], ...] = (
    Launch, KillLaunch, Conflict, Beside, ByHand, Interactive, Reopen, Turn, Leave, Stop, StopGroup, Resume, Kill,
    KillWriting, Suspend, Churn, PlaceStranger, EndStranger, Reap, ShiftTimes, LateLog, CloseStore, CloseRecord, Torn,
    FullDisk, ManualLock, Nested, Forget, Prune, Leaderless, InWorktree, CleanWorktree,
)  # fmt: skip


def decide(seed: str, number: int, more: tuple[type[Actor], ...] = ()) -> tuple[Actor, random.Random]:
    """The same for the same seed, whatever the world is like by then. `more`: actors that were asked for."""
    rng = random.Random(f"{seed}/{number}")
    table = (*TABLE, *more)
    kind = rng.choices(table, [one.weight for one in table])[0]
    return kind(), rng
