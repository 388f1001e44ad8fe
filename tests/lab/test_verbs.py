"""The lab's parts that try the verbs, without an agent: a check that cannot fail proves nothing."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from tests.lab import __main__ as lab
from tests.lab import install, verbs
from tests.lab.commands import Commands, FirstSeen, Said, namespaced_pids, native_ids, nothing_left
from tests.lab.errors import WrongAnswer
from tests.lab.running import row_of, until
from tests.lab.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.linux
ID = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage("codex", tmp_path / "codex", tmp_path)
    yield stage
    stage.server.server_close()


def names(words: list[str], capsys: pytest.CaptureFixture[str]) -> list[tuple[str, ...]]:
    assert lab.main([*words, "--list"]) == 0
    return [tuple(line.partition(":")[0].split()) for line in capsys.readouterr().out.splitlines()]


def test_every_check_is_listed_for_every_version(capsys: pytest.CaptureFixture[str]) -> None:
    found = names(["--verbs"], capsys)
    pinned = [(agent, version) for agent, one in install.packages().items() for version in one.versions]
    assert found == [(*one, verbs.MODE, name) for one in pinned for name in verbs.CHECKS]


def test_the_core_is_in_every_run_for_the_newest_pinned_version(capsys: pytest.CaptureFixture[str]) -> None:
    wanted = {
        (agent, list(one.versions)[-1], verbs.MODE, name)
        for agent, one in install.packages().items()
        for name in verbs.CORE
    }
    for words in ([], ["--full"]):
        assert {one for one in names(words, capsys) if one[2] == verbs.MODE} == wanted
    assert not [one for one in names(["--controls"], capsys) if one[2] == verbs.MODE]
    assert set(verbs.CORE) < set(verbs.CHECKS)


def test_one_id_and_nothing_else(stage: Stage) -> None:
    commands = Commands(stage)
    assert commands.id_of(Said(("launch",), 0, f"{ID}\n", "", 0.0)) == ID
    for out in ("", ID, f"{ID}\n\n", f" {ID}\n", f"{ID} running\n", f"{ID}\nmore\n"):
        with pytest.raises(WrongAnswer, match="not one id"):
            commands.id_of(Said(("launch",), 0, out, "", 0.0))


def test_a_command_has_its_exit_code_and_its_words(stage: Stage) -> None:
    commands = Commands(stage)
    assert commands.run("list", "--json").json["sessions"] == []
    with pytest.raises(WrongAnswer, match="exit 3, not 0"):
        commands.run("stop", ID)
    with pytest.raises(WrongAnswer, match=f"no session {ID}"):
        commands.session(ID, status="done")


def test_the_first_moment_of_a_session(stage: Stage) -> None:
    folder = stage.home.folder / ".codex" / "sessions" / "2026"
    folder.mkdir(parents=True)
    assert native_ids(stage) == set()
    with FirstSeen(stage) as seen:
        before = time.monotonic()
        (folder / f"rollout-2026-01-01T00-00-00-{ID}.jsonl").touch()
        until(lambda: seen.at is not None, 20, "it is seen")
    assert seen.at is not None and seen.at >= before
    assert native_ids(stage) == {ID}


def test_a_process_that_is_left_is_told(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    own = row_of(os.getpid())
    assert own is not None
    monkeypatch.setattr(stage, "rows", lambda: [own])
    with pytest.raises(WrongAnswer, match="left running"):
        nothing_left(stage, seconds=0.1)
    nothing_left(stage, own.key, seconds=0.1)


def test_the_tool_is_known_by_its_own_pid() -> None:
    assert os.getpid() in namespaced_pids(os.getpid())
    assert namespaced_pids(0) == []
    assert verbs.is_tool(("sleep", verbs.SECONDS))
    assert not verbs.is_tool(("bash", "-c", f"sleep {verbs.SECONDS}"))


def test_an_end_in_the_words_of_a_session() -> None:
    assert verbs.exit_of(143) == {"exit_code": 143, "signal": None}
    assert verbs.exit_of(-15) == {"exit_code": None, "signal": "SIGTERM"}
