"""The transcripts of one session, asked for by name: the same as in a list of all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.agents.claude_code.projects import FEW, SUFFIX, TOO_DEEP, Projects
from agentctl.agents.claude_code.store import Store
from agentctl.agents.claude_code.usage import USAGE
from agentctl.files.bounded import EARLIEST
from agentctl.files.reader import Reader

IDS = ["3f2a", "3f2a-1", "3f2", "3F2A", "x" * 200, "é", "a.jsonl"]
SESSION = "5c1f2e44-0000-4000-8000-000000000001"
ENTRIES = ["file", "folder", "link", "dangling"]
trees = st.dictionaries(
    st.sampled_from(["-work-a", "-work-b", "-work-c", "-a-file"]),
    st.dictionaries(st.sampled_from([*IDS, "another"]), st.sampled_from(ENTRIES), max_size=4),
)


def build(root: Path, tree: dict[str, dict[str, str]]) -> None:
    for folder, names in tree.items():
        (root / "projects" / folder).mkdir(parents=True)
        for name, kind in names.items():
            path = root / "projects" / folder / f"{name}.jsonl"
            if kind == "folder":
                path.mkdir()
            elif kind == "file":
                path.write_text("{}\n")
            else:
                path.symlink_to("/nowhere" if kind == "dangling" else "/etc/hostname")
    if "-a-file" not in tree and (root / "projects").is_dir():
        (root / "projects" / "-a-file").write_text("no folder")


@given(trees, st.lists(st.sampled_from(IDS), max_size=FEW + 3))
def test_by_name_and_by_list(tree: dict[str, dict[str, str]], asked: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder), tree)
        reader = Reader("an-agent", folder)
        by_list = Projects(reader).transcripts()
        by_name = Projects(reader)
        for id in asked:
            assert sorted(by_name.transcripts_of(id)) == sorted(by_list.get(id, []))
        store = Store(folder)
        for id in asked:
            assert store.has(id) == (id in by_list)
        in_the_way = bool(tree) and "-a-file" not in tree  # a file in the place of a folder is not an empty folder
        assert [os.path.basename(gap.path) for gap in reader.gaps] == ["-a-file"] * in_the_way


def test_many_are_looked_up_in_a_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(tmp_path, {"-work-a": dict.fromkeys(IDS, "file")})
    asked = []
    real = os.lstat
    monkeypatch.setattr(os, "lstat", lambda path: asked.append(path) or real(path))  # type: ignore[func-returns-value]
    projects = Projects(Reader("an-agent", str(tmp_path)))
    for number in range(3 * FEW):
        projects.transcripts_of(f"no-{number}")
    assert sum(path.endswith(SUFFIX) for path in asked) == FEW  # in one folder: the other one is a file


@pytest.mark.parametrize("mode", [0o000, 0o100, 0o400])
def test_a_folder_that_cannot_be_listed_is_told(tmp_path: Path, mode: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if everything was listed: whatever is asked for."""
    build(tmp_path, {"-work-a": {"3f2a": "file"}, "-work-b": {"3f2a-1": "file"}})
    closed = tmp_path / "projects" / "-work-b"
    closed.chmod(mode)
    try:
        if os.geteuid() == 0:
            deny(closed, mode, monkeypatch)
        by_list, by_name = Reader("an-agent", str(tmp_path)), Reader("an-agent", str(tmp_path))
        Projects(by_list).transcripts()
        Projects(by_name).transcripts_of("3f2a")
        assert by_list.gaps == by_name.gaps
        assert [gap.path for gap in by_list.gaps if gap.path == str(closed)] == [str(closed)] * (mode != 0o400)
    finally:
        closed.chmod(0o700)


def deny(folder: Path, mode: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """To root nothing is closed: so it is said here what the kernel says to others."""
    lists, stats, may = os.listdir, os.lstat, os.access

    def listdir(path: str) -> list[str]:
        if path == str(folder) and not mode & 0o400:
            raise PermissionError(13, "Permission denied", path)
        return lists(path)

    def lstat(path: str) -> os.stat_result:
        if os.path.dirname(path) == str(folder) and not mode & 0o100:
            raise PermissionError(13, "Permission denied", path)
        return stats(path)

    def access(path: str, wanted: int) -> bool:
        return bool(mode & 0o400) if path == str(folder) else may(path, wanted)

    monkeypatch.setattr(os, "listdir", listdir)
    monkeypatch.setattr(os, "lstat", lstat)
    monkeypatch.setattr(os, "access", access)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=4), st.integers(0, 9))
def test_of_several_copies_the_one_that_was_written_last(written: list[int], since: int) -> None:
    """Whether the copies were listed by age before, or are looked up."""
    with tempfile.TemporaryDirectory() as folder:
        for number, moment in enumerate(written):
            path = Path(folder) / "projects" / f"-work-{number}" / "3f2a.jsonl"
            path.parent.mkdir(parents=True)
            path.write_text("{}\n")
            os.utime(path, (EARLIEST + moment + 0.5, EARLIEST + moment + 0.5))  # a fraction: not of whole seconds
        listed, asked = Store(folder), Store(folder)
        assert set(listed.recent(EARLIEST + since + 0.5)) == ({"3f2a"} if max(written) >= since else set())
        found = listed._transcript("3f2a")
        assert found is not None and found == asked._transcript("3f2a")
        assert os.stat(found).st_mtime == EARLIEST + max(written) + 0.5


@given(st.dictionaries(st.sampled_from(["s1", "s2", "s3"]), st.lists(st.sampled_from("abcd"), unique=True)))
def test_sub_agents_by_name_and_by_list(sessions: dict[str, list[str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for number, (session, children) in enumerate(sessions.items()):
            below = Path(folder) / "projects" / f"-work-{number % 2}" / session / "subagents"
            below.mkdir(parents=True)
            for child in children:
                (below / f"agent-{child}.jsonl").touch()
        projects, listed = Projects(Reader("x", folder)), Projects(Reader("x", folder))
        assert listed.children().keys() == {child for children in sessions.values() for child in children}
        assert [projects.child(child) for child in "abcde"] == [listed.child(child) for child in "abcde"]
        for child, (path, parent) in listed.children().items():
            assert child in sessions[parent] and os.path.exists(path)


def test_sub_agents_are_found_to_the_bottom_of_their_folder(tmp_path: Path) -> None:
    folder = tmp_path / "projects" / "-work-a"
    below = folder / SESSION / "subagents"
    run = below / "workflows" / "wf_1"
    run.mkdir(parents=True)
    (folder / f"{SESSION}.jsonl").write_text("{}\n")
    for path in (below / "agent-a1.jsonl", run / "agent-a2.jsonl"):
        path.write_text("{}\n")
    (below / "agent-a1.meta.json").write_text("{}")
    store = Store(str(tmp_path))
    assert store.children(SESSION) == ["a1", "a2"]
    assert list(store.find("a2")) == ["a2"]
    record = store.record("a2")
    assert record is not None
    assert (record.path, record.parent) == (str(run / "agent-a2.jsonl"), SESSION)
    assert store.record("b" + SESSION[1:]) is None
    found = {folder.path: folder.parent for folder in USAGE.folders(Reader("claude-code", str(tmp_path)), [])}
    assert found == {str(folder): None, str(below): SESSION, str(run): SESSION}


def test_a_folder_that_leads_back_is_a_gap(tmp_path: Path) -> None:
    below = tmp_path / "projects" / "-work-a" / SESSION / "subagents"
    below.mkdir(parents=True)
    (below / "again").symlink_to(below)
    (below / "agent-a1.jsonl").write_text("{}\n")
    (tmp_path / "projects" / "-work-a" / f"{SESSION}.jsonl").write_text("{}\n")
    listed, counted = Reader("claude-code", str(tmp_path)), Reader("claude-code", str(tmp_path))
    assert {id for id, _ in Projects(listed).below(str(below))} == {"a1"}
    assert list(USAGE.folders(counted, []))
    assert [[gap.why for gap in reader.gaps] for reader in (listed, counted)] == [[TOO_DEEP], [TOO_DEEP]]
