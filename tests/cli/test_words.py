"""What people read if nothing is found: firm only if everything could be read. What a broken configuration stops."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from agentctl import cli, config
from agentctl.cli.output import in_what_was_read
from agentctl.model import Problem
from agentctl.query import remembered
from tests.cli.test_cli import ctl, ctl_json
from tests.support.demo_home import Home
from tests.test_config import configure

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PARTS = "in what could be read"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    found = Home(tmp_path)
    yield found
    found.end_all()


@pytest.fixture
def gap(home: Home, tmp_path: Path) -> Path:
    """A store that cannot be read."""
    path = tmp_path / "gone"
    remembered.remember({"demo": [str(path)]}, home.env)
    return path


def test_the_sentence() -> None:
    problems = [Problem("demo", "torn", f"/p/{number}") for number in range(5)]
    assert in_what_was_read("no sessions", [], "; hint") == "no sessions; hint"
    said = in_what_was_read("no sessions", problems[:1], "; hint")
    assert said == "no sessions in what could be read; hint; 1 place could not be read: /p/0"
    assert in_what_was_read("no x", [*problems, problems[0]]).endswith(
        "; 5 places could not be read: /p/0, /p/1, /p/2 and 2 more"
    )


EMPTY = {
    ("list",): "no sessions; `agentctl list -a` shows ended ones",
    ("list", "-a"): "no sessions",
    ("list", "--agent", "demo", "-a"): "no sessions match",
    ("list", "--status", "done"): "no sessions match",
    ("list", "--cwd", "/tmp", "-n", "0"): "no sessions match; `agentctl list -a` shows ended ones",
    ("locks",): "no directory is locked, and no agent is at work",
    ("usage",): "no tokens were used in this time; `agentctl usage --since all` shows all of them",
    ("usage", "--since", "all"): "no tokens were used",
}


@pytest.mark.parametrize(("words", "says"), EMPTY.items(), ids=map(" ".join, EMPTY))
def test_nothing_there(home: Home, words: tuple[str, ...], says: str) -> None:
    assert ctl(home, *words).stderr == f"{says}\n"


@pytest.mark.parametrize("words", EMPTY, ids=" ".join)
def test_nothing_in_what_could_be_read(home: Home, gap: Path, words: tuple[str, ...]) -> None:
    first, *others = ctl(home, *words).stderr.splitlines()
    assert PARTS in first
    assert "could not be read: ~/gone" in first
    assert any("agentctl agents forget" in line for line in others)


def test_a_list_of_no_rows_says_how_many_there_are(home: Home) -> None:
    home.run("-p", "Say hello.")
    assert ctl(home, "list", "-a", "-n", "0").stderr == "1 session; -n 0 shows none\n"
    assert ctl_json(home, "list", "-a", "-n", "0")["sessions"] == []
    (session,) = ctl_json(home, "list", "-a")["sessions"]
    assert ctl(home, "peek", session["id"], "-n", "0").stderr == ""


def test_a_list_of_some_rows_says_how_many_there_are(home: Home) -> None:
    assert "1 session" not in ctl(home, "agents", "--agent", "demo").stdout
    home.run("-p", "Say hello.")
    assert ", 1 session\n" in ctl(home, "agents", "--agent", "demo").stdout
    home.run("-p", "Say hello.")
    assert ", 2 sessions\n" in ctl(home, "agents", "--agent", "demo").stdout
    assert ctl(home, "list", "-a", "-n", "1").stderr == "-n 1 shows 1 of 2 sessions\n"
    assert ctl(home, "list", "-a", "-n", "2").stderr == ""
    cut = ctl_json(home, "list", "-a", "-n", "1")
    assert (len(cut["sessions"]), cut["matching"]) == (1, 2)


WRONG = {
    ("peek", "x", "-n", "-1"): "invalid count value",
    ("list", "-n", "-1"): "invalid count value",
    ("usage", "--since", "1d", "--until", "2d"): "--since 1d is not before --until 2d",
    ("usage", "--since", "2026-11-02", "--until", "2026-11-01"): "--since 2026-11-02 is not before --until 2026-11-01",
    ("usage", "--until", "60d"): "--since 30d is not before --until 60d",
}


@pytest.mark.parametrize("words", WRONG, ids=" ".join)
def test_what_makes_no_sense_is_refused(home: Home, words: tuple[str, ...]) -> None:
    assert WRONG[words] in ctl(home, *words, code=2).stderr
    assert "no tokens" in ctl(home, "usage", "--since", "2026-11-01", "--until", "2026-11-01").stderr


@pytest.mark.parametrize("verb", ["status", "why", "peek", "wait", "stop", "resume", "send", "attach"])
def test_an_id_that_is_not_found(home: Home, gap: Path, verb: str) -> None:
    more = {"resume": ("x",), "send": ("x",)}.get(verb, ())
    said = ctl(home, verb, "nosuch", *more, code=5).stderr
    assert f"no session 'nosuch' {PARTS}; not read: {gap}" in said
    remembered.forget(str(gap), home.env)
    assert PARTS not in ctl(home, verb, "nosuch", *more, code=3).stderr


GROUPS = [("list", "--group"), ("wait", "--group"), ("stop", "--group"), ("compare",)]


@pytest.mark.parametrize("words", GROUPS, ids=" ".join)
def test_a_group_that_is_not_found(home: Home, tmp_path: Path, words: tuple[str, ...]) -> None:
    assert "no group 'g'" in ctl(home, *words, "g", code=3).stderr
    ctl(home, "launch", "demo", "-p", "Say hello.", "--group", "g", "--cwd", str(tmp_path), "--wait")
    (record,) = tmp_path.glob("agentctl/launches/*/launch.json")
    record.write_bytes(b"{")
    said = ctl(home, *words, "g", code=5).stderr
    assert "no group 'g'" in said
    assert f"not read: {record}" in said


def test_agents_counts_only_what_it_has_read_whole(home: Home, gap: Path) -> None:
    home.run("-p", "Say hello.")
    rows = ctl_json(home, "agents", "--agent", "demo")["agents"][0]["stores"]
    assert [(row["root"], row["sessions"]) for row in rows] == [(str(home.root), 1), (str(gap), None)]
    (home.root / "sessions").rename(home.root / "kept")
    (home.root / "sessions").mkdir(mode=0o700)
    assert "readable, 0 sessions" in ctl(home, "agents", "--agent", "demo").stdout


def test_forget(home: Home, gap: Path) -> None:
    assert "which store?" in ctl(home, "agents", "forget", code=2).stderr
    assert "no remembered store" in ctl(home, "agents", "forget", str(home.root), code=3).stderr
    assert ctl(home, "agents", "forget", str(gap)).stdout == "forgot ~/gone (demo)\n"
    remembered.remember({"demo": [str(gap)]}, home.env)
    assert ctl_json(home, "agents", "forget", str(gap)) == {"schema": 1, "forgotten": str(gap), "agents": ["demo"]}
    assert ctl_json(home, "list")["problems"] == []


def test_what_is_ignored_is_still_shown(home: Home, gap: Path) -> None:
    configure(home.env, f"[stores]\nignore = [{json.dumps(str(gap))}]")
    assert ctl_json(home, "list")["problems"] == []
    found = ctl_json(home, "agents", "--agent", "demo")
    assert found["ignored"] == [str(gap)]
    assert [store["ignored"] for store in found["agents"][0]["stores"]] == [False, True]
    shown = ctl(home, "agents").stdout
    assert "~/gone: not there (ignored by config.toml)" in shown
    assert "ignored by config.toml: what cannot be read in ~/gone" in shown


# A broken configuration


LOOKING = {
    "list": (), "status": ("ID",), "why": ("ID",), "peek": ("ID",), "usage": (), "wait": ("ID",), "agents": (),
    "locks": (), "events": (), "daemon": ("logs",),
}  # fmt: skip
ACTING = {
    "launch": ("demo", "-p", "x"), "resume": ("ID", "x"), "send": ("ID", "x"), "stop": ("ID",), "lock": (".",),
    "unlock": (".",), "prune": (), "worktree": ("clean", "--merged"), "accept": ("g", "a"),
}  # fmt: skip


def test_every_command_looks_or_acts() -> None:
    assert set(cli.VERBS) == {*LOOKING, *ACTING, "compare", "attach", "completion"}
    assert {*LOOKING} <= {*cli.LOOKING}
    assert not {*ACTING} & {*cli.LOOKING}


@pytest.mark.parametrize("verb", LOOKING)
def test_what_only_looks_goes_on_and_names_the_file_and_the_line(home: Home, verb: str) -> None:
    home.run("-p", "Say hello.")
    (session,) = ctl_json(home, "list", "-a")["sessions"]
    path = configure(home.env, 'agent = "demo"\nretention =\n')
    said = ctl(home, verb, *(session["id"] if word == "ID" else word for word in LOOKING[verb])).stderr
    assert path in said
    assert "line 2" in said


@pytest.mark.parametrize("verb", ACTING)
def test_what_acts_refuses_in_one_line(home: Home, verb: str) -> None:
    path = configure(home.env, 'agent = "demo"\nretention =\n')
    done = ctl(home, verb, *ACTING[verb], code=2)
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"agentctl: {path}: ")
    assert "line 2" in line
    assert done.stdout == ""


@pytest.mark.parametrize("words", [("list",), ("usage",), ("agents",), ("locks",), ("prune",), ("lock", ".")])
def test_unknown_keys_are_named_by_every_command(home: Home, words: tuple[str, ...]) -> None:
    path = configure(home.env, 'retentoin = "7d"\n')
    assert f"agentctl: {path}: retentoin: unknown key; did you mean retention?" in ctl(home, *words).stderr


def test_a_problem_for_programs(home: Home) -> None:
    path = configure(home.env, "x = 1\n")
    problem = {"agent": config.OWNER, "problem": "x: unknown key", "path": path}
    for verb in ("list", "usage", "agents", "locks"):
        assert ctl_json(home, verb)["problems"] == [problem]
    assert ctl(home, "list", "--strict", code=5).stderr


def test_the_runner_still_finds_the_end_of_its_launch(home: Home, tmp_path: Path) -> None:
    """What the runner asks is no act of a person: a broken file must not lose the hook."""
    configure(home.env, "[agents.demo]\nmodle = 'x'\n")
    done = ctl(
        home, "launch", "demo", "-p", "Say hello.", "--cwd", str(tmp_path), "--wait", "--on-complete", "touch done"
    )
    assert "agents.demo.modle: unknown key; did you mean model?" in done.stderr
