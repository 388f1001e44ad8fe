"""What the soak finds wrong in a stream of events."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.soak.oracle import ALIVE, GONE, NOT_THERE, Timeline, Truth
from tests.soak.recording import DOUBLED, FALSE, LOST, Recording
from tests.torture.own_daemon import folded, out_of_order

if TYPE_CHECKING:
    from tests.soak.lives import Life


def event(seq: int, before: str | None, after: str | None, id: str = "a") -> dict[str, Any]:
    turn = {"running": "working", "done": "done", "idle": "idle"}.get(after or "", "working")
    row: dict[str, Any] = {
        "process": GONE if after == "done" else ALIVE,
        "turn": turn,
        "status": after,
        "pid": 5,
        "inferred": False,
    }
    row |= {"reason": None, "evidence": []}
    found = {"type": "session.x", "seq": seq, "log": "l", "id": id, "from": before, "to": after, "session": row}
    return {**found, "at": "1970-01-01T00:00:10.000Z"}


def checkpoint(seq: int, **statuses: str) -> dict[str, Any]:
    return {"type": "checkpoint", "seq": seq, "sessions": [{"id": id, "status": statuses[id]} for id in statuses]}


STREAM = [event(1, None, "running"), event(2, "running", "idle"), event(3, "idle", "done")]


@pytest.mark.parametrize(
    ("entries", "wrong"),
    [
        (STREAM, 0),
        ([], 0),
        ([STREAM[0], STREAM[1], STREAM[1]], 2),
        ([STREAM[0], event(2, "idle", "done")], 1),
        ([STREAM[0], STREAM[2]], 2),
        ([STREAM[0], {"type": "gap", "seq": 9}, checkpoint(9, a="idle"), event(10, "idle", "done")], 0),
        ([STREAM[0], {"type": "gap", "seq": 9}, checkpoint(9, a="idle"), event(10, "running", "done")], 1),
        ([STREAM[0], event(3, None, "running", "b")], 1),
    ],
)
def test_what_is_doubled_or_missing(entries: list[dict[str, Any]], wrong: int) -> None:
    assert len(out_of_order(entries)) == wrong


def test_the_fold() -> None:
    assert folded(STREAM) == {"a": "done"}
    assert folded([*STREAM, event(4, "done", None)]) == {}
    assert folded([*STREAM, checkpoint(9, b="idle"), event(10, None, "running", "c")]) == {"b": "idle", "c": "running"}


class OneLife:
    """A stage with one life, which notes what fails."""

    def __init__(self, *truths: Truth) -> None:
        self.timeline, self.pids, self.has_other_name = Timeline(0.0, *truths), {5}, False
        self.failed: Counter[str] = Counter()
        self.recorded = self.streamed = 0

    def find(self, id: str) -> OneLife:
        return self

    def fail(self, what: str, why: str, life: object = None) -> None:
        self.failed[what] += 1


def recording(stage: OneLife) -> Recording:
    found = Recording.__new__(Recording)
    found.stage, found._judged = cast("Any", stage), set()
    return found


@pytest.mark.parametrize(
    ("truth", "told", "failed"),
    [
        (Truth(ALIVE, "working"), event(1, None, "running"), {}),
        (Truth(ALIVE, "working"), event(1, None, "idle"), {FALSE: 1}),
        (Truth(ALIVE, "working"), event(1, None, "done"), {FALSE: 1}),
        (Truth(GONE, "done"), event(1, None, "running"), {FALSE: 1}),
        (Truth(GONE, "done"), event(1, "running", "done"), {}),
        (Truth(GONE, "done"), event(1, "done", None), {FALSE: 1}),
        (NOT_THERE, event(1, "done", None), {}),
    ],
)
def test_an_event_that_cannot_have_been_so_is_false(
    truth: Truth, told: dict[str, Any], failed: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.soak.recording.wall_to_monotonic", lambda text: 100.0)
    stage = OneLife(truth)
    recording(stage)._judge([told, told])
    assert stage.failed == {**failed, DOUBLED: 2}  # it is in it twice
    assert stage.recorded == 1


@pytest.mark.parametrize(
    ("row", "status", "failed"),
    [
        ({"process": ALIVE, "status": "idle"}, "idle", {}),
        ({"process": ALIVE, "status": "idle"}, "running", {LOST: 1}),
        ({"process": ALIVE, "status": "idle"}, None, {LOST: 1}),
        ({"process": GONE, "status": "done"}, None, {}),
        ({"process": GONE, "status": "done"}, "running", {LOST: 1}),
        ({"process": ALIVE, "status": "idle"}, "unknown", {}),
    ],
)
def test_a_change_that_the_stream_does_not_have_is_lost(
    row: dict[str, Any], status: str | None, failed: dict[str, int]
) -> None:
    stage = OneLife()
    recording(stage)._compare_one(cast("Life", stage), {"id": "a", **row}, status, [])
    assert stage.failed == failed
