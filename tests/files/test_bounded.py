"""Reading files that other programs write, or that somebody made to hurt: bounded, never blocking, never guessing."""

from __future__ import annotations

import json
import math
import os
import socket
import tempfile
import time
import tracemalloc
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentctl.files import bounded

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NO_LIMIT = 1 << 40
MB = 1024 * 1024

# Lines whose ends fall before, on and behind the borders of small chunks.
CHUNKS = st.integers(1, 12)
LINES = st.lists(st.binary(max_size=30).map(lambda data: data.replace(b"\n", b"x")), max_size=12)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


class File:
    """A file with this content, for tests that hypothesis runs many times."""

    def __init__(self, data: bytes) -> None:
        self._file = tempfile.NamedTemporaryFile()
        self._file.write(data)
        self._file.flush()

    def __enter__(self) -> str:
        return self._file.name

    def __exit__(self, *_: object) -> None:
        self._file.close()


def filled(lines: list[bytes]) -> list[bytes]:
    return [line for line in lines if line]


# Lines from the end


@settings(deadline=None)
@given(lines=LINES, finished=st.booleans(), chunk=CHUNKS)
def test_backward_is_the_reverse_of_the_lines(lines: list[bytes], finished: bool, chunk: int) -> None:
    data = b"\n".join(lines) + (b"\n" if finished else b"")
    with File(data) as path, mock.patch.object(bounded, "CHUNK", chunk):
        assert list(bounded.lines_backward(path, NO_LIMIT)) == filled(lines)[::-1]


@settings(deadline=None)
@given(lines=LINES, chunk=CHUNKS, limit=st.integers(0, 200))
def test_backward_gives_whole_lines_from_the_last_bytes_only(lines: list[bytes], chunk: int, limit: int) -> None:
    data = b"\n".join(lines)
    with File(data) as path, mock.patch.object(bounded, "CHUNK", chunk):
        found = list(bounded.lines_backward(path, limit))
    assert found == filled(lines)[::-1][: len(found)]
    tail = data[-limit:] if limit else b""
    whole = tail.split(b"\n")[0 if limit >= len(data) else 1 :]
    assert found == filled(whole)[::-1]


@settings(deadline=None)
@given(lines=LINES, chunk=CHUNKS, longest=st.integers(1, 30))
def test_backward_passes_over_lines_that_are_too_long(lines: list[bytes], chunk: int, longest: int) -> None:
    data = b"\n".join(lines)
    with (
        File(data) as path,
        mock.patch.object(bounded, "CHUNK", chunk),
        mock.patch.object(bounded, "LINE_LIMIT", longest),
    ):
        found = list(bounded.lines_backward(path, NO_LIMIT))
    assert found == [line for line in filled(lines)[::-1] if len(line) <= longest]


def test_backward_over_real_chunks(path: Path) -> None:
    lines = [bytes([65 + size % 26]) * size for size in range(bounded.CHUNK - 2, bounded.CHUNK + 3)]
    path.write_bytes(b"\n".join(lines) + b"\n")
    assert list(bounded.lines_backward(str(path), NO_LIMIT)) == lines[::-1]


def test_backward_reads_no_more_than_is_asked_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(b"x" * 99 + b"\n" + b"last\n")
    asked = []
    real = os.pread

    def pread(fd: int, size: int, position: int) -> bytes:
        asked.append(size)
        return real(fd, size, position)

    monkeypatch.setattr(os, "pread", pread)
    monkeypatch.setattr(bounded, "CHUNK", 8)
    lines = bounded.lines_backward(str(path), 50)
    assert next(lines) == b"last"
    assert sum(asked) == 8  # and not before the next line is wanted
    assert list(lines) == []
    assert sum(asked) == 50


def test_backward_gives_an_unfinished_last_line_as_it_is(path: Path) -> None:
    path.write_bytes(b'{"a": 1}\n{"b": ')
    assert list(bounded.lines_backward(str(path), NO_LIMIT)) == [b'{"b": ', b'{"a": 1}']


def test_backward_does_not_glue_lines_of_a_file_that_shrinks_meanwhile(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded, "CHUNK", 8)
    path.write_bytes(b"one two three\nfour five six\nseven\n")
    lines = bounded.lines_backward(str(path), NO_LIMIT)
    assert next(lines) == b"seven"
    os.truncate(path, 10)
    assert b"".join(lines) in (b"", b"one two th")


def sparse(path: Path, size: int, tail: bytes) -> None:
    with open(path, "wb") as file:
        file.seek(size)
        file.write(tail)


def memory_of(lines: Iterator[bytes]) -> tuple[list[bytes], int]:
    tracemalloc.start()
    try:
        return list(lines), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_line_of_200_mb_is_passed_over_and_costs_no_memory(path: Path) -> None:
    sparse(path, 200 * MB, b"end of the long line\nlast\n")
    found, most = memory_of(bounded.lines_backward(str(path), NO_LIMIT))
    assert found == [b"last"]
    assert most < bounded.LINE_LIMIT + MB
    found, most = memory_of(bounded.lines_forward(str(path), NO_LIMIT))
    assert found == [b"last"]
    assert most < bounded.LINE_LIMIT + MB


def test_a_line_of_the_greatest_length_is_given(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "LINE_LIMIT", MB)
    path.write_bytes(b"x" * (MB + 1) + b"\n" + b"y" * MB + b"\nlast\n")
    assert list(bounded.lines_backward(str(path), NO_LIMIT)) == [b"last", b"y" * MB]
    assert list(bounded.lines_forward(str(path), NO_LIMIT)) == [b"y" * MB, b"last"]


# Lines from the beginning


@settings(deadline=None)
@given(lines=LINES, chunk=CHUNKS)
def test_forward_gives_the_finished_lines(lines: list[bytes], chunk: int) -> None:
    with File(b"\n".join(lines)) as path, mock.patch.object(bounded, "CHUNK", chunk):
        assert list(bounded.lines_forward(path, NO_LIMIT)) == filled(lines[:-1])


@settings(deadline=None)
@given(lines=LINES, chunk=CHUNKS, limit=st.integers(0, 200))
def test_forward_gives_whole_lines_from_the_first_bytes_only(lines: list[bytes], chunk: int, limit: int) -> None:
    data = b"\n".join(lines)
    with File(data) as path, mock.patch.object(bounded, "CHUNK", chunk):
        assert list(bounded.lines_forward(path, limit)) == filled(data[:limit].split(b"\n")[:-1])


@settings(deadline=None)
@given(lines=LINES, chunk=CHUNKS, longest=st.integers(1, 30))
def test_forward_passes_over_lines_that_are_too_long(lines: list[bytes], chunk: int, longest: int) -> None:
    with (
        File(b"".join(line + b"\n" for line in lines)) as path,
        mock.patch.object(bounded, "CHUNK", chunk),
        mock.patch.object(bounded, "LINE_LIMIT", longest),
    ):
        assert list(bounded.lines_forward(path, NO_LIMIT)) == [line for line in filled(lines) if len(line) <= longest]


# What is not a file


@pytest.fixture(params=["fifo", "directory", "socket", "device"])
def no_file(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.chdir(tmp_path)  # the name of a socket may not be long
    place = "it"
    with socket.socket(socket.AF_UNIX) as listener:
        if request.param == "fifo":
            os.mkfifo(place)
        elif request.param == "directory":
            os.mkdir(place)
        elif request.param == "socket":
            listener.bind(place)
        else:
            place = os.devnull
        yield place


def test_what_is_not_a_file_is_an_error_and_nothing_waits_for_it(no_file: str) -> None:
    for read in (
        lambda: bounded.read_bytes(no_file),
        lambda: bounded.read_json(no_file),
        lambda: next(bounded.lines_backward(no_file, NO_LIMIT)),
        lambda: next(bounded.lines_forward(no_file, NO_LIMIT)),
    ):
        with pytest.raises(OSError):
            read()


@pytest.mark.parametrize("no_file", ["fifo", "directory", "device"], indirect=True)
def test_it_is_said_that_it_is_no_file(no_file: str) -> None:
    before = len(os.listdir("/dev/fd"))
    with pytest.raises(bounded.NotRegular, match=no_file):
        bounded.read_bytes(no_file)
    assert len(os.listdir("/dev/fd")) == before


def test_a_missing_file_is_missing(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        bounded.read_json(str(path))


def test_read_bytes_stops_at_its_limit(path: Path) -> None:
    path.write_bytes(b"x" * (3 * MB))
    assert len(bounded.read_bytes(str(path))) == 3 * MB
    assert len(bounded.read_bytes(str(path), limit=MB + 1)) == MB + 1
    assert bounded.read_bytes(str(path), limit=0) == b""


# One JSON object


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "TORN_PAUSE", 0)


@pytest.mark.parametrize(
    "data",
    [
        b'{"a": 1}',
        b' \n{"a": 1}\n',
        b'{"a": 1}d tail of a longer one"}',
        b'{"a": 1}{"a": 2}',
        b'{"a": 1}\0\0\0',
        b'{"a": 1}\xff\xfe',
    ],
)
def test_an_object_and_what_may_follow_it(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    assert bounded.read_json(str(path)) == {"a": 1}


def test_bad_utf8_inside_an_object_is_replaced(path: Path) -> None:
    path.write_bytes(b'{"a": "\xff"}')
    assert bounded.read_json(str(path)) == {"a": "\ufffd"}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"   ",
        b'{"a": ',
        b'{"a": "half a te',
        b"[1]",
        b"null",
        b"12",
        b"\0\0\0\0",
        b'\0{"a": 1}',
        b"{\0}",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"a": ' + b"9" * 5000 + b"}",
    ],
    ids=lambda data: repr(data[:12]),
)
@pytest.mark.usefixtures("no_pause")
def test_what_is_no_object_is_torn(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    with pytest.raises(bounded.Torn, match=str(path)):
        bounded.read_json(str(path))


def test_a_half_written_object_is_read_when_it_is_whole(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(b'{"a": ')

    def meanwhile(_: float) -> None:
        path.write_bytes(b'{"a": 1}')

    monkeypatch.setattr(time, "sleep", meanwhile)
    assert bounded.read_json(str(path)) == {"a": 1}


# One line of JSONL


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b'{"a": "half',
        b"[]",
        b"1",
        b'"text"',
        b"\0",
        b"\0" * 1000,
        b'{"a"\0: 1}',
        b'{"a": "\xff"}',
        b"\xff\xfe{}",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"a": ' + b"9" * 5000 + b"}",
        b'{"a": 1} {"b": 2}',
    ],
    ids=lambda line: repr(line[:12]),
)
def test_a_line_that_is_no_object_is_none(line: bytes) -> None:
    assert bounded.decode(line) is None


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_no_line_breaks_decode(line: bytes) -> None:
    found = bounded.decode(line)
    assert found is None or isinstance(found, dict)


@settings(deadline=None)
@given(st.dictionaries(st.text(), st.one_of(st.text(), st.integers(), st.booleans(), st.none())))
def test_an_object_is_decoded(value: dict[str, object]) -> None:
    assert bounded.decode(json.dumps(value).encode()) == value


# Folders


def test_names_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    assert bounded.names(str(tmp_path)) == ["a"]
    assert bounded.names(str(tmp_path / "missing")) == []
    with pytest.raises(NotADirectoryError):
        bounded.names(str(tmp_path / "a"))


def test_files_by_the_time_of_their_last_change(tmp_path: Path) -> None:
    times = {"no_time.jsonl": -1, "old.jsonl": 100, "edge.jsonl": 200, "new.jsonl": 300, "new.txt": 300}
    for name, moment in times.items():
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (bounded.EARLIEST + moment, bounded.EARLIEST + moment))
    (tmp_path / "dangling.jsonl").symlink_to(tmp_path / "nowhere")
    failed: list[bounded.Failed] = []
    found = {
        name: stat and stat.st_mtime - bounded.EARLIEST
        for name, stat in bounded.modified_since(str(tmp_path), ".jsonl", bounded.EARLIEST + 200, failed)
    }
    assert found == {"no_time.jsonl": -1, "edge.jsonl": 200, "new.jsonl": 300, "dangling.jsonl": None}
    assert [name for name, _ in failed] == ["dangling.jsonl"]
    assert list(bounded.modified_since(str(tmp_path / "missing"), "", 0, failed)) == []
    with pytest.raises(NotADirectoryError):
        list(bounded.modified_since(str(tmp_path / "new.txt"), "", 0, failed))


# Values


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026-01-02T03:04:05Z", 1767323045),
        ("2026-01-02T03:04:05.250Z", 1767323045.25),
        ("2026-01-02T05:04:05+02:00", 1767323045),
        (1767323045, 1767323045),
        (1767323045.25, 1767323045.25),
        (1767323045250, 1767323045.25),
        (0, 0),
    ],
)
def test_moments(value: object, expected: float) -> None:
    assert bounded.moment(value) == expected


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        "",
        "yesterday",
        "2026-13-01T00:00:00Z",
        "\ud800",
        "9" * 5000,
        [],
        {},
        -1,
        math.nan,
        math.inf,
        -math.inf,
        1e300,
        -1e300,
        10**400,
        -(10**400),
        "0001-01-01T00:00:00+23:59",
    ],
)
def test_what_is_no_moment_is_none(value: object) -> None:
    assert bounded.moment(value) is None


@settings(deadline=None)
@given(st.one_of(st.integers(), st.floats(), st.text(), st.datetimes().map(lambda moment: moment.isoformat() + "Z")))
def test_every_moment_can_be_shown(value: object) -> None:
    found = bounded.moment(value)
    assert found is None or 1970 <= datetime.fromtimestamp(found, UTC).year <= 9999


@pytest.mark.parametrize(("value", "expected"), [(0, 0), (7, 7), ("7", 7), ("007", 7), (2**40, 2**40)])
def test_whole_numbers(value: object, expected: int) -> None:
    assert bounded.whole_number(value) == expected


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, False, 1.0, math.nan, b"1", [1], {}, -1, -(10**30), 10**30),
        *("", "-1", "+1", " 1", "1 ", "1\n", "\0", "1.0", "1e3", "0x1", "1_000", "²", "٣", "9" * 20),
    ],
)
def test_what_is_no_whole_number_is_none(value: object) -> None:
    assert bounded.whole_number(value) is None


@pytest.mark.parametrize(("value", "expected"), [("x", "x"), ("", None), (None, None), (1, None), (b"x", None)])
def test_texts(value: object, expected: str | None) -> None:
    assert bounded.text_or_none(value) == expected


# Lines that hold a word


def passage(
    path: str, *words: bytes, start: int = 0, end: int | None = None
) -> tuple[list[tuple[int, bytes]], int, int]:
    fd = bounded.open_regular(path)
    try:
        found = bounded.Passage(fd, start, os.fstat(fd).st_size if end is None else end, words)
        return list(found), found.offset, found.too_long
    finally:
        os.close(fd)


WORDY = st.lists(st.lists(st.sampled_from([b"a", b"ab", b"b", b"x" * 9, b""]), max_size=4).map(b"".join), max_size=12)


@settings(deadline=None)
@given(lines=WORDY, block=st.integers(1, 12))
def test_a_passage_gives_the_finished_lines_with_one_of_the_words(lines: list[bytes], block: int) -> None:
    text = b"\n".join(lines)
    expected, offset = [], 0
    for line in lines[:-1]:
        if b"ab" in line or b"b" in line:
            expected.append((offset, line))
        offset += len(line) + 1
    with File(text) as path, mock.patch.object(bounded, "BLOCK", block):
        assert passage(path, b"ab", b"b") == (expected, text.rfind(b"\n") + 1, 0)


def test_a_passage_from_and_to_a_place(path: Path) -> None:
    path.write_bytes(b"a 1\na 2\na 3\na 4\n")
    assert passage(str(path), b"a", start=4, end=14) == ([(4, b"a 2"), (8, b"a 3")], 12, 0)


def test_a_passage_over_a_line_of_200_mb_costs_no_memory(path: Path) -> None:
    sparse(path, 200 * MB, b"end of the long line\nlast a\n")
    tracemalloc.start()
    try:
        assert passage(str(path), b"a", b"b") == ([(200 * MB + 21, b"last a")], 200 * MB + 28, 0)
        assert passage(str(path), b"long", b"a") == ([(200 * MB + 21, b"last a")], 200 * MB + 28, 1)  # it had the word
        assert tracemalloc.get_traced_memory()[1] < 3 * bounded.LINE_LIMIT
    finally:
        tracemalloc.stop()
