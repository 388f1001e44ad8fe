"""A lock is for one directory: the next one that gets its inode is a stranger. Real directories and lock files."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from agentctl.kernel import places
from agentctl.model import Answer
from agentctl.workspace import clean, locks, occupancy
from tests.support.lock_place import Place

if TYPE_CHECKING:
    from pathlib import Path

NOBODY = Answer(sessions=(), unattached=(), problems=())


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def kept_out(place: Place, directory: Path) -> bool:
    """Return whether launch would refuse this directory."""
    here = places.of_path(str(directory))
    assert here is not None
    found = occupancy.conflicts(here, NOBODY, locks.read_all(place.env)[0])
    return any(conflict.kind == occupancy.BLOCKS for conflict in found)


def clean_refuses(place: Place, directory: Path) -> bool:
    """Return whether `worktree clean` would refuse this folder."""
    contents = places.contents_of(str(directory))
    folder = clean.Folder(str(directory), places.of_path(str(directory)), contents.directories)
    return bool(clean.locked_by(folder, *locks.read_all(place.env), place.env))


def give_inode(place: Place, directory: Path) -> None:
    """Do to the lock what a file system does that gives the inode of the removed directory to this one."""
    path = locks.lock_path(place.env, str(place.work))
    with open(path) as file:
        facts = json.load(file)
    with open(path, "w") as file:
        json.dump({**facts, "identity": places.identity(str(directory))}, file)


@pytest.fixture
def stranger(place: Place, tmp_path: Path) -> Path:
    """A directory with the inode of a locked one, which was removed."""
    locks.acquire(place.env, str(place.work))
    place.work.rmdir()
    path = tmp_path / "elsewhere" / "stranger"
    (path / "sub").mkdir(parents=True)
    give_inode(place, path)
    return path


def test_a_lock_notes_when_its_directory_was_made(place: Place) -> None:
    lock = locks.acquire(place.env, str(place.work))
    assert lock.born is not None
    assert lock.born == places.birth(str(place.work))
    assert locks.read_all(place.env)[0] == [lock]


def test_a_stranger_is_not_locked(place: Place, stranger: Path) -> None:
    assert not kept_out(place, stranger)
    assert not kept_out(place, stranger / "sub")
    assert not clean_refuses(place, stranger)
    assert not clean_refuses(place, stranger.parent)
    assert not clean_refuses(place, stranger / "sub")


def test_a_new_directory_of_its_path_is_locked(place: Place, stranger: Path) -> None:
    place.work.mkdir()
    assert kept_out(place, place.work)
    assert not kept_out(place, stranger)


def test_a_renamed_directory_is_locked(place: Place, tmp_path: Path) -> None:
    (place.work / "sub").mkdir()
    locks.acquire(place.env, str(place.work))
    moved = tmp_path / "moved"
    place.work.rename(moved)
    assert kept_out(place, moved)
    assert kept_out(place, moved / "sub")
    assert clean_refuses(place, moved)
    assert clean_refuses(place, moved / "sub")
    assert clean_refuses(place, tmp_path)


@pytest.mark.parametrize("born", [None, "yesterday", True, 1.5])
def test_a_lock_that_does_not_say_when(place: Place, stranger: Path, born: object) -> None:
    """An older version wrote it, or its file system does not tell: then it holds whatever has the inode."""
    path = locks.lock_path(place.env, str(place.work))
    with open(path) as file:
        facts = json.load(file)
    with open(path, "w") as file:
        json.dump({**facts, "born": born}, file)
    assert kept_out(place, stranger)


def test_a_file_system_that_does_not_tell(place: Place, stranger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "born", lambda _: None)
    assert kept_out(place, stranger)
    assert clean_refuses(place, stranger)


def test_births(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "one" / "two"
    two.mkdir(parents=True)
    first = places.birth(str(one))
    assert first is not None
    assert places.birth(str(two), places.identity(str(one))) == first
    os.utime(one, (0, 0))
    assert places.birth(str(one)) == first
    assert places.birth(str(one), (0, 0)) is None
    assert places.birth(str(tmp_path / "none")) is None
    assert places.birth("/proc/self") is None  # a file system without such times
