"""What docs/security.md promises, through the real command: who may read our files, what never gets into them, what a
hostile name or word can do, and that a link leads nowhere."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from agentctl import private, roots
from agentctl.cli import output
from agentctl.errors import Refused
from agentctl.redaction import holds_secret, redact_text
from agentctl.stores import is_session_id
from tests.launch_home import LONG, Home

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="launching needs Linux")
KEY = "sk-ant-api03-0123456789abcdefghij"
PLAIN_SECRET = "hunter2-correct-horse"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    try:
        yield home
    finally:
        home.end_all()


def files_below(*folders: Path) -> list[Path]:
    return [path for folder in folders if folder.exists() for path in (folder, *folder.rglob("*"))]


# Who may read


@linux_only
def test_what_we_write_is_ours_alone_whatever_the_umask(home: Home) -> None:
    home.launch("[[text:x]]", "--on-complete", "echo over", "--wait", preexec_fn=lambda: os.umask(0))
    home.agentctl("lock", str(home.work), preexec_fn=lambda: os.umask(0))
    home.agentctl("list", "-a", preexec_fn=lambda: os.umask(0))
    found = files_below(home.state, home.folder / "cache" / "agentctl")
    kinds = {path.name for path in found}
    assert {"launch.json", "output.log", "exits.jsonl", "hooks.jsonl"} <= kinds
    assert any(path.parent.name == "locks" for path in found)
    wrong = {path.name: oct(mode) for path in found if (mode := stat.S_IMODE(path.lstat().st_mode)) & 0o077}
    assert wrong == {}


@linux_only
def test_an_open_state_folder_is_closed(home: Home) -> None:
    (home.state / "launches").mkdir(parents=True)
    for folder in (home.state, home.state / "launches"):
        folder.chmod(0o755)
    home.launch("[[text:x]]")
    assert [stat.S_IMODE(one.stat().st_mode) for one in (home.state, home.state / "launches")] == [0o700, 0o700]


@pytest.mark.parametrize("who", ["another user's", "written by others", "a file"])
def test_a_folder_that_is_not_ours_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, who: str) -> None:
    folder = tmp_path / "state"
    if who == "a file":
        folder.write_text("")
    else:
        folder.mkdir()
        folder.chmod(0o777 if who == "written by others" else 0o700)
    if who == "another user's":
        monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    with pytest.raises(Refused, match="AGENTCTL_HOME"):
        private.make_private(str(folder))
    assert folder.is_file() or stat.S_IMODE(folder.stat().st_mode) == (0o777 if who == "written by others" else 0o700)


def test_a_cache_of_others_names_no_store(tmp_path: Path) -> None:
    env = {"XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    roots.remember({"demo": ["/somewhere"]}, env)
    assert roots.recall(env) == {"demo": ["/somewhere"]}
    (tmp_path / "agentctl").chmod(0o777)
    assert roots.recall(env) == {}


# Links


def test_a_link_in_the_cache_is_replaced_and_not_followed(tmp_path: Path) -> None:
    env = {"XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    victim, cache = tmp_path / "victim", tmp_path / "agentctl"
    victim.write_text("precious")
    cache.mkdir(0o700)
    (cache / roots.REMEMBERED).symlink_to(victim)
    roots.remember({"demo": ["/somewhere"]}, env)
    assert victim.read_text() == "precious"
    assert json.loads((cache / roots.REMEMBERED).read_text()) == {"demo": ["/somewhere"]}


@linux_only
@pytest.mark.parametrize("name", ["launch.json", "exits.jsonl", "output.log"])
def test_a_link_in_a_launch_is_not_written_through(home: Home, name: str) -> None:
    """Whoever can put one there is us; still, nothing of ours is written through it."""
    id = home.launch(LONG)
    folder = next((home.state / "launches").iterdir())
    victim = home.folder / "victim"
    victim.write_text("precious")
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(victim)
    home.agentctl("stop", id)
    home.agentctl("list", "-a")
    home.agentctl("prune")
    assert victim.read_text() == "precious"


# Secrets


@linux_only
def test_no_key_gets_into_what_we_keep_or_show(home: Home) -> None:
    env = {**home.env, "OPENAI_API_KEY": KEY, "GATEWAY_TOKEN": PLAIN_SECRET}
    words = ("--env", f"SOME_SECRET={PLAIN_SECRET}", "--json", "--wait")
    done = home.agentctl("launch", "demo", "-p", f"use {KEY} [[text:x]]", *words, env=env)
    assert done.returncode == 0, done.stderr
    kept = b"".join(path.read_bytes() for path in files_below(home.state) if path.is_file())
    assert b"OPENAI_API_KEY" in kept  # the name, for people who look for what was set
    assert KEY.encode() not in kept
    assert PLAIN_SECRET.encode() not in kept
    id = json.loads(done.stdout.strip().splitlines()[-1])["sessions"][0]["id"]
    for verb in ("status", "why"):
        shown = home.agentctl(verb, id, "--json", env=env)
        assert shown.returncode == 0
        assert PLAIN_SECRET not in shown.stdout + shown.stderr


@linux_only
def test_no_key_of_an_agents_last_words_gets_into_an_error(home: Home) -> None:
    done = home.agentctl("launch", "demo", "-p", "x", "--", f"--api={KEY}\x1b[2J")
    assert done.returncode == 1
    assert "sk-[redacted]" in done.stderr
    assert KEY not in done.stderr
    assert "\x1b" not in done.stderr


@linux_only
@pytest.mark.parametrize("name", ["--on-create", "--on-complete"])
@pytest.mark.parametrize(
    "command", [f"curl -H 'Authorization: Bearer {KEY}' x", "API_TOKEN=abc notify", "curl https://me:pass@host/x"]
)
def test_a_hook_with_a_key_is_not_kept(home: Home, name: str, command: str) -> None:
    done = home.agentctl("launch", "demo", "-p", "x", name, command)
    assert done.returncode == 2
    assert "variable" in done.stderr
    assert list((home.state / "launches").iterdir()) == []


@pytest.mark.parametrize(
    ("command", "secret"),
    [
        ('curl -H "Authorization: Bearer $TOKEN" x', False),
        ("API_TOKEN=$OTHER notify", False),
        ("API_TOKEN='$OTHER' notify", False),
        ("API_TOKEN=abc notify", True),
        (f"notify {KEY}", True),
        ("make monkey=1 && echo done", False),
    ],
)
def test_what_a_key_in_a_hook_is(command: str, secret: bool) -> None:
    assert holds_secret(command) == secret


def test_evidence_has_no_keys(home: Home) -> None:
    """A pending command is what a session waits for: the person has to see it, but for the key."""
    done = subprocess.Popen(
        [sys.executable, "-m", "agentctl.demo", "-p", f"[[ask:curl -H 'Authorization: Bearer {KEY}' example]]"],
        env=home.env,
        cwd=home.work,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    try:
        for _ in range(600):
            shown = json.loads(home.agentctl("list", "--json").stdout)
            if shown["sessions"] and shown["sessions"][0]["status"] == "waiting":
                break
        (session,) = shown["sessions"]
        assert "curl" in session["waiting_for"] and "[redacted]" in session["waiting_for"]
        why = home.agentctl("why", session["id"], "--json").stdout
        told = json.loads(why)["session"] if "session" in json.loads(why) else json.loads(why)
        assert KEY not in json.dumps({name: value for name, value in told.items() if name not in ("prompt", "title")})
    finally:
        done.kill()
        done.communicate()


def test_most_texts_are_not_looked_at_twice() -> None:
    assert redact_text("an ordinary line") == "an ordinary line"
    assert redact_text(f"KEY {KEY.upper().replace('SK', 'sk')}").startswith("KEY sk-[redacted]")


# Names


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("0199a213-81a7-7800-8aa0-bbab2a035a53", True),
        ("ses_5c1f0a9d4ffeXyz", True),
        ("agent:main:main", True),
        ("übung", True),
        ("", False),
        ("../x", False),
        ("a/../../x", False),
        ("/etc/passwd", False),
        (".hidden", False),
        ("..", False),
        ("-rf", False),
        ("a b", False),
        ("a\nb", False),
        ("a\x1b[31m", False),
        ("a\u202eb", False),
        ("a\0b", False),
        ("\ud800", False),
        ("x" * 201, False),
    ],
)
def test_what_may_be_the_name_of_a_session(text: str, good: bool) -> None:
    assert is_session_id(text) == good


@pytest.mark.parametrize("verb", ["status", "why", "peek", "stop", "wait", "resume"])
@pytest.mark.parametrize("id", ["../../bait", "bait/../../bait", "/", "..", "\x1b[31m", "x" * 5000])
def test_an_id_leads_nowhere(home: Home, verb: str, id: str) -> None:
    sessions = home.folder / "data" / "agentctl-demo" / "sessions"
    sessions.mkdir(parents=True)
    bait = home.folder / "data" / "bait"
    bait.mkdir()
    (bait / "events.jsonl").write_text('{"event": "session", "id": "bait", "secret": "BAIT"}\n')
    words = (id, "go on") if verb == "resume" else (id,)
    done = home.agentctl(verb, *words)
    assert done.returncode in (2, 3), done.stderr
    assert "BAIT" not in done.stdout + done.stderr
    assert "\x1b" not in done.stdout + done.stderr


def test_a_name_that_is_none_in_a_store_is_told_and_not_followed(home: Home) -> None:
    sessions = home.folder / "data" / "agentctl-demo" / "sessions"
    for name in ("-rf", "a\x1b[31m", "a b"):
        (sessions / name).mkdir(parents=True)
        (sessions / name / "events.jsonl").write_text('{"event": "session", "at": "2026-01-01T00:00:00Z"}\n')
    done = home.agentctl("list", "-a", "--since", "all", "--json")
    answer = json.loads(done.stdout)
    assert answer["sessions"] == []
    assert sum("no name for a session" in one["problem"] for one in answer["problems"]) == 3
    assert "\x1b" not in home.agentctl("list", "-a", "--since", "all").stderr


# Terminals


def test_what_was_typed_is_not_sent_to_the_terminal(home: Home) -> None:
    for words in (("\x1b[2J",), ("list", "--\x1b[2J"), ("status", "x", "\x1b[2J"), ("list", "--status", "\x1b[2J")):
        done = home.agentctl(*words)
        assert done.returncode == 2
        assert "\x1b" not in done.stdout + done.stderr, words


@pytest.mark.parametrize("char", ["\x1b", "\x9b", "\x07", "\u202e", "\u2066", "\x7f", "\u200b"])
def test_nothing_that_a_terminal_obeys_is_plain(char: str) -> None:
    assert char not in output.plain(f"a{char}b")
