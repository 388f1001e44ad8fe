"""The log of events: whole lines, numbers that are given once, bounds; and what is missing is said."""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentctl.errors import Refused, UsageError
from agentctl.files.bounded import moment
from agentctl.files.redaction import redact_text
from agentctl.live import entries, segments
from agentctl.live import log as logs
from agentctl.live.difference import TYPES, Event, Seen
from agentctl.live.entries import Filter
from agentctl.live.log import Limits
from agentctl.live.segments import Since, since_of
from agentctl.model import Evidence, Problem, Tokens
from tests.support.event_log import SHAPES, TURNS, folded, one, open_log, replayed, seen, statuses, tell

SMALL = Limits(total=40_000, segment=4_000)


def types(found: list[dict[str, Any]]) -> list[str]:
    return [entry["type"] for entry in found]


def numbers(found: list[dict[str, Any]]) -> list[int]:
    return [entry["seq"] for entry in found if entry["type"] not in ("gap", "checkpoint")]


def test_events_get_numbers_and_can_be_read_again(tmp_path: Path) -> None:
    with open_log(tmp_path / "events") as log:
        assert log.seen is None
        log.begin(seen(one("a")))
        told = [*tell(log, seen(one("a", "waiting"), one("b"))), *tell(log, seen(one("a", "done"), one("b")))]
    assert [entry["seq"] for entry in told] == [1, 2, 3]
    assert {entry["log"] for entry in told} == {log.log}
    assert replayed(tmp_path / "events") == told
    assert replayed(tmp_path / "events", 2) == told[2:]
    assert replayed(tmp_path / "events", 3) == []
    assert (tmp_path / "events" / "000001.ndjson").stat().st_mode & 0o777 == 0o600


def test_what_a_log_says_is_folded_at_the_next_start(tmp_path: Path) -> None:
    full = one("a", "waiting", waiting_for="run?", tokens=Tokens(1, 2), started_at=5.0, processes=({"key": "b:1:2"},))
    full = full._replace(evidence=(Evidence("kernel", "pid 1", "/x", 1, True),), process_key="b:1:2", pid=1)
    now = Seen({("amber", "a"): full}, {("amber", "/s"): Problem("amber", "no", "/s")}, at=7.0)
    with open_log(tmp_path) as log:
        log.begin(seen())
        tell(log, now)
    with open_log(tmp_path) as log:
        assert log.seen is not None
        assert dict(log.seen.sessions) == dict(now.sessions)
        assert dict(log.seen.problems) == dict(now.problems)
        assert log.seq == 2
        late = tell(log, Seen(), late=True)
        assert [(entry["seq"], entry["late"]) for entry in late] == [(3, True), (4, True)]
        assert types(late) == ["agent.recovered", "session.removed"]


def test_a_torn_last_line_is_cut(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.begin(seen())
        tell(log, seen(one("a")))
    path = tmp_path / "000001.ndjson"
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"schema": 1, "seq": 2, "type": "session.don')
    assert numbers(replayed(tmp_path)) == [1]  # nor does a reader see it
    with open_log(tmp_path) as log:
        assert path.read_bytes() == whole
        (event,) = tell(log, seen(one("a", "done")))
    assert numbers(replayed(tmp_path)) == [1, 2]
    assert event["seq"] == 2


def test_there_is_one_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "PATIENCE", 0.0)
    with open_log(tmp_path), pytest.raises(Refused, match="the log of events: another agentctl is at it"):
        open_log(tmp_path).__enter__()
    with open_log(tmp_path):
        pass


def filled(folder: Path, count: int, limits: Limits = SMALL) -> list[dict[str, Any]]:
    """Many changes of two sessions; return what was told."""
    told = []
    with open_log(folder, limits) as log:
        log.begin(seen())
        for turn in range(count):
            told += tell(log, seen(one("a", TURNS[turn % 2]), one("b", TURNS[2 + turn % 4]), at=1000.0 + turn))
    return told


def test_segments_are_bounded_and_each_begins_with_a_checkpoint(tmp_path: Path) -> None:
    told = filled(tmp_path, 200)
    found = sorted(tmp_path.glob("*.ndjson"))
    assert len(found) > 2
    assert sum(path.stat().st_size for path in found) < SMALL.total
    for path in found:
        first = json.loads(path.read_text().splitlines()[0])
        assert (first["type"], first["log"]) == ("checkpoint", told[0]["log"])
    again = replayed(tmp_path, 0)
    assert types(again)[:2] == ["gap", "checkpoint"]  # the oldest have expired, and that is said
    assert again[2:] == told[again[1]["seq"] :]
    assert again[0]["seq"] == again[1]["seq"]
    last = told[-5]["seq"]
    assert replayed(tmp_path, last) == told[-4:]


def test_segments_expire_by_age(tmp_path: Path) -> None:
    filled(tmp_path, 40)
    old, *_, last = sorted(tmp_path.glob("*.ndjson"))
    os.utime(old, (1.0, 1.0))
    os.utime(last, (1.0, 1.0))
    with open_log(tmp_path, SMALL) as log:
        log._new_segment(None)
    assert not old.exists()
    assert len([*tmp_path.glob("*.ndjson")]) > 1


def test_a_segment_that_was_deleted_is_a_gap(tmp_path: Path) -> None:
    told = filled(tmp_path, 100, Limits(segment=4_000))
    _, second, *_ = sorted(tmp_path.glob("*.ndjson"))
    second.unlink()
    found = replayed(tmp_path, 0)
    assert [entry for entry in found if entry["type"] not in ("gap", "checkpoint")] != told
    assert types(found).count("gap") == types(found).count("checkpoint") == 1
    place = types(found).index("gap")
    gap, checkpoint, after = found[place : place + 3]
    assert "deleted" in gap["reason"]
    assert gap["seq"] == checkpoint["seq"] == after["seq"] - 1
    assert folded(found) == folded(told)


def test_the_whole_log_may_be_deleted_while_it_is_written(tmp_path: Path) -> None:
    with open_log(tmp_path / "events") as log:
        log.begin(seen())
        tell(log, seen(one("a")))
        shutil.rmtree(tmp_path / "events")
        (event,) = tell(log, seen(one("a", "done")))
        assert event["seq"] == 2
        found = replayed(tmp_path / "events", 1)
        assert types(found) == ["gap", "checkpoint", "session.done"]
        assert folded(found) == {"a": "done"}


def test_numbers_are_not_given_twice_if_the_end_of_a_log_was_deleted(tmp_path: Path) -> None:
    told = filled(tmp_path, 40, Limits(segment=4_000))
    *_, last = sorted(tmp_path.glob("*.ndjson"))
    last.unlink()
    with open_log(tmp_path) as log:
        log.begin(seen())
        (event, *_) = tell(log, seen(one("c")))
        assert event["log"] != told[0]["log"]
    found = replayed(tmp_path, told[-1]["seq"], log=told[-1]["log"])
    assert types(found)[:2] == ["gap", "checkpoint"]
    assert found[0]["reason"] == segments.OTHER_LOG
    assert folded(found) == {"c": "running"}
    everything = [*segments.replay(str(tmp_path), Since(at=0.5))]
    assert types(everything).count("gap") == 2  # the time before the log, and its lost end
    assert folded(everything) == {"c": "running"}


def test_a_number_that_the_log_does_not_have_is_a_gap(tmp_path: Path) -> None:
    filled(tmp_path, 3)
    found = replayed(tmp_path, 1_000_000)
    assert types(found)[:2] == ["gap", "checkpoint"]
    assert found[0]["reason"] == segments.NOT_YET


@pytest.mark.parametrize(
    "damage", [b"nonsense\n", b"[]\n", b'{"type": "checkpoint", "seq": 1}\n', b"\xff\xfe\n", b"{" * 9999]
)
def test_a_damaged_line_is_a_gap(tmp_path: Path, damage: bytes) -> None:
    with open_log(tmp_path) as log:
        log.begin(seen())
        for turn in TURNS:
            tell(log, seen(one("a", turn)))
    path = tmp_path / "000001.ndjson"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[3] = damage + b"\n"
    path.write_bytes(b"".join(lines))
    found = replayed(tmp_path)
    assert types(found)[2] == "gap"
    assert numbers(found) == [1, 2, 4, 5, 6]
    with open_log(tmp_path) as log:  # the next start begins a new segment: from there on the events are whole
        log.begin(seen())
        assert log.seen is not None and statuses(log.seen) == {"a": "stopped"}
        tell(log, seen(one("a", "working")))
    found = replayed(tmp_path)
    assert types(found)[-3:] == ["gap", "checkpoint", "session.resumed"]


class Disk:
    """os.write on a disk that may be full: half of what is written arrives."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = False
        real = os.write

        def write(fd: int, data: Any) -> int:
            if not self.full:
                return real(fd, data)
            if len(data) > 1:
                return real(fd, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "write", write)


def test_a_full_disk_is_said_and_no_number_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)
    with open_log(tmp_path) as log:
        log.begin(seen())
        tell(log, seen(one("a")))
        disk.full = True
        lost = [*tell(log, seen(one("a", "waiting"))), *tell(log, seen(one("a", "idle")))]
        assert [(entry["seq"], entry["to"]) for entry in lost] == [(None, "waiting"), (None, "idle")]
        assert log.why is not None and "No space left" in log.why
        assert not log.heal()
        assert numbers(replayed(tmp_path)) == [1]
        disk.full = False
        assert log.heal()
        assert not log.lost
        assert log.why is None
        (event,) = tell(log, seen(one("a", "done")))
    found = replayed(tmp_path, 1)
    assert types(found) == ["gap", "checkpoint", "session.done"]
    assert found[0]["reason"].startswith("2 events could not be written to the log: No space left")
    assert found[1]["sessions"][0]["status"] == "idle"
    assert found[2] == event
    for line in (line for path in tmp_path.glob("*.ndjson") for line in path.read_bytes().splitlines()):
        json.loads(line)  # no half lines


def test_killed_while_the_disk_was_full_it_tells_the_rest_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    with open_log(tmp_path) as log:
        log.begin(seen())
        tell(log, seen(one("a")))
        disk.full = True
        tell(log, seen(one("a", "waiting")))
        disk.full = False
    with open_log(tmp_path) as log:
        log.begin(seen(one("a", "waiting")))
        (event,) = tell(log, seen(one("a", "waiting")), late=True)
        assert (event["seq"], event["from"], event["to"], event["late"]) == (2, "running", "waiting", True)


def test_secrets_are_not_in_the_log(tmp_path: Path) -> None:
    key = "sk-" + "a1B2" * 6
    with open_log(tmp_path) as log:
        log.begin(seen(one("a", title=f"use {key}")))
        tell(log, seen(one("a", "done", prompt=f"export API_KEY={key}")))
    text = (tmp_path / "000001.ndjson").read_text()
    assert key not in text
    assert text.count("[redacted]") == 2


def test_what_is_compared_is_not_redacted_again() -> None:
    """A question that reads otherwise after a second redaction would be told once more after each start."""
    entry = SHAPES.event(
        Event("session.waiting", 1.0, "amber", "a", session=one("a", "waiting", waiting_for="TOKEN=x y"))
    )
    assert entries.redacted(entry)["session"]["waiting_for"] == "TOKEN=x y"
    assert redact_text("TOKEN=x y") != "TOKEN=x y"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("0", Since(0)),
        ("120", Since(120)),
        ("3f2a9c01.120", Since(120, "3f2a9c01")),
        ("2h", Since(at=10_000.0 - 7200)),
        ("90s", Since(at=9_910.0)),
        ("1970-01-01T00:10:00Z", Since(at=600.0)),
        ("1970-01-02", Since(at=86400.0)),
    ],
)
def test_since(text: str, meant: Since) -> None:
    assert since_of(text, 10_000.0) == meant


@pytest.mark.parametrize("text", ["", "yesterday", "-1", "1.5", "x.120", "3F2A9C01.1", "9" * 20, "2026-13-45", "12\n"])
def test_since_when(text: str) -> None:
    with pytest.raises(UsageError, match="--since"):
        since_of(text, 10_000.0)


def test_from_a_time_on(tmp_path: Path) -> None:
    told = filled(tmp_path, 100, Limits(segment=4_000))
    for when in (1010.0, 1050.5, 1099.0, 5000.0):
        wanted = [entry for entry in told if (moment(entry["at"]) or 0) >= when]
        assert [*segments.replay(str(tmp_path), Since(at=when))] == wanted
    found = [*segments.replay(str(tmp_path), Since(at=10.0))]
    assert types(found)[:2] == ["gap", "checkpoint"]  # it does not know the time before
    assert found[2:] == told


def test_filters() -> None:
    waiting = {
        **SHAPES.event(Event("session.started", 1.0, "amber", "a", None, "waiting", session=one("a", "waiting")))
    }
    gap = segments.gap_of("l", 1, "why", None)
    everything = frozenset(TYPES)
    assert Filter(everything).of(waiting) == waiting
    assert Filter(frozenset({"session.waiting"})).of(waiting) == waiting
    assert Filter(frozenset({"session.done"})).of(waiting) is None
    assert Filter(everything, ("birch",)).of(waiting) is None
    assert Filter(everything, group="g").of(waiting) is None
    assert Filter(frozenset({"session.done"}), ("birch",), "g").of(gap) == gap
    checkpoint = SHAPES.checkpoint(seen(one("a", group="g"), one("b")))
    shown = Filter(everything, group="g").of(checkpoint)
    assert shown is not None and [session["id"] for session in shown["sessions"]] == ["a"]
    assert Filter(everything - {"checkpoint"}).of(checkpoint) is None


IDS = ("a", "b", "c")
WORLDS = st.dictionaries(st.sampled_from(IDS), st.sampled_from(TURNS))
ACTIONS = st.one_of(
    WORLDS,
    st.sampled_from(["restart", "tear", "full", "room", "rotate", "heal"]),
    st.tuples(st.just("delete"), st.integers(0, 5)),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(ACTIONS, max_size=30))
def test_whatever_happens_the_fold_is_what_was_told_and_no_number_comes_twice(actions: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        Life(Path(name), Disk(patch)).run(actions)


class Life:
    """A log to which things happen, and a subscriber who has read every number that was given."""

    def __init__(self, folder: Path, disk: Disk) -> None:
        self.folder, self.disk = folder, disk
        self.given: dict[tuple[str, int], dict[str, Any]] = {}
        self.now = seen()

    def run(self, actions: list[Any]) -> None:
        self.start()
        for action in actions:
            if isinstance(action, dict):
                self.change(action)
            elif isinstance(action, tuple):
                self.delete(action[1])
            else:
                getattr(self, action)()
            self.check()
        self.log.__exit__()

    def start(self) -> None:
        self.log = open_log(self.folder, Limits(segment=3_000)).__enter__()
        self.log.begin(self.now)
        self.take(tell(self.log, self.now, late=True))

    def change(self, world: dict[str, str]) -> None:
        self.now = seen(*(one(id, turn) for id, turn in world.items()))
        self.take(tell(self.log, self.now))

    def take(self, told: list[dict[str, Any]]) -> None:
        for entry in told:
            if entry["seq"] is not None:
                assert (entry["log"], entry["seq"]) not in self.given
                self.given[(entry["log"], entry["seq"])] = entry

    def restart(self) -> None:
        self.log.__exit__()
        self.start()

    def tear(self) -> None:
        self.log.__exit__()
        if found := segments.names(str(self.folder)):
            with (self.folder / found[-1]).open("ab") as file:
                file.write(b'{"schema": 1, "type": "sess')
        self.start()

    def full(self) -> None:
        self.disk.full = True

    def room(self) -> None:
        self.disk.full = False

    def rotate(self) -> None:
        self.log._new_segment(None) if not self.log.lost else self.log.heal()

    def heal(self) -> None:
        self.log.heal()

    def delete(self, index: int) -> None:
        found = segments.names(str(self.folder))
        if index < len(found):
            (self.folder / found[index]).unlink()

    def check(self) -> None:
        assert self.log.seen is not None and statuses(self.log.seen) == statuses(self.now)
        found = replayed(self.folder)
        for entry in found:
            if entry["type"] not in ("gap", "checkpoint"):
                assert self.given[(entry["log"], entry["seq"])] == entry
        if found and not self.log.lost and self.log.heal():
            known = replayed(self.folder)
            whole = numbers(known) == [*range(1, self.log.seq + 1)]
            assert whole or "gap" in types(known)
