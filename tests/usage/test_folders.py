"""A folder of transcripts is passed over by its mark only if nothing in it has changed."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentctl.agents import load_all, load_usage
from agentctl.agents.claude_code import usage
from agentctl.agents.usage_base import Folder, Source
from agentctl.files.reader import Reader
from agentctl.usage import query
from tests.usage.test_index import Home, answer, spent

if TYPE_CHECKING:
    from agentctl.agents.usage_base import Stamp

LONG_AGO = (1000, 1000)
STAMPS = st.tuples(*[st.integers(0, 2**63)] * 4)
FILES = st.dictionaries(st.text(min_size=1, max_size=4), STAMPS, max_size=5).map(lambda found: list(found.items()))


def folder(files: list[tuple[str, Stamp]]) -> Folder:
    return Folder("/f", files, str.upper, "parent")


@given(before=FILES, after=FILES)
def test_a_mark_is_the_same_only_for_the_same(before: list[tuple[str, Stamp]], after: list[tuple[str, Stamp]]) -> None:
    assert (folder(before).mark() == folder(after).mark()) == (before == after)
    copied = [
        ("".join(list(name)), (int(str(a)), int(str(b)), int(str(c)), int(str(d)))) for name, (a, b, c, d) in before
    ]
    assert folder(copied).mark() == folder(before).mark()  # whatever objects they are
    known = {f"/f/{name}": stamp for name, stamp in before}
    changed = folder(after).changed(known)
    assert [one.path for one in changed] == [f"/f/{name}" for name, stamp in after if (name, stamp) not in before]
    assert all((one.session, one.parent) == (one.path[3:].upper(), "parent") for one in changed)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "append", "same size", "remove", "rename", "swap", "touch"]), st.integers(1, 4)
    ),
    max_size=8,
)


@settings(deadline=None, max_examples=25)
@given(steps=STEPS, old=st.booleans())
def test_whatever_happens_in_a_folder(steps: list[tuple[str, int]], old: bool) -> None:
    """`old`: the files look as if nobody had written to them for long, so marks are kept."""
    with tempfile.TemporaryDirectory() as name:
        home = Home(Path(name))
        expected: dict[int, list[int]] = {}
        for number in (1, 2):
            act(home, expected, "write", number, number)
        for count, (what, number) in enumerate(steps):
            act(home, expected, what, number, 10 + count)
            for one, path in ((one, home.path(one)) for one in expected):
                if old:
                    os.utime(path, ns=(10**9 * (one + 1000 * count), 10**9 * (one + 1000 * count)))
            found = home.ask()["rows"]
            assert {int(key[-1]): row[0][1] for key, row in found.items()} == {k: sum(v) for k, v in expected.items()}


def act(home: Home, expected: dict[int, list[int]], what: str, number: int, output: int) -> None:
    path, other = home.path(number), number % 4 + 1
    if what == "write" or number not in expected:
        path.write_bytes(answer(f"msg_{number}_{output}_a", output))
        expected[number] = [output]
    elif what == "append":
        with path.open("ab") as file:
            file.write(answer(f"msg_{number}_{output}_b", output))
        expected[number].append(output)
    elif what == "same size":
        lines = [answer(f"msg_{number}_{output}_{index}_c", 10) for index, _ in enumerate(expected[number])]
        path.write_bytes(b"".join(lines))
        expected[number] = [10] * len(lines)
    elif what == "remove":
        path.unlink()
        del expected[number]
    elif what == "rename":
        path.rename(home.path(other))
        expected[other] = expected.pop(number)
    elif what == "swap" and other in expected:
        path.rename(home.folder / "aside")
        home.path(other).rename(path)
        (home.folder / "aside").rename(home.path(other))
        expected[number], expected[other] = expected[other], expected[number]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_a_folder_in_which_nothing_has_changed_is_not_looked_into(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (1, 2):
        home.path(number).write_bytes(answer(f"msg_{number}"))
        os.utime(home.path(number), LONG_AGO)
    spent(home.env)
    looked: list[str] = []
    real = Folder.changed

    def changed(self: Folder, known: Any) -> list[Source]:
        looked.append(self.path)
        return real(self, known)

    monkeypatch.setattr(Folder, "changed", changed)
    spent(home.env)
    assert looked == []
    home.path(2).rename(home.path(3))  # the same inode, size and time
    assert {str(row.key)[-1] for row in spent(home.env).rows} == {"1", "3"}
    assert looked == [str(home.projects)]


def test_what_was_written_just_now_is_looked_at_again(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within one tick of the clock of its file system it may be written once more, and look the same."""
    home.path(1).write_bytes(answer("msg_a", 10))
    now = home.path(1).stat().st_mtime_ns
    monkeypatch.setattr(query, "CLOCK_GRAIN", 3600)
    assert spent(home.env).total.tokens.output == 10
    home.path(1).write_bytes(answer("msg_a", 20))
    os.utime(home.path(1), ns=(now, now))
    assert spent(home.env).total.tokens.output == 20


def test_what_could_not_be_read_is_tried_again(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (1, 2):
        home.path(number).write_bytes(answer(f"msg_{number}"))
        os.utime(home.path(number), LONG_AGO)
    real = usage.USAGE.count

    def count(source: Source, state: Any, tick: Any = None) -> Any:
        if source.session.endswith("2"):
            raise PermissionError(13, "not now")
        return real(source, state, tick)

    with monkeypatch.context() as patch:
        patch.setattr(usage.USAGE, "count", count)
        found = spent(home.env)
        assert (found.total.tokens.output, [one.problem for one in found.problems]) == (42, ["not now"])
    found = spent(home.env)
    assert (found.total.tokens.output, found.problems) == (84, ())


def test_each_path_is_in_one_folder(tmp_path: Path) -> None:
    """Of every agent: the index knows a folder by its path."""
    root = tmp_path / "opencode"
    root.mkdir()
    for name in ("opencode.db", "opencode-dev.db"):
        (root / name).touch()
    (root / "storage" / "message" / "ses_a").mkdir(parents=True)
    found = list(load_usage("opencode").folders(Reader("x", str(root)), []))
    assert [(one.path, [name for name, _ in one.files]) for one in found] == [
        (str(root), ["opencode.db", "opencode-dev.db"]),
        (f"{root}/storage/message", ["ses_a"]),
    ]
    for agent in load_all():
        paths = [one.path for one in load_usage(agent.NAME).folders(Reader("x", str(tmp_path)), [])]
        assert len(paths) == len(set(paths))


HALF = "\ud800"  # of a character: JSON can have it, and no file of SQLite


@pytest.mark.parametrize("by", ["session", "day", "model", "project"])
def test_names_that_are_no_text(home: Home, by: str) -> None:
    """Of a folder, a file, a model, a directory: bytes that are not UTF-8, half a character, a NUL."""
    folder = home.projects.parent / os.fsdecode(b"-\xff")
    folder.mkdir()
    names = [os.fsdecode(b"\xfe.jsonl"), "é.jsonl", "plain.jsonl"]
    records = [("m" + HALF, "/w" + HALF), ("\0m", "\0/w"), ("", "/w")]
    for number, (name, (model, cwd)) in enumerate(zip(names, records, strict=True)):
        line = answer(f"msg_{number}", 10 ** (number + 1), cwd=cwd)
        (folder / name).write_bytes(line.replace(b'"model-1"', json.dumps(model).encode()))
    expected = {
        "session": {os.fsdecode(b"\xfe"): 10, "é": 100, "plain": 1000},
        "day": {"2026-11-15": 1110},
        "model": {"m" + HALF: 10, "\0m": 100, None: 1000},
        "project": {"/w" + HALF: 10, "\0/w": 100, "/w": 1000},
    }
    for _ in range(2):
        found = spent(home.env, by)
        assert {row.key: row.tokens.output for row in found.rows} == expected[by]
        assert found.problems == ()
    assert home.index.exists()
    with (folder / names[0]).open("ab") as file:
        file.write(answer("msg_5", 5, cwd="/w"))
    assert spent(home.env, by).total.tokens.output == 1115
    (folder / names[0]).unlink()
    assert spent(home.env, by).total.tokens.output == 1100
    shutil.rmtree(folder)
    assert spent(home.env, by).rows == ()


def test_a_file_in_the_place_of_a_sessions_own_folder_is_a_gap(tmp_path: Path) -> None:
    """The transcripts of its sub-agents belong there: their tokens are missing."""
    folder = tmp_path / "projects" / "-work"
    folder.mkdir(parents=True)
    (folder / "11111111-1111-4111-8111-111111111111.jsonl").touch()
    (folder / "11111111-1111-4111-8111-111111111111").touch()
    (folder / "notes").touch()
    files = Reader("claude-code", str(tmp_path))
    list(load_usage("claude-code").folders(files, []))
    assert [gap.path for gap in files.gaps] == [f"{folder}/11111111-1111-4111-8111-111111111111/subagents"]
