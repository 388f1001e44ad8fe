"""Many short lives at once: what came and went between two looks is not told; what is told is true, and told once."""

from __future__ import annotations

import random
import subprocess
import uuid
from typing import TYPE_CHECKING

import pytest

from agentctl.live.difference import fold, statuses_of
from agentctl.query.reading import Scope
from agentctl.query.sessions import query
from tests.live.test_difference import check_order
from tests.support.demo_home import COMMAND, TIMEOUT, Home, wait_until
from tests.support.following import Following

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.linux
LIVES = 24
SCRIPTS = ("[[text:x]]", "[[sleep:0.3]]", "[[fail:no]]", "[[bash:sleep 0.5]]", "[[sleep:0.2]] [[ask:true]]", "[[idle]]")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    found = Home(tmp_path)
    yield found
    found.end_all()


def test_many_short_lives(home: Home, tmp_path: Path) -> None:
    rng = random.Random(17)
    with Following(home.env) as following:
        children = []
        for _ in range(LIVES):
            words = ["--session-id", str(uuid.uuid4()), "-p", rng.choice(SCRIPTS)]
            children.append(
                subprocess.Popen(
                    [*COMMAND, *words],
                    env=home.env,
                    cwd=tmp_path,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
            if rng.random() < 0.3:
                rng.choice(children).kill()
        wait_until(lambda: following.events, "the first event")
        for child in children:
            if rng.random() < 0.5:
                try:
                    child.wait(1)
                except subprocess.TimeoutExpired:
                    pass
            child.kill()
            child.wait(TIMEOUT)
        assert following.checkpoint is not None
        start = statuses_of(following.checkpoint)

        def told() -> dict[tuple[str, str], str]:
            return fold([*following.events], start)

        # Nothing changes any more, so one listing is the truth from now on.
        listed = {(one.agent, one.id): one.status for one in query(Scope(since=0.0), home.env).sessions}
        assert query(Scope(), home.env).sessions == ()
        wait_until(lambda: following.error or told().items() <= listed.items(), "the end of all of them")
        assert told()
        check_order(following.events)
