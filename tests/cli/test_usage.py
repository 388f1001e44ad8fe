"""`agentctl usage` as a person or a script uses it."""

from __future__ import annotations

import json
import os
import shutil
import time
from typing import TYPE_CHECKING, Any

import pytest

from agentctl import config
from agentctl.cli import format, usage
from tests.support.launch_home import Home
from tests.support.worlds import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path

ROW = {"key", "tokens", "cost_usd", "cost_estimated", "cost_complete", "sessions"}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    found = Home(tmp_path)
    shutil.copytree(FIXTURES / "claude" / "subagent_finished" / ".claude", tmp_path / ".claude")
    shutil.copytree(FIXTURES / "codex" / "finished_ok" / "codex_home", tmp_path / ".codex")
    return found


def ask(home: Home, *words: str, code: int = 0) -> Any:
    done = home.agentctl("usage", "--json", *words)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def prices(home: Home, text: str) -> None:
    folder = home.folder / "config" / "agentctl"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(text)


def test_the_json_shape(home: Home) -> None:
    for by in ("day", "agent", "model", "project", "group", "session"):
        answer = ask(home, "--by", by, "--since", "all")
        assert list(answer) == ["schema", "by", "rows", "total", "problems"]
        assert (answer["schema"], answer["by"], answer["problems"]) == (1, by, [])
        more = {"agent", "parent", "cwd"} if by == "session" else set()
        for row in answer["rows"]:
            assert set(row) == ROW | more
            kinds = ["input", "output", "cache_read", "cache_write", "reasoning", "total"]
            assert list(row["tokens"]) == kinds
        assert set(answer["total"]) == ROW
        assert answer["total"]["tokens"]["output"] == 168 + 100
        assert answer["total"]["sessions"] == 2
        assert (answer["total"]["cost_usd"], answer["total"]["cost_complete"]) == (None, False)
    (day,) = ask(home, "--since", "all")["rows"]
    assert day["key"] == "2026-11-15"


def test_one_agent_and_a_span_of_time(home: Home) -> None:
    assert ask(home, "--agent", "claude", "--since", "2026-11-15", "--until", "2026-11-15")["total"]["sessions"] == 1
    assert ask(home, "--since", "2026-11-16")["rows"] == []
    assert ask(home, "--until", "2026-11-14", "--since", "all")["rows"] == []
    assert ask(home, "--since", "1s")["total"]["tokens"]["total"] == 0
    for words in (("--since", "12"), ("--since", "2026-13-01"), ("--until", "soon"), ("--agent", "nobody")):
        done = home.agentctl("usage", *words)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr


def test_prices_of_the_configuration(home: Home) -> None:
    prices(home, '[prices."claude-*"]\ninput = 1\noutput = 1.0\ncache_read = 1\ncache_write = 1\n')
    rows = {row["key"]: row for row in ask(home, "--by", "agent", "--since", "all")["rows"]}
    assert (rows["claude-code"]["cost_usd"], rows["claude-code"]["cost_estimated"]) == (4 * 65 / 1e6, True)
    assert (rows["codex"]["cost_usd"], rows["codex"]["cost_estimated"]) == (None, False)
    assert "~$0.0003" in home.agentctl("usage", "--by", "agent", "--since", "all").stdout


@pytest.mark.parametrize(
    "text",
    [
        "prices = 3",
        '[prices]\n"m" = 3',
        '[prices."m"]\ninput = "3"',
        '[prices."m"]\ninput = -1',
        '[prices."m"]\ninput = nan',
        '[prices."m"]\nother = 1',
        '[prices."m"]',
    ],
)
def test_prices_that_are_not_understood(text: str, tmp_path: Path) -> None:
    (tmp_path / "agentctl").mkdir()
    (tmp_path / "agentctl" / "config.toml").write_text(text)
    env = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert config.prices(env) == []
    assert "prices" in next(config.problems(config.read(env))).problem


def test_the_group_of_a_launch(home: Home) -> None:
    done = home.agentctl("launch", "demo", "-p", "[[text:hello]]", "--group", "nightly", "--wait")
    assert done.returncode == 0, done.stderr
    id = done.stdout.split()[0]
    rows = {row["key"]: row for row in ask(home, "--by", "group")["rows"]}
    own = next(row for row in ask(home, "--by", "session")["rows"] if row["key"] == id)
    assert rows["nightly"]["tokens"] == own["tokens"]
    assert (rows["nightly"]["sessions"], own["agent"], own["cwd"]) == (1, "demo", str(home.work))
    status = json.loads(home.agentctl("status", id, "--json").stdout)["session"]["tokens"]
    assert {**status, "total": own["tokens"]["total"]} == own["tokens"]


def test_problems_are_said_and_strict_is_5(home: Home) -> None:
    (folder,) = (home.folder / ".claude" / "projects").iterdir()
    os.mkfifo(folder / "0.jsonl")
    done = home.agentctl("usage", "--since", "all")
    assert done.returncode == 0
    assert "could not be read" in done.stderr
    assert "268" in done.stdout
    (problem,) = ask(home, "--since", "all", "--strict", code=5)["problems"]
    assert (problem["agent"], problem["path"]) == ("claude-code", str(folder / "0.jsonl"))


@pytest.mark.parametrize("columns", ["20", "40", "60", "80", "200"])
def test_the_table_keeps_to_the_width(home: Home, columns: str) -> None:
    for by in ("day", "project", "session"):
        env = {**home.env, "COLUMNS": columns}
        lines = home.agentctl("usage", "--by", by, "--since", "all", env=env).stdout.splitlines()
        assert len(lines) >= 3
        assert lines[-1].startswith("total")
        assert "\x1b" not in "".join(lines)
        if int(columns) >= 40:
            assert max(map(len, lines)) <= int(columns)
        if int(columns) != 40:
            assert any("#" in line for line in lines) == (int(columns) > 40)


def test_help_and_nothing_at_all(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert "examples:" in home.agentctl("usage", "--help").stdout
    done = home.agentctl("usage")
    assert (done.returncode, done.stdout) == (0, "")
    assert "--since all" in done.stderr


def test_days_are_local(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    time.tzset()
    try:
        assert usage.moment("2026-11-15", 0.0, "--since") == 1794680100.0  # 2026-11-14T18:15Z
        assert usage.moment("2026-11-15", 0.0, "--until") == 1794680100.0 + 86400
        assert usage.first_day(1794680100.0 + 86400) == 1794680100.0 + 86400 - 29 * 86400
    finally:
        monkeypatch.undo()
        time.tzset()


def test_progress_is_for_people_who_wait(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with format.Progress("MB counted", 10**6) as progress:
        progress(1, 2)
        monkeypatch.setattr("sys.stderr.isatty", lambda: True)
        progress(1, 2)  # not yet
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(format, "SLOW", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    with format.Progress("MB counted", 10**6) as progress:
        progress(5_000_000, 9_000_000)
    assert capsys.readouterr().err == "\r5 of 9 MB counted\x1b[K\r\x1b[K"
    monkeypatch.setenv("TERM", "dumb")
    with format.Progress("slots compared") as progress:
        progress(1, 3)
    assert capsys.readouterr().err == "\r1 of 3 slots compared\n"
