"""Which sessions begin like those that are shown, without listing all."""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING

import pytest

from agentctl.agents.base import Store, is_random
from agentctl.agents.codex.store import Store as CodexStore
from agentctl.query.alike import Alike, alike
from agentctl.query.reading import Reading, Unopened

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from agentctl.agents.base import Agent


class Amber:
    NAME = "amber"


class Listed(Unopened):
    def __init__(self, *ids: str, error: OSError | None = None) -> None:
        super().__init__("/store", "amber")
        self.ids, self.error = ids, error
        self.asked: list[str] = []

    def alike(self, heads: Sequence[str]) -> Iterable[str]:
        self.asked += heads
        if self.error:
            raise self.error
        return [id for id in self.ids if id.startswith(tuple(heads))]


def reading(store: Store, **more: object) -> Reading:
    agent: Agent = Amber()  # type: ignore[assignment]
    return Reading(agent, store)._replace(**more)


TIMED = "0199a1b2-c3d4-7e5f-8123-0123456789ab"


def test_random_ids_cost_nothing() -> None:
    store = Listed()
    ids = [id for id in (str(uuid.uuid4()) for _ in range(50)) if is_random(id)]
    assert len(ids) > 40
    assert alike([("amber", id) for id in ids], (reading(store),)) == Alike()
    assert store.asked == []


@pytest.mark.parametrize("id", [TIMED, "ses_e17dd1003ffeoV2DG5lwVYlNrK", "00000000-0000-4000-8000-000000000001", "x"])
def test_other_ids_are_looked_for(id: str) -> None:
    other = id[:8] + "zzz"
    store = Listed(id, other, "another")
    assert alike([("amber", id), ("blue", "y")], (reading(store),)) == Alike(frozenset({id, other}))
    assert store.asked == [id[:8]]


def test_a_store_that_fails_leaves_its_ids_whole() -> None:
    found = alike([("amber", TIMED)], (reading(Listed(error=OSError("gone"))),))
    assert found == Alike(frozenset(), frozenset({"amber"}))
    unread = alike([("amber", TIMED)], (reading(Listed(), unread="closed"),))
    assert unread.unsure == {"amber"}
    assert alike([("amber", TIMED)], (reading(Listed(), absent=True),)) == Alike()


def test_codex_looks_into_the_days_of_the_ids_only(tmp_path: Path) -> None:
    ids = ["0199a1b2-c3d4-7e5f-8123-0123456789ab", "0199a1b2-c3d5-7e5f-8123-0123456789ab"]
    later = "01a1e822-ec3b-7433-84eb-a83e77c40000"
    for day, id in (("2025/10/02", ids[0]), ("2025/10/01", ids[1]), ("2026/11/17", later)):
        folder = tmp_path / "sessions" / day
        folder.mkdir(parents=True)
        (folder / f"rollout-2025-10-01T00-00-00-{id}.jsonl").touch()
    store = CodexStore(str(tmp_path))
    listed: list[str] = []
    names = store.reader.names

    def noted(folder: str, *more: str) -> list[str]:
        listed.append(os.path.relpath(folder, tmp_path))
        return names(folder, *more)

    store.reader.names = noted  # type: ignore[method-assign, assignment]
    assert set(store.alike([ids[0][:8]])) == set(ids)
    assert "sessions/2026/11/17" not in listed
    assert set(store.alike(["01a1e822"])) == {later}
    assert set(store.alike(["no time!"])) == set()
