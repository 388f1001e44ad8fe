"""What people do where somebody is, or was, already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.soak import starting
from tests.soak.actor import MOST_ALIVE, Actor, free_directory, new_life
from tests.soak.kinds import Standin
from tests.soak.oracle import IDLE, WORKING

if TYPE_CHECKING:
    import random

    from tests.soak.lives import Life
    from tests.soak.stage import Stage


class Beside(Actor):
    """A person starts one where somebody sits at a prompt already, and insists: two in one directory."""

    weight = 4

    def act(self, stage: Stage, rng: random.Random) -> str | None:
        agent = rng.choice(stage.agents)
        other = stage.pick(rng, lambda life: life.alive and not life.launched and life.turn == IDLE)
        if other is None:
            return None
        other.lock.release()
        directory = other.directory
        if stage.has_launch(directory) or len(stage.living()) >= MOST_ALIVE:
            return None
        with stage.world.stores.held(agent) as _:
            life = new_life(stage, agent, directory)
            try:
                done = starting.launch(stage, life, WORKING, "--force")
            finally:
                life.lock.release()
        return f"launch beside another, exit {done.code}"


class Interactive(Actor):
    """A launch with a screen: in a pane of a tmux that nobody looks at."""

    weight = 6

    def act(self, stage: Stage, rng: random.Random) -> str | None:
        agent, again = rng.choice(stage.agents), rng.random() < 0.4
        if not issubclass(stage.world.lives[agent], Standin):
            return None
        if len(stage.living()) >= MOST_ALIVE:
            return None
        if again:
            return self.resume(stage, rng)
        directory = free_directory(stage, rng)
        if directory is None:
            return None
        with stage.world.stores.held(agent) as _:
            life = new_life(stage, agent, directory)
            try:
                done = starting.launch(stage, life, WORKING, "--interactive")
            finally:
                life.lock.release()
        return f"launch {agent} --interactive, exit {done.code}"

    def resume(self, stage: Stage, rng: random.Random) -> str | None:
        life = stage.pick(rng, lambda life: can_reopen(life) and not life.alive and life.is_kept)
        if life is None:
            return None
        try:
            if not stage.is_free(life.directory):
                return None
            with stage.world.stores.held(life.agent) as _:
                life.hook = None
                done = starting.resume(stage, life, WORKING, "--interactive")
            return f"resume --interactive, exit {done.code}"
        finally:
            life.lock.release()


def can_reopen(life: Life) -> bool:
    return isinstance(life, Standin) and life.reopens


class Reopen(Actor):
    """A person opens the screen of a session that has ended."""

    weight = 5

    def act(self, stage: Stage, rng: random.Random) -> str | None:
        life = stage.pick(rng, lambda life: life.is_kept and not life.alive and can_reopen(life))
        if life is None:
            return None
        assert isinstance(life, Standin)
        try:
            if len(stage.living()) >= MOST_ALIVE or not life.directory.exists():  # a worktree may be removed
                return None
            with stage.world.stores.held(life.agent) as _:
                starting.reopen(stage, life, life.reopened())
            return "an ended session is opened by hand"
        finally:
            life.lock.release()
