"""How far the reading of records is, for a person who waits."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from agentctl.model import Record
from agentctl.query import sessions
from agentctl.query.count import Count
from agentctl.query.sessions import Scope
from tests.support.many_transcripts import many_transcripts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest

SESSIONS = 30


def test_records_are_counted_and_ids_are_what_is_wanted() -> None:
    told: list[tuple[int, int]] = []
    count = Count(lambda done, wanted: told.append((done, wanted)))
    count.show()
    record = Record("demo", "a", "/r", "done")
    answers = [["a", "b"], ("a", record, "", None), None, ["c"]]
    assert list(count.through(iter(answers))) == answers
    count.show()
    assert told == [(1, 3)]


def test_a_look_tells_how_many_it_has_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader waits for the one who is told, so that what is told lies between nothing and all."""
    ids = many_transcripts(tmp_path / ".claude", SESSIONS)
    env = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "AGENTCTL_HOME": str(tmp_path / "state")}
    told, seen = [], threading.Event()
    through = Count.through

    def slowly(count: Count, answers: Iterator[object]) -> Iterator[object]:
        for answer in through(count, answers):
            yield answer
            if type(answer) is tuple:
                assert seen.wait(60)

    def tell(done: int, wanted: int) -> None:
        told.append((done, wanted))
        seen.set()

    monkeypatch.setattr(Count, "through", slowly)
    look = sessions.settled_look(Scope(since=0.0, agents=("claude-code",)), env, tell=tell)
    assert sorted(session.id for session in look.answer.sessions) == sorted(ids)
    assert told[0] == (1, SESSIONS)
