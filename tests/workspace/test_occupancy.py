"""Who keeps another agent out of a directory: a table."""

from __future__ import annotations

from typing import Any

import pytest

from agentctl.kernel.places import Place
from agentctl.kernel.processes import Processes
from agentctl.kernel.source import Source
from agentctl.model import (
    ALIVE,
    DONE,
    FAILED,
    GONE,
    IDLE,
    INTERRUPTED,
    UNKNOWN,
    WAITING,
    WORKING,
    Answer,
    Launch,
    Process,
    ProcessKey,
    Session,
    Unattached,
    status_word,
)
from agentctl.workspace.occupancy import Conflict, Lock, Where, conflicts, holders, launches_that_live

HERE, ABOVE, BELOW, BESIDE = "/w/repo", "/w", "/w/repo/src", "/w/repository"
BLOCKS, WARNS, ANCESTOR = ["blocks"], ["warns"], ["ancestor"]
NOTHING: list[str] = []


def place(path: str, name: str | None = None) -> Place:
    """Return a directory that is known by its path: each has a number."""
    above = [path] if path != "/" else []
    while above and above[-1] != "/":
        above.append(above[-1].rpartition("/")[0] or "/")
    return Place(name or path, number(path), frozenset(map(number, above[1:])))


def number(path: str) -> tuple[int, int]:
    return (1, int.from_bytes(path.encode()))


class Named(Where):
    """Knows directories by their paths."""

    def __init__(self, links: dict[str, str] | None = None) -> None:
        super().__init__()
        self._links = links or {}

    def named(self, path: str) -> Place | None:
        return place(self._links.get(path, path), path)


def key(pid: int) -> ProcessKey:
    return ProcessKey("boot", pid, pid * 10)


def session(process: str, turn: str, cwd: str | None = HERE, pid: int = 7, **more: Any) -> Session:
    given = {"cwd": cwd, "pid": pid, "process_key": str(key(pid)), **more}
    return Session("s-1", "amber", status_word(process, turn), process, turn, **given)


def unattached(cwd: str | None = HERE, launch_id: str | None = None) -> Unattached:
    return Unattached("amber", 8, cwd, "no file", (), launch_id)


def launch(cwd: str = HERE, id: str = "l1", pid: int = 9) -> Launch:
    return Launch(id, "amber", ("amber",), (), cwd, key(pid - 1), key(pid), 5.0, True, True)


def lock(directory: str = HERE, reason: str | None = None) -> Lock:
    return Lock(directory, "ann@host", reason, 1.0, None)


def see(
    *facts: Session | Unattached | Launch | Lock, ancestors: tuple[ProcessKey, ...] = (), directory: str = HERE
) -> list[Conflict]:
    def all_of(kind: type) -> Any:
        return tuple(fact for fact in facts if isinstance(fact, kind))

    answer = Answer(all_of(Session), all_of(Unattached), ())
    return conflicts(place(directory), answer, all_of(Lock), all_of(Launch), ancestors, Named())


@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        # A foreign session in this directory
        (session(ALIVE, WORKING), BLOCKS),
        (session(ALIVE, WAITING), BLOCKS),
        (session(ALIVE, IDLE), WARNS),
        (session(ALIVE, UNKNOWN), WARNS),
        (session(UNKNOWN, WORKING, rule="candidate"), BLOCKS),
        (session(UNKNOWN, WAITING, rule="candidate"), BLOCKS),
        (session(UNKNOWN, UNKNOWN, rule="candidate"), WARNS),
        (session(UNKNOWN, WORKING, rule="newer"), BLOCKS),
        (session(UNKNOWN, WORKING, rule="stranger"), WARNS),
        (session(UNKNOWN, WORKING, rule="supervised"), WARNS),
        (session(UNKNOWN, WORKING, rule="unseen"), BLOCKS),
        (session(UNKNOWN, WORKING, rule="elsewhere"), BLOCKS),
        (session(UNKNOWN, IDLE, rule="elsewhere"), NOTHING),
        (session(UNKNOWN, UNKNOWN, rule="unread"), NOTHING),
        (session(GONE, DONE), NOTHING),
        (session(GONE, FAILED), NOTHING),
        (session(GONE, INTERRUPTED), NOTHING),
        # A live one of which nothing tells where it works
        (session(ALIVE, WORKING, cwd=None), BLOCKS),
        (session(ALIVE, IDLE, cwd=None), NOTHING),
        (session(UNKNOWN, WORKING, cwd=None, rule="unseen"), NOTHING),
        # One that we launched
        (session(ALIVE, WORKING, launch_id="l1"), BLOCKS),
        (session(ALIVE, IDLE, launch_id="l1"), BLOCKS),
        (session(ALIVE, UNKNOWN, launch_id="l1"), BLOCKS),
        (session(UNKNOWN, WORKING, launch_id="l1", rule="candidate"), BLOCKS),
        (session(GONE, DONE, launch_id="l1"), NOTHING),
        (launch(), BLOCKS),
        # A process that no session explains
        (unattached(launch_id="l1"), BLOCKS),
        (unattached(), WARNS),
        (unattached(cwd=None), NOTHING),
        # Above and below
        (session(ALIVE, WORKING, ABOVE), WARNS),
        (session(ALIVE, WORKING, BELOW), WARNS),
        (session(ALIVE, WAITING, BELOW), WARNS),
        (session(ALIVE, WORKING, "/"), WARNS),
        (session(ALIVE, IDLE, ABOVE), NOTHING),
        (session(ALIVE, IDLE, ABOVE, launch_id="l1"), NOTHING),
        (session(ALIVE, WORKING, BESIDE), NOTHING),
        (unattached(ABOVE), NOTHING),
        (unattached(ABOVE, "l1"), WARNS),
        (launch(BELOW), WARNS),
        (launch(BESIDE), NOTHING),
        # What people locked
        (lock(), BLOCKS),
        (lock(ABOVE), BLOCKS),
        (lock(BELOW), WARNS),
        (lock(BESIDE), NOTHING),
    ],
)
def test_who_blocks_and_who_warns(fact: Session | Unattached | Launch | Lock, expected: list[str]) -> None:
    found = see(fact)
    assert [one.kind for one in found] == expected
    for one in found:
        assert one.who in one.why


@pytest.mark.parametrize(
    ("fact", "ancestors", "expected"),
    [
        (session(ALIVE, WORKING), (key(7),), ANCESTOR),
        (session(ALIVE, WORKING, launch_id="l1"), (key(3), key(7), key(1)), ANCESTOR),
        (session(ALIVE, WORKING), (ProcessKey("boot", 7, 71),), BLOCKS),
        (session(ALIVE, WORKING), (key(6),), BLOCKS),
        (session(ALIVE, WORKING, pid=6, processes=({"pid": 7, "key": str(key(7))},)), (key(7),), ANCESTOR),
        (session(ALIVE, WORKING, ABOVE), (key(7),), WARNS),
        (unattached(), (key(8),), ANCESTOR),
        (unattached(launch_id="l1"), (key(8),), ANCESTOR),
        (launch(), (key(9),), ANCESTOR),
    ],
)
def test_our_own_ancestor(
    fact: Session | Unattached | Launch, ancestors: tuple[ProcessKey, ...], expected: Any
) -> None:
    found = see(fact, ancestors=ancestors)
    assert [one.kind for one in found] == expected
    assert ("--worktree" in found[0].why) == (expected == ANCESTOR)


def test_the_words() -> None:
    assert see(session(ALIVE, WAITING)) == [Conflict("blocks", "s-1", "amber s-1 is waiting")]
    assert see(lock(reason="release")) == [Conflict("blocks", "ann@host", "locked by ann@host: release")]
    assert see(lock(ABOVE)) == [Conflict("blocks", "ann@host", "locked by ann@host in /w, above it")]
    assert see(session(ALIVE, WORKING, BELOW))[0].why == "amber s-1 is running in /w/repo/src, below it"


def test_a_launch_is_one_holder_however_often_it_is_seen() -> None:
    assert [one.who for one in see(session(ALIVE, IDLE, launch_id="l1"), launch())] == ["s-1"]
    assert [one.who for one in see(unattached(launch_id="l1"), launch())] == ["l1"]
    assert [one.who for one in see(session(ALIVE, IDLE, launch_id="l2"), launch())] == ["s-1", "l1"]


def test_a_launch_whose_session_has_ended_but_not_its_process() -> None:
    assert [one.who for one in see(session(GONE, DONE, launch_id="l1"), launch())] == ["l1"]


def test_what_blocks_comes_first() -> None:
    kinds = [one.kind for one in see(unattached(), session(ALIVE, WORKING), launch(), lock(BELOW), ancestors=(key(7),))]
    assert kinds == ["blocks", "ancestor", "warns", "warns"]


def test_the_root_directory() -> None:
    assert [one.kind for one in see(session(ALIVE, WORKING), directory="/")] == WARNS
    assert [one.kind for one in see(session(ALIVE, WORKING, "/"), directory="/")] == BLOCKS


def test_links_are_followed() -> None:
    answer = Answer((session(ALIVE, WORKING, "/link"),), (), ())
    (found,) = conflicts(place(HERE), answer, where=Named({"/link": HERE}))
    assert (found.kind, found.why) == (
        "blocks",
        "amber s-1 is running in /link, which is the same directory",
    )


def test_a_lock_follows_its_directory() -> None:
    """It was renamed, and perhaps there is a new one with its path: both are locked."""
    moved = lock("/w/old")._replace(identity=number(HERE))
    for directory in (HERE, BELOW, "/w/old"):
        (found,) = conflicts(place(directory), Answer((), (), ()), [moved], where=Named())
        assert found.kind == "blocks", directory
    assert conflicts(place(BESIDE), Answer((), (), ()), [moved], where=Named()) == []


class Looks(Source):
    """Knows the directories of processes."""

    def __init__(self, places: dict[int, Place | None]) -> None:
        self._places = places

    def place(self, process: Process) -> Place | None:
        return self._places[process.pid]


@pytest.mark.parametrize(
    ("directory", "expected"),
    [
        (None, NOTHING),  # it has given up its directory since the table was read: it is about to end
        (Place("?", None), BLOCKS),  # we may not look
        (place(HERE), BLOCKS),
        (place(BESIDE), NOTHING),
    ],
)
def test_one_that_ends_while_we_look_is_in_no_directory(directory: Place | None, expected: list[str]) -> None:
    processes = Processes("boot", [Process(key(8), 1, "x", "S")], Looks({8: directory}))
    answer = Answer((), (unattached(None, launch_id="l1"),), ())
    assert [one.kind for one in conflicts(place(HERE), answer, where=Where(processes))] == expected


def test_one_that_we_launched_works_where_we_launched_it() -> None:
    """Also if its process cannot be looked at."""
    for directory, expected in ((HERE, BLOCKS), (BESIDE, NOTHING)):
        assert [one.kind for one in see(unattached(None, launch_id="l1"), launch(directory))] == expected


def test_since_when() -> None:
    answer = Answer((session(ALIVE, WORKING, started_at=3.0),), (unattached(),), ())
    assert [holder.since for holder in holders(answer, [launch()])] == [3.0, None, 5.0]


def table(*rows: tuple[int, int]) -> Processes:
    return Processes("boot", [Process(key(pid), parent, "x", "S") for pid, parent in rows])


def test_ancestors() -> None:
    assert table((9, 4), (4, 1), (1, 0), (5, 4)).ancestors(9) == (key(9), key(4), key(1))
    assert table((9, 4), (4, 9)).ancestors(9) == (key(9), key(4)), "a torn table has an end, too"
    assert table((1, 0)).ancestors(9) == ()


def test_launches_that_live() -> None:
    living, other = launch(pid=9), launch(id="l2", pid=19)
    assert launches_that_live([living, other], table((9, 1), (18, 1))) == [living]
