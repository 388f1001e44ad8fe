"""Actors that act only if they are asked for: `--with NAME`. Each shows a class of faults of its own."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING

from tests.soak import starting
from tests.soak.actor import MOST_ALIVE, Actor, new_life
from tests.soak.kinds import Standin

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator
    from pathlib import Path

    from tests.soak.stage import Stage

A_FILE, A_DANGLING_LINK, A_LOOP = "a file", "a link to nothing", "a link to itself"
OTHER_NAMES = ("oc", "work", "my-agent")


class OtherName(Actor):
    """A person starts an agent by a link of another name: neither its comm nor its argv[0] says what it is."""

    weight = 6

    def act(self, stage: Stage, rng: random.Random) -> str | None:
        agent, directory = rng.choice(stage.agents), rng.choice(stage.world.directories)
        name = rng.choice(OTHER_NAMES)
        if not issubclass(stage.world.lives[agent], Standin) or len(stage.living()) >= MOST_ALIVE:
            return None
        with stage.world.stores.held(agent) as _:
            life = new_life(stage, agent, directory)
            try:
                assert isinstance(life, Standin)
                stage.world.link_program(agent, name)
                starting.by_hand(stage, life, list(life.by_hand), None, **life.environment(), SOAK_NAME=name)
            finally:
                life.lock.release()
        return f"{agent} by hand, by another name"


class StoreAway(Actor):
    """In the place of a store, or of the folder with its sessions, is something else for a while: an unmounted disk."""

    weight = 3

    def act(self, stage: Stage, rng: random.Random) -> str | None:
        agent, seconds, chosen = rng.choice(stage.agents), rng.uniform(0.5, 3.0), rng.random()
        what = rng.choice((A_FILE, A_DANGLING_LINK, A_LOOP))
        kind = stage.world.lives[agent]
        if not issubclass(kind, Standin):
            return None  # it writes whenever it likes
        with stage.world.stores.held(agent) as _:
            places = [stage.world.roots[agent] / name for name in kind.FOLDERS]
            path = places[int(chosen * len(places))]
            if not path.is_dir():
                return None
            with stage.world.stores.closed(agent), away(path, what):
                stage.world.note(f"in the place of {path} is {what}")
                time.sleep(seconds)
            stage.world.note(f"{path} is back")
        return f"in the place of a store is {what}"


@contextlib.contextmanager
def away(path: Path, what: str) -> Iterator[None]:
    aside = path.with_name(f"{path.name}.aside")
    os.rename(path, aside)
    try:
        if what == A_FILE:
            path.write_text("not a folder\n")
        else:
            path.symlink_to(path if what == A_LOOP else path.with_name("not-mounted"))
        yield
    finally:
        path.unlink()
        os.rename(aside, path)


SWITCHED: dict[str, type[Actor]] = {"other-name": OtherName, "store-away": StoreAway}


def named(text: str) -> tuple[type[Actor], ...]:
    """Return the actors of a list like `a,b`."""
    names = [name for name in text.split(",") if name]
    if unknown := [name for name in names if name not in SWITCHED]:
        raise SystemExit(f"no such actor: {', '.join(unknown)}; known: {', '.join(SWITCHED)}")
    return tuple(SWITCHED[name] for name in names)
