"""Launches into git worktrees of their own, and removing those, also while somebody is in one."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from tests.soak import starting
from tests.soak.actor import MOST_ALIVE, Actor, new_life
from tests.soak.oracle import ALIVE, DONE, WORKING, reason_class

if TYPE_CHECKING:
    import random

    from tests.soak.lives import Life
    from tests.soak.stage import Stage
    from tests.soak.world import World

MOST_WORKTREES = 6
UNDER_A_SESSION, NOT_REMOVED = "worktrees removed under a session", "said removed, and it is there"
NOT_IN_ONE = "let in beside others, without a worktree of its own"


def repository(world: World) -> Path:
    """With one commit; made when it is asked for."""
    with world.lock:
        path = world.home / "repository"
        if not path.exists():
            path.mkdir()
            as_somebody = ["-c", "user.name=soak", "-c", "user.email=soak@example.invalid"]
            for words in (["init", "-q"], [*as_somebody, "commit", "-q", "--allow-empty", "-m", "first"]):
                subprocess.run(["git", *words], cwd=path, env=world.env, check=True)
        return path


def worktrees(world: World) -> list[Path]:
    return sorted(world.home.glob("repository-*"))


def place_of(life: Life) -> Path | None:
    """Where it works, by the kernel."""
    try:
        path = Path(os.readlink(f"/proc/{life.processes['agent'].pid}/cwd"))
    except (OSError, KeyError):
        return None
    return path if life.alive else None


def launched_in(world: World, life: Life) -> Path | None:
    """Where a launch that is over already was put, by its record: whoever resumes it goes on there."""
    one = world.launch_of(life.mark)
    return None if one is None else Path(one["cwd"])


class InWorktree(Actor):
    """Several in one repository, none in the way of another."""

    weight = 4

    def act(self, stage: Stage, rng: random.Random) -> str | None:
        agent, kind = rng.choice(stage.agents), rng.choice((WORKING, WORKING, DONE))
        main = repository(stage.world)
        if len(stage.living()) >= MOST_ALIVE or len(worktrees(stage.world)) >= MOST_WORKTREES:
            return None
        with stage.world.stores.held(agent) as _:
            life = new_life(stage, agent, main)
            try:
                done = starting.launch(stage, life, kind, "--worktree", "--group", f"w{stage.world.number()}")
                life.directory = place_of(life) or launched_in(stage.world, life) or life.directory
                if life.alive and done.code == 0 and life.directory == main:
                    stage.fail(NOT_IN_ONE, done.err, life)
            finally:
                life.lock.release()
        return f"launch --worktree, exit {done.code}"


class CleanWorktree(Actor):
    """agentctl worktree clean: of one that somebody works in, or not."""

    weight = 4

    def act(self, stage: Stage, rng: random.Random) -> str | None:
        chosen, force = rng.random(), rng.random() < 0.5
        found = worktrees(stage.world)
        if not found:
            return None
        path = found[int(chosen * len(found))]
        inside = [life for life in stage.lives[:] if life.directory == path]
        with contextlib.ExitStack() as held:
            for life in inside:
                if not life.lock.acquire(blocking=False):
                    return None
                held.callback(life.lock.release)
            return f"worktree clean, exit {clean(stage, path, inside, force=force)}"


def clean(stage: Stage, path: Path, inside: list[Life], *, force: bool) -> int:
    main = repository(stage.world)
    words = ("worktree", "clean", str(path), "--cwd", str(main), *(("--force",) if force else ()))
    done = stage.world.run(*words)
    stage.world.note(f"agentctl {' '.join(words)}: exit {done.code}: {(done.out + done.err).strip()}")
    if done.crashed:
        stage.crash(done)
    stage.watcher.has_looked_after(done.until)
    for life in inside:
        possible = life.timeline.possible(done.since, done.until)
        if possible and all(truth.process == ALIVE for truth in possible) and not path.exists():
            stage.fail(UNDER_A_SESSION, done.out, life)
    if done.code == 0 and path.exists():
        stage.fail(NOT_REMOVED, done.out)
    if done.code != 0:
        stage.notices[f"worktree kept: {reason_class((done.err.strip().splitlines() or ['no words'])[-1])}"] += 1
    return done.code
