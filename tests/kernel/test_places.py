"""A directory is its device and inode; a path is only a name."""

from __future__ import annotations

import errno
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from agentctl.kernel import places, processes
from agentctl.kernel.mounts import mounts_in
from agentctl.kernel.places import ABOVE, BELOW, SAME, Place, relation

if TYPE_CHECKING:
    from pathlib import Path


def of(path: Path) -> Place:
    found = places.of_path(str(path))
    assert found is not None
    return found


def test_where_a_directory_is_seen_from_another(tmp_path: Path) -> None:
    folder, below, beside = tmp_path / "a", tmp_path / "a" / "b" / "c", tmp_path / "ab"
    below.mkdir(parents=True)
    beside.mkdir()
    link = tmp_path / "link"
    link.symlink_to(folder)
    assert relation(of(link), of(folder)) == SAME
    assert relation(of(folder), of(below)) == ABOVE
    assert relation(of(below), of(link)) == BELOW
    assert relation(of(beside), of(folder)) is None
    assert relation(of(tmp_path.parent.parent), of(below)) == ABOVE
    root = places.of_path("/")
    assert root is not None and root.above == frozenset() and relation(root, of(below)) == ABOVE


def test_a_renamed_directory_is_the_same(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    before = of(old)
    old.rename(new)
    old.mkdir()
    assert relation(before, of(new)) == SAME
    assert relation(before, of(old)) is None


def test_no_directory_is_another_answer_than_one_that_cannot_be_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    for path in (tmp_path / "none", tmp_path / "file", tmp_path / "loop", "relative", "/a\0b"):
        assert places.of_path(str(path)) is None

    def closed(*_: object, **__: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", closed)
        unknown = places.of_path(str(tmp_path))
    assert unknown == Place(str(tmp_path), None)
    assert relation(unknown, of(tmp_path)) is None


@pytest.mark.linux
def test_the_directory_of_a_process(tmp_path: Path) -> None:
    old, new = tmp_path / "old" / "in", tmp_path / "new"
    old.mkdir(parents=True)
    child = subprocess.Popen(["sleep", "60"], cwd=old)
    try:
        old.parent.rename(new)
        table = processes.snapshot()
        process = table.get(child.pid)
        assert process is not None
        place = table.place(process)
        assert place is not None
        assert relation(place, of(new / "in")) == SAME
        assert relation(place, of(new)) == BELOW
        assert place.name == str(new / "in")
        assert table.directory(process) == place.at
        (new / "in").rmdir()
        gone = table.place(process)
        assert gone is not None and gone.at == place.at, "it is still in it, though nothing leads there"
    finally:
        child.kill()
        child.wait()
    assert table.place(process) is None
    assert table.directory(process) is None


def test_the_rest_of_a_path() -> None:
    assert places.below("/a/b", "/a") == "/b"
    assert places.below("/a", "/a") == ""
    assert places.below("/", "/") == ""
    assert places.below("/a/b", "/") == "/a/b"
    assert places.below("/ab", "/a") is None


def test_a_mount_names_the_folder_that_it_shows() -> None:
    (mount,) = mounts_in(b"36 35 98:0 /disk\\040one/a /mnt rw - ext4 /dev/x rw\nnonsense\n")
    assert (mount.root, mount.point) == ("/disk one/a", "/mnt")


# What cannot be removed


def test_all_directories_of_a_tree(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "file").touch()
    (folder / "link").symlink_to(tmp_path)
    found = places.contents_of(str(folder))
    assert found.closed == ()
    assert set(found.directories) == {of(path).at for path in (folder, folder / "a", folder / "a" / "b")}


def test_what_cannot_be_removed(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    for name in ("open", "closed", "empty"):
        (folder / name).mkdir(parents=True)
    (folder / "open" / "x").touch()
    (folder / "closed" / "x").touch()

    def may(path: str, _: int) -> bool:
        return os.path.basename(path) not in ("closed", "empty")

    # An empty folder goes, whatever its mode: only the folder around it counts.
    assert places.contents_of(str(folder), may).closed == (f"{folder}/closed: not writable",)
    around = places.contents_of(str(folder), lambda path, _: path != str(tmp_path))
    assert around.closed == (f"{tmp_path}: not writable",)


def test_others_files_in_a_shared_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the sticky bit, as in /tmp, only the owner of a file removes it."""
    folder = tmp_path / "t"
    shared = folder / "shared"
    shared.mkdir(parents=True)
    (shared / "x").touch()
    shared.chmod(0o1777)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert places.contents_of(str(folder)).closed == (f"{shared}/x: of another account",)
    shared.chmod(0o777)
    assert places.contents_of(str(folder)).closed == ()


def test_a_folder_that_cannot_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "t"
    folder.mkdir()

    def closed(_: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "scandir", closed)
    found = places.contents_of(str(folder))
    assert found.closed == (f"{folder}: Permission denied",)
    assert set(found.directories) == {of(folder).at}
