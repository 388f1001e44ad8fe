"""What every actor needs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, ClassVar

from tests.soak.kinds import Standin

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from tests.soak.lives import Life
    from tests.soak.stage import Stage

MOST_ALIVE = 14


class Actor:
    """`act` does one thing and says what, or None where there was nothing to do it to."""

    weight: ClassVar[int] = 1

    def act(self, stage: Stage, rng: random.Random) -> str | None:
        raise NotImplementedError


def free_directory(stage: Stage, rng: random.Random) -> Path | None:
    free = [path for path in stage.world.directories if stage.is_free(path)]
    return rng.choice(free) if free else None


def new_life(stage: Stage, agent: str, directory: Path) -> Life:
    life = stage.world.lives[agent](stage.world, agent, directory)
    life.lock.acquire()
    stage.add(life)
    return life


def free_pid(stage: Stage, rng: random.Random) -> int | None:
    """The pid of a session that has ended, which is not in use."""
    pids = sorted({pid for life in stage.lives[:] if not life.alive for pid in life.pids})
    free = [pid for pid in pids if not os.path.exists(f"/proc/{pid}")]
    return rng.choice(free) if free else None


def can_do(life: Life) -> bool:
    return life.alive and not life.suspended and life.can_be_told


def is_told(life: Life) -> bool:
    return isinstance(life, Standin) and can_do(life)
