"""What cannot be read is never taken for nothing: by the real query, on stores of every agent with one thing wrong."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl import config
from agentctl.agents import load_all
from agentctl.model import DETAIL, GONE, HOLDERS, RECORD, SESSIONS, UNKNOWN, WORKING, Gap, StoreView
from agentctl.query import gaps, roots
from agentctl.query.sessions import Scope, count_stored, query, query_session
from agentctl.usage.query import Question, spent
from tests.support.facts import A, rec, see
from tests.support.opencode_home import Home as OpenCodeHome
from tests.support.transcripts import CLAUDE, CODEX

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from agentctl.model import Answer

CLAUDE_ID = "00000000-0000-4000-8000-000000000001"
CODEX_ID = "019b7000-0000-7000-8000-000000000001"
DEMO_ID = "00000000-0000-4000-8000-000000000003"
DEMO = b'{"at": "2026-11-15T18:00:00.000Z", "event": "session", "cwd": "/work"}\n'


class Home:
    """One ended session of each agent that keeps transcripts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {
            "HOME": str(folder),
            "AGENTCTL_HOME": str(folder / "agentctl"),
            **{f"XDG_{name}_HOME": str(folder / name.lower()) for name in ("DATA", "STATE", "CACHE", "CONFIG")},
        }
        self.claude, self.codex = folder / ".claude", folder / ".codex"
        self.demo = folder / "data" / "agentctl-demo"
        day = self.codex / "sessions/2026/01/01"
        self.files = {
            "claude-code": self.claude / "projects/-work" / f"{CLAUDE_ID}.jsonl",
            "codex": day / f"rollout-2026-01-01T00-00-00-{CODEX_ID}.jsonl",
            "demo": self.demo / "sessions" / DEMO_ID / "events.jsonl",
        }
        for path in self.files.values():
            path.parent.mkdir(parents=True)
        shutil.copy(CLAUDE[0], self.files["claude-code"])
        shutil.copy(CODEX[0], self.files["codex"])
        self.files["demo"].write_bytes(DEMO)

    def ask(self, since: float = 0.0) -> Answer:
        return query(Scope(since=since), self.env)

    def problems(self) -> list[str | None]:
        return [problem.path for problem in self.ask().problems]

    def of_agents(self) -> str:
        """What `agents` says of the stores."""
        agents = load_all()
        table = count_stored(agents, roots.places(agents, self.env))
        return " ".join(str(entry["state"]) for entries in table.values() for entry in entries)

    def of_usage(self) -> list[str | None]:
        found = spent(Question("agent"), load_all(), [], self.env, lambda done, whole: None)
        return [problem.path for problem in found.problems]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


IDS = {"claude-code": CLAUDE_ID, "codex": CODEX_ID, "demo": DEMO_ID}


def test_with_nothing_wrong_there_is_no_gap(home: Home) -> None:
    answer = home.ask()
    assert {session.agent: session.id for session in answer.sessions} == IDS
    assert answer.problems == () and home.of_usage() == []
    assert "could not be read" not in home.of_agents()


# In the place of a folder


def as_file(path: Path) -> None:
    path.write_text("a file")


def as_dangling(path: Path) -> None:
    path.symlink_to("/nowhere/at/all")


def as_loop(path: Path) -> None:
    path.symlink_to(path.name)


def as_below_nothing(path: Path) -> None:
    """A link through a folder that is not there."""
    path.symlink_to("/nowhere/at/all/below")


INSTEAD: list[Callable[[Path], None]] = [as_file, as_dangling, as_loop, as_below_nothing]
FOLDERS = {
    "claude's projects": ".claude/projects",
    "one project of claude": ".claude/projects/-work",
    "claude's pid files": ".claude/sessions",
    "codex' sessions": ".codex/sessions",
    "a year of codex": ".codex/sessions/2026",
    "a day of codex": ".codex/sessions/2026/01/01",
    "codex' archive": ".codex/archived_sessions",
    "codex' locks": ".codex/thread-writer-locks",
    "the demo agent's sessions": "data/agentctl-demo/sessions",
    "opencode's older files": "data/opencode/storage/session",
}
NOT_COUNTED = ("claude's pid files", "codex' locks")  # nothing is spent there


@pytest.mark.parametrize("instead", INSTEAD)
@pytest.mark.parametrize("what", FOLDERS)
def test_what_is_no_folder_is_not_an_empty_one(home: Home, what: str, instead: Callable[[Path], None]) -> None:
    path = home.folder / FOLDERS[what]
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(path, ignore_errors=True)
    instead(path)
    assert home.problems() == [str(path)]
    assert str(path) in home.of_agents() or what in NOT_COUNTED
    assert home.of_usage() == ([] if what in NOT_COUNTED else [str(path)])


@pytest.mark.parametrize("what", FOLDERS)
def test_what_is_not_there_at_all_is_nothing(home: Home, what: str) -> None:
    shutil.rmtree(home.folder / FOLDERS[what], ignore_errors=True)
    assert home.problems() == [] == home.of_usage()


@pytest.mark.parametrize("what", ["claude's projects", "codex' sessions", "codex' archive"])
def test_a_plain_list_tells_it_too(home: Home, what: str) -> None:
    """It lists no stored session, and yet it must not say that all is well."""
    path = home.folder / FOLDERS[what]
    shutil.rmtree(path, ignore_errors=True)
    as_dangling(path)
    assert [problem.path for problem in query(Scope(), home.env).problems] == [str(path)]


def test_a_file_that_somebody_left_among_the_folders_is_no_gap(home: Home) -> None:
    for folder in (
        home.claude / "projects",
        home.codex / "sessions",
        home.codex / "sessions/2026",
        home.demo / "sessions",
    ):
        (folder / ".DS_Store").write_text("x")
    (home.claude / "projects/-work/notes.txt").write_text("x")
    assert home.problems() == [] == home.of_usage()


@pytest.mark.parametrize("agent", IDS)
def test_the_sessions_of_other_folders_stay_known(home: Home, agent: str) -> None:
    before = {session.id: session.status for session in home.ask().sessions}
    for path in (".claude/projects/-other", ".codex/sessions/2026/01/02", "data/opencode/storage"):
        (home.folder / path).parent.mkdir(parents=True, exist_ok=True)
        as_dangling(home.folder / path)
    answer = home.ask()
    assert len(answer.problems) == 3
    assert {session.id: session.status for session in answer.sessions} == before


@pytest.mark.parametrize("name", ["daemon.lock", "daemon", "daemon/roster.json"])
@pytest.mark.parametrize("lives", [True, False])
def test_files_of_claudes_daemon(home: Home, name: str, lives: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """They name the sessions that the daemon brings back. Without a daemon nobody does."""
    monkeypatch.setattr("agentctl.agents.claude_code.store.has_daemon", lambda processes: lives)
    path = home.claude / name
    path.parent.mkdir(exist_ok=True)
    as_dangling(path)
    assert home.problems() == [str(path)]
    (session,) = [session for session in home.ask().sessions if session.agent == "claude-code"]
    assert session.inferred == lives


# One transcript


@pytest.mark.parametrize("agent", IDS)
def test_list_and_status_agree_on_a_transcript_that_leads_nowhere(home: Home, agent: str) -> None:
    path = home.files[agent]
    path.unlink()
    as_dangling(path)
    shown = {session.id: session.status for session in home.ask().sessions}
    assert shown[IDS[agent]] == "unknown" and str(path) in home.problems() and home.of_usage() == [str(path)]
    (session,) = query_session(IDS[agent], home.env).sessions
    assert session.status == "unknown"


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "NULs": lambda text: bytes(len(text)),
    "NULs at its end": lambda text: text + bytes(4096),
    "UTF-16": lambda text: text.decode().encode("utf-16"),
    "gzip": gzip.compress,
    "another format": lambda text: b"- a: list\n- of: yaml\n" * 20,
    "JSON of another program": lambda text: b'{"level": "info", "msg": "hello"}\n' * 20,
    "a JSON list": lambda text: b"[1, 2, 3]\n",
}


@pytest.mark.parametrize("agent", IDS)
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_transcript_that_says_nothing_says_of_no_turn_that_it_ended(home: Home, agent: str, damage: str) -> None:
    path = home.files[agent]
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    (session,) = [session for session in home.ask().sessions if session.agent == agent]
    assert (session.status, session.turn) == ("unknown", UNKNOWN)
    assert str(path) in home.problems()
    assert query_session(IDS[agent], home.env).sessions[0].status == "unknown"
    if damage != "JSON of another program":
        assert home.of_usage() == [str(path)]


@pytest.mark.parametrize("agent", IDS)
def test_an_empty_transcript_is_not_firmly_done(home: Home, agent: str) -> None:
    home.files[agent].write_bytes(b"")
    (session,) = [session for session in home.ask().sessions if session.agent == agent]
    assert session.status == "unknown" or session.inferred


@pytest.mark.parametrize("agent", ["claude-code", "codex"])
def test_an_end_with_half_a_record_behind_it_is_inferred(home: Home, agent: str) -> None:
    """The next prompt may have been cut."""
    path = home.files[agent]
    sample = {"claude-code": CLAUDE, "codex": CODEX}[agent]
    done = next(one for one in sample if ends_well(home, path, one))
    path.write_bytes(done.read_bytes() + b'{"parentUuid":"x","type":"us')
    (session,) = [session for session in home.ask().sessions if session.agent == agent]
    assert session.status == "unknown" or session.inferred


RECORD_OF = {  # the next prompt, as each agent writes it
    "claude-code": b'{"parentUuid":null,"type":"user","message":{"role":"user","content":"Go on."},"uuid":"u9"%s}',
    "codex": b'{"type":"response_item","payload":{"type":"message","role":"user","content":[]%s}}',
    "demo": b'{"at": "2026-11-15T18:00:09.000Z", "event": "prompt", "text": "Go on."%s}',
}
BAD: dict[str, Callable[[bytes], bytes]] = {
    "a bad byte": lambda record: record % b',"x":"\xff"',
    "nested too deeply": lambda record: record % (b',"x":' + b"[" * 900 + b"]" * 900),
    "a huge number": lambda record: record % (b',"x":' + b"9" * 5000),
    "two in one line": lambda record: (record % b"")[:40] + record % b"",
}


@pytest.mark.parametrize("agent", IDS)
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("brief", [True, False])
def test_a_whole_line_that_cannot_be_decoded_may_be_the_one_that_decides(
    home: Home, agent: str, bad: str, brief: bool
) -> None:
    """It may be the next prompt: then its turn is open."""
    path = home.files[agent]
    for sample in {"claude-code": CLAUDE, "codex": CODEX}.get(agent, ()):
        if ends_well(home, path, sample):
            break
    path.write_bytes(path.read_bytes() + BAD[bad](RECORD_OF[agent]) + b"\n")
    found = query(Scope(since=0.0, brief=brief), home.env).sessions
    (session,) = [session for session in found if session.agent == agent]
    assert (session.status, session.turn) == ("unknown", UNKNOWN)


@pytest.mark.parametrize("agent", IDS)
@pytest.mark.parametrize("bad", BAD)
def test_tokens_in_a_line_that_cannot_be_decoded_are_missed(home: Home, agent: str, bad: str) -> None:
    """`usage` says that not all was counted, also on the next call, which goes on from there."""
    path = home.files[agent]
    record = b'{"type": "%b", "' % {"claude-code": b"assistant", "codex": b"token_count", "demo": b"prompt"}[agent]
    record += b'usage": 1%s}'
    assert home.of_usage() == []
    path.write_bytes(path.read_bytes() + BAD[bad](record) + b"\n")
    assert home.of_usage() == [str(path)]
    assert home.of_usage() == [str(path)]


def ends_well(home: Home, path: Path, sample: Path) -> bool:
    shutil.copy(sample, path)
    answer = query(Scope(since=0.0), home.env)
    return any(
        session.status == "done" and not session.inferred and session.path == str(path) for session in answer.sessions
    )


@pytest.mark.parametrize("agent", IDS)
@pytest.mark.parametrize("since", [0.0, 1_000_000.0])
def test_a_time_before_1970_hides_no_session(home: Home, agent: str, since: float) -> None:
    for path in (home.files[agent], home.files[agent].parent):
        os.utime(path, (-1000, -1000))
    assert IDS[agent] in {session.id for session in home.ask(since).sessions}
    assert home.of_usage() == []


# A folder that can be listed, and not entered: as somebody whom modes bind

ASK = """
import json, os, sys
from agentctl.query.sessions import Scope, query, query_session
from agentctl.agents import load_all
from agentctl.usage.query import Question, spent
answer = query(Scope(since=0.0), os.environ)
usage = spent(Question("agent"), load_all(), [], os.environ, lambda done, whole: None)
one = query_session(sys.argv[1], os.environ).sessions[0]
print(json.dumps([
    {session.id: session.status for session in answer.sessions},
    [problem.path for problem in answer.problems], [problem.path for problem in usage.problems], one.status,
]))
"""


@pytest.mark.parametrize("agent", ["claude-code", "codex"])
def test_a_folder_that_can_be_listed_and_not_entered(home: Home, agent: str) -> None:
    folder = home.files[agent].parent
    folder.chmod(0o400)
    bound = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    words = [*bound, sys.executable, "-c", ASK, IDS[agent]]
    env = {**home.env, "PYTHONPATH": os.pathsep.join(sys.path)}
    try:
        done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
    finally:
        folder.chmod(0o700)
    shown, problems, counted, one = json.loads(done.stdout)
    assert shown[IDS[agent]] == one == "unknown"
    assert problems == [str(folder)] == counted[:1]
    assert [status for id, status in shown.items() if id != IDS[agent]] != ["unknown"] * 2


# OpenCode


@pytest.fixture
def opencode(tmp_path: Path) -> OpenCodeHome:
    home = OpenCodeHome(tmp_path)
    home.session("ses_a", 10)
    home.prompt("ses_a", 11)
    home.step("ses_a", 12, end=13, finish="stop")
    return home


def ask_opencode(home: OpenCodeHome) -> tuple[list[str], list[str], list[str]]:
    """What a query shows, what it could not read, and what `usage` could not."""
    answer = query(Scope(agents=("opencode",), since=0.0), home.env)
    agents = [agent for agent in load_all() if agent.NAME == "opencode"]
    counted = spent(Question("agent"), agents, [], home.env, lambda done, whole: None)
    return (
        [session.id for session in answer.sessions],
        [problem.problem for problem in answer.problems],
        [problem.problem for problem in counted.problems],
    )


def test_a_database_without_its_table_of_sessions(opencode: OpenCodeHome) -> None:
    assert ask_opencode(opencode) == (["ses_a"], [], [])
    opencode._do("alter table session rename to session_old")
    ids, problems, counted = ask_opencode(opencode)
    assert ids == [] and "no table of sessions" in problems[0] and "no table of sessions" in counted[0]


def test_a_database_that_was_cut_after_its_first_page(opencode: OpenCodeHome) -> None:
    path = str(opencode.data / "opencode.db")
    connection = sqlite3.connect(path)
    connection.execute("pragma wal_checkpoint(truncate)")
    connection.execute("pragma journal_mode = delete")
    connection.close()
    os.truncate(path, 4096)
    ids, problems, counted = ask_opencode(opencode)
    assert ids == [] and problems and counted


# Which gap blocks which answer


@given(st.lists(st.sampled_from([(HOLDERS, None), (HOLDERS, "a"), (SESSIONS, None), (RECORD, "a"), (DETAIL, None)])))
def test_only_a_gap_that_hides_who_is_on_it_keeps_an_end_from_being_firm(kinds: list[tuple[str, str | None]]) -> None:
    noted = [Gap("amber", "broken", "/s/x", hides, session) for hides, session in kinds]
    view = StoreView("amber", A, gaps.why_unseen(noted), None, gaps.unseen_sessions(noted))
    found = {one.id: one for one in see(view, rec(WORKING, id="a"), rec(WORKING, id="b")).sessions}
    for id in "ab":
        hidden = (HOLDERS, None) in kinds or (HOLDERS, id) in kinds
        assert (found[id].process == UNKNOWN) == hidden, (id, kinds)
        assert (found[id].process == GONE) == (not hidden)


def test_a_gap_below_an_ignored_path_neither_blocks_nor_shows(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    path = home.claude / "sessions"
    as_dangling(path)
    shutil.rmtree(home.codex)
    as_dangling(home.codex)
    assert home.problems() == [str(home.codex), str(path)] and home.of_usage() == [str(home.codex)]
    monkeypatch.setattr(config, "ignored_in", lambda settings: (str(home.claude), str(home.codex)))
    answer = home.ask()
    assert answer.problems == () and home.of_usage() == []
    assert not any(session.inferred for session in answer.sessions)
    assert str(path) in home.of_agents()  # `agents` still shows it
