"""The cache of what transcripts say: it changes no answer, whatever happens to the transcripts or to itself."""

from __future__ import annotations

import json
import os
import random
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from agentctl.files import record_cache
from agentctl.files.record_cache import Derived
from agentctl.kernel import processes
from agentctl.model import UNKNOWN, Evidence, Record
from agentctl.query import sessions
from tests.support.caches import changed
from tests.support.stored_home import COUNT, Home, count_reads, settle
from tests.support.transcripts import CLAUDE, CODEX

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """No process is there; and nothing is newer than the process table, so that each question is one look."""
    monkeypatch.setattr(sessions, "snapshot", lambda agents: processes.Processes("boot", [], taken_at=float("inf")))
    return Home(tmp_path)


def test_the_answer_is_the_same_with_and_without_it(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = home.without_cache(monkeypatch)
    assert home.files() == []
    assert home.ask() == plain  # cold
    assert len(home.files()) == 2
    seen = count_reads(monkeypatch)
    assert home.ask() == plain  # warm
    assert seen == []
    assert len(plain.sessions) > COUNT  # some rollouts are of sub-agents


def test_only_we_can_read_it(home: Home) -> None:
    home.ask()
    assert home.cache.stat().st_mode & 0o777 == 0o700
    assert [path.stat().st_mode & 0o777 for path in home.files()] == [0o600, 0o600]


def append(path: Path, chance: random.Random) -> None:
    with open(path, "ab") as file:
        file.write(chance.choice(chance.choice(CLAUDE + CODEX).read_bytes().splitlines(keepends=True)))


def cut(path: Path, chance: random.Random) -> None:
    os.truncate(path, chance.randrange(path.stat().st_size + 1))


def replace(path: Path, chance: random.Random) -> None:
    """By another of the same size and time."""
    data = chance.choice(CLAUDE + CODEX).read_bytes()
    before = path.stat()
    path.unlink()
    path.write_bytes(data.ljust(before.st_size, b"\n")[: before.st_size])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def write_over(path: Path, chance: random.Random) -> None:
    """In place, and with the old time put back: its inode and size are the same, too."""
    before = path.stat()
    data = bytearray(path.read_bytes() or b"x")
    for _ in range(20):
        data[chance.randrange(len(data))] = chance.choice(b'"{}: \nabc')
    path.write_bytes(data[: before.st_size])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def touch(path: Path, chance: random.Random) -> None:
    os.utime(path)


def remove(path: Path, chance: random.Random) -> None:
    path.unlink()


CHANGES = (append, cut, replace, write_over, touch, remove)


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_to_transcripts_is_seen(
    home: Home, seed: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Two changes between every two questions, and each is answered from files and cache alike."""
    home.ask()
    chance = random.Random(seed)
    for _ in range(4):
        for path in chance.sample(home.transcripts(), 10):
            change = chance.choice(CHANGES)
            change(path, chance)
            if path.exists() and chance.random() < 0.5 and change in (append, cut):
                settle(path)
        assert home.ask() == home.without_cache(monkeypatch)
    assert len(home.files()) == 2


def torn(data: bytes) -> bytes:
    return data[: len(data) // 2]


def setting(name: str, value: object) -> Callable[[bytes], bytes]:
    def change(content: dict[str, Any]) -> None:
        content["columns"][name] = [value, *content["columns"][name][1:]]

    return changed(change)


HOSTILE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "torn": torn,
    "zeros": lambda data: b"\0" * len(data),
    "not text": lambda data: b"\xff\xfe" + data,
    "nested": lambda data: b"[" * 100_000,
    "a list": lambda data: b"[]",
    "a number": lambda data: b"7",
    "no columns": changed(lambda content: content.pop("columns")),
    "columns of lists": changed(lambda content: content.update(columns=[])),
    "one column less": changed(lambda content: content["columns"].pop("title")),
    "one column more": changed(lambda content: content["columns"].update(process=[])),
    "a short column": changed(lambda content: content["columns"]["title"].pop()),
    "of other code": changed(lambda content: content.update(code="1 2")),
    "of another store": changed(lambda content: content.update(about="/elsewhere")),
    "a title that is a table": setting("title", {"a": 1}),
    "a title that is a number": setting("title", 7),
    "no turn": setting("turn", None),
    "a turn of its own": setting("turn", "alive"),
    "an unknown turn": setting("turn", UNKNOWN),
    "a time before time": setting("updated_at", -1),
    "a time after time": setting("updated_at", 10**400),
    "no time": setting("started_at", float("nan")),
    "a size that is true": setting("size", True),
    "inferred by a word": setting("inferred", "yes"),
    "a name that is none": setting("name", None),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_file_that_is_not_as_we_write_it_is_ignored_and_replaced(home: Home, name: str) -> None:
    plain = home.ask()
    good = {path: path.read_bytes() for path in home.files()}
    for path, data in good.items():
        path.write_bytes(HOSTILE[name](data))
        assert path.read_bytes() != data
    assert home.ask() == plain
    assert {path: path.read_bytes() for path in home.files()} == good


def test_a_file_that_others_can_write_is_ignored_and_replaced(home: Home) -> None:
    plain = home.ask()
    for path in home.files():
        path.write_bytes(setting("title", "a lie")(path.read_bytes()))
        path.chmod(0o622)
    assert home.ask() == plain
    assert [path.stat().st_mode & 0o777 for path in home.files()] == [0o600, 0o600]


@pytest.mark.parametrize("kind", ["link", "fifo", "folder"])
def test_what_is_no_file_is_not_read(home: Home, kind: str, tmp_path: Path) -> None:
    plain = home.ask()
    for number, path in enumerate(home.files()):
        lie = setting("title", "a lie")(path.read_bytes())
        path.unlink()
        if kind == "link":
            (tmp_path / f"lie{number}").write_bytes(lie)
            path.symlink_to(tmp_path / f"lie{number}")
        elif kind == "fifo":
            os.mkfifo(path)
        else:
            path.mkdir()
    assert home.ask() == plain


def test_a_folder_that_cannot_be_written_costs_only_time(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    (home.folder / "cache").write_text("not a folder")
    assert home.ask() == home.without_cache(monkeypatch)


def test_it_can_be_deleted_at_any_time(home: Home) -> None:
    plain = home.ask()
    shutil.rmtree(home.cache)
    assert home.ask() == plain
    assert len(home.files()) == 2


def test_what_is_gone_from_the_store_goes_from_it(home: Home) -> None:
    home.ask()
    for path in home.transcripts()[:5]:
        path.unlink()
    home.ask()
    (claude, _) = home.files()
    assert len(json.loads(claude.read_bytes())["columns"]["name"]) == COUNT - 5


def test_a_file_that_was_never_finished_is_removed_after_a_while(home: Home) -> None:
    home.ask()
    name = home.files()[0].name
    home.files()[0].unlink()
    (old, new, other) = (home.cache / found for found in (f"{name}.1", f"{name}.2", "usage-a.json.1"))
    for path in (old, new, other):
        path.write_text("")
    os.utime(old, (0, 0))
    os.utime(other, (0, 0))
    home.ask()
    assert not old.exists()
    assert new.exists()
    assert other.exists()


def test_a_transcript_that_was_just_written_is_not_kept(tmp_path: Path) -> None:
    """It may be written again within the same tick of its clock, with the same size."""
    path = tmp_path / "a.jsonl"
    path.write_text("x")
    record = Record("a", "i", str(tmp_path), "done", path=str(path), evidence=(Evidence("store", "x", str(path)),))
    cache = Derived(str(tmp_path / "cache"), "a", str(tmp_path))
    cache.load(1)
    assert cache.through("i", str(path), None, lambda: record) == record
    cache.save(whole=True)
    assert not (tmp_path / "cache").exists()
    settle(path)
    assert cache.through("i", str(path), None, lambda: record)._replace(stamp=None) == record
    cache.save(whole=True)
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_a_transcript_that_changes_while_it_is_read_is_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("x")
    settle(path)
    record = Record("a", "i", str(tmp_path), "done", path=str(path), evidence=(Evidence("store", "x", str(path)),))

    def read() -> Record:
        path.write_text("xy")
        return record

    cache = Derived(str(tmp_path / "cache"), "a", str(tmp_path))
    assert cache.through("i", str(path), None, read) == record
    cache.save(whole=True)
    assert not (tmp_path / "cache").exists()


def test_very_many_are_saved_while_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is interrupted, or gives up, need not begin anew."""
    monkeypatch.setattr(record_cache, "SAVE_EVERY", 2)
    monkeypatch.setattr(record_cache, "SAVE_AFTER", 0.0)
    root = str(tmp_path)

    def ask(cache: Derived, name: str) -> list[str]:
        """Which transcripts were read for it."""
        path, read = tmp_path / name, []
        if not path.exists():
            path.write_text("x")
            settle(path)

        def reader() -> Record:
            read.append(name)
            return Record("a", name, root, "done", path=str(path), evidence=(Evidence("store", "x", str(path)),))

        cache.through(name, str(path), None, reader)
        return read

    cache = Derived(str(tmp_path / "cache"), "a", root)
    cache.load(3)
    assert [ask(cache, name) for name in "abc"] == [["a"], ["b"], ["c"]]
    again = Derived(str(tmp_path / "cache"), "a", root)  # as if the first one had been killed
    again.load(3)
    assert [ask(again, name) for name in "abc"] == [[], [], ["c"]]


def test_every_fact_of_a_record_comes_back(tmp_path: Path) -> None:
    """A field that is added to Record is kept, too, or is said here not to be."""
    not_kept = {"agent", "id", "store", "path", "tokens", "written_at", "fresh", "stamp", "evidence"}
    assert set(Record.__annotations__) == {*record_cache.FIELDS, *not_kept} - {"said", "brief"}
    path = tmp_path / "a.jsonl"
    path.write_text("x")
    settle(path)
    words: dict[str, Any] = {name: f"{name} \udc80 ä" for name in record_cache.WORDS if name not in ("turn", "said")}
    numbers: dict[str, Any] = {name: index + 0.5 for index, name in enumerate(record_cache.NUMBERS)}
    said = Evidence("store", "a fact", str(path))
    record = Record("a", "i", str(tmp_path), "failed", inferred=True, path=str(path), evidence=(said,))
    record = record._replace(**words, **numbers)
    for _ in range(2):
        cache = Derived(str(tmp_path / "cache"), "a", str(tmp_path))
        assert cache.load(1)
        found = cache.through("i", str(path), None, lambda: record)
        assert found._replace(stamp=None) == record
        cache.save(whole=True)
    assert found.stamp == (path.stat().st_mtime_ns, path.stat().st_size)


def test_few_transcripts_are_not_worth_the_whole_cache(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.ask()
    monkeypatch.setattr(record_cache, "WORTH_LOADING", 1)
    seen = count_reads(monkeypatch)
    home.ask()
    assert len(seen) >= 2 * COUNT
