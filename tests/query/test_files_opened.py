"""What a question costs, counted in files and folders that are opened and not in time: it follows what is alive and
what is shown, never what is stored. And what is passed over in transcripts changes nothing that is read from them."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock, call

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentctl.agents.claude_code import records, transcript
from agentctl.agents.codex import rollout
from agentctl.agents.codex import store as codex_store
from agentctl.files import bounded
from agentctl.files.bounded import Opened, modified_since
from tests.support.demo_home import TIMEOUT, Home
from tests.support.transcripts import CLAUDE, CLAUDE_SEEN, CODEX, CODEX_SEEN, SUBAGENTS, mutated

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COUNTING = """\
import os, sys

HOME = os.environ["HOME"]
opened = []


def count(event, args):
    if event in ("open", "os.listdir", "os.scandir") and str(args[0]).startswith(HOME):
        opened.append(str(args[0])[len(HOME) :])


sys.addaudithook(count)
from agentctl.cli import run

code = run(sys.argv[1:])
sys.stdout.flush()
print("\\n".join(opened), file=sys.stderr)
sys.exit(code)
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    try:
        yield home
    finally:
        home.end_all()


def store(folder: Path, numbers: range) -> None:
    for number in numbers:
        path = folder / f".claude/projects/-work-{number % 5}/00000000-0000-4000-8000-{number:012}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(CLAUDE[number % len(CLAUDE)], path)
        name = f"rollout-2026-01-01T00-00-00-019b7000-0000-7000-8000-{number:012}.jsonl"
        path = folder / ".codex/sessions/2026/01/01" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(CODEX[number % len(CODEX)], path)


def opened_by(home: Home, *words: str) -> tuple[list[str], list[str]]:
    """The ids that were shown, and what was opened below the home for that."""
    done = subprocess.run(
        [sys.executable, "-c", COUNTING, *words, "--json"],
        env=home.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    shown = answer["sessions"] if "sessions" in answer else [answer["session"]]
    return [session["id"] for session in shown], sorted(done.stderr.split("\n"))


@pytest.mark.linux
def test_what_is_stored_costs_a_list_nothing(home: Home, tmp_path: Path) -> None:
    id, _ = home.start("[[sleep:300]]")
    home.wait_for_status(id, "busy")
    store(tmp_path, range(50))
    few = opened_by(home, "list")
    store(tmp_path, range(50, 500))
    for _ in range(10):  # where somebody else starts a program at that moment, a list looks twice
        many = opened_by(home, "list")
        if few == many:
            break
        few = min(few, many, key=lambda one: len(one[1]))
    assert few == many
    assert few[0] == [id]
    assert any("process.json" in path for path in few[1])  # the counter was there


@pytest.mark.linux
def test_one_session_is_read_among_many(home: Home, tmp_path: Path) -> None:
    store(tmp_path, range(500))
    ids, opened = opened_by(home, "status", "00000000-0000-4000-8000-000000000007")
    assert ids == ["00000000-0000-4000-8000-000000000007"]
    transcripts = {path for path in opened if path.endswith(".jsonl")}
    assert len(transcripts) == 1


@pytest.mark.linux
def test_a_long_list_opens_no_transcript_twice_in_its_life(home: Home, tmp_path: Path) -> None:
    store(tmp_path, range(100))
    for path in tmp_path.glob(".c*/**/*.jsonl"):
        shutil.copystat(CLAUDE[0], path)  # settled
    first, opened = opened_by(home, "list", "-a", "--since", "all")
    assert sum("-8000-" in path for path in opened) >= 200
    second, opened = opened_by(home, "list", "-a", "--since", "all")
    assert first == second
    assert not [path for path in opened if "-8000-" in path]


# What is passed over in a transcript


@pytest.mark.parametrize("seed", range(20))
def test_passing_over_calls_and_results_changes_nothing_that_is_read(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    passed = [0]
    real = transcript.adds_nothing

    def counting(*given: Any) -> bool:
        found = real(*given)
        passed[0] += found
        return found

    for number in range(60):
        path = tmp_path / f"{number}.jsonl"
        path.write_bytes(mutated([*CLAUDE, *SUBAGENTS, *CLAUDE_SEEN], chance))
        for sidechain in (False, True):
            with Opened(str(path)) as file:
                monkeypatch.setattr(transcript, "adds_nothing", counting)
                brief = transcript.read_tail(file, sidechain=sidechain)
                monkeypatch.setattr(transcript, "adds_nothing", lambda *given: False)
                assert transcript.read_tail(file, sidechain=sidechain) == brief
        path.write_bytes(mutated([*CODEX, *CODEX_SEEN], chance))
        with Opened(str(path)) as file:
            brief_rollout = rollout.read_tail(file)
            with monkeypatch.context() as patch:
                patch.setattr(rollout, "passable", lambda *given: None)
                assert rollout.walk_back(file, brief=False) == brief_rollout
    assert passed[0] > 0


REFUSING = st.sampled_from(
    [*records.REFUSED_MARKS, "fine", 'he said "is_error":true', "\\", "\n" * 30, "x" * 3000, "\U0001f600"]
)
SAID = st.lists(REFUSING, max_size=3).map(" ".join)
ERRORS = st.sampled_from([{}, {"is_error": False}, {"is_error": True}])
BLOCKS = st.builds(
    lambda text, error, last: {"type": "tool_result", "content": text, **error, **last},
    SAID,
    ERRORS,
    st.sampled_from([{}, {"tool_use_id": "t"}]),
)
AS_IT_STANDS = ("toolUseResult", "toolDenialKind", "permissionDecision", "cwd")  # in every record that was seen
OWN = st.fixed_dictionaries(
    {},
    optional={
        "toolUseResult": SAID | st.fixed_dictionaries({"stdout": SAID, "is_error": st.booleans()}),
        "toolDenialKind": st.sampled_from(["user-rejected", ""]),
        "permissionDecision": st.sampled_from([{"decision": "accept", "source": "config"}, {"decision": "reject"}]),
        "cwd": st.just("/" + "long/" * 50),
    },
)


@settings(deadline=None)
@given(blocks=st.lists(BLOCKS, min_size=1, max_size=3), own=OWN, spaced=st.booleans())
def test_no_refused_call_of_claude_is_passed_over(blocks: list[Any], own: dict[str, Any], spaced: bool) -> None:
    record = {"parentUuid": None, "type": "user", "message": {"role": "user", "content": blocks}}
    record |= {name: own[name] for name in AS_IT_STANDS if name in own}
    line = json.dumps(record, separators=None if spaced else (",", ":")).encode()
    around = b"x\n" + line + b"\n" + b'"is_error":true'
    may_be = transcript.may_be_refused(around, 2, 2 + len(line))
    assert may_be or not records.refusal(record)
    if not own and not spaced and list(blocks[0].items())[2:] in ([], [("is_error", False)]) and len(blocks) == 1:
        assert not may_be  # nearly all of them are like this


@settings(deadline=None)
@given(
    before=st.sampled_from(["", "\U0001f600" * 150, '"' * 180, "x" * 190, "x" * 200]),
    mark=st.sampled_from([*rollout.REFUSED_MARKS, "done"]),
    after=st.sampled_from(["", "x" * 5000]),
    late=st.booleans(),
)
def test_no_refused_call_of_codex_is_passed_over(before: str, mark: str, after: str, late: bool) -> None:
    payload = {"type": "function_call_output", **({"id": "x" * 500} if late else {}), "output": before + mark + after}
    record = {"type": "response_item", "payload": payload}
    line = json.dumps(record, separators=(",", ":")).encode()
    passed = rollout.passable(b"x\n" + line, 2, 2 + len(line), True) is not None
    assert not (passed and rollout.is_refusal(payload))
    assert passed or mark != "done"


def test_sub_agents_of_many_threads_are_looked_up_in_one_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each day was listed again, and each younger thread opened again, for every thread."""
    day = tmp_path / "sessions" / "2026" / "11" / "15"
    day.mkdir(parents=True)
    ids = [f"019b6a06-0000-7000-8000-{number:012d}" for number in range(40)]
    for number, id in enumerate(ids):
        meta = {"id": id, "parent_thread_id": ids[number - 1]} if number % 2 else {"id": id}
        line = {"timestamp": "2026-11-15T18:00:00.000Z", "type": "session_meta", "payload": meta}
        (day / f"rollout-2026-11-15T18-00-00-{id}.jsonl").write_text(json.dumps(line) + "\n")
    store = codex_store.Store(str(tmp_path))
    listed, opened = Mock(wraps=store.reader.names), Mock(wraps=rollout.parent_in)
    monkeypatch.setattr(store.reader, "names", listed)
    monkeypatch.setattr(codex_store, "parent_in", opened)
    found = [store.children(id) for id in ids]
    assert found == [[ids[number + 1]] if number % 2 == 0 else [] for number in range(40)]
    assert listed.call_args_list.count(call(str(day))) == 1
    assert opened.call_count == len(ids) - 1


def test_a_long_list_reads_the_same_rollout_as_a_question_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An archived copy is the newer file, and not the one that counts. Each day is listed once."""
    id, name = CODEX[0].stem[-36:], CODEX[0].name
    day, archive = tmp_path / "sessions" / rollout.days_of(id)[0], tmp_path / "archived_sessions"
    for folder in (day, archive):
        folder.mkdir(parents=True)
        shutil.copy(CODEX[0], folder / name)
    os.utime(day / name, (bounded.EARLIEST, bounded.EARLIEST))
    many, one = codex_store.Store(str(tmp_path)), codex_store.Store(str(tmp_path))
    assert list(many.recent(bounded.EARLIEST + 10)) == [id]
    (found, asked) = (store.record(id) for store in (many, one))
    assert found is not None
    assert found == asked
    assert found.path == str(day / name)
    real = modified_since

    def closed(folder: str, *rest: Any) -> Any:
        if folder == str(archive):
            raise PermissionError(13, "Permission denied", folder)
        return real(folder, *rest)

    monkeypatch.setattr(bounded, "modified_since", closed)
    assert list(one.recent(0.0)) == [id]
    assert [(problem.problem, problem.path) for problem in one.told()] == [("Permission denied", str(archive))]
