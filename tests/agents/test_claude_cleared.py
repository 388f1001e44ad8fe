"""Which session a process of Claude Code is on whose own file does not follow /clear."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from agentctl.agents.claude_code.adapter import ADAPTER
from agentctl.agents.claude_code.cleared import TOGETHER
from agentctl.kernel.processes import Processes
from agentctl.kernel.programs import UNIDENTIFIED
from agentctl.model import SOLE, Details
from tests.support.facts import row
from tests.support.table import source

if TYPE_CHECKING:
    from pathlib import Path

    from agentctl.agents.base import Store
    from agentctl.model import Link

OLD, NEW, NEWER = (f"00000000-0000-4000-8000-00000000000{n}" for n in (1, 2, 3))
BOOT_TIME = 1_800_000_000.0
NOW = BOOT_TIME + 1000.0
SLUG = "-work"


class Home:
    """A store in which a process registered at NOW, by default with a screen of 2.1.118."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "sessions").mkdir()
        (root / "projects" / SLUG).mkdir(parents=True)
        self.pids: list[int] = []

    def registers(self, pid: int, id: str, at: float = NOW, *, lives: bool = True, **fields: Any) -> None:
        file = {"pid": pid, "sessionId": id, "cwd": "/work", "procStart": str(pid * 100), "version": "2.1.118"}
        path = self.root / "sessions" / f"{pid}.json"
        path.write_text(json.dumps({**file, "kind": "interactive", "entrypoint": "cli", **fields}))
        os.utime(path, (at, at))
        self.pids += [pid] if lives else []

    def writes(self, id: str, at: float, *texts: str, end: bool = False, **fields: Any) -> None:
        """A transcript of prompts; the first may be the command that began it."""
        path = self.root / "projects" / SLUG / f"{id}.jsonl"
        known = {"cwd": "/work", "sessionId": id, "version": "2.1.118", "entrypoint": "cli", **fields}
        with path.open("a") as file:
            for text in texts:
                record = {"parentUuid": None, "type": "user", "message": {"role": "user", "content": text}}
                file.write(json.dumps({**record, "uuid": text, "timestamp": at * 1000, **known}) + "\n")
            if end:
                file.write(json.dumps({"type": "last-prompt", "sessionId": id}) + "\n")
        os.utime(path, (at, at))

    def clears(self, old: str, new: str, at: float, **fields: Any) -> None:
        with (self.root / "history.jsonl").open("a") as file:
            line = {"display": "/clear", "timestamp": at * 1000, "sessionId": old}
            file.write(json.dumps(line, separators=(",", ":")) + "\n")
        self.writes(new, at, "<command-name>/clear</command-name>", **fields)

    def links(self) -> tuple[Store, dict[str, Link]]:
        details = Details(argv=("claude",), exe="/x/claude", cwd="/work", env={}, uid=os.getuid(), pids=())
        answers = source(details=lambda process: details, kind=lambda pid, exe: UNIDENTIFIED)
        rows = [row(pid, pid * 100)._replace(comm="claude") for pid in self.pids]
        store = ADAPTER.open_store(str(self.root))
        store.survey()
        self.processes = Processes("boot", rows, answers, boot_time=BOOT_TIME)
        return store, {link.id: link for link in store.links(self.processes)}

    def candidates(self, store: Store, pid: int) -> tuple[str, ...] | None:
        process = self.processes.get(pid)
        assert process is not None
        details = self.processes.details(process)
        assert details is not None
        return store.candidates(process, details, NOW).ids


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_it_is_on_the_session_that_clear_began(home: Home) -> None:
    home.registers(7, OLD)
    home.writes(OLD, NOW + 1, "go")
    home.clears(OLD, NEW, NOW + 60)
    _, links = home.links()
    assert (links[NEW].key.pid, links[NEW].strength, links[NEW].inferred, links[NEW].left) == (7, SOLE, True, None)
    assert links[OLD].left is not None


def test_step_by_step(home: Home) -> None:
    home.registers(7, OLD)
    home.clears(OLD, NEW, NOW + 60)
    home.clears(NEW, NEWER, NOW + 120)
    _, links = home.links()
    assert {id: link.left is None for id, link in links.items()} == {OLD: False, NEW: False, NEWER: True}


def test_a_command_of_another_moment_did_not_begin_it(home: Home) -> None:
    home.registers(7, OLD)
    home.clears(OLD, NEW, NOW + 60)
    home.writes(NEWER, NOW + 61 + TOGETHER, "<command-name>/clear</command-name>")
    store, links = home.links()
    assert NEWER not in links
    assert home.candidates(store, 7) == (NEW, NEWER)
    assert (NEW in links, links[OLD].left is not None) == (False, True)


def test_what_nothing_tells(home: Home) -> None:
    """No history: it may be on either."""
    home.registers(7, OLD)
    home.writes(NEW, NOW + 60, "<command-name>/clear</command-name>", "go")
    store, links = home.links()
    assert links == {}
    assert home.candidates(store, 7) == (OLD, NEW)


def test_two_that_were_cleared_at_one_moment(home: Home) -> None:
    home.registers(7, OLD)
    home.registers(8, NEWER)
    home.clears(OLD, NEW, NOW + 60)
    home.clears(NEWER, "00000000-0000-4000-8000-000000000004", NOW + 60)
    store, links = home.links()
    assert links == {}
    assert NEW in (home.candidates(store, 7) or ())
    assert NEW in (home.candidates(store, 8) or ())


def test_two_on_one_session(home: Home) -> None:
    """Both may have typed it."""
    home.registers(7, OLD)
    home.registers(8, OLD)
    home.clears(OLD, NEW, NOW + 60)
    store, links = home.links()
    assert links == {}
    assert home.candidates(store, 7) == home.candidates(store, 8) == (OLD, NEW)


@pytest.mark.parametrize(
    "fields", [{"version": "2.1.325"}, {"entrypoint": "sdk-cli"}, {"end": True}], ids=lambda fields: next(iter(fields))
)
def test_what_it_cannot_have_begun(home: Home, fields: dict[str, Any]) -> None:
    """Another version, a run without a screen, one that ended in order."""
    home.registers(7, OLD)
    home.writes(NEW, NOW + 60, "go", **fields)
    _, links = home.links()
    assert (list(links), links[OLD].left) == ([OLD], None)


@pytest.mark.parametrize("lives", [True, False])
def test_what_another_file_names(home: Home, lives: bool) -> None:
    home.registers(7, OLD)
    home.registers(8, NEW, lives=lives)
    home.writes(NEW, NOW + 60, "go")
    _, links = home.links()
    assert (links[OLD].key.pid, links[NEW].key.pid) == (7, 8)


def test_what_was_written_before_its_own_session_was(home: Home) -> None:
    home.registers(7, OLD)
    home.writes(NEW, NOW + 60, "go")
    home.writes(OLD, NOW + 70, "go")
    assert list(home.links()[1]) == [OLD]


def test_a_file_that_was_renewed_since(home: Home) -> None:
    """/resume, back to the session before."""
    home.clears(OLD, NEW, NOW + 60)
    home.registers(7, OLD, NOW + 70)
    assert list(home.links()[1]) == [OLD]


@pytest.mark.parametrize("field", ["status", "name"])
def test_a_version_that_renews_its_file(home: Home, field: str) -> None:
    fields: dict[str, Any] = {field: "idle"}
    home.registers(7, OLD, **fields)
    home.clears(OLD, NEW, NOW + 60)
    _, links = home.links()
    assert (list(links), links[OLD].strength == SOLE) == ([OLD], False)


def test_one_that_was_killed_on_its_way(home: Home) -> None:
    """Its file is left: the new session is its own, and nobody else's."""
    home.registers(7, OLD, lives=False)
    home.clears(OLD, NEW, NOW + 60)
    home.registers(8, NEWER)
    _, links = home.links()
    assert {id: (link.key.pid, link.left) for id, link in links.items()} == {
        OLD: (7, None),
        NEW: (7, None),
        NEWER: (8, None),
    }


def test_a_command_through_stdin(home: Home) -> None:
    home.registers(7, OLD, entrypoint="sdk-cli")
    home.writes(NEW, NOW + 60, "<command-name>/clear</command-name>", entrypoint="sdk-cli")
    assert list(home.links()[1]) == [OLD]
    path = home.root / "projects" / SLUG / f"{OLD}.jsonl"
    line = {"type": "queue-operation", "operation": "enqueue", "timestamp": (NOW + 60) * 1000, "content": "/clear"}
    path.write_text(json.dumps(line, separators=(",", ":")) + "\n")
    os.utime(path, (NOW + 60, NOW + 60))
    _, links = home.links()
    assert {id: link.left is None for id, link in links.items()} == {OLD: False, NEW: True}
