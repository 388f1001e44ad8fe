"""The commands as a person or a script uses them: the real program, demo agents, a home of their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import agentctl
from agentctl import cli, errors
from agentctl.cli import output
from tests.support.demo_home import TIMEOUT, Home

if TYPE_CHECKING:
    from collections.abc import Iterator

SESSION_FIELDS = (
    "id agent status process turn agent_version last_turn reason error waiting_for pid process_key processes suspended "
    "terminal cwd branch model title prompt started_at updated_at ended_at exit_code signal timed_out tokens cost_usd "
    "parent forked_from group slot launch_id host inferred link evidence may_be_open_in doing status_since screens "
    "questions"
)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    found = Home(tmp_path)
    yield found
    found.end_all()


def ctl(home: Home, *arguments: str, code: int = 0, **env: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "agentctl", *arguments],
        env={**home.env, **env},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == code, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done


def ctl_json(home: Home, *arguments: str, code: int = 0) -> Any:
    return json.loads(ctl(home, *arguments, "--json", code=code).stdout)


def test_version_and_help(home: Home) -> None:
    assert ctl(home, "--version").stdout == f"agentctl {agentctl.__version__}\n"
    for words in ((), ("--help",), ("help",)):
        assert "examples:" in ctl(home, *words).stdout
    for verb in ("list", "status", "why", "wait", "agents"):
        assert "examples:" in ctl(home, verb, "--help").stdout
        assert ctl(home, "help", verb).stdout == ctl(home, verb, "--help").stdout


VERB_WORDS = [*((verb,) for verb in cli.VERBS), ("worktree", "list"), ("worktree", "clean")]


@pytest.mark.parametrize("words", VERB_WORDS, ids=" ".join)
def test_the_help_of_a_command_has_an_example_and_fits_a_terminal(home: Home, words: tuple[str, ...]) -> None:
    text = ctl(home, *words, "--help", COLUMNS="80").stdout
    assert f"\n  agentctl {' '.join(words)}" in text[text.index("\nexamples:\n") :]
    assert [line for line in text.splitlines() if len(line) > 80] == []


def test_help_shows_aliases_and_what_is_handed_on(home: Home) -> None:
    assert "aliases: ls = list, ps = list, logs = peek\n" in ctl(home, "--help").stdout
    for alias, verb in cli.ALIASES.items():
        text = ctl(home, alias, "--help").stdout
        assert f"\naliases: {', '.join(cli.aliases_of(verb))}\n" in text
        assert text == ctl(home, "help", alias).stdout == ctl(home, verb, "--help").stdout
    for verb in ("launch", "resume"):
        text = ctl(home, verb, "--help", COLUMNS="80").stdout
        assert "[-- AGENT OPTIONS]" in text[: text.index("\n\n")]
        assert " -- --max-turns 3" in text
    for verb in ("status", "why", "peek", "resume", "attach", "send", "stop", "wait"):
        assert "or a launch id" in ctl(home, verb, "--help").stdout


def test_a_launch_id_stands_for_its_session(home: Home) -> None:
    id = ctl(home, "launch", "demo", "-p", "Say hello.", "--wait").stdout.split()[0]
    launch_id = ctl_json(home, "status", id)["session"]["launch_id"]
    for verb in ("status", "why", "peek"):
        assert ctl_json(home, verb, launch_id)["session"]["id"] == id
    assert ctl(home, "resume", launch_id, "Say more.", "--wait").stdout.split()[0] == id


def test_the_page_names_the_commands_that_remove_expired_launches() -> None:
    page = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
    sentence = page[page.index("Commands that only read") : page.index("| where | what | until |")]
    assert set(sentence.split("`")[1::2]) == {*cli.SWEEPING}


def test_waiting_rows_come_first_and_ended_ones_only_with_all(home: Home) -> None:
    running, _ = home.start("-p", "[[sleep:300]]")
    home.run("-p", "[[text:hello]]")
    waiting, _ = home.start("-p", "[[ask:make coffee]]")
    home.wait_for_status(waiting, "waiting")
    assert [one["id"] for one in ctl_json(home, "list")["sessions"]] == [waiting, running]
    everything = ctl_json(home, "list", "-a")["sessions"]
    assert [one["status"] for one in everything] == ["waiting", "running", "done"]
    lines = ctl(home, "list").stdout.splitlines()
    assert lines[0].split() == ["ID", "STATUS", "AGENT", "MODEL", "PID", "AGE", "SINCE", "DIRECTORY", "WHAT"]
    assert lines[1].startswith(waiting[:8])
    assert lines[1].endswith("permission to run: make coffee")


def test_the_json_shapes_are_stable(home: Home) -> None:
    id, child = home.start("-p", "[[sleep:300]]")
    listed = ctl_json(home, "list")
    assert (sorted(listed), listed["schema"]) == (
        ["matching", "not_kept", "not_shown", "problems", "schema", "sessions", "tools_left", "unattached"],
        1,
    )
    (session,) = listed["sessions"]
    assert set(session) == set(SESSION_FIELDS.split())
    assert (session["id"], session["pid"], session["status"], session["link"]) == (id, child.pid, "running", "exact")
    assert session["process_key"].endswith(f":{child.pid}:{session['process_key'].split(':')[2]}")
    assert session["started_at"].endswith("Z")
    assert (session["exit_code"], session["launch_id"], session["ended_at"]) == (None, None, None)
    status = ctl_json(home, "status", id)
    assert sorted(status) == ["not_kept", "problems", "schema", "session", "tools_left"]
    why = ctl_json(home, "why", id)
    of_why = ["certified", "not_kept", "problems", "rejected", "rule", "schema", "session", "sources", "tools_left"]
    assert sorted(why) == of_why
    for key in set(session) - {"tokens", "updated_at"}:  # it may have written in between
        assert session[key] == status["session"][key] == why["session"][key]


def test_filters(home: Home, tmp_path: Path) -> None:
    running, _ = home.start("-p", "[[sleep:300]]")
    idle, _ = home.start("-p", "[[idle]]")
    home.wait_for_status(idle, "idle")
    home.run("-p", "[[fail:no luck]]")

    def ids(*words: str) -> list[str]:
        return [one["id"] for one in ctl_json(home, "list", *words)["sessions"]]

    assert ids("--status", "idle") == [idle]
    assert ids("--status", "idle", "--status", "running") == [running, idle]
    (failed,) = ctl_json(home, "list", "--status", "failed")["sessions"]
    assert failed["error"] == "no luck"
    assert len(ids("-a", "-n", "2")) == 2
    assert ids("--cwd", str(tmp_path)) == [running, idle]
    assert ids("--cwd", str(tmp_path / "elsewhere")) == []
    assert ids("--agent", "codex") == []
    assert failed["id"] not in ids("-a", "--since", "0s")
    assert failed["id"] in ids("--since", "all")


def test_ids_by_unique_beginning(home: Home) -> None:
    home.run("-p", "x", "--session-id", "aaaaaaaa-0000-4000-8000-000000000001")
    home.run("-p", "x", "--session-id", "aaaaaaaa-0000-4000-8000-000000000002")
    assert "aaaaaaaa-0000-4000-8000-000000000001" in ctl(home, "status", "aaaaaaaa-0000-4000-8000-000000000001").stdout
    refused = ctl(home, "status", "aaaa", code=3).stderr
    assert "aaaaaaaa-0000-4000-8000-000000000001" in refused
    assert "aaaaaaaa-0000-4000-8000-000000000002" in refused
    shown = [line.split()[0] for line in ctl(home, "list", "-a").stdout.split("\n\n")[0].splitlines()[1:]]
    assert len(set(shown)) == 2
    for id in shown:
        ctl(home, "why", id)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("nonsense",), 2, "known: list, status, why, launch"),
        (("list", "--agent", "nobody"), 2, "known: claude-code, codex"),
        (("list", "--since", "soon"), 2, "such as 90s, 10m or 1.5h"),
        (("list", "--since", "12"), 2, "no unit; use s, m, h, d or w, such as 12h"),
        (("list", "--status", "tired"), 2, "waiting"),
        (("list", "-n", "many"), 2, "-n"),
        (("list", "-n", "-1"), 2, "-n"),
        (("list", "extra"), 2, "extra"),
        (("status",), 2, "ID"),
        (("status", ""), 2, "empty"),
        (("status", "ffff"), 3, "no session 'ffff'"),
        (("why", "\x1b[31mffff"), 3, "no session"),
        (("why", "../../etc/passwd"), 3, "no session"),
    ],
)
def test_bad_input_is_one_clear_line(home: Home, words: tuple[str, ...], code: int, says: str) -> None:
    done = ctl(home, *words, code=code)
    assert says in done.stderr
    assert done.stdout == ""
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize(
    ("words", "plain", "text"),
    [
        ("demo -p x", "demo -p x", None),
        ("demo -p --help", "demo -p text", "--help"),
        ("demo --prompt -- --json", "demo --prompt text --json", "--"),
        ("demo -p - --json", "demo -p - --json", None),  # stdin
        ("demo -p", "demo -p", None),
        ("demo -p -x -p y", "demo -p text -p y", None),  # the last one counts
        ("demo -- -p --help", "demo -- -p --help", None),  # for the agent
        ("demo -p -x -- -p -y", "demo -p text -- -p -y", "-x"),
    ],
)
def test_a_text_that_looks_like_an_option_is_a_text(words: str, plain: str, text: str | None) -> None:
    taken = {} if text is None else {"prompt": text}
    assert cli.without_texts(words.split(), ("-p", "--prompt")) == (plain.split(), taken)


def test_a_prompt_without_its_option_gets_a_hint(home: Home) -> None:
    assert "Fix the bug; the prompt goes after -p" in ctl(home, "launch", "demo", "Fix the bug", code=2).stderr
    assert "-p" not in ctl(home, "launch", "demo", "--frob", code=2).stderr.splitlines()[-1]


def test_an_unreadable_store_is_a_problem_and_strict_says_so(home: Home, tmp_path: Path) -> None:
    running, _ = home.start("-p", "[[sleep:300]]")
    broken = tmp_path / ".codex"
    broken.write_text("a file where the store should be")
    done = ctl(home, "list")
    assert running[:8] in done.stdout
    assert str(broken) in done.stderr
    ctl(home, "list", "--strict", code=5)
    (problem,) = ctl_json(home, "list")["problems"]
    assert (problem["agent"], problem["path"]) == ("codex", str(broken))
    assert ".codex" in ctl(home, "status", "ffff", code=5).stderr  # it may be there


def test_a_broken_configuration_names_its_path(home: Home, tmp_path: Path) -> None:
    config = tmp_path / "config" / "agentctl" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("[stores\n")
    assert str(config) in ctl(home, "list").stderr
    assert str(config) in ctl(home, "prune", code=2).stderr


def test_a_configured_store_is_read(home: Home, tmp_path: Path) -> None:
    home.run("-p", "x")
    moved = tmp_path / "elsewhere"
    home.root.rename(moved)
    assert ctl_json(home, "list", "-a")["sessions"] == []
    config = tmp_path / "config" / "agentctl" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'[stores]\ndemo = ["{moved}"]\n')
    assert len(ctl_json(home, "list", "-a")["sessions"]) == 1


def test_escape_sequences_are_shown_and_not_sent(home: Home) -> None:
    home.run("-p", "\x1b]0;owned\x07\x1b[2Jred \u202etxt.exe [[text:x]]")
    for words in (("list", "-a"), ("status", next(iter(home.root.glob("sessions/*"))).name)):
        shown = ctl(home, *words).stdout
        assert "\x1b" not in shown
        assert "\u202e" not in shown
        assert "red" in shown


def test_colour_only_on_a_terminal(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert output.coloured("x", "waiting").startswith("\x1b[")
    monkeypatch.setenv("NO_COLOR", "1")
    assert output.coloured("x", "waiting") == "x"


def test_a_reader_that_goes_away_is_no_error(home: Home) -> None:
    for _ in range(3):
        home.run("-p", "x")
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "agentctl", "list", "-a", "--json"],
        env=home.env,
        stdout=write,
        stderr=subprocess.PIPE,
        timeout=TIMEOUT,
        check=False,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


def test_why_tells_rule_evidence_and_sources(home: Home) -> None:
    id, child = home.start("-p", "[[sleep:300]]")
    home.wait_for_event(id, "prompt")
    child.kill()
    child.wait()
    shown = ctl(home, "why", id).stdout
    assert "stopped" in shown
    assert "key-gone" in shown
    assert f"pid {child.pid} of start tick" in shown
    assert "events.jsonl" in shown
    assert "the kernel's process table" in shown


def test_a_suspended_agent_is_alive_and_marked(home: Home) -> None:
    id, child = home.start("-p", "[[sleep:300]]")
    child.send_signal(19)
    try:
        session = ctl_json(home, "status", id)["session"]
        assert (session["status"], session["suspended"]) == ("running", True)
        assert "running+" in ctl(home, "list").stdout
    finally:
        child.send_signal(18)


def test_agents_lists_stores_and_binaries_without_running_them(home: Home, tmp_path: Path) -> None:
    home.run("-p", "x")
    tools = tmp_path / "tools"
    package = tools / "node_modules" / "codex"
    package.mkdir(parents=True)
    (package / "package.json").write_text('{"version": "9.9.9"}')
    (package / "codex").write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran'\n")
    (package / "codex").chmod(0o755)
    (tools / "codex").symlink_to(package / "codex")
    rows = {
        row["agent"]: row
        for row in json.loads(ctl(home, "agents", "--json", PATH=f"{tools}:{home.env['PATH']}").stdout)["agents"]
    }
    (store,) = rows["demo"]["stores"]
    assert store == {"root": str(home.root), "state": "readable", "sessions": 1, "ignored": False, "problems": []}
    assert rows["codex"]["binaries"][0]["version"] == "9.9.9"
    assert rows["codex"]["binaries"][0]["certified"] is False
    assert rows["claude-code"]["stores"][0]["state"] == "not there"
    assert not (tmp_path / "ran").exists()
    assert "not tested" in ctl(home, "agents", PATH=f"{tools}:{home.env['PATH']}").stdout


def test_the_python_api_gives_the_same_sessions(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    id, child = home.start("-p", "[[sleep:300]]")
    for name, value in home.env.items():
        monkeypatch.setenv(name, value)
    (session,) = agentctl.list_sessions(agents=["demo"]).sessions
    assert isinstance(session, agentctl.Session)
    assert (session.id, session.pid, session.status) == (id, child.pid, "running")
    again = agentctl.get_session(id[:6])
    assert (again.id, again.process_key, again.status) == (id, session.process_key, "running")
    with pytest.raises(errors.NotFound):
        agentctl.get_session("ffff")
    with pytest.raises(AttributeError):
        session.status = "done"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("a\nb\tc", "a b c"),
        ("\x1b[31m", "\\x1b[31m"),
        ("é日", "é日"),
        ("\udcff", "\\udcff"),
        (None, ""),
    ],
)
def test_plain(text: str | None, shown: str) -> None:
    assert output.plain(text) == shown


def test_short_ids_stay_unique() -> None:
    ids = ["01a1e07f-6a0d-7181", "01a1e07f-6a0d-7182", "99999999-0000"]
    assert output.short_ids(ids) == {ids[0]: ids[0], ids[1]: ids[1], ids[2]: "99999999"}


# How a question ends


def test_a_question_says_all_before_it_leaves(home: Home, tmp_path: Path) -> None:
    """More than a pipe holds, to a reader that is late; and what a program hung on its end is done."""
    assert home.run("-p", "x" * 400).returncode == 0
    (one,) = (home.root / "sessions").iterdir()
    for number in range(99):
        shutil.copytree(one, one.parent / f"00000000-0000-4000-8000-{number:012}")
    mark = tmp_path / "mark"
    code = (
        f"import atexit, sys; atexit.register(open, {str(mark)!r}, 'w'); "
        "from agentctl.__main__ import main; sys.exit(main())"
    )
    words = ["list", "-a", "--since", "all", "--json"]
    child = subprocess.Popen(
        [sys.executable, "-c", code, *words], env=home.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    stdout, stderr = child.communicate(timeout=TIMEOUT)
    assert (child.returncode, stderr) == (0, b"")
    assert len(stdout) > 65536
    assert len(json.loads(stdout)["sessions"]) == 100
    assert mark.exists()


@pytest.mark.parametrize("words", [["status", "nothing-like-it"], ["why", "nothing-like-it"], ["peek", "nothing"]])
def test_a_question_leaves_with_its_code(home: Home, words: list[str]) -> None:
    assert "nothing" in ctl(home, *words, code=3).stderr


@pytest.mark.parametrize("words", ["list", "list --json", "agents", "stop no-such-session"])
def test_a_closed_stdout_shows_no_traceback(home: Home, words: str) -> None:
    """As from a service that closes all descriptors: `agentctl ... >&-`."""
    command = f'"{sys.executable}" -m agentctl {words} >&-'
    done = subprocess.run(
        ["sh", "-c", command], env=home.env, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    assert "Traceback" not in done.stderr


@pytest.mark.linux  # has /dev/full
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("list",), 0),
        (("list", "--cwd", "."), 2),
        (("launch", "demo", "-p", "x"), 2),
        (("worktree", "list"), 2),
        (("lock", "."), 2),
    ],
)
def test_a_directory_that_was_deleted_under_us(home: Home, tmp_path: Path, words: tuple[str, ...], code: int) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f'cd "{gone}" && rmdir "{gone}" && exec "$@"'
    done = subprocess.run(
        ["sh", "-c", script, "sh", sys.executable, "-m", "agentctl", *words],
        env=home.env, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr and "report" not in done.stderr
    assert code == 0 or "was deleted" in done.stderr


def test_what_could_not_be_said_is_no_success(home: Home) -> None:
    home.run("-p", "x")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "agentctl", "list", "-a"],
            env=home.env, stdout=full, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT, check=False,
        )  # fmt: skip
    assert done.returncode != 0
    assert "No space left" in done.stderr


@pytest.mark.parametrize(
    ("typed", "known"), [("lst", "list"), ("kill", "stop"), ("show", "status"), ("lanch", "launch"), ("log", "peek")]
)
def test_a_mistyped_command_gets_a_suggestion(typed: str, known: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.overview([typed])
    assert ended.value.code == 2
    assert f"did you mean `agentctl {known}`?" in capsys.readouterr().err
    assert cli.meant("qqqq") == ""
