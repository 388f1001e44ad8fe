"""Wake-ups: none is lost between a look and a sleep, and none comes for nothing."""

from __future__ import annotations

import errno
import os
import socket
import sqlite3
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from agentctl.kernel import stall_guard
from agentctl.kernel import watch as watching
from agentctl.kernel.watch import CHANGED, CLOSED, DUE, ENDED, Inotify, Watch
from agentctl.model import ProcessKey
from tests.support.children import PATIENCE, end_unreaped, true_key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.children import Spawn

pytestmark = pytest.mark.linux


@pytest.fixture
def watch() -> Iterator[Watch]:
    with Watch() as found:
        yield found


def sleep(watch: Watch) -> str:
    return watch.sleep(time.monotonic() + PATIENCE)


def nothing(watch: Watch) -> bool:
    """Nothing has happened since: the time is over at once, and that is all."""
    return watch.sleep(time.monotonic()) == DUE


def test_the_end_of_a_process_wakes(watch: Watch, spawn: Spawn) -> None:
    child = spawn()
    assert watch.cover([true_key(child.pid)], [])  # new: look again
    assert not watch.cover([true_key(child.pid)], [])
    assert nothing(watch)
    threading.Timer(0.05, child.kill).start()
    assert sleep(watch) == ENDED
    assert nothing(watch)  # it ends once


def test_an_end_between_look_and_sleep_is_not_lost(watch: Watch, spawn: Spawn) -> None:
    child = spawn()
    watch.cover([true_key(child.pid)], [])
    end_unreaped(child)
    assert sleep(watch) == ENDED


def test_one_that_has_ended_before_is_new_once_and_never_watched(watch: Watch, spawn: Spawn) -> None:
    child = spawn()
    key = true_key(child.pid)
    end_unreaped(child)
    assert watch.cover([key], [])
    assert not watch.cover([key], [])
    assert watch.blind  # somebody still asks for it: so look more often
    child.wait()
    assert nothing(watch)


def test_another_process_with_that_pid_is_not_it(watch: Watch, spawn: Spawn) -> None:
    child = spawn()
    boot, pid, start = true_key(child.pid)
    for stranger in (ProcessKey(boot, pid, start + 1), ProcessKey("another-boot", pid, start)):
        assert watch.cover([stranger], [])
        assert not watch.cover([stranger], [])
    child.kill()
    child.wait()
    assert nothing(watch)


def test_a_write_between_look_and_sleep_is_not_lost(watch: Watch, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("a")
    assert watch.cover([], [str(path)])
    assert not watch.cover([], [str(path)])
    assert nothing(watch)
    path.write_text("b")
    assert sleep(watch) == CHANGED
    assert nothing(watch)


def test_neither_reading_nor_a_neighbour_wakes(watch: Watch, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("a")
    watch.cover([], [str(path)])
    path.read_text()
    os.listdir(tmp_path)
    (tmp_path / "other").write_text("b")
    (tmp_path / "other").unlink()
    assert nothing(watch)
    path.write_text("b")
    assert sleep(watch) == CHANGED


def test_a_database_wakes_when_it_is_written_not_when_it_is_read(watch: Watch, tmp_path: Path) -> None:
    path = str(tmp_path / "db")
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("pragma journal_mode=wal")
        writer.execute("create table t (x)")
        watch.cover([], [path, f"{path}-wal"])
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as reader:
            assert reader.execute("select count(*) from t").fetchall() == [(0,)]
        assert nothing(watch)
        writer.execute("insert into t values (1)")
        writer.commit()
        assert sleep(watch) == CHANGED


def test_what_is_written_into_a_folder(watch: Watch, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    watch.cover([], [str(folder)])
    (folder / "new").write_text("a")
    assert sleep(watch) == CHANGED
    with (folder / "new").open("a") as file:
        file.write("b")
    assert sleep(watch) == CHANGED
    (folder / "new").unlink()
    assert sleep(watch) == CHANGED
    assert nothing(watch)


def test_a_file_that_was_replaced_is_watched_on(watch: Watch, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("a")
    watch.cover([], [str(path)])
    for text in ("b", "c"):
        (tmp_path / "new").write_text(text)
        (tmp_path / "new").rename(path)
        assert sleep(watch) == CHANGED
        assert not watch.cover([], [str(path)])
        assert nothing(watch)
        with path.open("a") as file:  # in the file that has the name now
            file.write("more")
        assert sleep(watch) == CHANGED
    assert not watch.blind


def test_a_path_that_is_not_there_yet(watch: Watch, tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file"
    watch.cover([], [str(path)])
    assert not watch.blind
    (tmp_path / "else").mkdir()
    assert nothing(watch)
    for step in (path.parent.parent.mkdir, path.parent.mkdir, path.touch):
        step()
        assert sleep(watch) == CHANGED
        assert nothing(watch)
    path.write_text("a")
    assert sleep(watch) == CHANGED


def test_a_folder_that_was_removed_and_comes_again(watch: Watch, tmp_path: Path) -> None:
    path = tmp_path / "folder" / "file"
    path.parent.mkdir()
    path.touch()
    watch.cover([], [str(path), str(path.parent)])
    path.unlink()
    path.parent.rmdir()
    assert sleep(watch) == CHANGED
    path.parent.mkdir()
    assert sleep(watch) == CHANGED
    path.write_text("a")
    assert sleep(watch) == CHANGED
    path.parent.rename(tmp_path / "moved")
    assert sleep(watch) == CHANGED
    path.parent.mkdir()
    assert sleep(watch) == CHANGED


def test_what_is_no_longer_wanted_wakes_nobody(watch: Watch, tmp_path: Path, spawn: Spawn) -> None:
    child = spawn()
    one, two = tmp_path / "one", tmp_path / "two"
    one.touch()
    two.touch()
    watch.cover([true_key(child.pid)], [str(one), str(two)])
    watch.cover([], [str(two)])
    child.kill()
    child.wait()
    one.write_text("a")
    assert nothing(watch)
    two.write_text("a")  # in the same folder, which is still watched
    assert sleep(watch) == CHANGED


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("there", [True, False])
def test_a_folder_above_is_renamed_and_comes_back(watch: Watch, tmp_path: Path, level: int, there: bool) -> None:
    """Nothing happens in the folder of the path itself then."""
    path = tmp_path / "a" / "b" / "c" / "file"
    path.parent.mkdir(parents=True)
    if there:
        path.write_text("x")
    assert watch.cover((), (str(path),))
    moved = path.parents[level]
    for source, target in ((moved, tmp_path / "away"), (tmp_path / "away", moved)):
        source.rename(target)
        assert sleep(watch) == CHANGED
        assert nothing(watch)
    path.write_text("y")
    assert sleep(watch) == CHANGED


def test_what_happens_in_a_folder_above_wakes_nobody(watch: Watch, tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file"
    path.parent.mkdir(parents=True)
    path.touch()
    assert watch.cover((), (str(path),))
    (tmp_path / "other").touch()
    (tmp_path / "a" / "other").mkdir()
    (tmp_path / "a" / "other").rename(tmp_path / "a" / "file")
    assert nothing(watch)


def test_no_room_for_watches_is_no_error(watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not watch.blind
    monkeypatch.setattr(Inotify, "add", lambda self, path, mask: None)  # ENOSPC
    assert watch.cover([], [str(tmp_path)])
    assert watch.blind
    assert not watch.cover([], [str(tmp_path)])
    assert nothing(watch)


def test_without_inotify_at_all(watch: Watch, tmp_path: Path, spawn: Spawn) -> None:
    watch._files.close()
    child = spawn()
    assert watch.cover([true_key(child.pid)], [str(tmp_path)])
    assert watch.blind
    child.kill()
    assert sleep(watch) == ENDED


def test_a_path_on_a_dead_mount_holds_up_nothing(watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dead, released = str(tmp_path / "hung" / "file"), threading.Event()
    real = os.path.isdir
    monkeypatch.setattr(stall_guard, "STALL", 0.2)
    monkeypatch.setattr(os.path, "isdir", lambda path: released.wait(PATIENCE) if "hung" in str(path) else real(path))
    path = tmp_path / "file"
    path.touch()
    assert watch.cover([], [dead, str(path)])
    assert watch.blind
    assert not watch.cover([], [dead, str(path)])
    path.write_text("a")
    assert sleep(watch) == CHANGED
    released.set()


def test_what_a_socket_says_is_in_no_file(watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # its path is short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s")
        watch.cover([], [str(tmp_path / "s")])
        assert watch.blind


def test_events_that_were_too_many_are_a_change(watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.touch()
    watch.cover([], [str(path)])
    monkeypatch.setattr(Inotify, "events", lambda self: iter([(-1, watching.OVERFLOW, "")]))
    assert watch.sleep(time.monotonic()) == CHANGED
    monkeypatch.undo()
    path.write_text("a")
    assert sleep(watch) == CHANGED


def test_the_deadline_is_kept_though_files_change(watch: Watch, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    watch.cover([], [str(path)])
    for _ in range(3):
        path.write_text("a")
        assert watch.sleep(time.monotonic()) == CHANGED


def test_a_reader_that_goes_away_wakes() -> None:
    reader, writer = os.pipe()
    with Watch(reader=writer) as watch:
        assert nothing(watch)  # that one may write is no news
        os.close(reader)
        assert sleep(watch) == CLOSED
    os.close(writer)


def test_what_finds_no_room_is_tried_again(watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.touch()
    with monkeypatch.context() as patched:
        patched.setattr(watch._files, "_add", lambda *_: -1)
        patched.setattr(watch._files, "_errno", lambda: errno.ENOSPC)
        assert watch.cover([], [str(path)])
    assert watch.full and watch.blind
    watch.try_again()
    assert watch.cover([], [str(path)])  # new: it was not watched until now
    assert not watch.full and not watch.blind
    path.write_text("x")
    assert sleep(watch) == CHANGED


def test_a_path_that_is_not_there_is_no_want_of_room(watch: Watch, tmp_path: Path) -> None:
    assert watch.cover([], [str(tmp_path / "a" / "b")])
    assert not watch.full


def test_too_many_instances_are_a_want_of_room_too(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    watch._files.close()
    watch._files.full = True
    watch.try_again()
    assert watch._files.fd is not None and not watch.full
