"""What a person typed is understood alike by every command: session ids, beginnings of them, launch ids, groups."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from agentctl.errors import NotFound, Refused
from agentctl.query.resolve import group_in, launch_named, resolve, resolve_session
from agentctl.query.sessions import Scope, settled_look
from tests.support.launch_home import Home

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    try:
        yield home
    finally:
        home.end_all()


def launched(home: Home, prompt: str, *words: str, ends: bool = False) -> tuple[str, str]:
    """(session id, launch id)"""
    done = home.agentctl("launch", "demo", "-p", prompt, "--json", *words)
    assert done.returncode == 0, done.stderr
    session = json.loads(done.stdout)["session"]
    if ends:
        assert home.agentctl("wait", session["id"]).returncode == 0
    return session["id"], session["launch_id"]


def test_a_launch_id_stands_for_its_session(home: Home) -> None:
    id, launch = launched(home, "[[sleep:300]]")
    for text in (id, id[:8], launch):
        found = resolve(text, home.env)
        assert found.session is not None and (found.session.id, found.session.status) == (id, "running")
        assert (found.launch.id if found.launch else None) == (launch if text == launch else None)
    for verb in ("status", "why", "peek"):
        by_launch, by_session = home.agentctl(verb, launch), home.agentctl(verb, id)
        assert by_launch.returncode == 0, by_launch.stderr
        assert id in by_launch.stdout + by_session.stdout if verb != "peek" else by_launch.stdout == by_session.stdout


def test_also_after_it_has_ended(home: Home) -> None:
    id, launch = launched(home, "an answer", ends=True)
    found = resolve(launch, home.env)
    assert found.session is not None and (found.session.id, found.session.status) == (id, "done")
    assert resolve_session(launch, home.env).answer.sessions[0].id == id


def test_what_is_no_launch_and_no_session(home: Home) -> None:
    assert launch_named("no-such-thing", home.env) is None
    assert launch_named("zzzzzzzzzz", home.env) is None
    with pytest.raises(NotFound, match="no session 'zzzzzzzzzz'"):
        resolve("zzzzzzzzzz", home.env)


def test_a_damaged_record_is_told_by_every_command(home: Home) -> None:
    _, launch = launched(home, "an answer", ends=True)
    (home.state / "launches" / launch / "launch.json").write_text("{")
    with pytest.raises(Refused, match="without it nobody can tell what was launched"):
        resolve(launch, home.env)
    for verb in ("status", "stop", "wait", "send", "attach", "peek", "why", "resume"):
        done = home.agentctl(verb, launch, *(["a text"] if verb in ("send", "resume") else []))
        assert (done.returncode, done.stdout) == (4, ""), (verb, done.stderr)
        assert "nobody can tell what was launched" in done.stderr


def test_a_group_has_its_sessions_and_what_has_none_yet(home: Home) -> None:
    running, first = launched(home, "[[sleep:300]]", "--group", "night")
    ended, second = launched(home, "an answer", "--group", "night", "--force", ends=True)
    launched(home, "another", "--group", "day", "--force", ends=True)
    now = group_in("night", settled_look(Scope(), home.env))
    assert [one.id for one in now.launches] == [first, second]
    assert [one.id for one in now.sessions] == [running]
    assert [one.id for one in now.without_session()] == [second]
    all = group_in("night", settled_look(Scope(since=0.0), home.env))
    assert {one.id for one in all.sessions} == {running, ended}
    assert all.without_session() == []


def test_an_unknown_group_names_those_that_there_are(home: Home) -> None:
    launched(home, "an answer", "--group", "night", ends=True)
    for words in (["list", "--group", "x"], ["stop", "--group", "x"], ["wait", "--group", "x"], ["compare", "x"]):
        done = home.agentctl(*words)
        assert done.returncode == 3, words
        assert done.stderr == "agentctl: no group 'x'; known: night\n"
