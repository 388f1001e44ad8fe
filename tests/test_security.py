"""What docs/security.md promises, through the real command: who may read our files, what never gets into them, what a
hostile name or word can do, and that a link leads nowhere."""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from agentctl.cli import output
from agentctl.errors import Refused
from agentctl.files import private
from agentctl.files.bounded import is_session_id
from agentctl.files.redaction import holds_secret, redact, redact_text
from agentctl.query import remembered
from tests.support.launch_home import LONG, Home

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

linux_only = pytest.mark.linux
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


@linux_only
@pytest.mark.parametrize("words", [("launch", "demo", "-p", "x"), ("lock", ".")])
def test_a_folder_of_the_persons_own_is_not_closed_to_others(home: Home, words: tuple[str, ...]) -> None:
    """AGENTCTL_HOME names a folder with other files by mistake."""
    home.state.mkdir(exist_ok=True)
    home.state.chmod(0o755)
    (home.state / "thesis.tex").touch()
    done = home.agentctl(*words)
    assert (done.returncode, done.stdout) == (4, "")
    assert "it has other files (thesis.tex)" in done.stderr
    assert stat.S_IMODE(home.state.stat().st_mode) == 0o755
    (home.state / "thesis.tex").unlink()
    (home.state / "locks").mkdir()  # ours, as it comes from a backup
    assert home.agentctl(*words).returncode == 0
    assert stat.S_IMODE(home.state.stat().st_mode) == 0o700


@pytest.mark.parametrize("folder", ["agentctl", "agentctl/stores"])
def test_a_state_folder_of_others_names_no_store(tmp_path: Path, folder: str) -> None:
    env = {"XDG_STATE_HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path)}
    assert remembered.remember({"demo": ["/somewhere"]}, env) == ()
    assert remembered.recall(env).roots == {"demo": ["/somewhere"]}
    (tmp_path / folder).chmod(0o777)
    memory = remembered.recall(env)
    assert memory.roots == {}
    assert "others can write to it" in memory.problems[0].problem


# Links


@pytest.mark.parametrize("text", ["precious", "{}"])
def test_a_link_in_the_list_of_stores_is_never_written_through(tmp_path: Path, text: str) -> None:
    env = {"XDG_STATE_HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path)}
    victim, folder = tmp_path / "victim", tmp_path / "agentctl" / "stores"
    victim.write_text(text)
    folder.mkdir(mode=0o700, parents=True)
    (folder / remembered.NAME).symlink_to(victim)
    told = remembered.remember({"demo": ["/somewhere"]}, env)
    assert victim.read_text() == text
    written = json.loads((folder / remembered.NAME).read_text()) if not told else None
    assert written == (None if text == "precious" else {"demo": ["/somewhere"]})


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
        ("PGPASSWORD=hunter2 psql -c 'select 1'", True),
        ("PGPASSWORD=$PW psql", False),
        ("MYSQL_PWD=hunter2 mysql", True),
        ("DB_PASS=hunter2 notify", True),
        ("curl -u me:hunter2 https://host/x", True),
        ("curl --user 'me:hunter2' https://host/x", True),
        ('curl -u "$USER:$PW" https://host/x', False),
        ("curl -u me:$PW https://host/x", False),
        ("curl https://host/x | sort -u a:b", False),
        ("sshpass -p hunter2 ssh host", True),
        ("sshpass -phunter2 ssh host", True),
        ('sshpass -p "$PW" ssh host', False),
        ("sshpass -e ssh host", False),
        ("mysql -phunter2 db", True),
        ("mysql -p db", False),
        ("redis-cli -a hunter2 ping", True),
        ("mkdir -p here && curl -sS x", False),
    ],
)
def test_what_a_key_in_a_hook_is(command: str, secret: bool) -> None:
    assert holds_secret(command) == secret


@pytest.mark.parametrize("kept", [redact_text, lambda text: " ".join(redact(["x", *shlex.split(text)]))])
@pytest.mark.parametrize(
    "command",
    [
        "x --env=GITHUB_TOKEN=s3cretvalue99",
        """x --settings '{"env":{"ANTHROPIC_AUTH_TOKEN":"s3cretvalue99"}}'""",
        """x -c 'p.set={OPENAI_API_KEY="s3cretvalue99"}'""",
        "curl -H x-api-key:s3cretvalue99 h",
        "curl -H 'Authorization: token s3cretvalue99' h",
        "curl 'https://h/?a=b&token=s3cretvalue99'",
        "curl https://u:p@s3cretvalue99@h/",
        "ntfy publish --token s3cretvalue99 x",
        "x --pass s3cretvalue99",
        "x --password -s3cretvalue99",
        "export FOO_TOKEN=s3cretvalue99; x",
        "PASSWORD='s3 cretvalue99' x",
        """curl -d '{"token": "s3cretvalue99"}' h""",
        "curl https://hooks.slack.com/services/T00000000/B00000000/s3cretvalue99",
        "curl https://api.telegram.org/bot123456:AAs3cretvalue99s3cretvalue99s3cre/sendMessage",
        "curl https://discord.com/api/webhooks/123456/s3cretvalue99",
    ],
)
def test_one_recogniser_for_hooks_texts_and_arguments(command: str, kept: Callable[[str], str]) -> None:
    assert holds_secret(command)
    assert "cretvalue99" not in kept(command)


@pytest.mark.parametrize(
    "command",
    [
        "notify --token $TOKEN",
        "gh auth login --with-token < file",
        "curl -H 'Authorization: token $TOKEN' h",
        "curl -H 'x-api-key: $KEY' h",
        "curl https://h/?token=$TOKEN",
        "curl https://hooks.slack.com/services/$SLACK",
        "sort --key 2 max_tokens=100 x.md",
        "echo the token: whatever",
    ],
)
def test_a_variable_that_holds_a_key_is_none(command: str) -> None:
    assert not holds_secret(command)


def test_evidence_has_no_keys(home: Home) -> None:
    """A pending command is what a session waits for: the person has to see it, but for the key."""
    done = subprocess.Popen(
        [sys.executable, "-m", "agentctl.demo_agent", "-p", f"[[ask:curl -H 'Authorization: Bearer {KEY}' example]]"],
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


@pytest.mark.parametrize(
    "key",
    [
        "sk_live_0123456789abcdef",
        "rk_test_0123456789abcdef",
        "xai-0123456789abcdef",
        "gsk_0123456789abcdef",
        "dop_v1_0123456789abcdef",
        "SG.0123456789abcdefghijkl.0123456789abcdefghijklmnopqrstuvwxyz0123456",
        "glsa_0123456789abcdef",
        "hvs.0123456789abcdef",
        "AKIA0123456789ABCDEF",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA\n-----END OPENSSH PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq",  # cut off
        "PGPASSWORD=0123456789",
        "curl -u me:0123456789 x",
    ],
)
def test_keys_are_taken_out_of_what_is_kept(key: str) -> None:
    told = redact_text(f"use {key}")
    assert "[redacted]" in told
    assert not any(part in told for part in ("0123456789", "b3Blbn", "MIIEv"))


@pytest.mark.parametrize(
    "text",
    [
        "see msg.0123456789abcdefgh",
        "risk_management_is_hard",
        "a task-list-of-mine",
        "-----BEGIN CERTIFICATE-----\nMIIE",
    ],
)
def test_ordinary_words_are_left(text: str) -> None:
    assert redact_text(text) == text


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
